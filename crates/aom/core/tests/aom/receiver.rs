//! Tests a receiver of AOM-HM behind a network that loses, reorders, repeats and forges packets. Up to four receivers
//! form a shard, and each packet of AOM-HM carries a keyed tag for each receiver of one shard.

use std::time::Duration;

use aom::certificate::{Certificate, Proof};
use aom::chain::hash_of;
use aom::event::{DropNotification, Event, Message};
use aom::limits::{CANDIDATES_MAX, EPOCH_LAST, FIRST_PROVED, GAP_TIMEOUT, SETTLE, WINDOW};
use aom::membership::{Membership, MembershipError};
use aom::receiver::Receiver;
use aom::refused::Refused;
use aom::wire::TAGGED_BYTES;

use crate::common::{NOW, Tagging, delivered, events, message};

#[test]
fn every_receiver_of_a_group_delivers_with_the_tags_of_all() {
    for n_receivers in [1, 3, 4, 5, 8, 16, 64] {
        let sequencer = Tagging::new(n_receivers, 3);
        let mut certificates = Vec::new();
        for number in 0..n_receivers {
            let mut receiver = sequencer.receiver(n_receivers, number);
            for sequence in 1..=3 {
                for packet in sequencer.packets(sequence, &message(sequence)) {
                    receiver.handle_datagram(NOW, &packet);
                }
            }
            for (event, sequence) in events(&mut receiver).into_iter().zip(1..) {
                let Event::Message(Message {
                    sequence: found,
                    payload,
                    certificate,
                    epoch,
                }) = event
                else {
                    panic!("expected a message, found {event:?}");
                };
                assert_eq!((found, payload, epoch), (sequence, message(sequence), 3));
                certificates.push(certificate);
            }
            assert_eq!(receiver.refused(), Refused::default());
            assert_eq!(receiver.poll_timeout(), None);
        }
        assert_eq!(certificates.len(), 3 * usize::from(n_receivers));
        for certificate in certificates {
            for receiver in 0..n_receivers {
                let payload = message(certificate.sequence);
                let membership = sequencer.membership(n_receivers, receiver);
                assert!(certificate.verify(&membership, &payload));
            }
        }
    }
}

#[test]
fn a_certificate_with_one_bit_altered_does_not_verify() {
    let sequencer = Tagging::new(5, 3);
    let mut receiver = sequencer.receiver(5, 4);
    for packet in sequencer.packets(1, b"message") {
        receiver.handle_datagram(NOW, &packet);
    }
    let Some(Event::Message(Message { certificate, .. })) = receiver.poll_event() else {
        panic!("expected a message");
    };
    let verifies = |certificate: &Certificate, message: &[u8]| {
        certificate.verify(&sequencer.membership(5, 0), message)
    };
    assert!(verifies(&certificate, b"message"));
    assert!(!verifies(&certificate, b"messagf"));
    let whole = certificate.to_bytes();
    assert_eq!(Certificate::from_bytes(&whole), Ok(certificate.clone()));
    // The loop flips each bit except those of the other receivers' tags, which this receiver cannot verify.
    let own = 15 * 8..(15 + 1 + 4) * 8;
    for bit in (0..15 * 8).chain(own) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let other = Certificate::from_bytes(&bytes);
        assert!(other.is_err() || !verifies(&other.expect("a certificate"), b"message"));
    }
    let other = Certificate {
        proof: Proof::Tags(Vec::new()),
        ..certificate
    };
    assert!(!verifies(&other, b"message"));
    for n_bytes in 0..whole.len() {
        if n_bytes % 17 != 15 {
            assert!(Certificate::from_bytes(&whole[..n_bytes]).is_err());
        }
    }
}

#[test]
fn packets_in_any_order_are_delivered_in_order_and_none_is_a_drop() {
    let sequencer = Tagging::new(8, 1);
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut receiver = sequencer.receiver(8, random.u8(..8));
        let mut packets: Vec<_> = (1..=100)
            .flat_map(|number| sequencer.packets(number, &message(number)))
            .collect();
        random.shuffle(&mut packets);
        for packet in &packets {
            receiver.handle_datagram(NOW, packet);
        }
        // If packets of the other shard came before the packet of the receiver's own shard, the receiver uses them only
        // after `SETTLE`.
        receiver.handle_timeout(NOW + SETTLE);
        let expected: Vec<_> = (1..=100)
            .map(|number| (number, Some(message(number))))
            .collect();
        assert_eq!(delivered(&mut receiver), expected);
    }
}

#[test]
fn a_lost_packet_is_one_drop_before_the_next_message() {
    let sequencer = Tagging::new(5, 1);
    // The network loses the packet of the receiver's own shard, the packet of the other shard, or both.
    for lost in [vec![0], vec![1], vec![0, 1]] {
        let mut receiver = sequencer.receiver(5, 1);
        for number in 1..=3 {
            for (packet, shard) in sequencer.packets(number, &message(number)).iter().zip(0..) {
                if number != 2 || !lost.contains(&shard) {
                    receiver.handle_datagram(NOW, packet);
                }
            }
        }
        assert_eq!(delivered(&mut receiver), [(1, Some(message(1)))]);
        assert_eq!(receiver.poll_timeout(), Some(NOW + GAP_TIMEOUT));
        receiver.handle_timeout(NOW + GAP_TIMEOUT - Duration::from_nanos(1));
        assert_eq!(delivered(&mut receiver), []);
        receiver.handle_timeout(NOW + GAP_TIMEOUT);
        assert_eq!(delivered(&mut receiver), [(2, None), (3, Some(message(3)))]);
        assert_eq!(receiver.poll_timeout(), None);
        for packet in sequencer.packets(2, &message(2)) {
            receiver.handle_datagram(NOW + GAP_TIMEOUT, &packet);
        }
        assert_eq!(delivered(&mut receiver), []);
        assert_eq!(receiver.refused().replayed, 2);
    }
}

type Reason = fn(&mut Refused) -> &mut u64;

#[test]
fn a_datagram_without_bytes_is_malformed() {
    let mut receiver = Tagging::new(5, 2).receiver(5, 1);
    receiver.handle_datagram(NOW, &[]);
    assert_eq!(receiver.refused().malformed, 1);
}

#[test]
fn what_is_forged_replayed_or_of_others_is_refused_and_counted() {
    let sequencer = Tagging::new(5, 2);
    let mut receiver = sequencer.receiver(5, 1);
    let whole = sequencer.packets(1, b"message");
    // This receiver's tag is the second, at byte 24.
    let expected: [(usize, u8, Reason); 10] = [
        (0, 1, |refused| &mut refused.malformed),
        (1, 1, |refused| &mut refused.other_epoch),
        (3, 1, |refused| &mut refused.other_epoch),
        (4, 1, |refused| &mut refused.other_epoch),
        (5, 2, |refused| &mut refused.wrong_shard),
        (7, 1, |refused| &mut refused.other_group),
        (11, 1, |refused| &mut refused.no_number),
        (12, 1, |refused| &mut refused.forged),
        (24, 1, |refused| &mut refused.forged),
        (36, 1, |refused| &mut refused.wrong_digest),
    ];
    for (at, bit, reason) in expected {
        let mut counter = Refused::default();
        *reason(&mut counter) = 1;
        let mut packet = whole[0].clone();
        packet[at] ^= bit;
        let mut receiver = sequencer.receiver(5, 1);
        receiver.handle_datagram(NOW, &packet);
        assert_eq!(receiver.refused(), counter, "byte {at}");
        assert_eq!(events(&mut receiver), []);
        // A right tag proves that the sequence number was assigned, even if the packet has another message.
        let is_given = at == TAGGED_BYTES;
        assert_eq!(receiver.poll_timeout().is_some(), is_given, "byte {at}");
    }
    for packet in whole.iter().chain(&whole) {
        receiver.handle_datagram(NOW, packet);
    }
    assert_eq!(delivered(&mut receiver), [(1, Some(b"message".to_vec()))]);
    assert_eq!(
        receiver.refused(),
        Refused {
            replayed: 2,
            ..Refused::default()
        }
    );
}

#[test]
fn forgers_of_other_shards_neither_move_the_window_nor_fill_the_memory() {
    let sequencer = Tagging::new(8, 2);
    let mut receiver = sequencer.receiver(8, 0);
    let forged = |sequence, tag: u32| {
        let mut packet = sequencer.packets(sequence, b"message")[1].clone();
        packet[20..24].copy_from_slice(&tag.to_be_bytes());
        packet[12] ^= 1;
        packet
    };
    receiver.handle_datagram(NOW, &forged(WINDOW + 1, 0));
    assert_eq!(receiver.refused().beyond_window, 1);
    for tag in 0..100 {
        receiver.handle_datagram(NOW, &forged(1, tag));
    }
    assert_eq!(receiver.refused().too_many, 100 - CANDIDATES_MAX as u64);
    let found = receiver.poll_timeout();
    assert_eq!(found, None, "nothing proves that a number was given");
    assert_eq!(events(&mut receiver), []);
}

#[test]
fn a_number_with_two_contents_is_evidence_before_and_after_its_delivery() {
    let sequencer = Tagging::new(5, 2);
    let mut receiver = sequencer.receiver(5, 1);
    let (first, second) = (sequencer.packets(1, b"one"), sequencer.packets(1, b"other"));
    receiver.handle_datagram(NOW, &first[0]);
    receiver.handle_datagram(NOW, &second[0]);
    receiver.handle_datagram(NOW, &first[1]);
    receiver.handle_datagram(NOW, &second[0]);
    let found = events(&mut receiver);
    let [
        Event::Evidence(before),
        Event::Message(message),
        Event::Evidence(after),
    ] = &found[..]
    else {
        panic!("expected evidence, the message, evidence; found {found:?}");
    };
    assert_eq!(message.payload, b"one");
    assert_eq!(before, after);
    assert_eq!((before.sequence, before.epoch), (1, 2));
    assert_eq!(before.first, hash_of(b"one"));
    assert_eq!(before.second, hash_of(b"other"));
}

#[test]
fn a_gap_of_billions_of_numbers_is_one_event() {
    let sequencer = Tagging::new(1, 2);
    let mut receiver = sequencer.receiver(1, 0);
    let last = u32::MAX;
    receiver.handle_datagram(NOW, &sequencer.packets(last, b"message")[0]);
    receiver.handle_timeout(NOW + GAP_TIMEOUT);
    let found = events(&mut receiver);
    let [Event::Drop(drop), Event::Message(message)] = &found[..] else {
        panic!("expected a drop and a message, found {found:?}");
    };
    let expected = DropNotification {
        epoch: 2,
        first: 1,
        last: last - 1,
    };
    assert_eq!((*drop, message.sequence), (expected, last));
    assert_eq!(receiver.refused(), Refused::default());
}

#[test]
fn numbers_that_are_lost_at_an_epochs_end_are_one_event_however_many_they_are() {
    let old = Tagging::new(4, 2);
    let mut receiver = old.receiver(4, 0);
    receiver.handle_datagram(NOW, &old.packets(2, b"second")[0]);
    let new = Tagging::new(4, 3).membership(4, 0);
    receiver.advance(new, Some(u32::MAX)).expect("a membership");
    let found = events(&mut receiver);
    let ranges: Vec<_> = found
        .iter()
        .filter_map(|event| match event {
            Event::Drop(drop) => Some(drop.numbers()),
            _ => None,
        })
        .collect();
    assert_eq!(found.len(), 3);
    assert_eq!(ranges, [1..=1, 3..=u32::MAX]);
}

#[test]
fn the_last_number_of_an_epoch_is_delivered_and_the_next_epoch_begins_with_the_first() {
    let old = Tagging::new(4, 255);
    let mut receiver = Receiver::new(old.membership(4, 2), u32::MAX - 1).expect("a membership");
    for number in [u32::MAX - 1, u32::MAX] {
        receiver.handle_datagram(NOW, &old.packets(number, &message(number))[0]);
    }
    let new = Tagging::new(4, 256);
    receiver
        .advance(new.membership(4, 2), None)
        .expect("a membership");
    receiver.handle_datagram(NOW, &old.packets(u32::MAX, b"late")[0]);
    receiver.handle_datagram(NOW, &new.packets(1, b"new")[0]);
    let expected = [
        (u32::MAX - 1, Some(message(u32::MAX - 1))),
        (u32::MAX, Some(message(u32::MAX))),
        (1, Some(b"new".to_vec())),
    ];
    assert_eq!(delivered(&mut receiver), expected);
    assert_eq!(receiver.refused().other_epoch, 1);
}

#[test]
fn what_is_not_whole_when_the_epoch_ends_is_dropped_and_not_delivered_after() {
    let old = Tagging::new(5, 1);
    let new = Tagging::new(5, 2);
    let mut receiver = old.receiver(5, 0);
    let (second, third) = (old.packets(2, b"second"), old.packets(3, b"third"));
    receiver.handle_datagram(NOW, &second[0]);
    receiver.handle_datagram(NOW, &second[1]);
    receiver.handle_datagram(NOW, &third[0]);
    receiver
        .advance(new.membership(5, 0), None)
        .expect("a membership");
    let found = delivered(&mut receiver);
    assert_eq!(found, [(1, None), (2, Some(b"second".to_vec())), (3, None)]);
}

#[test]
fn memberships_that_cannot_be_are_refused() {
    let sequencer = Tagging::new(4, 1);
    for (n_receivers, receiver, error) in [
        (0, 0, MembershipError::Receivers(0)),
        (65, 0, MembershipError::Receivers(65)),
        (
            4,
            4,
            MembershipError::Receiver {
                n_receivers: 4,
                receiver: 4,
            },
        ),
    ] {
        let membership = Membership {
            n_receivers,
            receiver,
            ..sequencer.membership(4, 0)
        };
        assert_eq!(Receiver::new(membership, 1).map(|_| ()), Err(error));
    }
    let last = Membership {
        epoch: EPOCH_LAST,
        ..sequencer.membership(4, 0)
    };
    let beyond = Membership {
        epoch: EPOCH_LAST + 1,
        ..last.clone()
    };
    let mut receiver = Receiver::new(last, 1).expect("a membership");
    let refused = receiver.advance(beyond, None);
    assert_eq!(refused, Err(MembershipError::Epoch(EPOCH_LAST + 1)));
}

#[test]
fn who_joins_an_epoch_that_has_begun_receives_from_the_first_number_that_it_proves() {
    let sequencer = Tagging::new(3, 2);
    for first in [1, 7, 5000, u32::MAX - 2] {
        let mut receiver = Receiver::new(sequencer.membership(3, 0), FIRST_PROVED).expect("whole");
        // A packet with a wrong tag does not set the first sequence number.
        let mut forged = sequencer.packets(first + 1, b"forged").remove(0);
        forged[20] ^= 1;
        receiver.handle_datagram(NOW, &forged);
        assert_eq!(receiver.refused().forged, 1);
        for number in [first, first + 2] {
            for packet in sequencer.packets(number, &message(number)) {
                receiver.handle_datagram(NOW, &packet);
            }
        }
        receiver.handle_timeout(NOW + GAP_TIMEOUT);
        let expected = [
            (first, Some(message(first))),
            (first + 1, None),
            (first + 2, Some(message(first + 2))),
        ];
        assert_eq!(delivered(&mut receiver), expected);
    }
}

#[test]
fn what_is_lost_at_an_epochs_end_is_dropped_where_its_last_number_is_known() {
    let old = Tagging::new(3, 2);
    for (last, expected) in [(None, 0), (Some(2), 0), (Some(5), 3)] {
        let mut receiver = old.receiver(3, 0);
        for number in 1..=2 {
            for packet in old.packets(number, &message(number)) {
                receiver.handle_datagram(NOW, &packet);
            }
        }
        assert_eq!(delivered(&mut receiver).len(), 2);
        let new = Tagging::new(3, 3).membership(3, 0);
        receiver.advance(new, last).expect("a membership");
        let drops = (3..).take(expected).map(|number| (number, None));
        assert_eq!(
            delivered(&mut receiver),
            drops.collect::<Vec<_>>(),
            "{last:?}"
        );
    }
}
