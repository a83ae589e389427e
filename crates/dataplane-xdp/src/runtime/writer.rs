//! The thread that writes what control calls have changed into the kernel's maps.
//!
//! It has a thread of its own since it may have to wait: what packets may still see is not written over before a grace
//! period. Commits are carried out in their order, those that wait as one. What packets no longer see is taken out
//! meanwhile ([`Writer::tidy`]).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use dataplane::Replica;

use super::grace::{Graces, Moment};
use super::groups::FanOuts;
use super::maps::Maps;
use super::messages::{Failure, Freed, Message, Op, Progress, TableRef, gather};
use super::table::{Table, TableOp};
use crate::image::{EncodedKey, GroupArg, TableLayout};

/// How long no commit has come when keys of removed entries are taken out. In the grace period after that no other
/// key can be put in, which a commit that comes then waits for.
const QUIET: Duration = Duration::from_millis(20);

/// Keys of removed entries that are not waited with.
const KEYS_MAX: usize = 64;

/// A removed entry's key, which packets may still see for a while.
#[derive(Debug)]
struct Key {
    table: TableRef,
    key: EncodedKey,
    body: u32,
}

/// What else packets may still see for a while.
#[derive(Debug)]
enum Grave {
    /// The body of a key that was taken out.
    Body(Freed),
    FanOut(u32),
}

/// What packets may still see, in the order of the moments since when nothing new sees it.
#[derive(Debug, Default)]
struct Graves {
    keys: VecDeque<(Moment, Key)>,
    others: VecDeque<(Moment, Grave)>,
    /// Somebody waits for a body.
    is_hurried: bool,
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
    graces: Arc<Graces>,
    graves: Graves,
    /// Epochs that are drained when these moments are past.
    drains: VecDeque<(Moment, u64)>,
    n_commits: u64,
    /// How many commits had been shown at these moments.
    shown: VecDeque<(Moment, u64)>,
    freed: Sender<Freed>,
    last_commit: Instant,
    /// Groups have changed since spares were made last.
    is_stock_due: bool,
}

impl Writer {
    pub(crate) fn new(
        maps: Arc<Maps>,
        version_at: u32,
        tables: HashMap<TableRef, Table>,
        groups: Option<(TableLayout, FanOuts)>,
        graces: Arc<Graces>,
        freed: Sender<Freed>,
    ) -> Writer {
        Writer {
            maps,
            version_at,
            version: 0,
            tables,
            groups,
            fan_outs: HashMap::new(),
            graces,
            graves: Graves::default(),
            drains: VecDeque::new(),
            n_commits: 0,
            shown: VecDeque::new(),
            freed,
            last_commit: Instant::now(),
            is_stock_due: false,
        }
    }

    /// Shows the parts of a commit as one.
    ///
    /// # Errors
    /// The kernel's error, or what there is no room for; it was stopped.
    pub(crate) fn commit(&mut self, ops: &[Op]) -> Result<(), Failure> {
        let version = self.version + 1;
        let (mut keys, mut others) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Table(at, op) => {
                    self.write(*at, version, op)?;
                    if let TableOp::Remove { key, body } = op {
                        let (table, key, body) = (*at, key.clone(), *body);
                        keys.push(Key { table, key, body });
                    }
                    others.extend(self.fan_out_before(*at, op));
                }
                Op::Group { body, replicas } => {
                    others.extend(self.write_group(version, *body, replicas)?);
                }
            }
        }
        if let Some((_, fan_outs)) = &mut self.groups {
            fan_outs.publish(&self.maps, &self.graces)?;
        }
        self.version = version;
        self.maps.store_u64(self.version_at, version);
        let now = self.graces.now();
        self.tables.values_mut().for_each(|table| table.shown(now));
        self.graves
            .keys
            .extend(keys.into_iter().map(|key| (now, key)));
        let others = others.into_iter().map(|grave| (now, grave));
        self.graves.others.extend(others);
        self.last_commit = Instant::now();
        Ok(())
    }

    fn write(&mut self, at: TableRef, version: u64, op: &TableOp) -> Result<(), Failure> {
        let mut written = self.try_write(at, version, op);
        if written.is_err() && !self.graves.keys.is_empty() {
            self.make_room()?;
            written = self.try_write(at, version, op);
        }
        written.map_err(|error| match at {
            TableRef::Program(table) => Failure {
                table: Some(table),
                reason: error.to_string(),
            },
            TableRef::Groups => io::Error::other(format!("multicast groups: {error}")).into(),
        })
    }

    fn try_write(&mut self, at: TableRef, version: u64, op: &TableOp) -> io::Result<()> {
        match self.tables.get_mut(&at) {
            Some(table) => table.write(&self.maps, &self.graces, version, op),
            None => Ok(()),
        }
    }

    /// The fan-out that a group has no more.
    fn fan_out_before(&mut self, table: TableRef, op: &TableOp) -> Option<Grave> {
        let body = match op {
            TableOp::Remove { body, .. } | TableOp::Show { body, .. } => body,
            TableOp::Put { .. } => return None,
        };
        match table {
            TableRef::Groups => self.fan_outs.remove(body).map(Grave::FanOut),
            TableRef::Program(_) => None,
        }
    }

    fn write_group(
        &mut self,
        version: u64,
        body: u32,
        replicas: &[Replica],
    ) -> Result<Option<Grave>, Failure> {
        let Some(layout) = self.groups.as_ref().map(|(layout, _)| layout.clone()) else {
            return Ok(None);
        };
        let mut number = self.make_fan_out(replicas)?;
        if number.is_none() {
            self.make_room()?;
            number = self.make_fan_out(replicas)?;
        }
        let Some(number) = number else {
            let error = io::Error::other("no room for more versions of multicast groups");
            return Err(error.into());
        };
        let port = GroupArg::port_of(replicas);
        let args = [number, replicas.len() as u32, port].map(Into::into);
        let slot = layout.encode_slot(0, &args);
        self.write(TableRef::Groups, version, &TableOp::Show { body, slot })?;
        self.is_stock_due = true;
        let before = self.fan_outs.insert(body, number);
        Ok(before.map(Grave::FanOut))
    }

    fn make_fan_out(&mut self, replicas: &[Replica]) -> io::Result<Option<u32>> {
        match &mut self.groups {
            Some((_, fan_outs)) => fan_outs.make(&self.maps, replicas),
            None => Ok(None),
        }
    }

    /// Takes out all that was removed before this commit.
    fn make_room(&mut self) -> io::Result<()> {
        // A key, then its body.
        for _ in 0..2 {
            self.graces.wait_past(self.graces.now())?;
            self.graves.is_hurried = true;
            self.tidy()?;
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.last_commit.elapsed() >= QUIET
    }

    /// Takes out what no packet sees any more, as far as it is time for it, and makes spares.
    fn tidy(&mut self) -> io::Result<()> {
        self.free()?;
        let is_quiet = self.is_quiet();
        let graves = &mut self.graves;
        if is_quiet || graves.is_hurried || graves.keys.len() > KEYS_MAX {
            if let Some((moment, _)) = graves.keys.back() {
                self.graces.ask(*moment);
            }
            self.take_out()?;
        }
        self.graves.is_hurried &= !self.graves.keys.is_empty();
        if let Some((moment, _)) = self.graves.others.back() {
            self.graces.ask(*moment);
        }
        if let Some((_, fan_outs)) = &mut self.groups
            && is_quiet
            && self.is_stock_due
        {
            self.is_stock_due = !fan_outs.stock(&self.maps, &self.graces)?;
        }
        Ok(())
    }

    fn take_out(&mut self) -> io::Result<()> {
        let graces = &self.graces;
        let mut bodies = Vec::new();
        let is_past = |(moment, _): &mut (Moment, Key)| graces.is_past(*moment);
        while let Some((_, grave)) = self.graves.keys.pop_front_if(is_past) {
            let Key { table, key, body } = grave;
            if let Some(table) = self.tables.get_mut(&table) {
                table.take_out(&self.maps, graces, &key, body)?;
            }
            bodies.push(Freed { table, body });
        }
        let now = graces.now();
        let bodies = bodies.into_iter().map(|body| (now, Grave::Body(body)));
        self.graves.others.extend(bodies);
        Ok(())
    }

    fn free(&mut self) -> io::Result<()> {
        let graces = &self.graces;
        let is_past = |(moment, _): &mut (Moment, Grave)| graces.is_past(*moment);
        while let Some((_, grave)) = self.graves.others.pop_front_if(is_past) {
            match grave {
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

    /// Carries out what it is told, until the grace periods are stopped.
    pub(crate) fn run(mut self, messages: &Receiver<Message>, progress: &Progress) {
        if let Err(failure) = self.serve(messages, progress)
            && !self.graces.is_stopped()
        {
            progress.fail(failure);
        }
    }

    fn serve(&mut self, messages: &Receiver<Message>, progress: &Progress) -> Result<(), Failure> {
        let mut next = None;
        while !self.graces.is_stopped() {
            self.graces.check()?;
            let message = match next.take() {
                Some(message) => Ok(message),
                None => self.wait(messages),
            };
            match message {
                Ok(Message::Commit(ops)) => {
                    let gathered = gather(ops, messages);
                    next = gathered.next;
                    self.commit(&gathered.ops)?;
                    self.n_commits += gathered.n_commits;
                    let now = self.graces.now();
                    self.graces.ask(now);
                    self.shown.push_back((now, self.n_commits));
                }
                Ok(Message::Drain(epoch)) => {
                    let now = self.graces.now();
                    self.graces.ask(now);
                    self.drains.push_back((now, epoch));
                }
                Ok(Message::Hurry) => self.graves.is_hurried = true,
                Ok(Message::Look) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.tidy()?;
            self.tell(progress);
        }
        Ok(())
    }

    /// Waits for a message, or until it is quiet where something waits for that.
    fn wait(&self, messages: &Receiver<Message>) -> Result<Message, RecvTimeoutError> {
        let waits = !self.is_quiet() && (self.is_stock_due || !self.graves.keys.is_empty());
        match waits {
            true => messages.recv_timeout(QUIET.saturating_sub(self.last_commit.elapsed())),
            false => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn tell(&mut self, progress: &Progress) {
        let graces = &self.graces;
        let is_past = |(moment, _): &mut (Moment, u64)| graces.is_past(*moment);
        while let Some((_, n_commits)) = self.shown.pop_front_if(is_past) {
            progress.n_seen.store(n_commits, Ordering::Release);
        }
        while let Some((_, epoch)) = self.drains.pop_front_if(is_past) {
            progress.drained.store(epoch + 1, Ordering::Release);
        }
    }
}
