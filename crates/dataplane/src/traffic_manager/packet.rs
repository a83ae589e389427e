//! A packet as the traffic manager holds it: a handle of the engine's and what every engine's
//! packets have.

use std::sync::Arc;

use crate::{
    Nanos, PortId, Stream,
    engine::{InstanceType, PacketHandle},
};

/// What every packet has, wherever it is.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    /// The drain epoch in which the root frame arrived.
    pub epoch: u64,
    /// The label of traces; none where nobody traced when the packet came.
    pub label: Option<Arc<str>>,
    /// Clones and replicas made of this packet so far, for their labels.
    pub n_clones: u32,
    pub n_replicas: u32,
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

    /// A copy's, which begins without copies of its own.
    pub(crate) fn of_copy(&self, stream: Stream) -> Self {
        Self {
            stream,
            n_clones: 0,
            n_replicas: 0,
            ..self.clone()
        }
    }
}

/// A packet that waits for ingress.
#[derive(Debug)]
pub(crate) struct IngressPacket {
    pub common: Common,
    pub packet: PacketHandle,
    pub instance_type: InstanceType,
    /// When the frame came; none in a recirculated or resubmitted packet.
    pub arrived: Option<Nanos>,
}

/// A packet that waits for egress. The handle may stand for other copies, too.
#[derive(Debug)]
pub(crate) struct EgressPacket {
    pub common: Common,
    pub packet: PacketHandle,
    pub instance_type: InstanceType,
    /// `egress_rid` of a copy.
    pub instance: Option<u16>,
    /// When it was queued.
    pub enqueued: Nanos,
    /// Packets that were in its queue then.
    pub enq_depth: usize,
}
