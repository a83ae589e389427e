//! The door: frames and control calls in, frames, packet-ins and digests out.

mod control;
mod generator;
mod offload;
pub(crate) mod ready;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{
    ControlError, Digest, DropReason, Frame, IdleTimeout, Latencies, LatencyReport, Nanos,
    PayloadExtern, PayloadSignature, PortId, Program, RecentMaxima, Stream, SwitchConfig,
    SwitchCounters, TraceSink, Transmit, Transmitted,
    engine::{Change, Engine, EngineFactory, InstanceType, Interpreted, State},
    interpreter::InterpreterFactory,
    limits,
    switch::{generator::Generator, offload::Attached},
    trace::{NameId, TraceKind},
    traffic_manager::packet::{Common, IngressPacket},
    v1model::{Run, V1Model},
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
    factory: Arc<dyn EngineFactory>,
    /// None as long as there is no program.
    pub(crate) engine: Option<Box<dyn Engine>>,
    /// The engine is to be changed as soon as it holds no packet.
    is_engine_outdated: bool,
    offload: Option<Attached>,
    /// Control calls belong together ([`Switch::begin_batch`]).
    is_in_batch: bool,
    pub(crate) model: V1Model,
    /// What [`Switch::poll_transmit`] gave last: its bytes, and how many of them the deparser wrote.
    sent: (Vec<u8>, usize),
    pub(crate) idle_timeouts: VecDeque<IdleTimeout>,
    /// By number.
    pub(crate) generators: Vec<Generator>,
    epoch: u64,
    n_frames: u64,
    generation: u64,
}

/// Nothing can run.
const NOTHING: Transmitted = Transmitted {
    n_frames: 0,
    is_idle: true,
};

impl Switch {
    /// A switch without ports and without a program: every frame is dropped. The reference
    /// interpreter runs its programs.
    pub fn new(config: SwitchConfig) -> Self {
        Self::with_engine(config, Box::new(InterpreterFactory))
    }

    /// A switch like [`Switch::new`]'s whose programs an engine of this kind runs.
    pub fn with_engine(config: SwitchConfig, factory: Box<dyn EngineFactory>) -> Self {
        Self::with_shared_engine(config, factory.into())
    }

    fn with_shared_engine(config: SwitchConfig, factory: Arc<dyn EngineFactory>) -> Self {
        Self {
            model: V1Model::new(&config),
            config,
            factory,
            engine: None,
            is_engine_outdated: false,
            offload: None,
            is_in_batch: false,
            sent: (Vec::new(), 0),
            idle_timeouts: VecDeque::new(),
            generators: Vec::new(),
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
        self.model.state.counters.add_port(port);
        self.tell(&Change::Port(port));
    }

    /// Adds an extern that changes payloads, by the name that programs call it by: those that are loaded
    /// from now on ([`Program::from_json_with`]). It stays whatever the program.
    ///
    /// # Errors
    /// [`ControlError`] where the name is taken, or the extern wants more than [`limits`] has.
    pub fn register_payload_extern(
        &mut self,
        name: &str,
        made: Box<dyn PayloadExtern>,
    ) -> Result<(), ControlError> {
        self.model.state.payloads.register(name, made)
    }

    /// The externs that programs of this switch may call.
    pub fn payload_signatures(&self) -> Vec<PayloadSignature> {
        let signatures = self.model.state.payloads.signatures();
        signatures.cloned().collect()
    }

    /// Replaces the program. All state is cleared: tables, registers, counters, groups, sessions,
    /// digests; the packets inside are dropped and counted. The switch's own counters of ports
    /// and drops go on, and so do its generators; a port that is down or disabled stays so. This takes as long as
    /// the engine takes to compile the program: who has packets that wait makes it ready elsewhere
    /// ([`Switch::set_ready_program`]).
    ///
    /// # Panics
    /// If the program calls an extern that is not registered with this switch.
    pub fn set_program(&mut self, program: Program) {
        self.set_program_as(program, 0);
    }

    /// As [`Switch::set_program`], with a name for the program that it is known by as long as it is
    /// loaded. What was made for a program, an entry or a packet-out, asks whether it is there still.
    pub fn set_program_as(&mut self, program: Program, generation: u64) {
        let mut ready = self.loader().load(program);
        self.set_ready_program(&mut ready, generation);
    }

    /// The name of the program; 0 if it has none.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the engine for the program as it is: the one that was chosen, or the interpreter as
    /// long as somebody wants to be told what happens.
    fn load_engine(&mut self) {
        self.load_engine_as(self.is_interpreted());
    }

    /// Whether the interpreter takes the engine's place, since somebody listens to a trace.
    fn is_interpreted(&self) -> bool {
        self.model.state.tracer.is_on() && !self.factory.traces()
    }

    fn load_engine_as(&mut self, is_interpreted: bool) {
        self.is_engine_outdated = false;
        let state = &mut self.model.state;
        let engine = match is_interpreted {
            true => InterpreterFactory.load(state),
            false => self.factory.load(state),
        };
        self.model.fuses_fanout = engine.fuses_fanout();
        self.engine = Some(engine);
    }

    /// The loaded program.
    pub fn program(&self) -> Option<&Program> {
        self.engine.as_ref().map(|_| &self.model.state.program)
    }

    /// Takes a frame in. Cheap: the work is done by [`Switch::poll_transmit`], to be called
    /// afterwards until it gives none. A packet-out is a frame from the CPU port.
    pub fn handle_frame(&mut self, now: Nanos, port: PortId, frame: &[u8]) {
        let now = self.model.state.advance(now);
        let name = self.begin_frame(now, port, frame);
        let state = &mut self.model.state;
        if let Some(counters) = state.counters.port_mut(port) {
            if state.ports_disabled.contains(port) {
                counters.rx_disabled += 1;
                self.refuse(name, DropReason::PortDisabled);
                return;
            }
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
        self.model.state.counters.generated += 1;
        self.admit(now, port, frame, name)
    }

    /// A frame is there, and is told of.
    #[inline]
    fn begin_frame(&mut self, now: Nanos, port: PortId, frame: &[u8]) -> NameId {
        self.n_frames += 1;
        let State {
            tracer, counters, ..
        } = &mut self.model.state;
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
        if self.is_engine_outdated && self.is_engine_empty() {
            self.load_engine();
        }
        let Some(engine) = &mut self.engine else {
            return self.refuse(name, DropReason::NoPipeline);
        };
        if frame.len() > limits::FRAME_BYTES_MAX {
            return self.refuse(name, DropReason::FrameTooLong);
        }
        if self.model.traffic.ingress.len() >= self.model.traffic.ingress_capacity {
            return self.refuse(name, DropReason::IngressQueueFull);
        }
        self.model.traffic.inside.enter(self.epoch);
        self.model.traffic.ingress.push_back(IngressPacket {
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
        self.model.state.count_drop(reason);
        self.model.state.tracer.forget(name);
        false
    }

    /// The architecture at work; none without a program.
    fn run<T>(
        &mut self,
        now: Nanos,
        send: &mut dyn FnMut(Transmit<'_>),
        work: impl FnOnce(&mut Run<'_>) -> T,
    ) -> Option<T> {
        self.model.state.advance(now);
        let mut run = Run {
            model: &mut self.model,
            engine: &mut **self.engine.as_mut()?,
            send,
            n_prefetched: 0,
        };
        Some(work(&mut run))
    }

    /// Runs passes until a frame leaves, or nothing can run at `now`. To be called until it gives
    /// none, after every `handle_frame` and `handle_timeout`. Copies the frame; who can take it where
    /// the engine has it calls [`Switch::transmit`].
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let (mut bytes, mut n_head) = std::mem::take(&mut self.sent);
        let mut port = None;
        let mut keep = |sent: Transmit<'_>| {
            bytes.clear();
            bytes.extend_from_slice(sent.frame.head);
            bytes.extend_from_slice(sent.frame.payload);
            n_head = sent.frame.head.len();
            port = Some(sent.port);
        };
        self.run(now, &mut keep, |run| while run.turn(1) == Some(0) {});
        self.sent = (bytes, n_head);
        let (head, payload) = self.sent.0.split_at(n_head);
        Some(Transmit {
            port: port?,
            frame: Frame {
                head,
                payload,
                payload_id: 0,
            },
        })
    }

    /// As that many calls of [`Switch::poll_transmit`], but cheaper for each frame, and bounded:
    /// gives the frames to `send`. Less than `max_frames` leave if nothing more can run at `now`, or
    /// if as many turns and [`limits::STEPS_IN_VAIN_MAX`] more were made: packets may recirculate, or
    /// be dropped, as long as they like, and whoever calls has other things to do.
    pub fn transmit(
        &mut self,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> Transmitted {
        let transmitted = self.run(now, send, |run| run.transmit(max_frames));
        transmitted.unwrap_or(NOTHING)
    }

    /// As [`Switch::transmit`], but one turn: a pass, and those that follow it without a queue between,
    /// of which no more than one frame comes. For a caller that reads its clock before each
    /// ([`Switch::is_timed`]).
    pub fn transmit_step(&mut self, now: Nanos, send: &mut dyn FnMut(Transmit<'_>)) -> Transmitted {
        let sent = self.run(now, send, |run| run.turn(1)).flatten();
        sent.map_or(NOTHING, |n_frames| Transmitted {
            n_frames,
            is_idle: false,
        })
    }

    /// Whether the program is told how long packets have been inside. What it is told is as right as the
    /// times that are given: by [`Switch::transmit_step`], one a pass.
    pub fn is_timed(&self) -> bool {
        self.model.is_timed
    }

    /// How many frames, if there are any, are to be given though [`Switch::poll_transmit`] still
    /// gives some, so that their priorities count. To be asked after every sixteen frames that
    /// leave or so.
    pub fn n_frames_wanted(&self) -> usize {
        let wanted = self.model.traffic.look_ahead.n_frames_wanted();
        wanted.saturating_sub(self.model.traffic.ingress.len())
    }

    /// How long packets were in the switch.
    pub fn latency(&mut self) -> LatencyReport {
        self.collect();
        self.model.latencies.report()
    }

    /// The longest times in the switch of what left since the last call, and the deepest queues.
    pub fn take_recent_maxima(&mut self) -> RecentMaxima {
        self.collect();
        RecentMaxima {
            queues: self.model.traffic.egress.take_deepest().collect(),
            ..self.model.latencies.take_recent()
        }
    }

    /// The same whole, to be added to another switch's.
    pub fn latencies(&self) -> Latencies {
        self.model.latencies.clone()
    }

    /// A frame that went to the CPU port, with the packet-in header in front.
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.model.packet_ins.pop_front()
    }

    /// A digest for the control plane.
    pub fn poll_digest(&mut self) -> Option<Digest> {
        self.model.digests.pop()
    }

    /// When to call [`Switch::handle_timeout`] and [`Switch::poll_transmit`] again though no frame
    /// comes: the time at which a queue may let its next packet go, or an entry may be idle.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let departures = [
            self.model.traffic.egress.next_departure(),
            self.model.traffic.recirculation.next_departure(),
        ];
        let idle = self.model.state.tables.next_idle();
        departures.into_iter().flatten().chain(idle).min()
    }

    /// Tells that time has come to what [`Switch::poll_timeout`] said: looks for idle entries. The
    /// queues look at the time given to [`Switch::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.model.state.advance(now);
        if self.model.state.tables.next_idle().is_some() {
            self.collect();
        }
        self.sweep_idle_entries();
    }

    /// Starts a new epoch. Every packet carries the epoch in which its root frame arrived;
    /// clones, replicas and recirculated packets inherit it.
    pub fn begin_drain(&mut self) -> DrainToken {
        if let Some(offload) = &mut self.offload {
            offload.begin_drain(self.epoch);
        }
        self.epoch += 1;
        DrainToken(self.epoch - 1)
    }

    /// Whether every packet that was inside at [`Switch::begin_drain`] has left or was counted as
    /// dropped.
    pub fn is_drained(&self, token: DrainToken) -> bool {
        let offload = self.offload.as_ref();
        self.model.traffic.inside.is_clear(token.0)
            && offload.is_none_or(|offload| offload.is_drained(token.0))
    }

    /// Packets inside: waiting in a queue, or in the offload at [`Switch::collect`].
    pub fn packets_inside(&self) -> u64 {
        let n_offloaded = self.offload.as_ref().map_or(0, |offload| offload.n_inside);
        self.model.traffic.inside.total() + n_offloaded
    }

    /// Whether no packet waits in a queue, and so none would be dropped where the program is replaced now. What is in
    /// the offload does not count.
    pub fn is_engine_empty(&self) -> bool {
        self.model.traffic.inside.total() == 0
    }

    /// Everything the switch counts on its own.
    pub fn counters(&self) -> &SwitchCounters {
        &self.model.state.counters
    }

    /// Sets or takes away who listens to what happens. An engine that does not tell what happens in
    /// a pass gives way to the interpreter and comes back after it; at once, or with the first
    /// frame that comes when no packet is inside. An offload punts all meanwhile.
    pub fn set_trace(&mut self, sink: Option<Box<dyn TraceSink>>) {
        let was_on = self.model.state.tracer.is_on();
        self.model.state.tracer.set_sink(sink);
        if self.model.state.tracer.is_on() != was_on
            && self.engine.is_some()
            && !self.factory.traces()
        {
            self.is_engine_outdated = !self.is_engine_outdated;
        }
        if self.is_engine_outdated && self.is_engine_empty() {
            self.load_engine();
        }
        if self.model.state.tracer.is_on() {
            self.stop_offload(DropReason::OffloadStopped);
        }
        self.load_offload();
    }
}
