//! Frames that find nothing waiting and go straight through: ingress, egress, out. Whatever is not like
//! that goes its way from where it is, as a step of the switch.

use super::{hand_over, is_plain};
use crate::{
    Nanos, PortId, Transmit,
    engine::{
        EgressInput, EgressOutcome, EgressVerdict, Engine, IngressOutcome, IngressVerdict,
        InstanceType, PacketHandle,
    },
    limits,
    switch::{Step, Switch},
    traffic_manager::packet::Common,
    v1model::ingress_input,
};

impl Switch {
    /// The frames whose turn it is, as [`Switch::step`] would run them one by one; nothing waits for
    /// egress or recirculates.
    pub(super) fn send_straight(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> usize {
        let (mut tally, mut n_sent) = (Tally::default(), 0);
        let n_early = engine.expects();
        for waiting in self.traffic.ingress.iter().take(n_early) {
            engine.expect(&mut self.state, &ingress_input(waiting), waiting.packet);
        }
        while n_sent < max_frames {
            let waiting = self.traffic.ingress.front();
            if !waiting.is_some_and(|waiting| self.may_fuse(&waiting.common)) {
                break;
            }
            let Some(waiting) = self.traffic.ingress.pop_front() else {
                break;
            };
            let later = n_early.checked_sub(1);
            if let Some(later) = later.and_then(|later| self.traffic.ingress.get(later)) {
                engine.expect(&mut self.state, &ingress_input(later), later.packet);
            }
            let input = ingress_input(&waiting);
            let outcome = engine.ingress(&mut self.state, &input, waiting.packet);
            let Some((port, queue)) = self.way_on(&outcome) else {
                self.settle(&mut tally);
                let step = self.ingress_rest(engine, now, &waiting, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let input = at_once(now, waiting.common.arrived, port, queue);
            self.look_ahead.earn();
            let outcome = engine.egress(&mut self.state, &input, waiting.packet);
            let Some(copy) = plain_copy(port, &outcome) else {
                self.settle(&mut tally);
                let step = self.egress_rest(engine, now, &waiting.common, port, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let common = &waiting.common;
            n_sent += usize::from(self.hand_over_copy(engine, &mut tally, common, copy, send));
        }
        self.settle(&mut tally);
        n_sent
    }

    /// Where a packet goes on to from ingress, if that is all that came of it and its turn is next.
    fn way_on(&self, outcome: &IngressOutcome) -> Option<(PortId, usize)> {
        match outcome {
            IngressOutcome {
                verdict: IngressVerdict::Unicast(port),
                clone_session: None,
                has_digest: false,
                priority,
            } if self.is_next_at_egress() => Some((*port, queue(*priority)?)),
            _ => None,
        }
    }

    /// Hands a frame over, to be counted with those before it. False if its port is none that frames
    /// leave by.
    #[inline]
    fn hand_over_copy(
        &mut self,
        engine: &mut dyn Engine,
        tally: &mut Tally,
        common: &Common,
        copy: Copy,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> bool {
        let is_like = |(port, like): &(PortId, Common)| {
            *port == copy.port
                && like.arrived == common.arrived
                && like.epoch == common.epoch
                && like.stream == common.stream
        };
        if !tally.of.as_ref().is_some_and(is_like)
            && !self.begin_tally(engine, tally, common, &copy)
        {
            return false;
        }
        tally.n_frames += 1;
        tally.n_bytes += copy.frame_len_bytes as u64;
        hand_over(engine, &Step::Sent(copy.port, copy.packet), send)
    }

    /// Begins to count others; if it is no port that frames leave by, the frame goes its way.
    #[cold]
    fn begin_tally(
        &mut self,
        engine: &mut dyn Engine,
        tally: &mut Tally,
        common: &Common,
        copy: &Copy,
    ) -> bool {
        self.settle(tally);
        let is_plain = is_plain(&self.state, self.config().cpu_port, copy.port);
        if is_plain {
            tally.of = Some((copy.port, *common));
        } else {
            self.send(engine, copy.port, common, copy.packet, copy.frame_len_bytes);
        }
        is_plain
    }

    fn settle(&mut self, tally: &mut Tally) {
        let Tally {
            of,
            n_frames,
            n_bytes,
        } = std::mem::take(tally);
        if let Some((port, common)) = of.filter(|_| n_frames > 0) {
            self.count_sent(port, &common, n_frames, n_bytes);
        }
    }
}

/// Frames that have left one after the other by one port, of one stream and of one time of arrival and
/// drain epoch, and are not counted yet: nobody can look before all have left.
#[derive(Default)]
struct Tally {
    of: Option<(PortId, Common)>,
    n_frames: u64,
    n_bytes: u64,
}

/// The queue of a priority, if there is one.
fn queue(priority: u64) -> Option<usize> {
    let queue = usize::try_from(priority).ok()?;
    (queue < limits::EGRESS_QUEUES_PER_PORT).then_some(queue)
}

/// What an engine is told of a packet that comes to egress without waiting.
fn at_once(now: Nanos, arrived: Nanos, port: PortId, queue: usize) -> EgressInput {
    EgressInput {
        port,
        queue,
        instance_type: InstanceType::Normal,
        instance: None,
        arrived,
        enqueued: now,
        enq_depth: 0,
        deq_depth: 0,
        is_deparsed: true,
    }
}

/// A frame that leaves by a port.
struct Copy {
    port: PortId,
    packet: PacketHandle,
    frame_len_bytes: usize,
}

/// A frame that leaves, its length known, and of which nothing else comes.
#[inline]
fn plain_copy(port: PortId, outcome: &EgressOutcome) -> Option<Copy> {
    match outcome {
        EgressOutcome {
            packet,
            verdict: EgressVerdict::Transmit,
            clone_session: None,
            frame_len_bytes: Some(frame_len_bytes),
        } => Some(Copy {
            port,
            packet: *packet,
            frame_len_bytes: *frame_len_bytes,
        }),
        _ => None,
    }
}
