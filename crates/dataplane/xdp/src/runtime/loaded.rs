//! A running program: its image, maps and kernel programs, pending changes and counts.

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
use super::tracepoints::Tracepoints;
use super::translator::{ChangeError, Translator};
use super::writer::Writer;
use crate::image::{Image, MapRef};

/// Why the kernel engine cannot take or run a program.
pub(super) type Reason = String;

/// Tables at which the kernel engine punts packets, by the tables' positions, each with the reason.
pub(super) type Left = BTreeMap<usize, Reason>;

/// Why a program could not be started, and the half-started program if there is one: it may already have forwarded
/// packets.
pub(super) struct Refused {
    pub(super) half: Option<Box<Loaded>>,
    pub(super) why: ChangeError,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        let why = ChangeError::Failed(reason);
        Refused { half: None, why }
    }
}

/// A program in the kernel. It handles its ports' frames until this value is dropped.
pub(super) struct Loaded {
    ports: KernelPorts,
    image: Arc<Image>,
    maps: Arc<Maps>,
    counters: MapRef,
    tracepoints: Tracepoints,
    /// Socket map positions that no port uses.
    sockets: Ranges,
    serving: Arc<Serving>,
    /// Sends new ports to the thread that serves them.
    to_serve: Option<Sender<KernelPort>>,
    translator: Translator,
    counts: Counts,
    digests: Digests,
    /// The first change that the kernel could not take; the next commit reports it.
    error: Option<ChangeError>,
    messages: Sender<Message>,
    graces: Arc<Graces>,
    /// The grace-period thread, the ports' thread and the writer.
    threads: Vec<JoinHandle<()>>,
    progress: Arc<Progress>,
    /// Commits sent to the writer.
    n_commits: u64,
    /// The lowest epoch whose drain was never requested. A drain reports an epoch once no packet sees any more what
    /// commits before the request have replaced.
    next_epoch: u64,
    /// Epochs below this one were already drained when their drains were requested.
    drained: u64,
    /// Why a port could not get its own XDP program back; `None` if all ports could.
    undetached: Option<Reason>,
    /// The thread that attaches the ports' own XDP programs again.
    withdrawing: Option<JoinHandle<Option<Reason>>>,
    /// Whether the kernel programs must keep running when this is dropped.
    is_left: bool,
    wake: Option<Wake>,
}

/// Asks the caller to look at the offload again.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The longest time that a stop waits for commits to become visible, if the programs keep running.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// The failure if a thread ends unexpectedly.
const ENDED: &str = "a thread of the kernel engine has ended unexpectedly";

/// The writer's first step: write the whole state, then attach the program to the ports.
fn begin(writer: &mut Writer, first: &[Op], serving: &Serving) -> Result<(), Failure> {
    writer.commit(first)?;
    let attached = serving.attach_all();
    attached.map_err(|reason| Failure {
        table: None,
        reason,
    })
}

impl Loaded {
    /// Starts to forward with a prepared program and with all that controllers have written. With `wake`, starts in the
    /// background and calls `wake` when the caller should look at the offload. Without `wake`, returns only once the
    /// program forwards.
    ///
    /// # Errors
    /// Why the program is refused, or one more table at which the kernel engine must punt packets.
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
            translator,
            graces,
            writer,
            messages,
            of_writer,
            n_sockets,
        } = prepared;
        let program = written.state().program();
        serving.set_ports(all_ports);
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
            translator,
            error: None,
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

    pub(super) fn left(&self) -> Vec<Interpreted> {
        self.image.left.clone()
    }

    /// Whether the programs run on the ports.
    pub(super) fn has_begun(&self) -> bool {
        self.progress.has_begun.load(Ordering::Acquire)
    }

    /// Sends all that controllers have written to the writer, which puts it into the maps and then attaches the
    /// programs.
    fn start(
        &mut self,
        prepared_for: &[KernelPort],
        writer: Writer,
        messages: Receiver<Message>,
        clock_offset_ns: u64,
        written: &Written<'_>,
    ) -> Result<(), ChangeError> {
        self.maps.store_u64(self.image.heap.clock, clock_offset_ns);
        let failed = |what| move |error| ChangeError::Failed(kernel(what)(error));
        for port in self.ports.known() {
            self.translator.add_port(port);
        }
        // `look_at_ports` adds the ports that have appeared since the program was prepared.
        let is_there = |it: &KernelPort| prepared_for.iter().any(|port| port.is(it));
        for port in self.ports.there().into_iter().filter(is_there) {
            self.enter(&port)?;
            let is_known = written.ports().any(|it| it == port.id);
            let written = if is_known {
                self.serving.write(&port)
            } else {
                Ok(())
            };
            if let Err(error) = written
                && !port.interface.is_gone()
            {
                return Err(failed("make a port known")(error));
            }
            let interface = Some((&port.interface).into());
            self.translator.set_interface(port.id, interface);
        }
        self.translator.all(written)?;
        self.translator.take_taken();
        let first = self.translator.take();
        self.start_threads(writer, messages, first)
            .map_err(failed("start a thread"))?
            .map_err(ChangeError::from)
    }

    /// Starts the grace-period thread, the ports' thread and the writer, which first writes `first`. Without `wake`,
    /// waits until the programs run, or returns why they do not run.
    fn start_threads(
        &mut self,
        mut writer: Writer,
        messages: Receiver<Message>,
        first: Vec<Op>,
    ) -> io::Result<Result<(), Failure>> {
        let named = |name: &str| thread::Builder::new().name(name.into());
        let messages_to = self.messages.clone();
        // If the writer has ended, nobody needs the message.
        let notify = move || drop(messages_to.send(Message::Look));
        self.threads.push(self.graces.start(notify)?);
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
            // With `wake` nobody receives the result.
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

    /// Reserves room for a port in the maps.
    fn enter(&mut self, port: &KernelPort) -> Result<(), ChangeError> {
        let index = port.interface.index();
        let has_place = self.image.heap.interface(index).is_some();
        let first = self.sockets.take(port.interface.n_queues());
        let (true, Some(first)) = (has_place, first) else {
            return Err(ChangeError::NoRoomForPorts);
        };
        self.counts.add_device(port.id, index);
        let added = self.tracepoints.transmit.add(port.id, index);
        added.map_err(|_| ChangeError::NoRoomForPorts)?;
        self.serving.enter(port, first);
        Ok(())
    }

    /// Adds ports that have appeared and removes ports that have disappeared. Returns whether these changes need a
    /// commit.
    pub(super) fn look_at_ports(&mut self, written: &Written<'_>) -> bool {
        if self.error.is_some() || !self.has_begun() {
            return false;
        }
        let there = self.ports.there();
        let mut has_changed = false;
        for (port, first) in self.serving.leave_others(&there) {
            has_changed = true;
            let index = port.interface.index();
            self.sockets.give_back(first, port.interface.n_queues());
            self.counts.retire_device(port.id, index, self.graces.now());
            self.translator.set_interface(port.id, None);
        }
        for port in there {
            if self.serving.has(&port) {
                continue;
            }
            if let Err(error) = self.enter(&port) {
                self.error = Some(error);
                return true;
            }
            // `check` reports a thread that has ended.
            let _ = self.to_serve.as_ref().map(|it| it.send(port));
        }
        for port in self.serving.take_news() {
            has_changed = true;
            self.translator.add_port(port.id);
            let interface = Some((&port.interface).into());
            self.translator.set_interface(port.id, interface);
            if let Err(error) = self.translator.resolve_groups_of(written, port.id) {
                self.error.get_or_insert(error);
            }
        }
        has_changed
    }

    /// Makes a port of the switch known: the program takes its frames, and packets may leave by it.
    fn add_port(&mut self, port: PortId) -> io::Result<()> {
        let there = self.ports.there();
        let Some(served) = there.iter().find(|it| it.id == port) else {
            return Ok(());
        };
        self.serving.write(served)?;
        self.translator.add_port(port);
        Ok(())
    }

    pub(super) fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        // The next commit fails anyway, and waiting for a free body again would block the event loop.
        if self.error.is_some() {
            return;
        }
        let result = match change {
            Change::Port(port) => match self.add_port(*port) {
                Ok(()) => self.translator.resolve_groups(written),
                Err(error) => Err(ChangeError::Failed(format!("port {port}: {error}"))),
            },
            change => self.translator.changed(written, change),
        };
        let result = result.and_then(|()| self.change_owners().map_err(ChangeError::Failed));
        if let Err(reason) = result {
            self.error.get_or_insert(reason);
        }
    }

    /// For each body (an entry's memory) that now belongs to another entry, adds the counts of the previous entry to
    /// the table's counts.
    fn change_owners(&mut self) -> Result<(), Reason> {
        let counters = self
            .maps
            .get(self.counters)
            .map_err(kernel("read counters"))?;
        for taken in self.translator.take_taken() {
            if let TableRef::Program(table) = taken.table {
                let changed = self.counts.change_owner(counters, table, taken.body);
                changed.map_err(kernel("read a counter"))?;
            }
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), ChangeError> {
        self.check()?;
        let ops = self.translator.take();
        if ops.is_empty() {
            return Ok(());
        }
        self.n_commits += 1;
        let sent = self.messages.send(Message::Commit(ops));
        sent.map_err(|_| ChangeError::Failed(ENDED.to_owned()))
    }

    pub(super) fn collect(
        &mut self,
        now: Nanos,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), ChangeError> {
        self.count(now, accounts).map_err(ChangeError::Failed)?;
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
            translator: &self.translator,
            graces: &self.graces,
        };
        let collected = counts.collect(&from, now, accounts);
        collected.map_err(kernel("read counters"))
    }

    /// Passes at most `n_max` digests to `accounts` and returns how many.
    pub(super) fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        self.digests.take(n_max, accounts)
    }

    /// Returns a descriptor that is readable while digests are waiting.
    pub(super) fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        self.digests.fd()
    }

    pub(super) fn poll_notice(&self) -> Option<OffloadNotice> {
        self.progress.poll_notice()
    }

    pub(super) fn begin_drain(&mut self, epoch: u64) {
        self.next_epoch = epoch + 1;
        if self.is_clear() {
            self.drained = epoch + 1;
            return;
        }
        // If the thread has ended, the next commit or `check` reports it, and that ends the drain.
        let _ = self.messages.send(Message::Drain(epoch));
    }

    pub(super) fn is_drained(&self, epoch: u64) -> bool {
        let drained = self.progress.drained.load(Ordering::Acquire);
        epoch >= self.next_epoch || epoch < drained.max(self.drained)
    }

    /// Whether all packets see the last commit, and no counted packet is inside the switch. If so, a drain, such as the
    /// drain before a viewer joins a conference, needs no grace period.
    fn is_clear(&self) -> bool {
        let n_seen = self.progress.n_seen.load(Ordering::Acquire);
        let Ok(counters) = self.maps.get(self.counters) else {
            return false;
        };
        let transmit = &self.tracepoints.transmit;
        let n_inside = || self.counts.n_inside_now(counters, transmit);
        n_seen == self.n_commits && n_inside().is_ok_and(|n_inside| n_inside == 0)
    }

    pub(super) fn check(&mut self) -> Result<(), ChangeError> {
        // A failed thread is the cause of any change that could not be sent, so its failure is reported first.
        let failed = self.progress.failure().map(ChangeError::from);
        let failed = failed.or_else(|| {
            let error = self.graces.check().err()?;
            Some(ChangeError::Failed(error.to_string()))
        });
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        let ended = has_ended.then(|| ChangeError::Failed(ENDED.to_owned()));
        match failed.or_else(|| self.error.take()).or(ended) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Lets the programs run on without this process. Nobody counts the packets that the programs forward from now on.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    /// With `wake`, detaches the programs in a thread, since replacing an interface's program waits some milliseconds
    /// for the kernel. Returns true once that thread has finished, and also if there is no thread: then `stop` detaches
    /// the programs.
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
            // `stop` detaches again and reports an error.
            let _ = await_last_packets(&graces);
            undetached
        });
        self.withdrawing = spawned.ok();
        // Without a thread, `stop` does the work.
        self.withdrawing.is_none()
    }

    /// Leaves all frames to the ports' sockets and adds the last counts to `accounts`.
    ///
    /// # Errors
    /// A port's own program could not be restored: its frames go to the host.
    pub(super) fn stop(
        mut self: Box<Self>,
        now: Nanos,
        reason: DropReason,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), Reason> {
        let is_withdrawn = self.withdrawing.is_some();
        self.undetach();
        if !is_withdrawn {
            // A failed offload still reports the counts that it can read.
            let _ = await_last_packets(&self.graces);
        }
        let _ = self.count(now, accounts);
        self.digests.take(usize::MAX, accounts);
        // If the programs run on, the packets inside will still be sent.
        if !self.is_left {
            self.counts.give_up(reason, accounts);
        }
        let undetached = self.undetached.take();
        if self.wake.is_some() {
            // Freeing maps and joining threads takes tens of milliseconds, which must not block the caller.
            let thread = thread::Builder::new().name("reprise-end".into());
            drop(thread.spawn(move || drop(self)));
        }
        undetached.map_or(Ok(()), Err)
    }

    /// Detaches the programs, unless they are to run on.
    fn undetach(&mut self) {
        if let Some(withdrawing) = self.withdrawing.take() {
            let undetached = withdrawing.join();
            let undetached = undetached.unwrap_or_else(|_| Some(ENDED.to_owned()));
            self.undetached = self.undetached.take().or(undetached);
        }
        if self.is_left {
            self.await_shown();
            self.serving.end();
        } else {
            let undetached = self.serving.give_back();
            self.undetached = self.undetached.take().or(undetached);
        }
    }

    /// Detaches the programs and ends all threads. A grace period later no packet runs the programs any more.
    fn detach(&mut self) {
        self.undetach();
        self.graces.stop();
        // If the message cannot be sent, the writer has already ended.
        let _ = self.messages.send(Message::Look);
        self.to_serve = None;
        for thread in self.threads.drain(..) {
            // Even a thread that panicked writes no more.
            let _ = thread.join();
        }
    }

    /// Waits until all packets see the last commit, unless the writer has ended.
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

/// Waits until these programs have handled their last packet, which usually takes less than a millisecond.
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
