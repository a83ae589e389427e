//! The engine interface: an engine runs the ingress and egress passes of a packet, and nothing between them.
//!
//! An [`EngineFactory`] makes an engine for a verified [`crate::Program`]. It runs *passes*: a pass is one run of a
//! packet through ingress or through egress. The engine keeps frames and header vectors wherever it likes (host memory,
//! a ring shared with the kernel, a network card); the traffic manager holds packets as opaque [`PacketHandle`]s and
//! never looks inside. The traffic manager owns queues, copies, drops, limits, port counters and the order of passes,
//! for every engine alike. The switch owns tables, externs and counters, in [`State`]. So two engines can differ only
//! in what one pass does to one packet.
//!
//! The path of a packet through an engine:
//!
//! ```text
//!              clone_ingress --+
//!                    |         v
//! receive --> ingress --> (replicate) --> egress --> deparse --> frame --> discard
//!              ^  |                         |           |
//!              |  +-- resubmit              |           +-- recirculate --+
//!              +----------------------------|-----------------------------+
//!                                           +-- clone_egress --> egress ...
//! ```
//!
//! The switch is the only caller. It calls in this order:
//! - [`EngineFactory::load`] makes an engine for the program that a [`State`] holds; the switch gives the same state
//!   to every later call.
//! - `receive` returns a handle. The handle is valid until `discard`, or until the packet's last copy has left.
//! - `prefetch` may come between `receive` and `ingress`, any number of times. It has no observable effect.
//! - `ingress` runs once each time a packet comes to ingress. Its outcome decides which of these calls follow, in this
//!   order: `clone_ingress`, `digest`, then one of `resubmit`, `replicate`, `egress`, `discard`.
//! - `egress` runs once for each copy. Instead, `fan_out` may run for several copies, and `rounds` for a
//!   recirculating packet. The outcome decides which of these calls follow: `clone_egress`, then one of `deparse`,
//!   `discard`.
//! - After `deparse` come `frame`, any number of times, then `recirculate` (and `ingress` again) or `discard`.
//! - `changed` reports changes of tables, profiles, value sets and calculations between two passes, after the change
//!   is in the state.
//!
//! An engine must
//! 1. agree with the reference interpreter in everything observable: frame bytes, verdicts, what a pass asks for
//!    (such as a clone), table, counter and register state, digests. The interpreter's module `expression` defines what
//!    P4 leaves undefined;
//! 2. show each control-plane write to a pass wholly or not at all. Writes come between passes; [`Engine::changed`]
//!    reports them, so that the engine updates what it derived from tables;
//! 3. make a clone or replica without copying the payload, and in steady state without allocating;
//! 4. never fail because of a packet: a pass always returns a verdict.
//!
//! A pass may ask an extern to change its packet's payload ([`crate::PayloadExtern`]). For a single packet, the engine
//! calls [`State::change_payload`] after the deparser. Copies made in one call go through [`State::depart`], which
//! batches them for the extern; copies that ask for no change keep sharing their payload.
//!
//! An engine may run the passes of all copies of a packet in one call: [`Engine::fan_out`] and [`Engine::rounds`]. The
//! observable result is the same as if the engine ran one pass per call.

mod change;
mod fan_out;
mod state;

pub use crate::{
    externs::{hash::Crc, payload::PayloadCall},
    model::Frame,
};
pub use change::{Change, TableChange};
pub use fan_out::{
    Copies, Leave, LoneClone, LoneClones, Rounds, RoundsEnd, RoundsInput, one_by_one,
};
pub use state::{EntryAccount, EntryAction, EntryIndex, EntryView, State};

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, DropReason, Nanos, PortId};

/// The verified program as an engine reads it ([`crate::Program::ir`]).
///
/// Expressions are computed with infinite precision, and their results are truncated where they are stored. Where P4
/// leaves the result of an operation undefined, the documentation of these types says what the result is; the
/// interpreter defines the semantics of everything else.
pub mod ir {
    pub use crate::{program::ir::*, value::Int};
}

/// A packet inside an engine. A handle is valid from [`Engine::receive`], or the call that made the packet, until
/// [`Engine::discard`]; afterwards the engine may reuse the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketHandle(pub u32);

/// How a packet came to be, numbered as v1model's `instance_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceType {
    /// A frame that a port received.
    Normal = 0,
    /// A clone with the headers that the packet had before ingress.
    IngressClone = 1,
    /// A clone with the headers that the packet had after egress.
    EgressClone = 2,
    /// A packet that returned to ingress after egress.
    Recirculated = 4,
    /// A replica of a multicast group.
    Replicated = 5,
    /// A packet that returned to ingress unchanged, after ingress.
    Resubmitted = 6,
}

/// The metadata that the traffic manager gives to an ingress pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressInput {
    /// The port that received the root frame, which is the received frame that this packet comes from.
    pub ingress_port: PortId,
    /// How the packet came to be.
    pub instance_type: InstanceType,
    /// When the frame arrived. `None` for a recirculated or resubmitted packet: its metadata holds the port and the
    /// time only if the field list of the recirculation or resubmission preserves them.
    pub arrived: Option<Nanos>,
    /// The length that counters and meters use.
    pub ingress_bytes: usize,
}

/// What happens to a packet after ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IngressVerdict {
    /// Goes to one output port.
    Unicast(PortId),
    /// Is replicated to a multicast group.
    Multicast(u32),
    /// Returns to ingress, unchanged.
    Resubmit,
    /// Is dropped.
    Drop(DropReason),
}

/// The result of an ingress pass. The traffic manager makes the clone first, then the digest, then follows the verdict.
/// A packet that failed an `assert` makes no clone and no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressOutcome {
    /// What happens to the packet itself.
    pub verdict: IngressVerdict,
    /// The session to clone the packet to, whatever the verdict; `None` makes no clone.
    pub clone_session: Option<u32>,
    /// Whether to make a digest, whatever the verdict.
    pub has_digest: bool,
    /// The program's `priority`, which selects the queue of the output port.
    pub priority: u64,
}

/// The metadata that the traffic manager gives to an egress pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressInput {
    /// The output port.
    pub port: PortId,
    /// The queue that held the packet; queues are numbered by priority.
    pub queue: usize,
    /// How the packet came to be.
    pub instance_type: InstanceType,
    /// `egress_rid` of a copy; `None` leaves the program's value.
    pub instance: Option<u16>,
    /// When the root frame (the received frame that this packet comes from) arrived.
    pub arrived: Nanos,
    /// When the packet was queued.
    pub enqueued: Nanos,
    /// Packets in the queue when this packet was queued.
    pub enq_depth: usize,
    /// Packets in the queue after this packet left it.
    pub deq_depth: usize,
    /// Whether the engine may deparse in the same call, if the pass neither clones nor drops.
    pub is_deparsed: bool,
}

/// What happens to a packet after egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressVerdict {
    /// Leaves by its port.
    Transmit,
    /// Returns to ingress as the frame that the deparser writes.
    Recirculate,
    /// Is dropped.
    Drop(DropReason),
}

/// The result of an egress pass. The traffic manager makes the clone first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressOutcome {
    /// The packet that the pass ran for. If the given handle stood for several copies, this is a handle of this copy
    /// alone.
    pub packet: PacketHandle,
    /// What happens to the packet itself.
    pub verdict: EgressVerdict,
    /// The session to clone the packet to, whatever the verdict; `None` makes no clone.
    pub clone_session: Option<u32>,
    /// The frame's length if the engine has already deparsed ([`EgressInput::is_deparsed`]); then [`Engine::deparse`]
    /// must not be called.
    pub frame_len_bytes: Option<usize>,
}

/// The copies that a clone session asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneCopies {
    /// Number of copies, at least 1.
    pub copies: u32,
    /// Each copy is truncated to this length when it leaves; `None` is no truncation.
    pub truncate_bytes: Option<usize>,
}

/// The clones that one pass makes for a session, behind one handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clones {
    /// The handle, which stands for every clone.
    pub packet: PacketHandle,
    /// The clone's `priority` if its field list preserves that metadata, otherwise 0.
    pub priority: u64,
}

/// Allocates the `payload_id`s of frames.
#[derive(Debug)]
pub struct PayloadIds(u64);

impl PayloadIds {
    /// Reserves a range of 2^48 ids that no other engine of the process uses; there are 2^16 ranges.
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        static RANGES: AtomicU64 = AtomicU64::new(0);
        Self(RANGES.fetch_add(1, Ordering::Relaxed) << 48)
    }

    /// Returns an id not returned before.
    #[inline]
    pub fn next_id(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// A part of the program that an engine cannot run and leaves to the interpreter, or that an offload cannot run and
/// leaves to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreted {
    /// An action, a parser state or a source line.
    pub place: String,
    /// Why the engine or offload cannot run it.
    pub reason: String,
}

/// Makes an engine for each program, in the thread that prepares the program ([`crate::ProgramLoader`]). A switch keeps
/// the same factory for its whole life.
pub trait EngineFactory: Send + Sync {
    /// The engine's name, as the command-line option `--engine` takes it.
    fn name(&self) -> &'static str;

    /// Whether the engines report the events of a pass to a trace sink. If not, the interpreter replaces the engine
    /// while a sink is set.
    fn traces(&self) -> bool {
        false
    }

    /// Makes an engine for the state's program. The memory of tables, externs and counters (not of table entries) keeps
    /// its address while the engine lives. Another [`State`] may take over that memory; the other state then also takes
    /// over this state's identity ([`State::identity`]).
    fn load(&self, state: &mut State) -> Box<dyn Engine>;
}

/// Runs passes; see the module for the contract.
///
/// Memory safety does not depend on the caller. An engine that keeps addresses checks its arguments: it panics on a
/// state other than the one it was loaded for ([`State::identity`]) and on a handle of a discarded packet. No public
/// method of a state moves the memory of its tables and arrays. Only this crate moves that memory, and it reports the
/// change before the next pass ([`Engine::changed`]).
pub trait Engine: Send {
    /// Whether the traffic manager may queue all copies of a packet as one item, and pass a packet from ingress to
    /// egress without a queue if nothing else waits. The observable result is the same whether the traffic manager does
    /// this or not. The interpreter returns false, because it is the reference.
    fn fuses_fanout(&self) -> bool {
        false
    }

    /// Accepts a frame.
    fn receive(&mut self, frame: &[u8]) -> PacketHandle;

    /// Runs the parser, checksum verification and the ingress control. The engine keeps the original frame until
    /// [`Engine::egress`], for a clone or a resubmission.
    fn ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
    ) -> IngressOutcome;

    /// How many frames ahead [`Engine::prefetch`] should be called; 0 means never.
    fn prefetch_depth(&self) -> usize {
        0
    }

    /// Reports that this frame's ingress pass comes soon, so that the engine can prefetch the memory it needs. The
    /// engine must change nothing observable. Before the pass, other packets may run, control calls may come, and the
    /// frame may be prefetched again or discarded.
    fn prefetch(&mut self, state: &mut State, input: &IngressInput, packet: PacketHandle) {
        let _ = (state, input, packet);
    }

    /// Runs only the parser and checksum verification of a new frame, for measurements. Has no lasting effect:
    /// [`Engine::ingress`] starts over. An engine that cannot separate this step does nothing.
    fn parse(&mut self, state: &mut State, input: &IngressInput, packet: PacketHandle) {
        let _ = (state, input, packet);
    }

    /// Makes the digest that the ingress pass asked for.
    fn digest(&mut self, state: &mut State, packet: PacketHandle) -> Digest;

    /// Makes the clone that the ingress pass asked for. The engine parses the frame again, so the clone has the headers
    /// as they arrived, and the metadata that its field list preserves. `input` is the input of the ingress pass.
    fn clone_ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones;

    /// After ingress, makes the handle stand for `copies` replicas, each of which then runs egress or is discarded.
    /// Cancels what the ingress pass asked for, including a truncation: a truncation applies only to the original
    /// packet.
    fn replicate(&mut self, packet: PacketHandle, copies: u32);

    /// After ingress, turns the packet back into the frame that arrived, with the metadata that its field list
    /// preserves.
    fn resubmit(&mut self, packet: PacketHandle);

    /// Runs the egress control. If the handle stands for several packets, runs the control for one of them.
    fn egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        packet: PacketHandle,
    ) -> EgressOutcome;

    /// Runs egress for several of the packets that a handle stands for, as [`one_by_one`] does. Returns `None` when
    /// `copies` gives no further copy. If a packet does something other than leave, stops after this packet and returns
    /// its outcome.
    fn fan_out(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: &mut dyn Copies,
    ) -> Option<EgressOutcome> {
        one_by_one(self, state, packet, copies)
    }

    /// Runs several rounds of a recirculating packet at once: ingress, egress, recirculation, and the egress pass of
    /// the clone made in that round. An engine that cannot do this runs no round.
    fn rounds(
        &mut self,
        state: &mut State,
        input: &RoundsInput,
        packet: PacketHandle,
        clones: &mut dyn LoneClones,
    ) -> Rounds {
        let _ = (state, packet, clones);
        Rounds::none(input)
    }

    /// Makes the clones that the egress pass asked for, under one handle. They have the headers as they are now, and
    /// the metadata of their field list.
    fn clone_egress(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones;

    /// Runs checksum update, deparser and the payload extern that the pass asked for. The switch calls this after
    /// `egress`; only `clone_egress` may come in between. Turns the packet into a frame, truncated as the pass asked,
    /// and returns the frame's length.
    ///
    /// # Errors
    /// The extern failed; the packet must be dropped for the returned reason.
    fn deparse(&mut self, state: &mut State, packet: PacketHandle) -> Result<usize, DropReason>;

    /// After the deparser, keeps the metadata of the packet's field list for the next ingress pass.
    fn recirculate(&mut self, packet: PacketHandle);

    /// Returns the bytes of a packet that the deparser has turned into a frame.
    fn frame(&self, packet: PacketHandle) -> Frame<'_>;

    /// Ends a packet, or one of the packets that the handle stands for.
    fn discard(&mut self, packet: PacketHandle);

    /// Reports a control call's change, so that the engine updates the data that it derived from the state.
    fn changed(&mut self, state: &mut State, change: &Change<'_>) {
        let _ = (state, change);
    }

    /// Lists what the engine leaves to the interpreter, as found when the program was loaded.
    fn interpreted(&self) -> Vec<Interpreted> {
        Vec::new()
    }
}
