//! Clones and replicas. The engine keeps all copies for a multicast group or clone session as one packet. The handle of
//! this packet stands for every copy that has not run egress yet.

use std::sync::Arc;

use super::{Run, V1Model, fast_path::queue, ingress_input, slow_path::Way};
use crate::{
    DropReason, PortId, Stream,
    engine::{CloneCopies, Clones, InstanceType, PacketHandle},
    limits,
    trace::TraceKind,
    traffic_manager::{
        packet::{Common, EgressPacket, IngressPacket},
        queue::Departure,
        replication::Copies,
    },
};

/// What all copies of a packet have in common.
#[derive(Debug, Clone, Copy)]
struct Copied {
    packet: PacketHandle,
    instance_type: InstanceType,
    queue: u64,
}

/// A clone session, with its copies at the time of one clone.
struct Session {
    id: u32,
    copies: Arc<Copies>,
    truncate_bytes: Option<u32>,
    queue: u32,
}

impl Run<'_> {
    /// Makes an ingress clone, whose headers are as they arrived.
    pub(super) fn clone_at_ingress(&mut self, waiting: &IngressPacket, id: u32) {
        if let Some(session) = self.session(&waiting.common, id) {
            let (input, copies) = (ingress_input(waiting), copies_of(&session));
            let state = &mut self.model.state;
            let clones = self
                .engine
                .clone_ingress(state, &input, waiting.packet, copies);
            let instance_type = InstanceType::IngressClone;
            let (common, cloned) =
                self.count_clones(&waiting.common, &session, clones, instance_type);
            self.send_copies(&waiting.common, common, cloned, session.copies);
        }
    }

    /// Makes an egress clone, whose headers are as they are now. If the parent (the packet that is cloned) does not
    /// leave, and the clone is the only copy and would run next, returns the clone instead of queueing it, because the
    /// queue would cost more than the pass.
    pub(super) fn clone_at_egress(
        &mut self,
        parent: &Common,
        packet: PacketHandle,
        leaves: bool,
        id: u32,
    ) -> Option<Departure> {
        let session = self.session(parent, id)?;
        let state = &mut self.model.state;
        let clones = self.engine.clone_egress(state, packet, copies_of(&session));
        let instance_type = InstanceType::EgressClone;
        let (common, cloned) = self.count_clones(parent, &session, clones, instance_type);
        let only = if leaves {
            None
        } else {
            self.model
                .only_copy(parent, common, cloned, &session.copies)
        };
        if only.is_none() {
            self.send_copies(parent, common, cloned, session.copies);
        }
        only
    }

    /// Finds the session of a clone. If the clone cannot be made, counts the clone as made and dropped, and returns
    /// `None`.
    fn session(&mut self, parent: &Common, id: u32) -> Option<Session> {
        let traffic = &self.model.traffic;
        let session = traffic.sessions.get(id).map(|session| Session {
            id,
            copies: session.copies(&traffic.groups),
            truncate_bytes: session.truncate_bytes,
            queue: session.queue,
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

    /// Counts new clones; returns what they have in common.
    fn count_clones(
        &mut self,
        parent: &Common,
        session: &Session,
        clones: Clones,
        instance_type: InstanceType,
    ) -> (Common, Copied) {
        let n_clones = session.copies.replicas.len() as u64;
        self.model.state.counters.created_by_clone += n_clones;
        self.model.traffic.inside.enter_many(parent.epoch, n_clones);
        let mut common = parent.of_copy(Stream::CloneSession(session.id));
        common.clone_generation += 1;
        let cloned = Copied {
            packet: clones.packet,
            instance_type,
            queue: match session.queue {
                0 => clones.priority,
                queue => u64::from(queue),
            },
        };
        (common, cloned)
    }

    /// Replaces a packet by its replicas, in the order of the group's list. A lone replica that would run next is
    /// returned instead of queued.
    pub(super) fn multicast(
        &mut self,
        parent: &Common,
        packet: PacketHandle,
        group: u32,
        queue: u64,
    ) -> Option<Departure> {
        let Some(entry) = self.model.traffic.groups.get(group) else {
            self.end(parent, packet, DropReason::MulticastGroupUnknown);
            return None;
        };
        let copies = &entry.copies;
        let Some(n_made) = copies.replicas.len().checked_sub(1) else {
            self.end(parent, packet, DropReason::MulticastGroupEmpty);
            return None;
        };
        let replicated = Copied {
            packet,
            instance_type: InstanceType::Replicated,
            queue,
        };
        let common = parent.of_copy(Stream::MulticastGroup(group));
        let only = self.model.only_copy(parent, common, replicated, copies);
        let queued = only.is_none().then(|| copies.clone());
        self.engine.replicate(packet, count(copies));
        // The packet that is replicated becomes one of the replicas.
        self.model.state.counters.created_by_replication += n_made as u64;
        let inside = &mut self.model.traffic.inside;
        inside.enter_many(parent.epoch, n_made as u64);
        if let Some(copies) = queued {
            self.send_copies(parent, common, replicated, copies);
        }
        only
    }

    /// Queues all copies of a packet, which are already counted. They become one item of the queue if nobody can
    /// observe the difference.
    fn send_copies(
        &mut self,
        parent: &Common,
        mut common: Common,
        copied: Copied,
        copies: Arc<Copies>,
    ) {
        if self.model.may_fuse(parent)
            && let Some(queue) = queue(copied.queue)
            && let Some(depth) = self.model.traffic.egress.common_depth(queue, &copies)
        {
            let now = self.model.state.now;
            let packet = EgressPacket {
                common,
                packet: copied.packet,
                instance_type: copied.instance_type,
                enqueued: now,
            };
            let egress = &mut self.model.traffic.egress;
            return egress.push_all(now, queue, depth, packet, copies);
        }
        let refused = self.refused(&copies, copied.queue);
        let ir = &self.model.state.program.ir;
        let is_secret = match common.stream {
            Stream::CloneSession(_) => ir.secrets.choose_sessions(),
            _ => ir.has_secret(ir.metadata.mcast_grp),
        };
        for replica in &copies.replicas {
            let tracer = &mut self.model.state.tracer;
            common.name = tracer.name_copy(parent.name, common.stream);
            tracer.emit_of(common.name, |packet| TraceKind::Copy {
                by: common.stream,
                is_secret,
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

    /// Returns the ports whose queue has no room for all copies that go there. Such a port gets no copy at all, so that
    /// no receiver loses more than another because of its position in the list.
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

impl V1Model {
    /// The only copy of a packet, if it would run next at egress. Returns `None` if the parent is a clone, because a
    /// chain of clones of clones could keep one scheduler step from ending.
    fn only_copy(
        &self,
        parent: &Common,
        common: Common,
        copied: Copied,
        copies: &Copies,
    ) -> Option<Departure> {
        let [place] = copies.places[..] else {
            return None;
        };
        let queue = queue(copied.queue)?;
        let is_next =
            parent.clone_generation == 0 && self.may_fuse(parent) && self.is_next_at_egress();
        is_next.then_some(Departure {
            place,
            queue,
            depth: 0,
            packet: EgressPacket {
                common,
                packet: copied.packet,
                instance_type: copied.instance_type,
                enqueued: self.state.now,
            },
        })
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
