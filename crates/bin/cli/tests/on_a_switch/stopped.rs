//! Tests a change that is interrupted: the message about the interruption, and that the next run continues the change.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::sfu::fake::FakeSwitch;
use testkit::sfu::programs;
use testkit::sfu::service::Server;
use testkit::text::{assert_ends, assert_has, assert_starts};

use crate::switch::{Switch, command, text};

/// How long a test waits for an event. It is long enough for any machine; a test continues as soon as the event occurs.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The number of entries to write; they need more than two batches.
const N_STREAMS: usize = 5_000;
const N_OF_A_BATCH: usize = 2_000;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "{what}");
        std::thread::yield_now();
    }
}

fn streams() -> String {
    let stream = |n: usize| {
        let ip = format!("10.1.{}.{}", n >> 8, n & 255);
        format!(
            r#"{{"table": "streams", "match": {{"src_addr": "{ip}", "udp_dst_port": 5004}}, "action_name": "set_group", "action_params": {{"p0": 1, "p1": 0}}}}"#
        )
    };
    let streams: Vec<String> = (0..N_STREAMS).map(stream).collect();
    format!(r#"{{"table_entries": [{}]}}"#, streams.join(",\n"))
}

/// Starts a switch that answers `n` updates and then is silent. Makes a folder with a runtime file that has many
/// entries.
fn silent_after(n: Option<usize>) -> (Server, tempfile::TempDir) {
    let server = Server::start(FakeSwitch::new(Some(programs::replication(131_072))));
    server.switch().silent_after = n;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("streams.json"), streams()).expect("written");
    (server, folder)
}

#[test]
fn a_command_that_is_ended_or_killed_between_two_batches_is_finished_by_the_next() {
    for signal in ["-INT", "-TERM", "-KILL"] {
        let (server, folder) = silent_after(Some(N_OF_A_BATCH));
        let address = server.address.to_string();
        let mut apply = command(&address, "entries apply streams.json", folder.path());
        let apply = apply.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = apply.spawn().expect("the binary runs");
        until("the first batch is written", || {
            server.switch().log.len() >= N_OF_A_BATCH
        });
        let pid = child.id().to_string();
        let killed = Command::new("kill").args([signal, &pid]).status();
        assert!(killed.expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(text(&output.stdout), "", "nothing is said to be done");
        if signal != "-KILL" {
            assert_eq!(output.status.code(), Some(1));
            let error = text(&output.stderr);
            // The answer to the first batch may not have arrived yet.
            let may_be_said = [0, N_OF_A_BATCH].map(|n| {
                format!("streams.json: interrupted; at least {n} of 5000 changes are made: run the command again, it goes on from there\n")
            });
            assert!(may_be_said.iter().any(|it| error.ends_with(it)), "{error}");
        }
        server.switch().silent_after = None;
        let n_there = server.switch().n_entries("streams");
        assert_eq!(n_there, N_OF_A_BATCH);
        let again = command(&address, "entries apply streams.json", folder.path()).output();
        let again = again.expect("the binary runs");
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert_eq!(text(&again.stdout).lines().count(), N_STREAMS - n_there);
        assert_eq!(server.switch().n_entries("streams"), N_STREAMS);
    }
}

#[test]
fn another_controller_is_waited_for() {
    let (server, folder) = silent_after(None);
    let address = server.address.to_string();
    server.take_over(41);
    let words = "entries apply streams.json --wait 0";
    let output = command(&address, words, folder.path())
        .output()
        .expect("it runs");
    let error = text(&output.stderr);
    assert_has(
        &error,
        "another controller (election id 41) has been primary for 0 s",
    );
    assert_eq!(server.switch().n_entries("streams"), 0);
    server.let_go();
    let words = "entries apply streams.json --wait 120";
    let output = command(&address, words, folder.path())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(server.switch().n_entries("streams"), N_STREAMS);
}

#[test]
fn what_the_switch_refuses_is_named_with_what_is_made_and_what_is_not() {
    let switch = Switch::with_program();
    let routes: Vec<String> = (1..=6)
        .map(|host| {
            format!(
                r#"{{"table": "routes", "match": {{"dst": ["10.0.1.{host}", 32]}}, "action_name": "drop"}}"#
            )
        })
        .collect();
    let file = |n: usize| format!(r#"{{"table_entries": [{}]}}"#, routes[..n].join(",\n"));
    switch.file("many.json", &file(6));
    let output = switch.run("entries apply many.json --json");
    assert_eq!(output.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let not_made = answer["not_made"].as_array().expect("changes");
    assert_eq!(not_made.len(), 2, "the table has room for 4");
    assert_eq!(not_made[0]["at"], "table_entries[4]");
    let error = answer["error"].as_str().expect("a line");
    assert_starts(
        error,
        "many.json: 2 of 6 updates failed, the first (a table entry): ",
    );
    assert_ends(
        error,
        "; 4 of 6 changes are made, the first that is not (table_entries[4]): + MyIngress.routes: hdr.ipv4.dst=10.0.1.5/32 -> MyIngress.drop(); run the command again, it goes on from there",
    );
    switch.file("many.json", &file(4));
    assert_eq!(switch.ok("entries apply many.json"), "no change\n");
}
