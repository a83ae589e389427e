//! Tests `p4/sfu.p4` and `p4/conference.p4` in the kernel on real veth pairs, against a switch that interprets the same
//! programs. The tests compare the frames that leave each port, in their order, and every count.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::os::fd::AsFd;
use std::time::Instant;

use bpf::{Map, MapConfig, MapKind, Program, ProgramConfig, ProgramKind};
use dataplane::{OffloadStatus, PortId, Switch, SwitchConfig};
use dataplane_xdp::asm::{Assembler, Helper, Reg, Symbol};
use dataplane_xdp::image::MapRef;
use dataplane_xdp::runtime::KernelOffload;
use packet_io::{AfPacketPort, AfXdpPort, Port};
use testkit::frames::TIMEOUT;
use testkit::namespace::{in_root_namespace, interface_index};
use testkit::repository::root;
use testkit::xdp::cable::{cable, served};
use testkit::xdp::{conference, counts, program_at, sfu};

const N_PORTS: u16 = 4;
const N_VIEWERS: u16 = 40;
/// Eight viewers at one port and four at another: the copies of two packets fill a device's queue of 16 frames.
const N_VIEWERS_FEW: u16 = 12;

fn switch(program: &str, set_up: impl Fn(&mut Switch)) -> Switch {
    let mut switch = Switch::new(SwitchConfig::default());
    (0..N_PORTS).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program_at(&root().join(program)).unwrap());
    set_up(&mut switch);
    switch
}

/// Returns a program that sends every frame through the first device of a map of devices.
fn redirecting(devices: &Map) -> Program {
    let mut asm = Assembler::default();
    asm.symbol(Reg(1), Symbol::Map(MapRef(0)));
    asm.mov_imm(Reg(2), 0);
    asm.mov_imm(Reg(3), 0);
    asm.call(Helper::RedirectMap);
    asm.exit();
    let code = asm.finish().unwrap();
    let program = Program::load(&ProgramConfig {
        name: "test",
        kind: ProgramKind::Xdp,
        has_fragments: false,
        instructions: &code.link(|_| devices.as_fd()),
    });
    program.unwrap()
}

/// The frames that left, in one list for each port.
type Sent = Vec<Vec<Vec<u8>>>;

struct Sides {
    alone: Switch,
    beside: Switch,
    ports: Vec<AfXdpPort>,
    outside: Vec<AfPacketPort>,
    n_punted: u64,
}

impl Sides {
    fn sfu(n_viewers: u16) -> Sides {
        Sides::new("p4/sfu.p4", |switch| sfu::set_up(switch, n_viewers))
    }

    fn new(program: &str, set_up: impl Fn(&mut Switch)) -> Sides {
        let (ports, outside): (Vec<_>, Vec<_>) = (0..N_PORTS).map(cable).unzip();
        let mut beside = switch(program, &set_up);
        let start = Instant::now();
        let clock = Box::new(move || start.elapsed().as_nanos() as u64);
        let offload = KernelOffload::new(served((0..).zip(&ports)), clock);
        beside.set_offload(Some(Box::new(offload)));
        let status = beside.offload_status();
        assert!(
            matches!(status, Some(OffloadStatus::Forwarding(_))),
            "{status:?}"
        );
        Sides {
            alone: switch(program, &set_up),
            beside,
            ports,
            outside,
            n_punted: 0,
        }
    }

    fn expected(&mut self, frame: &[u8]) -> Sent {
        let mut expected = vec![Vec::new(); N_PORTS.into()];
        self.alone.handle_frame(0, sfu::PORT, frame);
        while let Some(sent) = self.alone.poll_transmit(0) {
            let sent = sent.to_owned();
            expected[usize::from(sent.port.0)].push(sent.frame);
        }
        expected
    }

    /// Passes punted frames to the engine in user space, and sends the frames that the engine returns.
    fn run_engine(&mut self) {
        for (id, port) in (0..).zip(&mut self.ports) {
            let switch = &mut self.beside;
            let mut take = |frame: &[u8]| switch.handle_frame(0, PortId(id), frame);
            self.n_punted += port.receive(0, 64, &mut take).unwrap() as u64;
        }
        while let Some(sent) = self.beside.poll_transmit(0) {
            let sent = sent.to_owned();
            let port = &mut self.ports[usize::from(sent.port.0)];
            port.transmit(0, sent.frame[..].into()).unwrap();
            port.flush().unwrap();
        }
    }

    /// Passes one frame through both switches, and compares the frames that leave.
    fn pass(&mut self, frame: &[u8]) -> usize {
        let expected = self.expected(frame);
        let came_by = &mut self.outside[usize::from(sfu::PORT.0)];
        came_by.transmit(0, frame.into()).unwrap();
        came_by.flush().unwrap();
        self.assert_sent(&expected, frame)
    }

    /// Passes a frame `n` times through both switches; all `n` arrive before the port's program runs.
    fn pass_together(&mut self, frame: &[u8], n: u32) -> usize {
        let mut expected: Sent = vec![Vec::new(); N_PORTS.into()];
        for _ in 0..n {
            for (port, sent) in self.expected(frame).into_iter().enumerate() {
                expected[port].extend(sent);
            }
        }
        let devices = Map::create(&MapConfig {
            name: "test",
            kind: MapKind::DeviceMap,
            key_bytes: 4,
            value_bytes: 8,
            n_entries_max: 1,
            flags: 0,
            inner: None,
        });
        let devices = devices.unwrap();
        let outside = interface_index(&format!("out{}", sfu::PORT.0));
        devices.set_device(0, outside, None).unwrap();
        redirecting(&devices).send(frame, n).unwrap();
        self.assert_sent(&expected, frame)
    }

    /// Compares the frames that left with `expected`, and returns their number.
    fn assert_sent(&mut self, expected: &Sent, frame: &[u8]) -> usize {
        let mut sent: Sent = vec![Vec::new(); N_PORTS.into()];
        let start = Instant::now();
        let lengths = |sent: &Sent| sent.iter().map(Vec::len).collect::<Vec<_>>();
        while lengths(&sent) != lengths(expected) {
            assert!(
                start.elapsed() < TIMEOUT,
                "{frame:02x?}: {:?} of {:?}",
                lengths(&sent),
                lengths(expected)
            );
            self.run_engine();
            for (port, sent) in self.outside.iter_mut().zip(&mut sent) {
                let mut take = |frame: &[u8]| sent.push(frame.to_vec());
                port.receive(0, 64, &mut take).unwrap();
            }
        }
        assert_eq!(sent, *expected, "{frame:02x?}");
        expected.iter().map(Vec::len).sum()
    }

    fn assert_counts_are_equal(&mut self) {
        let start = Instant::now();
        let n_expected = self.alone.counters().received;
        loop {
            self.run_engine();
            self.beside.collect();
            if self.beside.counters().received == n_expected && self.beside.packets_inside() == 0 {
                break;
            }
            let counters = self.beside.counters();
            assert!(start.elapsed() < TIMEOUT, "{counters:?}");
        }
        counts::difference(&self.beside, &self.alone).unwrap();
    }
}

#[test]
fn what_leaves_the_ports_and_what_is_counted_is_the_interpreter_s() {
    in_root_namespace(|| {
        let mut sides = Sides::sfu(N_VIEWERS);
        let frame = sfu::frame(b"a presenter's packet");
        for _ in 0..50 {
            assert_eq!(sides.pass(&frame), usize::from(N_VIEWERS));
        }
        sides.assert_counts_are_equal();
        assert_eq!(sides.n_punted, 0);
        for question in sfu::questions() {
            assert_eq!(sides.pass(&question), 1);
        }
        // Send frames with one wrong byte in the headers, at each place, and shorter frames.
        for at in 0..frame.len() {
            for flip in [0x01, 0x80] {
                let mut wrong = frame.clone();
                wrong[at] ^= flip;
                sides.pass(&wrong);
            }
            if at >= 14 {
                sides.pass(&frame[..at]);
            }
        }
        sides.assert_counts_are_equal();
        assert_eq!(sides.n_punted, 1, "ARP alone writes registers");
    });
}

#[test]
fn copies_of_packets_that_come_together_go_to_their_own_viewers() {
    in_root_namespace(|| {
        let mut sides = Sides::sfu(N_VIEWERS_FEW);
        let frame = sfu::frame(b"one of some packets");
        for n in 1..=16 {
            let n_copies = usize::from(N_VIEWERS_FEW) * n as usize;
            assert_eq!(sides.pass_together(&frame, n), n_copies);
        }
        sides.assert_counts_are_equal();
    });
}

#[test]
fn a_conference_s_media_is_copied_in_the_kernel_whatever_the_versions_of_ip() {
    in_root_namespace(|| {
        assert_eq!(conference::PORT, sfu::PORT, "the port that `pass` uses");
        let set_up = |switch: &mut Switch| conference::set_up(switch, N_VIEWERS);
        let mut sides = Sides::new("p4/conference.p4", set_up);
        for _ in 0..50 {
            for ip in [conference::Ip::V4, conference::Ip::V6] {
                let media = conference::frame(ip, b"a leg's packet");
                assert_eq!(sides.pass(&media), usize::from(N_VIEWERS));
            }
        }
        sides.assert_counts_are_equal();
        assert_eq!(sides.n_punted, 0);
    });
}
