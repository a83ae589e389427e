//! A packet as the interpreter holds it, and the bytes it carries.

use std::{borrow::Cow, ops::Range, sync::Arc};

use super::phv::Phv;
use crate::{
    externs::payload::PayloadCall,
    program::ir::{DigestId, FieldId, FieldListId},
    value::Int,
};

/// Bytes that no parser looked at; clones and replicas share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload {
    /// None where there is none, so that nothing is allocated.
    pub bytes: Option<Arc<Vec<u8>>>,
    pub range: Range<usize>,
    /// Of the bytes, as [`crate::engine::Frame::payload_id`] has it.
    pub id: u64,
}

impl Payload {
    pub(crate) fn new(bytes: Arc<Vec<u8>>, id: u64) -> Self {
        let range = 0..bytes.len();
        Self {
            bytes: Some(bytes),
            range,
            id,
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        bytes.map_or(&[], |bytes| &bytes[self.range.clone()])
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        let len = self.range.len().min(len);
        self.range.end = self.range.start + len;
    }
}

/// The bytes of a range that is inside of a frame in two pieces.
pub(crate) fn bytes([head, payload]: [&[u8]; 2], range: Range<usize>) -> Cow<'_, [u8]> {
    let n_head = head.len();
    if range.end <= n_head {
        return Cow::Borrowed(&head[range]);
    }
    if range.start >= n_head {
        return Cow::Borrowed(&payload[range.start - n_head..range.end - n_head]);
    }
    let mut bytes = head[range.start..].to_vec();
    bytes.extend_from_slice(&payload[..range.end - n_head]);
    Cow::Owned(bytes)
}

/// A whole frame as a packet has it: the deparsed headers, then the payload.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldFrame {
    pub head: Vec<u8>,
    pub payload: Payload,
}

impl HeldFrame {
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    pub(crate) fn pieces(&self) -> [&[u8]; 2] {
        [&self.head, self.payload.as_slice()]
    }

    /// What follows the first `consumed` bytes.
    pub(crate) fn rest(&self, consumed: usize) -> Payload {
        let n_head = self.head.len();
        if consumed >= n_head {
            let mut payload = self.payload.clone();
            payload.range.start += consumed - n_head;
            return payload;
        }
        let rest = bytes(self.pieces(), consumed..self.len());
        Payload::new(Arc::new(rest.into_owned()), 0)
    }

    /// Cuts the frame to so many bytes.
    pub(crate) fn truncate(&mut self, len: Option<usize>) {
        let Some(len) = len else { return };
        self.payload.truncate(len.saturating_sub(self.head.len()));
        self.head.truncate(len);
    }
}

/// What primitives ask for and is done after the control; the last request of a kind counts.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    /// A clone session and what the clone keeps.
    pub clone: Option<(u32, Option<FieldListId>)>,
    /// Ingress again, as the packet came.
    pub resubmit: Option<FieldListId>,
    /// Ingress again, as the packet leaves.
    pub recirculate: Option<FieldListId>,
    /// A digest.
    pub digest: Option<DigestId>,
    /// The shortest length asked for.
    pub truncate_bytes: Option<usize>,
    /// Another payload, behind the deparser.
    pub payload: Option<PayloadCall>,
}

/// What a pass asked for and whoever runs it may take up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// What the clone keeps.
    pub clone_list: Option<FieldListId>,
    pub digest: Option<DigestId>,
    /// What the packet keeps on its way back to ingress.
    pub back_list: Option<FieldListId>,
}

/// A packet: first a frame, then headers, metadata and payload too, then a frame again.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// How many packets it stands for; 0 where the place is free.
    pub references: u32,
    /// As it came, as the deparser wrote it, or what is left of that.
    pub frame: HeldFrame,
    /// Metadata that survives recirculation or resubmission.
    pub kept: Vec<(FieldId, Int)>,
    /// Without any field as long as there was no pass.
    pub phv: Phv,
    pub payload: Payload,
    pub requests: Requests,
    /// What the last pass asked for, until it is made.
    pub asked: Asked,
    /// What `packet_length` says in egress: the frame's, plus headers added, less headers removed.
    pub packet_length: i64,
    /// What counters count as the packet's length.
    pub ingress_bytes: usize,
}
