//! `reprise aom` against a service that `reprise aom serve` runs on the switch: every command, its exit code and its
//! output.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::text::{assert_has, assert_starts};

use crate::switch::{Switch, command};

const TIMEOUT: Duration = Duration::from_secs(120);
const MEMBER: &str = "--ip 10.0.0.10 --mac 02:00:00:00:00:10 --port 2";

/// Words after `aom`, the exit code, and members of the JSON document. The commands run in this order, on one service.
const RUNS: &[(&str, i32, &str)] = &[
    ("group show", 0, "groups"),
    ("group add counter --address 239.1.0.1", 0, "message group"),
    ("group add counter", 1, ""),
    ("group add other --variant signed", 1, ""),
    ("group show ledger", 1, ""),
    (
        "member add counter m0 --output m0.member MEMBER",
        0,
        "message group member_file",
    ),
    ("member add counter m0 --output m1.member MEMBER", 1, ""),
    ("member add counter m1 --output m0.member MEMBER", 1, ""),
    (
        "member file counter m0 --output m2.member",
        0,
        "message member_file",
    ),
    ("member file counter m7 --output m3.member", 1, ""),
    ("epoch advance counter", 0, "message group"),
    ("epoch advance ledger", 1, ""),
    ("group show counter", 0, "groups"),
    ("member remove counter m0", 0, "message group"),
    ("member remove counter m0", 1, ""),
    ("group remove counter", 0, "message"),
    ("group remove counter", 1, ""),
];

/// A running `reprise aom serve`, which ends with the test.
struct Served {
    switch: Switch,
    child: Child,
}

impl Served {
    fn start() -> Served {
        let switch = Switch::new();
        let child = Served::serve(&switch, &[]);
        let served = Served { switch, child };
        let until = Instant::now() + TIMEOUT;
        // Until the service has found its switch, it adds groups but refuses every other change.
        served.switch.ok("aom group add probe");
        while !served.switch.run("aom group remove probe").status.success() {
            assert!(Instant::now() < until, "the service finds its switch");
        }
        served
    }

    fn serve(switch: &Switch, more: &[&str]) -> Child {
        let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../p4/aom_hm.p4");
        let mut child = command(&switch.address, "aom serve --json", switch.folder.path())
            .args(["--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:7443"])
            .arg("--program")
            .arg(program)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut ready = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut ready).expect("text");
        let ready: Value = serde_json::from_str(&ready).expect("JSON");
        assert!(
            ready["ready"] == true || ready["error"].is_string(),
            "{ready}"
        );
        child
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

#[test]
fn every_command_has_one_document_and_a_failure_is_one_line() {
    let served = Served::start();
    for (words, code, keys) in RUNS {
        let words = words.replace("MEMBER", MEMBER);
        let output = served.switch.run(&format!("aom {words} --json"));
        assert_eq!(output.status.code(), Some(*code), "{words}: {output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
        let keys: BTreeSet<&str> = keys.split_whitespace().collect();
        assert!(
            keys.iter().all(|key| !document[key].is_null()),
            "{words}: {document}"
        );
        assert_eq!(
            document["error"].is_string(),
            *code == 1,
            "{words}: {document}"
        );
        let n_lines = String::from_utf8_lossy(&output.stderr).lines().count();
        assert_eq!(n_lines, *code as usize, "{words}: {output:?}");
    }
    // A command that failed has removed the member file that it had created. The file of an added member is readable by
    // its owner only.
    let folder = served.switch.folder.path();
    for name in ["m1.member", "m3.member"] {
        assert!(!folder.join(name).exists(), "{name}");
    }
    let about = std::fs::metadata(folder.join("m0.member")).expect("it is there");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
}

#[test]
fn no_command_is_left_out_here() {
    let switch = Switch::new();
    for of in ["group", "member", "epoch"] {
        let help = switch.ok(&format!("aom {of} --help"));
        let list = help.split("Commands:\n").nth(1).unwrap_or_default();
        let lines = list.lines().take_while(|line| !line.is_empty());
        let names = lines.filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| *name != "help") {
            for ends in [0, 1] {
                let begins = format!("{of} {name} ");
                let mut runs = RUNS.iter().map(|run| (format!("{} ", run.0), run.1));
                assert!(
                    runs.any(|run| run.0.starts_with(&begins) && run.1 == ends),
                    "{begins}{ends}"
                );
            }
        }
    }
}

#[test]
fn a_service_ends_with_a_line_where_it_cannot_serve() {
    let served = Served::start();
    for (more, expected) in [
        ("", "another configuration service uses this folder"),
        (
            "--state other --advertise 0.0.0.0:7443",
            "is no address that a member could connect to",
        ),
        ("--state other --mac 01:00", "--mac: expected a MAC"),
        (
            "--state other --mac 01:00:5e:00:00:01",
            "--mac: expected a MAC",
        ),
    ] {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../p4/aom_hm.p4");
        let words = format!("aom serve --program {program} --listen 127.0.0.1:0");
        let advertise = if more.contains("--advertise") {
            ""
        } else {
            "--advertise 127.0.0.1:7443"
        };
        let error = served.switch.fails(&format!("{words} {advertise} {more}"));
        assert_has(&error, expected);
        assert!(!error.contains("aom_hm.p4"), "{error}");
    }
    let none = served.switch.fails("aom group show --state nowhere");
    assert_has(&none, "start it with `reprise aom serve`");
    let program = served.switch.folder.path().join("prog.p4");
    let words = format!(
        "aom serve --program {} --listen 127.0.0.1:7449",
        program.display()
    );
    let error = served.switch.fails(&words);
    assert_has(&error, "expected the program of a sequencer");
}

#[test]
fn a_person_sees_groups_and_members_as_a_table() {
    let served = Served::start();
    let switch = &served.switch;
    let printed = switch.ok("aom group show");
    assert_eq!(printed, "no groups: add one with `reprise aom group add`\n");
    switch.ok("aom group add counter --address 239.1.0.1");
    let added = switch.ok(&format!(
        "aom member add counter m0 --output m0.member {MEMBER}"
    ));
    assert_has(&added, "m0.member is the member's secret");
    let shown = switch.ok("aom group show");
    assert_starts(&shown, "counter: 239.1.0.1, number 2, tagged\n  epoch ");
    assert_has(&shown, ", active; last number 0\n");
    assert_has(
        &shown,
        "0         m0      10.0.0.10:60005  02:00:00:00:00:10     2         no",
    );
}
