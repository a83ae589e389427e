//! Clones and replicas: a group's or session's copies are one packet of the engine's, which stands
//! for all of them until each comes to egress.

use std::sync::Arc;

use super::Way;
use crate::{
    DropReason, Nanos, PortId, Replica, Stream,
    engine::{CloneCopies, Engine, IngressInput, InstanceType, PacketHandle},
    limits,
    switch::Switch,
    trace::TraceKind,
    traffic_manager::{
        clone_session::Session,
        packet::{Common, EgressPacket, IngressPacket},
        queue::Departure,
        replication::Copies,
    },
};

/// What all clones of one session have.
#[derive(Debug, Clone, Copy)]
struct Cloned {
    session: u32,
    packet: PacketHandle,
    instance_type: InstanceType,
    queue: u64,
}

/// How all copies of a packet go to egress.
#[derive(Debug, Clone, Copy)]
struct AllWays {
    queue: u64,
    instance_type: InstanceType,
}

impl Switch {
    /// An ingress clone has the headers as they arrived.
    pub(super) fn clone_at_ingress(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        waiting: &IngressPacket,
        input: &IngressInput,
        id: u32,
    ) {
        let Some(session) = self.take_session(&waiting.common, id) else {
            return;
        };
        let copies = copies_of(&session);
        let clones = engine.clone_ingress(&mut self.state, input, waiting.packet, copies);
        let cloned = Cloned {
            session: id,
            packet: clones.packet,
            instance_type: InstanceType::IngressClone,
            queue: queue_of(session.queue, clones.priority),
        };
        self.send_clones(engine, now, &waiting.common, cloned, &session.copies);
        self.traffic.sessions.put_back(id, session);
    }

    /// An egress clone has the headers as they are now. Writes it to `next`, and says so, where it
    /// would be queued and leave its queue at once, as soon as its parent's pass is over, unless that
    /// leaves itself.
    pub(super) fn clone_at_egress(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        common: &Common,
        (packet, leaves): (PacketHandle, bool),
        id: u32,
        next: &mut Option<Departure>,
    ) -> bool {
        let Some(session) = self.take_session(common, id) else {
            return false;
        };
        let copies = copies_of(&session);
        let clones = engine.clone_egress(&mut self.state, packet, copies);
        let cloned = Cloned {
            session: id,
            packet: clones.packet,
            instance_type: InstanceType::EgressClone,
            queue: queue_of(session.queue, clones.priority),
        };
        match &session.copies.replicas[..] {
            [only] if !leaves && self.may_fuse(common) && self.is_next_at_egress() => {
                self.pass_clone_on(engine, now, common, cloned, *only, next);
            }
            _ => self.send_clones(engine, now, common, cloned, &session.copies),
        }
        self.traffic.sessions.put_back(id, session);
        next.is_some()
    }

    fn pass_clone_on(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        parent: &Common,
        cloned: Cloned,
        only: Replica,
        next: &mut Option<Departure>,
    ) {
        let mut common = parent.of_copy(Stream::CloneSession(cloned.session));
        common.clone_generation += 1;
        self.state.counters.created_by_clone += 1;
        self.traffic.inside.enter(common.epoch);
        let way = Way {
            port: only.port,
            queue: cloned.queue,
            instance_type: cloned.instance_type,
            instance: Some(only.instance),
            is_refused: false,
        };
        self.pass_on(engine, now, way, &common, cloned.packet, next);
    }

    /// The session of a clone, to be put back; without one the clone is counted as dropped.
    fn take_session(&mut self, parent: &Common, id: u32) -> Option<Session> {
        let session = self.traffic.sessions.take(id);
        let reason = match &session {
            None => DropReason::CloneSessionUnknown,
            Some(session) if session.copies.replicas.is_empty() => DropReason::CloneSessionEmpty,
            Some(_) if parent.clone_generation >= limits::CLONE_GENERATIONS_MAX => {
                DropReason::CloneLimit
            }
            Some(_) => return session,
        };
        if let Some(session) = session {
            self.traffic.sessions.put_back(id, session);
        }
        self.state.counters.created_by_clone += 1;
        self.count_drop(reason);
        None
    }

    fn send_clones(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        parent: &Common,
        cloned: Cloned,
        copies: &Arc<Copies>,
    ) {
        let stream = Stream::CloneSession(cloned.session);
        let mut first = parent.of_copy(stream);
        first.clone_generation += 1;
        let way = AllWays {
            queue: cloned.queue,
            instance_type: cloned.instance_type,
        };
        if self.may_fuse(parent) && self.enqueue_all(now, way, first, cloned.packet, copies) {
            let n_clones = copies.replicas.len() as u64;
            self.state.counters.created_by_clone += n_clones;
            self.traffic.inside.enter_many(parent.epoch, n_clones);
            return;
        }
        let refused = self.refused(copies, cloned.queue);
        for replica in &copies.replicas {
            let mut common = parent.of_copy(stream);
            common.name = self.state.tracer.name_clone(parent.name);
            common.clone_generation += 1;
            self.state.counters.created_by_clone += 1;
            self.traffic.inside.enter(common.epoch);
            let tracer = &mut self.state.tracer;
            tracer.emit_of(common.name, |label| TraceKind::Clone {
                session: cloned.session,
                packet: label,
                port: replica.port,
                instance: replica.instance,
            });
            let way = Way {
                port: replica.port,
                queue: cloned.queue,
                instance_type: cloned.instance_type,
                instance: Some(replica.instance),
                is_refused: refused.contains(&replica.port),
            };
            self.enqueue(engine, now, way, &common, cloned.packet);
            self.trace_packet(now, parent);
        }
    }

    /// Replaces a packet by its replicas, in the order of the group's list.
    pub(super) fn multicast(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        parent: &Common,
        packet: PacketHandle,
        group: u32,
        priority: u64,
    ) {
        let Some(copies) = self.traffic.groups.get(group) else {
            let reason = DropReason::MulticastGroupUnknown;
            return self.end(engine, parent, packet, reason);
        };
        if copies.replicas.is_empty() {
            let reason = DropReason::MulticastGroupEmpty;
            return self.end(engine, parent, packet, reason);
        }
        engine.replicate(packet, count(&copies));
        let stream = Stream::MulticastGroup(group);
        let way = AllWays {
            queue: priority,
            instance_type: InstanceType::Replicated,
        };
        if self.may_fuse(parent)
            && self.enqueue_all(now, way, parent.of_copy(stream), packet, &copies)
        {
            // The packet that is replicated becomes one of the replicas.
            let n_made = copies.replicas.len() as u64 - 1;
            self.state.counters.created_by_replication += n_made;
            self.traffic.inside.enter_many(parent.epoch, n_made);
            return;
        }
        let refused = self.refused(&copies, priority);
        for (position, replica) in copies.replicas.iter().enumerate() {
            let mut common = parent.of_copy(stream);
            common.name = self.state.tracer.name_replica(parent.name);
            // The packet that is replicated becomes one of the replicas.
            if position + 1 < copies.replicas.len() {
                self.state.counters.created_by_replication += 1;
                self.traffic.inside.enter(common.epoch);
            }
            let tracer = &mut self.state.tracer;
            tracer.emit_of(common.name, |label| TraceKind::Replicate {
                group,
                packet: label,
                port: replica.port,
                instance: replica.instance,
            });
            let way = Way {
                port: replica.port,
                queue: priority,
                instance_type: InstanceType::Replicated,
                instance: Some(replica.instance),
                is_refused: refused.contains(&replica.port),
            };
            self.enqueue(engine, now, way, &common, packet);
            self.trace_packet(now, parent);
        }
    }

    /// Queues all copies of a packet as one, if that makes no difference.
    fn enqueue_all(
        &mut self,
        now: Nanos,
        way: AllWays,
        common: Common,
        packet: PacketHandle,
        copies: &Arc<Copies>,
    ) -> bool {
        let queue = usize::try_from(way.queue).unwrap_or(usize::MAX);
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return false;
        }
        let packet = EgressPacket {
            common,
            packet,
            instance_type: way.instance_type,
            enqueued: now,
        };
        let egress = &mut self.traffic.egress;
        egress.push_all(now, queue, packet, copies)
    }

    /// The ports whose queue has no room for all of the copies that go there: they get none, so
    /// that nobody loses more than another because of the place in the list.
    fn refused(&self, copies: &Copies, queue: u64) -> Vec<PortId> {
        let queue = usize::try_from(queue).unwrap_or(usize::MAX);
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return Vec::new();
        }
        let egress = &self.traffic.egress;
        let ports = copies.ports.iter();
        let refused = ports.filter(|(port, n_copies)| egress.refuses(*port, queue, *n_copies));
        refused.map(|(port, _)| *port).collect()
    }
}

fn count(copies: &Copies) -> u32 {
    u32::try_from(copies.replicas.len()).expect("a list of replicas has a limit")
}

fn copies_of(session: &Session) -> CloneCopies {
    CloneCopies {
        copies: count(&session.copies),
        truncate_bytes: session.truncate_bytes.map(|len| len as usize),
    }
}

/// The session's queue, or that of the clone's priority.
pub(super) fn queue_of(session_queue: u32, priority: u64) -> u64 {
    match session_queue {
        0 => priority,
        queue => u64::from(queue),
    }
}
