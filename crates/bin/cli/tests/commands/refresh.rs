//! `reprise viewer refresh`: viewers that move, and switches that are restarted or get another
//! program.

use std::io::{BufRead, BufReader, PipeWriter, Read};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use conference::address::Mac;
use testkit::sfu::fake::FakeSwitch;
use testkit::sfu::programs;
use testkit::sfu::service::Server;

use crate::bench::{ADDRESS, Bench, replication, text};

/// Timeout for an expected line.
const TIMEOUT: Duration = Duration::from_secs(120);

fn host(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, n)
}

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

/// A running `viewer refresh --every 1`.
struct Follower {
    child: Child,
    printed: Receiver<String>,
    said: Receiver<String>,
}

impl Follower {
    fn start(bench: &Bench, words: &str) -> Follower {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(["viewer", "refresh", "--every", "1"]);
        command.args(words.split_whitespace());
        command.env("REPRISE_SWITCH", bench.server.address.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        Follower {
            printed: lines(child.stdout.take().expect("a pipe")),
            said: lines(child.stderr.take().expect("a pipe")),
            child,
        }
    }

    /// Starts the process with a standard error that has no reader.
    fn start_unheard(bench: &Bench) -> Follower {
        let mut command = bench.command("viewer refresh --every 1");
        command.stdout(Stdio::piped()).stderr(unread());
        let mut child = command.spawn().expect("it runs");
        Follower {
            printed: lines(child.stdout.take().expect("a pipe")),
            said: channel().1,
            child,
        }
    }

    /// Waits for a line on standard error. A line about an interrupted call may come first.
    fn says(&self, words: &str) {
        while !self
            .said
            .recv_timeout(TIMEOUT)
            .expect(words)
            .contains(words)
        {}
    }

    /// Waits for the next line on standard output, which must contain these words.
    fn prints(&self, words: &str) {
        let line = self.printed.recv_timeout(TIMEOUT).expect(words);
        assert!(line.contains(words), "expected {words}: {line}");
    }

    /// Ends the process, which must not have printed any other line.
    fn end(self) {
        self.end_having_said(&[]);
    }

    /// Ends the process. No other line may be on standard output, and every remaining line on standard error must
    /// contain one of these words.
    fn end_having_said(mut self, words: &[&str]) {
        self.child.kill().expect("it goes on");
        self.child.wait().expect("it ended");
        for said in self.said.iter() {
            assert!(words.iter().any(|words| said.contains(words)), "{said}");
        }
        assert_eq!(self.printed.iter().collect::<Vec<_>>(), [""; 0]);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // `kill` fails if the test has already ended the process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pipe without a reader.
fn unread() -> PipeWriter {
    std::io::pipe().expect("a pipe").1
}

/// Reads in a thread, so that no test waits for a line for ever.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let read = BufReader::new(from).lines().map_while(Result::ok);
        read.map_while(|line| sender.send(line).ok()).for_each(drop);
    });
    lines
}

/// Sets the hosts that answer ARP on port 1, each as the last bytes of IP and MAC.
fn answer(bench: &Bench, hosts: &[(u8, u8)]) {
    let hosts = hosts.iter().map(|(ip, n)| (1, host(*ip), mac(*n)));
    bench.server.switch().other_hosts = hosts.collect();
}

fn add_viewer(bench: &Bench) {
    bench.ok(ADDRESS);
    bench.ok("group add --group 4 --ip 10.0.1.4");
    bench.ok("viewer add --group 4 --ip 10.0.1.5");
}

#[test]
fn a_viewer_that_is_on_another_port_now_is_reported_with_what_to_type() {
    let bench = replication();
    let place = |port, n| {
        bench.server.switch().other_hosts = vec![(port, host(5), mac(n))];
    };
    bench.server.switch().ports = vec![1, 2, 3];
    place(1, 5);
    add_viewer(&bench);
    for port in [2, 3] {
        let own = format!("--ip 10.0.1.10{port} --mac 02:00:00:00:01:0{port}");
        bench.ok(&format!("address set --port {port} {own}"));
    }
    place(2, 5);
    let output = bench.run("viewer refresh");
    assert_eq!(text(&output.stdout), "no change\n");
    let said = text(&output.stderr);
    assert_eq!(
        said,
        "reprise: viewer 10.0.1.5 does not answer to ARP on port 1, but elsewhere \
         (02:00:00:00:00:05 on port 2): its copies go on to 02:00:00:00:00:05 on port 1; if it is there now: \
         `reprise viewer remove --group 4 --ip 10.0.1.5 --udp-port 5004`, \
         `reprise viewer add --group 4 --ip 10.0.1.5 --udp-port 5004 --port 2`\n"
    );
    for words in said.split("`reprise ").skip(1) {
        bench.ok(words.split('`').next().expect("a command"));
    }
    assert_eq!(bench.json("show")["groups"][0]["viewers"][0]["port"], 2);
    assert_eq!(bench.ok("viewer refresh"), "no change\n");
}

#[test]
fn refresh_goes_on_whatever_becomes_of_the_switch_and_acts_on_what_is_there() {
    let mut bench = replication();
    answer(&bench, &[(5, 5)]);
    add_viewer(&bench);
    let follower = Follower::start(&bench, "");
    answer(&bench, &[(5, 6)]);
    follower.prints("viewer 10.0.1.5:5004 02:00:00:00:00:06");

    // Another switch starts at the same address: first without a program, then with another program, then with an SFU
    // program.
    bench.server.stop();
    follower.says("no switch answers");
    bench.server = Server::start_at(bench.server.address, FakeSwitch::new(None));
    follower.says("the switch has no pipeline yet");
    *bench.server.switch() = FakeSwitch::new(Some(programs::other()));
    follower.says("is no SFU that this controller knows");
    *bench.server.switch() = FakeSwitch::new(Some(programs::recirculation(131_072, 65_536)));
    follower.says("looking up the viewers works again");
    answer(&bench, &[(5, 6)]);
    add_viewer(&bench);
    answer(&bench, &[(5, 7)]);
    follower.prints("viewer 10.0.1.5 02:00:00:00:00:07");

    // The connection stays, but the program and the viewer change without a message.
    {
        let mut switch = bench.server.switch();
        *switch = FakeSwitch::new(Some(programs::replication(131_072)));
        switch.other_hosts = vec![(1, host(5), mac(5))];
    }
    add_viewer(&bench);
    answer(&bench, &[(5, 8)]);
    follower.prints("viewer 10.0.1.5:5004 02:00:00:00:00:08, mac was 02:00:00:00:00:05");
    assert_eq!(bench.server.switch().violations, [""; 0]);
    // The program may have been replaced between two reads of the follower.
    follower.end_having_said(&["refused a read", "looking up the viewers works again"]);
}

#[test]
fn a_viewer_that_is_given_by_hand_meanwhile_stays() {
    let bench = replication();
    answer(&bench, &[(5, 5)]);
    add_viewer(&bench);
    let follower = Follower::start(&bench, "--group 4");
    answer(&bench, &[(5, 6)]);
    follower.prints("02:00:00:00:00:06");
    bench.ok("group delete --group 4");
    follower.says("group 4");
    bench.ok("group add --group 4 --ip 10.0.1.4");
    bench.ok("viewer add --group 4 --ip 10.0.1.5 --mac 02:00:00:00:00:09");
    follower.says("looking up the viewers works again");
    answer(&bench, &[(5, 7)]);
    assert_eq!(
        bench.json("show")["groups"][0]["viewers"][0]["mac"],
        "02:00:00:00:00:09"
    );
    follower.end();
}

#[test]
fn refresh_goes_on_though_nobody_reads_what_it_says() {
    let mut bench = replication();
    answer(&bench, &[(5, 5), (6, 6)]);
    add_viewer(&bench);
    bench.ok("viewer add --group 4 --ip 10.0.1.6");

    // One viewer does not answer, which is reported. The other one has moved, and its new MAC is written nevertheless.
    answer(&bench, &[(5, 7)]);
    let output = bench.command("viewer refresh").stderr(unread()).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    assert!(printed.contains("02:00:00:00:00:07"), "{printed}");

    let follower = Follower::start_unheard(&bench);
    answer(&bench, &[(5, 8), (6, 6)]);
    follower.prints("viewer 10.0.1.5:5004 02:00:00:00:00:08");
    bench.server.stop();
    let switch = FakeSwitch::new(Some(programs::replication(131_072)));
    bench.server = Server::start_at(bench.server.address, switch);
    answer(&bench, &[(5, 5)]);
    add_viewer(&bench);
    answer(&bench, &[(5, 9)]);
    follower.prints("02:00:00:00:00:09");
}
