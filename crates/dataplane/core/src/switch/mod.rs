//! The public interface: frames and control calls go in; frames, packet-ins and digests come out.
//!
//! The only caller is an event loop. It makes these calls:
//!
//! - `add_port`, then `set_program`. Both may come again at any time between two other calls. A caller with waiting
//!   frames makes a program ready in another thread (`loader`) and sets it with `set_ready_program`, which compiles
//!   nothing.
//! - `handle_frame(now, port, frame)` for each frame that arrives. The call is cheap. It may refuse a frame, and counts
//!   the refusal.
//! - `transmit(now, ...)` or `poll_transmit(now)` until they report that nothing can run at `now`; always after
//!   `handle_frame` and `handle_timeout`.
//! - After `transmit`: `poll_packet_in`, `poll_digest`, `poll_idle_timeout`, until each returns `None`. With an
//!   offload (a forwarder beside the engine, which punts packets to the engine), the caller also calls
//!   `take_offloaded_digests` before `poll_digest`, either when `offloaded_digests_fd`
//!   is readable or in every iteration.
//! - `poll_timeout()`, which returns the time at which the caller must call `handle_timeout(now)` and `transmit` even
//!   if no frame arrives.
//! - Control calls (`control/`) between any two of these calls. A packet sees a control call wholly or not at all.
//! - `begin_drain`, then `is_drained(token)` after each `transmit` until it returns true. With an offload, the caller
//!   must ask again even if no frame arrives.
//! - `set_offload` with an offload as soon as frames may arrive, and with `None` before the caller reads counters for
//!   the last time. `begin_batch` and `end_batch` around control calls that the packets in an offload must see
//!   together. `collect` before the caller reads counters.
//!
//! Time never goes back: if `now` is earlier than in a previous call, the switch uses the latest time instead.

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

/// The epoch that [`Switch::begin_drain`] ended. Each call of that method starts a new epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainToken(u64);

/// The switch: a pure state machine from (program, state, time, frame) to frames. Each control call is atomic and takes
/// effect between two passes. A pass is one run of a packet through ingress or through egress.
///
/// Scheduling is part of the semantics: egress work comes first, then recirculated and resubmitted packets, then new
/// frames. So the passes of one packet run back to back, unless a rate limit makes its queue wait. If the program sets
/// priorities, new frames sometimes run ingress while copies wait, so that a frame of high priority overtakes the
/// copies (`traffic_manager/look_ahead.rs`).
pub struct Switch {
    config: SwitchConfig,
    factory: Arc<dyn EngineFactory>,
    /// `None` while no program is loaded.
    pub(crate) engine: Option<Box<dyn Engine>>,
    /// Whether to replace the engine as soon as it holds no packet.
    is_engine_outdated: bool,
    offload: Option<Attached>,
    /// Whether a batch is open: between [`Switch::begin_batch`] and [`Switch::end_batch`].
    is_in_batch: bool,
    pub(crate) model: V1Model,
    /// The last frame of [`Switch::poll_transmit`], and the length of its headers.
    sent: (Vec<u8>, usize),
    pub(crate) idle_timeouts: VecDeque<IdleTimeout>,
    /// Sorted by id.
    pub(crate) generators: Vec<Generator>,
    epoch: u64,
    n_frames: u64,
    generation: u64,
}

const NOTHING: Transmitted = Transmitted {
    n_frames: 0,
    is_idle: true,
};

impl Switch {
    /// Makes a switch without ports and program, which drops every frame. It runs programs on the interpreter.
    pub fn new(config: SwitchConfig) -> Self {
        Self::with_engine(config, Box::new(InterpreterFactory))
    }

    /// Makes a switch as [`Switch::new`] does, but with the engines of this factory.
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

    /// The parameters given when the switch was made.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// The name of the chosen engine, as the command-line option `--engine` takes it.
    pub fn engine_name(&self) -> &'static str {
        self.factory.name()
    }

    /// Lists the parts of the loaded program that the engine leaves to the interpreter.
    pub fn interpreted(&self) -> Vec<Interpreted> {
        let engine = self.engine.as_ref();
        engine.map_or_else(Vec::new, |engine| engine.interpreted())
    }

    /// Adds a port. Frames from and to other ports are dropped and counted, except the CPU port, which need not be
    /// added.
    pub fn add_port(&mut self, port: PortId) {
        self.model.state.counters.add_port(port);
        self.notify(&Change::Port(port));
    }

    /// Registers an extern that changes payloads, under the name that programs call. Programs loaded later may use it
    /// ([`Program::from_json_with`]). The extern stays registered when the program is replaced.
    ///
    /// # Errors
    /// [`ControlError`] if the name is taken, or the extern exceeds [`limits`].
    pub fn register_payload_extern(
        &mut self,
        name: &str,
        made: Box<dyn PayloadExtern>,
    ) -> Result<(), ControlError> {
        self.model.state.payloads.register(name, made)
    }

    /// The payload externs that programs of this switch may call.
    pub fn payload_signatures(&self) -> Vec<PayloadSignature> {
        let signatures = self.model.state.payloads.signatures();
        signatures.cloned().collect()
    }

    /// Replaces the program and clears its state: tables, registers, counters, groups, sessions, digests. Drops and
    /// counts the packets inside. Keeps the port and drop counters, the generators, and which ports are down or
    /// disabled. Blocks while the engine compiles; a caller with waiting packets prepares the program elsewhere instead
    /// ([`Switch::set_ready_program`]).
    ///
    /// # Panics
    /// If the program calls an extern that is not registered with this switch.
    pub fn set_program(&mut self, program: Program) {
        self.set_program_as(program, 0);
    }

    /// Replaces the program as [`Switch::set_program`] does, and sets the number that [`Switch::generation`] returns. A
    /// caller that holds an entry or a packet-out for a program compares that number, to detect that the program was
    /// replaced.
    pub fn set_program_as(&mut self, program: Program, generation: u64) {
        let mut ready = self.loader().load(program);
        self.set_ready_program(&mut ready, generation);
    }

    /// The number that the caller gave with the loaded program; 0 by default.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the chosen engine for the loaded program, or the interpreter while a trace needs it.
    fn load_engine(&mut self) {
        self.load_engine_as(self.is_interpreted());
    }

    /// Whether the interpreter must replace the engine: a trace is on, and the engine does not trace.
    fn is_interpreted(&self) -> bool {
        self.model.state.tracer.is_on() && !self.factory.traces()
    }

    fn load_engine_as(&mut self, is_interpreted: bool) {
        self.is_engine_outdated = false;
        let state = &mut self.model.state;
        let engine = if is_interpreted {
            InterpreterFactory.load(state)
        } else {
            self.factory.load(state)
        };
        self.model.fuses_fanout = engine.fuses_fanout();
        self.engine = Some(engine);
    }

    /// The loaded program, if any.
    pub fn program(&self) -> Option<&Program> {
        self.engine.as_ref().map(|_| &self.model.state.program)
    }

    /// Accepts a frame. The call is cheap: [`Switch::poll_transmit`] does the work, and must be called afterwards until
    /// it returns `None`. A packet-out is a frame from the CPU port.
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

    /// Accepts a generator's frame as if `port`, which need not exist, had received it. Returns whether it was queued.
    pub(crate) fn take_in(&mut self, now: Nanos, port: PortId, frame: &[u8]) -> bool {
        let name = self.begin_frame(now, port, frame);
        self.model.state.counters.generated += 1;
        self.admit(now, port, frame, name)
    }

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

    /// Queues a frame for ingress, or drops it; returns whether it was queued.
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

    /// Drops a frame that was not queued; returns false.
    fn refuse(&mut self, name: NameId, reason: DropReason) -> bool {
        self.model.state.count_drop(reason);
        self.model.state.tracer.forget(name);
        false
    }

    /// Runs `work` with the loaded engine; `None` without a program.
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

    /// Runs passes until a frame leaves or nothing can run at `now`. After every `handle_frame` and `handle_timeout`,
    /// the caller must call this method until it returns `None`. This method copies the frame; [`Switch::transmit`]
    /// does not.
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
        self.run(now, &mut keep, |run| while run.step(1) == Some(0) {});
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

    /// Does the work of `max_frames` calls of [`Switch::poll_transmit`], but is cheaper per frame: hands each frame to
    /// `send`, borrowed from the engine. Sends fewer frames if nothing more can run at `now`, or after `max_frames` +
    /// [`limits::STEPS_IN_VAIN_MAX`] scheduler steps. With this bound the caller regains control even if packets
    /// recirculate or are dropped without end.
    pub fn transmit(
        &mut self,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> Transmitted {
        let transmitted = self.run(now, send, |run| run.transmit(max_frames));
        transmitted.unwrap_or(NOTHING)
    }

    /// Runs one scheduler step: a pass, and the passes that follow it without a queue in between. At most one frame
    /// leaves, which goes to `send`. A caller that must read its clock before each step ([`Switch::is_timed`]) calls
    /// this instead of [`Switch::transmit`].
    pub fn transmit_step(&mut self, now: Nanos, send: &mut dyn FnMut(Transmit<'_>)) -> Transmitted {
        let sent = self.run(now, send, |run| run.step(1)).flatten();
        sent.map_or(NOTHING, |n_frames| Transmitted {
            n_frames,
            is_idle: false,
        })
    }

    /// Whether the program reads how long packets have been inside. Such times are as exact as the caller's clock
    /// readings, so the caller should use [`Switch::transmit_step`], with one reading per pass.
    pub fn is_timed(&self) -> bool {
        self.model.is_timed
    }

    /// How many more frames the caller should deliver now, if it has any, although [`Switch::poll_transmit`] still
    /// returns frames. If the caller delivers them later, the switch learns their priorities too late. The caller
    /// should ask after about every sixteen frames sent.
    pub fn n_frames_wanted(&self) -> usize {
        let wanted = self.model.traffic.look_ahead.n_frames_wanted();
        wanted.saturating_sub(self.model.traffic.ingress.len())
    }

    /// Percentiles of the time that packets spent in the switch.
    pub fn latency(&mut self) -> LatencyReport {
        self.collect();
        self.model.latencies.report()
    }

    /// The longest times in the switch and the deepest queues since the last call.
    pub fn take_recent_maxima(&mut self) -> RecentMaxima {
        self.collect();
        RecentMaxima {
            queues: self.model.traffic.egress.take_deepest().collect(),
            ..self.model.latencies.take_recent()
        }
    }

    /// Returns a copy of all latency histograms, which the caller can add to the histograms of another switch.
    pub fn latencies(&self) -> Latencies {
        self.model.latencies.clone()
    }

    /// The next packet-in: a frame for the CPU port, with its packet-in header.
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.model.packet_ins.pop_front()
    }

    /// The next digest for the control plane.
    pub fn poll_digest(&mut self) -> Option<Digest> {
        self.model.digests.pop()
    }

    /// The time at which the caller must call [`Switch::handle_timeout`] and [`Switch::poll_transmit`] next, if no
    /// frame arrives earlier: when a queue may release its next packet, or an entry may have become idle.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let departures = [
            self.model.traffic.egress.next_departure(),
            self.model.traffic.recirculation.next_departure(),
        ];
        let idle = self.model.state.tables.next_idle();
        departures.into_iter().flatten().chain(idle).min()
    }

    /// Looks for idle entries. The caller calls this when the time of [`Switch::poll_timeout`] has come. Queues need no
    /// such call; they use the time given to [`Switch::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.model.state.advance(now);
        if self.model.state.tables.next_idle().is_some() {
            self.collect();
        }
        self.sweep_idle_entries();
    }

    /// Starts a new epoch. Every packet carries the epoch in which its root frame (the received frame that the packet
    /// comes from) arrived; clones, replicas and recirculated packets inherit it.
    pub fn begin_drain(&mut self) -> DrainToken {
        if let Some(offload) = &mut self.offload {
            offload.begin_drain(self.epoch);
        }
        self.epoch += 1;
        DrainToken(self.epoch - 1)
    }

    /// Whether every packet that was inside at [`Switch::begin_drain`] has left or was dropped.
    pub fn is_drained(&self, token: DrainToken) -> bool {
        let offload = self.offload.as_ref();
        self.model.traffic.inside.is_clear(token.0)
            && offload.is_none_or(|offload| offload.is_drained(token.0))
    }

    /// Packets inside: those in queues, and packets that the offload held at the last [`Switch::collect`].
    pub fn packets_inside(&self) -> u64 {
        let n_offloaded = self.offload.as_ref().map_or(0, |offload| offload.n_inside);
        self.model.traffic.inside.total() + n_offloaded
    }

    /// Whether no packet waits in a queue, so that replacing the program now would drop none. Ignores packets in the
    /// offload.
    pub fn is_engine_empty(&self) -> bool {
        self.model.traffic.inside.total() == 0
    }

    /// The switch's own counters.
    pub fn counters(&self) -> &SwitchCounters {
        &self.model.state.counters
    }

    /// Sets or removes the trace sink. While a sink is set, the interpreter replaces an engine that does not trace, and
    /// the offload punts everything. If no packet is inside, the switch changes the engine at once. If packets are
    /// inside, it changes the engine when the next frame arrives after all of them have left.
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
