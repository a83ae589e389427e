//! Runs the passes of many copies of one packet in one call of the engine: the copies of a multicast group or clone
//! session, which reach egress one after the other, or the clones that a recirculating packet makes.
//!
//! The caller decides where each copy goes, takes the frames that leave, and updates counters when the call returns.
//! The engine prepares only once what all copies share.

use super::{
    EgressInput, EgressOutcome, EgressVerdict, Engine, IngressInput, IngressOutcome, PacketHandle,
    State,
};
pub use crate::externs::departures::Leave;
use crate::{DropReason, Frame, Nanos, PortId, Replica, externs::payload::PayloadCall};

/// A source of copies of one packet, in the order in which they reach egress.
pub trait Copies: Leave {
    /// Returns the input of the next copy's pass, or `None` if no copy is left or if other work comes first.
    fn next_copy(&mut self) -> Option<EgressInput>;
}

/// Runs [`Copies`] one by one through [`Engine::egress`], [`Engine::frame`] and [`Engine::discard`]. This function
/// defines what [`Engine::fan_out`] must do in every engine. Stops after the first copy that does not simply leave as a
/// finished frame ([`EgressOutcome::is_plain`]), and returns that copy's outcome.
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
    /// Adds the result of the deparser; an error becomes a drop.
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

    /// Whether the packet leaves as a finished frame and makes no clone.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.verdict == EgressVerdict::Transmit
            && self.clone_session.is_none()
            && self.frame_len_bytes.is_some()
    }
}

impl State {
    /// Whether the program calls an extern that changes payloads.
    pub fn changes_payloads(&self) -> bool {
        !self.program.ir.payload_externs.is_empty()
    }

    /// Sends a copy whose headers are already written, or holds it until the payload extern runs for several copies at
    /// once. `shared` is the copy's frame without the extern's change. The engine must call [`State::depart_held`]
    /// before it does anything else with the packet.
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

    /// Runs the payload extern for the copies that [`State::depart`] holds, and sends them. Drops and counts the copies
    /// for which the extern fails. `shared` has the payload that all copies share.
    pub fn depart_held(&mut self, shared: Frame<'_>, out: &mut dyn Leave) {
        if self.departures.is_empty() {
            return;
        }
        let n_failed = self.departures.give_out(&mut self.payloads, shared, out);
        for _ in 0..n_failed {
            self.count_drop(DropReason::PayloadExternFailed);
        }
    }

    /// Returns the size of the buffer `room` that [`State::change_payload`] needs for a payload of this length.
    pub fn payload_room_bytes(&self, payload_bytes: usize) -> usize {
        self.payloads.room_bytes(payload_bytes)
    }

    /// Changes the payload of a single packet. Writes the new payload to the start of `room` and returns its length.
    ///
    /// # Errors
    /// The extern failed; the packet must be dropped for the returned reason.
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

/// The clone of a session that makes exactly one clone and does not truncate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneClone {
    /// Port and `egress_rid` of the clone.
    pub to: Replica,
    /// The session's queue; 0 means the queue of the clone's priority.
    pub queue: u32,
}

/// Destinations of the clones of a recirculating packet.
pub trait LoneClones: Leave {
    /// Returns the session's clone, if the session makes exactly one and frames may leave by the clone's port. Once
    /// this method has returned a clone, it returns clones of that session only.
    fn clone_of(&mut self, state: &State, session: u32) -> Option<LoneClone>;
}

/// The input of `Engine::rounds`: the input of the first pass, the time at which the root frame (the received frame
/// that the packet comes from) arrived, and how many rounds may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundsInput {
    /// Input of the first ingress pass.
    pub ingress: IngressInput,
    /// When the root frame arrived.
    pub arrived: Nanos,
    /// Maximum number of rounds.
    pub n_rounds_max: u32,
}

/// The result of `Engine::rounds`. In each complete round one clone has left, or its payload extern has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Number of complete rounds.
    pub n_rounds: u32,
    /// The packet's length for counters and meters, after these rounds.
    pub ingress_bytes: usize,
    /// Where the packet stopped.
    pub end: RoundsEnd,
}

impl Rounds {
    /// Returns the result if no round was run: the packet still waits for ingress.
    pub fn none(input: &RoundsInput) -> Self {
        Self {
            n_rounds: 0,
            ingress_bytes: input.ingress.ingress_bytes,
            end: RoundsEnd::Waits,
        }
    }
}

/// Where a packet stopped after its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundsEnd {
    /// Before ingress.
    Waits,
    /// After ingress, with this outcome.
    Ingress(IngressOutcome),
    /// After egress on this port, with this outcome.
    Egress(PortId, EgressOutcome),
    /// Before ingress, after one more round whose clone has not left yet; this is the outcome of the clone's egress
    /// pass.
    Clone(EgressOutcome),
}
