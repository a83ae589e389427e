//! Tests `p4/sfu.p4` in the kernel, with presenters' packets and the copies made of them, ARP and ICMP requests, and
//! packets with wrong headers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use dataplane::{PortId, Switch, SwitchConfig};
use testkit::repository::root;
use testkit::xdp::checked::{Report, checked_switch};
use testkit::xdp::{program_at, sfu};

fn give(switch: &mut Switch, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
    switch.handle_frame(0, sfu::PORT, frame);
    let mut sent = Vec::new();
    while let Some(transmit) = switch.poll_transmit(0) {
        let transmit = transmit.to_owned();
        sent.push((transmit.port, transmit.frame));
    }
    sent
}

#[test]
fn every_copy_and_every_answer_is_the_interpreters() {
    let (mut switch, report) = checked_switch(SwitchConfig::default());
    (0..4).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program_at(&root().join("p4/sfu.p4")).unwrap());
    sfu::set_up(&mut switch, 7);
    let frame = sfu::frame(b"a presenter's packet");
    assert_eq!(give(&mut switch, &frame).len(), 7);
    // Send the frame without a UDP checksum, then with a tag of VLAN 0, which the program removes.
    let mut without = frame.clone();
    without[40..42].copy_from_slice(&[0, 0]);
    assert_eq!(give(&mut switch, &without).len(), 7);
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0, 0, 0]);
    let copies = give(&mut switch, &tagged);
    assert_eq!(copies.len(), 7);
    assert!(copies.iter().all(|(_, copy)| copy.len() == frame.len()));
    for question in sfu::questions() {
        assert_eq!(give(&mut switch, &question).len(), 1);
    }
    let report_of = |report: &Report| (report.n_kernel, report.n_copies);
    let seen = report.lock().unwrap().clone();
    assert_eq!(seen.refused, None);
    assert_eq!(seen.differences, Vec::<String>::new());
    assert_eq!(report_of(&seen), (4, 21), "ARP alone writes registers");

    // Send frames with one wrong byte in the headers, at each place, and frames of every length.
    for at in 0..frame.len() {
        for flip in [0x01, 0x80] {
            let mut wrong = frame.clone();
            wrong[at] ^= flip;
            give(&mut switch, &wrong);
        }
        if at >= 14 {
            give(&mut switch, &frame[..at]);
        }
    }
    let seen = report.lock().unwrap().clone();
    assert_eq!(seen.differences, Vec::<String>::new());
    assert_eq!(seen.n_kernel + 1, seen.n_frames, "ARP alone is punted");
}
