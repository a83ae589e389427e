//! Tests how a receiver of AOM-PK handles packets that wait for a signature, and broken chains. In AOM-PK each packet
//! is linked to the packet before it by a hash, and only some packets are signed.

use aom::certificate::{Certificate, Proof};
use aom::chain::FIRST_LINK;
use aom::event::{Event, Message};
use aom::limits::{CANDIDATES_MAX, FIRST_PROVED, GAP_TIMEOUT, WINDOW};
use aom::receiver::Receiver;
use aom::refused::Refused;

use crate::common::{NOW, Signing, delivered, events, message};

/// The offset of the link in a packet of AOM-PK (docs/aom.md, "On the wire"). The link is the chain's state before this
/// packet.
const LINK_AT: usize = 84;

/// Makes packets 1 to `last`, and signs those whose sequence number is a multiple of `every`.
fn chain(signing: &mut Signing, last: u32, every: u32) -> Vec<Vec<u8>> {
    (1..=last)
        .map(|number| signing.packet(&message(number), number % every == 0))
        .collect()
}

fn all(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, Option<Vec<u8>>)> {
    numbers
        .into_iter()
        .map(|number| (number, Some(message(number))))
        .collect()
}

#[test]
fn unsigned_packets_are_held_and_released_by_the_next_signature() {
    let mut signing = Signing::new(1);
    let packets = chain(&mut signing, 8, 4);
    let mut receiver = signing.receiver();
    for (packet, number) in packets.iter().zip(1..) {
        receiver.handle_datagram(NOW, packet);
        let expected = match number {
            4 => all(1..=4),
            8 => all(5..=8),
            _ => Vec::new(),
        };
        assert_eq!(delivered(&mut receiver), expected);
        let found = receiver.poll_timeout();
        assert_eq!(found, None, "nothing is proved that is missing");
    }
    assert_eq!(receiver.refused(), Refused::default());
}

#[test]
fn who_joins_an_epoch_that_has_begun_receives_from_the_first_number_of_the_chain_that_it_proves() {
    for n_missed in 0..=4 {
        let mut signing = Signing::new(1);
        let packets = chain(&mut signing, 8, 4);
        let membership = signing.membership(4, 0);
        let mut receiver = Receiver::new(membership, FIRST_PROVED).expect("a membership");
        for packet in &packets[n_missed as usize..] {
            receiver.handle_datagram(NOW, packet);
        }
        assert_eq!(delivered(&mut receiver), all(n_missed + 1..=8));
    }
    // The receiver starts only at a packet whose chain state equals the link of the next packet.
    let mut signing = Signing::new(1);
    let packets = chain(&mut signing, 4, 4);
    let mut forged = packets[1].clone();
    forged[LINK_AT] ^= 1;
    let mut receiver = Receiver::new(signing.membership(4, 0), FIRST_PROVED).expect("a membership");
    for packet in [&packets[0], &forged, &packets[2], &packets[3]] {
        receiver.handle_datagram(NOW, packet);
    }
    assert_eq!(delivered(&mut receiver), all(3..=4));
}

#[test]
fn packets_in_any_order_are_delivered_in_order_and_none_is_a_drop() {
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut signing = Signing::new(1);
        let mut packets = chain(&mut signing, 60, 7);
        packets.push(signing.packet(&message(61), true));
        random.shuffle(&mut packets);
        let mut receiver = signing.receiver();
        for packet in &packets {
            receiver.handle_datagram(NOW, packet);
        }
        assert_eq!(delivered(&mut receiver), all(1..=61), "seed {seed}");
        assert_eq!(receiver.refused(), Refused::default());
    }
}

#[test]
fn certificates_verify_elsewhere_and_with_one_bit_altered_do_not() {
    let mut signing = Signing::new(1);
    let packets = chain(&mut signing, 4, 4);
    let mut receiver = signing.receiver();
    for packet in &packets {
        receiver.handle_datagram(NOW, packet);
    }
    let other = signing.membership(4, 3);
    for (event, sequence) in events(&mut receiver).into_iter().zip(1..) {
        let Event::Message(Message {
            certificate,
            payload,
            ..
        }) = event
        else {
            panic!("expected a message");
        };
        let Proof::Signed { later, .. } = &certificate.proof else {
            panic!("expected a signature, found {certificate:?}");
        };
        assert_eq!(later.len(), 4 - sequence);
        assert!(certificate.verify(&other, &payload));
        assert!(!certificate.verify(&other, b"another"));
        let whole = certificate.to_bytes();
        assert_eq!(Certificate::from_bytes(&whole), Ok(certificate));
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let altered = Certificate::from_bytes(&bytes);
            assert!(altered.is_err() || !altered.expect("it is one").verify(&other, &payload));
        }
    }
}

#[test]
fn a_lost_packet_is_a_drop_with_all_before_it_back_to_the_last_signature() {
    let mut signing = Signing::new(1);
    let packets = chain(&mut signing, 8, 4);
    let mut receiver = signing.receiver();
    for (packet, number) in packets.iter().zip(1..) {
        if number != 7 {
            receiver.handle_datagram(NOW, packet);
        }
    }
    assert_eq!(delivered(&mut receiver), all(1..=4));
    // Packets 5 and 6 have no signature of their own, and packet 7, whose link would prove them, is missing.
    assert_eq!(receiver.poll_timeout(), Some(NOW + GAP_TIMEOUT));
    receiver.handle_timeout(NOW + GAP_TIMEOUT);
    let expected: Vec<_> = [(5, None), (6, None), (7, None)]
        .into_iter()
        .chain(all([8]))
        .collect();
    assert_eq!(delivered(&mut receiver), expected);
}

#[test]
fn a_packet_that_comes_late_joins_the_chain_again() {
    let mut signing = Signing::new(1);
    let packets = chain(&mut signing, 8, 8);
    let mut receiver = signing.receiver();
    for number in [1, 2, 3, 5, 6, 8, 7] {
        receiver.handle_datagram(NOW, &packets[number - 1]);
    }
    assert_eq!(delivered(&mut receiver), []);
    receiver.handle_datagram(NOW + GAP_TIMEOUT / 2, &packets[3]);
    let found = events(&mut receiver);
    assert_eq!(found.len(), 8);
    let membership = signing.membership(4, 1);
    for event in found {
        let Event::Message(Message {
            certificate,
            payload,
            ..
        }) = event
        else {
            panic!("expected a message, found {event:?}");
        };
        assert!(certificate.verify(&membership, &payload));
    }
}

#[test]
fn a_link_that_is_not_the_predecessors_refuses_what_is_before_up_to_the_last_signature() {
    let mut signing = Signing::new(1);
    let packets = chain(&mut signing, 2, 2);
    let mut receiver = signing.receiver();
    for packet in &packets {
        receiver.handle_datagram(NOW, packet);
    }
    assert_eq!(delivered(&mut receiver), all(1..=2));
    // An attacker without the key replaces the message and the digest of packet 3.
    let third = signing.packet(&message(3), false);
    let link: [u8; 32] = third[84..116].try_into().expect("a link");
    let fourth = signing.packet(&message(4), true);
    receiver.handle_datagram(NOW, &signing.packet_of(3, link, b"forged", false));
    receiver.handle_datagram(NOW, &fourth);
    assert_eq!(delivered(&mut receiver), []);
    assert_eq!(receiver.refused().broken_link, 1);
    receiver.handle_timeout(NOW + GAP_TIMEOUT);
    let expected: Vec<_> = [(3, None)].into_iter().chain(all([4])).collect();
    assert_eq!(delivered(&mut receiver), expected);
}

#[test]
fn forged_packets_beside_the_true_ones_change_nothing() {
    let mut signing = Signing::new(1);
    let mut forger = Signing::new(2);
    forger.epoch = 1;
    let mut receiver = signing.receiver();
    let first = signing.packet(&message(1), false);
    receiver.handle_datagram(NOW, &forger.packet_of(1, FIRST_LINK, b"forged", false));
    receiver.handle_datagram(NOW, &first);
    receiver.handle_datagram(NOW, &forger.packet_of(2, [9; 32], b"forged", true));
    receiver.handle_datagram(NOW, &forger.packet_of(2, [9; 32], b"forged", false));
    receiver.handle_datagram(NOW, &signing.packet(&message(2), true));
    assert_eq!(delivered(&mut receiver), all(1..=2));
    let expected = Refused {
        forged: 1,
        broken_link: 2,
        ..Refused::default()
    };
    assert_eq!(receiver.refused(), expected);
}

#[test]
fn forgers_neither_move_the_window_nor_fill_the_memory() {
    let signing = Signing::new(1);
    let mut receiver = signing.receiver();
    receiver.handle_datagram(NOW, &signing.packet_of(WINDOW + 1, [1; 32], b"", false));
    assert_eq!(receiver.refused().beyond_window, 1);
    for number in 0..100 {
        let packet = signing.packet_of(2, [1; 32], &message(number), false);
        receiver.handle_datagram(NOW, &packet);
    }
    assert_eq!(receiver.refused().too_many, 100 - CANDIDATES_MAX as u64);
    assert_eq!(receiver.poll_timeout(), None);
    // A signed packet is accepted although the receiver already keeps the most unsigned candidates that it may keep.
    receiver.handle_datagram(NOW, &signing.packet_of(2, [1; 32], b"signed", true));
    receiver.handle_timeout(NOW + GAP_TIMEOUT);
    let expected = [(1, None), (2, Some(b"signed".to_vec()))];
    assert_eq!(delivered(&mut receiver), expected);
}

#[test]
fn two_contents_that_are_signed_under_one_number_are_evidence() {
    let signing = Signing::new(1);
    let one = signing.packet_of(1, FIRST_LINK, b"one", true);
    let other = signing.packet_of(1, FIRST_LINK, b"other", true);
    let mut receiver = signing.receiver();
    receiver.handle_datagram(NOW, &one);
    receiver.handle_datagram(NOW, &other);
    let found = events(&mut receiver);
    assert!(
        matches!(
            &found[..],
            [Event::Message(message), Event::Evidence(evidence)]
                if message.payload == b"one" && evidence.sequence == 1 && evidence.first != evidence.second
        ),
        "{found:?}"
    );
    // Packet 2 of a forked chain is evidence too, because the packet's link is not the delivered packet's state.
    let mut fork = Signing::new(1);
    let _ = fork.packet(b"other", true);
    receiver.handle_datagram(NOW, &fork.packet(b"second", true));
    let found = events(&mut receiver);
    assert!(
        matches!(
            &found[..],
            [Event::Evidence(evidence), Event::Message(message)]
                if evidence.sequence == 1 && message.sequence == 2
        ),
        "{found:?}"
    );
}

type Reason = fn(&mut Refused) -> &mut u64;

#[test]
fn what_is_of_others_or_altered_is_refused_and_counted() {
    let mut signing = Signing::new(2);
    let whole = signing.packet(b"message", true);
    let expected: [(usize, u8, Reason); 11] = [
        (0, 1, |refused| &mut refused.malformed),
        (1, 1, |refused| &mut refused.other_epoch),
        (4, 1, |refused| &mut refused.other_epoch),
        (5, 1, |refused| &mut refused.wrong_shard),
        (7, 1, |refused| &mut refused.other_group),
        (11, 1, |refused| &mut refused.no_number),
        (11, 2, |refused| &mut refused.forged),
        (12, 1, |refused| &mut refused.wrong_digest),
        (20, 1, |refused| &mut refused.forged),
        (84, 1, |refused| &mut refused.broken_link),
        (116, 1, |refused| &mut refused.wrong_digest),
    ];
    for (at, bit, reason) in expected {
        let mut counter = Refused::default();
        *reason(&mut counter) = 1;
        let mut packet = whole.clone();
        packet[at] ^= bit;
        let mut receiver = signing.receiver();
        receiver.handle_datagram(NOW, &packet);
        assert_eq!(receiver.refused(), counter, "byte {at}");
        assert_eq!(events(&mut receiver), []);
    }
}
