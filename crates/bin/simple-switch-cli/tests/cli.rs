//! Runs the program against servers whose answers a test scripts. The servers do what a real switch never or rarely
//! does. `tests/bmv2_cli` runs the program against a switch.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use bmv2_thrift::wire::read::{self, Message};
use bmv2_thrift::wire::scan::Scan;
use bmv2_thrift::wire::write::{self, Writer};
use bmv2_thrift::wire::{Failure, FailureKind, Kind, Type};

/// Longer than anything here takes: a test that waits this long has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

const PROGRAM: &str = r#"{
    "actions": [{"name": "In.out", "id": 0, "runtime_data": [{"name": "port", "bitwidth": 9}]}],
    "headers": [{"name": "h", "header_type": "h_t"}],
    "header_types": [{"name": "h_t", "fields": [["f", 8, false]]}],
    "register_arrays": [{"name": "In.seen", "id": 0, "size": 4, "bitwidth": 32}],
    "pipelines": [{"tables": [{"name": "In.routes", "id": 0, "type": "simple", "match_type": "exact",
        "support_timeout": false, "actions": ["In.out"],
        "key": [{"match_type": "exact", "target": ["h", "f"]}]}]}]
}"#;

/// The signal that ends a process which exceeds its file size limit.
const SIGXFSZ: i32 = 25;

/// What the server does with a call.
enum Reaction {
    Answer(Vec<u8>),
    /// Sends these bytes and closes the connection.
    Last(Vec<u8>),
    /// Reports the call to the test and never answers.
    Hold,
}

fn reply(call: &Message, result: impl FnOnce(&mut Writer)) -> Reaction {
    let mut writer = Writer::default();
    let name = call.name.rsplit(':').next().unwrap();
    writer.head(name, Kind::Reply, call.number);
    result(&mut writer);
    writer.stop();
    Reaction::Answer(writer.into_bytes())
}

fn the_program(call: &Message, program: &str) -> Reaction {
    reply(call, |writer| {
        writer.field(0, Type::Bytes).bytes(program.as_bytes());
    })
}

struct Server {
    port: u16,
    held: Receiver<()>,
}

fn next_call(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Message> {
    let mut scan = Scan::default();
    loop {
        if let Some(n_bytes) = scan.length(received).unwrap() {
            let call = read::message(&received[..n_bytes]).unwrap();
            received.drain(..n_bytes);
            return Some(call);
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(n_bytes) => received.extend(&chunk[..n_bytes]),
        }
    }
}

impl Server {
    /// Serves one connection, whose first call asks for the program.
    fn start(react: impl FnMut(&Message) -> Reaction + Send + 'static) -> Self {
        Self::with_program(PROGRAM, react)
    }

    fn with_program(
        program: &'static str,
        mut react: impl FnMut(&Message) -> Reaction + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hold, held) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            while let Some(call) = next_call(&mut stream, &mut received) {
                let reaction = match &*call.name {
                    "standard:bm_get_config" => the_program(&call, program),
                    _ => react(&call),
                };
                match reaction {
                    Reaction::Answer(bytes) => stream.write_all(&bytes).unwrap(),
                    Reaction::Last(bytes) => return stream.write_all(&bytes).unwrap(),
                    Reaction::Hold => hold.send(()).unwrap(),
                }
            }
        });
        Self { port, held }
    }

    /// Starts a server that answers the first call with these bytes, whatever the call is. Returns the server's port.
    fn that_only(sends: &'static [u8]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            next_call(&mut stream, &mut Vec::new()).unwrap();
            stream.write_all(sends).unwrap();
        });
        port
    }
}

fn cli(port: u16) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simple_switch_CLI"));
    command.args(["--thrift-ip", "127.0.0.1", "--thrift-port"]);
    command.arg(port.to_string());
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(port: u16, commands: &str) -> Output {
    let mut child = cli(port).spawn().unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(commands.as_bytes());
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const BEGINNING: &str =
    "Obtaining JSON from switch...\nDone\nControl utility for runtime P4 table manipulation\n";

#[test]
fn without_a_switch_the_port_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let ended = run(port, "show_tables\n");
    assert_eq!(
        out(&ended),
        format!(
            "Could not connect to thrift client on port {port}\nMake sure the switch is running and that you have \
             the right port\n"
        )
    );
    assert!(
        err(&ended).contains(&format!("127.0.0.1:{port}: ")),
        "{}",
        err(&ended)
    );
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn a_switch_without_a_program_is_reported_and_can_be_given_one() {
    let server = Server::with_program("", |call| reply(call, |_| {}));
    let file = std::env::temp_dir().join(format!("reprise-cli-{}.json", std::process::id()));
    std::fs::write(&file, PROGRAM).unwrap();
    let commands = format!("load_new_config_file {}\n", file.display());
    let ended = run(server.port, &commands);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        err(&ended),
        "simple_switch_CLI: the switch has no program yet: load_new_config_file FILE.json and swap_configs give it one\n"
    );
    assert_eq!(ended.status.code(), Some(0), "{}", out(&ended));
}

#[test]
fn a_wrong_option_is_an_error_of_its_own() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simple_switch_CLI"));
    let ended = command.args(["--thrift-prt", "9"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(err(&ended).contains("--thrift-port"), "{}", err(&ended));
}

#[test]
fn what_is_no_switch_is_reported() {
    for (sends, reason) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "no answer"),
        (b"\x80\x02\x00\x02\x00\x00\x00\x00", "expected version 1"),
        (b"\x80\x01\x00\x02\x00\x00\x00\x0dbm_get", "within its answer"),
        (b"", "closed the connection before it answered"),
        // A string that would take 2 GiB, and a list of 2^31 - 1 values.
        (
            b"\x80\x01\x00\x02\x00\x00\x00\x0dbm_get_config\x00\x00\x00\x01\x0b\x00\x00\x7f\xff\xff\xff",
            "expected a length of 0 to",
        ),
        (
            b"\x80\x01\x00\x02\x00\x00\x00\x0dbm_get_config\x00\x00\x00\x01\x0f\x00\x00\x02\x7f\xff\xff\xff",
            "expected a length of 0 to",
        ),
        // The answer to another call, and an answer without a result.
        (
            b"\x80\x01\x00\x02\x00\x00\x00\x03one\x00\x00\x00\x01\x00",
            "expected the answer to bm_get_config",
        ),
        (
            b"\x80\x01\x00\x02\x00\x00\x00\x0dbm_get_config\x00\x00\x00\x01\x00",
            "is empty",
        ),
        // A number instead of a string.
        (
            b"\x80\x01\x00\x02\x00\x00\x00\x0dbm_get_config\x00\x00\x00\x01\x08\x00\x00\x00\x00\x00\x01\x00",
            "expected a string, found an i32",
        ),
    ] {
        let ended = run(Server::that_only(sends), "show_tables\n");
        let message = err(&ended);
        assert!(message.contains(reason), "{reason}: {message}");
        let expected =
            "Obtaining JSON from switch...\nError when requesting JSON config from switch\n";
        assert_eq!(out(&ended), expected, "{reason}");
        assert_eq!(ended.status.code(), Some(1));
    }
}

#[test]
fn the_service_of_another_program_is_reported() {
    let failure = |call: &Message| {
        let failure = Failure {
            kind: FailureKind::UnknownMethod,
            message: "Unknown service".into(),
        };
        Reaction::Answer(write::failure(
            "mirroring_session_get",
            call.number,
            &failure,
        ))
    };
    let server = Server::start(failure);
    let ended = run(server.port, "mirroring_get 3\ngreet\n");
    let refused = "Error: mirroring_session_get: Unknown service";
    let expected = format!("{BEGINNING}RuntimeCmd: {refused}\nRuntimeCmd: hello\nRuntimeCmd: \n");
    assert_eq!(out(&ended), expected);
    let message = format!("simple_switch_CLI: line 1: mirroring_get 3: {refused}\n");
    assert_eq!(err(&ended), message);
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn a_switch_that_goes_in_the_middle_ends_the_commands() {
    let mut n_calls = 0;
    let server = Server::start(move |call| {
        n_calls += 1;
        match n_calls {
            3 => Reaction::Last(Vec::new()),
            _ => reply(call, |writer| writer.field(0, Type::I64).i64(7)),
        }
    });
    let ended = run(server.port, &"register_read seen 1\n".repeat(10));
    let expected = format!(
        "{BEGINNING}{}RuntimeCmd: ",
        "RuntimeCmd: seen[1]= 7\n".repeat(2)
    );
    assert_eq!(out(&ended), expected);
    let message = "the switch closed the connection before it answered bm_register_read";
    assert!(err(&ended).contains(message), "{}", err(&ended));
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn what_is_typed_wrong_is_reported_with_its_line_and_not_sent() {
    let server = Server::start(|call| panic!("unexpected: {}", call.name));
    let commands = "\
// a comment
table_add nothing out 1 => 2
table_add routes nothing 1 => 2
table_add routes out => 2
table_add routes out 1 =>
table_add routes out 256 => 1
table_add routes out 1 => x
table_delete routes x
table_delete routes 99999999999
nothing
mc_node_create 1 2 2
register_write seen 0 one
set_crc16_parameters c 1 2 3 true false
load_new_config_file /nowhere.json
";
    let ended = run(server.port, commands);
    let lines = [
        (1, "*** Unknown syntax: // a comment"),
        (2, "Error: Invalid table name (nothing)"),
        (3, "Error: Table routes has no action nothing"),
        (4, "Error: Table routes needs 1 key fields"),
        (5, "Error: Action In.out needs 1 parameters"),
        (
            6,
            "Invalid match key: Error while parsing 256 - Parameter is too large",
        ),
        (
            7,
            "Invalid runtime data: Error while parsing x - Invalid input, could not cast to integer, try in hex with \
             0x prefix",
        ),
        (8, "Error: Bad format for entry handle"),
        (
            9,
            "Error: Bad format for entry handle, expected -2147483648 to 2147483647",
        ),
        (10, "*** Unknown syntax: nothing"),
        (11, "Error: Found duplicate port number '2'"),
        (12, "Error: Bad format for value, must be an integer"),
        (13, "Error: Invalid crc16_custom name (c)"),
        (14, "Error: Not a valid filename"),
    ];
    let shown: String = lines
        .iter()
        .map(|(_, line)| format!("RuntimeCmd: {line}\n"))
        .collect();
    assert_eq!(out(&ended), format!("{BEGINNING}{shown}RuntimeCmd: \n"));
    let message = err(&ended);
    for (number, line) in lines {
        let error_line = message
            .lines()
            .find(|it| it.contains(&format!(" line {number}: ")));
        match number {
            1 => assert_eq!(error_line, None),
            10 => assert!(
                error_line.unwrap().contains("`help` lists them"),
                "{message}"
            ),
            _ => assert!(error_line.unwrap().ends_with(line), "{message}"),
        }
    }
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn an_empty_line_is_the_last_command_again_and_that_is_reported() {
    let server = Server::start(|call| panic!("unexpected: {}", call.name));
    let ended = run(server.port, "\ngreet\n\n# a comment\n\n");
    let comment = "RuntimeCmd: *** Unknown syntax: # a comment\n".repeat(2);
    let hello = "RuntimeCmd: hello\n".repeat(2);
    let expected = format!("{BEGINNING}RuntimeCmd: {hello}{comment}RuntimeCmd: \n");
    assert_eq!(out(&ended), expected);
    assert!(err(&ended).contains("line 3: the line is empty, so the last command runs again"));
    assert_eq!(err(&ended).lines().count(), 1, "{}", err(&ended));
}

#[test]
fn each_answer_is_there_before_the_next_command_is_asked_for() {
    let server = Server::start(|call| reply(call, |writer| writer.field(0, Type::I64).i64(7)));
    let mut child = cli(server.port).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut until = |end: &str| {
        let mut found = Vec::new();
        while !found.ends_with(end.as_bytes()) {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            found.extend(byte);
        }
    };
    until("RuntimeCmd: ");
    for _ in 0..3 {
        stdin.write_all(b"register_read seen 0\n").unwrap();
        until("seen[0]= 7\nRuntimeCmd: ");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    let ended = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(ended.success());
}

#[test]
fn an_interrupt_shows_what_was_done_and_says_where_it_was() {
    let mut n_calls = 0;
    let server = Server::start(move |call| {
        n_calls += 1;
        match n_calls {
            3 => Reaction::Hold,
            _ => reply(call, |writer| writer.field(0, Type::I64).i64(7)),
        }
    });
    let mut child = cli(server.port).spawn().unwrap();
    let commands = "register_read seen 1\n".repeat(10);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(commands.as_bytes()).unwrap();
    server.held.recv_timeout(TIMEOUT).unwrap();
    interrupt(&child);
    let ended = child.wait_with_output().unwrap();
    let expected = format!(
        "{BEGINNING}{}RuntimeCmd: ",
        "RuntimeCmd: seen[1]= 7\n".repeat(2)
    );
    assert_eq!(out(&ended), expected);
    assert_eq!(err(&ended), "simple_switch_CLI: interrupted in line 3\n");
    assert_eq!(ended.status.signal(), Some(2));
}

#[test]
fn an_interrupt_ends_it_while_nobody_takes_its_output() {
    let server = Server::start(|call| reply(call, |writer| writer.field(0, Type::I64).i64(7)));
    let mut child = cli(server.port).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (written, is_written) = mpsc::channel();
    let writer = thread::spawn(move || {
        // More than the pipes hold: the program blocks, because nobody reads its output.
        while stdin.write_all(b"register_read seen 1\n").is_ok() {
            let _ = written.send(());
        }
    });
    // Wait until the program reads no more input, because it is blocked on its output. During a shorter pause the
    // program may only wait for a processor.
    while is_written.recv_timeout(Duration::from_secs(5)).is_ok() {}
    interrupt(&child);
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    writer.join().unwrap();
}

/// Size of a switch state that takes a while to write.
const STATE_BYTES: usize = 8 << 20;

/// Answers every call with a state, and reports each call to the test first.
fn server_with_a_state() -> (Server, Receiver<()>) {
    let (ask, asked) = mpsc::channel();
    let server = Server::start(move |call| {
        ask.send(()).unwrap();
        let state = vec![b'x'; STATE_BYTES];
        reply(call, |writer| writer.field(0, Type::Bytes).bytes(&state))
    });
    (server, asked)
}

#[test]
fn a_file_that_cannot_be_written_whole_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    fs::write(&path, "before").unwrap();
    let commands = format!("serialize_state {}\n", path.display());
    // `ulimit` limits the file to a few kilobytes: the write fails, or SIGXFSZ ends the program.
    for (refusal, ended_by) in [("trap '' XFSZ; ", None), ("", Some(SIGXFSZ))] {
        let (server, _asked) = server_with_a_state();
        let program = cli(server.port);
        let mut limited = Command::new("sh");
        let script = format!("{refusal}ulimit -f 2; exec \"$0\" \"$@\"");
        limited.args(["-c", &script]).arg(program.get_program());
        limited.args(program.get_args());
        limited.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = limited.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(commands.as_bytes()).unwrap();
        drop(stdin);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.signal(), ended_by, "{}", err(&ended));
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        if ended_by.is_none() {
            assert!(
                out(&ended).contains("state: File too large"),
                "{}",
                out(&ended)
            );
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn a_file_is_whole_or_as_it_was_whenever_an_interrupt_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    for step in 0..10 {
        fs::write(&path, "before").unwrap();
        let (server, asked) = server_with_a_state();
        let mut child = cli(server.port).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let command = format!("serialize_state {}\n", path.display());
        stdin.write_all(command.as_bytes()).unwrap();
        asked.recv_timeout(TIMEOUT).unwrap();
        // Interrupts the program at some moment of its work.
        thread::sleep(Duration::from_millis(4 * step));
        interrupt(&child);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.signal(), Some(2));
        let found = fs::read(&path).unwrap();
        let is_whole = found.len() == STATE_BYTES && found.iter().all(|byte| *byte == b'x');
        assert!(is_whole || found == b"before", "{} bytes", found.len());
    }
}

#[test]
fn without_a_reader_it_ends_quietly() {
    let server = Server::start(|call| reply(call, |writer| writer.field(0, Type::I64).i64(7)));
    let mut child = cli(server.port).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    assert_eq!(first, "Obtaining JSON from switch...\n");
    drop(stdout);
    let writer = thread::spawn(move || {
        // Write until the program, which reads these lines, has ended.
        while stdin.write_all(b"register_read seen 1\n").is_ok() {}
    });
    let ended = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(err(&ended), "");
}

#[test]
fn help_lists_every_command_and_says_what_one_does() {
    let server = Server::start(|call| panic!("unexpected: {}", call.name));
    let ended = run(server.port, "help\nhelp table_add\n?greet\n");
    let found = out(&ended);
    for expected in [
        "Documented commands (type help <topic>):\n========================================\n",
        "\nUndocumented commands:\n======================\nEOF  greet\n",
        "table_add TABLE ACTION KEY... => [ARGUMENT...] [PRIORITY]\n",
        "*** No help on greet\n",
    ] {
        assert!(found.contains(expected), "{expected}\n{found}");
    }
}

#[test]
fn a_name_of_a_program_forges_no_line_and_commands_no_terminal() {
    const FORGED: &str = r#"{
        "actions": [{"name": "a\nRuntimeCmd: \u001b[2J", "runtime_data": [{"name": "p\rq", "bitwidth": 8}]}],
        "pipelines": [{"tables": [{"name": "t\nnone", "type": "simple", "match_type": "exact", "key": [],
            "actions": []}]}]
    }"#;
    let server = Server::with_program(FORGED, |_| Reaction::Hold);
    let ended = run(server.port, "show_tables\nshow_actions\ntable_info t\n");
    let said = out(&ended);
    assert!(said.contains("t\\nnone"), "{said}");
    assert!(said.contains("a\\nRuntimeCmd: \\u001b[2J"), "{said}");
    assert!(said.contains("p\\rq(8)"), "{said}");
    let of_names = |line: &str| line.starts_with("none") || line.starts_with("RuntimeCmd: \\u");
    assert!(!said.lines().any(of_names), "{said}");
}

#[test]
fn deep_json_is_read_and_deeper_refused_with_a_reason() {
    let nested = |depth: usize| {
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        format!(r#"{{"register_arrays": [{{"name": "cells"}}], "x": {deep}}}"#)
    };
    let server = Server::with_program(nested(900).leak(), |_| Reaction::Hold);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep.json");
    std::fs::write(&file, nested(2_000)).unwrap();
    let load = format!("load_new_config_file {}\n", file.display());
    let ended = run(server.port, &load);
    let said = out(&ended) + &err(&ended);
    assert!(said.starts_with(BEGINNING), "{said}");
    assert!(said.contains("2001 deep, expected 1000 at most"), "{said}");
}
