//! Clones and replicas: a group's or session's copies are one packet of the engine's, which stands
//! for all of them until each comes to egress.

use std::sync::Arc;

use super::{Run, fast_path::queue, ingress_input, slow_path::Way};
use crate::{
    DropReason, PortId, Stream,
    engine::{CloneCopies, Clones, InstanceType, PacketHandle},
    limits,
    trace::TraceKind,
    traffic_manager::{
        packet::{Common, EgressPacket, IngressPacket},
        replication::{Copies, ReplicationEntry},
    },
};

/// What all copies of a packet have.
#[derive(Debug, Clone, Copy)]
struct Copied {
    packet: PacketHandle,
    instance_type: InstanceType,
    queue: u64,
}

impl Run<'_> {
    /// An ingress clone has the headers as they arrived.
    pub(super) fn clone_at_ingress(&mut self, waiting: &IngressPacket, id: u32) {
        if let Some(session) = self.session(&waiting.common, id) {
            let (input, copies) = (ingress_input(waiting), copies_of(&session));
            let state = &mut self.model.state;
            let clones = self
                .engine
                .clone_ingress(state, &input, waiting.packet, copies);
            let instance_type = InstanceType::IngressClone;
            self.send_clones(&waiting.common, (id, &session), clones, instance_type);
        }
    }

    /// An egress clone has the headers as they are now.
    pub(super) fn clone_at_egress(&mut self, common: &Common, packet: PacketHandle, id: u32) {
        if let Some(session) = self.session(common, id) {
            let copies = copies_of(&session);
            let state = &mut self.model.state;
            let clones = self.engine.clone_egress(state, packet, copies);
            self.send_clones(common, (id, &session), clones, InstanceType::EgressClone);
        }
    }

    /// The session of a clone; without one the clone is counted as dropped.
    fn session(&mut self, parent: &Common, id: u32) -> Option<ReplicationEntry> {
        let traffic = &self.model.traffic;
        let session = traffic.sessions.get(id).map(|session| ReplicationEntry {
            copies: session.copies(&traffic.groups),
            ..session.clone()
        });
        let reason = match &session {
            None => DropReason::CloneSessionUnknown,
            Some(session) if session.copies.replicas.is_empty() => DropReason::CloneSessionEmpty,
            Some(_) if parent.clone_generation >= limits::CLONE_GENERATIONS_MAX => {
                DropReason::CloneLimit
            }
            Some(_) => return session,
        };
        let state = &mut self.model.state;
        state.counters.created_by_clone += 1;
        state.count_drop(reason);
        None
    }

    fn send_clones(
        &mut self,
        parent: &Common,
        (id, session): (u32, &ReplicationEntry),
        clones: Clones,
        instance_type: InstanceType,
    ) {
        let n_clones = session.copies.replicas.len() as u64;
        self.model.state.counters.created_by_clone += n_clones;
        self.model.traffic.inside.enter_many(parent.epoch, n_clones);
        let mut common = parent.of_copy(Stream::CloneSession(id));
        common.clone_generation += 1;
        let cloned = Copied {
            packet: clones.packet,
            instance_type,
            queue: match session.queue {
                0 => clones.priority,
                queue => u64::from(queue),
            },
        };
        self.send_copies(parent, common, cloned, &session.copies);
    }

    /// Replaces a packet by its replicas, in the order of the group's list.
    pub(super) fn multicast(
        &mut self,
        parent: &Common,
        packet: PacketHandle,
        group: u32,
        queue: u64,
    ) {
        let Some(entry) = self.model.traffic.groups.get(group) else {
            return self.end(parent, packet, DropReason::MulticastGroupUnknown);
        };
        let copies = entry.copies.clone();
        let Some(n_made) = copies.replicas.len().checked_sub(1) else {
            return self.end(parent, packet, DropReason::MulticastGroupEmpty);
        };
        self.engine.replicate(packet, count(&copies));
        // The packet that is replicated becomes one of the replicas.
        self.model.state.counters.created_by_replication += n_made as u64;
        let inside = &mut self.model.traffic.inside;
        inside.enter_many(parent.epoch, n_made as u64);
        let replicated = Copied {
            packet,
            instance_type: InstanceType::Replicated,
            queue,
        };
        let common = parent.of_copy(Stream::MulticastGroup(group));
        self.send_copies(parent, common, replicated, &copies);
    }

    /// Queues all copies of a packet, which have been counted: as one, if that makes no difference.
    fn send_copies(
        &mut self,
        parent: &Common,
        mut common: Common,
        copied: Copied,
        copies: &Arc<Copies>,
    ) {
        if self.model.may_fuse(parent) && self.enqueue_all(common, copied, copies) {
            return;
        }
        let refused = self.refused(copies, copied.queue);
        for replica in &copies.replicas {
            let tracer = &mut self.model.state.tracer;
            common.name = tracer.name_copy(parent.name, common.stream);
            tracer.emit_of(common.name, |packet| TraceKind::Copy {
                by: common.stream,
                packet,
                port: replica.port,
                instance: replica.instance,
            });
            let way = Way {
                port: replica.port,
                queue: copied.queue,
                instance_type: copied.instance_type,
                instance: Some(replica.instance),
                is_refused: refused.contains(&replica.port),
            };
            self.enqueue(way, &common, copied.packet);
            self.trace_packet(parent);
        }
    }

    /// Queues all copies of a packet as one, if that makes no difference.
    fn enqueue_all(&mut self, common: Common, copied: Copied, copies: &Arc<Copies>) -> bool {
        let now = self.model.state.now;
        let packet = EgressPacket {
            common,
            packet: copied.packet,
            instance_type: copied.instance_type,
            enqueued: now,
        };
        let egress = &mut self.model.traffic.egress;
        queue(copied.queue).is_some_and(|queue| egress.push_all(now, queue, packet, copies))
    }

    /// The ports whose queue has no room for all of the copies that go there: they get none, so
    /// that nobody loses more than another because of the place in the list.
    fn refused(&self, copies: &Copies, of_queue: u64) -> Vec<PortId> {
        let Some(queue) = queue(of_queue) else {
            return Vec::new();
        };
        let egress = &self.model.traffic.egress;
        let ports = copies.ports.iter();
        let refused = ports.filter(|(port, n_copies)| egress.refuses(*port, queue, *n_copies));
        refused.map(|(port, _)| *port).collect()
    }
}

fn count(copies: &Copies) -> u32 {
    u32::try_from(copies.replicas.len()).expect("a list of replicas has a limit")
}

fn copies_of(session: &ReplicationEntry) -> CloneCopies {
    CloneCopies {
        copies: count(&session.copies),
        truncate_bytes: session.truncate_bytes.map(|len| len as usize),
    }
}
