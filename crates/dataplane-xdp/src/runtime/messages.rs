//! What the writer's thread is told, and what it says.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use dataplane::{OffloadNotice, Replica};

use super::table::TableOp;
use crate::image::EncodedKey;

/// Parts of commits that become visible as one, where more than one commit waits.
const GATHERED_MAX: usize = 1024;

/// Which table: a program's, or the one that leads from groups to fan-outs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableRef {
    Program(usize),
    Groups,
}

/// A part of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Table(TableRef, TableOp),
    /// The replicas of a group, of which there is one at least, whose entry has this body.
    Group {
        body: u32,
        replicas: Vec<Replica>,
    },
}

impl Op {
    /// It says what a group is that has this body.
    pub(crate) fn is_of_group(&self, group: u32) -> bool {
        match self {
            Op::Group { body, .. } => *body == group,
            Op::Table(TableRef::Groups, TableOp::Show { body, .. }) => *body == group,
            Op::Table(..) => false,
        }
    }

    /// The key of an entry that it removes.
    fn removed(&self) -> Option<(TableRef, EncodedKey)> {
        match self {
            Op::Table(table, TableOp::Remove { key, .. }) => Some((*table, key.clone())),
            _ => None,
        }
    }

    /// The key of an entry that it makes.
    fn put(&self) -> Option<(TableRef, EncodedKey)> {
        match self {
            Op::Table(table, TableOp::Put { key, .. }) => Some((*table, key.clone())),
            _ => None,
        }
    }
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// These parts become visible as one.
    Commit(Vec<Op>),
    /// Says when no packet is left that came before, or sees what was before.
    Drain(u64),
    /// Somebody waits for the body of an entry that was removed.
    Hurry,
    /// A grace period is over, or all is.
    Look,
}

/// A body that can be another entry's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) table: TableRef,
    pub(crate) body: u32,
}

/// Why the thread has ended by itself.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The program's table that could not be written.
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

/// What the thread says.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Epochs below it are drained.
    pub(crate) drained: AtomicU64,
    /// So many commits are seen by all packets.
    pub(crate) n_seen: AtomicU64,
    failure: Mutex<Option<Failure>>,
    notices: Mutex<VecDeque<OffloadNotice>>,
}

impl Progress {
    /// Why it has ended, if it has.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn fail(&self, failure: Failure) {
        let mut place = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(failure);
    }

    /// What has happened, while it goes on.
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

/// Commits that are shown as one.
pub(crate) struct Gathered {
    pub(crate) ops: Vec<Op>,
    pub(crate) n_commits: u64,
    /// What comes behind them.
    pub(crate) next: Option<Message>,
}

/// A commit and those that wait behind it. A writer that has to wait for
/// grace periods does not fall behind by it, however many commits come.
pub(crate) fn gather(ops: Vec<Op>, messages: &Receiver<Message>) -> Gathered {
    let mut gathered = Gathered {
        ops,
        n_commits: 1,
        next: None,
    };
    let ops = &mut gathered.ops;
    let mut removed = None;
    while ops.len() < GATHERED_MAX {
        match messages.try_recv() {
            Ok(Message::Commit(more)) => {
                let removed = removed.get_or_insert_with(|| removed_by(ops));
                if needs_place(removed, &more) {
                    gathered.next = Some(Message::Commit(more));
                    break;
                }
                removed.extend(removed_by(&more));
                add(ops, more);
                gathered.n_commits += 1;
            }
            // It looks anyway when it has done this.
            Ok(Message::Look) => {}
            Ok(other) => {
                gathered.next = Some(other);
                break;
            }
            Err(_) => break,
        }
    }
    gathered
}

fn removed_by(ops: &[Op]) -> HashSet<(TableRef, EncodedKey)> {
    ops.iter().filter_map(Op::removed).collect()
}

/// Whether a commit has keys that need the place of those that were removed: a key leads to one body only, and there
/// are few masks. Packets are to have seen before that the entries are gone.
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

/// Of a group that changes more than once only the last version is made.
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
    use std::sync::mpsc;

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

    /// What is done with a commit, and what comes next, when these wait behind it.
    fn gathered(first: Vec<Op>, waiting: Vec<Message>) -> (Gathered, usize) {
        let (to, messages) = mpsc::channel();
        let sent = waiting.into_iter().map(|message| to.send(message));
        assert!(sent.collect::<Vec<_>>().iter().all(Result::is_ok));
        let gathered = gather(first, &messages);
        (gathered, messages.try_iter().count())
    }

    #[test]
    fn commits_that_wait_become_one_and_of_a_group_the_last_version_is_made() {
        let waiting = vec![
            Message::Commit(vec![put(2, 2), group(7, 2), group(8, 1)]),
            Message::Look,
            Message::Commit(vec![group(7, 3), remove(2, 2)]),
        ];
        let (gathered, n_left) = gathered(vec![put(1, 1), group(7, 1)], waiting);
        let expected = [put(1, 1), put(2, 2), group(8, 1), group(7, 3), remove(2, 2)];
        assert_eq!(gathered.ops, expected);
        assert_eq!(gathered.n_commits, 3);
        assert!(gathered.next.is_none() && n_left == 0);
    }

    #[test]
    fn a_key_that_was_removed_comes_back_in_a_commit_of_its_own() {
        let again = vec![put(2, 9), put(1, 2)];
        let waiting = vec![
            Message::Commit(vec![put(2, 3)]),
            Message::Commit(again.clone()),
            Message::Drain(4),
        ];
        let (gathered, n_left) = gathered(vec![remove(1, 1)], waiting);
        assert_eq!(gathered.ops, [remove(1, 1), put(2, 3)]);
        assert!(matches!(gathered.next, Some(Message::Commit(ops)) if ops == again));
        assert_eq!((gathered.n_commits, n_left), (2, 1));
    }

    #[test]
    fn a_drain_waits_for_what_was_before_it_alone() {
        let waiting = vec![Message::Drain(4), Message::Commit(vec![put(2, 3)])];
        let (gathered, n_left) = gathered(vec![put(1, 1)], waiting);
        assert_eq!(gathered.ops, [put(1, 1)]);
        assert!(matches!(gathered.next, Some(Message::Drain(4))));
        assert_eq!((gathered.n_commits, n_left), (1, 1));
    }
}
