//! The copies of a group or session, which are queued as one.

use super::{hand_over, is_plain};
use crate::{
    Nanos, PortId, Transmit,
    engine::{Copies, EgressInput, Engine, Frame},
    switch::Switch,
    traffic_manager::{
        packet::Place,
        queue::{EgressQueues, Row},
    },
};

/// Frames that have left one after the other by one port.
#[derive(Debug)]
pub(crate) struct PortTally {
    port: PortId,
    n_frames: u64,
    n_bytes: u64,
}

/// Some of a row, as the engine asks for them and gives them back.
struct Leaving<'a, I> {
    row: &'a Row,
    places: I,
    queues: &'a mut EgressQueues,
    input: EgressInput,
    n_taken: u32,
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
            deq_depth: self.queues.take_of_row(self.row, &place),
            ..self.input
        };
        Some(self.input)
    }

    #[inline]
    fn leave(&mut self, frame: Frame<'_>) {
        let port = self.input.port;
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
}

impl Switch {
    /// The copies of one packet whose turn it is, as [`Switch::step`] would run them one by one.
    pub(super) fn send_row(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> usize {
        let Some(row) = self.traffic.egress.row(now) else {
            return 0;
        };
        let waiting = &row.packet;
        if !self.may_fuse(&waiting.common) {
            return 0;
        }
        let n_most = match self.traffic.recirculation.is_empty() {
            true => max_frames.min(self.n_passes_before_look()),
            false => max_frames,
        };
        let n_most = self.n_plain(row.places().take(n_most));
        let mut tallies = std::mem::take(&mut self.tallies);
        let mut leaving = Leaving {
            places: row.places().take(n_most),
            row: &row,
            queues: &mut self.traffic.egress,
            input: EgressInput {
                port: PortId(0),
                queue: row.queue,
                instance_type: waiting.instance_type,
                instance: None,
                arrived: waiting.common.arrived,
                enqueued: waiting.enqueued,
                enq_depth: 0,
                deq_depth: 0,
                is_deparsed: true,
            },
            n_taken: 0,
            tallies: &mut tallies,
            send: &mut *send,
        };
        let other = engine.fan_out(&mut self.state, waiting.packet, &mut leaving);
        let Leaving { n_taken, input, .. } = leaving;
        self.look_ahead.earn_many(n_taken);
        self.traffic.egress.end_row(&row, n_taken as usize);
        let common = &waiting.common;
        for tally in tallies.drain(..) {
            self.count_sent(tally.port, common, tally.n_frames, tally.n_bytes);
        }
        self.tallies = tallies;
        let Some(outcome) = other else {
            return n_taken as usize;
        };
        let step = self.egress_rest(engine, now, common, input.port, outcome);
        n_taken as usize - 1 + usize::from(hand_over(engine, &step, send))
    }

    /// How many of the first places are of ports that frames leave by.
    fn n_plain(&self, places: impl Iterator<Item = Place>) -> usize {
        let mut last = None;
        let is_plain = |place: &Place| {
            let is_known = last == Some(place.port);
            last = Some(place.port);
            is_known || is_plain(&self.state, self.config().cpu_port, place.port)
        };
        places.take_while(is_plain).count()
    }
}
