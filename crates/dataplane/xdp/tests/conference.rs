//! Runs `p4/conference.p4` in the kernel, with media over IPv4 and over IPv6, and with receivers of both versions.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use dataplane::{PortId, Switch, SwitchConfig};
use testkit::repository::root;
use testkit::xdp::checked::checked_switch;
use testkit::xdp::conference::{self, Ip, frame};
use testkit::xdp::program_at;

const N_RECEIVERS: u16 = 7;

/// Returns the number of frames that leave.
fn give(switch: &mut Switch, frame: &[u8]) -> usize {
    switch.handle_frame(0, conference::PORT, frame);
    std::iter::from_fn(|| switch.poll_transmit(0).map(|_| ())).count()
}

#[test]
fn every_copy_is_the_interpreters_whatever_the_versions_of_ip() {
    let (mut switch, report) = checked_switch(SwitchConfig::default());
    (0..4).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program_at(&root().join("p4/conference.p4")).unwrap());
    conference::set_up(&mut switch, N_RECEIVERS);
    let n_receivers = usize::from(N_RECEIVERS);
    let mut expected = (0, 0);
    for ip in [Ip::V4, Ip::V6] {
        let media = frame(ip, b"a leg's packet");
        // Also send the frame with a tag of VLAN 0, which the program removes.
        let mut tagged = media.clone();
        tagged.splice(12..12, [0x81, 0, 0, 0]);
        for given in [media, tagged] {
            assert_eq!(give(&mut switch, &given), n_receivers, "{ip:?}");
            expected = (expected.0 + 1, expected.1 + n_receivers);
            let seen = report.lock().unwrap().clone();
            assert_eq!(seen.refused, None);
            assert_eq!(seen.differences, Vec::<String>::new());
            assert_eq!((seen.n_kernel, seen.n_copies), expected, "{ip:?}");
        }
    }
    // Send frames with one wrong byte in the headers, at each place, and frames of every length.
    for ip in [Ip::V4, Ip::V6] {
        let media = frame(ip, b"another");
        for at in 0..media.len() {
            for flip in [0x01, 0x80] {
                let mut wrong = media.clone();
                wrong[at] ^= flip;
                give(&mut switch, &wrong);
            }
            if at >= 14 {
                give(&mut switch, &media[..at]);
            }
        }
    }
    let seen = report.lock().unwrap().clone();
    assert_eq!(seen.differences, Vec::<String>::new());
    assert_eq!(seen.n_kernel, seen.n_frames, "nothing is punted");
}
