//! The v1model architecture as BMv2's `simple_switch` runs it: what happens to a packet between the controls. The
//! sources are `simple_switch.cpp` and `docs/simple_switch.md` of behavioral-model. This module gives the engine the
//! inputs from which the engine writes the standard metadata.
//!
//! Packets advance in scheduler steps ([`Run::step`]). Where possible, a step is a batch: frames on the [`fast_path`],
//! the replicas of one packet ([`replica_batch`]), the rounds of a recirculating packet ([`rounds`]). A packet that
//! needs anything else leaves the batch for the [`slow_path`], which queues the remaining work for a later step. With
//! an engine for which [`Engine::fuses_fanout`] is false, every packet is queued.

mod copies;
mod fast_path;
mod replica_batch;
mod rounds;
mod slow_path;

use std::collections::VecDeque;
use std::mem;

use crate::{
    PortId, Program, SwitchConfig, Transmit, Transmitted,
    engine::{EgressInput, Engine, IngressInput, IngressOutcome, InstanceType, State},
    limits,
    trace::NameId,
    traffic_manager::{
        TrafficManager,
        digests::DigestQueue,
        latency::Latencies,
        look_ahead::LookAhead,
        packet::{Common, IngressPacket},
        queue::Departure,
    },
};

/// What v1model adds to an engine: the program's state, the traffic between the controls, and the queues to the control
/// plane.
pub(crate) struct V1Model {
    pub state: State,
    pub traffic: TrafficManager,
    pub latencies: Latencies,
    pub packet_ins: VecDeque<Vec<u8>>,
    pub digests: DigestQueue,
    cpu_port: Option<PortId>,
    /// The engine's [`Engine::fuses_fanout`].
    pub fuses_fanout: bool,
    /// Whether the program reads how long packets have been inside.
    pub is_timed: bool,
    /// A vector kept for its allocation; empty between two replica batches.
    tallies: Vec<PortTally>,
}

/// The count of consecutive frames that left by the same port.
#[derive(Debug)]
struct PortTally {
    port: PortId,
    n_frames: u64,
    n_bytes: u64,
}

/// What a scheduler step works with: the model, the engine, and the consumer of frames that leave.
pub(crate) struct Run<'a> {
    pub model: &'a mut V1Model,
    pub engine: &'a mut dyn Engine,
    pub send: &'a mut dyn FnMut(Transmit<'_>),
    /// The number of frames at the front of the ingress queue for which [`Engine::prefetch`] was called.
    pub n_prefetched: usize,
}

impl V1Model {
    pub(crate) fn new(config: &SwitchConfig) -> Self {
        Self {
            state: State::new(config.random_seed),
            traffic: TrafficManager::new(config),
            latencies: Latencies::default(),
            packet_ins: VecDeque::new(),
            digests: DigestQueue::default(),
            cpu_port: config.cpu_port,
            fuses_fanout: false,
            is_timed: false,
            tallies: Vec::new(),
        }
    }

    /// Replaces the program. No packet may be inside.
    pub(crate) fn set_program(&mut self, program: Program, config: &SwitchConfig) {
        let egress = self.traffic.egress.emptied();
        self.traffic = TrafficManager {
            egress,
            ..TrafficManager::new(config)
        };
        self.traffic.groups.set_ports_down(self.state.ports_down());
        self.traffic.look_ahead = LookAhead::new(program.ir.gives_priorities());
        self.digests.clear();
        self.latencies.clear_streams();
        self.is_timed = program.ir.reads_time_inside();
        self.state.set_program(program, config.random_seed);
    }

    /// Swaps the program, its state and its groups with another model's. Each model keeps the capacities and rates of
    /// its queues. No packet may be inside either model.
    pub(crate) fn exchange_program(&mut self, other: &mut Self) {
        let egress = self.traffic.egress.emptied();
        mem::swap(&mut self.traffic, &mut other.traffic);
        other.traffic.egress = mem::replace(&mut self.traffic.egress, egress);
        mem::swap(&mut self.is_timed, &mut other.is_timed);
        mem::swap(&mut self.fuses_fanout, &mut other.fuses_fanout);
        self.digests.clear();
        self.latencies.clear_streams();
        self.state.exchange_program(&mut other.state);
    }

    /// Whether the copies of a packet may be queued as one item, and packets may skip the queue: the engine allows it,
    /// and no trace needs the events of each packet.
    #[inline]
    fn may_fuse(&self, common: &Common) -> bool {
        self.fuses_fanout && !self.state.tracer.is_on() && common.name == NameId::NONE
    }

    /// Whether a packet that is queued for egress now would be the next packet to run.
    #[inline]
    fn is_next_at_egress(&self) -> bool {
        let traffic = &self.traffic;
        let is_frame_looked_at = traffic.look_ahead.is_due()
            && traffic.recirculation.is_empty()
            && !traffic.ingress.is_empty();
        // If the program reads how long a packet has been inside the switch, every packet is queued between ingress and
        // egress, so that the caller can read its clock there.
        traffic.egress.is_passable() && !is_frame_looked_at && !self.is_timed
    }

    /// Whether frames can leave by a port: it exists, is enabled, and is not the CPU port.
    fn is_plain(&self, port: PortId) -> bool {
        is_plain(&self.state, self.cpu_port, port)
    }

    /// Counts frames that have left by `port`, which exists. `common` is the data that all of these frames share.
    #[inline]
    fn count_sent(&mut self, port: PortId, common: &Common, n_frames: u64, n_bytes: u64) {
        if let Some(counters) = self.state.counters.port_mut(port) {
            counters.tx_packets += n_frames;
            counters.tx_bytes += n_bytes;
        }
        self.state.counters.transmitted += n_frames;
        let latency_ns = self.state.now.saturating_sub(common.arrived);
        let stream = common.stream;
        self.latencies.record(port, stream, latency_ns, n_frames);
        self.traffic.inside.leave_many(common.epoch, n_frames);
    }

    /// Subtracts `n_copies` from the number of packets that are inside the switch: the copies for which a payload
    /// extern failed. These copies are already counted as dropped.
    fn leave_many(&mut self, common: &Common, n_copies: u32) {
        let inside = &mut self.traffic.inside;
        inside.leave_many(common.epoch, n_copies.into());
    }

    pub(crate) fn leave(&mut self, common: &Common) {
        self.traffic.inside.leave(common.epoch);
        self.state.tracer.forget(common.name);
    }
}

fn is_plain(state: &State, cpu_port: Option<PortId>, port: PortId) -> bool {
    cpu_port != Some(port) && state.counters.has_port(port) && !state.ports_disabled.contains(port)
}

#[inline]
fn ingress_input(waiting: &IngressPacket) -> IngressInput {
    let is_new = waiting.instance_type == InstanceType::Normal;
    IngressInput {
        ingress_port: waiting.common.ingress_port,
        instance_type: waiting.instance_type,
        arrived: is_new.then_some(waiting.common.arrived),
        ingress_bytes: waiting.common.ingress_bytes,
    }
}

impl Run<'_> {
    /// Runs scheduler steps until `max_frames` frames have left, nothing can run, or `max_frames` +
    /// [`limits::STEPS_IN_VAIN_MAX`] steps were made.
    pub(crate) fn transmit(&mut self, max_frames: usize) -> Transmitted {
        let (mut n_frames, mut is_idle) = (0, false);
        let mut n_steps_left = max_frames.saturating_add(limits::STEPS_IN_VAIN_MAX);
        while n_frames < max_frames && n_steps_left > 0 && !is_idle {
            n_steps_left -= 1;
            match self.step(max_frames - n_frames) {
                Some(n_sent) => n_frames += n_sent,
                None => is_idle = true,
            }
        }
        Transmitted { n_frames, is_idle }
    }

    /// Runs one scheduler step, in this order of preference: a look-ahead that is due, egress, a recirculated packet,
    /// new frames. Returns how many frames left, at most `max_frames`; `None` if nothing can run now.
    pub(crate) fn step(&mut self, max_frames: usize) -> Option<usize> {
        let now = self.model.state.now;
        if self.model.traffic.is_look_ahead_due() {
            return Some(self.look_ahead());
        }
        if let Some((batch, n_copies)) = self.model.replica_batch(max_frames) {
            return Some(self.send_replicas(&batch, n_copies));
        }
        let traffic = &mut self.model.traffic;
        if let Some(departure) = traffic.egress.pop(now) {
            return Some(self.egress(&departure));
        }
        if let Some(going) = traffic.recirculation.pop(now) {
            return Some(self.send_rounds(going, max_frames));
        }
        if traffic.ingress.is_empty() {
            return None;
        }
        Some(self.send_frames(max_frames))
    }

    /// Runs the ingress pass of a new frame before the packets that wait for egress, so that the frame may overtake
    /// them by its priority.
    #[cold]
    fn look_ahead(&mut self) -> usize {
        let n_dropped = self.model.state.counters.dropped_total();
        let frame = self.next_frame();
        let n_sent = self.ingress(&frame);
        let was_in_vain = self.model.state.counters.dropped_total() > n_dropped;
        self.model.traffic.look_ahead.pay(was_in_vain);
        n_sent
    }

    /// Takes the next frame from the ingress queue, which must not be empty. Copies the frame from the memory of the
    /// queue and not from the `Option` that `pop_front` returns: that `Option` would be stored to the stack and at once
    /// loaded in pieces of other sizes, for which store-to-load forwarding fails, so that the processor would stall at
    /// each load.
    #[inline]
    fn next_frame(&mut self) -> IngressPacket {
        self.n_prefetched = self.n_prefetched.saturating_sub(1);
        let ingress = &mut self.model.traffic.ingress;
        let frame = ingress[0];
        ingress.pop_front();
        frame
    }

    fn ingress(&mut self, waiting: &IngressPacket) -> usize {
        self.trace_packet(&waiting.common);
        let input = ingress_input(waiting);
        let state = &mut self.model.state;
        let outcome = self.engine.ingress(state, &input, waiting.packet);
        self.after_ingress(waiting, &outcome)
    }

    /// Continues after ingress: runs egress at once if `way_on` allows it; if not, takes the slow path.
    fn after_ingress(&mut self, waiting: &IngressPacket, outcome: &IngressOutcome) -> usize {
        let Some((port, queue)) = self.model.way_on(&waiting.common, outcome) else {
            return self.finish_ingress(waiting, outcome);
        };
        let outcome = self.egress_at_once(waiting, port, queue);
        self.finish_egress(&waiting.common, port, &outcome)
    }

    fn egress(&mut self, departure: &Departure) -> usize {
        let place = &departure.place;
        let waiting = &departure.packet;
        let common = &waiting.common;
        self.trace_packet(common);
        let input = EgressInput {
            port: place.port,
            queue: departure.queue,
            instance_type: waiting.instance_type,
            instance: place.instance,
            arrived: common.arrived,
            enqueued: waiting.enqueued,
            enq_depth: place.enq_depth,
            deq_depth: departure.depth,
            is_deparsed: self.model.fuses_fanout,
        };
        self.model.traffic.look_ahead.earn();
        let state = &mut self.model.state;
        let outcome = self.engine.egress(state, &input, waiting.packet);
        self.finish_egress(common, place.port, &outcome)
    }

    #[inline]
    fn trace_packet(&mut self, common: &Common) {
        let State { tracer, now, .. } = &mut self.model.state;
        tracer.set_packet(*now, common.name, common.pass());
    }
}
