//! Tests, for both SFU programs, that a packet makes one copy for each viewer, and the contents of each copy.

use std::net::Ipv4Addr;

use conformance::packet::{PRESENTER_PORT, UdpCopy, presenter_frame, udp_copy, udp_frame};
use conformance::sfu::{
    PRESENTER_IP, SFU_IP, SFU_MAC, SFU_PORT, STREAM_PORT, Sfu, SfuProgram, Viewer,
};
use dataplane::{DropReason, SwitchConfig};

fn viewers(n: u16) -> Vec<Viewer> {
    (0..n).map(Viewer::nth).collect()
}

fn sfu(program: SfuProgram, n_viewers: u16) -> Sfu {
    let mut sfu = Sfu::new(program, SwitchConfig::default());
    sfu.set_viewers(&viewers(n_viewers));
    sfu
}

fn expected(
    program: SfuProgram,
    viewer: &Viewer,
    ttl: u8,
    payload: &[u8],
    sent: &UdpCopy,
) -> UdpCopy {
    let (ips, ports) = match program {
        SfuProgram::Recirculation => ((PRESENTER_IP, viewer.ip), (PRESENTER_PORT, STREAM_PORT)),
        SfuProgram::Replication => ((SFU_IP, viewer.ip), (STREAM_PORT, viewer.udp_port)),
    };
    UdpCopy {
        macs: (viewer.mac, SFU_MAC),
        ips,
        ttl: ttl - 1,
        ports,
        payload: payload.to_vec(),
        udp_checksum: sent.udp_checksum,
        udp_checksum_right: true,
    }
}

#[test]
fn every_viewer_gets_one_copy_in_viewer_order_with_right_checksums() {
    for program in SfuProgram::ALL {
        for n_viewers in [1, 2, 3, 11, 64, 1000] {
            let mut sfu = sfu(program, n_viewers);
            let payload = format!("h1{:04}{}", n_viewers, "x".repeat(1351));
            let frame = presenter_frame(64, payload.as_bytes());
            let copies = sfu.send(&frame);
            assert_eq!(copies.len(), usize::from(n_viewers), "{program:?}");
            for (copy, viewer) in copies.iter().zip(viewers(n_viewers)) {
                assert_eq!(copy.port, SFU_PORT);
                let copy = udp_copy(&copy.frame);
                assert_eq!(
                    copy,
                    expected(program, &viewer, 64, payload.as_bytes(), &copy)
                );
            }
            assert_eq!(sfu.switches.reference.counters().dropped_total(), 0);
        }
    }
}

#[test]
fn a_group_of_4096_viewers_is_served_whole() {
    for program in SfuProgram::ALL {
        let mut sfu = sfu(program, 4096);
        let copies = sfu.send(&presenter_frame(2, b"payload"));
        let destinations: Vec<Ipv4Addr> = copies
            .iter()
            .map(|copy| udp_copy(&copy.frame).ips.1)
            .collect();
        let wanted: Vec<Ipv4Addr> = viewers(4096).iter().map(|viewer| viewer.ip).collect();
        assert_eq!(destinations, wanted, "{program:?}");
        assert!(
            copies.iter().all(|copy| udp_copy(&copy.frame).ttl == 1),
            "{program:?}"
        );
    }
}

#[test]
fn checksums_stay_right_over_random_packets_and_a_computed_zero_is_sent_as_ffff() {
    let mut rng = fastrand::Rng::with_seed(1624);
    for program in SfuProgram::ALL {
        let mut sfu = sfu(program, 8);
        let mut sent_as_ffff = 0;
        for _ in 0..500 {
            let payload: Vec<u8> = (0..rng.usize(0..200)).map(|_| rng.u8(..)).collect();
            for copy in sfu.send(&presenter_frame(rng.u8(2..), &payload)) {
                let copy = udp_copy(&copy.frame);
                assert!(copy.udp_checksum_right, "{program:?}: {copy:?}");
            }
        }
        // Tries each value of a payload word until a copy's checksum computes to 0, and then only every 97th value.
        for word in 0..=u16::MAX {
            let frame = presenter_frame(64, &word.to_be_bytes());
            if sent_as_ffff > 0 && word % 97 != 0 {
                continue;
            }
            for copy in sfu.send(&frame) {
                let copy = udp_copy(&copy.frame);
                assert!(copy.udp_checksum_right, "{program:?}: {copy:?}");
                assert_ne!(copy.udp_checksum, 0, "{program:?}: {copy:?}");
                sent_as_ffff += u32::from(copy.udp_checksum == 0xffff);
            }
        }
        assert!(
            sent_as_ffff > 0,
            "{program:?}: no copy's checksum computed to 0"
        );
    }
}

#[test]
fn a_udp_checksum_of_zero_stays_zero() {
    for program in SfuProgram::ALL {
        let mut sfu = sfu(program, 3);
        let mut frame = presenter_frame(64, b"no checksum");
        frame[40..42].fill(0);
        let copies = sfu.send(&frame);
        assert_eq!(copies.len(), 3);
        assert!(
            copies
                .iter()
                .all(|copy| udp_copy(&copy.frame).udp_checksum == 0),
            "{program:?}"
        );
    }
}

#[test]
fn a_wrong_udp_checksum_stays_wrong_so_that_the_viewer_sees_it() {
    for program in SfuProgram::ALL {
        let mut sfu = sfu(program, 3);
        let mut frame = presenter_frame(64, b"corrupt");
        frame[41] ^= 1;
        let copies = sfu.send(&frame);
        assert_eq!(copies.len(), 3);
        assert!(
            copies
                .iter()
                .all(|copy| !udp_copy(&copy.frame).udp_checksum_right),
            "{program:?}"
        );
    }
}

#[test]
fn ttl_0_and_1_are_dropped_and_counted() {
    for program in SfuProgram::ALL {
        let mut sfu = sfu(program, 3);
        for ttl in [0, 1] {
            assert!(sfu.send(&presenter_frame(ttl, b"old")).is_empty());
        }
        assert_eq!(sfu.verdict("drop_ttl_expired"), 2, "{program:?}");
        assert_eq!(sfu.send(&presenter_frame(2, b"just")).len(), 3);
    }
}

#[test]
fn an_empty_group_and_an_unknown_sender_are_counted_and_get_no_copy() {
    for program in SfuProgram::ALL {
        let mut sfu = Sfu::new(program, SwitchConfig::default());
        sfu.set_viewers(&[]);
        assert!(sfu.send(&presenter_frame(64, b"nobody listens")).is_empty());
        let empty = match program {
            SfuProgram::Recirculation => sfu.verdict("drop_empty_group"),
            SfuProgram::Replication => sfu
                .switches
                .reference
                .counters()
                .dropped(DropReason::MulticastGroupEmpty),
        };
        assert_eq!(empty, 1, "{program:?}");
        assert!(
            sfu.send(&udp_frame(
                Ipv4Addr::new(10, 9, 9, 9),
                STREAM_PORT,
                64,
                b"who"
            ))
            .is_empty()
        );
        assert_eq!(sfu.verdict("drop_unknown_sender"), 1, "{program:?}");
    }
}

#[test]
fn streams_of_one_host_are_told_apart_by_their_udp_port_in_the_replication_program() {
    let mut sfu = sfu(SfuProgram::Replication, 2);
    assert_eq!(
        sfu.send(&udp_frame(PRESENTER_IP, STREAM_PORT, 64, b"video"))
            .len(),
        2
    );
    assert!(
        sfu.send(&udp_frame(PRESENTER_IP, STREAM_PORT + 1, 64, b"RTCP"))
            .is_empty()
    );
    assert_eq!(sfu.verdict("drop_unknown_sender"), 1);
}

#[test]
fn a_packet_from_another_port_is_not_for_the_sfu() {
    for program in SfuProgram::ALL {
        let mut sfu = sfu(program, 2);
        let other = dataplane::PortId(2);
        sfu.add_port(other);
        let copies = sfu.send_from(other, &presenter_frame(64, b"stray"));
        assert!(copies.is_empty());
        assert_eq!(sfu.verdict("drop_not_for_us"), 1, "{program:?}");
    }
}
