//! The fast path: while nothing else waits, new frames run ingress and egress and leave, one after the other. Their
//! counts are added to the counters together, after the last frame; nothing reads the counters in between.

use super::{Run, V1Model, ingress_input};
use crate::{
    PortId,
    engine::{EgressInput, EgressOutcome, IngressOutcome, IngressVerdict, InstanceType},
    limits,
    traffic_manager::packet::{Common, IngressPacket},
};

/// Consecutive frames of the same port, stream, arrival time and drain epoch that left and are not counted yet.
#[derive(Default)]
struct Tally {
    of: Option<(PortId, Common)>,
    n_frames: u64,
    n_bytes: u64,
}

impl Tally {
    #[inline]
    fn is_of(&self, port: PortId, common: &Common) -> bool {
        self.of.as_ref().is_some_and(|(of, like)| {
            *of == port
                && like.arrived == common.arrived
                && like.epoch == common.epoch
                && like.stream == common.stream
        })
    }
}

impl V1Model {
    /// Port and queue of a packet that may go from ingress to egress without waiting; `None` for other packets. Such a
    /// packet is unicast, makes no clone and no digest, and would run next at egress.
    #[inline]
    pub(super) fn way_on(
        &self,
        common: &Common,
        outcome: &IngressOutcome,
    ) -> Option<(PortId, usize)> {
        match outcome {
            IngressOutcome {
                verdict: IngressVerdict::Unicast(port),
                clone_session: None,
                has_digest: false,
                priority,
            } if self.may_fuse(common) && self.is_next_at_egress() => {
                Some((*port, queue(*priority)?))
            }
            _ => None,
        }
    }

    fn settle(&mut self, tally: &mut Tally) {
        let Tally {
            of,
            n_frames,
            n_bytes,
        } = std::mem::take(tally);
        if let Some((port, common)) = of {
            self.count_sent(port, &common, n_frames, n_bytes);
        }
    }
}

impl Run<'_> {
    /// Runs new frames until `max_frames` frames have left, no frame waits, or a frame must take the slow path. Returns
    /// how many frames left.
    pub(super) fn send_frames(&mut self, max_frames: usize) -> usize {
        let (mut tally, mut n_sent) = (Tally::default(), 0);
        let n_ahead = self.engine.prefetch_depth();
        while n_sent < max_frames && !self.model.traffic.ingress.is_empty() {
            self.prefetch(n_ahead);
            let frame = self.next_frame();
            match self.send_frame(&mut tally, &frame) {
                Ok(()) => n_sent += 1,
                Err(n_sent_slowly) => {
                    n_sent += n_sent_slowly;
                    break;
                }
            }
        }
        self.model.settle(&mut tally);
        n_sent
    }

    #[inline]
    fn prefetch(&mut self, n_ahead: usize) {
        while self.n_prefetched <= n_ahead
            && n_ahead > 0
            && let Some(later) = self.model.traffic.ingress.get(self.n_prefetched)
        {
            let input = ingress_input(later);
            let state = &mut self.model.state;
            self.engine.prefetch(state, &input, later.packet);
            self.n_prefetched += 1;
        }
    }

    /// Runs a frame to its end and adds it to the tally. `Err` if the frame had to take the slow path; it holds the
    /// number of frames that the slow path sent.
    #[inline]
    fn send_frame(&mut self, tally: &mut Tally, frame: &IngressPacket) -> Result<(), usize> {
        let common = &frame.common;
        self.trace_packet(common);
        let state = &mut self.model.state;
        let input = ingress_input(frame);
        let outcome = self.engine.ingress(state, &input, frame.packet);
        let Some((port, queue)) = self.model.way_on(common, &outcome) else {
            return Err(self.finish_ingress(frame, &outcome));
        };
        let outcome = self.egress_at_once(frame, port, queue);
        let plain_len = outcome.frame_len_bytes.filter(|_| outcome.is_plain());
        let Some(frame_len_bytes) = plain_len else {
            return Err(self.finish_egress(common, port, &outcome));
        };
        if !tally.is_of(port, common) {
            self.model.settle(tally);
            if !self.model.is_plain(port) {
                return Err(self.finish_egress(common, port, &outcome));
            }
            tally.of = Some((port, *common));
        }
        tally.n_frames += 1;
        tally.n_bytes += frame_len_bytes as u64;
        self.hand_over(port, outcome.packet);
        Ok(())
    }

    /// Runs egress for a packet that was not queued.
    #[inline]
    pub(super) fn egress_at_once(
        &mut self,
        waiting: &IngressPacket,
        port: PortId,
        queue: usize,
    ) -> EgressOutcome {
        let state = &mut self.model.state;
        let input = EgressInput {
            port,
            queue,
            instance_type: InstanceType::Normal,
            instance: None,
            arrived: waiting.common.arrived,
            enqueued: state.now,
            enq_depth: 0,
            deq_depth: 0,
            is_deparsed: true,
        };
        self.model.traffic.look_ahead.earn();
        self.engine.egress(state, &input, waiting.packet)
    }
}

pub(super) fn queue(priority: u64) -> Option<usize> {
    let queue = usize::try_from(priority).ok()?;
    (queue < limits::EGRESS_QUEUES_PER_PORT).then_some(queue)
}
