//! A program that forwards: its image's maps, its programs, what was told and counted.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dataplane::engine::{Change, Interpreted};
use dataplane::offload::{Accounts, Written};
use dataplane::{DropReason, Nanos, OffloadNotice, PortId};

use super::counts::{Counts, Sources};
use super::digests::Digests;
use super::grace::Graces;
use super::maps::Maps;
use super::messages::{Failure, Message, Op, Progress, TableRef};
use super::prepared::Prepared;
use super::ranges::Ranges;
use super::serving::{KernelPort, KernelPorts, Serving};
use super::told::{Told, Unsaid};
use super::tracepoints::Tracepoints;
use super::writer::Writer;
use crate::image::{Image, MapRef};

/// Why it cannot go on.
pub(super) type Reason = String;

/// Tables whose packets are the engine's, by position, and why.
pub(super) type Left = BTreeMap<usize, Reason>;

/// A program that the kernel did not take, and what forwarded until that was clear.
pub(super) struct Refused {
    pub(super) half: Option<Box<Loaded>>,
    pub(super) why: Unsaid,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        let why = Unsaid::Failed(reason);
        Refused { half: None, why }
    }
}

/// A program in the kernel. Frames of its ports meet it until it is dropped.
pub(super) struct Loaded {
    ports: KernelPorts,
    image: Arc<Image>,
    maps: Arc<Maps>,
    counters: MapRef,
    tracepoints: Tracepoints,
    /// Places of sockets that no port has.
    sockets: Ranges,
    serving: Arc<Serving>,
    /// Ports that come go to the thread that serves them.
    to_serve: Option<Sender<KernelPort>>,
    told: Told,
    counts: Counts,
    digests: Digests,
    /// What could not be said in the kernel, for the next commit to tell.
    unsaid: Option<Unsaid>,
    messages: Sender<Message>,
    graces: Arc<Graces>,
    /// The writer, and what waits for grace periods.
    threads: Vec<JoinHandle<()>>,
    progress: Arc<Progress>,
    /// Commits that the writer was told.
    n_commits: u64,
    /// Epochs from here on it was not told of.
    next_epoch: u64,
    /// Epochs below it were drained when that was asked.
    drained: u64,
    /// What became of a port that did not take its own program back.
    undetached: Option<Reason>,
    /// Gives the ports their own programs back, beside the caller.
    withdrawing: Option<JoinHandle<Option<Reason>>>,
    /// The programs are not to end with this.
    is_left: bool,
    wake: Option<Wake>,
}

/// Wakes whoever looks at the offload.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// How long a stop waits at most until what was committed is shown, where the programs run on.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// A thread that should not have ended.
const ENDED: &str = "its thread has ended";

/// What the writer does before packets come: it writes all, then the ports have the program.
fn begin(writer: &mut Writer, first: &[Op], serving: &Serving) -> Result<(), Failure> {
    writer.commit(first)?;
    let attached = serving.attach_all();
    attached.map_err(|reason| Failure {
        table: None,
        reason,
    })
}

impl Loaded {
    /// Has what was prepared forward, with what is written. `wake` is called where somebody is to look at it; where
    /// there is none, this returns when it forwards.
    ///
    /// # Errors
    /// Why nothing of the program is taken, or which table more is to be left to the engine.
    pub(super) fn begin(
        prepared: Prepared,
        all_ports: &KernelPorts,
        wake: Option<Wake>,
        clock_offset_ns: u64,
        written: &Written<'_>,
    ) -> Result<Loaded, Refused> {
        let Prepared {
            image,
            maps,
            counters,
            tracepoints,
            digests,
            serving,
            ports,
            told,
            graces,
            writer,
            messages,
            of_writer,
            n_sockets,
        } = prepared;
        let program = written.state().program();
        serving.tell(all_ports);
        let mut loaded = Loaded {
            counts: Counts::new(program, &image),
            digests,
            ports: all_ports.clone(),
            image,
            maps,
            counters,
            tracepoints,
            sockets: Ranges::new(n_sockets),
            serving,
            to_serve: None,
            told,
            unsaid: None,
            messages,
            graces,
            threads: Vec::new(),
            progress: Arc::default(),
            n_commits: 0,
            next_epoch: 0,
            drained: 0,
            undetached: None,
            withdrawing: None,
            is_left: false,
            wake,
        };
        if let Some(notice) = loaded.tracepoints.notice() {
            loaded.progress.notice(notice);
        }
        let begun = loaded.start(&ports, writer, of_writer, clock_offset_ns, written);
        match begun {
            Ok(()) => Ok(loaded),
            Err(why) => {
                loaded.detach();
                let half = Some(Box::new(loaded));
                Err(Refused { half, why })
            }
        }
    }

    /// What it leaves to the engine.
    pub(super) fn left(&self) -> Vec<Interpreted> {
        self.image.left.clone()
    }

    /// Whether the programs run.
    pub(super) fn has_begun(&self) -> bool {
        self.progress.has_begun.load(Ordering::Acquire)
    }

    /// Tells the writer all that is written; it has the programs run when packets would see that.
    fn start(
        &mut self,
        prepared_for: &[KernelPort],
        writer: Writer,
        messages: Receiver<Message>,
        clock_offset_ns: u64,
        written: &Written<'_>,
    ) -> Result<(), Unsaid> {
        self.maps.store_u64(self.image.heap.clock, clock_offset_ns);
        let failed = |what| move |error| Unsaid::Failed(kernel(what)(error));
        for port in self.ports.known() {
            self.told.add_port(port);
        }
        // Others that have come meanwhile are looked at when it forwards.
        let is_there = |it: &KernelPort| prepared_for.iter().any(|port| port.is(it));
        for port in self.ports.there().into_iter().filter(is_there) {
            self.enter(&port)?;
            let is_known = written.ports().any(|it| it == port.id);
            let written = match is_known {
                true => self.serving.write(&port),
                false => Ok(()),
            };
            if let Err(error) = written
                && !port.interface.is_gone()
            {
                return Err(failed("make a port known")(error));
            }
            let interface = Some((&port.interface).into());
            self.told.set_interface(port.id, interface);
        }
        self.told.all(written)?;
        self.told.take_taken();
        let first = self.told.take();
        self.start_threads(writer, messages, first)
            .map_err(failed("start a thread"))?
            .map_err(Unsaid::from)
    }

    /// What waits for grace periods, what serves ports that come, and what writes: first all that is written. Where
    /// nobody is woken, this returns when the programs run, or why they do not.
    fn start_threads(
        &mut self,
        mut writer: Writer,
        messages: Receiver<Message>,
        first: Vec<Op>,
    ) -> io::Result<Result<(), Failure>> {
        let named = |name: &str| thread::Builder::new().name(name.into());
        let messages_to = self.messages.clone();
        // The writer is not there any more where it is not listened to.
        let tell = move || drop(messages_to.send(Message::Look));
        self.threads.push(self.graces.start(tell)?);
        let (to_serve, come) = mpsc::channel();
        self.to_serve = Some(to_serve);
        let (serving, progress) = (Arc::clone(&self.serving), Arc::clone(&self.progress));
        let wake = self.wake.clone();
        self.threads.push(named("reprise-ports").spawn(move || {
            let wake = || wake.iter().for_each(|wake| wake());
            serving.run(&come, &progress, &wake);
        })?);
        let (serving, progress) = (Arc::clone(&self.serving), Arc::clone(&self.progress));
        let wake = self.wake.clone();
        let (begun_to, begun) = mpsc::channel();
        self.threads.push(named("reprise-kernel").spawn(move || {
            let result = begin(&mut writer, &first, &serving);
            let is_begun = result.is_ok();
            if let Err(failure) = &result {
                progress.fail(failure.clone());
            }
            progress.has_begun.store(is_begun, Ordering::Release);
            // Most do not wait for it.
            let _ = begun_to.send(result);
            wake.iter().for_each(|wake| wake());
            if is_begun {
                writer.run(&messages, &progress);
            }
        })?);
        Ok(match self.wake {
            Some(_) => Ok(()),
            None => begun.recv().unwrap_or_else(|_| {
                let ended = io::Error::other(ENDED);
                Err(ended.into())
            }),
        })
    }

    /// A port is to be served: it has room in the maps.
    fn enter(&mut self, port: &KernelPort) -> Result<(), Unsaid> {
        let index = port.interface.index();
        let has_place = self.image.heap.interface(index).is_some();
        let first = self.sockets.take(port.interface.n_queues());
        let (true, Some(first)) = (has_place, first) else {
            return Err(Unsaid::NoRoomForPorts);
        };
        self.counts.add_device(port.id, index);
        let added = self.tracepoints.transmit.add(port.id, index);
        added.map_err(|_| Unsaid::NoRoomForPorts)?;
        self.serving.enter(port, first);
        Ok(())
    }

    /// Looks which ports have come and gone; whether that is to be committed.
    pub(super) fn look_at_ports(&mut self, written: &Written<'_>) -> bool {
        if self.unsaid.is_some() || !self.has_begun() {
            return false;
        }
        let there = self.ports.there();
        let mut has_changed = false;
        for (port, first) in self.serving.leave_others(&there) {
            has_changed = true;
            let index = port.interface.index();
            self.sockets.give_back(first, port.interface.n_queues());
            self.counts.retire_device(port.id, index, self.graces.now());
            self.told.set_interface(port.id, None);
        }
        for port in there {
            if self.serving.has(&port) {
                continue;
            }
            if let Err(unsaid) = self.enter(&port) {
                self.unsaid = Some(unsaid);
                return true;
            }
            // Where the thread has ended, that is noticed.
            let _ = self.to_serve.as_ref().map(|it| it.send(port));
        }
        for port in self.serving.take_news() {
            has_changed = true;
            self.told.add_port(port.id);
            let interface = Some((&port.interface).into());
            self.told.set_interface(port.id, interface);
            if let Err(unsaid) = self.told.resolve_groups_of(written, port.id) {
                self.unsaid.get_or_insert(unsaid);
            }
        }
        has_changed
    }

    /// A port of the switch: its frames are the program's, and packets may leave by it.
    fn add_port(&mut self, port: PortId) -> io::Result<()> {
        let there = self.ports.there();
        let Some(served) = there.iter().find(|it| it.id == port) else {
            return Ok(());
        };
        self.serving.write(served)?;
        self.told.add_port(port);
        Ok(())
    }

    pub(super) fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        // The next commit fails. To wait for room once more would hold up the event loop.
        if self.unsaid.is_some() {
            return;
        }
        let result = match change {
            Change::Port(port) => match self.add_port(*port) {
                Ok(()) => self.told.resolve_groups(written),
                Err(error) => Err(Unsaid::Failed(format!("port {port}: {error}"))),
            },
            change => self.told.changed(written, change),
        };
        let result = result.and_then(|()| self.change_owners().map_err(Unsaid::Failed));
        if let Err(reason) = result {
            self.unsaid.get_or_insert(reason);
        }
    }

    /// Bodies that were given out begin with what others have counted there.
    fn change_owners(&mut self) -> Result<(), Reason> {
        let counters = self
            .maps
            .get(self.counters)
            .map_err(kernel("read counters"))?;
        for taken in self.told.take_taken() {
            if let TableRef::Program(table) = taken.table {
                let changed = self.counts.change_owner(counters, table, taken.body);
                changed.map_err(kernel("read a counter"))?;
            }
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), Unsaid> {
        self.check()?;
        let ops = self.told.take();
        if ops.is_empty() {
            return Ok(());
        }
        self.n_commits += 1;
        let sent = self.messages.send(Message::Commit(ops));
        sent.map_err(|_| Unsaid::Failed(ENDED.to_owned()))
    }

    pub(super) fn collect(
        &mut self,
        now: Nanos,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), Unsaid> {
        self.count(now, accounts).map_err(Unsaid::Failed)?;
        self.check()
    }

    fn count(&mut self, now: Nanos, accounts: &mut Accounts<'_>) -> Result<(), Reason> {
        let counters = self
            .maps
            .get(self.counters)
            .map_err(kernel("read counters"))?;
        let counts = &mut self.counts;
        let from = Sources {
            counters,
            transmit: &self.tracepoints.transmit,
            told: &self.told,
            graces: &self.graces,
        };
        let collected = counts.collect(&from, now, accounts);
        collected.map_err(kernel("read counters"))
    }

    /// Gives digests, so many at most; how many.
    pub(super) fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        self.digests.take(n_max, accounts)
    }

    /// Readable while there are digests.
    pub(super) fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        self.digests.fd()
    }

    /// What has happened while it goes on.
    pub(super) fn poll_notice(&self) -> Option<OffloadNotice> {
        self.progress.poll_notice()
    }

    pub(super) fn begin_drain(&mut self, epoch: u64) {
        self.next_epoch = epoch + 1;
        if self.is_clear() {
            self.drained = epoch + 1;
            return;
        }
        // Where the thread has ended, the next commit or look at the accounts says so, and ends the drain.
        let _ = self.messages.send(Message::Drain(epoch));
    }

    pub(super) fn is_drained(&self, epoch: u64) -> bool {
        let drained = self.progress.drained.load(Ordering::Acquire);
        epoch >= self.next_epoch || epoch < drained.max(self.drained)
    }

    /// Whether all packets see what was committed last, and none is inside of those that are counted. Whoever
    /// drains before he changes something, as for a viewer that joins, waits for no grace period then.
    fn is_clear(&self) -> bool {
        let n_seen = self.progress.n_seen.load(Ordering::Acquire);
        let Ok(counters) = self.maps.get(self.counters) else {
            return false;
        };
        let transmit = &self.tracepoints.transmit;
        let n_inside = || self.counts.n_inside_now(counters, transmit);
        n_seen == self.n_commits && n_inside().is_ok_and(|n_inside| n_inside == 0)
    }

    pub(super) fn check(&mut self) -> Result<(), Unsaid> {
        // What has befallen the thread is the reason for what could not be said.
        let failed = self.progress.failure().map(Unsaid::from);
        let failed = failed.or_else(|| {
            let error = self.graces.check().err()?;
            Some(Unsaid::Failed(error.to_string()))
        });
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        let ended = has_ended.then(|| Unsaid::Failed(ENDED.to_owned()));
        match failed.or_else(|| self.unsaid.take()).or(ended) {
            Some(unsaid) => Err(unsaid),
            None => Ok(()),
        }
    }

    /// The programs run on without this process; what they forward from now on is counted by nobody.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Whether no packet meets the programs any more. To exchange the program of an interface waits for the kernel, some
    /// milliseconds each; a thread does so where somebody is woken.
    pub(super) fn withdraw(&mut self) -> bool {
        if self.wake.is_none() {
            return true;
        }
        if let Some(withdrawing) = &self.withdrawing {
            return withdrawing.is_finished();
        }
        let (serving, graces) = (Arc::clone(&self.serving), Arc::clone(&self.graces));
        let thread = thread::Builder::new().name("reprise-back".into());
        let spawned = thread.spawn(move || {
            let undetached = serving.give_back();
            // Whoever stops it waits again, and is told what is wrong.
            let _ = await_last_packets(&graces);
            undetached
        });
        self.withdrawing = spawned.ok();
        // Where there can be no thread it is done when it is stopped.
        self.withdrawing.is_none()
    }

    /// Leaves all frames to the ports, and gives what was counted.
    ///
    /// # Errors
    /// A port gets no frames any more, which are the host's.
    pub(super) fn stop(
        mut self: Box<Self>,
        now: Nanos,
        reason: DropReason,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), Reason> {
        let is_withdrawn = self.withdrawing.is_some();
        self.undetach();
        if !is_withdrawn {
            // A failed one gives the accounts as far as it can.
            let _ = await_last_packets(&self.graces);
        }
        let _ = self.count(now, accounts);
        self.digests.take(usize::MAX, accounts);
        // What is inside of programs that run on is still sent.
        if !self.is_left {
            self.counts.give_up(reason, accounts);
        }
        let undetached = self.undetached.take();
        if self.wake.is_some() {
            // To take maps and threads away takes some tens of milliseconds, which nobody is to wait for.
            let thread = thread::Builder::new().name("reprise-end".into());
            drop(thread.spawn(move || drop(self)));
        }
        undetached.map_or(Ok(()), Err)
    }

    /// No packet meets the programs from now on, but where they are to run on.
    fn undetach(&mut self) {
        if let Some(withdrawing) = self.withdrawing.take() {
            let undetached = withdrawing.join();
            let undetached = undetached.unwrap_or_else(|_| Some(ENDED.to_owned()));
            self.undetached = self.undetached.take().or(undetached);
        }
        match self.is_left {
            true => {
                self.await_shown();
                self.serving.end();
            }
            false => {
                let undetached = self.serving.give_back();
                self.undetached = self.undetached.take().or(undetached);
            }
        }
    }

    /// Nothing runs afterwards, at the latest a grace period from now.
    fn detach(&mut self) {
        self.undetach();
        self.graces.stop();
        // Where it does not listen it has ended.
        let _ = self.messages.send(Message::Look);
        self.to_serve = None;
        for thread in self.threads.drain(..) {
            // Whatever became of it, it writes no more.
            let _ = thread.join();
        }
    }

    /// Waits until all packets see what was committed, unless the writer has failed.
    fn await_shown(&self) {
        let end = Instant::now() + SHOWN_WITHIN;
        let is_shown =
            || self.has_begun() && self.progress.n_seen.load(Ordering::Acquire) == self.n_commits;
        let is_served = || !self.threads.iter().any(JoinHandle::is_finished);
        while !is_shown() && is_served() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Waits until the last packet that these programs have begun with is done: mostly less than a millisecond.
fn await_last_packets(graces: &Graces) -> io::Result<()> {
    let waited = graces.wait_past(graces.now());
    waited.or_else(|_| bpf::wait_for_programs())
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.detach();
    }
}

pub(super) fn kernel(what: &'static str) -> impl Fn(io::Error) -> Reason {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_some() => {
            format!("no permission to {what}: run as root outside any user namespace")
        }
        _ => format!("the kernel does not let it {what}: {error}"),
    }
}
