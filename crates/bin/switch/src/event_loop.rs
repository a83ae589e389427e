//! The event loop of the data plane: a thread that owns a switch, its ports and a clock. Each worker has a loop of its
//! own ([`crate::workers`]).
//!
//! An iteration first runs submitted work. Then it receives up to a batch of frames from each port that has some; after
//! each port's batch it runs the switch until the switch is idle, and flushes the ports. Last, it notifies callers that
//! wait for a drain. A drain is over when all packets have left that were inside the switch at the time of the call.
//! Packet generators are served like a port. While copies of a multicast packet leave, generated frames that become due
//! are added between the copies, so that they are on time even if the switch is busy. Between iterations the loop waits
//! for ports, work, timeouts of the switch, and generators. Batches keep system calls few: the loop makes one `ppoll`
//! for an iteration, one `sendmmsg` for up to 64 frames, and none to receive. A spinning loop does not wait, and looks
//! for work and frames in every iteration.
//!
//! Work and frames each have a [`Share`] of an iteration's time. If the switch is not idle when a share is used up, the
//! loop is busy: the switch goes on in the next iteration, which runs one piece of work and receives no frames. It is
//! better that frames wait in the receive rings than inside the switch. Receiving resumes at the port where it stopped.
//!
//! An offload, such as a program in the kernel, may forward beside the engine on some of the ports (`offload`). Frames
//! that the offload punts arrive through the ports; the loop does not see frames that the offload forwards. Every
//! iteration takes the offload's digests.
//!
//! A loop may hand its ports over to a loop of another process (`handover`): it stops between two packets, passes on the
//! state that packets have changed, and waits until the other process forwards or has failed.

mod handover;
mod offload;
mod ports;

use std::io;

use control::{DigestNotice, DrainWaiters, IdleTimeoutNotice, PacketInFrame, SwitchContext, Work};
use dataplane::{Nanos, PortId, Switch, Transmit, Transmitted, limits};
use packet_io::{PortError, Waiter};

use crate::clock::Clock;
use crate::handle::{Mailbox, PortChange};
use crate::ports::{OpenPort, since_1970_ns};
use crate::totals::Totals;
pub(crate) use handover::{Handover, Outcome, PacketState, Pause};
use offload::Offloading;
use ports::AttachedPorts;

/// Maximum number of frames received from one port before the next port is served. A batch of this size stays in the
/// processor's cache, and is processed before the other ports' receive rings, which have room for thousands of frames,
/// fill up.
const RX_BATCH_FRAMES: usize = 64;

/// Maximum number of pieces of submitted work that run before frames are processed. Because of this limit, a controller
/// that writes without pause delays frames only by some tens of microseconds.
const WORK_BATCH: usize = 64;

/// Number of updates of tables, groups and so on after which no more work runs before frames are processed. With cold
/// caches so many updates take a few tenths of a millisecond.
const UPDATES_PER_ITERATION: usize = 128;

/// Number of frames that leave between two readings of the clock; a reading takes 25 ns or more. All these frames get
/// the time of the earlier reading.
const CLOCK_BATCH_FRAMES: usize = 16;

/// Number of passes after which the loop looks for other work, if it reads the clock before each pass
/// ([`Switch::is_timed`]). A pass is one run of a packet through ingress or through egress. The number is the most
/// passes that [`Switch::transmit`] makes for [`CLOCK_BATCH_FRAMES`] frames.
const TIMED_PASSES: usize = CLOCK_BATCH_FRAMES + limits::STEPS_IN_VAIN_MAX;

/// How often the switch may run for the work of an iteration, each time until up to [`CLOCK_BATCH_FRAMES`] frames have
/// left; it may run as often again for the frames that the iteration receives. With packet sockets these 1,024 frames
/// fill sixteen send batches and take a millisecond or two; control calls and timers should not wait longer.
const ROUNDS_PER_SHARE: u32 = 64;

/// A share's limit in nanoseconds, for slow passes: passes of the interpreter, or of a program with long loops.
const SHARE_NS: Nanos = 2_000_000;

/// Iterations of a spinning loop between two tries to send what a port could not send. An iteration without frames
/// takes some tens of nanoseconds.
const SPINS_PER_RETRY: u32 = 64;

/// Nanoseconds between two tries to send what a port could not send: a network card sends a few hundred frames in that
/// time.
const UNSENT_RETRY_NS: Nanos = 200_000;

/// What the loop does while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Wait {
    /// It sleeps until the kernel wakes it.
    Sleep,
    /// It looks again at once.
    Spin,
}

/// What is left of the time that an iteration may spend on work, or of the time that it may spend on frames.
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

    /// Counts one run of the switch that ended at `now`.
    fn spend(&mut self, now: Nanos) {
        self.n_rounds = if now < self.end {
            self.n_rounds.saturating_sub(1)
        } else {
            0
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
    Port { id: PortId, source: PortError },
    #[error("cannot wait for the ports: {0}")]
    Wait(#[from] io::Error),
}

/// What the loop does when no capture port has a frame left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterReplay {
    /// Runs until stopped: there is no replay, or a controller may connect even after the replay.
    Serve,
    End,
}

/// The loop's last reading of the clock. A long time since then shows that the loop was stopped or not scheduled.
#[derive(Default)]
struct LastLook {
    /// Frames that waited longer than this are dropped. With `None` no frame is dropped for this reason.
    age_max: Option<Nanos>,
    at: Nanos,
    /// How long control calls have taken since `at`.
    worked: Nanos,
}

/// A time without receiving, after which frames may have waited for too long.
struct Absence {
    age_max: Nanos,
    /// Whether the loop was stopped or not scheduled for longer than `age_max`, and not just busy with work of its own.
    was_away: bool,
}

impl LastLook {
    /// Stores the time `now`. Returns an absence if more than `age_max` has passed since the last reading.
    #[inline]
    fn update(&mut self, now: Nanos) -> Option<Absence> {
        let gap = now.saturating_sub(std::mem::replace(&mut self.at, now));
        let worked = std::mem::take(&mut self.worked);
        let age_max = self.age_max.filter(|age_max| gap > *age_max)?;
        let was_away = gap.saturating_sub(worked) > age_max;
        Some(Absence { age_max, was_away })
    }
}

/// The event loop: create it, add ports, run it, read the totals.
pub(crate) struct EventLoop {
    switch: Switch,
    ports: AttachedPorts,
    clock: Clock,
    mailbox: Mailbox,
    /// The part of a piece of work that is not done yet.
    rest: Option<Work>,
    drain_waiters: DrainWaiters,
    waiter: Waiter,
    wait: Wait,
    last_look: LastLook,
    n_spins: u32,
    /// The port from which `look_ahead` last received.
    look_at: usize,
    /// Index of the next port to receive from; the generators come after the last port.
    next_place: usize,
    is_woken: bool,
    share: Share,
    /// Whether the switch still has something to process that need not wait.
    is_busy: bool,
    /// Whether frames are received and generators make frames.
    is_forwarding: bool,
    packet_ins_unclaimed: u64,
    offloading: Offloading,
    /// Whether the loop empties the switch and takes no frames.
    is_pausing: bool,
    /// Whether another process forwards in this loop's place.
    is_handed_over: bool,
}

impl EventLoop {
    pub(crate) fn new(switch: Switch, clock: Clock, mailbox: Mailbox) -> EventLoop {
        EventLoop {
            switch,
            ports: AttachedPorts::new(),
            clock,
            mailbox,
            rest: None,
            drain_waiters: DrainWaiters::default(),
            waiter: Waiter::default(),
            wait: Wait::Sleep,
            last_look: LastLook::default(),
            n_spins: 0,
            look_at: 0,
            next_place: 0,
            is_woken: false,
            share: Share::from(0),
            is_busy: false,
            is_forwarding: false,
            packet_ins_unclaimed: 0,
            offloading: Offloading::default(),
            is_pausing: false,
            is_handed_over: false,
        }
    }

    pub(crate) fn add_port(&mut self, port: OpenPort) {
        self.switch.add_port(port.id);
        self.ports.add(port);
    }

    /// Replaces a port whose interface has gone or has come back.
    fn replace_port(&mut self, change: PortChange) -> Result<(), LoopError> {
        let PortChange { id, port, replaced } = change;
        let Some(place) = self.ports.place_of(id) else {
            return Ok(());
        };
        // Takes the frames that came before the interface was removed: at most one full receive ring, since no more
        // come.
        while self.take_frames(place, RX_BATCH_FRAMES)? > 0 {
            let now = self.clock.now();
            self.share = Share::from(now);
            self.run_switch(now)?;
        }
        let old = self.ports.replace(place, port);
        // The receiver is gone if the switch is being stopped.
        let _ = replaced.send(old);
        self.serve_anew(place);
        Ok(())
    }

    /// Receives frames of one port, whether it is ready or not.
    fn take_frames(&mut self, place: usize, frames_max: usize) -> Result<usize, LoopError> {
        let now = self.clock.now();
        let attached = self.ports.at(place);
        let received = attached.receive(&mut self.switch, now, Arrival::Together(now), frames_max);
        let id = attached.id;
        received.map_err(|source| LoopError::Port { id, source })
    }

    /// Sets what the loop does while there is nothing to do. With a virtual clock the loop never waits.
    pub(crate) fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// Sets how long frames may wait while the loop does not run.
    pub(crate) fn set_age_max(&mut self, age_max: Option<Nanos>) {
        self.last_look.age_max = age_max.filter(|_| !self.clock.is_virtual());
    }

    /// Drops frames that waited too long because the loop was stopped or not scheduled. A busy loop reads the clock all
    /// the time and drops nothing. After a long control call the loop drops frames only of ports whose kernel reports
    /// the age of frames, since a frame that comes right after the call's answer has not waited.
    #[inline]
    fn look_at_clock(&mut self, now: Nanos) -> Result<(), LoopError> {
        match self.last_look.update(now) {
            Some(absence) => self.drop_old(&absence),
            None => Ok(()),
        }
    }

    /// Counts the time since `began_at` as the loop's own work.
    fn note_work(&mut self, began_at: Nanos) {
        self.last_look.worked += self.clock.now().saturating_sub(began_at);
    }

    #[cold]
    fn drop_old(&mut self, absence: &Absence) -> Result<(), LoopError> {
        let before_ns = since_1970_ns().saturating_sub(absence.age_max);
        for place in 0..self.ports.len() {
            let attached = self.ports.at(place);
            if absence.was_away || attached.port.knows_ages() {
                let (id, dropped) = (attached.id, attached.port.drop_old(before_ns));
                self.going_on(dropped, id)?;
            }
        }
        Ok(())
    }

    /// When the loop must read the clock again, so that it knows that it was not stopped.
    fn next_look_at_clock(&self) -> Option<Nanos> {
        let age_max = self.last_look.age_max?;
        let has_port = self.ports.has_descriptors();
        has_port.then(|| self.last_look.at + age_max / 2)
    }

    fn is_spinning(&self) -> bool {
        self.wait == Wait::Spin && !self.clock.is_virtual()
    }

    pub(crate) fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Runs submitted work only, and ignores the ports, until `is_over` returns true. The thread that makes `is_over`
    /// return true must wake the loop. Returns false if the loop was stopped before.
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
            self.serve_handovers()?;
            self.run_work()?;
            self.finish_iteration()?;
        }
        Ok(true)
    }

    /// Forwards until stopped, or until a replay is over and `after` says to end.
    pub(crate) fn run(&mut self, after: AfterReplay) -> Result<(), LoopError> {
        // The first iteration runs work that was submitted before.
        self.mailbox.waker().wake();
        self.begin_offload();
        self.log_offload();
        self.last_look.at = self.clock.now();
        while !self.mailbox.is_stopped() && !self.is_handed_over {
            if self.is_spinning() || self.is_busy {
                self.n_spins = self.n_spins.wrapping_add(1);
                self.is_woken = self.mailbox.waker().is_woken();
                self.iterate(after)?;
                continue;
            }
            let next = self.next_event(after);
            if next.is_none() && after == AfterReplay::End {
                break;
            }
            let next = next.into_iter().chain(self.next_look_at_clock()).min();
            let timeout = next.map(|at| self.clock.until(at));
            let waker = std::iter::once(self.mailbox.waker().as_fd());
            let descriptors = waker.chain(self.ports.descriptors());
            // This descriptor only wakes the loop: every iteration looks for digests.
            let descriptors = descriptors.chain(self.switch.offloaded_digests_fd());
            self.waiter.wait(descriptors, timeout)?;
            self.is_woken = self.waiter.is_ready(0);
            self.iterate(after)?;
        }
        Ok(())
    }

    /// Removes the offload, counting the packets that are still inside it, and closes the ports, so that capture files
    /// are complete.
    pub(crate) fn close(&mut self) -> Result<(), LoopError> {
        self.offloading.leave_or_end();
        self.switch.set_offload(None);
        self.publish_digests();
        self.ports.close()
    }

    pub(crate) fn totals(&mut self) -> Totals {
        self.switch.collect();
        let counters = self.switch.counters();
        let ports = self.ports.totals(|id| counters.port(id));
        Totals::new(
            &self.switch,
            self.clock.now(),
            ports,
            self.packet_ins_unclaimed,
        )
    }

    /// Whether captures wait until a controller sets a program; without a program all their frames would be dropped.
    fn is_held(&self, after: AfterReplay) -> bool {
        self.clock.is_virtual() && after == AfterReplay::Serve && self.switch.program().is_none()
    }

    /// The time of the next event that no descriptor reports.
    fn next_event(&self, after: AfterReplay) -> Option<Nanos> {
        if self.is_held(after) {
            return None;
        }
        let frames = self
            .ports
            .iter()
            .filter_map(|attached| attached.port.next_frame_at());
        // The last iteration has run what is due now. So this time is at least one nanosecond after the present time,
        // and a virtual clock advances.
        let queues = self
            .switch
            .poll_timeout()
            .map(|at| at.max(self.clock.now() + 1));
        // Generators may have more due frames than the last iteration could take; each iteration leaves fewer.
        let generated = self.switch.next_generated();
        let retry = self
            .ports
            .has_unsent()
            .then(|| self.clock.now() + UNSENT_RETRY_NS);
        let drained = self.next_look_at_drain();
        let retries = retry.into_iter().chain(drained);
        let retries = retries.chain(self.next_check());
        frames.chain(queues).chain(generated).chain(retries).min()
    }

    fn iterate(&mut self, after: AfterReplay) -> Result<(), LoopError> {
        // A busy loop has not polled, so it does not know which ports are ready.
        let was_busy = self.is_busy && !self.is_spinning();
        if self.is_woken {
            let began_at = self.clock.now();
            self.mailbox.waker().clear();
            while let Some(change) = self.mailbox.next_port_change() {
                self.replace_port(change)?;
                // The waiter's results are by index in the old list of ports; an index may now belong to another port.
                self.waiter.forget();
            }
            self.note_work(began_at);
            self.serve_handovers()?;
            if self.is_handed_over {
                return Ok(());
            }
            self.run_work()?;
            let began_at = self.clock.now();
            self.answer_offload();
            self.note_work(began_at);
        }
        self.is_forwarding = !self.is_held(after);
        self.ports.report_links(&mut self.switch);
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
        self.finish_iteration()
    }

    /// Receives from every port and from the generators, and runs the switch after each. Stops when the switch is busy;
    /// the next call resumes with the next port.
    fn receive_all(&mut self, now: Nanos) -> Result<(), LoopError> {
        while !self.is_busy && self.next_place <= self.ports.len() {
            let n_frames = if self.next_place < self.ports.len() {
                self.receive(self.next_place, now)?
            } else {
                self.generate()
            };
            self.next_place += 1;
            if n_frames > 0 {
                // Reads the clock again, for an exact time in the switch.
                self.run_switch(self.clock.now())?;
            }
        }
        if self.next_place > self.ports.len() {
            self.next_place = 0;
        }
        Ok(())
    }

    /// Gives the switch the due frames of the generators, up to a batch of each.
    fn generate(&mut self) -> usize {
        match self.switch.next_generated() {
            Some(_) => self.switch.generate(self.clock.now()),
            None => 0,
        }
    }

    /// Gives the switch the ready or due frames of one port, up to a batch.
    fn receive(&mut self, place: usize, now: Nanos) -> Result<usize, LoopError> {
        let is_spinning = self.is_spinning();
        let (attached, waiter) = (self.ports.at(place), &self.waiter);
        let is_due = || attached.port.next_frame_at().is_some_and(|at| at <= now);
        let is_ready = attached
            .wait_place
            .map_or_else(is_due, |place| is_spinning || waiter.is_ready(place));
        if !is_ready {
            return Ok(0);
        }
        let arrival = Arrival::of(&self.switch, self.clock, now);
        let received = attached.receive(&mut self.switch, now, arrival, RX_BATCH_FRAMES);
        let id = attached.id;
        self.going_on(received, id)
    }

    /// Receives a few more frames if the switch wants to know their priorities early, from the ports and the generators
    /// in rotation.
    fn look_ahead(&mut self, now: Nanos) -> Result<(), LoopError> {
        if self.is_pausing {
            return Ok(());
        }
        let mut n_wanted = self.switch.n_frames_wanted();
        for _ in 0..=self.ports.len() {
            if n_wanted == 0 {
                break;
            }
            self.look_at = (self.look_at + 1) % (self.ports.len() + 1);
            let n_frames = if self.look_at < self.ports.len() {
                self.look_at_port(self.look_at, now, n_wanted)?
            } else if self.is_forwarding {
                self.generate()
            } else {
                0
            };
            n_wanted = n_wanted.saturating_sub(n_frames);
        }
        Ok(())
    }

    /// Receives a few frames of one port, but no frames of a capture, which are not due yet.
    fn look_at_port(
        &mut self,
        place: usize,
        now: Nanos,
        n_wanted: usize,
    ) -> Result<usize, LoopError> {
        let attached = self.ports.at(place);
        if attached.wait_place.is_none() {
            return Ok(0);
        }
        let arrival = Arrival::of(&self.switch, self.clock, now);
        let received = attached.receive(&mut self.switch, now, arrival, n_wanted);
        let id = attached.id;
        self.going_on(received, id)
    }

    /// Runs the switch until it is idle or the share is used up, and has the ports send the frames that leave.
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
        self.ports.flush_queued()?;
        self.ports.report_full(&mut self.switch);
        while let Some(frame) = self.switch.poll_packet_in() {
            let generation = self.switch.generation();
            let packet = PacketInFrame { generation, frame };
            if !self.mailbox.publish_packet_in(&packet) {
                self.packet_ins_unclaimed += 1;
            }
        }
        // Without subscribers idle timeouts stay in the switch, which counts those for which it has no room.
        while self.mailbox.sends_idle_timeouts()
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
        while self.mailbox.sends_digests()
            && let Some(digest) = self.switch.poll_digest()
        {
            let generation = self.switch.generation();
            let notice = DigestNotice { generation, digest };
            self.mailbox.publish_digest(&notice);
        }
    }

    /// Runs the switch for a few frames and queues them at the ports.
    fn send(&mut self, now: Nanos) -> Result<Transmitted, LoopError> {
        let EventLoop {
            switch,
            ports,
            clock,
            ..
        } = self;
        let mut failed = None;
        let mut give = |transmit: Transmit<'_>| {
            if let Err(why) = ports.transmit(now, transmit) {
                failed.get_or_insert(why);
            }
        };
        let transmitted = if switch.is_timed() {
            transmit_timed(switch, *clock, &mut give)
        } else {
            switch.transmit(now, CLOCK_BATCH_FRAMES, &mut give)
        };
        if let Some((id, source)) = failed {
            self.going_on(Err::<(), _>(source), id)?;
        }
        self.ports.report_full(&mut self.switch);
        Ok(transmitted)
    }

    /// Runs submitted work: up to a batch, or one piece if the switch is busy.
    fn run_work(&mut self) -> Result<(), LoopError> {
        self.share = Share::from(self.clock.now());
        let (mut n_done, mut n_updates) = (0, 0);
        while let Some(work) = self.rest.take().or_else(|| self.mailbox.next_work()) {
            if n_done == 0 {
                self.ports.refresh_statuses();
            }
            let is_forwarding = self.is_offload_forwarding();
            let (ports, offloading) = (&mut self.ports, &self.offloading);
            ports.refresh_switched(&self.switch, |id| is_forwarding && offloading.serves(id));
            let now = self.clock.now();
            let mut context = SwitchContext {
                switch: &mut self.switch,
                now,
                ports: self.ports.statuses(),
                drain_waiters: &mut self.drain_waiters,
                n_updates: 0,
                rest: None,
            };
            work(&mut context);
            n_updates += context.n_updates;
            self.rest = context.rest;
            self.note_work(now);
            // Packet-outs leave before the next piece of work can change their path.
            self.run_switch(now)?;
            n_done += 1;
            if n_done == WORK_BATCH || n_updates >= UPDATES_PER_ITERATION || self.is_busy {
                self.mailbox.waker().wake();
                break;
            }
        }
        let began_at = self.clock.now();
        self.log_offload();
        self.note_work(began_at);
        Ok(())
    }

    /// If the clock is virtual, returns the error of a port, which ends the replay. With a real clock the loop only
    /// logs the error and continues: the port then counts the frames that it cannot write, and receives no more if it
    /// cannot read.
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
                    "port {id} has failed: {error}"
                );
                Ok(T::default())
            }
        }
    }

    /// Retries to send what the ports could not send, and notifies callers that wait for a drain: the packets that left
    /// the switch in this iteration have left the ports too.
    fn finish_iteration(&mut self) -> Result<(), LoopError> {
        if !self.is_spinning() || self.n_spins.is_multiple_of(SPINS_PER_RETRY) {
            self.ports.flush_all()?;
            self.ports.report_full(&mut self.switch);
        }
        self.drain_waiters.notify(&self.switch);
        Ok(())
    }
}

/// The arrival time of a batch's frames: one time for all frames, or one for each frame if the program uses the time
/// that frames spend in the switch.
#[derive(Clone, Copy)]
enum Arrival {
    Together(Nanos),
    Each(Clock),
}

impl Arrival {
    fn of(switch: &Switch, clock: Clock, now: Nanos) -> Arrival {
        if switch.is_timed() {
            Arrival::Each(clock)
        } else {
            Arrival::Together(now)
        }
    }

    fn time(&self) -> Nanos {
        match self {
            Arrival::Together(now) => *now,
            Arrival::Each(clock) => clock.now(),
        }
    }
}

/// Like [`Switch::transmit`], but reads the clock before each pass, since the program uses the time.
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
