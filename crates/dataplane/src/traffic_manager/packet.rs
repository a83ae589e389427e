//! A packet as the traffic manager holds it: a handle of the engine's and what every engine's
//! packets have.
//!
//! They are handed on by reference where every copy passes. To move one reads it as a whole right after
//! its fields were written one by one, and the processor waits until those writes have reached the
//! cache (about 12 cycles).

use crate::{
    Nanos, PortId, Stream,
    engine::{InstanceType, PacketHandle},
    trace::NameId,
};

/// What every packet has, wherever it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// The drain epoch in which the root frame arrived.
    pub epoch: u64,
    /// What traces call it; none where nobody traced when the packet came.
    pub name: NameId,
    /// When the root frame came, on whose account its latency goes.
    pub arrived: Nanos,
    pub stream: Stream,
    /// The port the root frame came from.
    pub ingress_port: PortId,
    /// Length when the packet last entered ingress as a frame; counters count it.
    pub ingress_bytes: usize,
    pub recirculations: u32,
    pub resubmits: u32,
    pub clone_generation: u32,
}

impl Common {
    /// The how-manieth way through the pipeline, from 1: a packet that goes back to ingress begins
    /// another, its clones are in the one in which they were made.
    pub(crate) fn pass(&self) -> u32 {
        1 + self.recirculations + self.resubmits
    }

    /// A copy's, which has no name yet.
    pub(crate) fn of_copy(&self, stream: Stream) -> Self {
        Self {
            stream,
            name: NameId::NONE,
            ..*self
        }
    }
}

/// A packet that waits for ingress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IngressPacket {
    pub common: Common,
    pub packet: PacketHandle,
    pub instance_type: InstanceType,
}

/// A packet that waits for egress, or all of its copies that do. The handle may stand for other
/// copies, too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EgressPacket {
    pub common: Common,
    pub packet: PacketHandle,
    pub instance_type: InstanceType,
    /// When it was queued.
    pub enqueued: Nanos,
}

/// Where one of the copies goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub port: PortId,
    /// `egress_rid` of a copy.
    pub instance: Option<u16>,
    /// Packets that were in its queue when it was queued.
    pub enq_depth: usize,
}
