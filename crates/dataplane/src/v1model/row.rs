//! Many frames at once: what leaves one after the other does not wait each time for somebody to ask
//! for it, and of the copies of one packet, which follow each other, only what differs is done anew.

use crate::{
    Nanos, PortId,
    engine::{EgressInput, EgressOutcome, EgressVerdict, Engine},
    switch::{Step, Switch, Transmit},
    traffic_manager::packet::Common,
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
            n_sent += self.send_row(&mut *engine, now, max_frames - n_sent, send);
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

    /// The copies of one packet whose turn it is, as [`Switch::step`] would run them one by one.
    fn send_row(
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
            let EgressOutcome {
                packet,
                verdict: EgressVerdict::Transmit,
                clone_session: None,
                frame_len_bytes: Some(frame_len_bytes),
            } = outcome
            else {
                // What comes of it may be queued: so the queues have to be as they are.
                let common = waiting.common;
                self.settle(&mut tally, &common);
                self.traffic.egress.end_row(&row, n_taken);
                let step = self.egress_rest(engine, now, &common, place.port, outcome);
                return n_sent + usize::from(hand_over(engine, &step, send));
            };
            if tally.port != Some(place.port) {
                self.settle(&mut tally, &waiting.common);
                if !self.is_plain(place.port) {
                    let bytes = frame_len_bytes;
                    self.send(engine, place.port, &waiting.common, packet, bytes);
                    continue;
                }
                tally.port = Some(place.port);
            }
            tally.n_frames += 1;
            tally.n_bytes += frame_len_bytes as u64;
            n_sent += usize::from(hand_over(engine, &Step::Sent(place.port, packet), send));
        }
        self.settle(&mut tally, &row.packet.common);
        self.traffic.egress.end_row(&row, n_taken);
        n_sent
    }

    /// Whether frames leave by a port: it is there, and not the control plane's.
    fn is_plain(&mut self, port: PortId) -> bool {
        self.config().cpu_port != Some(port) && self.state.counters.port_mut(port).is_some()
    }

    fn settle(&mut self, tally: &mut Tally, common: &Common) {
        let Tally {
            port,
            n_frames,
            n_bytes,
        } = std::mem::take(tally);
        if let Some(port) = port.filter(|_| n_frames > 0) {
            self.count_sent(port, common, n_frames, n_bytes);
        }
    }
}

/// Copies that have left one after the other by one port, and are not counted yet: nobody can look
/// before all have left.
#[derive(Default)]
struct Tally {
    port: Option<PortId>,
    n_frames: u64,
    n_bytes: u64,
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
