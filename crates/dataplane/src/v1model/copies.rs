//! Clones and replicas.

use std::sync::Arc;

use super::{kept, length, put};
use crate::{
    DropReason, Nanos, limits,
    packet::{Common, IngressPacket, InstanceType, Requests, Work},
    program::ir::FieldListId,
    switch::{Loaded, Switch},
    trace::TraceKind,
    traffic_manager::clone_session::Session,
    value::Int,
};

impl Switch {
    /// An ingress clone has the headers as they arrived: the frame is parsed once more.
    pub(super) fn clone_at_ingress(
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
        let mut frame = packet.frame.clone();
        frame.truncate(original.requests.truncate_bytes);
        let mut work = Work {
            phv: loaded.blank_phv(),
            payload: frame.payload.clone(),
            requests: Requests::default(),
            packet_length: length(packet.frame.len()),
            ingress_bytes: packet.common.ingress_bytes,
        };
        // Parsers may branch on the port, so the clone's has to see the same one.
        let ingress_port = Int::from(packet.common.ingress_port.0);
        work.phv.set(&ir, ir.metadata.ingress_port, ingress_port);
        self.run_parser(loaded, &mut work, &frame);
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
    pub(super) fn multicast(
        &mut self,
        loaded: &mut Loaded,
        now: Nanos,
        mut parent: Common,
        mut work: Work,
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
        work.truncate_payload();
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

    /// An egress clone has the headers as they are now, and only a field list's metadata.
    pub(super) fn clone_at_egress(
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
        work.truncate_payload();
        work.requests = Requests::default();
        self.send_clones(loaded, now, common, work, id, &session);
    }
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
