//! The thread that writes control-plane changes into the kernel's maps.
//!
//! The writer needs a thread of its own because it may block: until a grace period has ended, it must not overwrite
//! what packets may still see. It carries out commits in order. It merges commits that wait, including those that
//! arrive meanwhile, into one. Between commits it removes what packets no longer see ([`Writer::tidy`]).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use dataplane::{OffloadNotice, Replica};

use super::grace::{Graces, Moment};
use super::groups::FanOuts;
use super::maps::Maps;
use super::messages::{Failure, Freed, Message, Op, Progress, TableRef, Waiting};
use super::table::{Table, TableOp};
use crate::image::{EncodedKey, GroupArg, TableLayout};

/// Keys of removed entries are deleted when no commit has come for this long. During the grace period after the
/// deletion, no new key can be inserted, so a commit with a new key must wait.
const QUIET: Duration = Duration::from_millis(20);

/// How long waiting commits are held back after a drain if only RCU ends grace periods. The controller that requested
/// the drain will write next. If its commit joins the commits that wait, it need not wait for another grace period.
/// The time suffices for a control call that takes 4 ms, as some do.
const HELD_BACK: Duration = Duration::from_millis(4);

/// If there are more keys of removed entries than this, the writer deletes them even if commits keep coming.
const KEYS_MAX: usize = 64;

/// A removed entry's key, which packets may still see.
#[derive(Debug)]
struct Key {
    table: TableRef,
    key: EncodedKey,
    body: u32,
}

/// A resource other than a key that packets may still see.
#[derive(Debug)]
enum Grave {
    /// The body of a deleted key.
    Body(Freed),
    FanOut(u32),
}

/// Resources that packets may still see, ordered by the moment from which no new packet sees them.
#[derive(Debug, Default)]
struct Graves {
    keys: VecDeque<(Moment, Key)>,
    others: VecDeque<(Moment, Grave)>,
    /// Whether a control call waits for a body.
    is_hurried: bool,
}

pub(crate) struct Writer {
    maps: Arc<Maps>,
    version_at: u32,
    version: u64,
    tables: HashMap<TableRef, Table>,
    groups: Option<(TableLayout, FanOuts)>,
    /// The current fan-out of each group, by the body of the group's entry.
    fan_outs: HashMap<u32, u32>,
    graces: Arc<Graces>,
    graves: Graves,
    /// Epochs of requested drains, each with a moment. An epoch is drained once no packet from before its moment is
    /// left.
    drains: VecDeque<(Moment, u64)>,
    n_commits: u64,
    /// How many commits were visible at each moment.
    shown: VecDeque<(Moment, u64)>,
    freed: Sender<Freed>,
    last_commit: Instant,
    /// The time until which waiting commits stay hidden.
    held_until: Option<Instant>,
    /// Whether groups have changed since spares (device maps that are made in advance) were last created.
    is_stock_due: bool,
    /// Whether creating spares has failed, and the failure was reported.
    is_without_spares: bool,
    /// The notice to report next.
    notice: Option<OffloadNotice>,
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
            held_until: None,
            is_stock_due: false,
            is_without_spares: false,
            notice: None,
        }
    }

    /// Makes all ops (changes, [`Op`]) of a commit visible at once.
    ///
    /// # Errors
    /// The kernel's error, a full map, or that the grace periods were stopped.
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
                Op::Interface { port, interface } => {
                    if let Some((_, fan_outs)) = &mut self.groups {
                        fan_outs.set_interface(*port, *interface);
                    }
                }
                Op::Group { body, replicas } => {
                    others.extend(self.write_group(version, *body, replicas)?);
                }
            }
        }
        if let Some((_, fan_outs)) = &mut self.groups {
            fan_outs.publish(&self.maps)?;
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
            TableRef::Meter(_) | TableRef::DirectMeter(_) => {
                io::Error::other(format!("meters: {error}")).into()
            }
        })
    }

    fn try_write(&mut self, at: TableRef, version: u64, op: &TableOp) -> io::Result<()> {
        match self.tables.get_mut(&at) {
            Some(table) => table.write(&self.maps, &self.graces, version, op),
            None => Ok(()),
        }
    }

    /// Returns the fan-out that a group stops using.
    fn fan_out_before(&mut self, table: TableRef, op: &TableOp) -> Option<Grave> {
        let body = match op {
            TableOp::Remove { body, .. } | TableOp::Show { body, .. } => body,
            TableOp::Put { .. } => return None,
        };
        match table {
            TableRef::Groups => self.fan_outs.remove(body).map(Grave::FanOut),
            TableRef::Program(_) | TableRef::Meter(_) | TableRef::DirectMeter(_) => None,
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
        let longest = self
            .groups
            .as_ref()
            .map_or(0, |(_, it)| it.longest(replicas));
        let args = [number, replicas.len() as u32, port, longest].map(Into::into);
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

    /// Frees all that was removed before this commit.
    fn make_room(&mut self) -> io::Result<()> {
        // The first round deletes keys, the second frees their bodies.
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

    /// Frees resources that no packet sees any more, if it is time for that, and creates spares ([`FanOuts::stock`]).
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
        self.stock(is_quiet);
        Ok(())
    }

    /// Creates spares for groups if `is_time`. Without spares, changes of groups take longer. If spares could not be
    /// created, the writer tries again after the next change of a group.
    fn stock(&mut self, is_time: bool) {
        let Some((_, fan_outs)) = &mut self.groups else {
            return;
        };
        let mut error = fan_outs.take_refused();
        if is_time && self.is_stock_due {
            match fan_outs.stock(&self.maps, &self.graces) {
                Ok(is_done) => self.is_stock_due = !is_done,
                Err(refused) => {
                    self.is_stock_due = false;
                    error = Some(refused);
                }
            }
        }
        if let Some(error) = error
            && !std::mem::replace(&mut self.is_without_spares, true)
        {
            self.notice = Some(OffloadNotice::DoesWithout {
                what: "spare maps for groups that change".to_owned(),
                reason: error.to_string(),
            });
        }
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
                    // When the program has been replaced, nobody receives this message.
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

    pub(crate) fn run(mut self, messages: &Receiver<Message>, progress: &Progress) {
        if let Err(failure) = self.serve(messages, progress)
            && !self.graces.is_stopped()
        {
            progress.fail(failure);
        }
    }

    fn serve(&mut self, messages: &Receiver<Message>, progress: &Progress) -> Result<(), Failure> {
        let mut waiting = Waiting::default();
        while !self.graces.is_stopped() {
            self.graces.check()?;
            if !self.receive(messages, &mut waiting) {
                return Ok(());
            }
            self.go_on(&mut waiting, progress)?;
        }
        Ok(())
    }

    /// Does everything that need not wait.
    fn go_on(&mut self, waiting: &mut Waiting, progress: &Progress) -> Result<(), Failure> {
        self.report(waiting, progress);
        while self.is_ready(waiting) && self.held_for().is_zero() {
            let now = waiting.take();
            self.show(now)?;
            self.tidy()?;
            waiting.refill(|ops| self.free_from(ops));
        }
        // Keys are not deleted while commits wait: the commits would have to wait for another grace period.
        if waiting.is_empty() {
            self.tidy()?
        } else {
            self.free()?
        }
        self.graces.ask(waiting.free_from);
        self.report(waiting, progress);
        Ok(())
    }

    /// Whether something is ready to be made visible and waits for no grace period.
    fn is_ready(&self, waiting: &Waiting) -> bool {
        !waiting.is_empty() && self.graces.is_past(waiting.free_from)
    }

    fn held_for(&self) -> Duration {
        let until = self
            .held_until
            .map(|it| it.saturating_duration_since(Instant::now()));
        until.unwrap_or_default()
    }

    /// Waits for a message and takes all that have arrived. Returns false when there is no sender any more.
    fn receive(&mut self, messages: &Receiver<Message>, waiting: &mut Waiting) -> bool {
        let mut message = self.wait(messages, waiting);
        loop {
            match message {
                Ok(Message::Hurry) => self.graves.is_hurried = true,
                Ok(message) => waiting.push(message, |ops| self.free_from(ops)),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
            match messages.try_recv() {
                Ok(next) => message = Ok(next),
                Err(_) => return true,
            }
        }
    }

    /// Returns a moment. Once no packet from before this moment is left, the writer can write these ops without
    /// waiting, as far as the writer knows.
    fn free_from(&self, ops: &[Op]) -> Moment {
        let of_one = |op: &Op| match op {
            Op::Table(at, op) => self.tables.get(at).map(|table| table.free_from(op)),
            Op::Interface { .. } => None,
            Op::Group { body, .. } => {
                let groups = self.tables.get(&TableRef::Groups);
                groups.map(|table| table.body_from(*body))
            }
        };
        ops.iter().filter_map(of_one).max().unwrap_or_default()
    }

    /// Makes commits visible at the same time, and starts the drains that wait for them.
    fn show(&mut self, waiting: Waiting) -> Result<(), Failure> {
        if waiting.n_commits > 0 {
            self.commit(&waiting.ops)?;
            self.n_commits += waiting.n_commits;
            self.shown.push_back((self.graces.now(), self.n_commits));
            // The spares are ready when the grace period requested below ends.
            self.stock(true);
        }
        let now = self.graces.now();
        self.graces.ask(now);
        let drains = waiting.drains.into_iter();
        self.drains.extend(drains.map(|epoch| (now, epoch)));
        Ok(())
    }

    /// Waits for a message, the end of a grace period, or the end of the time for which commits are held back. If keys
    /// or spares wait until no commit has come for `QUIET`, this also waits for the end of that time.
    fn wait(
        &self,
        messages: &Receiver<Message>,
        waiting: &Waiting,
    ) -> Result<Message, RecvTimeoutError> {
        loop {
            let looked = self.graces.look();
            if looked.has_ended {
                return Ok(Message::Look);
            }
            let idle = self.idle_for(waiting);
            let again = looked.again.filter(|it| idle.is_none_or(|idle| *it < idle));
            let received = match again.or(idle) {
                Some(timeout) => messages.recv_timeout(timeout),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if again.is_none() || !matches!(received, Err(RecvTimeoutError::Timeout)) {
                return received;
            }
        }
    }

    /// Returns how long there is nothing to do without a message; `None` means forever.
    fn idle_for(&self, waiting: &Waiting) -> Option<Duration> {
        if self.is_ready(waiting) {
            return Some(self.held_for());
        }
        let waits = !self.is_quiet() && (self.is_stock_due || !self.graves.keys.is_empty());
        waits.then(|| QUIET.saturating_sub(self.last_commit.elapsed()))
    }

    /// Reports finished commits, drains and notices.
    fn report(&mut self, waiting: &Waiting, progress: &Progress) {
        let graces = &self.graces;
        let is_past = |(moment, _): &mut (Moment, u64)| graces.is_past(*moment);
        while let Some((_, n_commits)) = self.shown.pop_front_if(is_past) {
            progress.n_seen.store(n_commits, Ordering::Release);
        }
        if let Some(notice) = self.notice.take() {
            progress.notice(notice);
        }
        while let Some((_, epoch)) = self.drains.pop_front_if(is_past) {
            progress.drained.store(epoch + 1, Ordering::Release);
            if waiting.n_commits > 0 && !self.graces.has_polls() {
                self.held_until = Some(Instant::now() + HELD_BACK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    use super::*;
    use crate::image::ACTION_NONE;
    use crate::runtime::grace::ReadPolls;
    use crate::runtime::testing;
    use testkit::namespace::may_use_bpf;

    const TABLE: TableRef = TableRef::Program(0);

    /// A writer and its channels. The test ends the grace periods.
    struct Rig {
        writer: Writer,
        layout: TableLayout,
        waiting: Waiting,
        progress: Progress,
        to: Sender<Message>,
        messages: Receiver<Message>,
    }

    impl Rig {
        fn new() -> Rig {
            Rig::ended_by(None)
        }

        fn ended_by(polls: Option<ReadPolls>) -> Rig {
            let image = testing::image();
            let maps = Arc::new(Maps::create(&image, 1).expect("maps"));
            let layout = image.tables[0].clone();
            let tables = HashMap::from([(TABLE, Table::new(layout.clone(), &maps))]);
            let graces = Arc::new(Graces::new(bpf::wait_for_programs, polls));
            let (freed, _) = mpsc::channel();
            let version_at = image.heap.version;
            let writer = Writer::new(maps, version_at, tables, None, graces, freed);
            let (to, messages) = mpsc::channel();
            Rig {
                writer,
                layout,
                waiting: Waiting::default(),
                progress: Progress::default(),
                to,
                messages,
            }
        }

        /// Sends a message, lets the writer work, and returns the visible version.
        fn take(&mut self, message: Message) -> u64 {
            self.to.send(message).expect("it listens");
            assert!(self.writer.receive(&self.messages, &mut self.waiting));
            let done = self.writer.go_on(&mut self.waiting, &self.progress);
            done.expect("the kernel takes it");
            self.writer.version
        }

        fn period(&mut self) -> u64 {
            let ended = self.writer.graces.during(|| Ok(()));
            ended.expect("a period");
            self.take(Message::Look)
        }

        fn changes(&self, body: u32) -> Message {
            let slot = self.layout.encode_slot(ACTION_NONE, &[]);
            Message::Commit(vec![Op::Table(TABLE, TableOp::Show { body, slot })])
        }

        fn drained(&self) -> u64 {
            self.progress.drained.load(Ordering::Acquire)
        }
    }

    #[test]
    fn what_comes_while_a_change_waits_for_a_grace_period_is_shown_with_it() {
        if !may_use_bpf() {
            return;
        }
        let mut rig = Rig::new();
        assert_eq!(rig.take(rig.changes(1)), 1);
        assert_eq!(rig.take(rig.changes(1)), 1, "packets may see its slot");
        assert_eq!(rig.take(rig.changes(2)), 1, "in the order of commits");
        rig.take(Message::Drain(7));
        assert_eq!(rig.take(rig.changes(1)), 1);
        assert_eq!(rig.period(), 2);
        assert!(rig.waiting.is_empty(), "all of them");
        assert_eq!(rig.drained(), 0);
        rig.period();
        assert_eq!(rig.drained(), 8);
        assert_eq!(rig.progress.n_seen.load(Ordering::Acquire), 4);
    }

    #[test]
    fn a_change_behind_another_is_shown_when_polls_have_ended() {
        if !may_use_bpf() {
            return;
        }
        let word = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&word);
        let read: ReadPolls = Box::new(move || vec![read.load(Ordering::SeqCst)]);
        let mut rig = Rig::ended_by(Some(read));
        for (n, version) in [(1, 1), (3, 3), (5, 5)] {
            word.store(n, Ordering::SeqCst);
            assert_eq!(rig.take(rig.changes(1)), version);
            rig.take(Message::Drain(n));
            assert_eq!(rig.take(rig.changes(1)), version, "within the poll");
            assert!(rig.drained() <= n);
            // The poll ends, while packets keep coming.
            word.store(n + 1, Ordering::SeqCst);
            assert_eq!(rig.take(Message::Look), version + 1);
            assert_eq!(rig.drained(), n + 1, "nothing is held back");
            assert!(rig.waiting.is_empty());
        }
        assert_eq!(rig.progress.n_seen.load(Ordering::Acquire), 6);
    }

    #[test]
    fn what_waits_is_held_back_for_whoever_has_drained() {
        if !may_use_bpf() {
            return;
        }
        let mut rig = Rig::new();
        rig.take(rig.changes(1));
        rig.take(Message::Drain(7));
        rig.take(rig.changes(1));
        // Commits are held back until the test changes `held_until`.
        let held_until = Some(Instant::now() + Duration::from_secs(3600));
        rig.writer.held_until = held_until;
        assert_eq!(rig.period(), 1);
        assert_eq!(rig.drained(), 8);
        assert_ne!(rig.writer.held_until, held_until, "for a short time");
        rig.writer.held_until = held_until;
        assert_eq!(rig.take(rig.changes(2)), 1);
        rig.writer.held_until = None;
        assert_eq!(rig.take(Message::Look), 2);
        assert!(rig.waiting.is_empty(), "both of them");
        // A drain without waiting commits holds nothing back.
        rig.take(Message::Drain(8));
        rig.period();
        assert_eq!((rig.drained(), rig.writer.held_until), (9, None));
    }
}
