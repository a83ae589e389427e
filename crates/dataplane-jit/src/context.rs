//! What generated code reads and writes of the world around a packet's state.
//!
//! A generated function gets two pointers: the [`PassContext`] and the packet's block (see
//! [`crate::layout`]). Both are exclusively its own while it runs. The engine fills the context
//! before a pass and reads it afterwards; offsets are taken with `offset_of!`, so fields may be
//! added anywhere.

use std::ffi::c_void;

use dataplane::engine::{
    PayloadCall,
    ir::{DigestId, FieldListId},
};

/// What a pass asked the traffic manager for; stays with the packet between passes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// Whether a clone was asked for: 0 or 1.
    pub clone: u32,
    /// The session, if so.
    pub clone_session: u32,
    /// The field list that the clone keeps, plus 1; 0 keeps nothing.
    pub clone_list: u32,
    /// The digest, plus 1; 0 is none.
    pub digest: u32,
    /// The field list to resubmit with, plus 1; 0 is no request.
    pub resubmit: u32,
    /// The field list to recirculate with, plus 1; 0 is no request.
    pub recirculate: u32,
    /// Bytes to cut to; [`Requests::WHOLE`] where nothing is cut.
    pub truncate_bytes: u64,
}

impl Requests {
    /// Nothing is to be cut.
    pub const WHOLE: u64 = u64::MAX;

    /// No request.
    pub const NONE: Self = Self {
        clone: 0,
        clone_session: 0,
        clone_list: 0,
        digest: 0,
        resubmit: 0,
        recirculate: 0,
        truncate_bytes: Self::WHOLE,
    };

    /// A field list as it stands here: its number plus 1, 0 for none.
    pub fn list_code(list: Option<FieldListId>) -> u32 {
        list.map_or(0, |list| list.0 + 1)
    }

    /// The field list of a code.
    pub fn list_of(code: u32) -> Option<FieldListId> {
        code.checked_sub(1).map(FieldListId)
    }

    /// The clone's session and field list, if one was asked for.
    pub fn clone_request(&self) -> Option<(u32, Option<FieldListId>)> {
        (self.clone != 0).then(|| (self.clone_session, Self::list_of(self.clone_list)))
    }

    /// The digest, if one was asked for.
    pub fn digest_request(&self) -> Option<DigestId> {
        self.digest.checked_sub(1).map(DigestId)
    }

    /// The length to cut to, if there is one.
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

/// What generated code may touch besides the packet's block.
#[repr(C)]
#[derive(Debug)]
pub struct PassContext {
    /// The deparsed headers of a frame that goes through the parser again; empty for a new one.
    pub head: *const u8,
    /// Bytes of the head.
    pub head_len: u64,
    /// What follows the head; before the parser the whole frame, after it what it left.
    pub payload: *const u8,
    /// Bytes of the payload.
    pub payload_len: u64,
    /// Nanoseconds.
    pub now: u64,
    /// What counters and meters count as the packet's length.
    pub ingress_bytes: u64,
    /// What `packet_length` will say in egress.
    pub packet_length: i64,
    /// Bytes that the parser extracted or skipped.
    pub consumed: u64,
    /// The parser's error.
    pub parser_error: u32,
    /// Not 0 where a control gave up the packet: the position of its reason among
    /// `DropReason::ALL`, plus 1.
    pub failed: u32,
    /// The requests so far.
    pub requests: Requests,
    /// The words of register arrays, one pointer each in the order of their ids, null where the
    /// cells are wider than a word; then those of counter arrays.
    pub arrays: *const *mut u64,
    /// The counters of tables in the order of their ids: hits, then misses.
    pub table_counters: *mut u64,
    /// The tables in the order of their ids.
    pub tables: *const c_void,
    /// The engine's runtime, for the functions of [`crate::runtime`].
    pub runtime: *mut c_void,
    /// The switch's state, for the same.
    pub state: *mut c_void,
    /// The engine's packets, for the functions of [`crate::packets`].
    pub packets: *mut c_void,
    /// The other payload that the last egress pass asked for, until its packet is a frame.
    pub payload_call: PayloadCall,
}

impl PassContext {
    /// A context in which nothing points anywhere.
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
