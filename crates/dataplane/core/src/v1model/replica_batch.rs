//! A replica batch: all copies of a multicast group or clone session, queued as one item, run egress in one call of the
//! engine ([`crate::engine::Engine::fan_out`]).

use super::{PortTally, Run, V1Model};
use crate::{
    Frame, PortId, Transmit,
    engine::{Copies, EgressInput, Leave},
    traffic_manager::{
        packet::Place,
        queue::{EgressQueues, ReplicaBatch},
    },
};

/// Gives the copies of a batch to the engine, and takes the frames that leave.
struct Leaving<'a, I> {
    batch: &'a ReplicaBatch,
    places: I,
    queues: &'a mut EgressQueues,
    input: EgressInput,
    n_taken: u32,
    n_failed: u32,
    tallies: &'a mut Vec<PortTally>,
    send: &'a mut dyn FnMut(Transmit<'_>),
}

impl<I: Iterator<Item = Place>> Copies for Leaving<'_, I> {
    #[inline]
    fn next_copy(&mut self) -> Option<EgressInput> {
        let place = self.places.next()?;
        self.n_taken += 1;
        self.input = EgressInput {
            port: place.port,
            instance: place.instance,
            enq_depth: place.enq_depth,
            deq_depth: self.queues.take_of_batch(self.batch, &place),
            ..self.input
        };
        Some(self.input)
    }
}

impl<I> Leave for Leaving<'_, I> {
    #[inline]
    fn leave(&mut self, port: PortId, frame: Frame<'_>) {
        let n_bytes = (frame.head.len() + frame.payload.len()) as u64;
        match self.tallies.last_mut() {
            Some(tally) if tally.port == port => {
                tally.n_frames += 1;
                tally.n_bytes += n_bytes;
            }
            _ => self.tallies.push(PortTally {
                port,
                n_frames: 1,
                n_bytes,
            }),
        }
        (self.send)(Transmit { port, frame });
    }

    fn fail(&mut self) {
        self.n_failed += 1;
    }
}

impl Run<'_> {
    /// Sends up to `n_copies` copies of one packet, fewer if a copy does something other than leave. Returns how many
    /// frames left.
    pub(super) fn send_replicas(&mut self, batch: &ReplicaBatch, n_copies: usize) -> usize {
        let model = &mut *self.model;
        let waiting = &batch.packet;
        let mut tallies = std::mem::take(&mut model.tallies);
        let mut leaving = Leaving {
            places: batch.places().take(n_copies),
            batch,
            queues: &mut model.traffic.egress,
            input: EgressInput {
                port: PortId(0),
                queue: batch.queue,
                instance_type: waiting.instance_type,
                instance: None,
                arrived: waiting.common.arrived,
                enqueued: waiting.enqueued,
                enq_depth: 0,
                deq_depth: 0,
                is_deparsed: true,
            },
            n_taken: 0,
            n_failed: 0,
            tallies: &mut tallies,
            send: &mut *self.send,
        };
        let state = &mut model.state;
        let other = self.engine.fan_out(state, waiting.packet, &mut leaving);
        let Leaving {
            n_taken,
            n_failed,
            input,
            ..
        } = leaving;
        model.traffic.look_ahead.earn_many(n_taken);
        model.traffic.egress.end_batch(batch, n_taken as usize);
        let common = &waiting.common;
        for tally in tallies.drain(..) {
            model.count_sent(tally.port, common, tally.n_frames, tally.n_bytes);
        }
        model.tallies = tallies;
        model.leave_many(common, n_failed);
        let n_gone = (n_taken - n_failed) as usize;
        match other {
            None => n_gone,
            Some(outcome) => n_gone - 1 + self.finish_egress(common, input.port, &outcome),
        }
    }
}

impl V1Model {
    /// The next replica batch, and how many of its copies (at least 1) may leave now: at most
    /// `max_frames`, only those before the next look-ahead, and only those before the first copy
    /// whose port is not plain ([`is_plain`](super::is_plain)).
    pub(super) fn replica_batch(&self, max_frames: usize) -> Option<(ReplicaBatch, usize)> {
        let batch = self.traffic.egress.replica_batch(self.state.now)?;
        if !self.may_fuse(&batch.packet.common) {
            return None;
        }
        let n_copies = if self.traffic.recirculation.is_empty() {
            max_frames.min(self.traffic.n_passes_before_look())
        } else {
            max_frames
        };
        let n_copies = self.n_plain(batch.places().take(n_copies));
        (n_copies > 0).then_some((batch, n_copies))
    }

    /// How many copies come before the first copy whose port is not plain, that is, does not exist, is disabled or is
    /// the CPU port.
    fn n_plain(&self, places: impl Iterator<Item = Place>) -> usize {
        let mut last = None;
        let is_plain = |place: &Place| {
            let is_known = last == Some(place.port);
            last = Some(place.port);
            is_known || self.is_plain(place.port)
        };
        places.take_while(is_plain).count()
    }
}
