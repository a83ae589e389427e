//! Runs the binary as an operator would, against a P4Runtime server on loopback. Checks its output, its exit code, and
//! the resulting state of the switch.

mod apply;
mod bench;
mod concurrent;
mod conference;
mod export;
mod json;
mod pipeline;
mod refresh;
mod show;

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;

use bench::{Bench, replication, reprise, text};
use testkit::sfu::programs;
use testkit::text::{assert_has, assert_starts};

#[test]
fn words_that_are_no_command_exit_with_2_and_say_what_was_expected() {
    let bench = replication();
    for (words, expected) in [
        ("viewer add --group 4", "--ip"),
        ("viewer add --group 4 --ip 10.0.1", "invalid value '10.0.1'"),
        (
            "viewer add --group 70000 --ip 10.0.1.5",
            "70000 is not in 0..=65535",
        ),
        (
            "viewer add --group 4 --ip 10.0.1.5 --mac 2:0",
            "expected an Ethernet address like 02:00:00:00:00:05",
        ),
        (
            "viewer add --group four --ip 10.0.1.5",
            "'four' for '--group <GROUP>': expected a whole number",
        ),
        ("viewer refresh --every 0x10", "expected a whole number"),
        (
            "aom serve --program p4/aom_hm.p4 --listen localhost:7443",
            "expected IP-ADDRESS:PORT",
        ),
        ("export x.yaml", "--program"),
        ("nonsense", "unrecognized subcommand"),
    ] {
        let output = bench.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(
            text(&output.stderr).contains(expected),
            "{words}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_switch_that_is_not_there_has_no_pipeline_or_is_another_device_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let nobody = free.local_addr().expect("an address").to_string();
    drop(free);
    let output = reprise(&nobody, "show", &folder);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert_starts(
        &error,
        &format!("reprise: no switch answers at {nobody} (Connection refused"),
    );
    assert_has(&error, "reprise-switch --help");

    let bench = Bench::new(None);
    let expected = "the switch has no pipeline yet: load one with `reprise pipeline set PROGRAM.p4` (a conference's is p4/sfu.p4)";
    for words in [
        "show",
        "address show",
        "pipeline show",
        "group delete --group 1",
    ] {
        assert_eq!(bench.fails(words), expected);
    }
    let bench = replication();
    let error = bench.fails("show --device-id 7");
    assert_has(&error, "not device 7");
    assert_has(&error, "--device-id");
    let error = bench.fails("group delete --group 1 --device-id 7");
    assert_has(&error, "not device 7");
    let error = bench.fails("show --switch nowhere");
    assert_eq!(
        error,
        "\"nowhere\" is no address of a switch: expected HOST:PORT, e.g. 127.0.0.1:9559, or unix:PATH"
    );
    for (address, expected) in [
        ("unix:", "expected a file behind \"unix:\", found none"),
        ("unix:@a", "found an abstract name"),
    ] {
        let error = bench.fails(&format!("show --switch {address}"));
        assert_has(&error, expected);
        assert!(!error.contains("HOST:PORT"), "{error}");
    }
    let bench = Bench::new(Some(programs::other()));
    assert!(
        bench
            .fails("show")
            .contains("is no SFU that this controller knows")
    );
}

#[test]
fn a_listener_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let output = reprise(&address, "show", &tempfile::tempdir().expect("a folder"));
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert_has(&error, "an answer in P4Runtime");
}

/// Answers the first request of an HTTP/2 client with status 404, as the server of a switch's metrics does.
fn answer_404(listener: &std::net::TcpListener) {
    const PREFACE_BYTES: usize = 24;
    const HEADERS: u8 = 1;
    let (mut stream, _) = listener.accept().expect("a client");
    stream
        .read_exact(&mut [0; PREFACE_BYTES])
        .expect("a preface");
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(&settings).expect("written");
    let mut head = [0; 9];
    loop {
        stream.read_exact(&mut head).expect("a frame");
        let len = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; len]).expect("its payload");
        if head[3] == HEADERS {
            break;
        }
    }
    // The flags 5 end stream 1 and its headers. 0x8d is entry 13 of HPACK's static table: ":status: 404".
    stream
        .write_all(&[0, 0, 1, HEADERS, 5, 0, 0, 0, 1, 0x8d])
        .expect("written");
    // Waits until the client disconnects.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_server_that_is_no_switch_is_told_from_one_that_refuses() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let server = std::thread::spawn(move || {
        answer_404(&listener);
        answer_404(&listener);
    });
    for words in ["show", "group delete --group 1"] {
        let output = reprise(&address, words, &folder);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        let expected = format!(
            "reprise: the server at {address} does not speak P4Runtime (HTTP status 404), expected a switch: "
        );
        assert!(error.starts_with(&expected), "{words}: {error}");
    }
    server.join().expect("two clients");
}

#[test]
fn help_teaches_with_examples() {
    let bench = replication();
    let help = bench.ok("--help");
    for part in [
        "reprise pipeline set p4/sfu.p4",
        "reprise apply conference.yaml --dry-run",
        "REPRISE_SWITCH",
        "Exit code",
    ] {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
    for words in [
        "apply",
        "show",
        "viewer add",
        "group add",
        "address set",
        "pipeline set",
        "compile",
        "check",
    ] {
        let help = bench.ok(&format!("{words} --help"));
        assert!(help.contains("Example"), "{words}: {help}");
    }
}
