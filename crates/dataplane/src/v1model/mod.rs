//! The v1model architecture as BMv2's `simple_switch` runs it: what the standard metadata hold,
//! and what happens to a packet between the controls. Source: behavioral-model,
//! `simple_switch.cpp` and `docs/simple_switch.md`.

mod copies;
mod metadata;

use std::sync::Arc;

pub use metadata::{Queueing, StandardMetadata};

use crate::{
    DropReason, Nanos, PortId, Transmit, checksum,
    control_flow::{self, Pass},
    deparser,
    expression::Scope,
    externs::digest,
    limits,
    packet::{Common, EgressPacket, Frame, IngressPacket, InstanceType, Requests, Work},
    parser,
    phv::Phv,
    program::ir::{FieldId, FieldListId, Ir},
    switch::{Loaded, Switch},
    trace::{Stage, TraceKind},
    traffic_manager::queue::Departure,
    value::{self, Int},
};

/// Writes a number into a field that the program may have left out.
fn put(ir: &Ir, phv: &mut Phv, field: Option<FieldId>, number: impl Into<Int>) {
    if let Some(field) = field {
        phv.set(ir, field, number.into());
    }
}

/// Timestamps are in microseconds.
fn micros(now: Nanos) -> u64 {
    now / 1_000
}

/// The length of a frame as the metadata hold it; no frame is near the end of the type.
fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The values that a field list keeps.
fn kept(ir: &Ir, phv: &Phv, list: Option<FieldListId>) -> Vec<(FieldId, Int)> {
    let Some(list) = list else { return Vec::new() };
    let fields = &ir.field_lists[list.index()].fields;
    fields
        .iter()
        .map(|field| (*field, phv.get(*field).clone()))
        .collect()
}

fn port_of(phv: &Phv, field: FieldId) -> PortId {
    PortId(u16::try_from(phv.get(field)).unwrap_or(u16::MAX))
}

impl Switch {
    fn run_parser(&mut self, loaded: &mut Loaded, work: &mut Work, frame: &Frame) -> u32 {
        let ir = Arc::clone(&loaded.program.ir);
        let outcome = {
            let mut pass = self.pass(loaded, &ir, work);
            pass.tracer.emit(|| TraceKind::Begin(Stage::Parser));
            parser::parse(&mut pass, frame)
        };
        work.payload = frame.rest(outcome.consumed);
        outcome.error
    }

    /// The interpreter's view of a packet.
    fn pass<'a>(&'a mut self, loaded: &'a mut Loaded, ir: &'a Ir, work: &'a mut Work) -> Pass<'a> {
        Pass {
            ir,
            action_infos: &loaded.program.actions,
            phv: &mut work.phv,
            externs: &mut loaded.externs,
            tracer: &mut self.tracer,
            table_counters: &mut self.counters.tables,
            payload: &work.payload,
            requests: &mut work.requests,
            packet_length: &mut work.packet_length,
            ingress_bytes: work.ingress_bytes,
            now: self.now,
            args: Arc::default(),
            exited: false,
            failed: None,
        }
    }

    /// Runs a control and says why the packet ended in it, if it did.
    fn run_control(
        &mut self,
        loaded: &mut Loaded,
        work: &mut Work,
        stage: Stage,
    ) -> Option<DropReason> {
        let program = loaded.program.clone();
        let start = if stage == Stage::Ingress {
            program.ir.ingress
        } else {
            program.ir.egress
        };
        // The tables are moved out for the time of the control, since the pass borrows the rest.
        let mut tables = std::mem::take(&mut loaded.tables);
        let mut pass = self.pass(loaded, &program.ir, work);
        pass.tracer.emit(|| TraceKind::Begin(stage));
        control_flow::run(&program, &mut tables, &mut pass, start);
        pass.tracer.set_line(|| None);
        let failed = pass.failed;
        loaded.tables = tables;
        failed
    }

    /// Parser, checksum verification, ingress, and what the packet asked for there.
    pub(crate) fn ingress_pass(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        mut packet: IngressPacket,
    ) {
        let ir = Arc::clone(&loaded.program.ir);
        self.trace_packet(now, &packet.common);
        let mut work = self.start_ingress(loaded, &packet);
        let error = self.run_parser(loaded, &mut work, &packet.frame);
        let right = checksum::verify(&mut self.pass(loaded, &ir, &mut work));
        let metadata = &ir.metadata;
        put(&ir, &mut work.phv, metadata.parser_error, error);
        put(
            &ir,
            &mut work.phv,
            metadata.checksum_error,
            u8::from(!right),
        );
        if let Some(reason) = self.run_control(loaded, &mut work, Stage::Ingress) {
            return self.end(loaded, packet.common, work, reason);
        }
        if let Some((session, list)) = work.requests.clone.take() {
            self.clone_at_ingress(loaded, now, &mut packet, &work, session, list);
        }
        if let Some(list) = work.requests.digest.take() {
            self.send_digest(loaded, &work, list);
        }
        if let Some(list) = work.requests.resubmit.take() {
            return self.resubmit(loaded, now, packet, work, Some(list));
        }
        let group = metadata
            .mcast_grp
            .map_or(0, |field| value::low_u64(work.phv.get(field)));
        if group != 0 {
            let group = u32::try_from(group).unwrap_or(u32::MAX);
            let replicated = InstanceType::Replicated as u8;
            work.phv
                .set(&ir, metadata.instance_type, Int::from(replicated));
            return self.multicast(loaded, now, packet.common, work, group);
        }
        let port = port_of(&work.phv, metadata.egress_spec);
        if port.0 == limits::DROP_PORT {
            return self.end(loaded, packet.common, work, DropReason::IngressDrop);
        }
        work.phv.set(
            &ir,
            metadata.instance_type,
            Int::from(InstanceType::Normal as u8),
        );
        self.enqueue(loaded, now, port, None, packet.common, work);
    }

    /// The metadata a packet has when it comes to the parser.
    fn start_ingress(&mut self, loaded: &mut Loaded, packet: &IngressPacket) -> Work {
        let mut phv = loaded.blank_phv();
        let ir = &loaded.program.ir;
        let metadata = &ir.metadata;
        for (field, value) in &packet.kept {
            phv.set(ir, *field, value.clone());
        }
        if let Some(arrived) = packet.arrived {
            phv.set(
                ir,
                metadata.ingress_port,
                Int::from(packet.common.ingress_port.0),
            );
            put(
                ir,
                &mut phv,
                metadata.ingress_global_timestamp,
                micros(arrived),
            );
        }
        phv.set(
            ir,
            metadata.instance_type,
            Int::from(packet.instance_type as u8),
        );
        phv.set(ir, metadata.packet_length, Int::from(packet.frame.len()));
        Work {
            phv,
            payload: packet.frame.payload.clone(),
            requests: Requests::default(),
            packet_length: length(packet.frame.len()),
            ingress_bytes: packet.common.ingress_bytes,
        }
    }

    fn send_digest(&mut self, loaded: &Loaded, work: &Work, list: crate::program::ir::DigestId) {
        let ir = &loaded.program.ir;
        let scope = Scope {
            ir,
            phv: &work.phv,
            registers: &loaded.externs.registers,
            args: &[],
        };
        let digest = digest::take(ir, &scope, list);
        self.tracer.emit(|| TraceKind::Digest(digest.name.clone()));
        self.counters.digests += 1;
        if self.digests.len() < limits::DIGEST_QUEUE_MAX {
            self.digests.push_back(digest);
        } else {
            self.counters.digests_lost += 1;
        }
    }

    /// Sends a packet through ingress again as it came, with a field list's metadata.
    fn resubmit(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        mut packet: IngressPacket,
        work: Work,
        list: Option<FieldListId>,
    ) {
        packet.common.resubmits += 1;
        if packet.common.resubmits > limits::RESUBMITS_PER_PACKET_MAX {
            return self.end(loaded, packet.common, work, DropReason::ResubmitLimit);
        }
        self.tracer.emit(|| TraceKind::Resubmit {
            pass: packet.common.pass(),
        });
        packet.kept = kept(&loaded.program.ir, &work.phv, list);
        packet.frame.truncate(work.requests.truncate_bytes);
        packet.instance_type = InstanceType::Resubmitted;
        packet.arrived = None;
        self.back_to_ingress(loaded, now, packet, work);
    }

    fn back_to_ingress(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        packet: IngressPacket,
        work: Work,
    ) {
        if self.traffic.recirculation.is_full() {
            return self.end(
                loaded,
                packet.common,
                work,
                DropReason::RecirculationQueueFull,
            );
        }
        loaded.give_back(work.phv);
        self.traffic.recirculation.push(now, packet);
    }

    /// Puts a packet into a queue of an output port: the one given, or that of its priority.
    fn enqueue(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        port: PortId,
        queue: Option<usize>,
        common: Common,
        mut work: Work,
    ) {
        let ir = &loaded.program.ir;
        self.trace_packet(now, &common);
        let priority = ir
            .metadata
            .priority
            .map_or(0, |field| value::low_u64(work.phv.get(field)));
        let queue = queue
            .or_else(|| usize::try_from(priority).ok())
            .unwrap_or(usize::MAX);
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return self.end(loaded, common, work, DropReason::PriorityOutOfRange);
        }
        if self.traffic.egress.is_full(port) {
            return self.end(loaded, common, work, DropReason::EgressQueueFull);
        }
        let depth = self.traffic.egress.depth(port, queue);
        if let Some(queueing) = ir.metadata.queueing {
            work.phv
                .set(ir, queueing.enq_timestamp, Int::from(micros(now)));
            work.phv.set(ir, queueing.enq_qdepth, Int::from(depth));
        }
        self.tracer
            .emit(|| TraceKind::Enqueue { port, queue, depth });
        let packet = EgressPacket {
            common,
            work,
            enqueued: now,
        };
        self.traffic.egress.push(now, port, queue, packet);
    }

    /// Egress, the clone, then drop, deparser, and recirculation or transmission, in this order:
    /// a drop beats recirculation, and the clone survives it.
    pub(crate) fn egress_pass(&mut self, loaded: &mut Loaded, now: Nanos, departure: Departure) {
        let ir = Arc::clone(&loaded.program.ir);
        let port = departure.port;
        let EgressPacket {
            mut common,
            mut work,
            ..
        } = start_egress(&ir, now, departure);
        self.trace_packet(now, &common);
        if let Some(reason) = self.run_control(loaded, &mut work, Stage::Egress) {
            return self.end(loaded, common, work, reason);
        }
        if let Some((session, list)) = work.requests.clone.take() {
            self.clone_at_egress(loaded, now, &mut common, &work, session, list);
        }
        if port_of(&work.phv, ir.metadata.egress_spec).0 == limits::DROP_PORT {
            return self.end(loaded, common, work, DropReason::EgressDrop);
        }
        let frame = {
            let mut pass = self.pass(loaded, &ir, &mut work);
            pass.tracer.emit(|| TraceKind::Begin(Stage::Deparser));
            deparser::deparse(&mut pass)
        };
        if let Some(list) = work.requests.recirculate.take() {
            return self.recirculate(loaded, now, common, work, frame, Some(list));
        }
        let mut frame = frame;
        frame.truncate(work.requests.truncate_bytes);
        self.send(loaded, port, common, work, frame.into_bytes());
    }

    /// Sends a packet through ingress again as it would have left, with a field list's metadata.
    fn recirculate(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        mut common: Common,
        work: Work,
        mut frame: Frame,
        list: Option<FieldListId>,
    ) {
        frame.truncate(work.requests.truncate_bytes);
        common.recirculations += 1;
        if common.recirculations > limits::RECIRCULATIONS_PER_PACKET_MAX {
            return self.end(loaded, common, work, DropReason::RecirculationLimit);
        }
        if frame.len() > limits::FRAME_BYTES_MAX {
            return self.end(loaded, common, work, DropReason::FrameTooLong);
        }
        self.tracer.emit(|| TraceKind::Recirculate {
            pass: common.pass(),
        });
        common.ingress_bytes = frame.len();
        let packet = IngressPacket {
            common,
            frame,
            instance_type: InstanceType::Recirculated,
            kept: kept(&loaded.program.ir, &work.phv, list),
            arrived: None,
        };
        self.back_to_ingress(loaded, now, packet, work);
    }

    /// The end of a packet's way: out of a port, or to the control plane.
    fn send(
        &mut self,
        loaded: &mut Loaded,
        port: PortId,
        common: Common,
        work: Work,
        frame: Vec<u8>,
    ) {
        let frame_len_bytes = frame.len();
        if self.config().cpu_port == Some(port) {
            if self.packet_ins.len() >= limits::PACKET_IN_QUEUE_MAX {
                return self.end(loaded, common, work, DropReason::PacketInQueueFull);
            }
            self.tracer.emit(|| TraceKind::PacketIn { frame_len_bytes });
            self.counters.to_cpu += 1;
            self.packet_ins.push_back(frame);
        } else {
            let Some(counters) = self.counters.ports.get_mut(&port) else {
                return self.end(loaded, common, work, DropReason::EgressPortUnknown);
            };
            counters.tx_packets += 1;
            counters.tx_bytes += frame_len_bytes as u64;
            self.counters.transmitted += 1;
            self.tracer.emit(|| TraceKind::Transmit {
                port,
                frame_len_bytes,
            });
            self.transmits.push_back(Transmit { port, frame });
        }
        self.traffic.inside.leave(common.epoch);
        loaded.give_back(work.phv);
    }

    /// Ends a packet inside the switch, counted.
    fn end(&mut self, loaded: &mut Loaded, common: Common, work: Work, reason: DropReason) {
        self.count_drop(reason);
        self.traffic.inside.leave(common.epoch);
        loaded.give_back(work.phv);
    }

    pub(crate) fn trace_packet(&mut self, now: Nanos, common: &Common) {
        self.tracer
            .set_packet(now, common.label.as_ref(), common.pass());
    }

    /// Counts a drop of the packet that is being traced.
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.counters.count_drop(reason);
        self.tracer.emit(|| TraceKind::Drop(reason));
    }
}

/// The metadata a packet has when it comes to egress.
fn start_egress(ir: &Ir, now: Nanos, departure: Departure) -> EgressPacket {
    let Departure {
        port,
        queue,
        depth,
        mut packet,
    } = departure;
    let metadata = &ir.metadata;
    let phv = &mut packet.work.phv;
    put(ir, phv, metadata.egress_global_timestamp, micros(now));
    if let Some(queueing) = metadata.queueing {
        let waited = micros(now).saturating_sub(micros(packet.enqueued));
        phv.set(ir, queueing.deq_timedelta, Int::from(waited));
        phv.set(ir, queueing.deq_qdepth, Int::from(depth));
        put(ir, phv, metadata.qid, Int::from(queue));
    }
    phv.set(ir, metadata.egress_port, Int::from(port.0));
    // Any value but the drop port: simple_switch writes 512, of which 9 bits are 0.
    phv.set(
        ir,
        metadata.egress_spec,
        Int::from(u32::from(limits::DROP_PORT) + 1),
    );
    phv.set(
        ir,
        metadata.packet_length,
        Int::from(packet.work.packet_length),
    );
    packet
}
