//! Tests both ends of the protocol in one process. The test plays the new process, which fails at each step in turn;
//! the old process must go on and count every datagram.

use std::io::Write as _;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Parser as _;
use control::SwitchHandle as _;
use tempfile::TempDir;

use super::old::HANDOVER_MAX;
use super::wire::{Connection, WireError};
use super::{Description, Hello, Message};
use crate::handle::LoopHandle;
use crate::options::Options;
use crate::{AfterReplay, Parts, ports, prepare};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The old process: a switch with a UDP port, in a thread.
struct Old {
    folder: TempDir,
    handle: LoopHandle,
    address: String,
    /// Returns whether the switch was handed over.
    thread: JoinHandle<bool>,
    n_sent: u64,
}

/// The last step that the new process takes before it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Until {
    Connected,
    SaidHello,
    HasOffer,
    Prepared,
    HasState,
}

fn options(folder: &Path) -> Options {
    let path = |name| folder.join(name).display().to_string();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sequenced.p4");
    let entries = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/programs/forward.entries.txtpb"
    );
    let (state, socket) = (path("state"), path("takeover.sock"));
    let ports = ["reprise-switch", "-i", "1@udp:127.0.0.1:0", "--grpc", "off"];
    let own = [
        "--state",
        &state,
        "--takeover-socket",
        &socket,
        "--entries",
        entries,
        program,
    ];
    Options::try_parse_from([&ports[..], &own].concat()).expect("options")
}

impl Old {
    fn start() -> Old {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(folder.path());
        let (sender, started) = mpsc::channel();
        let thread = thread::spawn(move || {
            let open = |options: &Options, passed: Option<_>, timeout: &mut _| {
                ports::open(options, None, passed, timeout)
            };
            let prepared = prepare(&options, &Parts::default(), open, |_| Ok(()));
            let mut prepared = prepared.expect("a switch");
            prepared.serve_takeovers(&options).expect("served");
            let described = prepared.described[0].clone();
            sender
                .send((prepared.handle.clone(), described))
                .expect("the test waits");
            prepared.workers.run(AfterReplay::Serve).expect("it runs");
            let serving = prepared.takeovers.serving.as_ref().expect("served");
            let is_handed_over = serving.is_handed_over();
            prepared.finish(Ok(())).1.expect("it ends well");
            is_handed_over
        });
        let (handle, described) = started.recv_timeout(TIMEOUT).expect("it starts");
        let address = described
            .strip_prefix("1@udp:")
            .expect("the port")
            .to_owned();
        Old {
            folder,
            handle,
            address,
            thread,
            n_sent: 0,
        }
    }

    fn connect(&self) -> Connection {
        let stream = UnixStream::connect(self.folder.path().join("takeover.sock"));
        Connection::new(stream.expect("it listens"), TIMEOUT).expect("a connection")
    }

    fn hello(&self) -> Message {
        Message::Hello(Hello {
            version: "another one".to_owned(),
            process: 1,
            switch: Description::of(&options(self.folder.path())),
        })
    }

    fn say_hello(&self, connection: &mut Connection) {
        match connection.send(&self.hello(), &[]) {
            // The switch may refuse and close the connection before this message is sent.
            Ok(()) | Err(WireError::Closed) => {}
            Err(error) => unreachable!("{error}"),
        }
    }

    /// Takes the steps of a new process, up to and including `until`.
    fn come(&self, until: Until) -> (Connection, Vec<OwnedFd>) {
        let mut connection = self.connect();
        let mut passed = Vec::new();
        if until >= Until::SaidHello {
            self.say_hello(&mut connection);
        }
        if until >= Until::HasOffer {
            let began = Instant::now();
            passed = loop {
                match connection.receive().expect("an offer") {
                    (Message::Offer(_), descriptors) => break descriptors,
                    // The switch may not have seen yet that the connection before this one is closed.
                    (Message::Refused(reason), _) if reason.contains("is in progress") => {
                        assert!(began.elapsed() < TIMEOUT, "{reason}");
                        connection = self.connect();
                        self.say_hello(&mut connection);
                    }
                    (other, _) => unreachable!("{other:?}"),
                }
            };
        }
        if until >= Until::Prepared {
            connection.send(&Message::Prepared, &[]).expect("sent");
        }
        if until >= Until::HasState {
            let (state, _) = connection.receive().expect("the state");
            assert!(matches!(state, Message::State(_)), "{state:?}");
        }
        (connection, passed)
    }

    /// Sends one datagram and waits until it is counted.
    fn expect_going_on(&mut self) {
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        sender.send_to(b"one more", &self.address).expect("sent");
        self.n_sent += 1;
        let began = Instant::now();
        while self.n_counted() != self.n_sent {
            assert!(began.elapsed() < TIMEOUT, "the switch does not go on");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn n_counted(&self) -> u64 {
        let (sender, answer) = mpsc::channel();
        let work = move |context: &mut control::SwitchContext<'_>| {
            let program = context.switch.program().expect("a program");
            let register = program.registers().next().expect("a register").0;
            let cell = context.switch.register_cell(register, 3).expect("a cell");
            let _ = sender.send(cell.iter().fold(0, |n, byte| n * 256 + u64::from(*byte)));
        };
        self.handle.submit(0, Box::new(work));
        answer.recv_timeout(TIMEOUT).expect("it answers")
    }

    fn stop(self) -> bool {
        self.handle.stop();
        self.thread.join().expect("it ends")
    }
}

fn refusal(connection: &mut Connection) -> String {
    match connection.receive() {
        Ok((Message::Refused(reason), _)) => reason,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn a_new_process_that_ends_at_any_step_before_the_last_changes_nothing() {
    let mut old = Old::start();
    old.expect_going_on();
    for until in [
        Until::Connected,
        Until::SaidHello,
        Until::HasOffer,
        Until::Prepared,
        Until::HasState,
    ] {
        drop(old.come(until));
        old.expect_going_on();
    }
    assert!(!old.stop(), "it was handed over");
}

#[test]
fn a_new_process_that_hangs_is_cut_off_and_cannot_take_over_later() {
    let mut old = Old::start();
    let (mut connection, passed) = old.come(Until::HasState);
    thread::sleep(HANDOVER_MAX * 2);
    let late = connection.send(&Message::Taken, &[]);
    assert!(matches!(late, Err(WireError::Closed)), "{late:?}");
    drop(passed);
    old.expect_going_on();
    assert!(!old.stop(), "it was handed over");
}

#[test]
fn two_takeovers_at_once_are_one() {
    let mut old = Old::start();
    let (first, _passed) = old.come(Until::HasOffer);
    let mut second = old.connect();
    old.say_hello(&mut second);
    let reason = refusal(&mut second);
    assert!(
        reason.contains("another takeover is in progress"),
        "{reason}"
    );
    old.expect_going_on();
    drop(first);
    let (mut third, _passed) = old.come(Until::HasState);
    third.send(&Message::Taken, &[]).expect("sent");
    let began = Instant::now();
    while !old.thread.is_finished() {
        assert!(began.elapsed() < TIMEOUT, "it does not end");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(old.stop(), "it was not handed over");
}

#[test]
fn another_format_and_other_ports_are_refused() {
    let mut old = Old::start();
    let mut stream =
        UnixStream::connect(old.folder.path().join("takeover.sock")).expect("it listens");
    let mut header = b"takeover".to_vec();
    header.extend([0, 0, 0, 99, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    stream.write_all(&header).expect("sent");
    let mut connection = Connection::new(stream, TIMEOUT).expect("a connection");
    let reason = refusal(&mut connection);
    assert!(reason.contains("found 99 with 99"), "{reason}");
    let mut connection = old.connect();
    let Message::Hello(mut hello) = old.hello() else {
        unreachable!("a hello");
    };
    hello.switch.ports = vec!["2@udp:127.0.0.1:0".to_owned()];
    connection.send(&Message::Hello(hello), &[]).expect("sent");
    let reason = refusal(&mut connection);
    assert!(
        reason.contains("(1@udp:127.0.0.1:0), found 2@udp"),
        "{reason}"
    );
    old.expect_going_on();
    assert!(!old.stop(), "it was handed over");
}

#[test]
fn noise_is_refused_at_once_and_takes_no_memory() {
    let mut old = Old::start();
    let path = old.folder.path().join("takeover.sock");
    for noise in [&b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n"[..], &[0xff; 64]] {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.write_all(noise).expect("sent");
        let mut connection = Connection::new(stream, TIMEOUT).expect("a connection");
        let reason = refusal(&mut connection);
        assert!(reason.contains("found something else"), "{reason}");
    }
    old.expect_going_on();
    assert!(!old.stop(), "it was handed over");
}
