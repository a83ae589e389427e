//! Many copies of one packet in one call: those of a group or session, which come to egress one after
//! the other, and those of a packet that recirculates and leaves a clone each time.
//!
//! The caller says where each copy goes, takes the frames that leave, and does its accounts when the
//! call is over. An engine prepares once what all copies share.

use super::{
    EgressInput, EgressOutcome, EgressVerdict, Engine, IngressInput, IngressOutcome, PacketHandle,
    State,
};
pub use crate::externs::departures::Leave;
use crate::{DropReason, Frame, Nanos, PortId, Replica, externs::payload::PayloadCall};

/// Copies of one packet that come to egress one after the other.
pub trait Copies: Leave {
    /// The way of the next one; none where there is none, or something else is to be done first.
    fn next_copy(&mut self) -> Option<EgressInput>;
}

/// Runs [`Copies`] one by one, by [`Engine::egress`], [`Engine::frame`] and [`Engine::discard`]:
/// the meaning of [`Engine::fan_out`] in every engine. Ends at the first copy that does not just
/// leave as a finished frame ([`EgressOutcome::is_plain`]), and gives that copy's outcome.
pub fn one_by_one<E: Engine + ?Sized>(
    engine: &mut E,
    state: &mut State,
    packet: PacketHandle,
    copies: &mut dyn Copies,
) -> Option<EgressOutcome> {
    while let Some(input) = copies.next_copy() {
        let outcome = engine.egress(state, &input, packet);
        if !outcome.is_plain() {
            return Some(outcome);
        }
        copies.leave(input.port, engine.frame(outcome.packet));
        engine.discard(outcome.packet);
    }
    None
}

impl EgressOutcome {
    /// The same once the deparser has run, or the packet could not become what it was to be.
    #[must_use]
    pub fn deparsed(self, frame_len_bytes: Result<usize, DropReason>) -> Self {
        match frame_len_bytes {
            Ok(len) => Self {
                frame_len_bytes: Some(len),
                ..self
            },
            Err(reason) => Self {
                verdict: EgressVerdict::Drop(reason),
                ..self
            },
        }
    }

    /// The packet leaves as a frame that is there already, and nothing else comes of it.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.verdict == EgressVerdict::Transmit
            && self.clone_session.is_none()
            && self.frame_len_bytes.is_some()
    }
}

/// Externs that change payloads.
impl State {
    /// Whether the program calls an extern that changes payloads.
    pub fn changes_payloads(&self) -> bool {
        !self.program.ir.payload_externs.is_empty()
    }

    /// A copy whose headers are bytes leaves by its port, or waits with them. `shared` is its frame as it
    /// would be without the call. Before the engine does anything else with the packet, it calls
    /// [`State::depart_held`].
    #[inline]
    pub fn depart(
        &mut self,
        call: &PayloadCall,
        port: PortId,
        shared: Frame<'_>,
        out: &mut dyn Leave,
    ) {
        let waiting = &mut self.departures;
        if !call.is_some() && waiting.is_empty() {
            return out.leave(port, shared);
        }
        waiting.hold(call, port, shared.head);
        if waiting.is_full() {
            self.depart_held(shared, out);
        }
    }

    /// The copies that wait leave, or are dropped and counted. `shared` has the payload that they share.
    pub fn depart_held(&mut self, shared: Frame<'_>, out: &mut dyn Leave) {
        if self.departures.is_empty() {
            return;
        }
        let n_failed = self.departures.give_out(&mut self.payloads, shared, out);
        for _ in 0..n_failed {
            self.count_drop(DropReason::PayloadExternFailed);
        }
    }

    /// Bytes of room that [`State::change_payload`] is to be given.
    pub fn payload_room_bytes(&self, payload_bytes: usize) -> usize {
        self.payloads.room_bytes(payload_bytes)
    }

    /// The same for a packet that goes alone: the payload's new bytes are in front of the room; how many.
    ///
    /// # Errors
    /// The extern has failed, and the packet is to be dropped for this reason.
    pub fn change_payload(
        &mut self,
        call: &PayloadCall,
        [head, room]: [&mut [u8]; 2],
        payload: &[u8],
    ) -> Result<usize, DropReason> {
        let result = self.payloads.transform_one(call, [head, room], payload);
        result.ok_or(DropReason::PayloadExternFailed)
    }
}

/// The only clone that a session makes; it is not cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneClone {
    /// Where it goes.
    pub to: Replica,
    /// The session's queue; 0 is that of the clone's priority.
    pub queue: u32,
}

/// Where the clones of a packet that recirculates go.
pub trait LoneClones: Leave {
    /// The clone of a session, where it makes one and frames leave by its port; the session is that of
    /// all rounds then.
    fn clone_of(&mut self, state: &State, session: u32) -> Option<LoneClone>;
}

/// What the traffic manager knows of a packet that recirculates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundsInput {
    /// That it comes to ingress, in the first round.
    pub ingress: IngressInput,
    /// When the root frame came.
    pub arrived: Nanos,
    /// Rounds at most.
    pub n_rounds_max: u32,
}

/// The rounds that were run whole: a clone has left in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// How many.
    pub n_rounds: u32,
    /// What counters and meters count as the packet's length now.
    pub ingress_bytes: usize,
    /// Why there are no more.
    pub end: RoundsEnd,
}

impl Rounds {
    /// None, and the packet waits for ingress as it did.
    pub fn none(input: &RoundsInput) -> Self {
        Self {
            n_rounds: 0,
            ingress_bytes: input.ingress.ingress_bytes,
            end: RoundsEnd::Waits,
        }
    }
}

/// Where a packet is that has gone rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundsEnd {
    /// It waits for ingress.
    Waits,
    /// Its ingress pass came to this.
    Ingress(IngressOutcome),
    /// Its egress pass, of this port, came to this.
    Egress(PortId, EgressOutcome),
    /// It waits for ingress after one more round, whose clone is inside: its egress pass came to this.
    Clone(EgressOutcome),
}
