//! Many frames at once: what leaves one after the other does not wait each time for somebody to ask
//! for it, and of the copies of one packet, which follow each other, only what differs is done anew:
//! those of a group or session ([`row`]), and those of a packet that recirculates ([`rounds`]). So are
//! frames that go [`straight`] through.

mod rounds;
mod row;
mod straight;

use crate::{
    Nanos, PortId,
    engine::{
        EgressInput, EgressOutcome, EgressVerdict, Engine, IngressOutcome, IngressVerdict,
        InstanceType, PacketHandle,
    },
    limits,
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

    /// Whether frames leave by a port: it is there, and not the control plane's.
    fn is_plain(&mut self, port: PortId) -> bool {
        self.config().cpu_port != Some(port) && self.state.counters.port_mut(port).is_some()
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
        let is_plain = self.is_plain(copy.port);
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
fn at_once(now: Nanos, port: PortId, queue: usize) -> EgressInput {
    EgressInput {
        port,
        queue,
        instance_type: InstanceType::Normal,
        instance: None,
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
