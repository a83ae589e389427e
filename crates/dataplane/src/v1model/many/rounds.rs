//! The rounds of a packet that recirculates and leaves a clone each time: ingress, egress, the clone's
//! egress, and again, without a queue in between. Whatever is not like that goes its way from where it
//! is, as a step of the switch.

use super::{Tally, at_once, hand_over, plain_copy, queue};
use crate::{
    DropReason, Nanos, Replica, Stream,
    engine::{
        CloneCopies, Clones, EgressInput, EgressOutcome, EgressVerdict, Engine, InstanceType,
        PacketHandle,
    },
    limits,
    switch::{Switch, Transmit},
    traffic_manager::packet::{Common, IngressPacket},
    v1model::{copies::queue_of, ingress_input},
};

/// The only clone that a session makes.
#[derive(Clone, Copy)]
struct LoneClone {
    session: u32,
    /// The session's queue; 0 is that of the clone's priority.
    queue: u32,
    to: Replica,
    truncate_bytes: Option<usize>,
}

impl Switch {
    /// The rounds of the packet whose turn it is, as [`Switch::step`] would run them one by one.
    pub(super) fn send_rounds(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> usize {
        if !self.traffic.egress.is_passable() {
            return 0;
        }
        let only = self.traffic.recirculation.only(now);
        if !only.is_some_and(|only| self.may_fuse(&only.common)) {
            return 0;
        }
        let Some(mut going) = self.traffic.recirculation.pop(now) else {
            return 0;
        };
        let (mut tally, mut n_sent) = (Tally::default(), 0);
        while n_sent < max_frames {
            let input = ingress_input(&going);
            let outcome = engine.ingress(&mut self.state, &input, going.packet);
            let Some((port, queue)) = self.way_on(&outcome) else {
                self.settle(&mut tally);
                let step = self.ingress_rest(engine, now, &going, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let input = at_once(now, port, queue);
            self.look_ahead.earn();
            let outcome = engine.egress(&mut self.state, &input, going.packet);
            let Some(lone) = self.lone_clone(&going, &outcome) else {
                self.settle(&mut tally);
                let step = self.egress_rest(engine, now, &going.common, port, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let mut common = going.common.of_copy(Stream::CloneSession(lone.session));
            common.clone_generation += 1;
            let clone = self.leave_clone(engine, going.packet, &common, lone);
            let frame_len_bytes = engine.deparse(&mut self.state, going.packet);
            let goes_on =
                self.begin_again(engine, &mut going.common, going.packet, frame_len_bytes);
            going.instance_type = InstanceType::Recirculated;
            if let Some((clone, queue)) = clone {
                let input = EgressInput {
                    port: lone.to.port,
                    queue,
                    instance_type: InstanceType::EgressClone,
                    instance: Some(lone.to.instance),
                    ..input
                };
                self.look_ahead.earn();
                let outcome = engine.egress(&mut self.state, &input, clone);
                let Some(copy) = plain_copy(lone.to.port, &outcome) else {
                    self.settle(&mut tally);
                    if goes_on {
                        self.traffic.recirculation.push(now, going);
                    }
                    let step = self.egress_rest(engine, now, &common, lone.to.port, outcome);
                    return n_sent + usize::from(hand_over(engine, &step, send));
                };
                n_sent += usize::from(self.hand_over_copy(engine, &mut tally, &common, copy, send));
            }
            if !goes_on {
                self.settle(&mut tally);
                return n_sent;
            }
        }
        self.settle(&mut tally);
        self.traffic.recirculation.push(now, going);
        n_sent
    }

    /// Makes a clone; gives it and its queue, unless there is none of that number.
    fn leave_clone(
        &mut self,
        engine: &mut dyn Engine,
        of: PacketHandle,
        common: &Common,
        lone: LoneClone,
    ) -> Option<(PacketHandle, usize)> {
        let copies = CloneCopies {
            copies: 1,
            truncate_bytes: lone.truncate_bytes,
        };
        let Clones { packet, priority } = engine.clone_egress(&mut self.state, of, copies);
        self.state.counters.created_by_clone += 1;
        self.traffic.inside.enter(common.epoch);
        let queue = queue(queue_of(lone.queue, priority));
        if queue.is_none() {
            self.end(engine, common, packet, DropReason::PriorityOutOfRange);
        }
        Some((packet, queue?))
    }

    /// The clone that a packet leaves which recirculates, if its turn at egress is next.
    fn lone_clone(&self, going: &IngressPacket, outcome: &EgressOutcome) -> Option<LoneClone> {
        let id = outcome.clone_session?;
        let is_usual = outcome.verdict == EgressVerdict::Recirculate
            && outcome.packet == going.packet
            && going.common.clone_generation < limits::CLONE_GENERATIONS_MAX;
        let session = self.traffic.sessions.get(id)?;
        let [to] = session.copies.replicas[..] else {
            return None;
        };
        (is_usual && self.is_next_at_egress()).then_some(LoneClone {
            session: id,
            queue: session.queue,
            to,
            truncate_bytes: session.truncate_bytes.map(|bytes| bytes as usize),
        })
    }
}
