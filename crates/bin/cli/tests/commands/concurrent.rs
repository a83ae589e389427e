//! Several commands at once, other controllers, and commands that are interrupted.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::{ADDRESS, Bench, CONFERENCE, recirculation, replication, text};
use testkit::text::assert_has;

/// How long a test waits for an event. It is long enough for any machine; a test continues as soon as the event occurs.
const TIMEOUT: Duration = Duration::from_secs(120);

fn spawn(bench: &Bench, words: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_reprise"))
        .args(words.split_whitespace())
        .env("REPRISE_SWITCH", bench.server.address.to_string())
        .current_dir(bench.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn fifty_viewers_added_at_once_are_all_there() {
    for bench in [replication(), recirculation()] {
        bench.ok(ADDRESS);
        bench.ok("group add --group 4 --ip 10.0.1.4");
        let add = |host: usize| {
            let words = format!(
                "viewer add --group 4 --ip 10.0.2.{host} --mac 02:00:00:00:02:{host:02x} --wait 120"
            );
            (host, spawn(&bench, &words))
        };
        let children: Vec<(usize, Child)> = (1..=50).map(add).collect();
        for (host, child) in children {
            let output = child.wait_with_output().expect("it ends");
            let error = text(&output.stderr);
            assert!(output.status.success(), "{host}: {error}");
            let line = text(&output.stdout);
            assert!(
                line.starts_with(&format!("+ group 4: viewer 10.0.2.{host}"))
                    && line.lines().count() == 1,
                "{line}"
            );
            assert!(
                error.is_empty() || error.contains("waits for its turn"),
                "{error}"
            );
        }
        let shown = bench.json("show");
        let viewers = shown["groups"][0]["viewers"].as_array().expect("viewers");
        let ips: BTreeSet<&str> = viewers.iter().filter_map(|v| v["ip"].as_str()).collect();
        assert_eq!((viewers.len(), ips.len()), (50, 50));
        assert_eq!(shown["left_over"].as_array().map(Vec::len), Some(0));
        assert_eq!(bench.server.switch().violations, [""; 0]);
    }
}

#[test]
fn files_applied_at_once_come_one_after_the_other() {
    let bench = replication();
    bench.file("one.yaml", CONFERENCE);
    bench.file("two.yaml", &CONFERENCE.replace("group: 5", "group: 6"));
    bench.ok("apply one.yaml");
    let viewer = "viewer add --group 4 --ip 10.0.1.9 --mac 02:00:00:00:00:09 --wait 120";
    let words = [
        "apply one.yaml --wait 120",
        "apply two.yaml --wait 120",
        viewer,
    ];
    let children: Vec<Child> = words
        .iter()
        .cycle()
        .take(9)
        .map(|w| spawn(&bench, w))
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        let error = text(&output.stderr);
        // An earlier command may have added the viewer.
        assert!(
            output.status.success() || error.contains("is a viewer of group 4 already"),
            "{error}"
        );
    }
    let n = bench.ok("apply one.yaml").lines().count();
    assert!(n >= 1);
    assert_eq!(bench.ok("apply one.yaml"), "no change\n");
    assert_eq!(bench.server.switch().violations, [""; 0]);
}

#[test]
fn another_controller_is_waited_for_and_named() {
    let bench = replication();
    bench.server.take_over(41);
    let error = bench.fails(&format!("{ADDRESS} --wait 0"));
    let expected = "another controller (election id 41) has been primary for 0 s: end it, wait longer with --wait SECONDS, or take its role with --takeover";
    assert_eq!(error, expected);

    let mut waiting = spawn(&bench, &format!("{ADDRESS} --wait 120"));
    let mut said = BufReader::new(waiting.stderr.take().expect("piped")).lines();
    let line = said.next().expect("a line").expect("text");
    let expected =
        "reprise: waits for its turn, up to 120 s: another controller (election id 41) is primary";
    assert_eq!(line, expected);
    bench.server.let_go();
    let output = waiting.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert!(text(&output.stdout).starts_with("+ own address"));
}

#[test]
fn nobody_can_take_the_role_from_the_highest_election_id_there_is() {
    let bench = replication();
    bench.server.take_over(u128::MAX);
    let error = bench.fails(&format!("{ADDRESS} --takeover"));
    assert_has(&error, &u128::MAX.to_string());
    assert_has(&error, "end that controller");
    bench.server.let_go();
    bench.ok(ADDRESS);
    bench.ok("group add --group 4 --ip 10.0.1.4");
}

#[test]
fn an_interrupted_change_says_what_it_leaves_and_the_next_goes_on_from_it() {
    for signal in ["-INT", "-TERM"] {
        let bench = replication();
        bench.file("one.yaml", CONFERENCE);
        bench.ok("apply one.yaml");
        let n = bench.server.switch().log.len();
        bench.server.switch().silent_after = Some(n + 3);
        let words = "viewer add --group 4 --ip 10.0.1.9 --mac 02:00:00:00:00:09";
        let child = spawn(&bench, words);
        until("the change begins", || {
            bench.server.switch().log.len() >= n + 3
        });
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .expect("kill")
                .success()
        );
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{:?}", output.status);
        assert_eq!(text(&output.stdout), "", "nothing is said to be done");
        let error = text(&output.stderr);
        assert_has(
            &error,
            "interrupted: each group is in its old or its new state",
        );
        bench.server.switch().silent_after = None;
        bench.ok("group delete --group 5");
        assert_eq!(
            bench.json("show")["left_over"].as_array().map(Vec::len),
            Some(0)
        );
    }
}

#[test]
fn an_error_is_json_where_json_is_asked_for() {
    let bench = replication();
    let output = bench.run("group delete --group 5 --json");
    assert_eq!(output.status.code(), Some(1));
    let found = text(&output.stdout);
    assert_eq!(found, "{\"error\":\"there is no group 5\"}\n");
    assert_eq!(text(&output.stderr), "reprise: there is no group 5\n");
}
