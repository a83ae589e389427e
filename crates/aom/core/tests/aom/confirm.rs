//! Tests the Byzantine network mode, in which a member delivers a message only after a quorum of members has confirmed
//! it.

use std::time::Duration;

use aom::confirm::{Confirming, RefusedConfirms};
use aom::event::{Event, Message};
use aom::limits::CONFIRM_TIMEOUT;
use aom::membership::MembershipError;
use aom::receiver::Receiver;

use crate::common::{self, NOW, Tagging, key_of, message};

struct Group {
    sequencer: Tagging,
    members: Vec<Confirming>,
}

impl Group {
    fn new(n_members: u8) -> Group {
        let sequencer = Tagging::new(n_members, 1);
        let members = (0..n_members)
            .map(|member| sequencer.byzantine(n_members, member))
            .collect();
        Group { sequencer, members }
    }

    /// Delivers the packets of a sequence number to some members.
    fn deliver(&mut self, sequence: u32, message: &[u8], members: &[usize]) {
        for packet in self.sequencer.packets(sequence, message) {
            for member in members {
                self.members[*member].handle_datagram(NOW, &packet);
            }
        }
    }

    /// Delivers all confirm messages, except those for which `is_lost(from, to)` holds.
    fn exchange(&mut self, is_lost: impl Fn(usize, usize) -> bool) {
        for from in 0..self.members.len() {
            while let Some(datagram) = self.members[from].poll_transmit() {
                for to in (0..self.members.len()).filter(|to| *to != from && !is_lost(from, *to)) {
                    self.members[to].handle_datagram(NOW, &datagram);
                }
            }
        }
    }

    fn delivered(&mut self, member: usize) -> Vec<(u32, Option<Vec<u8>>)> {
        let member = &mut self.members[member];
        common::numbers_of(std::iter::from_fn(|| member.poll_event()).collect())
    }

    fn time_out(&mut self, after: Duration) {
        for member in &mut self.members {
            member.handle_timeout(NOW + after);
        }
    }
}

#[test]
fn a_message_is_delivered_with_the_confirms_of_a_quorum() {
    for n_members in [1, 2, 3, 4, 5, 7, 10] {
        let mut group = Group::new(n_members);
        let everybody: Vec<usize> = (0..usize::from(n_members)).collect();
        for sequence in 1..=2 {
            group.deliver(sequence, &message(sequence), &everybody);
        }
        group.exchange(|_, _| false);
        for member in 0..n_members {
            let next = (member + 1) % n_members;
            let other = group.sequencer.byzantine_membership(n_members, next);
            for sequence in 1..=2 {
                let event = group.members[usize::from(member)].poll_event();
                let Some(Event::Message(Message {
                    payload,
                    certificate,
                    ..
                })) = event
                else {
                    panic!("expected a message, found {event:?}");
                };
                assert_eq!(payload, message(sequence));
                assert!(certificate.verify(&other, &payload));
                assert!(!certificate.verify(&other, b"another"));
            }
        }
    }
}

#[test]
fn quorums_of_any_two_contents_share_more_members_than_may_lie() {
    let sequencer = Tagging::new(64, 1);
    for n_members in 1..=64 {
        let quorum = sequencer.byzantine_membership(n_members, 0).quorum();
        let n_members = usize::from(n_members);
        let n_liars = (n_members - 1) / 3;
        assert!(2 * quorum > n_members + n_liars);
        assert!(
            quorum <= n_members - n_liars,
            "those who do not lie are a quorum"
        );
        if n_members % 3 == 1 {
            assert_eq!(quorum, 2 * n_liars + 1);
        }
    }
}

#[test]
fn a_sequencer_that_lies_divides_receivers_and_not_members_that_confirm() {
    // The two halves of a group get different messages under one sequence number, each with right tags.
    let mut plain: Vec<Receiver> = (0..4)
        .map(|member| Tagging::new(4, 1).receiver(4, member))
        .collect();
    let mut group = Group::new(4);
    for (half, content) in [([0, 1], b"one"), ([2, 3], b"two")] {
        group.deliver(1, content, &half);
        for packet in group.sequencer.packets(1, content) {
            for member in half {
                plain[member].handle_datagram(NOW, &packet);
            }
        }
    }
    let delivered: Vec<_> = plain.iter_mut().map(common::delivered).collect();
    assert_eq!(delivered[0], [(1, Some(b"one".to_vec()))]);
    assert_eq!(
        delivered[2],
        [(1, Some(b"two".to_vec()))],
        "without confirms they are divided"
    );

    group.exchange(|_, _| false);
    group.time_out(CONFIRM_TIMEOUT - Duration::from_nanos(1));
    for member in 0..4 {
        assert_eq!(group.delivered(member), []);
    }
    group.time_out(CONFIRM_TIMEOUT);
    for member in 0..4 {
        assert_eq!(group.delivered(member), [(1, None)]);
    }
}

#[test]
fn with_a_lying_member_beside_the_lying_sequencer_one_content_at_most_is_delivered() {
    // Member 3 lies: it confirms "one" to members 0 and 1, and "two" to member 2.
    let mut group = Group::new(4);
    let mut double = group.sequencer.byzantine(4, 3);
    group.deliver(1, b"one", &[0, 1, 3]);
    group.deliver(1, b"two", &[2]);
    for packet in group.sequencer.packets(1, b"two") {
        double.handle_datagram(NOW, &packet);
    }
    let lie = double.poll_transmit().expect("a confirm");
    group.members[2].handle_datagram(NOW, &lie);
    group.exchange(|from, to| (from, to) == (3, 2));
    group.time_out(CONFIRM_TIMEOUT);
    assert_eq!(group.delivered(0), [(1, Some(b"one".to_vec()))]);
    assert_eq!(group.delivered(1), [(1, Some(b"one".to_vec()))]);
    assert_eq!(group.delivered(2), [(1, None)]);
    let found = group.members[2].refused_confirms();
    assert_eq!(found, RefusedConfirms::default());
}

#[test]
fn one_member_that_says_nothing_holds_nobody_up() {
    let mut group = Group::new(4);
    group.deliver(1, b"one", &[0, 1, 2]);
    group.exchange(|_, _| false);
    for member in 0..3 {
        assert_eq!(group.delivered(member), [(1, Some(b"one".to_vec()))]);
    }
    // Member 3 has received only the confirms of message 1, and not the message. The next message shows member 3 that
    // message 1 is missing.
    group.deliver(2, b"two", &[0, 1, 2, 3]);
    group.exchange(|_, _| false);
    group.time_out(Duration::from_secs(1));
    assert_eq!(group.delivered(3), [(1, None), (2, Some(b"two".to_vec()))]);
}

#[test]
fn confirms_that_are_forged_doubled_or_late_are_refused_and_counted() {
    let mut group = Group::new(4);
    group.deliver(1, b"one", &[1, 2]);
    let first = group.members[1].poll_transmit().expect("a confirm");
    let second = group.members[2].poll_transmit().expect("a confirm");
    let member = &mut group.members[0];
    for byte in [4, 5, 6, 12, 44, 107] {
        let mut altered = first.clone();
        altered[byte] ^= 1;
        member.handle_datagram(NOW, &altered);
    }
    let mut of_nobody = first.clone();
    of_nobody[5] = 4;
    member.handle_datagram(NOW, &of_nobody);
    let mut far = first.clone();
    far[8] = 1;
    member.handle_datagram(NOW, &far);
    member.handle_datagram(NOW, &first);
    member.handle_datagram(NOW, &first);
    let expected = RefusedConfirms {
        strangers: 3,
        // These confirms have an altered member number, hash or signature.
        forged: 4,
        late: 1,
        contradictory: 0,
        beyond_window: 1,
    };
    assert_eq!(member.refused_confirms(), expected);
    member.handle_datagram(NOW, &second);
    group.deliver(1, b"one", &[0]);
    assert_eq!(group.delivered(0), [(1, Some(b"one".to_vec()))]);
    group.members[0].handle_datagram(NOW, &second);
    assert_eq!(group.members[0].refused_confirms().late, 2);
}

#[test]
fn what_has_no_quorum_when_the_epoch_ends_is_a_drop() {
    let mut group = Group::new(4);
    group.deliver(1, b"one", &[0]);
    let new = Tagging::new(4, 2);
    group.members[0]
        .advance(NOW, new.byzantine_membership(4, 0), None)
        .expect("a membership");
    assert_eq!(group.delivered(0), [(1, None)]);
    for packet in new.packets(1, b"new") {
        group.members[0].handle_datagram(NOW, &packet);
    }
    group.time_out(CONFIRM_TIMEOUT);
    assert_eq!(group.delivered(0), [(1, None)]);
}

#[test]
fn a_key_that_the_others_do_not_know_is_refused() {
    let sequencer = Tagging::new(4, 1);
    let of = |membership, key| Confirming::new(membership, 1, key).map(|_| ()).err();
    let seen = of(sequencer.byzantine_membership(4, 0), key_of(1));
    assert_eq!(seen, Some(MembershipError::OtherConfirmKey(0)));
    assert_eq!(
        of(sequencer.membership(4, 0), key_of(0)),
        Some(MembershipError::ConfirmKeys {
            n_receivers: 4,
            found: 0
        })
    );
}
