//! Sends 100,000 malformed packets. Each must be handled and counted, and the SFU must keep forwarding.

use std::net::Ipv4Addr;

use conformance::packet::{arp, echo_request, presenter_frame, udp_copy, udp_frame};
use conformance::sfu::{SFU_IP, SFU_PORT, STREAM_PORT, Sfu, SfuProgram, Viewer};
use dataplane::SwitchConfig;
use fastrand::Rng;

const N_PACKETS: u64 = 100_000;
const N_VIEWERS: u16 = 3;
const SEED: u64 = 0x5f5;

/// Offset of the IPv4 header.
const IPV4: usize = 14;
/// Offset of the UDP header.
const UDP: usize = 34;

/// Corrects the IPv4 header checksum after a change.
fn fix_header_checksum(frame: &mut [u8]) {
    let header_len = usize::from(frame[IPV4] & 0xf) * 4;
    let Some(header) = frame.get_mut(IPV4..IPV4 + header_len) else {
        return;
    };
    if header.len() < 12 {
        return;
    }
    header[10..12].fill(0);
    let mut sum: u32 = header
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn base_frame(rng: &mut Rng) -> Vec<u8> {
    let payload: Vec<u8> = (0..rng.usize(0..64)).map(|_| rng.u8(..)).collect();
    match rng.u8(..8) {
        0 => arp(1, SFU_IP),
        1 => arp(2, SFU_IP),
        2 => arp(1, Ipv4Addr::new(10, 0, 1, 7)),
        3 => echo_request(&payload),
        4 => udp_frame(
            Ipv4Addr::new(10, 0, 1, rng.u8(..)),
            STREAM_PORT,
            64,
            &payload,
        ),
        _ => presenter_frame(64, &payload),
    }
}

/// Makes a malformed packet. `n` selects the kind of fault and the length of truncated packets, so that all lengths
/// occur.
fn malformed(n: u64, rng: &mut Rng) -> Vec<u8> {
    let mut frame = base_frame(rng);
    match n % 10 {
        0 => {
            let len = (n / 10) as usize % frame.len();
            frame.truncate(len);
        }
        1 => {
            // Wrong total length, correct checksum.
            frame[IPV4 + 2..IPV4 + 4].copy_from_slice(&rng.u16(..).to_be_bytes());
            fix_header_checksum(&mut frame);
        }
        2 => frame[UDP + 4..UDP + 6].copy_from_slice(&rng.u16(..).to_be_bytes()),
        3 => frame[IPV4 + 10..IPV4 + 12].copy_from_slice(&rng.u16(..).to_be_bytes()),
        4 => {
            // Options: the header grows by up to ten words.
            let words = rng.u8(1..=10);
            let options: Vec<u8> = (0..words * 4).map(|_| rng.u8(..)).collect();
            frame.splice(UDP..UDP, options);
            frame[IPV4] = 0x40 | (5 + words);
            let total = (frame.len() - IPV4) as u16;
            frame[IPV4 + 2..IPV4 + 4].copy_from_slice(&total.to_be_bytes());
            fix_header_checksum(&mut frame);
        }
        5 => {
            // Fragments: more fragments to come, an offset, or both.
            let fragment = rng.u16(1..) & 0x3fff;
            frame[IPV4 + 6..IPV4 + 8].copy_from_slice(&fragment.to_be_bytes());
            fix_header_checksum(&mut frame);
        }
        6 => {
            // Random version and header length.
            frame[IPV4] = rng.u8(..);
            fix_header_checksum(&mut frame);
        }
        7 => {
            // A few random bytes anywhere.
            for _ in 0..rng.u8(1..6) {
                let at = rng.usize(0..frame.len());
                frame[at] = rng.u8(..);
            }
        }
        8 => {
            // A VLAN tag, of VLAN 0 in half of the cases, sometimes followed by another.
            for _ in 0..rng.u8(1..3) {
                let tpid: u16 = if rng.u8(..4) == 0 { 0x88a8 } else { 0x8100 };
                let id = if rng.bool() { 0 } else { rng.u16(..0x1000) };
                let tci = u16::from(rng.u8(..16)) << 12 | id;
                frame.splice(12..12, [tpid.to_be_bytes(), tci.to_be_bytes()].concat());
            }
        }
        _ => frame = (0..rng.usize(0..120)).map(|_| rng.u8(..)).collect(),
    }
    frame
}

#[test]
fn every_malformed_packet_gets_one_verdict_and_the_switch_keeps_forwarding() {
    println!("seed {SEED}");
    for program in SfuProgram::ALL {
        let mut rng = Rng::with_seed(SEED);
        let mut sfu = Sfu::new(program, SwitchConfig::default());
        sfu.set_viewers(&(0..N_VIEWERS).map(Viewer::nth).collect::<Vec<_>>());
        let (mut sent, mut good, mut left) = (0, 0, 0);
        for n in 0..N_PACKETS {
            left += sfu.send(&malformed(n, &mut rng)).len() as u64;
            sent += 1;
            if n % 1000 == 0 {
                let copies = sfu.send(&presenter_frame(64, b"still here"));
                assert_eq!(
                    copies.len(),
                    usize::from(N_VIEWERS),
                    "{program:?}, packet {n}"
                );
                assert!(
                    copies
                        .iter()
                        .all(|copy| udp_copy(&copy.frame).udp_checksum_right)
                );
                sent += 1;
                good += 1;
                left += copies.len() as u64;
            }
        }
        let verdicts = sfu.verdicts();
        println!("{program:?}: {verdicts:?}");
        let counted: u64 = verdicts.iter().map(|(_, packets)| packets).sum();
        assert_eq!(counted, sent, "{program:?}: one verdict a packet");
        for (verdict, packets) in &verdicts {
            let never = [
                "drop_wrong_presenter_mac",
                "drop_empty_group",
                "drop_ttl_expired",
            ];
            assert!(
                *packets > 0 || never.contains(&verdict.as_str()),
                "{program:?}: no packet got {verdict}"
            );
        }

        let counters = sfu.switches.reference.counters();
        assert_eq!(counters.port(SFU_PORT).rx_packets, sent, "{program:?}");
        let served = sfu.verdict("serve");
        assert!(served >= good, "{program:?}");
        let answered = sfu.verdict("answer_arp") + sfu.verdict("answer_echo");
        assert_eq!(
            left,
            served * u64::from(N_VIEWERS) + answered,
            "{program:?}"
        );
        assert_eq!(counters.to_cpu, sfu.verdict("to_controller"), "{program:?}");
        assert_eq!(
            counters.received + counters.created_by_clone + counters.created_by_replication,
            counters.transmitted + counters.to_cpu + counters.dropped_total(),
            "{program:?}: nothing vanished"
        );
    }
}
