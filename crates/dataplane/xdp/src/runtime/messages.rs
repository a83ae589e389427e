//! Messages to the writer, the thread that writes the kernel's maps, and the reports of the kernel engine's threads.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

use dataplane::{OffloadNotice, PortId, Replica};
use packet_io::XdpInterface;

use super::grace::Moment;
use super::table::TableOp;
use crate::image::EncodedKey;

/// The most ops ([`Op`]) that are made visible together, unless a single commit has more.
const GATHERED_MAX: usize = 1024;

/// A table of the program, the table of multicast groups, or a meter's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableRef {
    Program(usize),
    Groups,
    /// A meter array, by position.
    Meter(usize),
    /// The meters of a table's entries, by the table's position.
    DirectMeter(usize),
}

/// An op is a part of a commit. Packets see a commit wholly or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Table(TableRef, TableOp),
    /// The replicas of a group, at least one. `body` is the number of the group's [`crate::image::Body`].
    Group {
        body: u32,
        replicas: Vec<Replica>,
    },
    /// The interface by which copies to a port leave; `None` while the port has no interface.
    Interface {
        port: PortId,
        interface: Option<Interface>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    /// The longest frame that the interface accepts, in bytes.
    pub(crate) longest: u32,
}

impl From<&XdpInterface> for Interface {
    fn from(interface: &XdpInterface) -> Interface {
        Interface {
            index: interface.index(),
            longest: interface.redirected_bytes_max(),
        }
    }
}

impl Op {
    /// Whether the op sets the replicas of the group with this body.
    pub(crate) fn is_of_group(&self, group: u32) -> bool {
        match self {
            Op::Group { body, .. } => *body == group,
            Op::Table(TableRef::Groups, TableOp::Show { body, .. }) => *body == group,
            Op::Table(..) | Op::Interface { .. } => false,
        }
    }

    /// Returns the key of the entry that the op removes.
    fn removed(&self) -> Option<(TableRef, EncodedKey)> {
        match self {
            Op::Table(table, TableOp::Remove { key, .. }) => Some((*table, key.clone())),
            _ => None,
        }
    }

    /// Returns the key of the entry that the op adds.
    fn put(&self) -> Option<(TableRef, EncodedKey)> {
        match self {
            Op::Table(table, TableOp::Put { key, .. }) => Some((*table, key.clone())),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Message {
    /// Makes these ops visible to packets at the same time.
    Commit(Vec<Op>),
    /// Reports this epoch as drained once no packet sees what earlier commits have replaced.
    Drain(u64),
    /// A control call waits until another entry can use a removed entry's body (its memory, [`crate::image::Body`]).
    Hurry,
    /// A grace period has ended, or none is waited for any more because the engine stops.
    Look,
}

/// A body (an entry's memory, [`crate::image::Body`]) that another entry can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) table: TableRef,
    pub(crate) body: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The program's table that could not be written, if the failure concerns one.
    pub(crate) table: Option<usize>,
    pub(crate) reason: String,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure {
            table: None,
            reason: error.to_string(),
        }
    }
}

/// The reports of the threads.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Epochs below this one are drained.
    pub(crate) drained: AtomicU64,
    /// How many commits are visible to all packets.
    pub(crate) n_seen: AtomicU64,
    /// Whether the program runs on the ports.
    pub(crate) has_begun: AtomicBool,
    failure: Mutex<Option<Failure>>,
    notices: Mutex<VecDeque<OffloadNotice>>,
}

impl Progress {
    pub(crate) fn failure(&self) -> Option<Failure> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn fail(&self, failure: Failure) {
        let mut place = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(failure);
    }

    pub(crate) fn poll_notice(&self) -> Option<OffloadNotice> {
        let notices = self.notices.lock();
        let mut notices = notices.unwrap_or_else(PoisonError::into_inner);
        notices.pop_front()
    }

    pub(crate) fn notice(&self, notice: OffloadNotice) {
        let notices = self.notices.lock();
        let mut notices = notices.unwrap_or_else(PoisonError::into_inner);
        notices.push_back(notice);
    }
}

/// Commits that will become visible at the same time, and the messages that wait until these commits are visible.
/// Merging commits keeps a writer that waits for grace periods from falling behind.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) ops: Vec<Op>,
    pub(crate) n_commits: u64,
    /// Epochs whose drains begin when the commits become visible.
    pub(crate) drains: Vec<u64>,
    /// Once no packet from before this moment is left, none of the ops has to wait.
    pub(crate) free_from: Moment,
    /// Keys of entries that the commits remove.
    removed: HashSet<(TableRef, EncodedKey)>,
    behind: VecDeque<Message>,
}

impl Waiting {
    /// Whether there is nothing to make visible.
    pub(crate) fn is_empty(&self) -> bool {
        self.n_commits == 0 && self.drains.is_empty()
    }

    /// Adds a commit or a drain. `free_from` returns a moment: once all packets from before this moment are done, the
    /// commit's ops need not wait.
    pub(crate) fn push(&mut self, message: Message, free_from: impl Fn(&[Op]) -> Moment) {
        if !self.behind.is_empty() {
            self.behind.push_back(message);
        } else if let Some(message) = self.join(message, free_from) {
            self.behind.push_back(message);
        }
    }

    /// Takes the commits and drains that become visible at the same time. Leaves the messages in `behind`, which must
    /// become visible later.
    pub(crate) fn take(&mut self) -> Waiting {
        let behind = std::mem::take(&mut self.behind);
        let next = Waiting {
            behind,
            ..Waiting::default()
        };
        std::mem::replace(self, next)
    }

    /// Merges the messages in `behind`, in their order, until a message must become visible later.
    pub(crate) fn refill(&mut self, free_from: impl Fn(&[Op]) -> Moment) {
        while let Some(message) = self.behind.pop_front() {
            if let Some(message) = self.join(message, &free_from) {
                self.behind.push_front(message);
                break;
            }
        }
    }

    /// Merges a message, or returns it if it must become visible later.
    fn join(&mut self, message: Message, free_from: impl Fn(&[Op]) -> Moment) -> Option<Message> {
        match message {
            Message::Commit(ops) => {
                let is_full = self.ops.len() >= GATHERED_MAX;
                if is_full || needs_place(&self.removed, &ops) {
                    return Some(Message::Commit(ops));
                }
                self.free_from = self.free_from.max(free_from(&ops));
                self.removed.extend(ops.iter().filter_map(Op::removed));
                add(&mut self.ops, ops);
                self.n_commits += 1;
            }
            // A drain waits only for earlier commits; later commits may become visible together with the earlier ones.
            Message::Drain(epoch) => self.drains.push(epoch),
            Message::Hurry | Message::Look => {}
        }
        None
    }
}

/// Whether a commit inserts keys for which removed keys must first make room: a key leads to one body only, and there
/// are few masks. If so, packets must see the removal before the insertion.
fn needs_place(removed: &HashSet<(TableRef, EncodedKey)>, ops: &[Op]) -> bool {
    let is_masked = |table, (other, key): &(TableRef, EncodedKey)| {
        table == *other && matches!(key, EncodedKey::Masked { .. })
    };
    let mut put = ops.iter().filter_map(Op::put);
    put.any(|put| match &put {
        (table, EncodedKey::Masked { .. }) => removed.iter().any(|it| is_masked(*table, it)),
        _ => removed.contains(&put),
    })
}

/// Appends ops. If a group changes more than once, only its last version is made.
fn add(ops: &mut Vec<Op>, more: Vec<Op>) {
    for op in more {
        if let Op::Group { body, .. } | Op::Table(TableRef::Groups, TableOp::Show { body, .. }) =
            &op
        {
            let body = *body;
            ops.retain(|op| !op.is_of_group(body));
        }
        ops.push(op);
    }
}

#[cfg(test)]
mod tests {
    use dataplane::PortId;

    use super::*;

    const TABLE: TableRef = TableRef::Program(0);

    fn key(n: u8) -> EncodedKey {
        EncodedKey::Bytes(vec![n])
    }

    fn put(n: u8, body: u32) -> Op {
        let rank = 0;
        let key = key(n);
        Op::Table(TABLE, TableOp::Put { key, body, rank })
    }

    fn remove(n: u8, body: u32) -> Op {
        Op::Table(TABLE, TableOp::Remove { key: key(n), body })
    }

    fn group(body: u32, instance: u16) -> Op {
        let replica = Replica {
            port: PortId(1),
            instance,
        };
        let replicas = vec![replica];
        Op::Group { body, replicas }
    }

    /// Returns what waits after these messages if nothing is made visible in between.
    fn waiting(messages: Vec<Message>) -> Waiting {
        let mut waiting = Waiting::default();
        for message in messages {
            waiting.push(message, |_| Moment::NEVER);
        }
        waiting
    }

    #[test]
    fn commits_that_wait_become_one_and_of_a_group_the_last_version_is_made() {
        let waiting = waiting(vec![
            Message::Commit(vec![put(1, 1), group(7, 1)]),
            Message::Commit(vec![put(2, 2), group(7, 2), group(8, 1)]),
            Message::Commit(vec![group(7, 3), remove(2, 2)]),
        ]);
        let expected = [put(1, 1), put(2, 2), group(8, 1), group(7, 3), remove(2, 2)];
        assert_eq!(waiting.ops, expected);
        assert_eq!(waiting.n_commits, 3);
        assert!(waiting.behind.is_empty());
    }

    #[test]
    fn a_key_that_was_removed_comes_back_in_a_commit_of_its_own() {
        let again = vec![put(2, 9), put(1, 2)];
        let mut waiting = waiting(vec![
            Message::Commit(vec![remove(1, 1)]),
            Message::Commit(vec![put(2, 3)]),
            Message::Commit(again.clone()),
            Message::Drain(4),
            Message::Commit(vec![put(3, 3)]),
        ]);
        let first = waiting.take();
        assert_eq!(first.ops, [remove(1, 1), put(2, 3)]);
        assert_eq!((first.n_commits, first.drains), (2, vec![]));
        assert!(waiting.is_empty());
        waiting.refill(|_| Moment::NEVER);
        let next = waiting.take();
        assert_eq!(next.ops, [again, vec![put(3, 3)]].concat());
        assert_eq!((next.n_commits, next.drains), (2, vec![4]));
        waiting.refill(|_| Moment::NEVER);
        assert!(waiting.is_empty() && waiting.behind.is_empty());
    }

    #[test]
    fn a_drain_of_what_is_shown_waits_for_nothing_else() {
        let waiting = waiting(vec![Message::Drain(4)]);
        assert_eq!((waiting.drains, waiting.n_commits), (vec![4], 0));
        assert_eq!(waiting.free_from, Moment::NEVER);
    }

    #[test]
    fn no_more_parts_become_visible_as_one_than_are_bounded() {
        let commits = (0..40).map(|n| Message::Commit(vec![put(n, 1); GATHERED_MAX / 8]));
        let mut waiting = waiting(commits.collect());
        for _ in 0..5 {
            assert_eq!(waiting.take().ops.len(), GATHERED_MAX);
            waiting.refill(|_| Moment::NEVER);
        }
        assert!(waiting.is_empty());
    }
}
