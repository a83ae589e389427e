//! What an engine supplies: the two passes of a packet, and nothing of the traffic between them.
//!
//! The contract in words. An engine is given a verified [`Program`] and runs *passes*. It may keep
//! frames and header vectors wherever it likes (host memory, a ring shared with the kernel, a
//! card): the traffic manager holds them as opaque handles and never looks inside. Queues, copies,
//! drops, limits, counters of ports and the order of passes belong to the traffic manager and are
//! the same for every engine, so two engines can only differ in what one pass does to one packet.
//!
//! An engine must
//! 1. agree with the reference interpreter in every observable: the bytes of frames, verdicts and
//!    requests, table, counter and register state, digests. What P4 leaves undefined is defined in
//!    `expression`;
//! 2. see a control-plane write either wholly or not at all in any pass;
//! 3. make a clone cost no copy of the payload that can be avoided;
//! 4. never fail because of a packet: a pass always gives a verdict.
//!
//! The reference interpreter is built into [`crate::Switch`]; it comes behind this trait together
//! with the second engine, which shows whether the cut is right.

use crate::{DropReason, Nanos, PortId, Program};

/// The verified program as an engine reads it: [`Program::ir`].
///
/// Expressions have infinite precision, cut where they are stored. What an undefined operation
/// gives is said at each construct; the rest is in the interpreter, which is the semantics.
pub mod ir {
    pub use crate::{
        externs::hash::Algorithm,
        program::ir::*,
        v1model::{Queueing, StandardMetadata},
        value::Int,
    };
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

/// A pass's outcome: its verdict, and the clone session it asked for, looked at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassOutcome<V> {
    /// How the pass ends.
    pub verdict: V,
    /// A clone is to be sent to this session, whatever the verdict.
    pub clone_session: Option<u32>,
}

/// Runs passes. See the module for what it must keep to.
pub trait Engine {
    /// A frame before the parser, wherever it lives.
    type Frame;
    /// A packet between ingress and egress: headers, metadata, payload.
    type Packet;

    /// Replaces the program and clears all state.
    fn install(&mut self, program: &Program);

    /// Parser and ingress. A resubmitted packet gives its frame back.
    fn ingress(
        &mut self,
        now: Nanos,
        frame: Self::Frame,
    ) -> (Self::Packet, PassOutcome<IngressVerdict>);

    /// Egress at a port; the packet stays whole, so that it can be cloned before it ends.
    fn egress(
        &mut self,
        now: Nanos,
        port: PortId,
        packet: &mut Self::Packet,
    ) -> PassOutcome<EgressVerdict>;

    /// A copy for a replica or clone, with its `egress_rid`.
    fn copy(&mut self, packet: &Self::Packet, instance: u16) -> Self::Packet;

    /// The deparser: a packet that leaves or recirculates becomes a frame.
    fn deparse(&mut self, packet: Self::Packet) -> Self::Frame;

    /// Ends a packet that goes nowhere.
    fn discard(&mut self, packet: Self::Packet);
}
