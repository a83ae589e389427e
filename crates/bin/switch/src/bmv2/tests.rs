//! Tests the translation of BMv2's command lines.

use clap::Parser;
use testkit::text::cases;

use super::*;
use crate::options::{GrpcOption, PortSource};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn run_as(name: Name, line: &str) -> (Options, Vec<String>) {
    match translate(name, words(line)) {
        Ok(Outcome::Run { options, notices }) => {
            options.check().expect(line);
            (*options, notices)
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn grpc(line: &str) -> (Options, Vec<String>) {
    run_as(Name::SimpleSwitchGrpc, line)
}

fn rest(line: &str) -> Bmv2 {
    grpc(line).0.bmv2.expect("BMv2's part")
}

fn mistake(name: Name, line: &str) -> String {
    match translate(name, words(line)) {
        Err(Mistake(message)) => message,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_name_by_which_the_switch_is_started_selects_its_command_line() {
    for (path, name) in [
        ("simple_switch", Some(Name::SimpleSwitch)),
        ("/usr/bin/simple_switch_grpc", Some(Name::SimpleSwitchGrpc)),
        ("target/release/reprise-switch", None),
        ("simple_switch/reprise-switch", None),
        ("", None),
    ] {
        assert_eq!(Name::of(OsStr::new(path)), name, "{path}");
    }
}

#[test]
fn a_command_line_of_the_tutorials_mininet_switch_is_understood() {
    let line = "-i 1@s1-eth1 -i 2@s1-eth2 --pcap /tmp --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 \
        build/basic.json --log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255 \
        --priority-queues 8";
    let (options, notices) = grpc(line);
    let ports = options.ports.iter().map(ToString::to_string);
    assert_eq!(ports.collect::<Vec<_>>(), ["1@s1-eth1", "2@s1-eth2"]);
    assert_eq!(
        options.program.as_deref(),
        Some(Path::new("build/basic.json"))
    );
    assert_eq!(options.device_id, 0);
    let address = GrpcOption::At("0.0.0.0:50051".parse().expect("an address"));
    assert_eq!(options.grpc, Some(address));
    assert_eq!(options.cpu_port(), Some(dataplane::PortId(255)));
    let bmv2 = options.bmv2.expect("BMv2's part");
    assert_eq!(bmv2.recordings.as_deref(), Some(Path::new("/tmp")));
    assert_eq!(bmv2.log, Some(LogTo::Console));
    assert!(bmv2.traces());
    let nanolog = notices
        .iter()
        .find(|it| it.starts_with("--nanolog: nothing is published"));
    assert!(nanolog.is_some(), "{notices:?}");
}

#[test]
fn defaults_are_bmv2s() {
    let (options, notices) = grpc("prog.json");
    assert_eq!(options.device_id, 0);
    assert_eq!(options.cpu_port(), None);
    let address = DEFAULT_GRPC_ADDRESS.parse().expect("an address");
    assert_eq!(options.grpc, Some(GrpcOption::At(address)));
    assert!(notices.is_empty());
    assert_eq!(options.queues.egress_queue, 64);
    let bmv2 = options.bmv2.expect("BMv2's part");
    assert_eq!(bmv2.log, None);
    assert_eq!(bmv2.log_from, Some(Severity::Trace));
    assert_eq!((bmv2.recordings, bmv2.dumped_bytes), (None, 0));
    let (options, _) = run_as(Name::SimpleSwitch, "prog.json");
    assert_eq!(options.grpc, Some(GrpcOption::Off));
}

#[test]
fn reprise_switch_itself_keeps_its_cpu_port() {
    let options = Options::try_parse_from(["reprise-switch"]).expect("no option is needed");
    let expected = dataplane::PortId(limits::CPU_PORT);
    assert_eq!(options.cpu_port(), Some(expected));
}

#[test]
fn options_may_be_shortened_attached_and_given_by_letter() {
    for line in [
        "-i 0@veth0 -L info p.json --log-console",
        "-i0@veth0 -Linfo p.json --log-console",
        "--interface=0@veth0 --log-level=info p.json --log-con",
        "--inter 0@veth0 --log-level info --log-console -- p.json",
    ] {
        let (options, _) = grpc(line);
        assert_eq!(options.ports[0].to_string(), "0@veth0", "{line}");
        assert_eq!(
            options.program.as_deref(),
            Some(Path::new("p.json")),
            "{line}"
        );
        let bmv2 = options.bmv2.expect("BMv2's part");
        assert_eq!(bmv2.log_from, Some(Severity::Info), "{line}");
    }
}

#[test]
fn the_folder_of_recordings_may_be_left_out() {
    for (line, folder) in [
        ("--pcap --log-console p.json", "."),
        ("--pcap p.json", "."),
        ("p.json --pcap", "."),
        ("p.json --pcap -- --cpu-port 5", "."),
        ("--pcap=/tmp p.json", "/tmp"),
        ("--pcap /tmp p.json", "/tmp"),
    ] {
        assert_eq!(
            rest(line).recordings.as_deref(),
            Some(Path::new(folder)),
            "{line}"
        );
    }
}

#[test]
fn captures_replace_interfaces() {
    let (options, notices) = grpc("--use-files 2 --pcap -i 3@pcap3 p.json");
    let PortSource::Capture { input, output } = &options.ports[0].source else {
        panic!("{:?}", options.ports);
    };
    assert_eq!(input.as_deref(), Some(Path::new("pcap3_in.pcap")));
    assert_eq!(output.as_deref(), Some(Path::new("pcap3_out.pcap")));
    assert!(!options.is_replay(), "time goes on as for interfaces");
    let bmv2 = options.bmv2.expect("BMv2's part");
    assert_eq!(bmv2.replay_at, Duration::from_secs(2));
    assert_eq!(bmv2.recordings, None);
    assert_eq!(notices.len(), 1, "{notices:?}");
}

#[test]
fn the_log_goes_to_a_file_with_bounds_and_levels() {
    let bmv2 = rest(
        "--log-file logs/s1 --log-flush --log-file-max-size 1000 --log-file-max-files 1 p.json",
    );
    let expected = LogTo::File {
        path: "logs/s1".into(),
        bytes_max: 1_000,
        files_max: 1,
    };
    assert_eq!((bmv2.log, bmv2.flushes_log), (Some(expected), true));
    for (level, from, traces) in [
        ("trace", Some(Severity::Trace), true),
        ("debug", Some(Severity::Debug), true),
        ("info", Some(Severity::Info), true),
        ("warn", Some(Severity::Warn), false),
        ("error", Some(Severity::Error), false),
        ("off", None, false),
    ] {
        let bmv2 = rest(&format!("--log-console --log-level {level} p.json"));
        assert_eq!((bmv2.log_from, bmv2.traces()), (from, traces), "{level}");
    }
}

#[test]
fn simple_switch_publishes_notifications_unasked_and_simple_switch_grpc_where_it_is_asked() {
    let of = |name, line: &str| {
        let (options, notices) = run_as(name, line);
        assert_eq!(notices, [""; 0], "{line}");
        let at = options.bmv2.expect("BMv2's part").notifications;
        at.map(|at| (at.address, at.is_asked))
    };
    let unasked = ("ipc:///tmp/bmv2-7-notifications.ipc".to_owned(), false);
    let found = of(Name::SimpleSwitch, "--device-id 7 p.json");
    assert_eq!(found, Some(unasked));
    assert_eq!(of(Name::SimpleSwitchGrpc, "--device-id 7 p.json"), None);
    for name in [Name::SimpleSwitch, Name::SimpleSwitchGrpc] {
        let found = of(name, "--notifications-addr tcp://*:5 p.json");
        assert_eq!(found, Some(("tcp://*:5".to_owned(), true)));
    }
}

#[test]
fn what_is_accepted_without_an_effect_is_reported() {
    for (line, notice) in [
        ("--debugger p.json", "--debugger: there is no debugger"),
        (
            "--debugger-addr ipc://x p.json",
            "--debugger-addr: there is no debugger",
        ),
        (
            "--nanolog ipc://x p.json",
            "--nanolog: nothing is published",
        ),
        ("--no-p4 p.json", "p.json is not loaded"),
        (
            "--log-flush p.json",
            "--log-flush has no effect without --log-file",
        ),
        (
            "--dump-packet-data 64 p.json",
            "--dump-packet-data: nothing is shown",
        ),
        (
            "p.json -- --disable-swap",
            "--disable-swap: a controller may replace",
        ),
    ] {
        let (_, notices) = grpc(line);
        assert_eq!(notices.len(), 1, "{line}: {notices:?}");
        assert!(notices[0].starts_with(notice), "{line}: {notices:?}");
    }
}

#[test]
fn what_is_so_anyhow_is_accepted_in_silence() {
    let line = "--no-p4 --max-port-count 1 -i 1@a -- --drop-port 511 --priority-queues 1 --max-mc-groups 9 \
        --max-l1-entries 9 --max-l2-entries 9";
    for name in [Name::SimpleSwitch, Name::SimpleSwitchGrpc] {
        let (options, notices) = run_as(name, line);
        assert_eq!(options.program, None);
        assert!(notices.is_empty(), "{notices:?}");
    }
    assert!(
        run_as(Name::SimpleSwitch, "p.json -- --enable-swap")
            .1
            .is_empty()
    );
}

/// Command lines of simple_switch_grpc, and their error messages.
const MISTAKES: &str = r#"

    expected a program (prog.json) or --no-p4
a.json b.json
    found "a.json" and "b.json"
-i veth0 p.json
    --interface: expected PORT@INTERFACE, for example 1@veth1, found "veth0"
-i 511@veth0 p.json
    "511" in "511@veth0" is no port number from 0 to 510
-i 1@ p.json
    nothing behind the "@"
p.json -i
    --interface: expected PORT@INTERFACE, found nothing
--device-id x p.json
    --device-id: expected a number from 0 to
--device-id 1 --device-id 2 p.json
    --device-id is given twice
--thrift-port 0 p.json
    --thrift-port: expected a number from 1 to 65535
--log-level loud p.json
    --log-level: expected trace, debug
--log-console --log-file x p.json
    exclude each other
--log-file-max-size 0 --log-file x p.json
    --log-file-max-size: expected a number from 1
--log-console=yes p.json
    --log-console: expected no value, found "yes"
--log p.json
    option --log may be --log-console or --log-file
--pcap /nowhere/at/all p.json
    --pcap: expected a folder, found "/nowhere/at/all"
--use-files -1 p.json
    --use-files: expected a number from 0
--max-port-count 1 -i 1@a -i 2@b p.json
    --max-port-count: expected 1 interfaces at most, found 2
--packet-in ipc://x p.json
    --packet-in: frames cannot come by nanomsg
--restore-state x p.json
    --restore-state: BMv2's state file cannot be read
p.json -- --drop-port 0
    --drop-port: expected 511
p.json -- --cpu-port 0
    --cpu-port: expected a number from 1 to 510
p.json -- --cpu-port 511
    --cpu-port: expected a number from 1 to 510
p.json -- --priority-queues 9
    --priority-queues: expected a number from 1 to 8
p.json -- --max-mc-groups 0
    --max-mc-groups: expected a number from 1
p.json -- --load-modules x.so
    --load-modules: libraries
p.json -- --dp-grpc-server-addr 0.0.0.0:1
    --dp-grpc-server-addr: frames cannot come by gRPC
p.json -- --grpc-server-addr 9559
    --grpc-server-addr: expected HOST:PORT
p.json -- --grpc-server-ssl
    --grpc-server-ssl: expected --grpc-server-cert FILE beside it
p.json -- --grpc-server-ssl --grpc-server-cert c
    --grpc-server-ssl: expected --grpc-server-key FILE beside it
p.json -- --grpc-server-ssl --grpc-server-cert c --grpc-server-key k --grpc-server-with-client-auth
    --grpc-server-with-client-auth: expected --grpc-server-cacert FILE
p.json -- --grpc-server-ssl --grpc-server-cert=
    --grpc-server-cert: expected a file
--cpu-port 64 p.json
    option --cpu-port stands behind a "--"
p.json -- --log-console
    option --log-console stands before the "--"
p.json -- --enable-swap
    option --enable-swap belongs to simple_switch, not to simple_switch_grpc
--thrif-prt 1 p.json
    unknown option --thrif-prt; the nearest is --thrift-port
--cpu-prot 1 p.json
    unknown option --cpu-prot; the nearest is --cpu-port, behind a "--"
-x p.json
    unknown option -x
"#;

#[test]
fn each_mistake_names_its_option() {
    for (line, message) in cases(MISTAKES) {
        let found = mistake(Name::SimpleSwitchGrpc, line);
        assert!(found.contains(message), "{line}: {found}");
    }
    let found = mistake(Name::SimpleSwitch, "p.json -- --cpu-port 64");
    let expected = "option --cpu-port belongs to simple_switch_grpc, not to simple_switch";
    assert_eq!(found, expected);
}

#[test]
fn tls_is_asked_for_as_with_bmv2() {
    let files = "--grpc-server-cacert ca.pem --grpc-server-cert c.pem --grpc-server-key k.pem";
    let of = |options: &Options| {
        let files = options.grpc_access.tls_files();
        let files = files.map(|files| {
            let authorities = files.client_authorities;
            let shown = [Some(files.certificate), Some(files.key), authorities];
            shown.map(|path| path.map(|path| path.display().to_string()))
        });
        (files, options.grpc_access.insecure)
    };
    let some = |text: &str| Some(text.to_owned());
    let (c, k, ca) = (some("c.pem"), some("k.pem"), some("ca.pem"));
    let line = "p.json -- --grpc-server-addr 0.0.0.0:9559";
    let (options, notices) = grpc(&format!(
        "{line} --grpc-server-ssl --grpc-server-with-client-auth {files}"
    ));
    assert_eq!(of(&options), (Some([c.clone(), k.clone(), ca]), false));
    assert_eq!(notices, [""; 0]);
    // Authorities alone do not make the server request certificates.
    let (options, notices) = grpc(&format!("{line} --grpc-server-ssl {files}"));
    assert_eq!(of(&options), (Some([c, k, None]), false));
    assert!(
        notices[0].contains("clients are not asked for certificates"),
        "{notices:?}"
    );
    // Without --grpc-server-ssl there is no TLS, whatever files are given.
    let (options, notices) = grpc(&format!("{line} --grpc-server-with-client-auth {files}"));
    assert_eq!(of(&options), (None, true));
    assert!(
        notices[0].contains("served without TLS, since --grpc-server-ssl is not given"),
        "{notices:?}"
    );
    let (options, _) = grpc("p.json");
    assert_eq!(of(&options), (None, false));
}

#[test]
fn host_names_are_looked_up() {
    let (options, _) = grpc("p.json -- --grpc-server-addr localhost:50051");
    let Some(GrpcOption::At(address)) = options.grpc else {
        panic!("{:?}", options.grpc);
    };
    assert!(address.ip().is_loopback());
}

#[test]
fn help_and_versions_are_printed_in_place_of_a_switch() {
    let printed = |line| match translate(Name::SimpleSwitch, words(line)) {
        Ok(Outcome::Print(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(printed("--json-version"), "2.23\n");
    assert!(printed("-v").ends_with("Reprise as simple_switch\n"));
    let help = printed("--help");
    for spec in OPTIONS {
        let is_there = help.contains(&format!("--{} ", spec.long));
        assert_eq!(
            is_there,
            spec.place.is_of(Name::SimpleSwitch),
            "{}",
            spec.long
        );
    }
}

#[test]
fn thrift_is_served_to_other_machines_if_that_is_asked_for() {
    let loopback = grpc("prog.json").0.thrift_address();
    assert_eq!(loopback, "127.0.0.1:9090".parse().ok());
    let (options, notices) = grpc("--thrift-addr 0.0.0.0 --thrift-port 9091 prog.json");
    assert_eq!(options.thrift_address(), "0.0.0.0:9091".parse().ok());
    assert_eq!(notices, [""; 0]);
    // BMv2 has only one option with this prefix.
    let (options, _) = grpc("--thrift 9092 prog.json");
    assert_eq!(options.thrift_address(), "127.0.0.1:9092".parse().ok());
    assert_eq!(
        mistake(Name::SimpleSwitch, "--thrift-addr all prog.json"),
        "--thrift-addr: expected an IP address, for example 0.0.0.0, found \"all\""
    );
}
