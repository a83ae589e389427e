//! `--json`: one document per run on standard output, whether the run succeeds or fails; one per line if the command
//! keeps running.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use p4runtime_proto::text_format;
use serde_json::Value;
use testkit::sfu::fake::FakeSwitch;
use testkit::sfu::programs;

use crate::bench::{ADDRESS, Bench, CONFERENCE, replication, text};

const RIGHT: &str = "\
#include <v1model.p4>
struct headers_t {}
struct metadata_t {}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply {} }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 2; }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

/// Words of a command line, its exit code, and members of its JSON document. The command lines run in this order, on
/// one switch and in one folder.
const RUNS: &[(&str, i32, &str)] = &[
    ("p4rt -c info", 0, "command info"),
    ("p4rt -c xyzzy", 1, "command"),
    ("compile right.p4 -o out", 0, "files diagnostics"),
    ("compile wrong.p4 -o out", 1, "diagnostics"),
    (
        "compile wrong.p4 -o out --message-format json",
        1,
        "diagnostics",
    ),
    ("compile missing.p4 -o out", 1, ""),
    ("compile -E right.p4", 0, "text diagnostics"),
    ("compile -E unfinished.p4", 1, "diagnostics"),
    ("check right.p4 right.p4", 0, "programs"),
    ("check wrong.p4", 1, "programs"),
    ("check wrong.p4 missing.p4 right.p4", 1, "programs"),
    ("check wrong.p4 --message-format json", 1, "programs"),
    ("fmt --check tidy.p4", 0, "files"),
    ("fmt --check wide.p4 wide.p4", 1, "files"),
    ("fmt --check unfinished.p4 wide.p4", 1, "files"),
    ("fmt unfinished.p4", 1, "files"),
    ("fmt wide.p4", 0, "files"),
    ("fmt -", 0, "files"),
    ("explain", 0, "codes"),
    ("explain E0301", 0, "code title text"),
    ("explain E9999", 1, ""),
    ("stf right.p4 right.stf", 0, "ok failures"),
    ("stf right.p4 wrong.stf", 1, "ok failures"),
    ("stf right.p4 right.p4", 1, ""),
    ("stf wrong.p4 right.stf", 1, ""),
    ("doctor", 0, "machine interfaces"),
    ("doctor no-such-one", 1, ""),
    ("pipeline set sfu.json", 0, "program kind"),
    ("pipeline set wrong.p4", 1, ""),
    ("pipeline set missing.p4", 1, ""),
    ("pipeline show", 0, "kind objects"),
    ("pipeline show --device-id 7", 1, ""),
    ("address show --device-id 7", 1, ""),
    (ADDRESS, 0, "changed changes"),
    (
        "address set --port 9 --ip 10.0.1.100 --mac 02:00:00:00:01:64",
        1,
        "",
    ),
    ("address show", 0, "addresses"),
    ("group add --group 4 --ip 10.0.1.4", 0, "changed changes"),
    ("group add --group 4 --ip 10.0.1.4", 1, ""),
    (
        "viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:05",
        0,
        "changed changes",
    ),
    ("viewer add --group 4 --ip 10.0.1.6", 1, ""),
    ("viewer refresh", 0, "changed changes"),
    ("viewer refresh --group 9", 1, ""),
    (
        "viewer remove --group 4 --ip 10.0.1.5",
        0,
        "changed changes",
    ),
    ("viewer remove --group 4 --ip 10.0.1.5", 1, ""),
    ("show", 0, "groups ports drops"),
    ("show --device-id 7", 1, ""),
    ("watch --times 1", 0, "ports latencies drops"),
    ("watch --times 1 --switch 127.0.0.1:1", 1, ""),
    ("group delete --group 4", 0, "changed changes"),
    ("group delete --group 4", 1, ""),
    ("address delete --port 1", 0, "changed changes"),
    ("address delete --port 1", 1, ""),
    ("apply conference.yaml", 0, "changed changes"),
    ("apply conference.yaml --dry-run", 0, "changed dry_run"),
    ("apply asks.yaml --dry-run", 1, ""),
    ("apply missing.yaml", 1, ""),
    ("export", 0, "groups viewers text"),
    ("export -o saved.yaml", 0, "groups viewers file"),
    ("export -o missing/saved.yaml", 1, ""),
    ("export asks.yaml --program sfu.json", 1, ""),
    ("export conference.yaml --program sfu.json", 0, "text"),
    (
        "entries apply runtime.json --dry-run",
        0,
        "changed changes dry_run pipeline",
    ),
    ("entries apply runtime.json", 0, "changed changes updates"),
    ("entries apply missing.json", 1, ""),
];

fn bench() -> Bench {
    let bench = replication();
    bench.file("right.p4", RIGHT);
    bench.file("wrong.p4", &RIGHT.replace("egress_spec = 2", "nothing = 2"));
    bench.file("unfinished.p4", "#if 1\ncontrol c(");
    bench.file("tidy.p4", "const bit<8> x = 1;\n");
    bench.file("wide.p4", "const  bit<8>   x=1;\n");
    bench.file("right.stf", "packet 1 00\nexpect 2 00\n");
    bench.file("wrong.stf", "packet 1 00\nexpect 2 01\n");
    bench.file("conference.yaml", CONFERENCE);
    bench.file(
        "asks.yaml",
        &CONFERENCE.replace("10.0.1.6, mac: '02:00:00:00:00:06'", "10.0.1.7"),
    );
    bench.file(
        "runtime.json",
        r#"{"multicast_group_entries": [{"multicast_group_id": 9, "replicas": [{"egress_port": 1, "instance": 1}]}]}"#,
    );
    let p4info = programs::replication(131_072);
    bench.file("sfu.json", "{}");
    bench.file("sfu.p4info.txtpb", &text_format::print_p4info(&p4info));
    bench
}

fn run(bench: &Bench, words: &str) -> Output {
    let mut command = reprise(bench, words);
    command.stdin(Stdio::null()).output().expect("it runs")
}

fn reprise(bench: &Bench, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    command.arg("--json").args(words.split_whitespace());
    command.env("REPRISE_SWITCH", bench.server.address.to_string());
    command.current_dir(bench.folder.path());
    command
}

#[test]
fn every_command_prints_one_document_however_it_ends() {
    let bench = bench();
    for (words, code, members) in RUNS {
        let output = run(&bench, words);
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(*code), "{words}: {said}");
        let document: Value =
            serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{words}: {e}: {printed}"));
        for member in members.split_whitespace() {
            assert!(
                document.get(member).is_some(),
                "{words}: {member}: {printed}"
            );
        }
        let error = document
            .get("error")
            .map(|error| error.as_str().expect(words));
        assert_eq!(error.is_some(), *code == 1, "{words}: {printed}");
        let is_all_json = words.contains("--message-format json");
        if let Some(error) = error.filter(|_| !is_all_json) {
            let last = format!("reprise: {error}\n");
            assert!(said.ends_with(&last), "{words}: {error}: {said}");
        }
    }
}

#[test]
fn what_is_wrong_is_in_the_document() {
    let bench = bench();
    let json = |words: &str| -> Value {
        serde_json::from_slice(&run(&bench, words).stdout).expect("one document")
    };
    let checked = json("check wrong.p4 missing.p4 right.p4");
    let [wrong, missing, right] = [0, 1, 2].map(|place| &checked["programs"][place]);
    assert_eq!(wrong["error"], "wrong.p4: not compiled, 1 error");
    assert_eq!(wrong["diagnostics"][0]["severity"], "error");
    let expected = "missing.p4: there is no such file, expected a P4 source file";
    assert_eq!(missing["error"], expected);
    assert_eq!((&right["ok"], right.get("error")), (&true.into(), None));
    assert_eq!(checked["error"], missing["error"], "the last one");
    let formatted = json("fmt --check unfinished.p4 wide.p4 tidy.p4");
    let [unfinished, wide, tidy] = [0, 1, 2].map(|place| &formatted["files"][place]);
    assert!(unfinished["error"].is_string(), "{formatted}");
    assert_eq!(wide["line"], 1);
    assert_eq!(wide["written"], false);
    assert_eq!((&tidy["line"], tidy.get("error")), (&Value::Null, None));
    assert_eq!(json("fmt -")["files"][0]["text"], "");
}

#[test]
fn a_failure_is_one_though_nobody_reads_its_document() {
    let bench = bench();
    let mut child = reprise(&bench, "check wrong.p4");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = child.stdin(Stdio::null()).stdout(writer).status();
    assert_eq!(status.expect("it runs").code(), Some(1));
}

#[test]
fn what_goes_on_prints_a_document_a_line() {
    let bench = bench();
    bench.ok("apply conference.yaml");
    for words in ["show --watch", "watch"] {
        let mut child = reprise(&bench, words);
        let mut child = child.stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        for line in lines.take(2) {
            let document: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            assert!(document["ports"].is_array(), "{words}: {document}");
        }
        child.kill().expect("it goes on");
        child.wait().expect("it ended");
    }
}

#[test]
fn show_goes_on_with_the_program_that_is_there() {
    let bench = bench();
    bench.ok("apply conference.yaml");
    let mut child = reprise(&bench, "show --watch");
    let mut child = child.stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut programs = lines.map(|line| {
        let document: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
        document["program"].clone()
    });
    assert_eq!(programs.next(), Some("replication".into()));
    let other = programs::recirculation(131_072, 65_536);
    *bench.server.switch() = FakeSwitch::new(Some(other));
    assert!(programs.any(|program| program == "recirculation"));
    child.kill().expect("it goes on");
    child.wait().expect("it ended");
}

/// The commands listed in a help text, which stand before its options.
fn commands(help: &str) -> Vec<String> {
    let list = help.split("\nOptions:").next().unwrap_or_default();
    let lines = list.lines();
    let lines = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help" && !name.starts_with(['<', '[']))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_command_is_left_out_here() {
    let bench = replication();
    let mut all = BTreeSet::new();
    for name in commands(&bench.ok("--help")) {
        let below = commands(&bench.ok(&format!("{name} --help")));
        let below = below.iter().map(|command| format!("{name} {command}"));
        let before = all.len();
        all.extend(below);
        if all.len() == before {
            all.insert(name);
        }
    }
    assert!(
        all.contains("viewer refresh") && all.contains("fmt"),
        "{all:?}"
    );
    // `tests/on_a_switch/aom.rs` and `tests/service` at the root cover the commands that need a service.
    let needs_service = |it: &&String| {
        let of_conferences = [
            "serve", "join", "why", "record", "load", "drain", "backup", "restore",
        ];
        it.starts_with("aom ") || of_conferences.contains(&it.as_str())
    };
    for command in all.iter().filter(|it| !needs_service(it)) {
        for ends in [0, 1] {
            let is_it = |run: &&(&str, i32, &str)| {
                run.1 == ends && (run.0 == *command || run.0.starts_with(&format!("{command} ")))
            };
            assert!(RUNS.iter().any(|run| is_it(&run)), "{command}: {ends}");
        }
    }
}
