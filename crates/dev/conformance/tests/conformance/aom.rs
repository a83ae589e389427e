//! Tests AOM-HM's two programs on every engine (`src/aom.rs` describes them). The tags equal the tags of NeoBFT's
//! published sequencer and of the receiver's library, and every bit of the input changes the tags. The switch counts
//! every packet under a verdict. Receivers deliver what the sequencers send.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aom::certificate::{Certificate, Proof};
use aom::event::{DropNotification, Event, Message};
use aom::half_siphash::{self, Key};
use aom::limits::GAP_TIMEOUT;
use aom::membership::{Membership, Sequencer};
use aom::receiver::Receiver;
use aom::refused::Refused;
use aom::wire::{self, Authenticator, LANES, Packet, Stamp, Variant};
use conformance::aom::{Copy, FORMS, Group, RECEIVERS_PORT, SENDER_PORT, Sequencers, frame_to};
use dataplane::{DropReason, TraceEvent, TraceSink};
use fastrand::Rng;

const SEED: u64 = 0x0a0a_2023;
const RANDOM_PACKETS: usize = 10_000;
/// The key of NeoBFT's published sequencer. The test gives this key to every receiver.
const PUBLISHED_KEY: Key = Key {
    k0: 0x3332_3130,
    k1: 0x4241_3938,
};
const NOW: Duration = Duration::from_secs(1);

fn stamp_of(datagram: &[u8]) -> (Stamp, [u32; LANES]) {
    let packet = Packet::read(datagram).expect("a packet of the sequencer");
    match packet.authenticator {
        Authenticator::Tags(tags) => (packet.stamp, tags),
        Authenticator::Chained { .. } => unreachable!("AOM-HM has tags"),
    }
}

/// Returns a request with a chosen digest. The switch does not verify the digest.
fn request(digest: u64, message: &[u8]) -> Vec<u8> {
    let mut datagram = wire::request(Variant::Tagged, 0, message);
    datagram[12..20].copy_from_slice(&digest.to_be_bytes());
    datagram
}

/// Sends a request with this sequence number and digest. Returns the tags that the first receiver gets, by shard.
fn tags(sequencers: &mut Sequencers, group: &Group, number: u32, digest: u64) -> Vec<[u32; LANES]> {
    sequencers.set(group, "sequences", &number.to_be_bytes());
    let copies = sequencers.request(group, &request(digest, b"message"));
    let of_first = copies.iter().filter(|copy| copy.receiver == 0);
    of_first.map(|copy| stamp_of(&copy.datagram).1).collect()
}

#[test]
fn tags_are_those_of_the_published_sequencer() {
    let mut rng = Rng::with_seed(SEED);
    // The first five tags are for the published sequencer's current input words. The last two tags are for the input
    // words of an earlier version of that sequencer, which contained the shard where the group's number is now.
    for (epoch, number, shard, sequence, digest, expected) in [
        (0, 0, 0, 1, 0, 0x62b8_12f9),
        (2, 0, 0, 1, 0x0001_0203_0405_0607, 0x11e4_fcd2),
        (2, 0, 0, 2, 0x0001_0203_0405_0607, 0x7ea4_23c6),
        (2, 0, 1, 1, 0x0001_0203_0405_0607, 0x892e_fb0b),
        (2, 0, 0, 0xdead_beef, 0x1111_1111_1111_1111, 0xd8d1_07c2),
        (0, 0, 0, 1, 0x0101_0101, 0x5ede_f8db),
        (0, 1, 0, 1, 0x0101_0101, 0x9043_9a4a),
    ] {
        let mut sequencers = Sequencers::new();
        let mut group = Group::random(&mut rng, number, 3, 8);
        group.epoch = epoch;
        group.keys.fill(PUBLISHED_KEY);
        sequencers.add(&mut rng, &group);
        let found = tags(&mut sequencers, &group, sequence, digest);
        assert_eq!(found[shard], [expected; LANES], "{sequence:x} {digest:x}");
    }
}

#[test]
fn every_bit_of_what_is_covered_changes_the_tags_as_in_the_library() {
    let mut rng = Rng::with_seed(SEED);
    let mut sequencers = Sequencers::new();
    let group = Group::random(&mut rng, 0x1234, 3, 64);
    sequencers.add(&mut rng, &group);
    let expected = |group: &Group, sequence: u32, digest: u64| -> Vec<[u32; LANES]> {
        let stamp = |shard| Stamp {
            epoch: group.epoch,
            shard,
            group: group.number,
            sequence,
            digest: digest.to_be_bytes(),
        };
        let shards = (0u8..).zip(group.keys.chunks(LANES));
        let tags = shards.map(|(shard, keys)| {
            std::array::from_fn(|lane| half_siphash::tag(keys[lane], &stamp(shard)))
        });
        tags.collect()
    };
    let (sequence, digest) = (0x0102_0304, 0x1112_1314_1516_1718);
    let before = tags(&mut sequencers, &group, sequence, digest);
    assert_eq!(before, expected(&group, sequence, digest));
    // The 64 tags of the sixteen shards differ, so each bit of a shard's number changes the tags.
    let all: BTreeSet<u32> = before.iter().flatten().copied().collect();
    assert_eq!(all.len(), 64);
    let differs = |found: &[[u32; LANES]]| {
        let pairs = found.iter().flatten().zip(before.iter().flatten());
        pairs.into_iter().all(|(found, before)| found != before)
    };
    for bit in 0..32 {
        let sequence = sequence ^ (1 << bit);
        let found = tags(&mut sequencers, &group, sequence, digest);
        assert_eq!(found, expected(&group, sequence, digest));
        assert!(differs(&found));
    }
    for bit in 0..64 {
        let digest = digest ^ (1 << bit);
        let found = tags(&mut sequencers, &group, sequence, digest);
        assert_eq!(found, expected(&group, sequence, digest));
        assert!(differs(&found));
    }
    for bit in 0..8 {
        let mut group = group.clone();
        group.epoch ^= 1 << bit;
        sequencers.add_keys(&mut rng, &group);
        sequencers.set(&group, "epochs", &group.epoch.to_be_bytes());
        let found = tags(&mut sequencers, &group, sequence, digest);
        assert_eq!(found, expected(&group, sequence, digest));
        assert!(differs(&found));
    }
}

#[test]
fn every_bit_of_a_key_changes_its_receivers_tag_and_no_other() {
    let mut rng = Rng::with_seed(SEED);
    let mut group = Group::random(&mut rng, 9, 3, 4);
    let mut sequencers = [Sequencers::new(), Sequencers::new()];
    for one in &mut sequencers {
        one.add(&mut rng, &group);
    }
    for bit in 0..64 {
        // Each epoch has its own keys.
        group.epoch = group.epoch.wrapping_add(1);
        let lane = bit % LANES;
        let flipped = 1u64 << bit;
        let mut flipped_in = group.clone();
        flipped_in.keys[lane].k0 ^= flipped as u32;
        flipped_in.keys[lane].k1 ^= (flipped >> 32) as u32;
        let [before, found] = [(0, &group), (1, &flipped_in)].map(|(at, group)| {
            let one = &mut sequencers[at];
            one.add_keys(&mut rng, group);
            one.set(group, "epochs", &group.epoch.to_be_bytes());
            tags(one, group, 7, 0x0102_0304_0506_0708)[0]
        });
        for other in 0..LANES {
            assert_eq!(found[other] != before[other], other == lane, "bit {bit}");
        }
    }
}

#[test]
fn random_packets_leave_both_forms_and_engines_alike_and_as_the_library_says() {
    let mut rng = Rng::with_seed(SEED);
    let mut sequencers = Sequencers::new();
    let groups: Vec<Group> = [1, 3, 4, 5, 8, 16, 64]
        .into_iter()
        .zip(0..)
        .map(|(n_receivers, slot)| {
            let mut group = Group::random(&mut rng, 1000 + slot, slot, n_receivers);
            group.epoch = rng.u32(1..);
            sequencers.add(&mut rng, &group);
            group
        })
        .collect();
    let mut numbers = vec![0u32; groups.len()];
    let mut n_copies = 0;
    for _ in 0..RANDOM_PACKETS {
        // A request to the last group, of 64 receivers, makes 1,024 copies, so this group is chosen a bit less often.
        let at = rng.usize(..groups.len()).min(rng.usize(..200));
        let group = &groups[at];
        numbers[at] += 1;
        let mut message = vec![0; rng.usize(..200)];
        rng.fill(&mut message);
        let digest = rng.u64(..);
        let copies = sequencers.request(group, &request(digest, &message));
        let n_receivers = group.keys.len();
        assert_eq!(copies.len(), usize::from(group.n_shards()) * n_receivers);
        n_copies += copies.len();
        for (place, Copy { receiver, datagram }) in copies.iter().enumerate() {
            let (stamp, tags) = stamp_of(datagram);
            let shard = (place / n_receivers) as u8;
            assert_eq!(usize::from(*receiver), place % n_receivers);
            let expected = Stamp {
                epoch: group.epoch,
                shard,
                group: group.number,
                sequence: numbers[at],
                digest: digest.to_be_bytes(),
            };
            assert_eq!(stamp, expected);
            assert_eq!(datagram[wire::TAGGED_BYTES..], message);
            let keys = group.keys.iter().skip(LANES * usize::from(shard));
            for (key, tag) in keys.zip(tags) {
                assert!(half_siphash::verify(*key, &stamp, tag));
            }
        }
    }
    assert!(n_copies > 2 * RANDOM_PACKETS, "{n_copies} copies");
    assert_eq!(sequencers.verdicts()[0], RANDOM_PACKETS as u64);
}

/// Records the largest number of passes of a packet through the pipeline.
struct Passes(Arc<Mutex<u32>>);

impl TraceSink for Passes {
    fn event(&mut self, event: &TraceEvent) {
        let mut most = self.0.lock().expect("nobody else has it");
        *most = event.pass.max(*most);
    }
}

#[test]
fn a_shard_takes_one_pass_more_or_one_a_round() {
    for (form, expected) in [(0, 2), (1, 1 + 12)] {
        let mut rng = Rng::with_seed(SEED);
        let mut sequencers = Sequencers::new();
        let group = Group::random(&mut rng, 9, 3, 8);
        sequencers.add(&mut rng, &group);
        let most = Arc::new(Mutex::new(0));
        let sink = Passes(Arc::clone(&most));
        let reference = &mut sequencers.forms[form].reference;
        reference.set_trace(Some(Box::new(sink)));
        assert_eq!(
            sequencers.request(&group, &request(1, b"message")).len(),
            2 * 8
        );
        assert_eq!(
            *most.lock().expect("nobody else has it"),
            expected,
            "{}",
            FORMS[form]
        );
    }
}

#[test]
fn every_request_has_a_verdict_and_what_is_not_stamped_leaves_nothing() {
    let mut rng = Rng::with_seed(SEED);
    let mut sequencers = Sequencers::new();
    let group = Group::random(&mut rng, 9, 3, 5);
    sequencers.add(&mut rng, &group);
    let other = Group::random(&mut rng, 10, 4, 5);
    let whole = wire::request(Variant::Tagged, 0, b"");
    let left = |sequencers: &mut Sequencers, group: &Group, datagram: &[u8]| {
        sequencers.request(group, datagram).len()
    };
    assert_eq!(left(&mut sequencers, &group, &whole), 2 * 5);
    // Frames that end inside a header.
    for n_bytes in 0..whole.len() {
        assert_eq!(left(&mut sequencers, &group, &whole[..n_bytes]), 0);
    }
    // Datagrams that claim to come from the sequencer.
    for kind in [0, 2, 3, 4, 255] {
        let mut datagram = whole.clone();
        datagram[0] = kind;
        assert_eq!(left(&mut sequencers, &group, &datagram), 0);
    }
    assert_eq!(left(&mut sequencers, &other, &whole), 0);
    sequencers.set(&group, "active", &[0]);
    assert_eq!(left(&mut sequencers, &group, &whole), 0);
    sequencers.set(&group, "active", &[1]);
    // The switch uses the last sequence number once, and assigns no number after it.
    sequencers.set(&group, "sequences", &0xffff_ffff_u32.to_be_bytes());
    assert_eq!(left(&mut sequencers, &group, &whole), 2 * 5);
    for _ in 0..3 {
        assert_eq!(left(&mut sequencers, &group, &whole), 0);
    }
    // A restarted switch has the sequence number 0. Even if other state is restored, the switch gives no request a
    // sequence number before a new epoch.
    sequencers.set(&group, "sequences", &[0; 4]);
    assert_eq!(left(&mut sequencers, &group, &whole), 0);
    let n_truncated = whole.len() as u64;
    assert_eq!(sequencers.verdicts(), [2, n_truncated, 5, 1, 1, 4]);
    let n_dropped = n_truncated + 5 + 1 + 1 + 4;
    for form in &sequencers.forms {
        let counters = form.reference.counters();
        assert_eq!(counters.dropped(DropReason::IngressDrop), n_dropped);
        assert_eq!(counters.dropped_total(), n_dropped);
    }
}

#[test]
fn without_keys_of_the_epoch_nothing_leaves() {
    let mut rng = Rng::with_seed(SEED);
    let mut sequencers = Sequencers::new();
    let group = Group::random(&mut rng, 9, 3, 5);
    sequencers.add(&mut rng, &group);
    sequencers.set(&group, "epochs", &(group.epoch + 1).to_be_bytes());
    let whole = wire::request(Variant::Tagged, 0, b"message");
    assert!(sequencers.request(&group, &whole).is_empty());
    for form in &sequencers.forms {
        assert_eq!(form.reference.counters().dropped(DropReason::EgressDrop), 2);
    }
}

#[test]
fn a_group_is_known_by_its_number_where_no_address_tells_it() {
    let mut rng = Rng::with_seed(SEED);
    let mut sequencers = Sequencers::new();
    let own = Ipv4Addr::new(10, 0, 0, 100);
    let groups = [(0x0102, 3), (0x0201, 4)].map(|(number, slot)| {
        let group = Group::random(&mut rng, number, slot, 1);
        sequencers.add(&mut rng, &group);
        sequencers.know(&group, Some(own), Some(number));
        group
    });
    // Each group has its own sequence, in whatever order requests arrive.
    for number in 1..=3u32 {
        for group in &groups {
            let datagram = wire::request(Variant::Tagged, group.number, b"message");
            let copies = sequencers.request_at(own, group, &datagram);
            assert_eq!(copies.len(), 1);
            let (stamp, _) = stamp_of(&copies[0].datagram);
            assert_eq!((stamp.group, stamp.sequence), (group.number, number));
        }
    }
    let unknown = wire::request(Variant::Tagged, 0x0103, b"message");
    assert!(sequencers.request_at(own, &groups[0], &unknown).is_empty());
}

#[test]
fn what_is_no_request_is_forwarded_as_by_any_switch() {
    let mut sequencers = Sequencers::new();
    let mut frame = frame_to([10, 0, 0, 1].into(), b"anything");
    // The frame goes to another UDP port than requests.
    frame[36..38].copy_from_slice(&5004u16.to_be_bytes());
    for form in &mut sequencers.forms {
        form.insert_exact(
            "stations",
            "forward",
            &[&frame[..6]],
            &[&RECEIVERS_PORT.0.to_be_bytes()],
        );
    }
    let left = sequencers.send(SENDER_PORT, &frame);
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].port, &left[0].frame), (RECEIVERS_PORT, &frame));
}

fn membership(group: &Group, receiver: u8) -> Membership {
    Membership {
        group: group.number,
        epoch: u64::from(group.epoch),
        n_receivers: group.keys.len() as u8,
        receiver,
        sequencer: Sequencer::Tagging(group.keys[usize::from(receiver)]),
        confirm_keys: Vec::new(),
    }
}

fn receivers(group: &Group) -> Vec<Receiver> {
    let numbers = 0..group.keys.len() as u8;
    let receiver = |number| Receiver::new(membership(group, number), 1).expect("a membership");
    numbers.map(receiver).collect()
}

fn give(receivers: &mut [Receiver], copies: &[Copy]) {
    for Copy { receiver, datagram } in copies {
        receivers[usize::from(*receiver)].handle_datagram(NOW, datagram);
    }
}

#[test]
fn every_member_delivers_and_believes_the_certificates_of_the_others() {
    for n_receivers in [1, 3, 4, 5, 8, 16, 64] {
        let mut rng = Rng::with_seed(SEED);
        let mut sequencers = Sequencers::new();
        let groups = [(7, 1), (8, 2)].map(|(number, slot)| {
            let group = Group::random(&mut rng, number, slot, n_receivers);
            sequencers.add(&mut rng, &group);
            group
        });
        let mut members = groups.each_ref().map(receivers);
        // The second group has its own sequence numbers.
        for (at, text) in [(0, "first"), (0, "second"), (1, "other"), (0, "third")] {
            let datagram = wire::request(Variant::Tagged, 0, text.as_bytes());
            let copies = sequencers.request(&groups[at], &datagram);
            give(&mut members[at], &copies);
        }
        for (at, expected) in [(0, vec!["first", "second", "third"]), (1, vec!["other"])] {
            for member in &mut members[at] {
                for (number, text) in (1..).zip(&expected) {
                    let Some(Event::Message(message)) = member.poll_event() else {
                        unreachable!("a message of {n_receivers}");
                    };
                    let found = (message.sequence, message.payload.as_slice());
                    assert_eq!(found, (number, text.as_bytes()));
                    believed(&groups[at], &message);
                }
                assert_eq!(member.poll_event(), None);
                assert_eq!(member.refused(), Refused::default());
            }
        }
    }
}

/// Checks that every member accepts the certificate, and refuses it after a bit of the member's own tag or of the
/// message was changed.
fn believed(group: &Group, message: &Message) {
    let certificate = &message.certificate;
    let Proof::Tags(tags) = &certificate.proof else {
        unreachable!("AOM-HM has tags");
    };
    assert_eq!(tags.len(), usize::from(group.n_shards()));
    for receiver in 0..group.keys.len() {
        let member = membership(group, receiver as u8);
        assert!(certificate.verify(&member, &message.payload));
        let mut tags = tags.clone();
        tags[receiver / LANES].tags[receiver % LANES] ^= 1 << (message.sequence % 32);
        let proof = Proof::Tags(tags);
        let altered = Certificate {
            proof,
            ..certificate.clone()
        };
        assert!(!altered.verify(&member, &message.payload));
        let mut payload = message.payload.clone();
        payload[0] ^= 1;
        assert!(!certificate.verify(&member, &payload));
    }
}

#[test]
fn one_lost_packet_is_one_drop_notification_at_each_member() {
    let mut rng = Rng::with_seed(SEED);
    let mut sequencers = Sequencers::new();
    let group = Group::random(&mut rng, 7, 1, 5);
    sequencers.add(&mut rng, &group);
    let mut members = receivers(&group);
    for number in 1..=4 {
        let copies = sequencers.request(&group, &wire::request(Variant::Tagged, 0, b"message"));
        // The switch gives the second request a sequence number, but every receiver loses the packet of this request's
        // second shard.
        let lost = |copy: &Copy| number == 2 && stamp_of(&copy.datagram).0.shard == 1;
        let left: Vec<Copy> = copies.into_iter().filter(|copy| !lost(copy)).collect();
        give(&mut members, &left);
    }
    for member in &mut members {
        member.handle_timeout(NOW + GAP_TIMEOUT);
        let events: Vec<Event> = std::iter::from_fn(|| member.poll_event()).collect();
        let dropped = DropNotification {
            epoch: u64::from(group.epoch),
            first: 2,
            last: 2,
        };
        let numbers: Vec<Option<u32>> = events
            .iter()
            .map(|event| match event {
                Event::Message(message) => Some(message.sequence),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [Some(1), None, Some(3), Some(4)]);
        assert_eq!(events[1], Event::Drop(dropped));
    }
}
