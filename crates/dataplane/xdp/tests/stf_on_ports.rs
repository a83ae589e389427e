//! Runs every STF test of the repository on real veth pairs, with as much of the test's program in the kernel as fits.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use dataplane::{Nanos, OffloadStatus, PortId, Program, Switch, SwitchConfig};
use dataplane_xdp::runtime::KernelOffload;
use packet_io::{AfPacketPort, AfXdpPort, Port};
use testkit::frames::TIMEOUT;
use testkit::namespace::in_root_namespace;
use testkit::repository::files;
use testkit::xdp::cable::{cable, served};
use testkit::xdp::counts;

/// The length of the shortest frame that an interface sends: an Ethernet header.
const FRAME_BYTES_MIN: usize = 14;

struct Pair {
    inside: AfXdpPort,
    outside: AfPacketPort,
}

impl Pair {
    fn new(port: u16) -> Pair {
        let (inside, outside) = cable(port);
        Pair { inside, outside }
    }
}

/// The wires (veth pairs) of the ports that a test names, the packets that have left the switch, and counts.
#[derive(Default)]
struct Wires {
    pairs: BTreeMap<u16, Pair>,
    left: Vec<(PortId, Vec<u8>)>,
    /// How many packets have left the switch: the packets that were received from a wire, and the packets that could
    /// not leave by a wire because their port has no wire or they are too short for a wire.
    n_taken: u64,
    /// How many frames were sent into wires, and how many of these frames the kernel punted.
    n_frames: u64,
    n_punted: u64,
}

impl Wires {
    /// Resets for the next test.
    fn clear(&mut self) {
        self.left.clear();
        (self.n_taken, self.n_frames, self.n_punted) = (0, 0, 0);
    }

    /// Passes punted frames to the engine in user space, and sends the frames that the engine returns.
    fn run_engine(&mut self, switch: &mut Switch, now: Nanos) {
        for (id, pair) in &mut self.pairs {
            let mut take = |frame: &[u8]| switch.handle_frame(now, PortId(*id), frame);
            self.n_punted += pair.inside.receive(now, 64, &mut take).unwrap() as u64;
        }
        while let Some(sent) = switch.poll_transmit(now) {
            let sent = sent.to_owned();
            match self.pairs.get_mut(&sent.port.0) {
                Some(pair) if sent.frame.len() >= FRAME_BYTES_MIN => {
                    pair.inside.transmit(now, sent.frame[..].into()).unwrap();
                    pair.inside.flush().unwrap();
                }
                // The port has no wire, or the packet is too short for a wire.
                _ => {
                    self.n_taken += 1;
                    self.left.push((sent.port, sent.frame));
                }
            }
        }
    }

    /// Receives packets from the wires until all have arrived.
    fn receive(&mut self, switch: &Switch) {
        let start = Instant::now();
        loop {
            for (id, pair) in &mut self.pairs {
                let left = &mut self.left;
                let mut take = |frame: &[u8]| left.push((PortId(*id), frame.to_vec()));
                self.n_taken += pair.outside.receive(0, 64, &mut take).unwrap() as u64;
            }
            let n_sent = switch.counters().transmitted;
            if self.n_taken >= n_sent {
                return assert_eq!(self.n_taken, n_sent, "more came than was sent");
            }
            let n_taken = self.n_taken;
            assert!(start.elapsed() < TIMEOUT, "{n_taken} of {n_sent} came");
        }
    }
}

/// Waits until everything that the control plane has written takes effect for packets.
fn drain(switch: &mut Switch) {
    let token = switch.begin_drain();
    let start = Instant::now();
    while !switch.is_drained(token) {
        let status = switch.offload_status();
        assert!(start.elapsed() < TIMEOUT, "{status:?}");
        std::thread::yield_now();
    }
}

impl stf::Wire for Wires {
    fn give(&mut self, switch: &mut Switch, now: Nanos, port: PortId, frame: &[u8]) {
        drain(switch);
        let n_expected = switch.counters().received + 1;
        match self.pairs.get_mut(&port.0) {
            Some(pair) if frame.len() >= FRAME_BYTES_MIN => {
                self.n_frames += 1;
                pair.outside.transmit(now, frame.into()).unwrap();
                pair.outside.flush().unwrap();
            }
            _ => switch.handle_frame(now, port, frame),
        }
        let start = Instant::now();
        loop {
            self.run_engine(switch, now);
            switch.collect();
            let has_come = switch.counters().received == n_expected;
            if has_come && (switch.packets_inside() == 0 || now > 0) {
                return;
            }
            let counters = switch.counters();
            assert!(start.elapsed() < TIMEOUT, "{counters:?}");
        }
    }

    fn take(&mut self, switch: &mut Switch, now: Nanos) -> Vec<(PortId, Vec<u8>)> {
        self.run_engine(switch, now);
        self.receive(switch);
        std::mem::take(&mut self.left)
    }
}

type Commands = Vec<(usize, stf::Command)>;

/// Returns the ports that the packets of a test name, without the controller's port, which has no interface.
fn ports_of(commands: &Commands) -> BTreeSet<u16> {
    let cpu_port = SwitchConfig::default().cpu_port.map(|port| port.0);
    let named = commands.iter().filter_map(|(_, command)| match command {
        stf::Command::Packet(port, _) | stf::Command::Expect(port, _) => Some(*port),
        _ => None,
    });
    named.filter(|port| Some(*port) != cpu_port).collect()
}

/// What happened to a test's frames.
struct Seen {
    n_frames: u64,
    n_punted: u64,
    /// Why the kernel does not have the program; `None` if the kernel has the program.
    why_not: Option<String>,
}

fn run(wires: &mut Wires, program: Program, commands: &Commands) -> Result<Seen, String> {
    let mut switch = Switch::new(SwitchConfig::default());
    wires.clear();
    let ports = ports_of(commands);
    for port in &ports {
        switch.add_port(PortId(*port));
    }
    let ports = ports.iter().map(|port| (*port, &wires.pairs[port].inside));
    let clock = Box::new(|| 0);
    let offload = KernelOffload::new(served(ports), clock);
    switch.set_offload(Some(Box::new(offload)));
    let (outcome, mut switch) = stf::run_over(wires, switch, program.clone(), commands, None);
    let why_not = match switch.offload_status() {
        Some(OffloadStatus::Forwarding(_)) => None,
        status => Some(format!("{status:?}")),
    };
    switch.set_offload(None);
    let failures: String = outcome.failures.iter().map(ToString::to_string).collect();
    if !failures.is_empty() {
        return Err(failures);
    }
    let (_, alone) = stf::run_and_keep(program, commands, None);
    counts::difference(&switch, &alone)?;
    Ok(Seen {
        n_frames: wires.n_frames,
        n_punted: wires.n_punted,
        why_not,
    })
}

/// Runs the tests. The kernel must forward at least `n_kernel_min` frames. The environment variable `STF` selects the
/// tests whose names contain its value; `STF_FOLDER` names a folder whose tests run instead of the repository's.
fn compare(folder: &str, n_kernel_min: u64) {
    let filter = std::env::var("STF").unwrap_or_default();
    let given = std::env::var("STF_FOLDER");
    let is_all = filter.is_empty() && given.is_err();
    let folder = given.as_deref().unwrap_or(folder);
    let paths = files(folder, "stf").into_iter();
    let tests: Vec<(PathBuf, Commands)> = paths
        .filter(|path| path.to_str().unwrap().contains(&filter))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let commands = stf::parse(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            (path, commands)
        })
        .collect();
    assert!(!tests.is_empty(), "no test found in {folder}");
    let named = tests.iter().flat_map(|(_, commands)| ports_of(commands));
    let named: BTreeSet<u16> = named.collect();
    let mut wires = Wires {
        pairs: named
            .into_iter()
            .map(|port| (port, Pair::new(port)))
            .collect(),
        ..Wires::default()
    };
    let mut failures = Vec::new();
    let (mut n_frames, mut n_punted, mut n_whole, mut n_left_out) = (0, 0, 0, 0);
    for (path, commands) in &tests {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let program = match stf::program_beside(path) {
            Ok(program) => program,
            // For example, the program's architecture is not supported.
            Err(error) if given.is_ok() => {
                println!("{name}: left out, {error}");
                n_left_out += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        match run(&mut wires, program, commands) {
            Ok(seen) => {
                n_frames += seen.n_frames;
                n_punted += seen.n_punted;
                n_whole += usize::from(seen.n_punted == 0);
                println!(
                    "{name}: {} frames, {} punted {:?}",
                    seen.n_frames, seen.n_punted, seen.why_not
                );
            }
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    println!(
        "{} tests, {n_whole} without a punt; {n_punted} of {n_frames} frames punted",
        tests.len() - n_left_out
    );
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(!is_all || n_frames - n_punted >= n_kernel_min);
}

#[test]
fn realistic_programs_forward_on_ports() {
    in_root_namespace(|| compare("testdata/realistic", 200));
}

#[test]
fn the_corpus_forwards_on_ports() {
    in_root_namespace(|| compare("testdata/stf", 150));
}
