//! `--takeover`: a new process replaces the switch under load, and no frame is lost or doubled.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use p4runtime_client::{Client, entities};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::{CounterEntry, Index, RegisterEntry};
use packet_io::{AfPacketPort, Port};
use testkit::frames::{numbered, receive, send};
use testkit::namespace::{in_namespace, ip, veth_pair};
use testkit::text::assert_has;

use crate::p4runtime::address;
use crate::support::{Running, TIMEOUT, TemporaryFolder, error, outside, program, switch};

const TAKEOVERS: u32 = 20;

/// Time between two frames of the sender. A sender that was not scheduled for a while does not catch up, since the
/// receive ring is bounded.
const INTERVAL: Duration = Duration::from_micros(250);

struct Places {
    folder: TemporaryFolder,
}

impl Places {
    fn new(name: &str) -> Places {
        Places {
            folder: TemporaryFolder::new(name),
        }
    }

    /// The options of every process of the switch.
    fn options(&self, ports: &[&str], engine: &str) -> Vec<String> {
        let path = |name| self.folder.path(name).display().to_string();
        let mut options: Vec<String> = Vec::new();
        for port in ports {
            options.extend(["-i".to_owned(), (*port).to_owned()]);
        }
        let words = ["--engine", engine, "--grpc", "127.0.0.1:9559", "--json"];
        options.extend(words.map(str::to_owned));
        // Other busy processes may keep the switch from running for longer than the default of `--max-age-ms`.
        options.extend(["--log-level", "info", "--max-age-ms", "0"].map(str::to_owned));
        options.extend(["--state".to_owned(), path("state")]);
        options.extend(["--takeover-socket".to_owned(), path("takeover.sock")]);
        let entries = program("forward.entries.txtpb");
        options.extend(["--entries".to_owned(), entries, program("sequenced.p4")]);
        options
    }
}

fn start(options: &[String], more: &[&str]) -> Running {
    let words: Vec<&str> = options
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Running::start_that_logs(&words)
}

/// Sends numbered frames at a steady rate until told to end; the thread then returns how many frames it has sent.
struct Sender {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Sender {
    fn start(mut port: AfPacketPort) -> Sender {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut n_sent = 0;
            while !over.load(Ordering::Relaxed) {
                send(&mut port, [numbered(n_sent, 200)]);
                n_sent += 1;
                thread::sleep(INTERVAL);
            }
            n_sent
        });
        Sender { is_over, thread }
    }

    fn stop(self) -> u32 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sender ends")
    }
}

/// Receives until no frame has come for a while after the sender's end.
struct Receiver {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Received>,
}

struct Received {
    /// In order of arrival.
    numbers: Vec<u32>,
    /// The longest time between two frames.
    gap_max: Duration,
}

impl Receiver {
    fn start(mut port: AfPacketPort) -> Receiver {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let (mut numbers, mut last) = (Vec::new(), Instant::now());
            let mut gap_max = Duration::ZERO;
            loop {
                let n_frames = port.receive(0, 64, &mut |frame: &[u8]| {
                    let number = frame[14..18].try_into().expect("a number");
                    numbers.push(u32::from_be_bytes(number));
                });
                if n_frames.expect("received") > 0 {
                    gap_max = gap_max.max(last.elapsed());
                    last = Instant::now();
                } else if over.load(Ordering::Relaxed) && last.elapsed() > Duration::from_secs(1) {
                    assert_eq!(
                        port.statistics().rx_dropped(),
                        0,
                        "the test itself was too slow"
                    );
                    return Received { numbers, gap_max };
                } else {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Receiver { is_over, thread }
    }

    fn stop(self) -> Received {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the receiver ends")
    }
}

fn assert_complete(numbers: &[u32], n_sent: u32) {
    let wrong = (0..)
        .zip(numbers)
        .find(|(expected, found)| expected != *found);
    assert_eq!(wrong, None, "(expected, found), of {n_sent} sent");
    assert_eq!(numbers.len() as u32, n_sent);
}

/// How long neither process forwarded, in microseconds, according to the log of a switch that was replaced.
fn pause_us(said: &str) -> u64 {
    let line = said
        .lines()
        .find(|line| line.contains("handed_over"))
        .expect(said);
    let rest = line.split_once("pause_us=").expect(line).1;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    number.parse().expect(line)
}

/// What the register and the counter have counted.
async fn counted(switch: &Running) -> (u32, i64) {
    let client = Client::connect(&address(switch), 1).await;
    let mut client = client.expect("a server");
    let index = |index| Some(Index { index });
    let info = client.p4info().await.expect("a P4Info");
    let register_id = info.registers[0].preamble.as_ref().expect("one").id;
    let counter_id = info.counters[0].preamble.as_ref().expect("one").id;
    let register = Kind::RegisterEntry(RegisterEntry {
        register_id,
        index: index(3),
        data: None,
    });
    let counter = Kind::CounterEntry(CounterEntry {
        counter_id,
        index: index(5),
        data: None,
    });
    let wanted = [register, counter].map(entities::entity).to_vec();
    let (mut of_register, mut of_counter) = (0, 0);
    for found in client.read(wanted).await.expect("an answer") {
        match found.entity {
            Some(Kind::RegisterEntry(cell)) => {
                let data = cell.data.and_then(|it| it.data);
                let Some(Data::Bitstring(bytes)) = data else {
                    panic!("no number: {data:?}");
                };
                of_register = bytes.iter().fold(0, |n, byte| n * 256 + u32::from(*byte));
            }
            Some(Kind::CounterEntry(cell)) => {
                of_counter = cell.data.expect("a count").packet_count;
            }
            other => panic!("not asked for: {other:?}"),
        }
    }
    (of_register, of_counter)
}

fn prepare_links() {
    ip("link set lo up");
    veth_pair("a0", "a1");
    veth_pair("b0", "b1");
}

fn replaced_under_load(name: &str, engine: &str, more: &[&str]) {
    prepare_links();
    let places = Places::new(name);
    let options = places.options(&["1@a1", "2@b1"], engine);
    let mut running = start(&options, more);
    let receiver = Receiver::start(outside("b0"));
    let sender = Sender::start(outside("a0"));
    let mut pauses = Vec::new();
    for _ in 0..TAKEOVERS {
        let new = start(&options, &[more, &["--takeover"]].concat());
        let (status, _, said) = std::mem::replace(&mut running, new).end();
        assert_eq!(status, Some(0), "{said}");
        pauses.push(pause_us(&said));
    }
    let n_sent = sender.stop();
    let Received { numbers, gap_max } = receiver.stop();
    assert_complete(&numbers, n_sent);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if more.is_empty() {
        let expected = (n_sent, i64::from(n_sent));
        assert_eq!(runtime.block_on(counted(&running)), expected);
    }
    pauses.sort_unstable();
    println!("{engine}: {n_sent} frames, pauses of {pauses:?} us, longest gap {gap_max:?}");
    running.stop_that_logs("-TERM");
    assert!(!places.folder.path("takeover.sock").exists());
}

#[test]
fn a_switch_is_replaced_under_load_without_a_lost_frame() {
    in_namespace(|| replaced_under_load("takeover-native", "native", &[]));
}

#[test]
fn a_switch_with_the_interpreter_and_two_workers_is_replaced_too() {
    in_namespace(|| {
        let more = ["--workers", "2", "--registers", "per-worker"];
        replaced_under_load("takeover-workers", "interpreter", &more);
    });
}

#[test]
fn a_new_process_that_is_killed_changes_nothing() {
    in_namespace(|| {
        prepare_links();
        let places = Places::new("takeover-killed");
        let options = places.options(&["1@a1", "2@b1"], "native");
        let (mut round, mut n_failed) = (0, 0);
        while round < TAKEOVERS {
            let running = start(&options, &[]);
            let receiver = Receiver::start(outside("b0"));
            let sender = Sender::start(outside("a0"));
            let mut goes_on = true;
            while round < TAKEOVERS && goes_on {
                kill_after(Duration::from_millis(4) * round, &options);
                goes_on = stays(&running);
                n_failed += u32::from(goes_on);
                round += 1;
            }
            let n_sent = sender.stop();
            let numbers = receiver.stop().numbers;
            if goes_on {
                assert_complete(&numbers, n_sent);
                running.stop_that_logs("-TERM");
            } else {
                // The new process had taken over when it was killed, so no process forwards any more. The old process
                // has ended with exit code 0.
                assert_eq!(running.end().0, Some(0));
            }
        }
        println!("{n_failed} of {TAKEOVERS} were killed before they had taken over");
        assert!(n_failed >= TAKEOVERS / 2, "most were killed too late");
    });
}

/// Starts a new process that is to take over, and kills the new process after `time`.
fn kill_after(time: Duration, options: &[String]) {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut command = switch(&[&words[..], &["--takeover"]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the switch starts");
    thread::sleep(time);
    child.kill().expect("killed");
    child.wait().expect("ended");
}

/// Whether a switch still runs after a time in which it would have ended if it had handed over.
fn stays(running: &Running) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1200) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.id()));
        if !stat.is_ok_and(|stat| !stat.contains(") Z ")) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_udp_port_and_its_listeners_pass_to_the_new_process() {
    in_namespace(|| {
        ip("link set lo up");
        let places = Places::new("takeover-udp");
        let options = places.options(&["1@udp:127.0.0.1:5004"], "native");
        let first = start(&options, &[]);
        let second = start(&options, &["--takeover"]);
        let (status, _, said) = first.end();
        assert_eq!(status, Some(0), "{said}");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        sender
            .send_to(b"to the second", "127.0.0.1:5004")
            .expect("sent");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let began = Instant::now();
        while runtime.block_on(counted(&second)) != (1, 1) {
            assert!(began.elapsed() < TIMEOUT, "it was not counted");
            thread::sleep(Duration::from_millis(10));
        }
        second.stop_that_logs("-TERM");
    });
}

#[test]
fn what_cannot_be_taken_over_is_refused_and_the_switch_goes_on() {
    in_namespace(|| {
        prepare_links();
        let places = Places::new("takeover-refused");
        let options = places.options(&["1@a1", "2@b1"], "native");
        let words = |options: &[String], takeover: bool| {
            let mut words = options.to_vec();
            words.extend(takeover.then(|| "--takeover".to_owned()));
            words
        };
        let refused = |options: &[String]| {
            let words = words(options, true);
            error(1, &words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_has(&refused(&options), "found none: start without --takeover");
        let running = start(&options, &[]);
        let other = places.options(&["2@a1", "1@b1"], "native");
        assert_has(
            &refused(&other),
            "expected the running switch's ports (1@a1 2@b1)",
        );
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        send(&mut a, [numbered(0, 100)]);
        assert_eq!(receive(&mut b, 1), [numbered(0, 100)]);
        let said = running.wait_for_line(&["takeover_failed"]);
        assert_has(&said, "which goes on");
        running.stop_that_logs("-TERM");
    });
}

#[test]
fn ports_and_generators_that_cannot_pass_are_refused_at_the_start() {
    let base = [
        "--state",
        "/nowhere/state",
        "--takeover-socket",
        "/nowhere/socket",
    ];
    for (more, expected) in [
        (
            &["-i", "1@afxdp:a1"][..],
            "--keep-forwarding lets a new switch take over",
        ),
        (
            &["-i", "1@pcap:in.pcap"],
            "a capture is read by one process",
        ),
    ] {
        let said = error(2, &[&base[..], more].concat());
        assert_has(&said, expected);
    }
}
