//! Failures and their messages.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use crate::switch::{Switch, command, run_script, text};
use testkit::text::{assert_ends, assert_has, assert_starts};

#[test]
fn a_script_ends_at_its_first_failure_and_says_where() {
    let switch = Switch::new();
    let script = "clone add 5 {1}\n\ntable add orderd x\nclone add 6 {1}";
    let error = switch.fails(&[], script);
    let expected = "reprise: line 3: no table \"orderd\", did you mean \"ordered\"?\n";
    assert_eq!(error, expected);
    assert_eq!(switch.ok("clone list"), "clone add 5 {1}\n");
    let error = switch.fails(&["--keep-going"], script);
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert_starts(lines[0], "reprise: line 1: ");
    assert_ends(lines[0], "(AlreadyExists)");
    assert_eq!(lines[2], "reprise: 2 of 4 lines failed");
    let printed = switch.ok("clone list");
    assert_eq!(printed, "clone add 5 {1}\nclone add 6 {1}\n");

    // Failures in a file, in a file that another file runs, and in a file that runs itself.
    let path = |name: &str| switch.folder.path().join(name);
    std::fs::write(path("outer.p4rt"), "# setup\nsource inner.p4rt\n").expect("written");
    std::fs::write(path("inner.p4rt"), "clone add 7 {1}\nclone ad 8 {1}\n").expect("written");
    std::fs::write(path("itself.p4rt"), "source itself.p4rt\n").expect("written");
    let error = switch.fails(&["outer.p4rt"], "");
    assert_starts(
        &error,
        "reprise: outer.p4rt:2: inner.p4rt:2: no command \"clone ad\"",
    );
    let error = switch.fails(&["itself.p4rt"], "");
    assert_has(&error, "does itself.p4rt run itself?");
    let error = switch.fails(&["-c", "clone list\nclone lst"], "");
    assert_starts(
        &error,
        "reprise: line 2: no command \"clone lst\", did you mean",
    );
    let error = switch.fails(&["missing.p4rt"], "");
    assert_has(&error, "missing.p4rt: there is no such file");
}

#[test]
fn no_server_another_server_and_another_device_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let nobody = free.local_addr().expect("an address").to_string();
    drop(free);
    let output = command(&nobody, &["-c", "table list"], folder.path())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(&format!("reprise: no switch answers at {nobody}")));

    let switch = Switch::new();
    let error = switch.fails(&["--device-id", "7", "-c", "table list"], "");
    assert_has(&error, "not device 7");
    let output = switch
        .command(&["-c", "table list"])
        .env("REPRISE_DEVICE_ID", "7")
        .output()
        .expect("it runs");
    assert!(text(&output.stderr).contains("not device 7"));
    let output = switch
        .command(&["--read-only", "--takeover"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_server_that_does_not_answer_in_time_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let info = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../testdata/compiler/ok/every_entity.p4info.txtpb"
    );
    let began = Instant::now();
    let args = ["--p4info", info, "--deadline", "0.25", "-c", "table list"];
    let output = command(&address, &args, folder.path())
        .output()
        .expect("it runs");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_has(&error, "the switch did not answer within 250 ms: a read");
    assert!(began.elapsed().as_secs() < 20);
}

#[test]
fn another_primary_is_waited_for_reported_and_taken_over_from() {
    let switch = Switch::new();
    let other = switch.other_primary();
    let error = switch.fails(&["--wait", "0", "-c", "clone add 5 {1}"], "");
    assert_has(
        &error,
        "another controller (election id 1) has been primary for 0 s",
    );
    assert_eq!(switch.ok("clone list"), "", "everybody reads");
    let output = switch.script(&["--takeover"], "clone add 5 {1}\nprimary show");
    let found = text(&output.stdout);
    assert_eq!(found, "this shell is primary, election id 2\n");
    drop(other);

    // Another controller takes over between two writes of a script.
    let mut shell = switch.command(&[]);
    shell
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = shell.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut output = std::io::BufRead::lines(output);
    std::io::Write::write_all(&mut input, b"clone add 6 {1}\nprimary show\n").expect("typed");
    assert!(
        output
            .next()
            .expect("a line")
            .expect("UTF-8")
            .starts_with("this shell is primary")
    );
    let _other = switch.other_primary();
    std::io::Write::write_all(&mut input, b"clone add 7 {1}\n").expect("typed");
    drop(input);
    let output = child.wait_with_output().expect("its end");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_starts(
        &error,
        "reprise: line 3: another controller took over as primary",
    );
    assert!(!switch.ok("clone list").contains("clone add 7"));
}

/// Runs a shell with the commands `first`. Then another controller sets its program and disconnects, and the shell runs
/// the commands `others`. Returns the shell's standard error.
pub fn replaced_between(switch: &Switch, first: &str, others: &str) -> String {
    let router = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/p4rt/router.p4"
    );
    let mut shell = switch.command(&["--keep-going"]);
    shell
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = shell.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    let mut output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::Write::write_all(&mut input, first.as_bytes()).expect("typed");
    // The answer to this command shows that the shell has read all of `first`.
    std::io::Write::write_all(&mut input, b"capabilities\n").expect("typed");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("UTF-8");
    assert_starts(&line, "P4Runtime ");
    let set = switch.script(&["--takeover"], &format!("pipeline set {router}"));
    assert_eq!(set.status.code(), Some(0), "{}", text(&set.stderr));
    std::io::Write::write_all(&mut input, others.as_bytes()).expect("typed");
    drop(input);
    let output = child.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr)
}

#[test]
fn nothing_is_written_by_the_names_of_a_program_that_another_controller_has_replaced() {
    let switch = Switch::new();
    let error = replaced_between(
        &switch,
        "clone add 6 {1}\n",
        "clone add 7 {1}\nclone add 8 {1}\nclone add 9 {1}\n",
    );
    assert_has(&error, "line 3: another controller took over as primary");
    assert_has(
        &error,
        "line 4: the switch has another program since this shell read it; run",
    );
    assert_eq!(switch.ok("clone list"), "clone add 9 {1}\n");
}

#[test]
fn a_batch_for_a_program_that_another_controller_has_replaced_is_forgotten() {
    let switch = Switch::new();
    let error = replaced_between(
        &switch,
        "begin\nclone add 7 {1}\n",
        "commit\ncommit\nclone add 9 {1}\n",
    );
    assert_has(
        &error,
        "line 4: the switch has another program since this shell read it, and the open batch",
    );
    assert_has(&error, "line 5: no batch");
    assert_eq!(switch.ok("clone list"), "clone add 9 {1}\n");
}

#[test]
fn an_election_id_is_a_choice() {
    let switch = Switch::new();
    let printed = switch.script(
        &["--election-id", "18446744073709551616"],
        "primary take 18446744073709551620\nprimary show\nprimary release\nprimary show",
    );
    let printed = text(&printed.stdout);
    assert_has(
        &printed,
        "this shell is primary, election id 18446744073709551620",
    );
    assert_ends(
        &printed,
        "nobody is primary; this shell becomes it with its next write, or by `primary take`\n",
    );
    assert_has(
        &printed,
        "not primary any more; the next write, or `primary take`, takes the role again\n",
    );
    assert_eq!(
        switch.ok("primary release\nprimary show"),
        "this shell was not primary\nnobody is primary; this shell becomes it with its next write, or by `primary take`\n"
    );
    let error = switch.fails(&["-c", "primary take 99"], "");
    assert_eq!(
        error,
        "reprise: election id 99 is too low: nobody is primary, but a controller had election id 18446744073709551620, and the switch wants a higher one; `primary take` without a number is higher\n"
    );
    let output = switch.command(&["--election-id", "0"]).output();
    assert_eq!(output.expect("it runs").status.code(), Some(2));
    let _other = switch.other_primary();
    let error = switch.fails(&["--election-id", "7", "-c", "clone add 5 {1}"], "");
    assert_has(
        &error,
        "election id 7 is too low: another controller is primary with election id 18446744073709551621; `primary take` without a number is higher",
    );
    let error = switch.fails(&["--read-only", "-c", "clone add 5 {1}"], "");
    assert_has(&error, "was started with --read-only");
}

#[test]
fn a_role_writes_what_is_its_own() {
    let switch = Switch::new();
    let output = switch.script(&["--role", "meters"], "table add limited 9 -> metered");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let error = switch.fails(
        &["--role", "meters", "-c", "table add few 9 -> {send(1)}"],
        "",
    );
    assert_has(&error, "(PermissionDenied)");
}

#[test]
fn a_server_that_ends_in_between_is_reported() {
    let switch = Switch::new();
    let address = switch.address.clone();
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = command(&address, &[], folder.path());
    shell
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = shell.spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut output = std::io::BufRead::lines(output);
    std::io::Write::write_all(&mut input, b"clone add 6 {1}\nclone list\nwatch time=60s\n")
        .expect("typed");
    assert_eq!(
        output.next().expect("a line").expect("UTF-8"),
        "clone add 6 {1}"
    );
    drop(switch);
    drop(input);
    let output = child.wait_with_output().expect("its end");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_starts(
        &error,
        "reprise: line 3: the stream to the switch is closed",
    );
    let output = run_script(command(&address, &[], folder.path()), "clone list");
    assert!(text(&output.stderr).contains("no switch answers at"));
}
