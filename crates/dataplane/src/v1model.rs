//! The v1model architecture as BMv2's `simple_switch` runs it: what the standard metadata hold,
//! and what happens to a packet between the controls. Source: behavioral-model,
//! `simple_switch.cpp` and `docs/simple_switch.md`.

use std::{collections::HashMap, sync::Arc};

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
    program::{
        LoadError,
        ir::{Field, FieldId, FieldListId, Ir},
    },
    switch::{Loaded, Switch},
    trace::{Stage, TraceKind},
    traffic_manager::{clone_session::Session, queue::Departure},
    value::{self, Int},
};

/// Where the fields are that the target reads and writes; those that a program leaves out are
/// not written.
#[derive(Debug, Clone, Default)]
pub(crate) struct StandardMetadata {
    pub ingress_port: FieldId,
    pub egress_spec: FieldId,
    pub egress_port: FieldId,
    pub instance_type: FieldId,
    pub packet_length: FieldId,
    pub ingress_global_timestamp: Option<FieldId>,
    pub egress_global_timestamp: Option<FieldId>,
    pub mcast_grp: Option<FieldId>,
    pub egress_rid: Option<FieldId>,
    pub parser_error: Option<FieldId>,
    pub checksum_error: Option<FieldId>,
    pub priority: Option<FieldId>,
    pub qid: Option<FieldId>,
    pub queueing: Option<Queueing>,
}

/// The fields of the queues; all or none of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queueing {
    pub enq_timestamp: FieldId,
    pub enq_qdepth: FieldId,
    pub deq_timedelta: FieldId,
    pub deq_qdepth: FieldId,
}

impl StandardMetadata {
    /// Finds the fields by the names that simple_switch uses, which v1model.p4 gives as aliases.
    pub(crate) fn resolve(
        names: &HashMap<String, FieldId>,
        fields: &[Field],
    ) -> Result<Self, LoadError> {
        let find = |header: &str, field: &str| {
            let name = |header: &str| names.get(&format!("{header}.{field}")).copied();
            name(header).or_else(|| name("standard_metadata"))
        };
        let required = |field: &str, bits: u32| {
            let place = format!("standard_metadata.{field}");
            let Some(id) = find("standard_metadata", field) else {
                return Err(LoadError {
                    place,
                    message: "the target needs this field".into(),
                });
            };
            let found = fields[id.index()].bits;
            if found < bits {
                let message = format!("expected {bits} bits at least, found {found}");
                return Err(LoadError { place, message });
            }
            Ok(id)
        };
        let queue = |field| find("queueing_metadata", field);
        let queueing = match (
            queue("enq_timestamp"),
            queue("enq_qdepth"),
            queue("deq_timedelta"),
            queue("deq_qdepth"),
        ) {
            (Some(enq_timestamp), Some(enq_qdepth), Some(deq_timedelta), Some(deq_qdepth)) => {
                Some(Queueing {
                    enq_timestamp,
                    enq_qdepth,
                    deq_timedelta,
                    deq_qdepth,
                })
            }
            _ => None,
        };
        Ok(Self {
            ingress_port: required("ingress_port", 9)?,
            egress_spec: required("egress_spec", 9)?,
            egress_port: required("egress_port", 9)?,
            instance_type: required("instance_type", 3)?,
            packet_length: required("packet_length", 1)?,
            ingress_global_timestamp: find("intrinsic_metadata", "ingress_global_timestamp"),
            egress_global_timestamp: find("intrinsic_metadata", "egress_global_timestamp"),
            mcast_grp: find("intrinsic_metadata", "mcast_grp"),
            egress_rid: find("intrinsic_metadata", "egress_rid"),
            parser_error: find("standard_metadata", "parser_error"),
            checksum_error: find("standard_metadata", "checksum_error"),
            priority: find("intrinsic_metadata", "priority"),
            qid: queue("qid"),
            queueing,
        })
    }
}

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

    /// An ingress clone has the headers as they arrived: the frame is parsed once more.
    fn clone_at_ingress(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        packet: &mut IngressPacket,
        original: &Work,
        id: u32,
        list: Option<FieldListId>,
    ) {
        let Some(session) = self.session(&packet.common, id) else {
            return;
        };
        let ir = Arc::clone(&loaded.program.ir);
        let mut work = Work {
            phv: loaded.blank_phv(),
            payload: packet.frame.payload.clone(),
            requests: Requests::default(),
            packet_length: length(packet.frame.len()),
            ingress_bytes: packet.common.ingress_bytes,
        };
        // Parsers may branch on the port, so the clone's has to see the same one.
        let ingress_port = Int::from(packet.common.ingress_port.0);
        work.phv.set(&ir, ir.metadata.ingress_port, ingress_port);
        self.run_parser(loaded, &mut work, &packet.frame);
        work.phv.reset_metadata(&ir);
        for (field, value) in kept(&ir, &original.phv, list) {
            work.phv.set(&ir, field, value);
        }
        let instance_type = Int::from(InstanceType::IngressClone as u8);
        work.phv.set(&ir, ir.metadata.instance_type, instance_type);
        work.requests = Requests::default();
        self.send_clones(loaded, now, &mut packet.common, work, id, &session);
    }

    /// The session of a clone; without one the clone is counted as dropped.
    fn session(&mut self, parent: &Common, id: u32) -> Option<Session> {
        let session = self.traffic.sessions.get(id);
        let reason = match &session {
            None => DropReason::CloneSessionUnknown,
            Some(session) if session.replicas.is_empty() => DropReason::CloneSessionEmpty,
            Some(_) if parent.clone_generation >= limits::CLONE_GENERATIONS_MAX => {
                DropReason::CloneLimit
            }
            Some(_) => return session,
        };
        self.counters.created_by_clone += 1;
        self.count_drop(reason);
        None
    }

    fn send_clones(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        parent: &mut Common,
        work: Work,
        id: u32,
        session: &Session,
    ) {
        let ir = Arc::clone(&loaded.program.ir);
        let mut work = Some(work);
        let n_copies = session.replicas.len();
        for (position, replica) in session.replicas.iter().enumerate() {
            let is_last = position + 1 == n_copies;
            let Some(mut copy) = copy_or_take(loaded, &mut work, is_last) else {
                return;
            };
            put(&ir, &mut copy.phv, ir.metadata.egress_rid, replica.instance);
            copy.requests.truncate_bytes = session.truncate_bytes;
            parent.n_clones += 1;
            let mut common = parent.clone();
            common.label = child_label(parent, 'c', parent.n_clones);
            common.clone_generation += 1;
            (common.n_clones, common.n_replicas) = (0, 0);
            self.counters.created_by_clone += 1;
            self.traffic.inside.enter(common.epoch);
            self.tracer.emit(|| TraceKind::Clone {
                session: id,
                packet: common.label.clone().unwrap_or_else(|| Arc::from("?")),
                port: replica.port,
                instance: replica.instance,
            });
            let queue = (session.queue != 0).then_some(session.queue);
            self.enqueue(loaded, now, replica.port, queue, common, copy);
            self.trace_packet(now, parent);
        }
    }

    /// Replaces a packet by its replicas, in the order of the group's list.
    fn multicast(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        mut parent: Common,
        work: Work,
        group: u32,
    ) {
        let ir = Arc::clone(&loaded.program.ir);
        let replicas = self.traffic.groups.get(group).unwrap_or_default();
        if replicas.is_empty() {
            let reason = match self.traffic.groups.get(group) {
                Some(_) => DropReason::MulticastGroupEmpty,
                None => DropReason::MulticastGroupUnknown,
            };
            return self.end(loaded, parent, work, reason);
        }
        let mut work = Some(work);
        for (position, replica) in replicas.iter().enumerate() {
            let is_last = position + 1 == replicas.len();
            let Some(mut copy) = copy_or_take(loaded, &mut work, is_last) else {
                return;
            };
            put(&ir, &mut copy.phv, ir.metadata.egress_rid, replica.instance);
            copy.requests = Requests::default();
            parent.n_replicas += 1;
            let mut common = parent.clone();
            common.label = child_label(&parent, 'r', parent.n_replicas);
            (common.n_clones, common.n_replicas) = (0, 0);
            // The packet that is replicated becomes one of the replicas.
            if !is_last {
                self.counters.created_by_replication += 1;
                self.traffic.inside.enter(common.epoch);
            }
            self.tracer.emit(|| TraceKind::Replicate {
                group,
                packet: common.label.clone().unwrap_or_else(|| Arc::from("?")),
                port: replica.port,
                instance: replica.instance,
            });
            self.enqueue(loaded, now, replica.port, None, common, copy);
            self.trace_packet(now, &parent);
        }
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
        let frame = frame.into_bytes(work.requests.truncate_bytes);
        self.send(loaded, port, common, work, frame);
    }

    /// An egress clone has the headers as they are now, and only a field list's metadata.
    fn clone_at_egress(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        common: &mut Common,
        original: &Work,
        id: u32,
        list: Option<FieldListId>,
    ) {
        let Some(session) = self.session(common, id) else {
            return;
        };
        let ir = Arc::clone(&loaded.program.ir);
        let mut work = copy_of(loaded, original);
        work.phv.reset_metadata(&ir);
        for (field, value) in kept(&ir, &original.phv, list) {
            work.phv.set(&ir, field, value);
        }
        let instance_type = Int::from(InstanceType::EgressClone as u8);
        work.phv.set(&ir, ir.metadata.instance_type, instance_type);
        work.requests = Requests::default();
        self.send_clones(loaded, now, common, work, id, &session);
    }

    /// Sends a packet through ingress again as it would have left, with a field list's metadata.
    fn recirculate(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        mut common: Common,
        work: Work,
        frame: Frame,
        list: Option<FieldListId>,
    ) {
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

/// A copy of a packet; the payload is shared.
fn copy_of(loaded: &mut Loaded, work: &Work) -> Work {
    let mut phv = loaded.spare_phv();
    phv.copy_from(&work.phv);
    Work {
        phv,
        payload: work.payload.clone(),
        requests: work.requests.clone(),
        packet_length: work.packet_length,
        ingress_bytes: work.ingress_bytes,
    }
}

/// A copy, or for the last of the copies the packet itself.
fn copy_or_take(loaded: &mut Loaded, work: &mut Option<Work>, is_last: bool) -> Option<Work> {
    if is_last {
        return work.take();
    }
    work.as_ref().map(|work| copy_of(loaded, work))
}

/// `1.c2` is the second clone of packet 1, `1.r3` its third replica.
fn child_label(parent: &Common, kind: char, number: u32) -> Option<Arc<str>> {
    parent
        .label
        .as_ref()
        .map(|label| format!("{label}.{kind}{number}").into())
}
