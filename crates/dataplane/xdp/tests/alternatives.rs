//! Copies whose egress reads fields of invalid headers. These fields are not in the frame, but the kernel must read the
//! same values as the interpreter.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::collections::BTreeSet;

use dataplane::{MulticastGroup, PortId, Replica, Switch, SwitchConfig};
use testkit::repository::root;
use testkit::xdp::checked::checked_switch;
use testkit::xdp::program_at;

/// How many values of the header field `what` are tried: `alternatives.p4` reads only the lowest six bits.
const N_WHAT: u8 = 1 << 6;

fn give(switch: &mut Switch, frame: &[u8]) -> Vec<Vec<u8>> {
    switch.handle_frame(0, PortId(0), frame);
    let mut sent = Vec::new();
    while let Some(transmit) = switch.poll_transmit(0) {
        sent.push(transmit.to_owned().frame);
    }
    sent
}

/// A frame whose headers after Ethernet have no zeros.
fn frame(ether_type: u16, what: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, what, 2, 0, 0, 0, 0, 1];
    frame.extend(ether_type.to_be_bytes());
    frame.extend((0..60).map(|n| 0xf0 - 3 * n));
    frame
}

#[test]
fn copies_read_what_ingress_has_left_in_invalid_headers() {
    let (mut switch, report) = checked_switch(SwitchConfig::default());
    (0..3).for_each(|port| switch.add_port(PortId(port)));
    let path = "crates/dataplane/xdp/tests/programs/alternatives.p4";
    switch.set_program(program_at(&root().join(path)).unwrap());
    let replicas = [(1, 7), (2, 8), (1, 9)].map(|(port, instance)| Replica {
        port: PortId(port),
        instance,
    });
    let group = MulticastGroup {
        id: 1,
        replicas: replicas.to_vec(),
        ..MulticastGroup::default()
    };
    switch.insert_multicast_group(group).unwrap();
    let mut different = BTreeSet::new();
    let mut n_frames = 0;
    for what in 0..N_WHAT {
        for ether_type in 0x0900..=0x0907 {
            let copies = give(&mut switch, &frame(ether_type, what));
            assert_eq!(copies.len(), replicas.len());
            n_frames += 1;
            different.extend(copies);
        }
    }
    let seen = report.lock().unwrap().clone();
    assert_eq!(seen.refused, None);
    assert_eq!(seen.left, []);
    assert_eq!(
        seen.differences.first(),
        None,
        "the first of {}",
        seen.differences.len()
    );
    assert_eq!(different.len(), replicas.len() * n_frames);
    let counts = (seen.n_kernel, seen.n_copies);
    assert_eq!(counts, (n_frames, replicas.len() * n_frames));
}
