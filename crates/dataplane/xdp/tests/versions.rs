//! Tests what a packet sees of a table during a commit. A table entry has two slots. Each slot holds an action and the
//! version of the tables from which the action is valid.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use dataplane::engine::ir::{Int, Matcher};
use dataplane::{DropReason, PortId};
use dataplane_xdp::image::{ACTION_MISS, ACTION_PUNT, NEVER};
use testkit::repository::root;
use testkit::xdp::kernel::{End, Kernel};
use testkit::xdp::program_at;

/// Loads a program with one table.
fn kernel(name: &str) -> Kernel {
    let path = root().join("testdata/clif").join(name);
    let kernel = Kernel::new(&program_at(&path).unwrap()).unwrap();
    (0..511).for_each(|port| kernel.forward_to(PortId(port), true));
    kernel
}

/// An IPv4 packet to an address.
fn frame(to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 9, 9, 9, 9]);
    frame.extend(to);
    frame
}

/// The port that a packet leaves by.
fn port(kernel: &Kernel, frame: &[u8]) -> Option<u16> {
    match kernel.run(PortId(1), frame).end {
        End::Send(port, _) => Some(port.0),
        End::Drop(DropReason::IngressDrop) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_of_many_writes_becomes_visible_with_one_store() {
    let mut kernel = kernel("exact_table.p4");
    let layout = kernel.image.tables[0].clone();
    let forward = |port: u16| layout.encode_slot(0, &[Int::from(port)]);
    let station = |n: u8| [vec![n; 6], vec![3; 6], vec![0x12, 0x34]].concat();
    let key = |n: u8| {
        let address = u64::from_be_bytes([0, 0, n, n, n, n, n, n]);
        [Matcher::Exact(Int::from(address))]
    };
    kernel.put_slot(&layout, 0, 0, 0, &layout.encode_slot(1, &[]));
    kernel.put_slot(&layout, 0, 1, NEVER, &layout.encode_slot(1, &[]));
    kernel.put_key(&layout, &key(1), 1);
    kernel.put_slot(&layout, 1, 0, 0, &forward(7));
    kernel.put_slot(&layout, 1, 1, NEVER, &forward(0));
    let seen = |kernel: &Kernel| [1, 2].map(|n| port(kernel, &station(n)));
    assert_eq!(seen(&kernel), [Some(7), None]);

    // In version 1, station 1 moves to another port, station 2 is added, and the default action changes.
    kernel.put_slot(&layout, 1, 1, 1, &forward(8));
    kernel.put_slot(&layout, 2, 0, 1, &forward(9));
    kernel.put_slot(&layout, 2, 1, NEVER, &forward(0));
    kernel.put_key(&layout, &key(2), 2);
    kernel.put_slot(&layout, 0, 1, 1, &forward(5));
    let unknown = station(3);
    assert_eq!(seen(&kernel), [Some(7), None]);
    assert_eq!(port(&kernel, &unknown), None);
    kernel.set_version(1);
    assert_eq!(seen(&kernel), [Some(8), Some(9)]);
    assert_eq!(port(&kernel, &unknown), Some(5));

    // Station 1 is removed, then added again in the slot that no packet sees any more.
    let gone = layout.encode_slot(ACTION_MISS, &[]);
    kernel.put_slot(&layout, 1, 0, 2, &gone);
    assert_eq!(seen(&kernel), [Some(8), Some(9)]);
    kernel.set_version(2);
    assert_eq!(seen(&kernel), [Some(5), Some(9)]);
    kernel.put_slot(&layout, 1, 1, 3, &forward(6));
    assert_eq!(seen(&kernel), [Some(5), Some(9)]);
    kernel.set_version(3);
    assert_eq!(seen(&kernel), [Some(6), Some(9)]);

    // A packet whose action the kernel cannot run is punted.
    kernel.put_slot(&layout, 2, 1, 4, &layout.encode_slot(ACTION_PUNT, &[]));
    kernel.set_version(4);
    assert_eq!(kernel.run(PortId(1), &station(2)).end, End::Punt);
}

#[test]
fn behind_a_prefix_that_does_not_hold_the_next_shorter_one_does() {
    let mut kernel = kernel("lpm_table.p4");
    let layout = kernel.image.tables[0].clone();
    let route = |port: u16| layout.encode_slot(0, &[Int::from(port), Int::ZERO]);
    let gone = layout.encode_slot(ACTION_MISS, &[]);
    let prefix = |bytes: [u8; 4], prefix_len: u32| {
        let value = Int::from(u32::from_be_bytes(bytes));
        [Matcher::Lpm { value, prefix_len }]
    };
    let prefixes = [
        prefix([0, 0, 0, 0], 0),
        prefix([10, 0, 0, 0], 8),
        prefix([10, 1, 0, 0], 16),
        prefix([10, 1, 2, 0], 24),
    ];
    kernel.put_slot(&layout, 0, 0, 0, &route(100));
    kernel.put_slot(&layout, 0, 1, NEVER, &gone);
    for (number, prefix) in (1_u32..).zip(&prefixes) {
        kernel.put_slot(&layout, number, 0, 0, &route(number as u16));
        kernel.put_slot(&layout, number, 1, NEVER, &gone);
        // Each prefix contains the next.
        kernel.put_link(&layout, number, u64::from(number - 1));
        kernel.put_key(&layout, prefix, number);
    }
    let inside = frame([10, 1, 2, 3]);
    assert_eq!(port(&kernel, &inside), Some(4));
    assert_eq!(port(&kernel, &frame([10, 1, 9, 9])), Some(3));
    assert_eq!(port(&kernel, &frame([11, 1, 9, 9])), Some(1));
    // Remove one prefix after the other, the longest first; their keys stay.
    for (version, number) in [(1, 4), (2, 3), (3, 2)] {
        kernel.put_slot(&layout, number, 1, version, &gone);
        assert_eq!(port(&kernel, &inside), Some(number as u16));
        kernel.set_version(version);
        assert_eq!(port(&kernel, &inside), Some(number as u16 - 1));
    }
    // Now more prefixes are removed than the program tries, so the packet is punted.
    kernel.put_slot(&layout, 1, 1, 4, &gone);
    kernel.set_version(4);
    assert_eq!(kernel.run(PortId(1), &inside).end, End::Punt);
    assert_eq!(port(&kernel, &frame([11, 1, 9, 9])), Some(100));
}
