//! The v1model architecture as BMv2's `simple_switch` runs it: what happens to a packet between the
//! controls. Source: behavioral-model, `simple_switch.cpp` and `docs/simple_switch.md`. What the
//! standard metadata hold is the engine's to write, from what it is given here.

mod copies;
mod many;

pub(crate) use many::PortTally;

use crate::{
    DropReason, Nanos, PortId,
    engine::{
        EgressInput, EgressOutcome, EgressVerdict, Engine, IngressInput, IngressOutcome,
        IngressVerdict, InstanceType, PacketHandle,
    },
    limits,
    switch::Switch,
    trace::{NameId, TraceKind},
    traffic_manager::{
        packet::{Common, EgressPacket, IngressPacket, Place},
        queue::Departure,
    },
};

/// How a packet goes to egress.
#[derive(Debug, Clone, Copy)]
struct Way {
    port: PortId,
    /// The queue of the port; there may be none of that number.
    queue: u64,
    instance_type: InstanceType,
    /// `egress_rid` of a copy.
    instance: Option<u16>,
    /// The queue has no room for all copies of the packet, so it gets none.
    is_refused: bool,
}

/// What an egress pass leaves to do.
pub(crate) enum Passed {
    Nothing,
    /// The frame of a packet leaves by a port.
    Out(PortId, PacketHandle),
    /// It is the packet's clone's turn now, without a queue: it was written where its departure goes.
    /// The packet itself does not leave then.
    On,
}

/// What an engine is told of a packet that comes to ingress.
fn ingress_input(waiting: &IngressPacket) -> IngressInput {
    let is_new = waiting.instance_type == InstanceType::Normal;
    IngressInput {
        ingress_port: waiting.common.ingress_port,
        instance_type: waiting.instance_type,
        arrived: is_new.then_some(waiting.common.arrived),
        ingress_bytes: waiting.common.ingress_bytes,
    }
}

impl Switch {
    /// Parser, checksum verification, ingress, and what the packet asked for there. Writes the
    /// packet to `next` where it goes on to egress without a queue.
    pub(crate) fn ingress_pass(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        waiting: &IngressPacket,
        next: &mut Option<Departure>,
    ) {
        self.trace_packet(now, &waiting.common);
        let input = ingress_input(waiting);
        let outcome = engine.ingress(&mut self.state, &input, waiting.packet);
        self.after_ingress(engine, now, waiting, outcome, next);
    }

    /// What comes of an ingress pass.
    #[inline]
    pub(crate) fn after_ingress(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        waiting: &IngressPacket,
        outcome: IngressOutcome,
        next: &mut Option<Departure>,
    ) {
        let packet = waiting.packet;
        if let Some(session) = outcome.clone_session {
            let input = ingress_input(waiting);
            self.clone_at_ingress(engine, now, waiting, &input, session);
        }
        if outcome.has_digest {
            self.send_digest(engine, packet);
        }
        match outcome.verdict {
            IngressVerdict::Drop(reason) => self.end(engine, &waiting.common, packet, reason),
            IngressVerdict::Resubmit => self.resubmit(engine, now, *waiting),
            IngressVerdict::Multicast(group) => {
                let priority = outcome.priority;
                self.multicast(engine, now, &waiting.common, packet, group, priority);
            }
            IngressVerdict::Unicast(port) => {
                let way = Way {
                    port,
                    queue: outcome.priority,
                    instance_type: InstanceType::Normal,
                    instance: None,
                    is_refused: false,
                };
                if self.may_fuse(&waiting.common) && self.is_next_at_egress() {
                    self.pass_on(engine, now, way, &waiting.common, packet, next);
                } else {
                    self.enqueue(engine, now, way, &waiting.common, packet);
                }
            }
        }
    }

    /// Whether the engine wants packets to be queued as one, or not at all, and nobody is told of
    /// their being queued.
    fn may_fuse(&self, common: &Common) -> bool {
        self.fuses_fanout && !self.state.tracer.is_on() && common.name == NameId::NONE
    }

    /// A packet that would be queued and leave its queue at once.
    fn pass_on(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        way: Way,
        common: &Common,
        packet: PacketHandle,
        next: &mut Option<Departure>,
    ) {
        let queue = usize::try_from(way.queue).unwrap_or(usize::MAX);
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return self.end(engine, common, packet, DropReason::PriorityOutOfRange);
        }
        *next = Some(Departure {
            place: Place {
                port: way.port,
                instance: way.instance,
                enq_depth: 0,
            },
            queue,
            depth: 0,
            packet: EgressPacket {
                common: *common,
                packet,
                instance_type: way.instance_type,
                enqueued: now,
            },
        });
    }

    fn send_digest(&mut self, engine: &mut dyn Engine, packet: PacketHandle) {
        let digest = engine.digest(&mut self.state, packet);
        let tracer = &mut self.state.tracer;
        tracer.emit(|| TraceKind::Digest(digest.name.clone()));
        self.state.counters.digests += 1;
        if self.digests.len() < limits::DIGEST_QUEUE_MAX {
            self.digests.push_back(digest);
        } else {
            self.state.counters.digests_lost += 1;
        }
    }

    /// Sends a packet through ingress again as it came.
    fn resubmit(&mut self, engine: &mut dyn Engine, now: Nanos, mut waiting: IngressPacket) {
        waiting.common.resubmits += 1;
        if waiting.common.resubmits > limits::RESUBMITS_PER_PACKET_MAX {
            let reason = DropReason::ResubmitLimit;
            return self.end(engine, &waiting.common, waiting.packet, reason);
        }
        let pass = waiting.common.pass();
        self.state.tracer.emit(|| TraceKind::Resubmit { pass });
        engine.resubmit(waiting.packet);
        waiting.instance_type = InstanceType::Resubmitted;
        self.back_to_ingress(engine, now, waiting);
    }

    fn back_to_ingress(&mut self, engine: &mut dyn Engine, now: Nanos, waiting: IngressPacket) {
        if self.traffic.recirculation.is_full() {
            let reason = DropReason::RecirculationQueueFull;
            return self.end(engine, &waiting.common, waiting.packet, reason);
        }
        self.traffic.recirculation.push(now, waiting);
    }

    /// Puts a packet into a queue of an output port.
    fn enqueue(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        way: Way,
        common: &Common,
        packet: PacketHandle,
    ) {
        self.trace_packet(now, common);
        let Way { port, .. } = way;
        let queue = usize::try_from(way.queue).unwrap_or(usize::MAX);
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return self.end(engine, common, packet, DropReason::PriorityOutOfRange);
        }
        if way.is_refused || self.traffic.egress.is_full(port, queue) {
            return self.end(engine, common, packet, DropReason::EgressQueueFull);
        }
        let depth = self.traffic.egress.depth(port, queue);
        let tracer = &mut self.state.tracer;
        tracer.emit(|| TraceKind::Enqueue { port, queue, depth });
        let waiting = EgressPacket {
            common: *common,
            packet,
            instance_type: way.instance_type,
            enqueued: now,
        };
        let place = Place {
            port,
            instance: way.instance,
            enq_depth: depth,
        };
        self.traffic.egress.push(now, place, queue, waiting);
    }

    /// Egress, the clone, then drop, deparser, and recirculation or transmission, in this order:
    /// a drop beats recirculation, and the clone survives it.
    pub(crate) fn egress_pass(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        departure: &Departure,
        next: &mut Option<Departure>,
    ) -> Passed {
        let place = &departure.place;
        let port = place.port;
        let waiting = &departure.packet;
        let common = &waiting.common;
        self.trace_packet(now, common);
        let input = EgressInput {
            port,
            queue: departure.queue,
            instance_type: waiting.instance_type,
            instance: place.instance,
            arrived: common.arrived,
            enqueued: waiting.enqueued,
            enq_depth: place.enq_depth,
            deq_depth: departure.depth,
            is_deparsed: self.fuses_fanout,
        };
        let outcome = engine.egress(&mut self.state, &input, waiting.packet);
        self.after_egress(engine, now, common, port, outcome, next)
    }

    /// What comes of an egress pass.
    #[inline]
    pub(crate) fn after_egress(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        common: &Common,
        port: PortId,
        outcome: EgressOutcome,
        next: &mut Option<Departure>,
    ) -> Passed {
        let packet = outcome.packet;
        let mut passed = Passed::Nothing;
        if let Some(session) = outcome.clone_session {
            let leaves = outcome.verdict == EgressVerdict::Transmit;
            if self.clone_at_egress(engine, now, common, (packet, leaves), session, next) {
                passed = Passed::On;
            }
        }
        if let EgressVerdict::Drop(reason) = outcome.verdict {
            self.end(engine, common, packet, reason);
            return passed;
        }
        let frame_len_bytes = match outcome.frame_len_bytes {
            Some(len) => len,
            None => engine.deparse(&mut self.state, packet),
        };
        if outcome.verdict == EgressVerdict::Recirculate {
            self.recirculate(engine, now, *common, packet, frame_len_bytes);
            return passed;
        }
        match self.send(engine, port, common, packet, frame_len_bytes) {
            true => Passed::Out(port, packet),
            false => passed,
        }
    }

    /// Sends a packet through ingress again as it would have left.
    fn recirculate(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        mut common: Common,
        packet: PacketHandle,
        frame_len_bytes: usize,
    ) {
        if self.begin_again(engine, &mut common, packet, frame_len_bytes) {
            let waiting = IngressPacket {
                common,
                packet,
                instance_type: InstanceType::Recirculated,
            };
            self.back_to_ingress(engine, now, waiting);
        }
    }

    /// A packet's next way through the pipeline; whether it may go it.
    fn begin_again(
        &mut self,
        engine: &mut dyn Engine,
        common: &mut Common,
        packet: PacketHandle,
        frame_len_bytes: usize,
    ) -> bool {
        common.recirculations += 1;
        if common.recirculations > limits::RECIRCULATIONS_PER_PACKET_MAX {
            self.end(engine, common, packet, DropReason::RecirculationLimit);
            return false;
        }
        if frame_len_bytes > limits::FRAME_BYTES_MAX {
            self.end(engine, common, packet, DropReason::FrameTooLong);
            return false;
        }
        let pass = common.pass();
        self.state.tracer.emit(|| TraceKind::Recirculate { pass });
        engine.recirculate(packet);
        common.ingress_bytes = frame_len_bytes;
        true
    }

    /// The end of a packet's way: out of a port, which has it as long as the engine keeps it, or
    /// to the control plane; whether it is a port.
    #[inline]
    fn send(
        &mut self,
        engine: &mut dyn Engine,
        port: PortId,
        common: &Common,
        packet: PacketHandle,
        frame_len_bytes: usize,
    ) -> bool {
        if self.config().cpu_port == Some(port) {
            self.send_to_cpu(engine, common, packet, frame_len_bytes);
            return false;
        }
        if self.state.counters.port_mut(port).is_none() {
            self.end(engine, common, packet, DropReason::EgressPortUnknown);
            return false;
        }
        self.state.tracer.emit(|| TraceKind::Transmit {
            port,
            frame_len_bytes,
        });
        self.count_sent(port, common, 1, frame_len_bytes as u64);
        self.state.tracer.forget(common.name);
        true
    }

    /// Frames have left by a port that is there, copies of one packet, and are no longer inside.
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

    fn send_to_cpu(
        &mut self,
        engine: &mut dyn Engine,
        common: &Common,
        packet: PacketHandle,
        frame_len_bytes: usize,
    ) {
        if self.packet_ins.len() >= limits::PACKET_IN_QUEUE_MAX {
            return self.end(engine, common, packet, DropReason::PacketInQueueFull);
        }
        let tracer = &mut self.state.tracer;
        tracer.emit(|| TraceKind::PacketIn { frame_len_bytes });
        self.state.counters.to_cpu += 1;
        let frame = engine.frame(packet);
        self.packet_ins
            .push_back([frame.head, frame.payload].concat());
        self.leave(common);
        engine.discard(packet);
    }

    /// Ends a packet inside the switch, counted.
    fn end(
        &mut self,
        engine: &mut dyn Engine,
        common: &Common,
        packet: PacketHandle,
        reason: DropReason,
    ) {
        self.count_drop(reason);
        self.leave(common);
        engine.discard(packet);
    }

    /// A packet is no longer inside.
    pub(crate) fn leave(&mut self, common: &Common) {
        self.traffic.inside.leave(common.epoch);
        self.state.tracer.forget(common.name);
    }

    fn trace_packet(&mut self, now: Nanos, common: &Common) {
        let tracer = &mut self.state.tracer;
        tracer.set_packet(now, common.name, common.pass());
    }

    /// Counts a drop of the packet that is being traced.
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.state.counters.count_drop(reason);
        self.state.tracer.emit(|| TraceKind::Drop(reason));
    }
}
