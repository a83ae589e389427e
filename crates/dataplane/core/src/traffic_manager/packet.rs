//! A packet as the traffic manager holds it: the engine's handle, and data common to all engines.
//!
//! Hot paths pass these structs by reference. Moving a struct reads it as a whole right after its fields were written
//! one by one, and the processor stalls until those writes reach the cache (about 12 cycles).

use crate::{
    Nanos, PortId, Stream,
    engine::{InstanceType, PacketHandle},
    trace::NameId,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// The drain epoch in which the root frame (the received frame that this packet comes from) arrived.
    pub epoch: u64,
    /// The name in traces; `NONE` if no trace was on when the packet arrived.
    pub name: NameId,
    /// When the root frame arrived; latency counts from here.
    pub arrived: Nanos,
    pub stream: Stream,
    /// The port that received the root frame.
    pub ingress_port: PortId,
    /// The frame's length when the packet last entered ingress; counters use it.
    pub ingress_bytes: usize,
    pub recirculations: u32,
    pub resubmits: u32,
    pub clone_generation: u32,
}

impl Common {
    /// The number of the pass, from 1. A packet that returns to ingress starts another pass; clones belong to the pass
    /// that made them.
    pub(crate) fn pass(&self) -> u32 {
        1 + self.recirculations + self.resubmits
    }

    /// The data of a copy, which has no trace name yet.
    pub(crate) fn of_copy(&self, stream: Stream) -> Self {
        Self {
            stream,
            name: NameId::NONE,
            ..*self
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IngressPacket {
    pub common: Common,
    pub packet: PacketHandle,
    pub instance_type: InstanceType,
}

/// A packet that waits for egress, or all copies of a packet, which wait together. The handle may stand for several
/// copies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EgressPacket {
    pub common: Common,
    pub packet: PacketHandle,
    pub instance_type: InstanceType,
    pub enqueued: Nanos,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub port: PortId,
    /// `egress_rid` of a copy.
    pub instance: Option<u16>,
    /// Packets in the queue when this packet was queued.
    pub enq_depth: usize,
}
