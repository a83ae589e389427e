//! The rounds of a packet that recirculates and leaves a clone each time: ingress, egress, the clone's
//! egress, and again, without a queue in between. Whatever is not like that goes its way from where it
//! is, as a step of the switch.

use super::{hand_over, is_plain};
use crate::{
    Nanos, PortId, Stream, Transmit,
    engine::{Engine, Frame, LoneClone, LoneClones, RoundsEnd, RoundsInput, State},
    limits,
    switch::{Step, Switch},
    traffic_manager::{clone_session::CloneSessions, packet::IngressPacket},
    v1model::ingress_input,
};

/// The session of the clones, once it is known, and what has left of them.
struct Leaving<'a> {
    cpu_port: Option<PortId>,
    sessions: &'a CloneSessions,
    found: Option<(u32, LoneClone)>,
    n_bytes: u64,
    send: &'a mut dyn FnMut(Transmit<'_>),
}

impl LoneClones for Leaving<'_> {
    #[inline]
    fn clone_of(&mut self, state: &State, session: u32) -> Option<LoneClone> {
        match self.found {
            Some((id, lone)) => (id == session).then_some(lone),
            None => {
                let lone = self.look_up(state, session)?;
                self.found = Some((session, lone));
                Some(lone)
            }
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame<'_>) {
        let Some((_, LoneClone { to, .. })) = self.found else {
            return;
        };
        self.n_bytes += (frame.head.len() + frame.payload.len()) as u64;
        (self.send)(Transmit {
            port: to.port,
            frame,
        });
    }
}

impl Leaving<'_> {
    fn look_up(&self, state: &State, session: u32) -> Option<LoneClone> {
        let session = self.sessions.get(session)?;
        let [to] = session.copies.replicas[..] else {
            return None;
        };
        let is_usual = session.truncate_bytes.is_none() && is_plain(state, self.cpu_port, to.port);
        is_usual.then_some(LoneClone {
            to,
            queue: session.queue,
        })
    }
}

impl Switch {
    /// The rounds of the packet whose turn it is, as [`Switch::step`] would run them one by one.
    pub(super) fn send_rounds(
        &mut self,
        engine: &mut dyn Engine,
        now: Nanos,
        max_frames: usize,
        send: &mut dyn FnMut(Transmit<'_>),
    ) -> usize {
        let only = self.traffic.recirculation.only(now);
        let n_rounds_max = only.map_or(0, |only| self.n_rounds_max(only, max_frames));
        if n_rounds_max == 0 {
            return 0;
        }
        let Some(mut going) = self.traffic.recirculation.pop(now) else {
            return 0;
        };
        let mut leaving = Leaving {
            cpu_port: self.config().cpu_port,
            sessions: &self.traffic.sessions,
            found: None,
            n_bytes: 0,
            send: &mut *send,
        };
        let input = RoundsInput {
            ingress: ingress_input(&going),
            arrived: going.common.arrived,
            n_rounds_max,
        };
        let rounds = engine.rounds(&mut self.state, &input, going.packet, &mut leaving);
        let (found, n_bytes) = (leaving.found, leaving.n_bytes);
        let (n_rounds, end) = (rounds.n_rounds, rounds.end);
        let n_clones = n_rounds + u32::from(matches!(end, RoundsEnd::Clone(_)));
        // A clone is made before its parent recirculates. Its length for counters is that of the last
        // round's, and nobody looks at it before it recirculates itself.
        let mut made_of = going.common;
        made_of.recirculations += n_clones.saturating_sub(1);
        going.common.recirculations += n_clones;
        going.common.ingress_bytes = rounds.ingress_bytes;
        // A round is two passes of egress.
        self.look_ahead.earn_many(2 * n_clones);
        let clone = found.map(|(session, lone)| {
            let mut common = made_of.of_copy(Stream::CloneSession(session));
            common.clone_generation += 1;
            (common, lone.to.port)
        });
        if let Some((common, port)) = &clone {
            self.state.counters.created_by_clone += u64::from(n_clones);
            self.traffic
                .inside
                .enter_many(common.epoch, n_clones.into());
            if n_rounds > 0 {
                self.count_sent(*port, common, n_rounds.into(), n_bytes);
            }
        }
        let step = match (end, clone) {
            (RoundsEnd::Ingress(outcome), _) => self.ingress_rest(engine, now, &going, outcome),
            (RoundsEnd::Egress(port, outcome), _) => {
                self.look_ahead.earn();
                self.egress_rest(engine, now, &going.common, port, outcome)
            }
            (RoundsEnd::Clone(outcome), Some((common, port))) => {
                self.traffic.recirculation.push(now, going);
                self.egress_rest(engine, now, &common, port, outcome)
            }
            (RoundsEnd::Waits | RoundsEnd::Clone(_), _) => {
                self.traffic.recirculation.push(now, going);
                Step::Ran
            }
        };
        n_rounds as usize + usize::from(hand_over(engine, &step, send))
    }

    /// How many rounds a packet may go, one after the other, at most.
    fn n_rounds_max(&self, going: &IngressPacket, max_frames: usize) -> u32 {
        let common = &going.common;
        if !self.may_fuse(common)
            || !self.traffic.egress.is_passable()
            || common.clone_generation >= limits::CLONE_GENERATIONS_MAX
        {
            return 0;
        }
        let left = limits::RECIRCULATIONS_PER_PACKET_MAX.saturating_sub(common.recirculations);
        let most = max_frames.min(self.n_passes_before_look() / 2);
        u32::try_from(most).unwrap_or(u32::MAX).min(left)
    }
}
