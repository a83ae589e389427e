//! Frames that find nothing waiting and go straight through: ingress, egress, out. Whatever is not like
//! that goes its way from where it is, as a step of the switch.

use super::{Tally, at_once, hand_over, plain_copy};
use crate::{
    Nanos,
    engine::Engine,
    switch::{Switch, Transmit},
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
        while n_sent < max_frames {
            let waiting = self.traffic.ingress.front();
            if !waiting.is_some_and(|waiting| self.may_fuse(&waiting.common)) {
                break;
            }
            let Some(waiting) = self.traffic.ingress.pop_front() else {
                break;
            };
            let input = ingress_input(&waiting);
            let outcome = engine.ingress(&mut self.state, &input, waiting.packet);
            let Some((port, queue)) = self.way_on(&outcome) else {
                self.settle(&mut tally);
                let step = self.ingress_rest(engine, now, &waiting, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            let input = at_once(now, port, queue);
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
}
