//! What generated code reads and writes besides the packet's block.
//!
//! A generated function gets two pointers: the [`PassContext`] and the packet's block (its header vector, see
//! [`crate::layout`]). While the function runs, no other code accesses the context or the block. The engine fills the
//! context before a pass (a packet's way through ingress or egress) and reads it afterwards. The generated code gets
//! the offsets of fields from `offset_of!`, so the fields may be in any order.

use std::ffi::c_void;

use dataplane::engine::{
    PayloadCall,
    ir::{DigestId, FieldListId},
};

/// What the P4 program requests for a packet during a pass: a clone, a digest, a resubmission, a recirculation or a
/// truncation. The engine keeps the requests with the packet from pass to pass.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// 1 if a clone is requested, else 0.
    pub clone: u32,
    pub clone_session: u32,
    /// Number of the field list that the clone keeps, plus 1; 0 if the clone keeps no fields.
    pub clone_list: u32,
    /// Number of the requested digest, plus 1; 0 if no digest is requested.
    pub digest: u32,
    /// Number of the field list to resubmit with, plus 1; 0 is no request.
    pub resubmit: u32,
    /// Number of the field list to recirculate with, plus 1; 0 is no request.
    pub recirculate: u32,
    /// Length in bytes to truncate to, or [`Requests::WHOLE`].
    pub truncate_bytes: u64,
}

impl Requests {
    /// `truncate_bytes` of a packet that is not truncated.
    pub const WHOLE: u64 = u64::MAX;

    pub const NONE: Self = Self {
        clone: 0,
        clone_session: 0,
        clone_list: 0,
        digest: 0,
        resubmit: 0,
        recirculate: 0,
        truncate_bytes: Self::WHOLE,
    };

    /// Encodes a field list: its number plus 1, 0 for none.
    pub fn list_code(list: Option<FieldListId>) -> u32 {
        list.map_or(0, |list| list.0 + 1)
    }

    /// Decodes what [`Requests::list_code`] encodes.
    pub fn list_of(code: u32) -> Option<FieldListId> {
        code.checked_sub(1).map(FieldListId)
    }

    /// The clone's session and field list, if a clone was requested.
    pub fn clone_request(&self) -> Option<(u32, Option<FieldListId>)> {
        (self.clone != 0).then(|| (self.clone_session, Self::list_of(self.clone_list)))
    }

    pub fn digest_request(&self) -> Option<DigestId> {
        self.digest.checked_sub(1).map(DigestId)
    }

    /// The length in bytes to truncate to, if any.
    pub fn truncation(&self) -> Option<usize> {
        (self.truncate_bytes != Self::WHOLE)
            .then(|| usize::try_from(self.truncate_bytes).expect("a usize has 64 bits"))
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self::NONE
    }
}

/// What generated code may access besides the packet's block.
#[repr(C)]
#[derive(Debug)]
pub struct PassContext {
    /// The deparsed headers of a frame that is parsed again; empty for a new frame.
    pub head: *const u8,
    pub head_len: u64,
    /// The bytes after the head: before the parser, the rest of the frame; after the parser, the
    /// bytes that the parser did not consume.
    pub payload: *const u8,
    pub payload_len: u64,
    /// The time of the pass, in nanoseconds.
    pub now: u64,
    /// The packet's length in bytes, as counters and meters count it.
    pub ingress_bytes: u64,
    /// The value of `packet_length` in egress.
    pub packet_length: i64,
    /// Bytes that the parser extracted or skipped.
    pub consumed: u64,
    pub parser_error: u32,
    /// 0, or the reason why a control aborted: the reason's position in `DropReason::ALL`, plus 1.
    pub failed: u32,
    pub requests: Requests,
    /// One pointer for each register array in the order of ids (null where the cells are wider than
    /// a word), then one for each counter array.
    pub arrays: *const *mut u64,
    /// Two counters for each table in the order of ids: hits, misses.
    pub table_counters: *mut u64,
    /// One [`crate::tables::TableRecord`] for each table in the order of ids.
    pub tables: *const c_void,
    /// The engine's runtime, for the functions of [`crate::runtime`].
    pub runtime: *mut c_void,
    /// The switch's state, for the same functions.
    pub state: *mut c_void,
    /// The engine's packets, for the functions of [`crate::packets`].
    pub packets: *mut c_void,
    /// The payload change that the last egress pass requested. The extern that changes payloads carries it out after
    /// the deparser.
    pub payload_call: PayloadCall,
}

impl PassContext {
    /// All pointers are null.
    pub const EMPTY: Self = Self {
        head: std::ptr::null(),
        head_len: 0,
        payload: std::ptr::null(),
        payload_len: 0,
        now: 0,
        ingress_bytes: 0,
        packet_length: 0,
        consumed: 0,
        parser_error: 0,
        failed: 0,
        requests: Requests::NONE,
        arrays: std::ptr::null(),
        table_counters: std::ptr::null_mut(),
        tables: std::ptr::null(),
        runtime: std::ptr::null_mut(),
        state: std::ptr::null_mut(),
        packets: std::ptr::null_mut(),
        payload_call: PayloadCall::NONE,
    };
}
