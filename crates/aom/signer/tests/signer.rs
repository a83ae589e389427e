//! Tests the signer between a sequencer and receivers, in memory: signatures, unsigned packets, gaps, epochs and
//! restarts.

use std::time::Duration;

use aom::chain::FIRST_LINK;
use aom::event::Event;
use aom::membership::{Membership, Sequencer};
use aom::receiver::Receiver;
use aom::refused::Refused;
use aom::wire::{Authenticator, LINK_BYTES, Packet, SIGNATURE_BYTES, Stamp, digest_of};
use reprise_signer::frame::{LINK, SIGNATURE, payload_of};
use reprise_signer::key::Key;
use reprise_signer::limits::{IDLE, UNSIGNED_FOR, UNSIGNED_MAX};
use reprise_signer::nonces::Pool;
use reprise_signer::{Counters, Signer};
use secp256k1::ecdsa::Signature;
use secp256k1::{Message, PublicKey};
use sha2::{Digest, Sha256};

const GROUP: u16 = 7;
const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const US: Duration = Duration::from_micros(1);

fn key() -> Key {
    Key::from_hex(SECRET, "a test").expect("a key")
}

/// Makes a signer that has this many nonces, and no threads that make more.
fn signer(n_nonces: usize) -> Signer {
    let pool = Pool::new(1024, 0).expect("no threads");
    pool.fill(n_nonces);
    Signer::new(key(), pool)
}

fn membership(epoch: u64) -> Membership {
    Membership {
        group: GROUP,
        epoch,
        n_receivers: 4,
        receiver: 0,
        sequencer: Sequencer::Signing(key().public()),
        confirm_keys: Vec::new(),
    }
}

fn receiver() -> Receiver {
    Receiver::new(membership(1), 1).expect("a membership")
}

fn message(sequence: u32) -> Vec<u8> {
    format!("message {sequence}").into_bytes()
}

/// Makes a packet with a sequence number, as the switch sends it to the signer.
fn stamped(group: u16, epoch: u32, sequence: u32) -> Vec<u8> {
    let message = message(sequence);
    let packet = Packet {
        stamp: Stamp {
            epoch,
            shard: 0,
            group,
            sequence,
            digest: digest_of(&message),
        },
        authenticator: Authenticator::Chained {
            signature: None,
            link: [0; LINK_BYTES],
        },
        message: &message,
    };
    let payload = packet.write();
    let mut frame = vec![0; 42];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[23] = 17;
    frame[36..38].copy_from_slice(&aom::wire::UDP_PORT.to_be_bytes());
    frame[38..40].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    frame.extend(payload);
    frame
}

fn given(signer: &mut Signer, now: Duration, mut frame: Vec<u8>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    signer.handle_frame(now, &mut frame, &mut |frame| out.push(frame.to_vec()));
    out
}

fn after(signer: &mut Signer, now: Duration) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    signer.handle_timeout(now, &mut |frame| out.push(frame.to_vec()));
    out
}

fn is_signed(frame: &[u8]) -> bool {
    frame[SIGNATURE] != [0; SIGNATURE_BYTES]
}

fn receive(receiver: &mut Receiver, now: Duration, frames: &[Vec<u8>]) {
    for frame in frames {
        receiver.handle_datagram(now, payload_of(frame).expect("a datagram"));
    }
}

/// Returns the sequence numbers of delivered messages and of drops. The numbers of drops are negative.
fn delivered(receiver: &mut Receiver) -> Vec<i64> {
    let events = std::iter::from_fn(|| receiver.poll_event());
    let numbers = |event| -> Vec<i64> {
        match event {
            Event::Message(event) => {
                assert_eq!(event.payload, message(event.sequence));
                vec![i64::from(event.sequence)]
            }
            Event::Drop(drop) => drop.numbers().map(|number| -i64::from(number)).collect(),
            Event::Evidence(evidence) => unreachable!("an honest signer: {evidence:?}"),
        }
    };
    events.flat_map(numbers).collect()
}

#[test]
fn with_nonces_every_packet_is_signed_and_delivered_at_once() {
    let (mut signer, mut receiver) = (signer(1000), receiver());
    for sequence in 1..=100 {
        let frames = given(&mut signer, US * sequence, stamped(GROUP, 1, sequence));
        assert!(frames.len() == 1 && is_signed(&frames[0]));
        receive(&mut receiver, US * sequence, &frames);
        assert_eq!(delivered(&mut receiver), [i64::from(sequence)]);
    }
    assert_eq!(receiver.refused(), Refused::default());
    let expected = Counters {
        received: 100,
        linked: 100,
        signed: 100,
        ..Counters::default()
    };
    assert_eq!(signer.counters(), expected);
    assert_eq!(signer.poll_timeout(), None);
}

#[test]
fn signatures_are_those_of_another_implementation() {
    let mut signer = signer(1000);
    let public = key().public().to_encoded_point(false);
    let other = PublicKey::from_slice(public.as_bytes()).expect("a point of the curve");
    let is_signed_by_key = |block: &[u8], signature: &Signature| {
        let message = Message::from_digest(Sha256::digest(block).into());
        other.verify(message, signature).is_ok()
    };
    let mut link = FIRST_LINK;
    for sequence in 1..=50 {
        let frames = given(&mut signer, US, stamped(GROUP, 1, sequence));
        assert_eq!(frames[0][LINK], link);
        // The signer signs the SHA-256 of this block, which the test builds by hand.
        let mut block = [0; 74];
        block[..32].copy_from_slice(&link);
        block[32..64].copy_from_slice(&Sha256::digest(message(sequence)));
        block[64..68].copy_from_slice(&sequence.to_be_bytes());
        block[68..70].copy_from_slice(&GROUP.to_be_bytes());
        block[73] = 1;
        let mut signature = frames[0][SIGNATURE].to_vec();
        signature.reverse();
        let mut signature = Signature::from_compact(&signature).expect("two numbers");
        // The other ECDSA implementation, with which the test verifies, accepts only the low s.
        signature.normalize_s();
        assert!(is_signed_by_key(&block, &signature), "number {sequence}");
        block[73] = 2;
        assert!(!is_signed_by_key(&block, &signature));
        block[73] = 1;
        link = Sha256::digest(block).into();
    }
}

#[test]
fn without_nonces_packets_wait_and_the_next_signature_releases_them() {
    let (mut signer, mut receiver) = (signer(0), receiver());
    for sequence in 1..=10 {
        let frames = given(&mut signer, US * sequence, stamped(GROUP, 1, sequence));
        assert!(frames.len() == 1 && !is_signed(&frames[0]));
        receive(&mut receiver, US * sequence, &frames);
        assert!(delivered(&mut receiver).is_empty());
    }
    signer.pool().fill(1);
    let now = 11 * US + UNSIGNED_FOR;
    let frames = given(&mut signer, now, stamped(GROUP, 1, 11));
    assert!(is_signed(&frames[0]));
    receive(&mut receiver, now, &frames);
    assert_eq!(delivered(&mut receiver), (1..=11).collect::<Vec<_>>());
    assert_eq!(receiver.refused(), Refused::default());
}

#[test]
fn a_quiet_chain_is_signed_when_it_is_idle_or_as_soon_as_there_is_a_nonce() {
    let (mut signer, mut receiver) = (signer(0), receiver());
    let frames = given(&mut signer, US, stamped(GROUP, 1, 1));
    receive(&mut receiver, US, &frames);
    assert_eq!(signer.poll_timeout(), Some(US + IDLE));
    assert!(
        after(&mut signer, US + IDLE).is_empty(),
        "there is no nonce"
    );
    let again = signer.poll_timeout().expect("it is tried again");
    assert!(again > US + IDLE && again <= US + 2 * IDLE);
    signer.pool().fill(1);
    let frames = after(&mut signer, again);
    assert!(frames.len() == 1 && is_signed(&frames[0]));
    receive(&mut receiver, again, &frames);
    assert_eq!(delivered(&mut receiver), [1]);
    assert_eq!(receiver.refused(), Refused::default());
    assert_eq!(signer.poll_timeout(), None);
    assert_eq!(signer.counters().signed_late, 1);
    // The chain continues after the signature.
    signer.pool().fill(1000);
    receive(
        &mut receiver,
        again,
        &given(&mut signer, again, stamped(GROUP, 1, 2)),
    );
    assert_eq!(delivered(&mut receiver), [2]);
}

#[test]
fn few_nonces_sign_few_packets_and_no_packet_waits_longer_than_is_said() {
    let mut signer = signer(8);
    let (mut run, mut longest) = (0, 0);
    for sequence in 1..=400 {
        // All packets come at the same time, so only the number of packets decides when the signer signs.
        let frames = given(&mut signer, US, stamped(GROUP, 1, sequence));
        run = if is_signed(&frames[0]) { 0 } else { run + 1 };
        longest = longest.max(run);
    }
    assert_eq!(longest, UNSIGNED_MAX - 1);
    assert!(
        (6..=8).contains(&signer.counters().signed),
        "{:?}",
        signer.counters()
    );
}

#[test]
fn a_lost_packet_is_one_drop_and_what_was_before_it_is_signed() {
    let (mut signer, mut receiver) = (signer(0), receiver());
    for sequence in [1, 2] {
        let frames = given(&mut signer, US, stamped(GROUP, 1, sequence));
        receive(&mut receiver, US, &frames);
    }
    signer.pool().fill(1000);
    // Packet 3 was lost between switch and signer.
    let frames = given(&mut signer, 2 * US, stamped(GROUP, 1, 4));
    assert_eq!(frames.len(), 2);
    assert!(frames.iter().all(|frame| is_signed(frame)));
    assert_eq!(frames[1][LINK], FIRST_LINK);
    receive(&mut receiver, 2 * US, &frames);
    assert_eq!(delivered(&mut receiver), [1, 2]);
    let late = receiver.poll_timeout().expect("number 3 is waited for");
    receiver.handle_timeout(late);
    assert_eq!(delivered(&mut receiver), [-3, 4]);
    assert_eq!(signer.counters().gaps, 1);
}

#[test]
fn a_signer_that_begins_again_goes_on_and_nobody_is_accused() {
    let mut receiver = receiver();
    let mut before = signer(0);
    before.pool().fill(1000);
    receive(
        &mut receiver,
        US,
        &given(&mut before, US, stamped(GROUP, 1, 1)),
    );
    drop(before);
    let mut starved = signer(0);
    receive(
        &mut receiver,
        US,
        &given(&mut starved, US, stamped(GROUP, 1, 2)),
    );
    // The signer is killed before it signed packet 2.
    drop(starved);
    let mut now = signer(1000);
    for sequence in [3, 4] {
        receive(
            &mut receiver,
            2 * US,
            &given(&mut now, 2 * US, stamped(GROUP, 1, sequence)),
        );
    }
    assert_eq!(delivered(&mut receiver), [1]);
    let late = receiver.poll_timeout().expect("number 2 is waited for");
    receiver.handle_timeout(late);
    assert_eq!(delivered(&mut receiver), [-2, 3, 4]);
}

#[test]
fn groups_and_epochs_have_chains_of_their_own() {
    let mut signer = signer(1000);
    for (group, epoch, sequence) in [
        (1, 1, 1),
        (2, 1, 1),
        (1, 1, 2),
        (1, 2, 1),
        (2, 1, 2),
        (1, 2, 2),
    ] {
        let frames = given(&mut signer, US, stamped(group, epoch, sequence));
        let is_first = frames[0][LINK] == FIRST_LINK;
        assert_eq!(is_first, sequence == 1, "group {group}, epoch {epoch}");
    }
    assert!(given(&mut signer, US, stamped(1, 1, 1)).is_empty());
    assert_eq!(signer.counters().old_epoch, 1);
}

/// The signer does not see epochs without traffic. Epoch numbers are times, so the numbers of successive epochs may be
/// far apart.
#[test]
fn a_later_epoch_is_new_however_far_it_is_and_an_earlier_one_old() {
    let mut signer = signer(1000);
    let epochs = [
        1,
        128,
        129,
        256,
        257,
        1 << 16,
        1 << 31,
        1 << 31 | 1,
        u32::MAX,
    ];
    for (n_before, epoch) in epochs.into_iter().enumerate() {
        let frames = given(&mut signer, US, stamped(1, epoch, 1));
        assert!(frames.len() == 1 && is_signed(&frames[0]), "epoch {epoch}");
        for old in &epochs[..n_before] {
            assert!(given(&mut signer, US, stamped(1, *old, 1)).is_empty());
        }
    }
    let n_old = epochs.len() * (epochs.len() - 1) / 2;
    assert_eq!(signer.counters().old_epoch, n_old as u64);
}

#[test]
fn what_is_not_to_be_linked_is_counted_and_disturbs_nothing() {
    let mut signer = signer(1000);
    given(&mut signer, US, stamped(GROUP, 1, 1));
    let whole = stamped(GROUP, 1, 2);
    let mut dropped = 0;
    for n_bytes in 0..42 + 116 {
        assert!(given(&mut signer, US, whole[..n_bytes].to_vec()).is_empty());
        dropped += 1;
    }
    let with = |at: usize, value: u8| {
        let mut frame = whole.clone();
        frame[at] = value;
        frame
    };
    // Each case has one wrong byte: another EtherType, IPv4 options, a fragment, TCP, another port, a request, tags, a
    // shard.
    for (at, value) in [
        (12, 9),
        (14, 0x46),
        (21, 1),
        (23, 6),
        (37, 0),
        (42, 1),
        (42, 2),
        (47, 1),
    ] {
        assert!(
            given(&mut signer, US, with(at, value)).is_empty(),
            "byte {at}"
        );
        dropped += 1;
    }
    assert_eq!(signer.counters().not_stamped, dropped);
    assert!(given(&mut signer, US, stamped(GROUP, 1, 1)).is_empty());
    assert_eq!(signer.counters().repeated, 1);
    let frames = given(&mut signer, US, whole);
    assert!(frames[0][LINK] != FIRST_LINK, "the chain goes on");
    let counters = signer.counters();
    let sum = counters.not_stamped + counters.repeated + counters.linked;
    assert_eq!(sum, counters.received);
}

#[test]
fn wrong_digests_are_numbers_without_messages_which_receivers_drop_at_once() {
    for n_nonces in [1000, 1] {
        let (mut signer, mut receiver) = (signer(n_nonces), receiver());
        let mut now = US;
        for number in 1..=100 {
            let mut frame = stamped(GROUP, 1, number);
            if number % 2 == 0 {
                *frame.last_mut().expect("a message") ^= 1;
            }
            let frames = given(&mut signer, now, frame);
            assert_eq!(frames.len(), 1);
            receive(&mut receiver, now, &frames);
            now += US;
        }
        signer.pool().fill(1);
        let mut last = Vec::new();
        signer.finish(now, &mut |frame| last.push(frame.to_vec()));
        receive(&mut receiver, now, &last);
        // Less time than the receiver's timeout has passed. So each drop comes from a wrong digest, and none from a
        // missing packet.
        let expected = (1..=100).map(|number| if number % 2 == 0 { -number } else { number });
        assert_eq!(delivered(&mut receiver), expected.collect::<Vec<_>>());
        let counters = signer.counters();
        assert_eq!(
            (counters.linked, counters.wrong_digest, counters.gaps),
            (100, 50, 0)
        );
        assert_eq!(receiver.refused().wrong_digest, 50 + last.len() as u64);
    }
}

#[test]
fn what_ends_is_signed_first() {
    let mut signer = signer(0);
    given(&mut signer, US, stamped(1, 1, 1));
    given(&mut signer, US, stamped(2, 1, 1));
    signer.pool().fill(1);
    let mut out = Vec::new();
    signer.finish(US, &mut |frame| out.push(frame.to_vec()));
    assert!(out.len() == 1 && is_signed(&out[0]));
    let counters = signer.counters();
    assert_eq!((counters.signed_late, counters.ended_unsigned), (1, 1));
}
