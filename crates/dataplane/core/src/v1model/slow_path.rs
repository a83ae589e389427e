//! The slow path: a packet comes here after its pass if it clones, multicasts, makes a digest, is dropped, recirculates
//! or must wait. The remaining work is queued for a later scheduler step.

use super::{Run, fast_path::queue};
use crate::{
    DropReason, PortId, Transmit,
    engine::{
        EgressOutcome, EgressVerdict, IngressOutcome, IngressVerdict, InstanceType, PacketHandle,
    },
    limits,
    trace::TraceKind,
    traffic_manager::packet::{Common, EgressPacket, IngressPacket, Place},
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub port: PortId,
    /// The queue number, not yet checked.
    pub queue: u64,
    pub instance_type: InstanceType,
    /// `egress_rid` of a copy.
    pub instance: Option<u16>,
    /// Whether the queue lacks room for all copies of the packet, so that the queue gets none of the copies.
    pub is_refused: bool,
}

impl Run<'_> {
    /// Follows an ingress outcome: makes the clone, then the digest, then applies the verdict. Runs a lone replica at
    /// once if nothing else must run first. Returns how many frames left, at most one.
    pub(super) fn finish_ingress(
        &mut self,
        waiting: &IngressPacket,
        outcome: &IngressOutcome,
    ) -> usize {
        let IngressPacket { common, packet, .. } = waiting;
        if let Some(session) = outcome.clone_session {
            self.clone_at_ingress(waiting, session);
        }
        if outcome.has_digest {
            self.send_digest(*packet);
        }
        match outcome.verdict {
            IngressVerdict::Drop(reason) => self.end(common, *packet, reason),
            IngressVerdict::Resubmit => self.resubmit(*waiting),
            IngressVerdict::Multicast(group) => {
                let only = self.multicast(common, *packet, group, outcome.priority);
                return only.map_or(0, |replica| self.egress(&replica));
            }
            IngressVerdict::Unicast(port) => {
                let way = Way {
                    port,
                    queue: outcome.priority,
                    instance_type: InstanceType::Normal,
                    instance: None,
                    is_refused: false,
                };
                self.enqueue(way, common, *packet);
            }
        }
        0
    }

    fn send_digest(&mut self, packet: PacketHandle) {
        let model = &mut *self.model;
        let digest = self.engine.digest(&mut model.state, packet);
        let tracer = &mut model.state.tracer;
        tracer.emit(|| TraceKind::Digest(digest.name.as_str().into()));
        model.digests.push(digest, &mut model.state.counters);
    }

    fn resubmit(&mut self, mut waiting: IngressPacket) {
        waiting.common.resubmits += 1;
        if waiting.common.resubmits > limits::RESUBMITS_PER_PACKET_MAX {
            return self.end(&waiting.common, waiting.packet, DropReason::ResubmitLimit);
        }
        let pass = waiting.common.pass();
        let tracer = &mut self.model.state.tracer;
        tracer.emit(|| TraceKind::Resubmit { pass });
        self.engine.resubmit(waiting.packet);
        waiting.instance_type = InstanceType::Resubmitted;
        self.back_to_ingress(waiting);
    }

    fn back_to_ingress(&mut self, waiting: IngressPacket) {
        if self.model.traffic.recirculation.is_full() {
            let reason = DropReason::RecirculationQueueFull;
            return self.end(&waiting.common, waiting.packet, reason);
        }
        let now = self.model.state.now;
        self.model.traffic.recirculation.push(now, waiting);
    }

    pub(super) fn enqueue(&mut self, way: Way, common: &Common, packet: PacketHandle) {
        self.trace_packet(common);
        let Way { port, .. } = way;
        let Some(queue) = queue(way.queue) else {
            return self.end(common, packet, DropReason::PriorityOutOfRange);
        };
        let (state, egress) = (&mut self.model.state, &mut self.model.traffic.egress);
        if way.is_refused || egress.is_full(port, queue) {
            return self.end(common, packet, DropReason::EgressQueueFull);
        }
        let depth = egress.depth(port, queue);
        let ir = &state.program.ir;
        let shown = (!ir.has_secret(ir.metadata.priority)).then_some(queue);
        state.tracer.emit(|| TraceKind::Enqueue {
            port,
            queue: shown,
            depth,
        });
        let waiting = EgressPacket {
            common: *common,
            packet,
            instance_type: way.instance_type,
            enqueued: state.now,
        };
        let place = Place {
            port,
            instance: way.instance,
            enq_depth: depth,
        };
        egress.push(state.now, place, queue, waiting);
    }

    /// Follows an egress outcome: makes the clone, then drops the packet, or deparses it and recirculates or transmits
    /// it. A drop overrides recirculation, but does not drop the clone. Finally runs the clone's pass if nothing else
    /// must run first. Returns how many frames left, at most one.
    pub(super) fn finish_egress(
        &mut self,
        common: &Common,
        port: PortId,
        outcome: &EgressOutcome,
    ) -> usize {
        let packet = outcome.packet;
        let leaves = !matches!(outcome.verdict, EgressVerdict::Recirculate);
        let next = outcome
            .clone_session
            .and_then(|session| self.clone_at_egress(common, packet, leaves, session));
        let deparsed = match (outcome.verdict, outcome.frame_len_bytes) {
            (EgressVerdict::Drop(reason), _) => Err(reason),
            (_, Some(len)) => Ok(len),
            (_, None) => self.engine.deparse(&mut self.model.state, packet),
        };
        match (deparsed, outcome.verdict) {
            (Err(reason), _) => self.end(common, packet, reason),
            (Ok(len), EgressVerdict::Recirculate) => self.recirculate(*common, packet, len),
            (Ok(len), _) => return self.send(port, common, packet, len),
        }
        next.map_or(0, |clone| self.egress(&clone))
    }

    fn recirculate(&mut self, mut common: Common, packet: PacketHandle, frame_len_bytes: usize) {
        common.recirculations += 1;
        if common.recirculations > limits::RECIRCULATIONS_PER_PACKET_MAX {
            return self.end(&common, packet, DropReason::RecirculationLimit);
        }
        if frame_len_bytes > limits::FRAME_BYTES_MAX {
            return self.end(&common, packet, DropReason::FrameTooLong);
        }
        let pass = common.pass();
        let tracer = &mut self.model.state.tracer;
        tracer.emit(|| TraceKind::Recirculate { pass });
        self.engine.recirculate(packet);
        common.ingress_bytes = frame_len_bytes;
        self.back_to_ingress(IngressPacket {
            common,
            packet,
            instance_type: InstanceType::Recirculated,
        });
    }

    /// Sends a packet out of a port or to the control plane. Returns how many frames left.
    #[inline]
    fn send(
        &mut self,
        port: PortId,
        common: &Common,
        packet: PacketHandle,
        frame_len_bytes: usize,
    ) -> usize {
        if self.model.cpu_port == Some(port) {
            self.send_to_cpu(common, packet, frame_len_bytes);
            return 0;
        }
        if !self.model.state.counters.has_port(port) {
            self.end(common, packet, DropReason::EgressPortUnknown);
            return 0;
        }
        if self.model.state.ports_disabled.contains(port) {
            if let Some(counters) = self.model.state.counters.port_mut(port) {
                counters.tx_disabled += 1;
            }
            self.end(common, packet, DropReason::PortDisabled);
            return 0;
        }
        let tracer = &mut self.model.state.tracer;
        tracer.emit(|| TraceKind::Transmit {
            port,
            frame_len_bytes,
        });
        tracer.forget(common.name);
        let n_bytes = frame_len_bytes as u64;
        self.model.count_sent(port, common, 1, n_bytes);
        self.hand_over(port, packet);
        1
    }

    #[inline]
    pub(super) fn hand_over(&mut self, port: PortId, packet: PacketHandle) {
        let frame = self.engine.frame(packet);
        (self.send)(Transmit { port, frame });
        self.engine.discard(packet);
    }

    fn send_to_cpu(&mut self, common: &Common, packet: PacketHandle, frame_len_bytes: usize) {
        if self.model.packet_ins.len() >= limits::PACKET_IN_QUEUE_MAX {
            return self.end(common, packet, DropReason::PacketInQueueFull);
        }
        let state = &mut self.model.state;
        let tracer = &mut state.tracer;
        tracer.emit(|| TraceKind::PacketIn { frame_len_bytes });
        state.counters.to_cpu += 1;
        let frame = self.engine.frame(packet);
        let frame = [frame.head, frame.payload].concat();
        self.model.packet_ins.push_back(frame);
        self.model.leave(common);
        self.engine.discard(packet);
    }

    pub(super) fn end(&mut self, common: &Common, packet: PacketHandle, reason: DropReason) {
        self.model.state.count_drop(reason);
        self.model.leave(common);
        self.engine.discard(packet);
    }
}
