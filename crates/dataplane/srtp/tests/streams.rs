//! Senders and receivers over random streams: losses, reordering, duplicates, roll-over, forgeries.
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::HashSet;

use dataplane_srtp::{MasterKey, Profile, Receiver, Refused, Rejected, STREAMS_MAX, Sender, Used};
use fastrand::Rng;

fn master(profile: Profile, rng: &mut Rng) -> MasterKey {
    let mut bytes = [0; 46];
    rng.fill(&mut bytes);
    let (key, salt) = bytes.split_at(profile.key_bytes());
    MasterKey::new(profile, key, &salt[..profile.salt_bytes()]).unwrap()
}

fn pair(profile: Profile, rng: &mut Rng) -> (Sender, Receiver) {
    let master = master(profile, rng);
    (Sender::new(&master), Receiver::new(&master))
}

/// An RTP packet with this number of bytes of payload, and with CSRCs and an extension at random.
fn rtp(ssrc: u32, sequence: u16, n_payload: usize, rng: &mut Rng) -> Vec<u8> {
    let (n_csrcs, has_extension) = (rng.u8(0..4), rng.bool());
    let mut packet = vec![0x80 | n_csrcs | u8::from(has_extension) << 4, 96];
    packet.extend(sequence.to_be_bytes());
    packet.extend(rng.u32(..).to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend((0..n_csrcs * 4).map(|_| rng.u8(..)));
    if has_extension {
        packet.extend([0xbe, 0xde, 0, 1, 0x10, rng.u8(..), 0, 0]);
    }
    packet.extend((0..n_payload).map(|_| rng.u8(..)));
    packet
}

fn protected(sender: &mut Sender, packet: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut room = packet.to_vec();
    room.resize(packet.len() + 20, 0);
    let n_bytes = sender.protect_rtp(&mut room, packet.len())?;
    room.truncate(n_bytes);
    Ok(room)
}

fn unprotected(receiver: &mut Receiver, packet: &[u8]) -> Result<Vec<u8>, Rejected> {
    let mut room = packet.to_vec();
    let n_bytes = receiver.unprotect_rtp(&mut room)?;
    room.truncate(n_bytes);
    Ok(room)
}

#[test]
fn what_is_sent_comes_over_many_roll_overs_with_losses_and_in_another_order() {
    let mut rng = Rng::with_seed(1);
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = pair(profile, &mut rng);
        let mut next = rng.u64(0..0x8000);
        let mut late = Vec::new();
        for _ in 0..20_000 {
            // A burst of losses that is shorter than half of a roll-over.
            next += if rng.u8(..) == 0 {
                rng.u64(1..10_000)
            } else {
                1
            };
            let n_payload = rng.usize(0..60);
            let packet = rtp(7, next as u16, n_payload, &mut rng);
            let sent = protected(&mut sender, &packet).unwrap();
            if rng.u8(..) < 20 {
                late.push((next, packet, sent));
                continue;
            }
            assert_eq!(unprotected(&mut receiver, &sent), Ok(packet));
            let again = unprotected(&mut receiver, &sent);
            assert_eq!(again, Err(Rejected::Replayed(Used::Before)));
            for (number, packet, sent) in late.drain(..) {
                let expected = if next - number < 128 {
                    Ok(packet)
                } else {
                    Err(Rejected::Replayed(Used::TooOld))
                };
                assert_eq!(unprotected(&mut receiver, &sent), expected);
            }
        }
        assert!(next > 0x4_0000, "{next}");
    }
}

#[test]
fn a_sender_uses_no_index_twice_whatever_it_is_given() {
    let mut rng = Rng::with_seed(2);
    let mut sender = pair(Profile::AeadAes128Gcm, &mut rng).0;
    // What this sender has protected, by extended sequence number of each stream.
    let mut used = HashSet::new();
    let mut highest = [0u64; 3];
    for _ in 0..200_000 {
        let ssrc = rng.u32(0..3);
        let top = &mut highest[ssrc as usize];
        let number = if rng.u8(..) < 200 {
            (*top).saturating_sub(140) + rng.u64(0..145)
        } else {
            *top + rng.u64(0..0x7fff)
        };
        let packet = rtp(ssrc, number as u16, 1, &mut rng);
        match protected(&mut sender, &packet) {
            Ok(_) => {
                assert!(used.insert((ssrc, number)), "{ssrc} {number} of {top}");
                *top = number.max(*top);
            }
            Err(Refused::Used(Used::Before)) => assert!(used.contains(&(ssrc, number))),
            Err(Refused::Used(Used::TooOld)) => assert!(*top - number >= 128),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(highest.iter().all(|it| *it > 0x10_0000), "{highest:?}");
}

#[test]
fn a_forged_packet_changes_nothing() {
    let mut rng = Rng::with_seed(3);
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = pair(profile, &mut rng);
        for number in 0..50 {
            let n_payload = rng.usize(0..40);
            let packet = rtp(1, number, n_payload, &mut rng);
            let sent = protected(&mut sender, &packet).unwrap();
            for bit in 0..sent.len() * 8 {
                let mut forged = sent.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(unprotected(&mut receiver, &forged).is_err(), "bit {bit}");
            }
            for n_bytes in 0..sent.len() {
                assert!(unprotected(&mut receiver, &sent[..n_bytes]).is_err());
            }
            assert_eq!(unprotected(&mut receiver, &sent), Ok(packet));
        }
    }
}

#[test]
fn small_payloads_are_encrypted_too() {
    let mut rng = Rng::with_seed(4);
    for profile in Profile::ALL {
        for n_payload in 0..=40 {
            let (mut sender, _) = pair(profile, &mut rng);
            let packet = rtp(1, 1, n_payload, &mut rng);
            let sent = protected(&mut sender, &packet).unwrap();
            assert_eq!(sent.len(), packet.len() + profile.tag_bytes());
            let n_clear = packet.len() - n_payload;
            assert_eq!(sent[..n_clear], packet[..n_clear]);
            // Four bytes are the same by chance once in four thousand million times.
            let same = sent[n_clear..packet.len()] == packet[n_clear..];
            assert!(!same || n_payload < 4, "{n_payload} bytes");
        }
    }
}

#[test]
fn reports_come_once_and_in_any_order() {
    let mut rng = Rng::with_seed(5);
    for profile in Profile::ALL {
        let (mut sender, mut receiver) = pair(profile, &mut rng);
        let mut late: Option<(Vec<u8>, Vec<u8>)> = None;
        for number in 0..300_u32 {
            let mut packet = vec![0x80, 201, 0, 1];
            packet.extend((number % 3).to_be_bytes());
            packet.extend((0..rng.usize(0..5) * 4).map(|_| rng.u8(..)));
            let mut room = packet.clone();
            room.resize(packet.len() + 20, 0);
            let n_bytes = sender.protect_rtcp(&mut room, packet.len()).unwrap();
            room.truncate(n_bytes);
            if late.is_none() {
                late = Some((packet, room));
                continue;
            }
            for (packet, sent) in [(packet, room), late.take().unwrap()] {
                for bit in 0..sent.len() * 8 {
                    let mut forged = sent.clone();
                    forged[bit / 8] ^= 1 << (bit % 8);
                    assert!(receiver.unprotect_rtcp(&mut forged).is_err(), "bit {bit}");
                }
                let mut once = sent.clone();
                let n_bytes = receiver.unprotect_rtcp(&mut once).unwrap();
                assert_eq!(once[..n_bytes], packet);
                let again = receiver.unprotect_rtcp(&mut sent.clone());
                assert_eq!(again, Err(Rejected::Replayed(Used::Before)));
            }
        }
    }
}

#[test]
fn a_key_serves_a_bounded_number_of_streams() {
    let mut rng = Rng::with_seed(6);
    let (mut sender, mut receiver) = pair(Profile::AeadAes256Gcm, &mut rng);
    for ssrc in 0..STREAMS_MAX as u32 {
        let packet = rtp(ssrc, 1, 5, &mut rng);
        let sent = protected(&mut sender, &packet).unwrap();
        assert_eq!(unprotected(&mut receiver, &sent), Ok(packet));
    }
    let packet = rtp(u32::MAX, 1, 5, &mut rng);
    assert_eq!(protected(&mut sender, &packet), Err(Refused::Streams));
    let packet = rtp(0, 2, 5, &mut rng);
    assert!(protected(&mut sender, &packet).is_ok());
}
