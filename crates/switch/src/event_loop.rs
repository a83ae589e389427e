//! The only event loop of the data plane: one thread that owns switch, ports and clock.
//!
//! A turn: run submitted work; take frames in from every port that has some, up to a batch each;
//! run the switch until it has nothing left to do; flush the ports; tell who waits for a drain.
//! Between turns it waits for ports, work and the switch's own timeout. System calls are amortised
//! over a batch: one `ppoll` a turn, one `sendmmsg` for up to 64 frames, none to receive. Told to spin,
//! it does not wait, looks at every port in every turn, and at the mailbox every now and then.

use std::io;
use std::time::Duration;

use dataplane::{Nanos, PortId, Switch, limits};
use p4runtime_server::{DrainWaiters, PortStatus, SwitchContext};
use packet_io::{Port, PortError, Waiter};

use crate::clock::Clock;
use crate::handle::Mailbox;
use crate::totals::{PortTotals, Totals};

/// Frames taken from one port before the next has its turn. Keeps what is in work within the
/// processor's cache, and lets 4,096 queued frames of other ports wait no longer than this.
const RX_BATCH_FRAMES: usize = 64;

/// Pieces of submitted work before frames have their turn: a controller that writes without pause
/// holds frames up for some tens of microseconds.
const WORK_BATCH: usize = 64;

/// Frames that leave between two looks at the clock, which take 25 ns and more: how exactly the time
/// in the switch is known.
const CLOCK_BATCH_FRAMES: usize = 16;

/// Turns of a spinning loop between two looks at whether somebody wakes it, which take a system call
/// of 150 ns; a turn takes some tens of nanoseconds, or frames come.
const SPINS_PER_LOOK: u32 = 32;

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
    drain_waiters: DrainWaiters,
    waiter: Waiter,
    wait: Wait,
    n_spins: u32,
    /// The port that was last looked at ahead.
    look_at: usize,
    is_woken: bool,
    packet_ins_unclaimed: u64,
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
            drain_waiters: DrainWaiters::default(),
            waiter: Waiter::default(),
            wait: Wait::Sleep,
            n_spins: 0,
            look_at: 0,
            is_woken: false,
            packet_ins_unclaimed: 0,
        }
    }

    /// Adds a port; `name` is how it was named when the switch was started.
    pub(crate) fn add_port(&mut self, id: PortId, name: &str, port: Box<dyn Port>) {
        let n_waited = self
            .ports
            .iter()
            .filter(|port| port.wait_place.is_some())
            .count();
        // The first place is the mailbox's.
        let wait_place = port.poll_fd().map(|_| n_waited + 1);
        self.places[usize::from(id.0)] = Some(self.ports.len());
        self.switch.add_port(id);
        self.statuses.push(PortStatus {
            id,
            name: name.to_owned(),
            rx_dropped: 0,
            tx_dropped: 0,
        });
        self.ports.push(AttachedPort {
            id,
            port,
            wait_place,
        });
    }

    /// Says what it does while there is nothing to do. With a virtual clock there is always something.
    pub(crate) fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
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
            self.waiter.wait([self.mailbox.waker().as_fd()], None)?;
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
        while !self.mailbox.is_stopped() {
            if self.is_spinning() {
                self.look_around()?;
                self.turn(after)?;
                continue;
            }
            let next = self.next_event(after);
            if next.is_none() && after == AfterReplay::End {
                break;
            }
            let timeout = next.map(|at| self.clock.until(at));
            let ports = self
                .ports
                .iter()
                .filter_map(|attached| attached.port.poll_fd());
            let descriptors = std::iter::once(self.mailbox.waker().as_fd()).chain(ports);
            self.waiter.wait(descriptors, timeout)?;
            self.is_woken = self.waiter.is_ready(0);
            self.turn(after)?;
        }
        Ok(())
    }

    /// Every now and then, whether somebody woke the loop.
    fn look_around(&mut self) -> Result<(), LoopError> {
        self.n_spins = self.n_spins.wrapping_add(1);
        self.is_woken = false;
        if self.n_spins.is_multiple_of(SPINS_PER_LOOK) {
            let mailbox = [self.mailbox.waker().as_fd()];
            self.waiter.wait(mailbox, Some(Duration::ZERO))?;
            self.is_woken = self.waiter.is_ready(0);
        }
        Ok(())
    }

    /// Finishes the ports: capture files are whole after it.
    pub(crate) fn close(&mut self) -> Result<(), LoopError> {
        for attached in &mut self.ports {
            let id = attached.id;
            attached
                .port
                .close()
                .map_err(|source| LoopError::Port { id, source })?;
        }
        Ok(())
    }

    /// Everything counted.
    pub(crate) fn totals(&mut self) -> Totals {
        let ports = self
            .ports
            .iter_mut()
            .zip(&self.statuses)
            .map(|(attached, status)| {
                let statistics = attached.port.statistics();
                PortTotals {
                    id: attached.id,
                    name: status.name.clone(),
                    statistics,
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
        let has_unsent = self.ports.iter().any(|place| place.port.has_unsent());
        let retry = has_unsent.then(|| self.clock.now() + UNSENT_RETRY_NS);
        frames.chain(queues).chain(retry).min()
    }

    fn turn(&mut self, after: AfterReplay) -> Result<(), LoopError> {
        if self.is_woken {
            self.mailbox.waker().clear();
            self.run_work()?;
        }
        let now = self.clock.now();
        if self.switch.poll_timeout().is_some_and(|at| at <= now) {
            self.switch.handle_timeout(now);
            self.run_switch(now)?;
        }
        if !self.is_held(after) {
            for place in 0..self.ports.len() {
                let n_frames = self.receive(place, now)?;
                // What follows is as late as it is.
                let now = match n_frames {
                    0 => now,
                    _ => self.clock.now(),
                };
                self.run_switch(now)?;
            }
        }
        self.finish_turn()
    }

    /// Ready or due frames of one port, up to a batch, into the switch.
    fn receive(&mut self, place: usize, now: Nanos) -> Result<usize, LoopError> {
        let is_spinning = self.is_spinning();
        let EventLoop {
            switch,
            ports,
            waiter,
            ..
        } = self;
        let AttachedPort {
            id,
            port,
            wait_place,
        } = &mut ports[place];
        let is_due = || port.next_frame_at().is_some_and(|at| at <= now);
        if !wait_place.map_or_else(is_due, |place| is_spinning || waiter.is_ready(place)) {
            return Ok(0);
        }
        let id = *id;
        port.receive(now, RX_BATCH_FRAMES, &mut |frame| {
            switch.handle_frame(now, id, frame)
        })
        .map_err(|source| LoopError::Port { id, source })
    }

    /// A few frames more, where the switch wants to know their priorities before their turn. Ports
    /// take turns. Captures wait: their time has not come.
    fn look_ahead(&mut self, now: Nanos) -> Result<(), LoopError> {
        let mut n_wanted = self.switch.n_frames_wanted();
        for _ in 0..self.ports.len() {
            if n_wanted == 0 {
                break;
            }
            self.look_at = (self.look_at + 1) % self.ports.len();
            let AttachedPort {
                id,
                port,
                wait_place: Some(_),
            } = &mut self.ports[self.look_at]
            else {
                continue;
            };
            let (id, switch) = (*id, &mut self.switch);
            let n_frames = port
                .receive(now, n_wanted, &mut |frame| {
                    switch.handle_frame(now, id, frame)
                })
                .map_err(|source| LoopError::Port { id, source })?;
            n_wanted = n_wanted.saturating_sub(n_frames);
        }
        Ok(())
    }

    /// Runs the switch until nothing can run, and queues what leaves at the ports.
    fn run_switch(&mut self, mut now: Nanos) -> Result<(), LoopError> {
        while self.send(now)? {
            now = self.clock.now();
            self.look_ahead(now)?;
        }
        while let Some(frame) = self.switch.poll_packet_in() {
            if !self.mailbox.publish_packet_in(frame) {
                self.packet_ins_unclaimed += 1;
            }
        }
        Ok(())
    }

    /// Queues a few frames at the ports; false if nothing more leaves now.
    fn send(&mut self, now: Nanos) -> Result<bool, LoopError> {
        let EventLoop {
            switch,
            ports,
            places,
            ..
        } = self;
        for _ in 0..CLOCK_BATCH_FRAMES {
            let Some(transmit) = switch.poll_transmit(now) else {
                return Ok(false);
            };
            let id = transmit.port;
            // The switch transmits to ports that were added, and to no others.
            let Some(place) = places.get(usize::from(id.0)).copied().flatten() else {
                continue;
            };
            ports[place]
                .port
                .transmit(now, [transmit.head, transmit.payload])
                .map_err(|source| LoopError::Port { id, source })?;
        }
        Ok(true)
    }

    fn run_work(&mut self) -> Result<(), LoopError> {
        let mut n_done = 0;
        while let Some(work) = self.mailbox.next_work() {
            if n_done == 0 {
                self.refresh_statuses();
            }
            let now = self.clock.now();
            work(&mut SwitchContext {
                switch: &mut self.switch,
                now,
                ports: &self.statuses,
                drain_waiters: &mut self.drain_waiters,
            });
            // A packet-out goes its way before the next piece of work can change that.
            self.run_switch(now)?;
            n_done += 1;
            if n_done == WORK_BATCH {
                self.mailbox.waker().wake();
                break;
            }
        }
        Ok(())
    }

    fn refresh_statuses(&mut self) {
        for (attached, status) in self.ports.iter_mut().zip(&mut self.statuses) {
            let statistics = attached.port.statistics();
            status.rx_dropped = statistics.rx_dropped();
            status.tx_dropped = statistics.tx_dropped();
        }
    }

    /// What was queued at the ports leaves before anybody is told that it has.
    fn finish_turn(&mut self) -> Result<(), LoopError> {
        for attached in &mut self.ports {
            let id = attached.id;
            attached
                .port
                .flush()
                .map_err(|source| LoopError::Port { id, source })?;
        }
        self.drain_waiters.notify(&self.switch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use dataplane::{ActionCall, MatchField, Program, SwitchConfig, TableEntry};
    use p4runtime_server::SwitchHandle;
    use packet_io::{MemoryPort, memory_pair};

    use super::*;
    use crate::handle::{LoopHandle, mailbox};

    const PATIENCE: Duration = Duration::from_secs(5);
    const CPU_PORT: u8 = 254;

    /// A loop with ports 1 and 2 whose program forwards as `routes` says; the cables' other ends.
    fn forwarder(routes: &[(u8, u8)]) -> (EventLoop, LoopHandle, MemoryPort, MemoryPort) {
        let (handle, mailbox) = mailbox().expect("a mailbox");
        let config = SwitchConfig {
            cpu_port: Some(PortId(u16::from(CPU_PORT))),
            ..SwitchConfig::default()
        };
        let mut switch = Switch::new(config);
        let program = Program::from_json_str(include_str!("../tests/programs/forward.json"));
        switch.set_program(program.expect("a sound program"));
        routes
            .iter()
            .for_each(|(from, to)| add_route(&mut switch, *from, *to));
        let mut event_loop = EventLoop::new(switch, Clock::monotonic(), mailbox);
        let (inner_1, outer_1) = memory_pair("inner 1", "outer 1").expect("a cable");
        let (inner_2, outer_2) = memory_pair("inner 2", "outer 2").expect("a cable");
        event_loop.add_port(PortId(1), "one", Box::new(inner_1));
        event_loop.add_port(PortId(2), "two", Box::new(inner_2));
        (event_loop, handle, outer_1, outer_2)
    }

    fn add_route(switch: &mut Switch, from: u8, to: u8) {
        let program = switch.program().expect("a program");
        let table = program.table("ingress.forward").expect("the table");
        let action = program
            .action_of(table, "ingress.send")
            .expect("the action");
        let call = ActionCall {
            action,
            args: vec![vec![to]],
        };
        let entry = TableEntry::new(vec![MatchField::Exact(vec![from])], 0, call);
        switch.insert_entry(table, entry).expect("a new entry");
    }

    fn receive(port: &mut MemoryPort, n_frames: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut waiter) = (Vec::new(), Waiter::default());
        while frames.len() < n_frames {
            waiter
                .wait(port.poll_fd(), Some(PATIENCE))
                .expect("waiting");
            assert!(
                waiter.is_ready(0),
                "only {} of {n_frames} frames came",
                frames.len()
            );
            port.receive(0, n_frames, &mut |frame| frames.push(frame.to_vec()))
                .expect("frames");
        }
        frames
    }

    #[test]
    fn frames_pass_between_the_ports_until_the_loop_is_stopped() {
        for wait in [Wait::Sleep, Wait::Spin] {
            frames_pass(wait);
        }
    }

    fn frames_pass(wait: Wait) {
        let (mut event_loop, handle, mut one, mut two) = forwarder(&[(1, 2), (2, 1)]);
        event_loop.set_wait(wait);
        let running = thread::spawn(move || {
            event_loop.run(AfterReplay::Serve).expect("no error");
            event_loop.totals().to_json()
        });
        // More than one batch.
        for number in 0..=255 {
            one.transmit(0, [&[number; 60], &[]]).expect("sending");
        }
        two.transmit(0, [&[7; 40], &[7; 60]]).expect("sending");
        let there: Vec<u8> = receive(&mut two, 256)
            .iter()
            .map(|frame| frame[0])
            .collect();
        assert_eq!(there, (0..=255).collect::<Vec<u8>>());
        assert_eq!(receive(&mut one, 1), [vec![7; 100]]);
        handle.stop();
        let totals = running.join().expect("the loop ends");
        assert!(totals.contains("\"transmitted\":257"), "{totals}");
    }

    /// A port whose kernel takes frames only at the third try.
    struct ReluctantPort {
        frames: Vec<Vec<u8>>,
        tries_left: u32,
        out: mpsc::Sender<Vec<u8>>,
    }

    impl Port for ReluctantPort {
        fn name(&self) -> &str {
            "reluctant"
        }

        fn receive(
            &mut self,
            _now: Nanos,
            _max_frames: usize,
            _take: &mut dyn FnMut(&[u8]),
        ) -> Result<usize, PortError> {
            Ok(0)
        }

        fn transmit(&mut self, _now: Nanos, frame: [&[u8]; 2]) -> Result<(), PortError> {
            self.frames.push(frame.concat());
            self.tries_left = 3;
            Ok(())
        }

        fn flush(&mut self) -> Result<(), PortError> {
            self.tries_left = self.tries_left.saturating_sub(1);
            if self.tries_left == 0 {
                let mut frames = self.frames.drain(..);
                frames
                    .try_for_each(|frame| self.out.send(frame))
                    .expect("somebody waits");
            }
            Ok(())
        }

        fn has_unsent(&self) -> bool {
            !self.frames.is_empty()
        }

        fn statistics(&mut self) -> packet_io::PortStatistics {
            packet_io::PortStatistics::default()
        }
    }

    #[test]
    fn what_a_port_could_not_send_is_tried_again_without_another_event() {
        let (mut event_loop, handle, mut one, _two) = forwarder(&[(1, 3)]);
        let (out, sent) = mpsc::channel();
        let port = ReluctantPort {
            frames: Vec::new(),
            tries_left: 0,
            out,
        };
        event_loop.add_port(PortId(3), "three", Box::new(port));
        let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
        one.transmit(0, [&[9; 60], &[]]).expect("sending");
        let frame = sent.recv_timeout(PATIENCE).expect("the frame leaves");
        assert_eq!(frame, [9; 60]);
        handle.stop();
        running.join().expect("the loop ends").expect("no error");
    }

    #[test]
    fn work_runs_in_order_with_its_frames_between() {
        for wait in [Wait::Sleep, Wait::Spin] {
            work_runs_in_order(wait);
        }
    }

    fn work_runs_in_order(wait: Wait) {
        let (mut event_loop, handle, _one, mut two) = forwarder(&[]);
        event_loop.set_wait(wait);
        for number in 0..3 * WORK_BATCH as u8 {
            handle.submit(Box::new(move |context| {
                let (cpu_port, to) = (PortId(u16::from(CPU_PORT)), 2 - number % 2);
                add_route(context.switch, CPU_PORT, to);
                context
                    .switch
                    .handle_frame(context.now, cpu_port, &[number; 60]);
            }));
            // The frame has gone by the old route when this removes it.
            handle.submit(Box::new(|context| {
                let program = context.switch.program().expect("a program");
                let table = program.table("ingress.forward").expect("the table");
                let key = [MatchField::Exact(vec![CPU_PORT])];
                context
                    .switch
                    .delete_entry(table, &key, 0)
                    .expect("the entry");
            }));
        }
        let stopper = handle.clone();
        handle.submit(Box::new(move |_| stopper.stop()));
        event_loop.run(AfterReplay::Serve).expect("no error");
        let came: Vec<u8> = receive(&mut two, WORK_BATCH * 3 / 2)
            .iter()
            .map(|f| f[0])
            .collect();
        let expected: Vec<u8> = (0..3 * WORK_BATCH as u8).filter(|n| n % 2 == 0).collect();
        assert_eq!(came, expected);
    }

    #[test]
    fn a_drain_is_told_of_when_its_frames_have_left() {
        let (mut event_loop, handle, _one, mut two) = forwarder(&[(1, 2)]);
        let (done, is_done) = mpsc::channel();
        let stopper = handle.clone();
        handle.submit(Box::new(move |context| {
            context
                .switch
                .handle_frame(context.now, PortId(1), &[5; 60]);
            let token = context.switch.begin_drain();
            let tell = move || {
                done.send(()).expect("somebody waits");
                stopper.stop();
            };
            context.drain_waiters.push(token, Box::new(tell));
        }));
        event_loop.run(AfterReplay::Serve).expect("no error");
        is_done.try_recv().expect("told");
        assert_eq!(receive(&mut two, 1), [vec![5; 60]]);
    }

    #[test]
    fn frames_to_the_cpu_port_go_to_those_who_subscribed() {
        let (mut event_loop, handle, mut one, _two) = forwarder(&[(1, CPU_PORT)]);
        let (sender, mut packet_ins) = tokio::sync::mpsc::unbounded_channel();
        handle.subscribe_packet_in(sender);
        one.transmit(0, [&[3; 60], &[]]).expect("sending");
        let running = thread::spawn(move || event_loop.run(AfterReplay::Serve));
        assert_eq!(packet_ins.blocking_recv(), Some(vec![3; 60]));
        handle.stop();
        running.join().expect("the loop ends").expect("no error");
    }

    #[test]
    fn only_work_is_served_until_what_it_waits_for_is_there() {
        let (mut event_loop, handle, mut one, mut two) = forwarder(&[(1, 2)]);
        one.transmit(0, [&[1; 60], &[]]).expect("sending");
        let (done, is_done) = mpsc::channel();
        let waker = handle.clone();
        handle.submit(Box::new(move |context| {
            done.send(context.switch.counters().received)
                .expect("somebody waits");
            waker.wake();
        }));
        let mut received = None;
        let is_over = || {
            received = is_done.try_recv().ok();
            received.is_some()
        };
        assert!(event_loop.serve_work_until(is_over).expect("no error"));
        assert_eq!(received, Some(0));
        assert_eq!(two.receive(0, 1, &mut |_| ()).expect("receiving"), 0);
        handle.stop();
        assert!(!event_loop.serve_work_until(|| false).expect("no error"));
    }
}
