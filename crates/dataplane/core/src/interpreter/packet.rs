//! A packet as the interpreter stores it, and its bytes.

use std::{borrow::Cow, ops::Range, sync::Arc};

use super::phv::Phv;
use crate::{
    externs::payload::PayloadCall,
    program::ir::{DigestId, FieldId, FieldListId},
    value::Int,
};

/// Unparsed bytes; clones and replicas share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload {
    /// `None` for an empty payload, to avoid an allocation.
    pub bytes: Option<Arc<Vec<u8>>>,
    pub range: Range<usize>,
    /// Identifies `bytes`, as [`crate::engine::Frame::payload_id`].
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

/// Reads a range of a frame that consists of two pieces.
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

/// A frame stored with a packet: the deparsed headers, then the payload.
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

    /// The bytes after the first `consumed` bytes.
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

    pub(crate) fn truncate(&mut self, len: Option<usize>) {
        let Some(len) = len else { return };
        self.payload.truncate(len.saturating_sub(self.head.len()));
        self.head.truncate(len);
    }
}

/// What primitives ask the architecture to do after the control. The last request of a kind counts.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    /// Session and field list of a clone.
    pub clone: Option<(u32, Option<FieldListId>)>,
    /// The metadata that a resubmission preserves.
    pub resubmit: Option<FieldListId>,
    /// The metadata that a recirculation preserves.
    pub recirculate: Option<FieldListId>,
    /// The digest to send.
    pub digest: Option<DigestId>,
    /// The shortest length of all `truncate` calls.
    pub truncate_bytes: Option<usize>,
    /// The call of the extern that changes the payload after the deparser.
    pub payload: Option<PayloadCall>,
}

/// What the last pass through ingress or egress asked for, for use by the traffic manager's next call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// The metadata that the clone preserves.
    pub clone_list: Option<FieldListId>,
    pub digest: Option<DigestId>,
    /// Field list of the packet's return to ingress.
    pub back_list: Option<FieldListId>,
}

/// A packet: first a frame, then headers, metadata and payload, finally a frame again.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// How many packets this packet stands for; 0 if the handle is free.
    pub references: u32,
    /// The frame as it arrived or as the deparser wrote it.
    pub frame: HeldFrame,
    /// Metadata preserved for the next ingress pass.
    pub kept: Vec<(FieldId, Int)>,
    /// The header vector, which has no fields before the first pass.
    pub phv: Phv,
    pub payload: Payload,
    pub requests: Requests,
    pub asked: Asked,
    /// `packet_length` in egress: the frame's length, plus added headers, minus removed headers.
    pub packet_length: i64,
    /// The packet's length for counters.
    pub ingress_bytes: usize,
}
