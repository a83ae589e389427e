//! What keeps the switch from starting is reported in one message, with exit code 1, or 2 for a wrong command line.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use testkit::namespace::{in_namespace, ip, veth_pair};
use testkit::text::{assert_has, assert_starts};

use crate::support::{Running, TemporaryFolder, error, program, words_of};

const UNUSED_ADDRESS: &str = "127.0.0.1:0";

#[test]
fn a_wrong_command_line_has_exit_code_2() {
    for (arguments, reason) in [
        ("-i veth1", "expected PORT@INTERFACE, PORT@afxdp:INTERFACE"),
        ("-i 1@", "there is nothing behind the \"@\""),
        ("-i 511@veth1", "no port number from 0 to 510"),
        ("-i 1@xdp:veth1", "\"xdp:\" is no kind of port"),
        ("-i 1@a -i 1@b", "port 1 is given twice: 1@a and 1@b"),
        ("-i 1@a --grpc localhost", "expected IP-ADDRESS:PORT"),
        ("-i 1@a --no-such-option", "--no-such-option"),
        ("-i 1@a --trace --trace-to x", "cannot be used with"),
        ("-i 1@a --device-id=-1", "invalid value '-1'"),
        ("--grpc off", "there is nothing to do"),
        (
            "-i 1@a --engine interpreter --optimise all",
            "--optimise: expected --engine native, found interpreter",
        ),
        (
            "-i 1@a --metrics 127.0.0.1:9559",
            "--metrics: 127.0.0.1:9559 is where P4Runtime is served (--grpc, 127.0.0.1:9559)",
        ),
        (
            "-i 1@a --grpc 0.0.0.0:9000 --insecure --metrics 127.0.0.1:9000",
            "is where P4Runtime is served (--grpc, 0.0.0.0:9000): choose another port",
        ),
    ] {
        let said = error(2, &words_of(arguments));
        assert!(said.contains(reason), "{arguments}: {said}");
    }
}

#[test]
fn a_program_that_is_none_is_named_with_the_reason() {
    let folder = TemporaryFolder::new("programs");
    let missing = folder.path("missing.json").display().to_string();
    let text = folder.file("text.json", "this is no JSON");
    let other = folder.file("other.json", "{\"pipelines\": 7}");
    let nothing = folder.file("nothing.json", "{}");
    let c = folder.file("program.c", "int main;");
    let json = std::fs::read_to_string(program("forward.json")).expect("the program");
    let first = json.find("\"init_table\"").expect("a first node");
    let end = first + json[first..].find(',').expect("more");
    let dangling = format!("{}\"init_table\": \"gone\"{}", &json[..first], &json[end..]);
    let dangling = folder.file("dangling.json", dangling);
    for (path, reason) in [
        (&missing, "No such file"),
        (&text, "JSON: not well-formed: "),
        (
            &dangling,
            "pipeline \"ingress\": unknown next node \"gone\"",
        ),
        (
            &other,
            "JSON: not a program for BMv2: invalid type: integer `7`, expected a sequence at line 1",
        ),
        (
            &nothing,
            "expected a program for BMv2 with its pipelines, found none",
        ),
        (&c, "expected a name that ends in .p4 or .json"),
    ] {
        let said = error(1, &["-i", "1@pcap:,/dev/null", path]);
        assert_has(&said, path);
        assert_has(&said, reason);
    }
}

#[test]
fn what_is_wrong_in_a_p4_program_is_shown_where_it_is() {
    let folder = TemporaryFolder::new("p4");
    let text = "#include <core.p4>\nheader h_t {\n    bit<8> a;\n    bit<8 b;\n}\n";
    let path = folder.file("wrong.p4", text);
    let said = error(1, &["-i", "1@pcap:,/dev/null", &path]);
    assert_starts(
        &said,
        &format!("error: program {path}: 1 error\n\nerror[E0"),
    );
    assert_has(&said, &format!("--> {path}:4:"));
    assert_has(&said, "    bit<8 b;");
    for (text, reason) in [
        ("#include \"gone.p4\"\n", "cannot find `gone.p4`"),
        ("#include <gone.p4>\n", "cannot find `gone.p4`"),
        ("const bit<8> a = 16w1;\n", "expected bit<8>, found bit<16>"),
        ("header h {\n    bit<8> a\n}\n", "expected `;`"),
        ("", "the program has no `main`"),
    ] {
        let path = folder.file("mistake.p4", text);
        let said = error(1, &["-i", "1@pcap:,/dev/null", &path]);
        assert_starts(&said, &format!("error: program {path}: "));
        assert_has(&said, reason);
        assert_has(&said, &format!("--> {path}:"));
    }
    let missing = folder.path("missing.p4").display().to_string();
    let said = error(1, &["-i", "1@pcap:,/dev/null", &missing]);
    assert_has(
        &said,
        &format!("cannot read the program {missing}: No such file"),
    );
}

#[test]
fn a_p4info_that_is_none_is_named_with_the_reason() {
    let folder = TemporaryFolder::new("p4infos");
    let json = program("forward.json");
    let missing = folder.path("missing.txtpb").display().to_string();
    let text = folder.file("text.txtpb", "tables {\n  no_such_field: 1\n}");
    let binary = folder.file("binary.bin", [0xff; 20]);
    for (path, reason) in [
        (&missing, "No such file"),
        (&text, "no_such_field"),
        (&binary, "not a P4Info in protobuf's binary format"),
    ] {
        let said = error(1, &["-i", "1@pcap:,/dev/null", "--p4info", path, &json]);
        assert_has(&said, path);
        assert_has(&said, reason);
    }
}

#[test]
fn entries_that_cannot_be_written_are_named_with_the_reason() {
    let folder = TemporaryFolder::new("entries");
    let json = program("forward.json");
    let p4info = program("forward.p4info.txtpb");
    let text = folder.file("text.txtpb", "updates {\n  tipe: INSERT\n}");
    let entry = std::fs::read_to_string(program("forward.entries.txtpb")).expect("the entries");
    let wrong_table = folder.file("table.txtpb", entry.replace("33554433", "33554434"));
    let wide = folder.file(
        "wide.txtpb",
        entry.replace("value: \"\\002\"", "value: \"\\002\\000\""),
    );
    let updates = &entry[entry.find("updates").expect("updates")..];
    let twice = folder.file("twice.txtpb", format!("{entry}{updates}"));
    for (path, reason) in [
        (&text, "tipe"),
        (&wrong_table, "1 of 1 updates failed:\n  update 1: "),
        (&wide, "1 of 1 updates failed:\n  update 1: "),
        (&twice, "1 of 2 updates failed:\n  update 2: "),
    ] {
        let arguments = format!("-i 1@pcap:,/dev/null --p4info {p4info} --entries {path} {json}");
        let arguments = words_of(&arguments);
        let said = error(1, &arguments);
        assert_has(&said, path);
        assert_has(&said, reason);
    }
    let said = error(2, &["-i", "1@pcap:,/dev/null", "--entries", &twice, &json]);
    assert_has(&said, "expected the program's P4Info");
}

#[test]
fn a_capture_that_is_none_is_named_with_the_reason() {
    let folder = TemporaryFolder::new("captures");
    let text = folder.file("text.pcap", "no capture");
    let said = error(1, &["-i", &format!("1@pcap:{text}")]);
    assert_has(&said, &text);
    assert_has(&said, "expected the header of a pcap");
    let said = error(1, &["-i", "1@pcap:/dev/null"]);
    assert_has(&said, "found an empty file");
    let said = error(1, &["-i", "1@pcap:/nonexistent/in.pcap"]);
    assert_has(&said, "capture file /nonexistent/in.pcap: cannot open");
    let said = error(1, &["-i", "1@pcap:,/nonexistent/out.pcap"]);
    assert_has(&said, "capture file /nonexistent/out.pcap: cannot create");
}

#[test]
fn an_address_in_use_is_said() {
    let holder = TcpListener::bind(UNUSED_ADDRESS).expect("a free port");
    let address = holder.local_addr().expect("an address").to_string();
    let said = error(1, &["-i", "1@pcap:,/dev/null", "--grpc", &address]);
    assert_has(&said, &format!("cannot serve P4Runtime on {address}"));
    assert_has(&said, "choose another address with --grpc");
    let said = error(
        1,
        &[
            "-i",
            "1@udp:127.0.0.1:0",
            "--grpc",
            "off",
            "--metrics",
            &address,
        ],
    );
    let expected = format!("cannot serve metrics on {address}: Address already in use");
    assert_has(&said, &expected);
    assert_has(&said, "choose another address with --metrics");
}

#[test]
fn where_thrift_cannot_be_served_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let port = address.port().to_string();
    let served = ["--grpc", "off", "--thrift-port", &port];
    let said = error(1, &[&["-i", "1@udp:127.0.0.1:0"], &served[..]].concat());
    let expected = format!("cannot serve Thrift on {address}: Address already in use");
    assert_has(&said, &expected);
    assert_has(&said, "choose another address with --thrift-port");
}

#[test]
fn an_interface_that_cannot_be_used_is_said() {
    in_namespace(|| {
        veth_pair("v0", "v1");
        ip("link set lo up");
        let said = error(1, &["-i", "1@v9", "--grpc", UNUSED_ADDRESS]);
        assert_has(&said, "interface \"v9\" does not exist");
        let holder = Running::start(&["-i", "1@v0", "--grpc", UNUSED_ADDRESS]);
        let said = error(1, &["-i", "1@v0", "--grpc", UNUSED_ADDRESS]);
        assert_has(
            &said,
            "interface \"v0\" is in use by another reprise-switch or reprise-signer",
        );
        holder.stop("-TERM");
        ip("link set v0 down");
        let said = error(1, &["-i", "1@v0", "--grpc", UNUSED_ADDRESS]);
        assert_has(&said, "interface \"v0\" is down");
    });
}

fn named(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise-switch"));
    command.arg0(name).args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn errors_under_bmv2s_names_begin_with_them_name_their_options_and_have_code_1() {
    let json = program("forward.json");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let port = address.rsplit(':').next().expect("a port");
    let grpc = ["--thrift-port", "9", "--", "--grpc-server-addr", &address];
    for (name, arguments, expected) in [
        (
            "simple_switch",
            &["-i", "1@a", "-i", "1@b", &json][..],
            "port 1 is given twice: 1@a and 1@b".to_owned(),
        ),
        (
            "simple_switch",
            &["-i", "1@a", "-i", "2@a", &json],
            "interface \"a\" is given twice: 1@a and 2@a".to_owned(),
        ),
        (
            "simple_switch",
            &["--thrift-port", port, &json],
            format!(
                "cannot serve Thrift on {address}: Address already in use (os error 98); another switch may be running: choose another address with --thrift-port\n"
            ),
        ),
        (
            "simple_switch_grpc",
            &[&[json.as_str()][..], &grpc[..]].concat(),
            format!(
                "cannot serve P4Runtime on {address}: Address already in use (os error 98); another switch may be running: choose another address with -- --grpc-server-addr, port 0 takes a free one\n"
            ),
        ),
    ] {
        let output = named(name, arguments).output().expect("the switch starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let expected = format!("{name}: error: {expected}");
        assert!(said.starts_with(&expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_program_of_any_name_is_json_under_bmv2s_names() {
    let folder = TemporaryFolder::new("any-name");
    let json = std::fs::read(program("forward.json")).expect("the program");
    let json = folder.file("compiled.out", json);
    let port = TcpListener::bind(UNUSED_ADDRESS).and_then(|free| free.local_addr());
    let port = port.expect("a free port").port().to_string();
    let switch = Running::of(named("simple_switch", &["--thrift-port", &port, &json]));
    assert!(
        switch.ready.contains(&format!("program {json}")),
        "{}",
        switch.ready
    );
    switch.stop_that_logs("-TERM");
}

#[test]
fn a_switch_that_is_started_while_another_one_ends_waits_for_it() {
    in_namespace(|| {
        ip("link set lo up");
        let interfaces: Vec<String> = (0..12).map(|n| format!("s{n}")).collect();
        let ports = interfaces.iter().zip(0..).flat_map(|(interface, n)| {
            veth_pair(interface, &format!("{interface}x"));
            ["-i".to_owned(), format!("{n}@{interface}")]
        });
        let folder = TemporaryFolder::new("one-after-another");
        let state = folder.path("state").display().to_string();
        let served = words_of("--grpc 127.0.0.1:9559 --thrift-port 9090 --metrics 127.0.0.1:9100");
        let ports: Vec<String> = ports.collect();
        let ports = ports.iter().map(String::as_str);
        let others = ["--log-level", "info", "--state", &state];
        let arguments: Vec<&str> = ports.chain(served).chain(others).collect();
        for (signal, code) in [("-TERM", Some(0)), ("-KILL", None)] {
            let first = Running::start_that_logs(&arguments);
            first.signal(signal);
            let next = Running::start_that_logs(&arguments);
            assert_eq!(first.end().0, code);
            let waits = next
                .before
                .iter()
                .filter(|line| line.contains("start_waits"));
            println!("{signal}: {:?}", waits.collect::<Vec<_>>());
            next.stop_that_logs("-TERM");
        }
    });
}

#[test]
fn missing_privileges_are_said() {
    in_namespace(|| {
        veth_pair("v0", "v1");
        let output = Command::new("setpriv")
            .arg("--bounding-set=-net_raw")
            .arg(env!("CARGO_BIN_EXE_reprise-switch"))
            .args(["-i", "1@v0"])
            .output()
            .expect("setpriv is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_has(&said, "no permission to open a packet socket, CAP_NET_RAW");
        assert_has(&said, "unshare -Urn");
    });
}

#[test]
fn too_few_descriptors_are_said_whoever_would_have_found_none() {
    for limit in [10, 12, 20, 40] {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_reprise-switch")]);
        let output = command
            .args(["-i", "1@udp:127.0.0.1:0", "--grpc", "off"])
            .output();
        let output = output.expect("sh starts");
        let expected = format!(
            "error: the process may have {limit} files open, expected 53 at least for so many ports and workers: raise the limit (\"ulimit -n 1024\")\n"
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_name_with_a_lines_end_forges_no_line() {
    let folder = TemporaryFolder::new("forged");
    let forged = "x\nready: forged\x1b[31m";
    let shown = "x\\nready: forged\\u001b[31m";
    let program_file = folder.file(&format!("{forged}.p4"), "control Broken");
    let json = folder.file(&format!("{forged}.json"), "{}");
    let entries = folder.file(&format!("{forged}.txtpb"), "updates {");
    let good = program("kept.p4");
    let capture = ["-i", "1@pcap:,/dev/null"];
    for arguments in [
        &[program_file.as_str()][..],
        &[&json],
        &["--entries", &entries, &good],
        &["--state", &entries, &good],
        &["--p4info", &entries, &json],
        &[&format!("{forged}/none.p4")],
    ] {
        let output = crate::support::run(&[&capture[..], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(shown), "{arguments:?}: {said}");
        let is_forged = |line: &str| line.starts_with("ready: ") || line.contains('\x1b');
        assert!(!said.lines().any(is_forged), "{arguments:?}: {said}");
    }
}

#[test]
fn an_included_folder_that_is_none_is_reported() {
    let kept = program("kept.p4");
    let capture = ["-i", "1@pcap:,/dev/null", "--include"];
    for folder in ["nodir", &kept] {
        let said = error(2, &[&capture[..], &[folder, &kept]].concat());
        let expected = format!("error: --include {folder}: expected a folder, found none");
        assert_starts(&said, &expected);
    }
}
