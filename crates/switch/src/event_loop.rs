//! The only event loop of the data plane: one thread that owns switch, ports and clock; one a worker
//! ([`crate::workers`]).
//!
//! A turn: run submitted work; take frames in from every port that has some, up to a batch each, and
//! after each port's batch run the switch until it has nothing left to do, and flush the ports; tell
//! who waits for a drain. The generators have a turn as a port has, and some frames more that become due
//! while copies leave, so that they come on time though the switch has much to do. Between
//! turns it waits for ports, work, and the switch's own timeouts and generators. System calls are
//! amortised over a batch: one `ppoll` a turn, one `sendmmsg` for up to 64 frames, none to receive. Told to spin, it does not wait, and looks at mailbox and ports in every turn.
//!
//! Work and frames have a [`Share`] of each turn. A switch that still has something to do when the
//! share is used up is busy: it goes on in the next turn, which runs one piece of work and takes no
//! frames in, since those wait better in the receive rings. The ports' turns go on where they were left.
//!
//! Something may forward beside the engine on some of the ports (`offload`): what it punts comes by the
//! ports, what it forwards the loop does not see. Its digests have a turn as a port's frames have.

mod offload;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::{
    Casts, DigestNotice, DrainWaiters, IdleTimeoutNotice, LinkState, PacketInFrame, PortStatus,
    SwitchContext, Work,
};
use dataplane::engine::Interpreted;
use dataplane::{Nanos, Offload, OffloadStatus, PortId, Switch, Transmit, Transmitted, limits};
use packet_io::{Port, PortError, PortStatistics, Waiter};

use crate::casts;
use crate::clock::Clock;
use crate::handle::{Mailbox, PortChange};
use crate::interfaces::LinkStatus;
use crate::ports::since_1970_ns;
use crate::totals::{PortTotals, Totals};
use offload::Kernel;

/// Frames taken from one port before the next has its turn. Keeps what is in work within the
/// processor's cache, and lets 4,096 queued frames of other ports wait no longer than this.
const RX_BATCH_FRAMES: usize = 64;

/// Pieces of submitted work before frames have their turn: a controller that writes without pause
/// holds frames up for some tens of microseconds.
const WORK_BATCH: usize = 64;

/// Updates of tables, groups and so on before frames have their turn: a few tenths of a millisecond with
/// cold caches (`examples/stops.rs`).
const UPDATES_PER_TURN: usize = 128;

/// Frames that leave between two looks at the clock, which take 25 ns and more: how exactly the time
/// in the switch is known.
const CLOCK_BATCH_FRAMES: usize = 16;

/// Passes between two looks at what else is to be done, where the clock is read before each
/// ([`Switch::is_timed`]): as many as may be in vain otherwise, and one a frame.
const TIMED_PASSES: usize = CLOCK_BATCH_FRAMES + limits::STEPS_IN_VAIN_MAX;

/// Rounds of up to [`CLOCK_BATCH_FRAMES`] frames that the switch may run for the work of a turn, and
/// again for its frames: a millisecond or two with packet sockets, sixteen full send batches, after
/// which control calls and timers have waited long enough.
const ROUNDS_PER_SHARE: u32 = 64;

/// Nanoseconds in which it may do so where passes are slow: those of the interpreter, or of a program
/// with long loops.
const SHARE_NS: Nanos = 2_000_000;

/// Turns of a spinning loop between two tries to send what a port could not; a turn takes some tens
/// of nanoseconds, or frames come.
const SPINS_PER_RETRY: u32 = 64;

/// How long until a port is asked again to send what it could not, in nanoseconds: a network card
/// sends a few hundred frames in that time.
const UNSENT_RETRY_NS: Nanos = 200_000;

/// What the loop does while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Wait {
    /// It sleeps until the kernel wakes it.
    Sleep,
    /// It looks again at once.
    Spin,
}

/// What is left in this turn for the work, or for the frames.
#[derive(Debug, Clone, Copy)]
struct Share {
    n_rounds: u32,
    end: Nanos,
}

impl Share {
    fn from(now: Nanos) -> Share {
        Share {
            n_rounds: ROUNDS_PER_SHARE,
            end: now.saturating_add(SHARE_NS),
        }
    }

    /// A round was run, until now.
    fn spend(&mut self, now: Nanos) {
        self.n_rounds = match now < self.end {
            true => self.n_rounds.saturating_sub(1),
            false => 0,
        };
    }

    fn is_spent(&self) -> bool {
        self.n_rounds == 0
    }
}

/// Why the loop ended other than by being stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoopError {
    /// A capture file could not be read or written.
    #[error("port {id}: {source}")]
    Port {
        /// The port.
        id: PortId,
        /// What happened to it.
        source: PortError,
    },
    /// The kernel refused to wait.
    #[error("cannot wait for the ports: {0}")]
    Wait(#[from] io::Error),
}

/// What the loop does once no capture port has a frame left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterReplay {
    /// There is no replay, or it is over and a controller may still come: until stopped.
    Serve,
    /// The loop ends.
    End,
}

/// One port of the switch.
struct AttachedPort {
    id: PortId,
    port: Box<dyn Port>,
    /// Where its descriptor is in the waiter's list.
    wait_place: Option<usize>,
    /// It was given frames that it may not have sent yet.
    has_queued: bool,
    /// What ports that were in this place before have counted.
    earlier: PortStatistics,
    /// How its interface is, if it has one that is watched.
    link: Option<Arc<LinkStatus>>,
    /// The offload serves it.
    is_offloaded: bool,
    /// One has served it, so that its statistics alone do not have all of its frames.
    was_offloaded: bool,
    /// As the switch was told.
    is_up: bool,
    /// Frames that came and left, by whom they are for.
    casts: Casts,
    /// The switch was told to keep what is for it.
    is_held: bool,
}

impl AttachedPort {
    /// Everything counted in this place.
    fn statistics(&mut self) -> PortStatistics {
        let mut statistics = self.earlier;
        statistics.add(&self.port.statistics());
        statistics
    }
}

/// The loop. Made, filled with ports, run, asked for totals.
pub(crate) struct EventLoop {
    switch: Switch,
    ports: Vec<AttachedPort>,
    /// By port number, the place in `ports`.
    places: Vec<Option<usize>>,
    statuses: Vec<PortStatus>,
    clock: Clock,
    mailbox: Mailbox,
    /// What is left of the work that is being done.
    rest: Option<Work>,
    drain_waiters: DrainWaiters,
    waiter: Waiter,
    wait: Wait,
    /// Frames that waited longer are not taken in; none waits too long where there is none.
    age_max: Option<Nanos>,
    /// When the loop has looked at the clock last.
    seen_at: Nanos,
    /// How long control calls have taken since then.
    worked: Nanos,
    n_spins: u32,
    /// The port that was last looked at ahead.
    look_at: usize,
    /// Whose turn it is, in the order of the ports; the generators come last.
    next_place: usize,
    is_woken: bool,
    share: Share,
    /// The switch has something to do at once.
    is_busy: bool,
    /// Frames may come: from now on generators make theirs.
    is_forwarding: bool,
    packet_ins_unclaimed: u64,
    /// What is to forward beside the engine when frames may come.
    offload: Option<Box<dyn Offload>>,
    /// What the log was told of it.
    offload_told: Option<OffloadStatus>,
    /// What it left of which program when it forwarded last.
    offload_left: Option<(u64, Vec<Interpreted>)>,
    explains_offload: bool,
    /// The ports that the offload in the kernel is to serve, and whether it has called the loop.
    kernel: Option<Kernel>,
    /// To be called once the offload forwards the program of the start, or does not take it.
    when_ready: Option<Box<dyn FnOnce() + Send>>,
    keeps_forwarding: bool,
    /// Programs of an earlier switch may still forward.
    has_earlier: bool,
    /// What the offload forwards with is to stay when it is stopped.
    leaves_offload: Arc<AtomicBool>,
    /// When the offload is asked next whether it can go on.
    next_check: Nanos,
}

impl EventLoop {
    pub(crate) fn new(switch: Switch, clock: Clock, mailbox: Mailbox) -> EventLoop {
        EventLoop {
            switch,
            ports: Vec::new(),
            places: vec![None; usize::from(limits::DROP_PORT) + 1],
            statuses: Vec::new(),
            clock,
            mailbox,
            rest: None,
            drain_waiters: DrainWaiters::default(),
            waiter: Waiter::default(),
            wait: Wait::Sleep,
            age_max: None,
            seen_at: 0,
            worked: 0,
            n_spins: 0,
            look_at: 0,
            next_place: 0,
            is_woken: false,
            share: Share::from(0),
            is_busy: false,
            is_forwarding: false,
            packet_ins_unclaimed: 0,
            offload: None,
            offload_told: None,
            offload_left: None,
            explains_offload: false,
            kernel: None,
            when_ready: None,
            keeps_forwarding: false,
            has_earlier: false,
            leaves_offload: Arc::default(),
            next_check: 0,
        }
    }

    /// Adds a port; `name` is how it was named when the switch was started.
    pub(crate) fn add_port(&mut self, id: PortId, name: &str, port: Box<dyn Port>) {
        self.places[usize::from(id.0)] = Some(self.ports.len());
        self.switch.add_port(id);
        self.statuses.push(PortStatus {
            id,
            name: name.to_owned(),
            ..PortStatus::default()
        });
        self.ports.push(AttachedPort {
            id,
            port,
            wait_place: None,
            has_queued: false,
            earlier: PortStatistics::default(),
            link: None,
            is_offloaded: false,
            was_offloaded: false,
            is_up: true,
            casts: Casts::default(),
            is_held: false,
        });
        self.number_wait_places();
    }

    /// The port that was added last is on an interface that is watched.
    pub(crate) fn set_link(&mut self, link: Arc<LinkStatus>) {
        if let Some(attached) = self.ports.last_mut() {
            attached.link = Some(link);
        }
    }

    /// Where each port's descriptor is in the waiter's list, whose first place is the mailbox's.
    fn number_wait_places(&mut self) {
        let mut next = 1;
        for attached in &mut self.ports {
            attached.wait_place = attached.port.poll_fd().map(|_| next);
            next += usize::from(attached.wait_place.is_some());
        }
    }

    /// Puts another port in the place of one whose interface is gone, or is there again.
    fn replace_port(&mut self, change: PortChange) -> Result<(), LoopError> {
        let PortChange { id, port, replaced } = change;
        let Some(place) = self.places.get(usize::from(id.0)).copied().flatten() else {
            return Ok(());
        };
        // What came before the interface went: no more than the ring holds, nothing comes any more.
        while self.take_frames(place, RX_BATCH_FRAMES)? > 0 {
            let now = self.clock.now();
            self.share = Share::from(now);
            self.run_switch(now)?;
        }
        let attached = &mut self.ports[place];
        let mut old = std::mem::replace(&mut attached.port, port);
        attached.earlier.add(&old.abandon());
        attached.has_queued = false;
        // Nobody waits for it if the switch is being stopped.
        let _ = replaced.send(old);
        self.number_wait_places();
        self.serve_anew(place);
        Ok(())
    }

    /// Frames of one port into the switch, whether it is ready or not.
    fn take_frames(&mut self, place: usize, frames_max: usize) -> Result<usize, LoopError> {
        let EventLoop {
            switch,
            ports,
            clock,
            ..
        } = self;
        let AttachedPort {
            id, port, casts, ..
        } = &mut ports[place];
        let (id, now) = (*id, clock.now());
        let is_enabled = switch.is_port_enabled(id);
        port.receive(now, frames_max, &mut |frame| {
            casts::count_received(casts, is_enabled, frame);
            switch.handle_frame(now, id, frame)
        })
        .map_err(|source| LoopError::Port { id, source })
    }

    /// Says what it does while there is nothing to do. With a virtual clock there is always something.
    pub(crate) fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// Says how long frames may wait while the loop is away.
    pub(crate) fn set_age_max(&mut self, age_max: Option<Nanos>) {
        self.age_max = age_max.filter(|_| !self.clock.is_virtual());
    }

    /// Drops what has waited too long where the loop was away: stopped, or not scheduled. A loop that has much to do
    /// looks at the clock all the time, and drops nothing. After a long control call it drops only where the kernel
    /// tells how old a frame is: a frame that comes right behind the call's answer is none of those that waited.
    #[inline]
    fn look_at_clock(&mut self, now: Nanos) -> Result<(), LoopError> {
        let gap = now.saturating_sub(std::mem::replace(&mut self.seen_at, now));
        let worked = std::mem::take(&mut self.worked);
        match self.age_max {
            Some(age_max) if gap > age_max => {
                self.drop_old(age_max, gap.saturating_sub(worked) > age_max)
            }
            _ => Ok(()),
        }
    }

    /// What has come since then has waited for the loop's own work.
    fn note_work(&mut self, begun_at: Nanos) {
        self.worked += self.clock.now().saturating_sub(begun_at);
    }

    #[cold]
    fn drop_old(&mut self, age_max: Nanos, was_away: bool) -> Result<(), LoopError> {
        let before_ns = since_1970_ns().saturating_sub(age_max);
        for place in 0..self.ports.len() {
            let AttachedPort { id, port, .. } = &mut self.ports[place];
            if !was_away && !port.knows_ages() {
                continue;
            }
            let (id, dropped) = (*id, port.drop_old(before_ns));
            self.going_on(dropped, id)?;
        }
        Ok(())
    }

    /// When the loop has to look at the clock, so that it knows that it was not away.
    fn next_look_at_clock(&self) -> Option<Nanos> {
        let age_max = self.age_max?;
        let has_port = self
            .ports
            .iter()
            .any(|attached| attached.wait_place.is_some());
        has_port.then(|| self.seen_at + age_max / 2)
    }

    fn is_spinning(&self) -> bool {
        self.wait == Wait::Spin && !self.clock.is_virtual()
    }

    pub(crate) fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Serves submitted work only, and leaves the ports alone, until `is_over` says so. Whoever
    /// makes it so wakes the loop. False if the loop was stopped before.
    pub(crate) fn serve_work_until(
        &mut self,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<bool, LoopError> {
        while !is_over() {
            if self.mailbox.is_stopped() {
                return Ok(false);
            }
            if self.is_busy {
                let now = self.clock.now();
                self.share = Share::from(now);
                self.run_switch(now)?;
            } else {
                self.waiter.wait([self.mailbox.waker().as_fd()], None)?;
            }
            self.mailbox.waker().clear();
            self.run_work()?;
            self.finish_turn()?;
        }
        Ok(true)
    }

    /// Forwards until stopped, or until a replay is over and `after` says to end.
    pub(crate) fn run(&mut self, after: AfterReplay) -> Result<(), LoopError> {
        // What was submitted before is looked at in the first turn.
        self.mailbox.waker().wake();
        self.begin_offload();
        self.tell_offload();
        self.seen_at = self.clock.now();
        while !self.mailbox.is_stopped() {
            if self.is_spinning() || self.is_busy {
                self.n_spins = self.n_spins.wrapping_add(1);
                self.is_woken = self.mailbox.waker().is_woken();
                self.turn(after)?;
                continue;
            }
            let next = self.next_event(after);
            if next.is_none() && after == AfterReplay::End {
                break;
            }
            let next = next.into_iter().chain(self.next_look_at_clock()).min();
            let timeout = next.map(|at| self.clock.until(at));
            let ports = self
                .ports
                .iter()
                .filter_map(|attached| attached.port.poll_fd());
            let descriptors = std::iter::once(self.mailbox.waker().as_fd()).chain(ports);
            // Digests are looked for in every turn.
            let descriptors = descriptors.chain(self.switch.offloaded_digests_fd());
            self.waiter.wait(descriptors, timeout)?;
            self.is_woken = self.waiter.is_ready(0);
            self.turn(after)?;
        }
        Ok(())
    }

    /// Takes the offload away, which counts what it had inside, and finishes the ports: capture files are
    /// whole after it.
    pub(crate) fn close(&mut self) -> Result<(), LoopError> {
        self.leaves_offload
            .store(self.keeps_forwarding, Ordering::Relaxed);
        self.switch.set_offload(None);
        self.publish_digests();
        for attached in &mut self.ports {
            let id = attached.id;
            attached
                .port
                .close()
                .map_err(|source| LoopError::Port { id, source })?;
        }
        Ok(())
    }

    /// Everything counted. The frames of a port that an offload serves, or has served before its interface went,
    /// are the switch's account of it, which has both sides'.
    pub(crate) fn totals(&mut self) -> Totals {
        self.switch.collect();
        let counters = self.switch.counters();
        let ports = self
            .ports
            .iter_mut()
            .zip(&self.statuses)
            .map(|(attached, status)| {
                let link = attached.link.clone().unwrap_or_default();
                let mut statistics = attached.statistics();
                if attached.was_offloaded {
                    offload::count_both(&mut statistics, counters.port(attached.id));
                }
                PortTotals {
                    id: attached.id,
                    name: status.name.clone(),
                    statistics,
                    link_down_events: link.down_events(),
                    lost_events: link.lost_events(),
                }
            });
        let ports = ports.collect();
        Totals::new(
            &self.switch,
            self.clock.now(),
            ports,
            self.packet_ins_unclaimed,
        )
    }

    /// Whether the captures wait. Run through before there is a program they would be all drops;
    /// with a controller to come, they wait for it.
    fn is_held(&self, after: AfterReplay) -> bool {
        self.clock.is_virtual() && after == AfterReplay::Serve && self.switch.program().is_none()
    }

    /// When something happens that no descriptor tells of.
    fn next_event(&self, after: AfterReplay) -> Option<Nanos> {
        if self.is_held(after) {
            return None;
        }
        let frames = self
            .ports
            .iter()
            .filter_map(|attached| attached.port.next_frame_at());
        // Whatever is due now was run in the last turn; a nanosecond on, so that time goes on.
        let queues = self
            .switch
            .poll_timeout()
            .map(|at| at.max(self.clock.now() + 1));
        // Frames of generators may be due already, as they were too many for the last turn. Each turn leaves fewer.
        let generated = self.switch.next_generated();
        let has_unsent = self.ports.iter().any(|place| place.port.has_unsent());
        let retry = has_unsent.then(|| self.clock.now() + UNSENT_RETRY_NS);
        let drained = self.next_look_at_drain();
        let retries = retry.into_iter().chain(drained);
        let retries = retries.chain(self.next_check());
        frames.chain(queues).chain(generated).chain(retries).min()
    }

    fn turn(&mut self, after: AfterReplay) -> Result<(), LoopError> {
        // Nobody has looked which ports are ready.
        let was_busy = self.is_busy && !self.is_spinning();
        if self.is_woken {
            let begun_at = self.clock.now();
            self.mailbox.waker().clear();
            while let Some(change) = self.mailbox.next_port_change() {
                self.replace_port(change)?;
                // The waiter's results are those of the list before: its places may be other ports' now.
                self.waiter.forget();
            }
            self.note_work(begun_at);
            self.run_work()?;
            let begun_at = self.clock.now();
            self.answer_offload();
            self.note_work(begun_at);
        }
        self.is_forwarding = !self.is_held(after);
        self.tell_links();
        let now = self.clock.now();
        self.look_at_clock(now)?;
        self.check_offload(now);
        self.take_digests();
        self.end_earlier();
        self.share = Share::from(now);
        let is_due = self.switch.poll_timeout().is_some_and(|at| at <= now);
        if is_due {
            self.switch.handle_timeout(now);
        }
        if is_due || self.is_busy {
            self.run_switch(now)?;
        }
        if !was_busy && self.is_forwarding {
            self.receive_all(now)?;
        }
        self.finish_turn()
    }

    /// Tells the switch which ports have gone down or come up: what watches them follows before the next frame.
    fn tell_links(&mut self) {
        for attached in &mut self.ports {
            let Some(link) = &attached.link else { continue };
            let is_up = !matches!(link.state(), LinkState::Down | LinkState::Lost);
            if std::mem::replace(&mut attached.is_up, is_up) != is_up {
                self.switch.set_port_up(attached.id, is_up);
            }
        }
    }

    /// Takes frames in from every port, and from the generators, and runs the switch after each; ends
    /// where the switch is busy, and goes on with the next from there.
    fn receive_all(&mut self, now: Nanos) -> Result<(), LoopError> {
        while !self.is_busy && self.next_place <= self.ports.len() {
            let n_frames = match self.next_place < self.ports.len() {
                true => self.receive(self.next_place, now)?,
                false => self.generate(),
            };
            self.next_place += 1;
            if n_frames > 0 {
                // Read the clock again, so that their time in the switch is known.
                self.run_switch(self.clock.now())?;
            }
        }
        if self.next_place > self.ports.len() {
            self.next_place = 0;
        }
        Ok(())
    }

    /// Due frames of the generators, up to a batch of each, into the switch.
    fn generate(&mut self) -> usize {
        match self.switch.next_generated() {
            Some(_) => self.switch.generate(self.clock.now()),
            None => 0,
        }
    }

    /// Ready or due frames of one port, up to a batch, into the switch.
    fn receive(&mut self, place: usize, now: Nanos) -> Result<usize, LoopError> {
        let is_spinning = self.is_spinning();
        let EventLoop {
            switch,
            ports,
            waiter,
            clock,
            ..
        } = self;
        let AttachedPort {
            id,
            port,
            wait_place,
            casts,
            ..
        } = &mut ports[place];
        let is_due = || port.next_frame_at().is_some_and(|at| at <= now);
        if !wait_place.map_or_else(is_due, |place| is_spinning || waiter.is_ready(place)) {
            return Ok(0);
        }
        let (id, arrival) = (*id, Arrival::of(switch, *clock, now));
        let is_enabled = switch.is_port_enabled(id);
        let received = port.receive(now, RX_BATCH_FRAMES, &mut |frame| {
            casts::count_received(casts, is_enabled, frame);
            switch.handle_frame(arrival.time(), id, frame)
        });
        self.going_on(received, id)
    }

    /// A few frames more, where the switch wants to know their priorities before their turn. Ports
    /// take turns, and the generators.
    fn look_ahead(&mut self, now: Nanos) -> Result<(), LoopError> {
        let mut n_wanted = self.switch.n_frames_wanted();
        for _ in 0..=self.ports.len() {
            if n_wanted == 0 {
                break;
            }
            self.look_at = (self.look_at + 1) % (self.ports.len() + 1);
            let n_frames = match self.look_at < self.ports.len() {
                true => self.look_at_port(self.look_at, now, n_wanted)?,
                false if self.is_forwarding => self.generate(),
                false => 0,
            };
            n_wanted = n_wanted.saturating_sub(n_frames);
        }
        Ok(())
    }

    /// A few frames of one port. Captures wait: their time has not come.
    fn look_at_port(
        &mut self,
        place: usize,
        now: Nanos,
        n_wanted: usize,
    ) -> Result<usize, LoopError> {
        let AttachedPort {
            id,
            port,
            wait_place: Some(_),
            casts,
            ..
        } = &mut self.ports[place]
        else {
            return Ok(0);
        };
        let (id, switch) = (*id, &mut self.switch);
        let arrival = Arrival::of(switch, self.clock, now);
        let is_enabled = switch.is_port_enabled(id);
        let received = port.receive(now, n_wanted, &mut |frame| {
            casts::count_received(casts, is_enabled, frame);
            switch.handle_frame(arrival.time(), id, frame)
        });
        self.going_on(received, id)
    }

    /// Runs the switch until nothing can run or the share of the turn is used up, and has the ports
    /// send what leaves.
    fn run_switch(&mut self, mut now: Nanos) -> Result<(), LoopError> {
        self.is_busy = true;
        while !self.share.is_spent() {
            if self.send(now)?.is_idle {
                self.is_busy = false;
                break;
            }
            now = self.clock.now();
            self.look_at_clock(now)?;
            self.share.spend(now);
            self.look_ahead(now)?;
            if self.is_forwarding {
                self.switch.generate_more(now);
            }
        }
        self.flush(|attached| attached.has_queued)?;
        while let Some(frame) = self.switch.poll_packet_in() {
            let generation = self.switch.generation();
            let packet = PacketInFrame { generation, frame };
            if !self.mailbox.publish_packet_in(&packet) {
                self.packet_ins_unclaimed += 1;
            }
        }
        // Those that nobody asks for stay in the switch, which counts what it has no room for.
        while self.mailbox.tells_idle_timeouts()
            && let Some(idle) = self.switch.poll_idle_timeout()
        {
            let generation = self.switch.generation();
            let notice = IdleTimeoutNotice { generation, idle };
            self.mailbox.publish_idle_timeout(&notice);
        }
        self.publish_digests();
        Ok(())
    }

    fn publish_digests(&mut self) {
        while self.mailbox.tells_digests()
            && let Some(digest) = self.switch.poll_digest()
        {
            let generation = self.switch.generation();
            let notice = DigestNotice { generation, digest };
            self.mailbox.publish_digest(&notice);
        }
    }

    /// Queues a few frames at the ports.
    fn send(&mut self, now: Nanos) -> Result<Transmitted, LoopError> {
        let EventLoop {
            switch,
            ports,
            places,
            clock,
            ..
        } = self;
        let mut failed = None;
        let mut give = |transmit: Transmit<'_>| {
            let id = transmit.port;
            // The switch transmits to ports that were added, and to no others.
            let Some(place) = places.get(usize::from(id.0)).copied().flatten() else {
                return;
            };
            let attached = &mut ports[place];
            attached.has_queued = true;
            casts::count_sent(&mut attached.casts, &transmit.frame);
            let sent = attached.port.transmit(now, transmit.frame);
            if let Err(source) = sent {
                failed.get_or_insert((id, source));
            }
        };
        let transmitted = match switch.is_timed() {
            true => transmit_timed(switch, *clock, &mut give),
            false => switch.transmit(now, CLOCK_BATCH_FRAMES, &mut give),
        };
        if let Some((id, source)) = failed {
            self.going_on(Err::<(), _>(source), id)?;
        }
        self.tell_full();
        Ok(transmitted)
    }

    /// Tells the switch which ports take no more, and which do again.
    fn tell_full(&mut self) {
        for attached in &mut self.ports {
            // What is for a disabled port does not wait, it is dropped.
            let is_full = attached.port.is_full() && self.switch.is_port_enabled(attached.id);
            if std::mem::replace(&mut attached.is_held, is_full) != is_full {
                self.switch.hold_port(attached.id, is_full);
            }
        }
    }

    /// Submitted work, up to a batch, or one piece where the switch is busy.
    fn run_work(&mut self) -> Result<(), LoopError> {
        self.share = Share::from(self.clock.now());
        let (mut n_done, mut n_updates) = (0, 0);
        while let Some(work) = self.rest.take().or_else(|| self.mailbox.next_work()) {
            if n_done == 0 {
                self.refresh_statuses();
            }
            self.refresh_switched();
            let now = self.clock.now();
            let mut context = SwitchContext {
                switch: &mut self.switch,
                now,
                ports: &self.statuses,
                drain_waiters: &mut self.drain_waiters,
                n_updates: 0,
                rest: None,
            };
            work(&mut context);
            n_updates += context.n_updates;
            self.rest = context.rest;
            self.note_work(now);
            // A packet-out goes its way before the next piece of work can change that.
            self.run_switch(now)?;
            n_done += 1;
            if n_done == WORK_BATCH || n_updates >= UPDATES_PER_TURN || self.is_busy {
                self.mailbox.waker().wake();
                break;
            }
        }
        let begun_at = self.clock.now();
        self.tell_offload();
        self.note_work(begun_at);
        Ok(())
    }

    /// A replay is for its captures, and ends where one breaks. A switch that serves others goes on: the
    /// port counts what it cannot write, and nothing more comes of what it cannot read.
    fn going_on<T: Default>(
        &self,
        result: Result<T, PortError>,
        id: PortId,
    ) -> Result<T, LoopError> {
        match result {
            Ok(done) => Ok(done),
            Err(source) if self.clock.is_virtual() => Err(LoopError::Port { id, source }),
            Err(error) => {
                tracing::error!(
                    event = "port_failed",
                    port = id.0,
                    %error,
                    "port {id} does no more: {error}"
                );
                Ok(T::default())
            }
        }
    }

    fn refresh_statuses(&mut self) {
        for (attached, status) in self.ports.iter_mut().zip(&mut self.statuses) {
            let statistics = attached.statistics();
            status.rx_dropped = statistics.rx_dropped();
            status.tx_dropped = statistics.tx_dropped();
            if let Some(link) = &attached.link {
                status.link = link.state();
                status.link_down_events = link.down_events();
                status.link_up_events = link.up_events();
                status.lost_events = link.lost_events();
                status.unserved_queues = link.unserved_queues();
                status.interface = link.interface();
                status.link_changed_ns = link.changed_ns();
                status.link_transitions = link.transitions();
                status.mtu = link.mtu();
            }
            // What an offload forwards the loop does not see.
            status.casts = (!attached.was_offloaded).then_some(attached.casts);
            status.drops.clear();
            status.drops.extend(statistics.drops());
        }
    }

    /// What the work before may have changed.
    fn refresh_switched(&mut self) {
        let is_forwarding = self.is_offload_forwarding();
        for (attached, status) in self.ports.iter().zip(&mut self.statuses) {
            status.is_disabled = !self.switch.is_port_enabled(attached.id);
            let kernel = self.kernel.as_ref();
            let is_served = kernel.is_none_or(|it| it.ports.is_served(attached.id));
            let is_forwarded = is_forwarding && is_served;
            status.is_offloaded = attached.is_offloaded.then_some(is_forwarded);
        }
    }

    /// Tries again to send what the ports could not, and tells of drains: what left the switch in
    /// this turn has left the ports too.
    fn finish_turn(&mut self) -> Result<(), LoopError> {
        if !self.is_spinning() || self.n_spins.is_multiple_of(SPINS_PER_RETRY) {
            self.flush(|_| true)?;
        }
        self.drain_waiters.notify(&self.switch);
        Ok(())
    }

    fn flush(&mut self, is_wanted: impl Fn(&AttachedPort) -> bool) -> Result<(), LoopError> {
        for attached in self.ports.iter_mut().filter(|port| is_wanted(port)) {
            let id = attached.id;
            attached.has_queued = false;
            attached
                .port
                .flush()
                .map_err(|source| LoopError::Port { id, source })?;
        }
        self.tell_full();
        Ok(())
    }
}

/// When frames of a batch are said to have come: all at once, or each when it was taken, where the program
/// is told how long it is inside.
#[derive(Clone, Copy)]
enum Arrival {
    Together(Nanos),
    Each(Clock),
}

impl Arrival {
    fn of(switch: &Switch, clock: Clock, now: Nanos) -> Arrival {
        match switch.is_timed() {
            true => Arrival::Each(clock),
            false => Arrival::Together(now),
        }
    }

    fn time(&self) -> Nanos {
        match self {
            Arrival::Together(now) => *now,
            Arrival::Each(clock) => clock.now(),
        }
    }
}

/// As [`Switch::transmit`], with a look at the clock before each pass: the program is told the time.
fn transmit_timed(
    switch: &mut Switch,
    clock: Clock,
    send: &mut dyn FnMut(Transmit<'_>),
) -> Transmitted {
    let mut transmitted = Transmitted {
        n_frames: 0,
        is_idle: false,
    };
    let mut n_passes = 0;
    while !transmitted.is_idle
        && transmitted.n_frames < CLOCK_BATCH_FRAMES
        && n_passes < TIMED_PASSES
    {
        let step = switch.transmit_step(clock.now(), send);
        transmitted.n_frames += step.n_frames;
        transmitted.is_idle = step.is_idle;
        n_passes += 1;
    }
    transmitted
}

#[cfg(test)]
mod tests;
