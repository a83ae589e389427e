//! The rounds of a packet that recirculates repeatedly and makes a clone each time. A round is the packet's ingress
//! pass, its egress pass, and the egress pass of the clone. The engine runs several rounds in one call
//! ([`crate::engine::Engine::rounds`]).

use super::{Run, V1Model, ingress_input, is_plain};
use crate::{
    Frame, PortId, Stream, Transmit,
    engine::{Leave, LoneClone, LoneClones, Rounds, RoundsEnd, RoundsInput, State},
    limits,
    traffic_manager::{
        packet::{Common, IngressPacket},
        replication::ReplicationEntries,
    },
};

/// Sends the clones. Counts the bytes of the clones that left, and the clones whose payload extern failed. Keeps the
/// clones' session once it is known.
struct Leaving<'a> {
    cpu_port: Option<PortId>,
    sessions: &'a ReplicationEntries,
    found: Option<(u32, LoneClone)>,
    n_bytes: u64,
    n_failed: u32,
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
}

impl Leave for Leaving<'_> {
    #[inline]
    fn leave(&mut self, port: PortId, frame: Frame<'_>) {
        self.n_bytes += (frame.head.len() + frame.payload.len()) as u64;
        (self.send)(Transmit { port, frame });
    }

    fn fail(&mut self) {
        self.n_failed += 1;
    }
}

impl Leaving<'_> {
    fn look_up(&self, state: &State, session: u32) -> Option<LoneClone> {
        let session = self.sessions.get(session)?;
        let [to] = session.copies.replicas[..] else {
            return None;
        };
        let is_usual = session.truncate_bytes.is_none()
            && session.group.is_none()
            && is_plain(state, self.cpu_port, to.port);
        is_usual.then_some(LoneClone {
            to,
            queue: session.queue,
        })
    }
}

impl Run<'_> {
    /// Runs a packet from the recirculation queue: as many rounds as the engine can run at once, then what the last
    /// pass requires.
    pub(super) fn send_rounds(&mut self, going: IngressPacket, max_frames: usize) -> usize {
        let n_rounds_max = self.model.n_rounds_max(&going.common, max_frames);
        if n_rounds_max == 0 {
            return self.ingress(&going);
        }
        let model = &mut *self.model;
        let mut leaving = Leaving {
            cpu_port: model.cpu_port,
            sessions: &model.traffic.sessions,
            found: None,
            n_bytes: 0,
            n_failed: 0,
            send: &mut *self.send,
        };
        let input = RoundsInput {
            ingress: ingress_input(&going),
            arrived: going.common.arrived,
            n_rounds_max,
        };
        let state = &mut model.state;
        let rounds = self
            .engine
            .rounds(state, &input, going.packet, &mut leaving);
        let Leaving {
            found,
            n_bytes,
            n_failed,
            ..
        } = leaving;
        let clone = found.map(|(session, lone)| (clone_of(&going.common, session, &rounds), lone));
        if let Some((clone, lone)) = &clone {
            let (port, n_sent) = (lone.to.port, rounds.n_rounds - n_failed);
            self.model
                .count_rounds(clone, port, &rounds, n_sent, n_bytes);
            self.model.leave_many(clone, n_failed);
        }
        (rounds.n_rounds - n_failed) as usize + self.end_rounds(going, clone, &rounds)
    }

    /// Continues where the packet stopped after its rounds. Returns how many frames left.
    fn end_rounds(
        &mut self,
        mut going: IngressPacket,
        clone: Option<(Common, LoneClone)>,
        rounds: &Rounds,
    ) -> usize {
        going.common.recirculations += n_clones(rounds);
        going.common.ingress_bytes = rounds.ingress_bytes;
        let now = self.model.state.now;
        match (&rounds.end, clone) {
            (RoundsEnd::Ingress(outcome), _) => self.after_ingress(&going, outcome),
            (RoundsEnd::Egress(port, outcome), _) => {
                self.model.traffic.look_ahead.earn();
                self.finish_egress(&going.common, *port, outcome)
            }
            (RoundsEnd::Waits, _) if rounds.n_rounds == 0 => self.ingress(&going),
            (RoundsEnd::Clone(outcome), Some((common, lone))) => {
                self.model.traffic.recirculation.push(now, going);
                self.finish_egress(&common, lone.to.port, outcome)
            }
            (RoundsEnd::Waits | RoundsEnd::Clone(_), _) => {
                self.model.traffic.recirculation.push(now, going);
                0
            }
        }
    }
}

/// The number of clones made. The last clone may still be inside.
fn n_clones(rounds: &Rounds) -> u32 {
    rounds.n_rounds + u32::from(matches!(rounds.end, RoundsEnd::Clone(_)))
}

/// The data of the last round's clone, which was made before its parent recirculated. `ingress_bytes` is outdated, but
/// nothing reads it before the clone itself recirculates, and the recirculation sets it anew.
fn clone_of(parent: &Common, session: u32, rounds: &Rounds) -> Common {
    let mut common = parent.of_copy(Stream::CloneSession(session));
    common.recirculations += n_clones(rounds).saturating_sub(1);
    common.clone_generation += 1;
    common
}

impl V1Model {
    /// Counts rounds whose clones left by `port`.
    fn count_rounds(
        &mut self,
        clone: &Common,
        port: PortId,
        rounds: &Rounds,
        n_sent: u32,
        n_bytes: u64,
    ) {
        let n_clones = n_clones(rounds);
        // A round has two egress passes.
        self.traffic.look_ahead.earn_many(2 * n_clones);
        self.state.counters.created_by_clone += u64::from(n_clones);
        self.traffic.inside.enter_many(clone.epoch, n_clones.into());
        if n_sent > 0 {
            self.count_sent(port, clone, n_sent.into(), n_bytes);
        }
    }

    /// How many rounds a packet may run in a row; 0 unless it is the only packet that recirculates and nothing waits
    /// for egress.
    fn n_rounds_max(&self, common: &Common, max_frames: usize) -> u32 {
        let traffic = &self.traffic;
        if !self.may_fuse(common)
            || self.is_timed
            || !traffic.recirculation.is_passable()
            || !traffic.egress.is_passable()
            || common.clone_generation >= limits::CLONE_GENERATIONS_MAX
        {
            return 0;
        }
        let left = limits::RECIRCULATIONS_PER_PACKET_MAX.saturating_sub(common.recirculations);
        let most = max_frames.min(traffic.n_passes_before_look() / 2);
        u32::try_from(most).unwrap_or(u32::MAX).min(left)
    }
}
