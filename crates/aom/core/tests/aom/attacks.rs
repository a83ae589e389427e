//! Tests receivers of authenticated ordered multicast (AOM) under attack by anybody who can send datagrams to them, by
//! senders whose requests have wrong digests, and by a sequencer that lies. No two honest receivers may deliver
//! different messages under one sequence number, genuine messages must be delivered, and memory must stay within its
//! bound. Up to four receivers form a shard: the sequencer of AOM-HM sends one packet for each shard, with the tags of
//! the shard's receivers.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use aom::certificate::Certificate;
use aom::chain::{FIRST_LINK, NO_MESSAGE, state_of};
use aom::event::{DropNotification, Event, Message};
use aom::limits::{CANDIDATES_MAX, CONFIRM_TIMEOUT, GAP_TIMEOUT, SETTLE, WINDOW};
use aom::membership::Sequencer;
use aom::receiver::Receiver;
use aom::wire::{HEADER_BYTES, SIGNED_BYTES, TAGGED_BYTES};
use fastrand::Rng;

use crate::allocated;
use crate::common::{GROUP, NOW, Signing, Tagging, delivered, events, message, numbers_of};

/// The digest's offset in a datagram.
const DIGEST_AT: usize = 12;

/// Returns the packet with random bytes in place of its tags, as an attacker without keys would send it.
fn with_false_tags(packet: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut spoiled = packet.to_vec();
    rng.fill(&mut spoiled[HEADER_BYTES..TAGGED_BYTES]);
    spoiled
}

fn with_message(packet: &[u8], overhead_bytes: usize, message: &[u8]) -> Vec<u8> {
    [&packet[..overhead_bytes], message].concat()
}

/// When an attacker's false packets of another shard arrive, relative to the genuine packets.
#[derive(Debug, Clone, Copy)]
enum Spoiled {
    BeforeAll,
    BetweenShards,
    AfterAll,
}

#[test]
fn false_tags_of_other_shards_spoil_neither_messages_nor_certificates() {
    let n_receivers = 8;
    let sequencer = Tagging::new(n_receivers, 3);
    for (n_false, has_right_digest, when) in [
        (1, true, Spoiled::BeforeAll),
        (4, true, Spoiled::BeforeAll),
        (4, false, Spoiled::BeforeAll),
        (4, true, Spoiled::BetweenShards),
        (4, false, Spoiled::BetweenShards),
        (4, true, Spoiled::AfterAll),
        (1000, true, Spoiled::BeforeAll),
        (1000, false, Spoiled::BeforeAll),
        (1000, false, Spoiled::AfterAll),
    ] {
        let mut rng = Rng::with_seed(n_false);
        let case = format!("{n_false} {when:?}, right digest: {has_right_digest}");
        for place in 0..n_receivers {
            let mut receiver = sequencer.receiver(n_receivers, place);
            let n_numbers = if n_false > 100 { 10 } else { 1000 };
            for number in 1..=n_numbers {
                let packets = sequencer.packets(number, &message(number));
                let other = 1 - usize::from(place / 4);
                let spoiled: Vec<_> = (0..n_false)
                    .map(|_| {
                        let mut spoiled = with_false_tags(&packets[other], &mut rng);
                        if !has_right_digest {
                            rng.fill(&mut spoiled[DIGEST_AT..HEADER_BYTES]);
                        }
                        spoiled
                    })
                    .collect();
                let [first, second] = &packets[..] else {
                    panic!("expected two shards");
                };
                let spoiled: Vec<_> = spoiled.iter().collect();
                let all = match when {
                    Spoiled::BeforeAll => [&spoiled[..], &[first, second]].concat(),
                    Spoiled::BetweenShards => [&[first][..], &spoiled, &[second]].concat(),
                    Spoiled::AfterAll => [&[first, second][..], &spoiled].concat(),
                };
                for packet in all {
                    receiver.handle_datagram(NOW, packet);
                }
                receiver.handle_timeout(NOW + SETTLE);
            }
            let found = events(&mut receiver);
            assert_eq!(found.len(), n_numbers as usize, "{case}");
            for (number, event) in (1..).zip(found) {
                let Event::Message(found) = event else {
                    panic!("expected message {number}, found {event:?}: {case}");
                };
                assert_eq!(found.payload, message(number));
                // If false packets with the right digest come between the switch's two packets, the receiver takes one
                // of them for the other shard's packet and delivers the message. Then only the members of the
                // receiver's own shard accept the message's certificate.
                let is_first = place < 4 && has_right_digest;
                let verifiers = match when {
                    Spoiled::BetweenShards if is_first => 0..4,
                    _ => 0..n_receivers,
                };
                convince(&sequencer, verifiers, &found, &case);
                // For a recent message the receiver can also return a certificate with the tags of the genuine packet,
                // which came after the false packets.
                if let Some(certificate) = receiver.certificate(number) {
                    let found = Message {
                        certificate,
                        ..found
                    };
                    convince(&sequencer, 0..n_receivers, &found, &case);
                } else {
                    assert!(number + WINDOW <= n_numbers, "{case}");
                }
            }
        }
    }
}

/// Asserts that each of these members accepts the certificate for this message, and for no other message.
fn convince(sequencer: &Tagging, verifiers: Range<u8>, found: &Message, case: &str) {
    let n_receivers = sequencer.keys.len() as u8;
    let bytes = found.certificate.to_bytes();
    let n_tags = usize::from(n_receivers).div_ceil(4) * CANDIDATES_MAX;
    assert!(bytes.len() <= 15 + 17 * n_tags, "{case}");
    let certificate = Certificate::from_bytes(&bytes).expect("a certificate");
    assert_eq!(certificate, found.certificate);
    for verifier in verifiers {
        let membership = sequencer.membership(n_receivers, verifier);
        assert!(
            certificate.verify(&membership, &found.payload),
            "{case}, verifier {verifier}"
        );
        assert!(!certificate.verify(&membership, b"another"), "{case}");
    }
}

#[test]
fn a_certificate_with_more_variants_than_a_member_keeps_is_no_better_guess() {
    let sequencer = Tagging::new(4, 3);
    let mut receiver = sequencer.receiver(4, 0);
    receiver.handle_datagram(NOW, &sequencer.packets(1, b"message")[0]);
    let found = events(&mut receiver);
    let [Event::Message(Message { certificate, .. })] = &found[..] else {
        panic!("expected a message, found {found:?}");
    };
    let bytes = certificate.to_bytes();
    let (head, right) = bytes.split_at(15);
    let mut rng = Rng::with_seed(1);
    let mut with_false = |n_false: usize| {
        let mut bytes = head.to_vec();
        for _ in 0..n_false {
            bytes.push(0);
            bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(16));
        }
        bytes.extend(right);
        let certificate = Certificate::from_bytes(&bytes).expect("a certificate");
        certificate.verify(&sequencer.membership(4, 1), b"message")
    };
    assert!(with_false(CANDIDATES_MAX - 1));
    assert!(!with_false(CANDIDATES_MAX));
}

#[test]
fn a_stamped_number_with_a_wrong_digest_is_dropped_at_once_by_everybody() {
    for n_receivers in [1, 5, 64] {
        let sequencer = Tagging::new(n_receivers, 3);
        for place in 0..n_receivers {
            let mut receiver = sequencer.receiver(n_receivers, place);
            let shards = u64::from(n_receivers.div_ceil(4));
            for number in 1..=100 {
                // The sender's digest belongs to another message; the sequencer cannot check it.
                let overhead_bytes = TAGGED_BYTES;
                for packet in sequencer.packets(number, &message(number)) {
                    let packet = match number % 2 {
                        0 => packet,
                        _ => with_message(&packet, overhead_bytes, b"something else"),
                    };
                    receiver.handle_datagram(NOW, &packet);
                }
                let expected: Vec<_> = match number % 2 {
                    0 => vec![(number - 1, None), (number, Some(message(number)))],
                    _ => Vec::new(),
                };
                assert_eq!(
                    delivered(&mut receiver),
                    expected,
                    "{n_receivers} receivers"
                );
            }
            assert_eq!(receiver.refused().wrong_digest, 50, "{shards} shards");
        }
    }
}

#[test]
fn a_wrong_digest_at_the_end_is_dropped_like_any_number_that_is_known_to_be_given() {
    let sequencer = Tagging::new(4, 3);
    let mut receiver = sequencer.receiver(4, 0);
    let packet = &sequencer.packets(1, b"message")[0];
    receiver.handle_datagram(NOW, &with_message(packet, TAGGED_BYTES, b"else"));
    assert_eq!(delivered(&mut receiver), []);
    receiver.handle_timeout(NOW + GAP_TIMEOUT);
    assert_eq!(delivered(&mut receiver), [(1, None)]);
}

/// The attacker is a member: it has received the same packet as the receiver, with all tags, and replaces the message
/// in the packet.
#[test]
fn an_exchanged_message_drops_no_number_whose_packet_comes_in_its_order() {
    let sequencer = Tagging::new(5, 3);
    for place in 0..5 {
        let mut receiver = sequencer.receiver(5, place);
        for number in 1..=100 {
            for packet in sequencer.packets(number, &message(number)) {
                let exchanged = with_message(&packet, TAGGED_BYTES, b"exchanged");
                receiver.handle_datagram(NOW, &exchanged);
                receiver.handle_datagram(NOW, &packet);
                receiver.handle_datagram(NOW, &exchanged);
            }
            receiver.handle_timeout(NOW + SETTLE);
            assert_eq!(delivered(&mut receiver), [(number, Some(message(number)))]);
        }
        // After a loss, a packet with a replaced message does not end the wait: its sequence number may still have a
        // message.
        let lost = sequencer.packets(101, &message(101));
        for packet in sequencer.packets(102, &message(102)) {
            receiver.handle_datagram(NOW, &packet);
        }
        for packet in &lost {
            let exchanged = with_message(packet, TAGGED_BYTES, b"exchanged");
            receiver.handle_datagram(NOW, &exchanged);
        }
        for packet in &lost {
            receiver.handle_datagram(NOW, packet);
        }
        receiver.handle_timeout(NOW + SETTLE);
        let expected = [101, 102].map(|number| (number, Some(message(number))));
        assert_eq!(delivered(&mut receiver), expected);
    }
}

/// Makes a packet that the signer put into the chain without a message, as the signer does if the digest is wrong.
fn void(signing: &mut Signing, is_signed: bool) -> Vec<u8> {
    signing.void_packet(b"not what the digest is of", is_signed)
}

#[test]
fn a_signed_number_without_a_message_is_a_drop_at_once_and_breaks_no_chain() {
    let mut signing = Signing::new(1);
    let mut receiver = signing.receiver();
    let mut expected = Vec::new();
    for number in 1..=40u32 {
        let is_signed = number % 4 == 0;
        let packet = match number % 3 {
            0 => void(&mut signing, is_signed),
            _ => signing.packet(&message(number), is_signed),
        };
        expected.push((number, (number % 3 != 0).then(|| message(number))));
        receiver.handle_datagram(NOW, &packet);
        if is_signed {
            let found = events(&mut receiver);
            for event in &found {
                if let Event::Message(found) = event {
                    let other = signing.membership(4, 3);
                    assert!(found.certificate.verify(&other, &found.payload));
                }
            }
            assert_eq!(numbers_of(found), std::mem::take(&mut expected));
        }
    }
    assert_eq!(receiver.refused().wrong_digest, 13);
    assert_eq!(receiver.refused().broken_link, 0);
}

#[test]
fn an_exchanged_message_drops_no_signed_number() {
    for every in [1, 4] {
        let mut signing = Signing::new(1);
        let mut receiver = signing.receiver();
        for number in 1..=40 {
            let packet = signing.packet(&message(number), number % every == 0);
            let exchanged = with_message(&packet, SIGNED_BYTES, b"exchanged");
            receiver.handle_datagram(NOW, &exchanged);
            receiver.handle_datagram(NOW, &packet);
        }
        let expected: Vec<_> = (1..=40)
            .map(|number| (number, Some(message(number))))
            .collect();
        assert_eq!(delivered(&mut receiver), expected);
        assert_eq!(receiver.refused().wrong_digest, 40);
    }
}

#[test]
fn unsigned_forgeries_before_the_true_packet_drop_no_signed_number() {
    for n_forged in [1, 4, 100] {
        let mut signing = Signing::new(1);
        let mut receiver = signing.receiver();
        for number in 1..=40u32 {
            let packet = signing.packet(&message(number), number % 4 == 0);
            for n in 0..n_forged {
                let mut rng = Rng::with_seed(n);
                let link = std::array::from_fn(|_| rng.u8(..));
                let forged = signing.packet_of(number, link, &message(n as u32), false);
                receiver.handle_datagram(NOW, &forged);
            }
            receiver.handle_datagram(NOW, &packet);
        }
        let expected: Vec<_> = (1..=40)
            .map(|number| (number, Some(message(number))))
            .collect();
        assert_eq!(delivered(&mut receiver), expected, "{n_forged} forged");
    }
}

/// The memory bound of one receiver with messages as short as in these tests. docs/aom.md states the bound.
const RECEIVER_BYTES_MAX: usize = 64 << 20;

#[test]
fn a_gap_to_the_last_number_takes_no_memory_in_any_mode() {
    let sequencer = Tagging::new(4, 1);
    let last = &sequencer.packets(u32::MAX, b"last")[0];
    let before = allocated::bytes();
    let mut plain = sequencer.receiver(4, 0);
    plain.handle_datagram(NOW, last);
    plain.handle_timeout(NOW + GAP_TIMEOUT);
    let mut confirming = sequencer.byzantine(4, 0);
    confirming.handle_datagram(NOW, &sequencer.packets(1, b"first")[0]);
    confirming.handle_datagram(NOW, last);
    confirming.handle_timeout(NOW + GAP_TIMEOUT);
    confirming.handle_timeout(NOW + GAP_TIMEOUT + CONFIRM_TIMEOUT);
    let signing = Signing::new(1);
    let mut signed = signing.receiver();
    signed.handle_datagram(NOW, &signing.packet_of(u32::MAX, FIRST_LINK, b"last", true));
    signed.handle_timeout(NOW + GAP_TIMEOUT);
    let used = allocated::bytes() - before;
    assert!(used < 4 << 20, "{used} bytes");
    let gap = |first| DropNotification {
        epoch: 1,
        first,
        last: u32::MAX - 1,
    };
    for receiver in [&mut plain, &mut signed] {
        let found = events(receiver);
        assert!(
            matches!(&found[..], [Event::Drop(drop), Event::Message(_)] if *drop == gap(1)),
            "{found:?}"
        );
    }
    // No other member confirms the message, so the member delivers nothing, and one drop notification covers all
    // sequence numbers.
    let found: Vec<_> = std::iter::from_fn(|| confirming.poll_event()).collect();
    let everything = DropNotification {
        last: u32::MAX,
        ..gap(1)
    };
    assert_eq!(found, [Event::Drop(everything)]);
    assert_eq!(std::iter::from_fn(|| confirming.poll_transmit()).count(), 2);
}

#[test]
fn confirms_and_messages_without_a_quorum_stay_within_the_window() {
    let n_members = 4;
    let sequencer = Tagging::new(n_members, 1);
    let mut liar = sequencer.byzantine(n_members, 3);
    let mut member = sequencer.byzantine(n_members, 0);
    let before = allocated::bytes();
    let mut most = 0;
    // The member gets confirm messages from the liar only, and the sequence numbers rise in steps of 7.
    for number in (1..20 * WINDOW).step_by(7) {
        for packet in sequencer.packets(number, &message(number)) {
            liar.handle_datagram(NOW, &packet);
            member.handle_datagram(NOW, &packet);
        }
        liar.handle_timeout(NOW + GAP_TIMEOUT);
        member.handle_timeout(NOW + GAP_TIMEOUT);
        while let Some(confirm) = liar.poll_transmit() {
            member.handle_datagram(NOW, &confirm);
        }
        let polled = std::iter::from_fn(|| member.poll_event());
        assert!(
            polled.count() <= 1,
            "drops that follow each other are one event"
        );
        while member.poll_transmit().is_some() || liar.poll_event().is_some() {}
        most = most.max(allocated::bytes().saturating_sub(before));
    }
    assert!(most < 4 << 20, "{most} bytes");
}

/// Under each sequence number the sequencer sends every member one of two messages at random. Member 3 confirms both
/// messages, and the network loses and forges packets.
#[test]
fn a_lying_sequencer_and_a_lying_member_divide_no_members_that_confirm() {
    for seed in 0..10 {
        let mut rng = Rng::with_seed(seed);
        let sequencer = Tagging::new(4, 1);
        let mut honest: Vec<_> = (0..3)
            .map(|member| sequencer.byzantine(4, member))
            .collect();
        let mut liars: Vec<_> = (0..2).map(|_| sequencer.byzantine(4, 3)).collect();
        let mut delivered: Vec<HashMap<u32, Vec<u8>>> = vec![HashMap::new(); 3];
        let mut now = NOW;
        for number in 1..=40 {
            let contents = ["left", "right"].map(|side| format!("{side} {number}").into_bytes());
            let packets = [0, 1].map(|side| sequencer.packets(number, &contents[side]).remove(0));
            let mut datagrams: Vec<Vec<u8>> = packets.to_vec();
            for (liar, packet) in liars.iter_mut().zip(&packets) {
                liar.handle_datagram(now, packet);
                datagrams.extend(std::iter::from_fn(|| liar.poll_transmit()));
            }
            for member in &mut honest {
                member.handle_datagram(now, &packets[rng.usize(..2)]);
                datagrams.extend(std::iter::from_fn(|| member.poll_transmit()));
            }
            for member in honest.iter_mut().chain(&mut liars) {
                // All but the first two datagrams are confirm messages; the sequencer's packets are delivered already.
                for datagram in &datagrams[2..] {
                    member.handle_datagram(now, &hostile(&mut rng, &datagrams));
                    if rng.u8(..10) > 0 {
                        member.handle_datagram(now, datagram);
                    }
                }
            }
            now += CONFIRM_TIMEOUT;
            for (member, delivered) in honest.iter_mut().zip(&mut delivered) {
                member.handle_timeout(now);
                while let Some(event) = member.poll_event() {
                    if let Event::Message(message) = event {
                        delivered.insert(message.sequence, message.payload);
                    }
                }
            }
            for liar in &mut liars {
                liar.handle_timeout(now);
            }
        }
        let n_delivered: usize = delivered.iter().map(HashMap::len).sum();
        assert!(n_delivered > 20, "{n_delivered}, seed {seed}");
        for (number, payload) in delivered.iter().flatten() {
            for other in &delivered {
                let found = other.get(number).unwrap_or(payload);
                assert_eq!(found, payload, "number {number}, seed {seed}");
            }
        }
    }
}

/// Returns a genuine datagram with altered bits, epoch, group, sequence number, length or shard, or random bytes.
fn hostile(rng: &mut Rng, honest: &[Vec<u8>]) -> Vec<u8> {
    let mut datagram = honest[rng.usize(..honest.len())].clone();
    match rng.u8(..8) {
        0 => (0..rng.usize(1..8)).for_each(|_| {
            let at = rng.usize(..datagram.len());
            datagram[at] ^= 1 << rng.u8(..8);
        }),
        1 => rng.fill(&mut datagram[1..5]),
        2 => rng.fill(&mut datagram[6..8]),
        3 => {
            let number = [0, 1, WINDOW, u32::MAX, rng.u32(..), rng.u32(..2000)];
            let number = number[rng.usize(..number.len())];
            datagram[8..12].copy_from_slice(&number.to_be_bytes());
        }
        4 => datagram.truncate(rng.usize(..=datagram.len())),
        5 => {
            let at = rng.usize(HEADER_BYTES..datagram.len());
            rng.fill(&mut datagram[at..]);
        }
        6 => datagram[5] = rng.u8(..17),
        _ => {
            datagram = vec![0; rng.usize(..2000)];
            rng.fill(&mut datagram);
            if let Some(kind) = datagram.first_mut() {
                *kind = rng.u8(..6);
            }
        }
    }
    datagram
}

/// Passes genuine packets to a receiver, except about one in 20, which the network loses. Passes hostile datagrams
/// between them. Returns the delivered messages.
fn attacked(
    rng: &mut Rng,
    receiver: &mut Receiver,
    of_numbers: &[Vec<Vec<u8>>],
) -> HashMap<u32, Vec<u8>> {
    // The packets that the attacker may have seen.
    let mut honest: Vec<Vec<u8>> = Vec::new();
    let mut delivered = HashMap::new();
    let (mut now, mut next) = (NOW, 1u64);
    for packets in of_numbers {
        honest.extend(packets.iter().cloned());
        for packet in packets {
            for _ in 0..rng.usize(..10) {
                receiver.handle_datagram(now, &hostile(rng, &honest));
            }
            if rng.u8(..20) > 0 {
                receiver.handle_datagram(now, packet);
            }
        }
        now += Duration::from_micros(rng.u64(..500));
        receiver.handle_timeout(now);
        for event in events(receiver) {
            match event {
                Event::Message(message) => {
                    assert_eq!(u64::from(message.sequence), next);
                    next += 1;
                    delivered.insert(message.sequence, message.payload);
                }
                Event::Drop(drop) => {
                    assert_eq!(u64::from(drop.first), next);
                    assert!(drop.first <= drop.last);
                    next = u64::from(drop.last) + 1;
                }
                Event::Evidence(evidence) => unreachable!("an honest sequencer: {evidence:?}"),
            }
        }
    }
    delivered
}

#[test]
fn random_hostile_datagrams_divide_no_receivers_and_stay_within_the_memory() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let n_receivers = [1, 4, 5, 8, 64][rng.usize(..5)];
        let sequencer = Tagging::new(n_receivers, 1 << 20 | 5);
        let mut signing = Signing::new(7);
        let n_numbers = if n_receivers == 64 { 200 } else { 1500 };
        let tagged: Vec<_> = (1..=n_numbers)
            .map(|number| sequencer.packets(number, &message(number)))
            .collect();
        let signed: Vec<_> = (1..=n_numbers)
            .map(|number| vec![signing.packet(&message(number), number % 8 == 0)])
            .collect();
        for is_signed in [false, true] {
            for place in [0, n_receivers - 1] {
                let before = allocated::bytes();
                let (mut receiver, of_numbers) = if is_signed {
                    (signing.receiver(), &signed)
                } else {
                    (sequencer.receiver(n_receivers, place), &tagged)
                };
                let delivered = attacked(&mut rng, &mut receiver, of_numbers);
                for (number, payload) in &delivered {
                    assert_eq!(*payload, message(*number), "seed {seed}");
                }
                let n_delivered = delivered.len();
                assert!(
                    n_delivered > n_numbers as usize / 5,
                    "{n_delivered}, seed {seed}"
                );
                drop(delivered);
                let used = allocated::bytes().saturating_sub(before);
                assert!(used < RECEIVER_BYTES_MAX, "{used} bytes, seed {seed}");
            }
        }
    }
}

#[test]
fn forgers_of_long_unsigned_messages_meet_the_bound_of_the_memory() {
    let signing = Signing::new(1);
    let mut receiver = signing.receiver();
    let before = allocated::bytes();
    let long = vec![7; 60_000];
    let mut rng = Rng::with_seed(1);
    for n in 0..4000u32 {
        let link = std::array::from_fn(|_| rng.u8(..));
        // The receiver keeps an unsigned packet with any link, but only if the packet's digest is right.
        let forged = signing.packet_of(2 + n % (WINDOW - 1), link, &long, false);
        receiver.handle_datagram(NOW + Duration::from_micros(n.into()), &forged);
    }
    let used = allocated::bytes() - before;
    assert!(used < 10 << 20, "{used} bytes");
    assert!(receiver.refused().too_many > 3000);
}

#[test]
fn a_state_without_a_message_is_none_with_one() {
    let signing = Signing::new(1);
    let Sequencer::Signing(_) = signing.membership(4, 0).sequencer else {
        panic!("expected a signing sequencer");
    };
    let chain = aom::chain::ChainId {
        group: GROUP,
        epoch: 1,
    };
    let void = state_of(chain, &FIRST_LINK, &NO_MESSAGE, 1);
    for text in ["", "a", "message"] {
        let hash = aom::chain::hash_of(text.as_bytes());
        assert_ne!(void, state_of(chain, &FIRST_LINK, &hash, 1));
    }
}
