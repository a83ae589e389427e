//! A packet inside the switch, and the bytes it carries.

use std::{borrow::Cow, ops::Range, sync::Arc};

use crate::{
    Nanos, PortId,
    phv::Phv,
    program::ir::{DigestId, FieldId, FieldListId},
    value::Int,
};

/// Bytes that no parser looked at; clones and replicas share them.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl Payload {
    pub(crate) fn new(bytes: Arc<[u8]>) -> Self {
        let range = 0..bytes.len();
        Self { bytes, range }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        let len = self.range.len().min(len);
        self.range.end = self.range.start + len;
    }
}

/// A whole frame: the deparsed headers, then the payload.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub head: Vec<u8>,
    pub payload: Payload,
}

impl Frame {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            head: Vec::new(),
            payload: Payload::new(bytes.into()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// The bytes of a range that is inside of the frame.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Cow<'_, [u8]> {
        let n_head = self.head.len();
        if range.end <= n_head {
            return Cow::Borrowed(&self.head[range]);
        }
        let payload = self.payload.as_slice();
        if range.start >= n_head {
            return Cow::Borrowed(&payload[range.start - n_head..range.end - n_head]);
        }
        let mut bytes = self.head[range.start..].to_vec();
        bytes.extend_from_slice(&payload[..range.end - n_head]);
        Cow::Owned(bytes)
    }

    /// What follows the first `consumed` bytes.
    pub(crate) fn rest(&self, consumed: usize) -> Payload {
        let n_head = self.head.len();
        if consumed >= n_head {
            let mut payload = self.payload.clone();
            payload.range.start += consumed - n_head;
            return payload;
        }
        Payload::new(self.bytes(consumed..self.len()).into_owned().into())
    }

    /// Cuts the frame to so many bytes.
    pub(crate) fn truncate(&mut self, len: Option<usize>) {
        let Some(len) = len else { return };
        self.payload.truncate(len.saturating_sub(self.head.len()));
        self.head.truncate(len);
    }

    /// The frame in one piece.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        bytes.extend_from_slice(self.payload.as_slice());
        bytes
    }
}

/// What `instance_type` of v1model says about how a packet came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceType {
    Normal = 0,
    IngressClone = 1,
    EgressClone = 2,
    Recirculated = 4,
    Replicated = 5,
    Resubmitted = 6,
}

/// What primitives ask for and the traffic manager does after the control.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests {
    pub clone: Option<(u32, Option<FieldListId>)>,
    pub resubmit: Option<FieldListId>,
    pub recirculate: Option<FieldListId>,
    pub digest: Option<DigestId>,
    pub truncate_bytes: Option<usize>,
}

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
}

/// A packet that waits for ingress.
#[derive(Debug)]
pub(crate) struct IngressPacket {
    pub common: Common,
    pub frame: Frame,
    pub instance_type: InstanceType,
    /// Metadata that survives recirculation or resubmission.
    pub kept: Vec<(FieldId, Int)>,
    /// When the frame came; none in a recirculated or resubmitted packet.
    pub arrived: Option<Nanos>,
}

/// What the interpreter works on: one packet between parser and deparser.
#[derive(Debug)]
pub(crate) struct Work {
    pub phv: Phv,
    pub payload: Payload,
    pub requests: Requests,
    /// What `packet_length` says in egress: the frame's, plus headers added, less headers removed.
    pub packet_length: i64,
    /// What counters count as the packet's length.
    pub ingress_bytes: usize,
}

impl Work {
    /// A copy is cut as BMv2 cuts it when it is made: what the packet carries then is the payload,
    /// so the length counts from behind the headers.
    pub(crate) fn truncate_payload(&mut self) {
        if let Some(len) = self.requests.truncate_bytes.take() {
            self.payload.truncate(len);
        }
    }
}

/// A packet that waits for egress.
#[derive(Debug)]
pub(crate) struct EgressPacket {
    pub common: Common,
    pub work: Work,
    /// When it was queued.
    pub enqueued: Nanos,
}
