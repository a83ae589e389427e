//! Many frames at once: what leaves one after the other does not wait each time for somebody to ask
//! for it, and of the copies of one packet, which follow each other, only what differs is done anew:
//! those of a group or session ([`row`]), and those of a packet that recirculates ([`rounds`]). So are
//! frames that go [`straight`] through.

mod rounds;
mod row;
mod straight;

pub(crate) use row::PortTally;

use crate::{
    Nanos, PortId, Transmit, Transmitted,
    engine::{Engine, State},
    limits,
    switch::{Step, Switch},
};

impl Switch {
    /// As that many calls of [`Switch::poll_transmit`], but cheaper for each frame, and bounded:
    /// gives the frames to `send`. Less than `max_frames` leave if nothing more can run at `now`, or
    /// if as many steps and [`limits::STEPS_IN_VAIN_MAX`] more were made: packets may recirculate, or
    /// be dropped, as long as they like, and whoever calls has other things to do.
    pub fn transmit(
        &mut self,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> Transmitted {
        let now = self.advance(now);
        // The engine is moved out for the time of the passes, which borrow the rest.
        let Some(mut engine) = self.take_engine() else {
            return Transmitted {
                n_frames: 0,
                is_idle: true,
            };
        };
        let (mut n_sent, mut is_idle) = (0, false);
        let mut n_steps_left = max_frames.saturating_add(limits::STEPS_IN_VAIN_MAX);
        while n_sent < max_frames && n_steps_left > 0 {
            n_steps_left -= 1;
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
                Step::Idle => {
                    is_idle = true;
                    break;
                }
                step => n_sent += usize::from(hand_over(&mut *engine, &step, send)),
            }
        }
        self.put_back_engine(engine);
        Transmitted {
            n_frames: n_sent,
            is_idle,
        }
    }

    /// As [`Switch::transmit`], but one step: a pass, and those that follow it without a queue between,
    /// of which no more than one frame comes. For a caller that reads its clock before each
    /// ([`Switch::is_timed`]).
    pub fn transmit_step(&mut self, now: Nanos, send: &mut dyn FnMut(Transmit<'_>)) -> Transmitted {
        let now = self.advance(now);
        let Some(mut engine) = self.take_engine() else {
            return Transmitted {
                n_frames: 0,
                is_idle: true,
            };
        };
        let step = self.step(&mut *engine, now);
        let n_frames = usize::from(hand_over(&mut *engine, &step, send));
        self.put_back_engine(engine);
        Transmitted {
            n_frames,
            is_idle: matches!(step, Step::Idle),
        }
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
