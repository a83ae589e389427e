//! Many frames at once: what leaves one after the other does not wait each time for somebody to ask
//! for it, and of the copies of one packet, which follow each other, only what differs is done anew:
//! those of a group or session ([`row`]), and those of a packet that recirculates ([`rounds`]). So are
//! frames that go [`straight`] through.

mod rounds;
mod row;
mod straight;

pub(crate) use row::PortTally;

use crate::{
    Nanos, PortId,
    engine::{Engine, State},
    switch::{Step, Switch, Transmit},
};

impl Switch {
    /// As that many calls of [`Switch::poll_transmit`], but cheaper for each frame: gives the frames
    /// to `send`, and their number. Less than `max_frames` if nothing more can run at `now`.
    pub fn transmit(
        &mut self,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> usize {
        let now = self.advance(now);
        // The engine is moved out for the time of the passes, which borrow the rest.
        let Some(mut engine) = self.take_engine() else {
            return 0;
        };
        let mut n_sent = 0;
        while n_sent < max_frames {
            let n_left = max_frames - n_sent;
            if !self.traffic.egress.is_empty() {
                n_sent += self.send_row(&mut *engine, now, n_left, send);
            } else if !self.traffic.recirculation.is_empty() {
                n_sent += self.send_rounds(&mut *engine, now, n_left, send);
            } else if self.traffic.egress.is_passable() {
                n_sent += self.send_straight(&mut *engine, now, n_left, send);
            }
            if n_sent == max_frames {
                break;
            }
            match self.step(&mut *engine, now) {
                Step::Idle => break,
                step => n_sent += usize::from(hand_over(&mut *engine, &step, send)),
            }
        }
        self.put_back_engine(engine);
        n_sent
    }
}

/// Whether frames leave by a port: it is there, and not the control plane's.
fn is_plain(state: &State, cpu_port: Option<PortId>, port: PortId) -> bool {
    cpu_port != Some(port) && state.counters.has_port(port)
}

/// Gives a frame to whoever sends it, if a step came to one.
fn hand_over(engine: &mut dyn Engine, step: &Step, send: &mut dyn FnMut(Transmit<'_>)) -> bool {
    let Step::Sent(port, packet) = *step else {
        return false;
    };
    send(Transmit {
        port,
        frame: engine.frame(packet),
    });
    engine.discard(packet);
    true
}
