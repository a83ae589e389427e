//! The copies of a group or session, which are queued as one.

use super::{Tally, hand_over, plain_copy};
use crate::{
    Nanos,
    engine::{EgressInput, Engine},
    switch::{Switch, Transmit},
};

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
        let (mut n_taken, mut n_sent) = (0, 0);
        let mut tally = Tally::default();
        for place in row.places() {
            if n_sent == max_frames || self.is_look_ahead_wanted() {
                break;
            }
            n_taken += 1;
            self.look_ahead.earn();
            let input = EgressInput {
                port: place.port,
                queue: row.queue,
                instance_type: waiting.instance_type,
                instance: place.instance,
                enqueued: waiting.enqueued,
                enq_depth: place.enq_depth,
                deq_depth: self.traffic.egress.take_of_row(&row, &place),
                is_deparsed: true,
            };
            let outcome = engine.egress(&mut self.state, &input, waiting.packet);
            let Some(copy) = plain_copy(place.port, &outcome) else {
                // What comes of it may be queued: so the queues have to be as they are.
                let common = waiting.common;
                self.settle(&mut tally);
                self.traffic.egress.end_row(&row, n_taken);
                let step = self.egress_rest(engine, now, &common, place.port, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let common = &waiting.common;
            n_sent += usize::from(self.hand_over_copy(engine, &mut tally, common, copy, send));
        }
        self.settle(&mut tally);
        self.traffic.egress.end_row(&row, n_taken);
        n_sent
    }
}
