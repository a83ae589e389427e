//! Measures how many copies a second the kernel makes of 1,400-byte frames that come and leave by a veth: with
//! hand-written programs (a broadcast whose egress program only counts places), and with a compiled program
//! (`tests/programs/exchange.p4`, whose egress writes a field). Sender and copies share one processor, because the
//! sender's system call does everything.
//!
//! As root, in a network namespace that is thrown away:
//! `unshare -n cargo run --release -p dataplane-xdp --example fan_out_rate`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement stops at what it did not expect, and prints"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use bpf::{Map, MapKind, Program, ProgramConfig, ProgramKind};
use dataplane::{
    ActionCall, MatchField, MulticastGroup, OffloadStatus, PortId, Replica, Switch, SwitchConfig,
    TableEntry,
};
use dataplane_xdp::runtime::transmit::Transmit;
use dataplane_xdp::runtime::{KernelOffload, KernelPort};
use packet_io::{AfPacketConfig, AfPacketPort, AfXdpConfig, AfXdpPort, Port};
use testkit::namespace::{ethtool, veth_pair};
use testkit::xdp::{by_hand, program_at};

const FRAME_BYTES: usize = 1400;
const FAN_OUTS: [u16; 5] = [1, 4, 8, 16, 64];
/// Copies in one measurement, and the number of measurements.
const COPIES: u64 = 400_000;
const ROUNDS: usize = 3;

fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.resize(FRAME_BYTES, 0xab);
    frame
}

/// Sends frames that make `COPIES` copies. Returns copies per second, and the share that was sent.
fn measure(outside: &mut AfPacketPort, fan_out: u16, sent: &mut dyn FnMut() -> u64) -> (f64, f64) {
    let n_frames = COPIES / u64::from(fan_out);
    let frame = frame();
    let before = sent();
    let start = Instant::now();
    for number in 0..n_frames {
        outside.transmit(0, frame[..].into()).unwrap();
        // As many frames as a veth's queue accepts at once.
        if number % 64 == 63 {
            outside.flush().unwrap();
        }
    }
    outside.flush().unwrap();
    let elapsed = start.elapsed();
    std::thread::sleep(Duration::from_millis(20));
    let n_sent = (sent() - before) as f64;
    let share = n_sent / (n_frames * u64::from(fan_out)) as f64;
    (n_sent / elapsed.as_secs_f64(), share)
}

/// Measures the hand-written programs.
fn by_hand(outside: &mut AfPacketPort, port: &AfXdpPort, fan_out: u16) -> (f64, f64) {
    let interface = port.interface();
    let transmit = Transmit::new([interface.index()]).unwrap();
    let places = by_hand::map(MapKind::PerCpuArray, 8, 256, None);
    let egress = by_hand::egress(&places);
    let egress = transmit.load_egress("by_hand", Some(&egress)).unwrap();
    let group: Map = by_hand::map(MapKind::DeviceMap, 8, u32::from(fan_out), None);
    for place in 0..u32::from(fan_out) {
        group
            .set_device(place, interface.index(), Some(&egress))
            .unwrap();
    }
    let groups = by_hand::map(MapKind::ArrayOfMaps, 4, 1, Some(&group));
    groups.set_map(0, &group).unwrap();
    let serials = by_hand::map(MapKind::PerCpuArray, 4, 1, None);
    let ingress = Program::load(&ProgramConfig {
        name: "by_hand",
        kind: ProgramKind::Xdp,
        has_fragments: false,
        instructions: &by_hand::ingress(&serials, &groups),
    });
    interface.run(&ingress.unwrap()).unwrap();
    let mut sent = || transmit.count(interface.index()).unwrap().sent.packets;
    let measured = measure(outside, fan_out, &mut sent);
    interface.run_own().unwrap();
    measured
}

fn switch() -> Switch {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/exchange.p4");
    let mut switch = Switch::new(SwitchConfig::default());
    switch.add_port(PortId(1));
    switch.set_program(program_at(&path).unwrap());
    let program = switch.program().unwrap();
    let table = program.table("ExchangeIngress.addresses").unwrap();
    let action = program.action_of(table, "ExchangeIngress.flood").unwrap();
    let call = ActionCall {
        action,
        args: vec![vec![1]],
    };
    let key = vec![MatchField::Exact(vec![2, 0, 0, 0, 0, 1])];
    switch
        .insert_entry(table, TableEntry::new(key, 0, call))
        .unwrap();
    switch
}

/// Measures the compiled program.
fn compiled(outside: &mut AfPacketPort, port: &AfXdpPort, fan_out: u16) -> (f64, f64) {
    let mut switch = switch();
    let replicas = (0..fan_out).map(|instance| Replica {
        port: PortId(1),
        instance,
    });
    let group = MulticastGroup {
        id: 1,
        replicas: replicas.collect(),
        ..MulticastGroup::default()
    };
    switch.insert_multicast_group(group).unwrap();
    let ports = vec![KernelPort {
        id: PortId(1),
        interface: port.interface(),
    }];
    let start = Instant::now();
    let clock = Box::new(move || start.elapsed().as_nanos() as u64);
    switch.set_offload(Some(Box::new(KernelOffload::new(ports, clock))));
    let status = switch.offload_status();
    assert!(
        matches!(status, Some(OffloadStatus::Forwarding(_))),
        "{status:?}"
    );
    let mut sent = || {
        switch.collect();
        switch.counters().transmitted
    };
    let measured = measure(outside, fan_out, &mut sent);
    switch.set_offload(None);
    measured
}

fn main() {
    veth_pair("v0", "v1");
    ethtool("-K v0 gro on");
    let mut outside = AfPacketPort::open("v0", AfPacketConfig::default()).unwrap();
    let port = AfXdpPort::open("v1", &AfXdpConfig::default()).unwrap();
    println!("copies a second (share of copies that left), {ROUNDS} rounds");
    for fan_out in FAN_OUTS {
        let mut line = format!("{fan_out:3} copies:");
        for _ in 0..ROUNDS {
            let (hand, hand_share) = by_hand(&mut outside, &port, fan_out);
            let (ours, our_share) = compiled(&mut outside, &port, fan_out);
            line += &format!(
                "  by hand {:.2} M ({hand_share:.2}), compiled {:.2} M ({our_share:.2}), ratio {:.2};",
                hand / 1e6,
                ours / 1e6,
                ours / hand
            );
        }
        println!("{line}");
    }
}
