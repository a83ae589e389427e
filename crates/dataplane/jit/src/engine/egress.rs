//! Takes a packet through egress: writes its egress metadata, runs the egress control and writes its headers as bytes.
//! If the packet is only transmitted, one call of generated code ([`crate::passes`]) does all of this. If the packet is
//! dropped, cloned, truncated or recirculated, the call ends after the egress control, and this file does the remaining
//! work. A packet's *block* is its header vector.

use dataplane::{
    DropReason,
    engine::{EgressInput, EgressOutcome, EgressVerdict, PacketHandle, PayloadCall, State},
    limits,
};

use super::{Native, at_egress};
use crate::{frames::Deparse, passes::NOT_WRITTEN, vector::Vector};

impl Native {
    /// Runs egress. Returns the length of the frame if its headers are written; `None` if only the egress control has
    /// run.
    #[inline]
    pub(super) fn depart(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        handle: PacketHandle,
    ) -> Option<usize> {
        self.attach(state, handle, true);
        let (packet, scratch) = self.packets.pool.with_scratch(handle);
        let context = &mut *self.context;
        context.requests = at_egress(&packet.requests);
        let mut out = std::ptr::null_mut();
        if input.is_deparsed && !self.slots.has_variable {
            out = packet.deparse_into(scratch, self.headers_len);
        }
        if let Some(instance) = input.instance {
            self.slots
                .egress_rid
                .set(&mut packet.vector, instance.into());
        }
        let block = packet.vector.as_mut_ptr();
        let instance_type = input.instance_type as u64;
        let depart = self.program.passes.depart;
        // SAFETY: context and block are the packet's, the code is the program's, and `out` is null or has room for
        // every header and `SLACK_BYTES` more.
        let written = unsafe { depart(&raw mut *self.context, block, input, instance_type, out) };
        if written == NOT_WRITTEN {
            return None;
        }
        let written = checked(written, self.headers_len);
        let (packet, scratch) = self.packets.pool.with_scratch(handle);
        packet.deparsed(scratch, written);
        Some(packet.frame_len())
    }

    /// Returns the outcome of an egress pass after its control has run.
    pub(super) fn after_egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        handle: PacketHandle,
    ) -> EgressOutcome {
        let failed = self.finish(handle);
        let packet = self.packets.pool.packet(handle);
        let verdict = match failed {
            Some(reason) => EgressVerdict::Drop(reason),
            None if self.egress_port(packet).0 == limits::DROP_PORT => {
                EgressVerdict::Drop(DropReason::EgressDrop)
            }
            None if packet.requests.recirculate != 0 => EgressVerdict::Recirculate,
            None => EgressVerdict::Transmit,
        };
        let request = packet.requests.clone_request().filter(|_| failed.is_none());
        let is_dropped = matches!(verdict, EgressVerdict::Drop(_));
        let is_written = input.is_deparsed && request.is_none() && !is_dropped;
        let outcome = EgressOutcome {
            packet: handle,
            verdict,
            clone_session: request.map(|(session, _)| session),
            frame_len_bytes: None,
        };
        if is_written {
            outcome.deparsed(self.end_egress(state, handle))
        } else {
            outcome
        }
    }

    /// Finishes egress of the packet that the context points to: checksum update, deparser and the requested payload
    /// change. Returns the length of the frame. If a packet recirculates and requests no payload change, its headers
    /// may stay in the block. A recirculating packet is never truncated.
    ///
    /// # Errors
    /// The extern that changes the payload failed.
    pub(super) fn end_egress(
        &mut self,
        state: &mut State,
        handle: PacketHandle,
    ) -> Result<usize, DropReason> {
        let packet = self.packets.pool.packet_mut(handle);
        let recirculates = packet.requests.recirculate != 0;
        let block = packet.vector.as_mut_ptr();
        if let Some(reparse) = self.frames.reparse
            && recirculates
            && !self.context.payload_call.is_some()
        {
            // SAFETY: context and block are the packet's, the code is the program's.
            let headers = unsafe { (reparse.measure)(&raw mut *self.context, block) };
            let len = usize::try_from(headers).expect("a usize has 64 bits") + packet.rest_len();
            packet.unwritten = Some(len);
            return Ok(len);
        }
        // SAFETY: the block is the packet's, the code the program's.
        unsafe { self.write_block(state, handle, block, self.frames.deparse) };
        self.change_payload(state, handle)?;
        let packet = self.packets.pool.packet_mut(handle);
        if let Some(len) = packet.requests.truncation().filter(|_| !recirculates) {
            packet.truncate_frame(len);
        }
        Ok(packet.frame_len())
    }

    /// Carries out the payload change that the egress pass of a deparsed packet requested, if any. Returns the length
    /// of the frame.
    ///
    /// # Errors
    /// The extern that changes the payload failed.
    pub(super) fn change_payload(
        &mut self,
        state: &mut State,
        handle: PacketHandle,
    ) -> Result<usize, DropReason> {
        let call = std::mem::replace(&mut self.context.payload_call, PayloadCall::NONE);
        let pool = &mut self.packets.pool;
        if call.is_some() {
            let n_room = state.payload_room_bytes(pool.packet(handle).payload_len());
            pool.put_payload(handle, n_room, |head, room, payload| {
                state.change_payload(&call, [head, room], payload)
            })?;
        }
        Ok(pool.packet(handle).frame_len())
    }

    /// Writes a block's headers as bytes, in front of the bytes that the parser did not consume. Returns the length of
    /// the headers.
    ///
    /// # Safety
    /// The block has the engine's layout, and nobody else uses it now; `write` is the code of the engine's program, and
    /// the context was attached in this pass.
    pub(super) unsafe fn write_block(
        &mut self,
        state: &State,
        handle: PacketHandle,
        block: *mut u64,
        write: Deparse,
    ) -> usize {
        let mut len = self.headers_len;
        if self.slots.has_variable {
            let layout = &self.packets.layout;
            // SAFETY: as the caller has promised.
            let vector = unsafe { Vector::new(block.cast()) };
            let order = state.program().ir().deparser.order.iter();
            len += order
                .map(|header| vector.variable_bits(layout, *header) as usize / 8)
                .sum::<usize>();
        }
        let (packet, scratch) = self.packets.pool.with_scratch(handle);
        let out = packet.deparse_into(scratch, len);
        let context = &raw mut *self.context;
        // SAFETY: the context is the packet's, the block has the engine's layout, the code is the program's, and `out`
        // has room for every header and `SLACK_BYTES` more.
        let written = checked(unsafe { write(context, block, out) }, len);
        let (packet, scratch) = self.packets.pool.with_scratch(handle);
        packet.deparsed(scratch, written);
        written
    }
}

/// Checks that the deparser wrote at most `room` bytes.
#[inline]
pub(super) fn checked(written: u64, room: usize) -> usize {
    let written = usize::try_from(written).expect("a usize has 64 bits");
    assert!(
        written <= room,
        "the deparser wrote {written} bytes where there is room for {room}"
    );
    written
}
