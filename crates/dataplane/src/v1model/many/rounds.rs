//! The rounds of a packet that recirculates and leaves a clone each time: ingress, egress, the clone's
//! egress, and again, without a queue in between. Whatever is not like that goes its way from where it
//! is, as a step of the switch.

use super::{Tally, hand_over};
use crate::{
    DropReason, Nanos, Replica, Stream,
    engine::{
        CloneCopies, EgressInput, EgressOutcome, EgressVerdict, Engine, IngressOutcome,
        IngressVerdict, InstanceType,
    },
    limits,
    switch::{Switch, Transmit},
    traffic_manager::packet::IngressPacket,
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

/// The queue of a priority, if there is one.
fn queue(priority: u64) -> Option<usize> {
    let queue = usize::try_from(priority).ok()?;
    (queue < limits::EGRESS_QUEUES_PER_PORT).then_some(queue)
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
            let way = match outcome {
                IngressOutcome {
                    verdict: IngressVerdict::Unicast(port),
                    clone_session: None,
                    has_digest: false,
                    priority,
                } if self.is_next_at_egress() => queue(priority).map(|queue| (port, queue)),
                _ => None,
            };
            let Some((port, own_queue)) = way else {
                self.settle(&mut tally);
                let step = self.ingress_rest(engine, now, &going, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let input = EgressInput {
                port,
                queue: own_queue,
                instance_type: InstanceType::Normal,
                instance: None,
                enqueued: now,
                enq_depth: 0,
                deq_depth: 0,
                is_deparsed: true,
            };
            self.look_ahead.earn();
            let outcome = engine.egress(&mut self.state, &input, going.packet);
            let Some(lone) = self.lone_clone(&going, &outcome) else {
                self.settle(&mut tally);
                let step = self.egress_rest(engine, now, &going.common, port, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let copies = CloneCopies {
                copies: 1,
                truncate_bytes: lone.truncate_bytes,
            };
            let clone = engine.clone_egress(&mut self.state, going.packet, copies);
            let mut common = going.common.of_copy(Stream::CloneSession(lone.session));
            common.clone_generation += 1;
            self.state.counters.created_by_clone += 1;
            self.traffic.inside.enter(common.epoch);
            let clone_queue = queue(queue_of(lone.queue, clone.priority));
            if clone_queue.is_none() {
                let reason = DropReason::PriorityOutOfRange;
                self.end(engine, &common, clone.packet, reason);
            }
            let frame_len_bytes = engine.deparse(&mut self.state, going.packet);
            let goes_on =
                self.begin_again(engine, &mut going.common, going.packet, frame_len_bytes);
            going.instance_type = InstanceType::Recirculated;
            if let Some(queue) = clone_queue {
                let input = EgressInput {
                    port: lone.to.port,
                    queue,
                    instance_type: InstanceType::EgressClone,
                    instance: Some(lone.to.instance),
                    ..input
                };
                self.look_ahead.earn();
                let outcome = engine.egress(&mut self.state, &input, clone.packet);
                let EgressOutcome {
                    packet,
                    verdict: EgressVerdict::Transmit,
                    clone_session: None,
                    frame_len_bytes: Some(frame_len_bytes),
                } = outcome
                else {
                    self.settle(&mut tally);
                    if goes_on {
                        self.traffic.recirculation.push(now, going);
                    }
                    let step = self.egress_rest(engine, now, &common, lone.to.port, outcome);
                    return n_sent + usize::from(hand_over(engine, &step, send));
                };
                let copy = (lone.to.port, packet, frame_len_bytes);
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
