//! Takes the copies of one packet through egress, one after the other, in one call ([`Engine::fan_out`]).
//!
//! A copy that is only transmitted never takes a place in the pool of packets (`packet.rs`). It goes through egress in
//! the *scratch packet*: a block (header vector) and a buffer for headers, which all copies use one after the other.
//! The bytes after the headers are not copied: every copy uses the bytes of the original packet. A copy that is
//! dropped, cloned or recirculated gets a place in the pool.
//!
//! [`Engine::fan_out`]: dataplane::engine::Engine::fan_out

use dataplane::engine::Copies;

use super::{
    EgressInput, EgressOutcome, Frame, Native, PacketHandle, PayloadCall, State, at_egress,
    egress::checked,
};
use crate::{
    context::Requests,
    packet::{Packet, SLACK_BYTES},
    packets::{self, Packets},
    passes::NOT_WRITTEN,
};

pub(super) struct Scratch {
    pub block: Box<[u64]>,
    /// Room for the headers and `SLACK_BYTES` more.
    pub head: Box<[u8]>,
}

impl Scratch {
    pub(super) fn new(blank: &[u64], headers_len: usize) -> Self {
        Self {
            block: blank.into(),
            head: vec![0; headers_len + SLACK_BYTES].into(),
        }
    }
}

impl Native {
    /// Whether the copies of a packet may use the scratch packet: the program has no varbit fields, the copies are not
    /// truncated, and the copies share all bytes after the headers.
    pub(super) fn may_use_scratch(&self, packet: &Packet) -> bool {
        !self.slots.has_variable
            && packet.requests.truncate_bytes == Requests::WHOLE
            && packet.rest()[0].is_empty()
    }

    /// Takes the copies of a packet through egress in the scratch packet; `may_use_scratch` must have returned true for
    /// the packet. Stops at the first copy that is not just transmitted, and returns this copy's outcome; `None` if all
    /// copies were transmitted.
    pub(super) fn fan_out_at_once(
        &mut self,
        state: &mut State,
        handle: PacketHandle,
        copies: &mut dyn Copies,
    ) -> Option<EgressOutcome> {
        let original = self.attach(state, handle, true);
        let copy_block = self.program.passes.copy_block;
        let packet = self.packets.pool.packet(handle);
        let requests = at_egress(&packet.requests);
        let packet_length = packet.packet_length;
        let payload_id = self.packets.pool.payload_id(handle);
        let changes_payloads = self.changes_payloads;
        let mut n_gone = 0;
        let mut other = None;
        loop {
            // The loop reads the input in place. A move would load several fields with one instruction, and this load
            // would stall until the stores of all these fields have reached the cache.
            let next = copies.next_copy();
            let Some(input) = &next else { break };
            // SAFETY: both arguments are blocks of the layout that the code is for.
            unsafe { copy_block(self.scratch.block.as_mut_ptr(), original) };
            self.context.requests = requests;
            self.context.packet_length = packet_length;
            self.context.failed = 0;
            n_gone += 1;
            if changes_payloads {
                self.context.payload_call = PayloadCall::NONE;
            }
            let Some(written) = self.depart_scratch(input) else {
                other = Some((*input, self.become_packet(handle)));
                break;
            };
            let frame = self.scratch_frame(written, payload_id);
            if changes_payloads {
                state.depart(&self.context.payload_call, input.port, frame, copies)
            } else {
                copies.leave(input.port, frame)
            }
        }
        if changes_payloads {
            state.depart_held(self.scratch_frame(0, payload_id), copies);
        }
        self.packets.pool.discard_many(handle, n_gone);
        other.map(|(input, copy)| self.after_egress(state, &input, copy))
    }

    /// Runs egress of a copy whose block and requests are ready. Returns the length of its headers if they are written;
    /// `None` if only the egress control has run.
    #[inline(always)]
    pub(super) fn depart_scratch(&mut self, input: &EgressInput) -> Option<usize> {
        let Scratch { block, head } = &mut self.scratch;
        if let Some(instance) = input.instance {
            self.slots.egress_rid.set(block, instance.into());
        }
        let (context, depart) = (&raw mut *self.context, self.program.passes.depart);
        let (instance_type, out) = (input.instance_type as u64, head.as_mut_ptr());
        // SAFETY: the context is about the packet, the block has the program's layout, the code is the program's, and
        // the head has room for every header and `SLACK_BYTES` more.
        let written = unsafe { depart(context, block.as_mut_ptr(), input, instance_type, out) };
        if written == NOT_WRITTEN {
            return None;
        }
        Some(checked(written, self.headers_len))
    }

    /// The frame of the scratch packet, whose headers have `written` bytes.
    #[inline(always)]
    pub(super) fn scratch_frame(&self, written: usize, payload_id: u64) -> Frame<'_> {
        // SAFETY: the context points to the bytes that the parser did not consume, which stay where they are.
        let [_, payload] = unsafe { packets::pieces(&self.context) };
        Frame {
            head: &self.scratch.head[..written],
            payload,
            payload_id,
        }
    }

    /// Gives a place in the pool to a copy that has just been through egress in the scratch packet.
    pub(super) fn become_packet(&mut self, of: PacketHandle) -> PacketHandle {
        let Packets { pool, current, .. } = &mut *self.packets;
        let copy = pool.share_rest(of);
        std::mem::swap(&mut pool.packet_mut(copy).vector, &mut self.scratch.block);
        *current = copy;
        copy
    }
}
