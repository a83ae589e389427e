//! The thread that writes what control calls have changed into the kernel's maps.
//!
//! It has a thread of its own since it waits: what packets may still see is not written over before a grace
//! period, 7 to 30 ms, and an outer map's entry takes one too. Commits are carried out in their order. While
//! none comes, what has been removed is taken out of the maps.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataplane::Replica;

use super::grace::{Graces, Moment};
use super::groups::FanOuts;
use super::maps::Maps;
use super::table::{Table, TableOp};
use crate::image::{EncodedKey, TableLayout};

/// How long no commit has come when what was removed is taken out: a commit that comes meanwhile waits for it.
const QUIET: Duration = Duration::from_millis(20);

/// Removed entries that are not waited with.
const GRAVES_MAX: usize = 16;

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

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// These parts become visible as one.
    Commit(Vec<Op>),
    /// Says when no packet is left that came before, or sees what was before.
    Drain(u64),
}

/// A body that can be another entry's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) table: TableRef,
    pub(crate) body: u32,
}

/// What the thread says.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Epochs below it are drained.
    pub(crate) drained: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Progress {
    /// Why it has ended, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn fail(&self, reason: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

/// What packets may still see for a while.
#[derive(Debug)]
enum Grave {
    /// A removed entry's key.
    Key {
        table: TableRef,
        key: EncodedKey,
        body: u32,
    },
    /// The body of a key that was taken out.
    Body(Freed),
    FanOut(u32),
}

/// What writes the maps.
pub(crate) struct Writer {
    maps: Arc<Maps>,
    version_at: u32,
    version: u64,
    tables: HashMap<TableRef, Table>,
    groups: Option<(TableLayout, FanOuts)>,
    /// By body of a group: the fan-out that its entry names.
    fan_outs: HashMap<u32, u32>,
    graces: Graces,
    /// In the order of the moments since when nothing new sees them.
    graves: VecDeque<(Moment, Grave)>,
    freed: Sender<Freed>,
}

impl Writer {
    pub(crate) fn new(
        maps: Arc<Maps>,
        version_at: u32,
        tables: HashMap<TableRef, Table>,
        groups: Option<(TableLayout, FanOuts)>,
        freed: Sender<Freed>,
    ) -> Writer {
        Writer {
            maps,
            version_at,
            version: 0,
            tables,
            groups,
            fan_outs: HashMap::new(),
            graces: Graces::new(),
            graves: VecDeque::new(),
            freed,
        }
    }

    /// Shows the parts of a commit as one.
    ///
    /// # Errors
    /// The kernel's error, or what there is no room for.
    pub(crate) fn commit(&mut self, ops: &[Op]) -> io::Result<()> {
        let version = self.version + 1;
        let mut buried = Vec::new();
        for op in ops {
            match op {
                Op::Table(at, op) => {
                    self.write(*at, version, op)?;
                    buried.extend(self.bury(*at, op));
                }
                Op::Group { body, replicas } => {
                    buried.extend(self.write_group(version, *body, replicas)?);
                }
            }
        }
        if let Some((_, fan_outs)) = &mut self.groups
            && fan_outs.is_to_be_published()
        {
            fan_outs.publish(&self.maps)?;
        }
        self.version = version;
        self.maps.store_u64(self.version_at, version);
        let now = self.graces.now();
        self.tables.values_mut().for_each(|table| table.shown(now));
        let buried = buried.into_iter().map(|grave| (now, grave));
        self.graves.extend(buried);
        Ok(())
    }

    fn write(&mut self, at: TableRef, version: u64, op: &TableOp) -> io::Result<()> {
        let Some(table) = self.tables.get_mut(&at) else {
            return Ok(());
        };
        let written = table.write(&self.maps, &mut self.graces, version, op);
        written.map_err(|error| {
            io::Error::new(error.kind(), format!("table \"{}\": {error}", table.name))
        })
    }

    /// What is no longer seen by packets that come after an entry was removed.
    fn bury(&mut self, table: TableRef, op: &TableOp) -> Vec<Grave> {
        let mut buried = Vec::new();
        let body = match op {
            TableOp::Remove { key, body } => {
                buried.push(Grave::Key {
                    table,
                    key: key.clone(),
                    body: *body,
                });
                *body
            }
            TableOp::Show { body, .. } => *body,
            TableOp::Put { .. } => return buried,
        };
        if table == TableRef::Groups {
            buried.extend(self.fan_outs.remove(&body).map(Grave::FanOut));
        }
        buried
    }

    fn write_group(
        &mut self,
        version: u64,
        body: u32,
        replicas: &[Replica],
    ) -> io::Result<Option<Grave>> {
        let Some((layout, fan_outs)) = &mut self.groups else {
            return Ok(None);
        };
        let number = fan_outs.make(&self.maps, replicas)?;
        let args = [number, replicas.len() as u32].map(Into::into);
        let slot = layout.encode_slot(0, &args);
        self.write(TableRef::Groups, version, &TableOp::Show { body, slot })?;
        let before = self.fan_outs.insert(body, number);
        Ok(before.map(Grave::FanOut))
    }

    /// Takes out what no packet sees any more. Whatever is there needs one grace period, or two.
    fn clean(&mut self) -> io::Result<()> {
        self.graces.wait_past(self.graces.now())?;
        let graves = std::mem::take(&mut self.graves);
        let now = self.graces.now();
        for (moment, grave) in graves {
            if !self.graces.is_past(moment) {
                self.graves.push_back((moment, grave));
                continue;
            }
            match grave {
                Grave::Key {
                    table: at,
                    key,
                    body,
                } => {
                    if let Some(table) = self.tables.get_mut(&at) {
                        table.take_out(&self.maps, now, &key, body)?;
                    }
                    let freed = Freed { table: at, body };
                    self.graves.push_back((now, Grave::Body(freed)));
                }
                Grave::Body(freed) => {
                    if let Some(table) = self.tables.get_mut(&freed.table) {
                        table.free(&self.maps, freed.body);
                    }
                    // Nobody asks for it any more when the program is replaced.
                    let _ = self.freed.send(freed);
                }
                Grave::FanOut(number) => {
                    if let Some((_, fan_outs)) = &mut self.groups {
                        fan_outs.take_away(&self.maps, number)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Carries out what it is told, until nobody is left who could tell it something.
    pub(crate) fn run(mut self, messages: &Receiver<Message>, progress: &Progress) {
        if let Err(error) = self.serve(messages, progress) {
            progress.fail(error.to_string());
        }
    }

    fn serve(&mut self, messages: &Receiver<Message>, progress: &Progress) -> io::Result<()> {
        loop {
            let message = if self.graves.is_empty() {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else if self.graves.len() > GRAVES_MAX {
                messages.try_recv().map_err(|_| RecvTimeoutError::Timeout)
            } else {
                messages.recv_timeout(QUIET)
            };
            match message {
                Ok(Message::Commit(ops)) => self.commit(&ops)?,
                Ok(Message::Drain(epoch)) => {
                    self.graces.wait_past(self.graces.now())?;
                    progress.drained.store(epoch + 1, Ordering::Release);
                }
                Err(RecvTimeoutError::Timeout) => self.clean()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}
