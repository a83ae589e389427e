//! What an engine supplies: the two passes of a packet, and nothing of the traffic between them.
//!
//! The contract in words. An engine is made for a verified [`crate::Program`] and runs *passes*. It keeps
//! frames and header vectors wherever it likes (host memory, a ring shared with the kernel, a
//! card): the traffic manager holds packets as opaque [`PacketHandle`]s and never looks inside.
//! Queues, copies, drops, limits, counters of ports and the order of passes belong to the traffic
//! manager and are the same for every engine; tables, externs and counters are in the [`State`]
//! that the switch owns. So two engines can only differ in what one pass does to one packet.
//!
//! A packet's way through an engine:
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
//! An engine must
//! 1. agree with the reference interpreter in every observable: the bytes of frames, verdicts and
//!    requests, table, counter and register state, digests. What P4 leaves undefined is defined in
//!    the interpreter's `expression`;
//! 2. see a control-plane write either wholly or not at all in any pass; writes come between
//!    passes, and what an engine has derived from tables is told of them by [`Engine::changed`];
//! 3. make a clone or replica cost no copy of the payload, and no allocation in steady state;
//! 4. never fail because of a packet: a pass always gives a verdict.
//!
//! A pass may ask for its packet's payload to be changed by an extern ([`crate::PayloadExtern`], which says
//! what that is). Where the packet goes alone, the engine has it done behind the deparser, by
//! [`State::change_payload`]; copies of one call go through [`State::depart`], so that the extern has many
//! at once and those that ask for nothing go on sharing theirs.
//!
//! The copies of one packet may have their passes in one call: [`Engine::fan_out`] and
//! [`Engine::rounds`]. What can be seen is the same as pass by pass.

mod change;
mod fan_out;
mod state;

pub use crate::{externs::payload::PayloadCall, model::Frame};
pub use change::{Change, TableChange};
pub use fan_out::{
    Copies, Leave, LoneClone, LoneClones, Rounds, RoundsEnd, RoundsInput, one_by_one,
};
pub use state::{EntryAccount, EntryAction, EntryIndex, EntryView, State};

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, DropReason, Nanos, PortId};

/// The verified program as an engine reads it: [`Program::ir`].
///
/// Expressions have infinite precision, cut where they are stored. What an undefined operation
/// gives is said at each construct; the rest is in the interpreter, which is the semantics.
pub mod ir {
    pub use crate::{program::ir::*, value::Int};
}

/// A packet that an engine holds. A handle is good from [`Engine::receive`], or from whatever made
/// the packet, until [`Engine::discard`]; then it may be given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketHandle(pub u32);

/// What `instance_type` of v1model says about how a packet came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceType {
    /// It came in.
    Normal = 0,
    /// A clone of the packet as it came to ingress.
    IngressClone = 1,
    /// A clone of the packet as it was after egress.
    EgressClone = 2,
    /// It went through egress and came to ingress again.
    Recirculated = 4,
    /// A replica of a multicast group.
    Replicated = 5,
    /// It came to ingress again as it was.
    Resubmitted = 6,
}

/// What the traffic manager knows of a packet that comes to ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressInput {
    /// The port that the root frame came from.
    pub ingress_port: PortId,
    /// How the packet came to be.
    pub instance_type: InstanceType,
    /// When the frame came; none in a recirculated or resubmitted packet, which has the port and
    /// the time in its metadata only where it kept them.
    pub arrived: Option<Nanos>,
    /// What counters and meters count as its length.
    pub ingress_bytes: usize,
}

/// How an ingress pass ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IngressVerdict {
    /// To one output port.
    Unicast(PortId),
    /// To the replicas of a multicast group.
    Multicast(u32),
    /// To ingress again, as it came.
    Resubmit,
    /// Nowhere.
    Drop(DropReason),
}

/// What an ingress pass came to. The traffic manager makes the clone first, then the digest, then
/// does what the verdict says. Of a packet that an `assert` ended nothing is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngressOutcome {
    /// How the pass ends.
    pub verdict: IngressVerdict,
    /// A clone is to be sent to this session, whatever the verdict.
    pub clone_session: Option<u32>,
    /// A digest is to be made, whatever the verdict.
    pub has_digest: bool,
    /// The program's `priority`: the queue of the output port.
    pub priority: u64,
}

/// What the traffic manager knows of a packet that comes to egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressInput {
    /// The output port.
    pub port: PortId,
    /// The queue it came through.
    pub queue: usize,
    /// How the packet came to be.
    pub instance_type: InstanceType,
    /// `egress_rid` of a copy; none leaves what the program has written there.
    pub instance: Option<u16>,
    /// When the root frame came.
    pub arrived: Nanos,
    /// When it was queued.
    pub enqueued: Nanos,
    /// Packets that were in the queue before it.
    pub enq_depth: usize,
    /// Packets left in the queue.
    pub deq_depth: usize,
    /// The deparser may run at once, where no clone is asked for and the packet is not dropped.
    pub is_deparsed: bool,
}

/// How an egress pass ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressVerdict {
    /// Out of its port.
    Transmit,
    /// To ingress again, as it would have left.
    Recirculate,
    /// Nowhere.
    Drop(DropReason),
}

/// What an egress pass came to. The traffic manager makes the clone first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressOutcome {
    /// The packet that went through egress: one of its own, where the handle stood for several.
    pub packet: PacketHandle,
    /// How the pass ends.
    pub verdict: EgressVerdict,
    /// A clone is to be sent to this session, whatever the verdict.
    pub clone_session: Option<u32>,
    /// The deparser has run already, and [`Engine::deparse`] is not to be called: the length of
    /// the frame. Only as [`EgressInput::is_deparsed`] has it.
    pub frame_len_bytes: Option<usize>,
}

/// What a clone session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneCopies {
    /// How many, from 1.
    pub copies: u32,
    /// They are cut to so many bytes where they leave.
    pub truncate_bytes: Option<usize>,
}

/// A clone, standing for every copy that its session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clones {
    /// The handle of them all.
    pub packet: PacketHandle,
    /// `priority` in the metadata that the clone kept.
    pub priority: u64,
}

/// Numbers for what payloads are parts of.
#[derive(Debug)]
pub struct PayloadIds(u64);

impl PayloadIds {
    /// Numbers that nobody else gives: 2^48 of them, for 2^16 engines one after the other.
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        static RANGES: AtomicU64 = AtomicU64::new(0);
        Self(RANGES.fetch_add(1, Ordering::Relaxed) << 48)
    }

    /// The next one.
    #[inline]
    pub fn next_id(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// A construct that an engine leaves to the interpreter, or an offload to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreted {
    /// Where it is: an action, a parser state, a source line.
    pub place: String,
    /// Why it cannot be compiled.
    pub reason: String,
}

/// Makes an engine whenever a program is set, in the thread in which that is made ready
/// ([`crate::ProgramLoader`]). Chosen when the switch is made.
pub trait EngineFactory: Send + Sync {
    /// As `--engine` names it.
    fn name(&self) -> &'static str;

    /// Whether its engines tell a trace sink what happens in a pass. As long as there is a sink,
    /// the interpreter runs in place of one that does not.
    fn traces(&self) -> bool {
        false
    }

    /// An engine for the program of a state. Tables, externs and counters have their place in
    /// memory now and keep it as long as the engine lives; the entries of tables do not. They may go to another
    /// [`State`], with the identity of this one.
    fn load(&self, state: &mut State) -> Box<dyn Engine>;
}

/// Runs passes. See the module for what it must keep to.
///
/// Memory safety does not rest on the caller. An engine that keeps addresses checks what it is given:
/// a state other than the one that it was loaded for ([`State::identity`]) panics, and so does a
/// packet that has ended. Nothing public of a state moves the memory of its tables and arrays; the
/// data plane alone does, and tells the engine before the next pass ([`Engine::changed`]).
pub trait Engine: Send {
    /// Whether copies of one packet are to wait as one, and a packet that finds nothing waiting is
    /// to go from ingress to egress without a queue. What can be seen is the same either way; the
    /// interpreter has every packet queued, so that it says what is right.
    fn fuses_fanout(&self) -> bool {
        false
    }

    /// Takes a frame in.
    fn receive(&mut self, frame: &[u8]) -> PacketHandle;

    /// Parser, checksum verification and the ingress control, for a frame. The frame is kept until
    /// it is clear that nobody needs it as it came: until [`Engine::egress`].
    fn ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
    ) -> IngressOutcome;

    /// How many frames before its turn the engine wants to be told of one, by [`Engine::prefetch`].
    fn prefetch_depth(&self) -> usize {
        0
    }

    /// The ingress pass of this frame comes soon. The engine may begin what nobody can see, so that the
    /// memory that the pass needs is near when its turn comes. Anything may happen before that: other
    /// packets pass, control calls come, the frame is told of again or discarded.
    fn prefetch(&mut self, state: &mut State, input: &IngressInput, packet: PacketHandle) {
        let _ = (state, input, packet);
    }

    /// The first part of [`Engine::ingress`] alone, parser and checksum verification of a frame that
    /// came in, for who measures it: nothing stays of it, and the pass begins from the start. An
    /// engine that cannot do it apart does nothing.
    fn parse(&mut self, state: &mut State, input: &IngressInput, packet: PacketHandle) {
        let _ = (state, input, packet);
    }

    /// The digest that the ingress pass asked for.
    fn digest(&mut self, state: &mut State, packet: PacketHandle) -> Digest;

    /// The clone that the ingress pass asked for: the headers as they arrived, by a re-parse,
    /// the metadata of its field list. `input` is that of the pass.
    fn clone_ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones;

    /// After an ingress pass, the handle stands for so many replicas, each of which will come to
    /// egress or be discarded. What the pass asked for is over, a truncation too: it cuts only the
    /// packet that asked for it, and only where it leaves.
    fn replicate(&mut self, packet: PacketHandle, copies: u32);

    /// After an ingress pass, the packet is a frame again, as it came, with the metadata of its field
    /// list.
    fn resubmit(&mut self, packet: PacketHandle);

    /// The egress control. A handle that stands for several packets gives one of them.
    fn egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        packet: PacketHandle,
    ) -> EgressOutcome;

    /// Egress of several of the packets that a handle stands for, as [`one_by_one`] has it, until
    /// there is none or one does not just leave: what that came to, as [`Engine::egress`] gives it.
    fn fan_out(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: &mut dyn Copies,
    ) -> Option<EgressOutcome> {
        one_by_one(self, state, packet, copies)
    }

    /// Rounds of a packet that has recirculated: ingress, egress, recirculation, and the egress of
    /// the clone that it leaves, again and again. An engine that cannot do that at once does nothing.
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

    /// The clone that the egress pass asked for: the headers as they are, the metadata of its
    /// field list.
    fn clone_egress(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: CloneCopies,
    ) -> Clones;

    /// After egress, of which only the clone was made since: checksum update, deparser, and the extern
    /// that the pass asked to change the payload. The packet is a frame again, cut as asked; gives its
    /// length.
    ///
    /// # Errors
    /// The extern has failed, and the packet is to be dropped for this reason.
    fn deparse(&mut self, state: &mut State, packet: PacketHandle) -> Result<usize, DropReason>;

    /// After the deparser, the packet keeps the metadata of its field list for ingress.
    fn recirculate(&mut self, packet: PacketHandle);

    /// The bytes of a packet that is a frame.
    fn frame(&self, packet: PacketHandle) -> Frame<'_>;

    /// Ends a packet, or one of those that the handle stands for.
    fn discard(&mut self, packet: PacketHandle);

    /// A control call has changed something. What the engine has derived of it is to follow.
    fn changed(&mut self, state: &mut State, change: &Change<'_>) {
        let _ = (state, change);
    }

    /// What is left to the interpreter, found when the program was loaded.
    fn interpreted(&self) -> Vec<Interpreted> {
        Vec::new()
    }
}
