//! The door: frames and control calls in, frames, packet-ins and digests out.

use std::collections::VecDeque;

use crate::{
    Digest, DropReason, IdleTimeout, LatencyReport, Nanos, PortId, Program, RecentMaxima, Stream,
    SwitchConfig, SwitchCounters, TraceSink, Transmit,
    engine::{
        EgressOutcome, Engine, EngineFactory, IngressOutcome, InstanceType, Interpreted,
        PacketHandle, State,
    },
    generator::Generator,
    interpreter::parts::InterpreterFactory,
    limits,
    trace::{NameId, TraceKind},
    traffic_manager::{
        TrafficManager,
        latency::Latencies,
        look_ahead::LookAhead,
        packet::{Common, IngressPacket},
        queue::Departure,
    },
    v1model::{Passed, PortTally},
};

/// An epoch that began with [`Switch::begin_drain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainToken(u64);

/// The switch: a pure state machine, (program, state, time, frame) to frames.
///
/// Scheduling is part of the semantics: egress work first, then recirculated and resubmitted
/// packets, then new frames. So one packet's passes run back to back unless a rate holds a queue.
/// Where the program gives priorities, new frames go through ingress now and then while copies
/// wait, so that one of a high priority overtakes them: `traffic_manager/look_ahead.rs`.
pub struct Switch {
    config: SwitchConfig,
    factory: Box<dyn EngineFactory>,
    /// None as long as there is no program.
    pub(crate) engine: Option<Box<dyn Engine>>,
    /// The engine is to be changed as soon as it holds no packet.
    is_engine_outdated: bool,
    pub(crate) state: State,
    pub(crate) traffic: TrafficManager,
    /// What [`Switch::poll_transmit`] gave last, which the engine holds until the next call.
    sent: Option<PacketHandle>,
    pub(crate) packet_ins: VecDeque<Vec<u8>>,
    pub(crate) digests: VecDeque<Digest>,
    pub(crate) idle_timeouts: VecDeque<IdleTimeout>,
    /// By number.
    pub(crate) generators: Vec<Generator>,
    pub(crate) latencies: Latencies,
    pub(crate) look_ahead: LookAhead,
    /// Empty, between one row of copies and the next.
    pub(crate) tallies: Vec<PortTally>,
    /// As the engine has it.
    pub(crate) fuses_fanout: bool,
    /// As the program has it ([`Switch::is_timed`]).
    is_timed: bool,
    epoch: u64,
    n_frames: u64,
    generation: u64,
}

/// What a step of the switch came to.
pub(crate) enum Step {
    /// Nothing can run now.
    Idle,
    /// A pass ran, and nothing has left.
    Ran,
    /// A frame leaves.
    Sent(PortId, PacketHandle),
}

impl Switch {
    /// A switch without ports and without a program: every frame is dropped. The reference
    /// interpreter runs its programs.
    pub fn new(config: SwitchConfig) -> Self {
        Self::with_engine(config, Box::new(InterpreterFactory))
    }

    /// A switch like [`Switch::new`]'s whose programs an engine of this kind runs.
    pub fn with_engine(config: SwitchConfig, factory: Box<dyn EngineFactory>) -> Self {
        Self {
            traffic: TrafficManager::new(&config),
            state: State::new(&config),
            config,
            factory,
            engine: None,
            is_engine_outdated: false,
            sent: None,
            packet_ins: VecDeque::new(),
            digests: VecDeque::new(),
            idle_timeouts: VecDeque::new(),
            generators: Vec::new(),
            latencies: Latencies::default(),
            look_ahead: LookAhead::default(),
            tallies: Vec::new(),
            fuses_fanout: false,
            is_timed: false,
            epoch: 0,
            n_frames: 0,
            generation: 0,
        }
    }

    /// What the switch was made with.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// The engine that was chosen, as `--engine` names it.
    pub fn engine_name(&self) -> &'static str {
        self.factory.name()
    }

    /// What the engine leaves to the interpreter in the loaded program.
    pub fn interpreted(&self) -> Vec<Interpreted> {
        let engine = self.engine.as_ref();
        engine.map_or_else(Vec::new, |engine| engine.interpreted())
    }

    /// Adds a port. Frames from a port that was not added are dropped and counted, and so are
    /// those to one; the CPU port needs no adding.
    pub fn add_port(&mut self, port: PortId) {
        self.state.counters.add_port(port);
    }

    /// Replaces the program. All state is cleared: tables, registers, counters, groups, sessions,
    /// digests; the packets inside are dropped and counted. The switch's own counters of ports
    /// and drops go on, and so do its generators.
    pub fn set_program(&mut self, program: Program) {
        while let Some(common) = self.next_waiting() {
            let pass = common.pass();
            self.state.tracer.set_packet(0, common.name, pass);
            self.count_drop(DropReason::PipelineChanged);
            self.leave(&common);
        }
        self.traffic = TrafficManager::new(&self.config);
        self.generation = 0;
        self.digests.clear();
        self.idle_timeouts.clear();
        self.latencies.clear_streams();
        self.look_ahead = LookAhead::new(program.ir.gives_priorities());
        self.is_timed = program.ir.tells_time_inside();
        self.state.set_program(program, &self.config);
        self.load_engine();
    }

    /// As [`Switch::set_program`], with a name for the program that it is known by as long as it is
    /// loaded. What was made for a program, an entry or a packet-out, asks whether it is there still.
    pub fn set_program_as(&mut self, program: Program, generation: u64) {
        self.set_program(program);
        self.generation = generation;
    }

    /// The name of the program; 0 if it has none.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes a packet out of its queue, in the order in which they would run.
    fn next_waiting(&mut self) -> Option<Common> {
        let traffic = &mut self.traffic;
        let mut next = traffic.ingress.pop_front();
        if next.is_none() {
            next = traffic.recirculation.pop(Nanos::MAX);
        }
        match next {
            Some(waiting) => Some(waiting.common),
            None => Some(traffic.egress.pop(Nanos::MAX)?.packet.common),
        }
    }

    /// Makes the engine for the program as it is: the one that was chosen, or the interpreter as
    /// long as somebody wants to be told what happens.
    fn load_engine(&mut self) {
        self.is_engine_outdated = false;
        self.sent = None;
        let state = &mut self.state;
        self.engine = Some(if state.tracer.is_on() && !self.factory.traces() {
            InterpreterFactory.load(state)
        } else {
            self.factory.load(state)
        });
        self.fuses_fanout = self.engine.as_ref().is_some_and(|it| it.fuses_fanout());
    }

    /// The loaded program.
    pub fn program(&self) -> Option<&Program> {
        self.engine.as_ref().map(|_| &self.state.program)
    }

    /// Takes a frame in. Cheap: the work is done by [`Switch::poll_transmit`], to be called
    /// afterwards until it gives none. A packet-out is a frame from the CPU port.
    pub fn handle_frame(&mut self, now: Nanos, port: PortId, frame: &[u8]) {
        let now = self.advance(now);
        let name = self.begin_frame(now, port, frame);
        if let Some(counters) = self.state.counters.port_mut(port) {
            counters.rx_packets += 1;
            counters.rx_bytes += frame.len() as u64;
        } else if self.config.cpu_port != Some(port) {
            self.refuse(name, DropReason::PortUnknown);
            return;
        }
        self.admit(now, port, frame, name);
    }

    /// Takes a generator's frame in, as if it had come by a port, which need not be there; whether it
    /// has come in.
    pub(crate) fn take_in(&mut self, now: Nanos, port: PortId, frame: &[u8]) -> bool {
        let name = self.begin_frame(now, port, frame);
        self.state.counters.generated += 1;
        self.admit(now, port, frame, name)
    }

    /// A frame is there, and is told of.
    #[inline]
    fn begin_frame(&mut self, now: Nanos, port: PortId, frame: &[u8]) -> NameId {
        self.n_frames += 1;
        let State {
            tracer, counters, ..
        } = &mut self.state;
        counters.received += 1;
        let name = tracer.name_frame(self.n_frames);
        tracer.set_packet(now, name, 1);
        tracer.emit(|| TraceKind::Arrive {
            port,
            frame_len_bytes: frame.len(),
        });
        name
    }

    /// Queues a frame for ingress, or refuses it; whether it was queued.
    #[inline]
    fn admit(&mut self, now: Nanos, port: PortId, frame: &[u8], name: NameId) -> bool {
        if self.is_engine_outdated && self.packets_inside() == 0 {
            self.load_engine();
        }
        let Some(engine) = &mut self.engine else {
            return self.refuse(name, DropReason::NoPipeline);
        };
        if frame.len() > limits::FRAME_BYTES_MAX {
            return self.refuse(name, DropReason::FrameTooLong);
        }
        if self.traffic.ingress.len() >= self.traffic.ingress_capacity {
            return self.refuse(name, DropReason::IngressQueueFull);
        }
        self.traffic.inside.enter(self.epoch);
        self.traffic.ingress.push_back(IngressPacket {
            common: Common {
                epoch: self.epoch,
                name,
                arrived: now,
                stream: Stream::Unicast,
                ingress_port: port,
                ingress_bytes: frame.len(),
                recirculations: 0,
                resubmits: 0,
                clone_generation: 0,
            },
            packet: engine.receive(frame),
            instance_type: InstanceType::Normal,
        });
        true
    }

    /// Drops a frame that has not come in, which is false.
    fn refuse(&mut self, name: NameId, reason: DropReason) -> bool {
        self.count_drop(reason);
        self.state.tracer.forget(name);
        false
    }

    /// Time never goes back, whatever is given.
    pub(crate) fn advance(&mut self, now: Nanos) -> Nanos {
        self.state.now = self.state.now.max(now);
        self.state.now
    }

    /// Runs passes until a frame leaves, or nothing can run at `now`. To be called until it gives
    /// none, after every `handle_frame` and `handle_timeout`.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let now = self.advance(now);
        // The engine is moved out for the time of the passes, which borrow the rest.
        let mut engine = self.take_engine()?;
        let sent = loop {
            match self.step(&mut *engine, now) {
                Step::Idle => break None,
                Step::Ran => {}
                Step::Sent(port, packet) => break Some((port, packet)),
            }
        };
        let engine = self.engine.insert(engine);
        let (port, packet) = sent?;
        self.sent = Some(packet);
        Some(Transmit {
            port,
            frame: engine.frame(packet),
        })
    }

    /// Whether the program is told how long packets have been inside. What it is told is as right as the
    /// times that are given: by [`Switch::transmit_step`], one a pass.
    pub fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// The engine, for some passes; what it was kept busy with is over.
    pub(crate) fn take_engine(&mut self) -> Option<Box<dyn Engine>> {
        let mut engine = self.engine.take()?;
        if let Some(sent) = self.sent.take() {
            engine.discard(sent);
        }
        Some(engine)
    }

    pub(crate) fn put_back_engine(&mut self, engine: Box<dyn Engine>) {
        self.engine = Some(engine);
    }

    /// Runs one pass, and those that follow it without a queue in between.
    pub(crate) fn step(&mut self, engine: &mut dyn Engine, now: Nanos) -> Step {
        let mut next = None;
        if self.is_look_ahead_due()
            && let Some(packet) = self.traffic.ingress.pop_front()
        {
            let n_dropped = self.state.counters.dropped_total();
            self.ingress_pass(engine, now, &packet, &mut next);
            let was_in_vain = self.state.counters.dropped_total() > n_dropped;
            self.look_ahead.pay(was_in_vain);
        } else if let Some(departure) = self.traffic.egress.pop(now) {
            return self.egress_step(engine, now, &departure);
        } else if let Some(packet) = self.traffic.recirculation.pop(now) {
            self.ingress_pass(engine, now, &packet, &mut next);
        } else if let Some(packet) = self.traffic.ingress.pop_front() {
            self.ingress_pass(engine, now, &packet, &mut next);
        } else {
            return Step::Idle;
        }
        match &next {
            Some(departure) => self.egress_step(engine, now, departure),
            None => Step::Ran,
        }
    }

    #[inline]
    fn egress_step(&mut self, engine: &mut dyn Engine, now: Nanos, departure: &Departure) -> Step {
        let mut next = None;
        self.look_ahead.earn();
        let passed = self.egress_pass(engine, now, departure, &mut next);
        self.follow(engine, now, passed, next)
    }

    /// What is left of a step whose ingress pass came to something.
    #[cold]
    pub(crate) fn ingress_rest(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        waiting: &IngressPacket,
        outcome: IngressOutcome,
    ) -> Step {
        let mut next = None;
        self.after_ingress(engine, now, waiting, outcome, &mut next);
        match &next {
            Some(departure) => self.egress_step(engine, now, departure),
            None => Step::Ran,
        }
    }

    /// What is left of a step whose egress pass came to something.
    #[cold]
    pub(crate) fn egress_rest(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        common: &Common,
        port: PortId,
        outcome: EgressOutcome,
    ) -> Step {
        let mut next = None;
        let passed = self.after_egress(engine, now, common, port, outcome, &mut next);
        self.follow(engine, now, passed, next)
    }

    /// Clones that leave as soon as their parent's pass is over, and theirs.
    #[inline]
    fn follow(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        mut passed: Passed,
        mut one: Option<Departure>,
    ) -> Step {
        // Clones in a row are written to one place and the other: not moved from hand to hand.
        let mut other = None;
        let (mut next, mut behind) = (&mut one, &mut other);
        let mut n_in_a_row = 0;
        while let (Passed::On, Some(departure)) = (&passed, &*next) {
            if n_in_a_row == limits::CLONES_IN_A_ROW_MAX {
                self.wait_at_egress(now, departure);
                return Step::Ran;
            }
            n_in_a_row += 1;
            self.look_ahead.earn();
            *behind = None;
            passed = self.egress_pass(engine, now, departure, behind);
            std::mem::swap(&mut next, &mut behind);
        }
        match passed {
            Passed::Out(port, packet) => Step::Sent(port, packet),
            Passed::Nothing | Passed::On => Step::Ran,
        }
    }

    /// A packet that would have gone on without a queue takes its place in it after all.
    #[cold]
    fn wait_at_egress(&mut self, now: Nanos, departure: &Departure) {
        let Departure {
            place,
            queue,
            packet,
            ..
        } = departure;
        self.traffic.egress.push(now, *place, *queue, *packet);
    }

    /// Whether a packet that is queued now would be the next thing that runs.
    pub(crate) fn is_next_at_egress(&self) -> bool {
        let is_frame_looked_at = self.look_ahead.is_due()
            && self.traffic.recirculation.is_empty()
            && !self.traffic.ingress.is_empty();
        // A packet whose program is told the time inside has a queue between ingress and egress, where
        // whoever calls can read his clock.
        self.traffic.egress.is_passable() && !is_frame_looked_at && !self.is_timed
    }

    /// A packet that recirculates has its passes back to back nevertheless.
    fn is_look_ahead_due(&self) -> bool {
        self.look_ahead.is_due()
            && !self.traffic.egress.is_empty()
            && self.traffic.recirculation.is_empty()
    }

    /// Egress passes that may run before the next look at a frame, where nothing recirculates.
    pub(crate) fn n_passes_before_look(&self) -> usize {
        match self.traffic.ingress.is_empty() {
            true => usize::MAX,
            false => self.look_ahead.n_passes_left(),
        }
    }

    /// How many frames, if there are any, are to be given though [`Switch::poll_transmit`] still
    /// gives some, so that their priorities count. To be asked after every sixteen frames that
    /// leave or so.
    pub fn n_frames_wanted(&self) -> usize {
        let wanted = self.look_ahead.n_frames_wanted();
        wanted.saturating_sub(self.traffic.ingress.len())
    }

    /// How long packets were in the switch.
    pub fn latency(&mut self) -> LatencyReport {
        self.latencies.report()
    }

    /// The longest times in the switch of what left since the last call, and the deepest queues.
    pub fn take_recent_maxima(&mut self) -> RecentMaxima {
        RecentMaxima {
            queues: self.traffic.egress.take_deepest().collect(),
            ..self.latencies.take_recent()
        }
    }

    /// The same whole, to be added to another switch's.
    pub fn latencies(&self) -> Latencies {
        self.latencies.clone()
    }

    /// A frame that went to the CPU port, with the packet-in header in front.
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.packet_ins.pop_front()
    }

    /// A digest for the control plane.
    pub fn poll_digest(&mut self) -> Option<Digest> {
        self.digests.pop_front()
    }

    /// When to call [`Switch::handle_timeout`] and [`Switch::poll_transmit`] again though no frame
    /// comes: the time at which a queue may let its next packet go, or an entry may be idle.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let departures = [
            self.traffic.egress.next_departure(),
            self.traffic.recirculation.next_departure(),
        ];
        let idle = self.state.tables.next_idle();
        departures.into_iter().flatten().chain(idle).min()
    }

    /// Tells that time has come to what [`Switch::poll_timeout`] said: looks for idle entries. The
    /// queues look at the time given to [`Switch::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.advance(now);
        self.sweep_idle_entries();
    }

    /// Starts a new epoch. Every packet carries the epoch in which its root frame arrived;
    /// clones, replicas and recirculated packets inherit it.
    pub fn begin_drain(&mut self) -> DrainToken {
        self.epoch += 1;
        DrainToken(self.epoch - 1)
    }

    /// Whether every packet that was inside at [`Switch::begin_drain`] has left or was counted as
    /// dropped.
    pub fn is_drained(&self, token: DrainToken) -> bool {
        self.traffic.inside.is_clear(token.0)
    }

    /// Packets inside: waiting in a queue.
    pub fn packets_inside(&self) -> u64 {
        self.traffic.inside.total()
    }

    /// Everything the switch counts on its own.
    pub fn counters(&self) -> &SwitchCounters {
        &self.state.counters
    }

    /// Sets or takes away who listens to what happens. An engine that does not tell what happens in
    /// a pass gives way to the interpreter and comes back after it; at once, or with the first
    /// frame that comes when no packet is inside.
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        let was_on = self.state.tracer.is_on();
        self.state.tracer.set_sink(sink);
        if self.state.tracer.is_on() != was_on && self.engine.is_some() && !self.factory.traces() {
            self.is_engine_outdated = !self.is_engine_outdated;
        }
        if self.is_engine_outdated && self.packets_inside() == 0 {
            self.load_engine();
        }
    }
}
