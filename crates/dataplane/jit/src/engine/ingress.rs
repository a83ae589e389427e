//! Ingress of a packet: one call of generated code ([`crate::passes`]) writes the metadata, parses, verifies checksums
//! and runs the ingress control.
//!
//! An ingress pass begins with one of three things: a new frame; a frame for which the first half of the pass has
//! already run; or a packet that was resubmitted or recirculated. [`Native::ingress_outcome`] reads the outcome in all
//! three cases.
//!
//! **Prefetch.** The engine runs the parser and checksum verification of waiting frames a few frames ahead, and the
//! ingress control's flow cache prefetches the flow records of these frames ([`crate::flow`]). Prefetching has no
//! visible effect: the engine runs ahead only if the parser keeps no state between packets, and if only calls from the
//! control plane can change what the parser reads. Such a call increases the engine's number `epoch` if it changes what
//! the parser reads. The pass of a frame that was parsed ahead before the call then begins again.
//!
//! **Re-parse.** The deparser would write the headers of a recirculating packet, and the parser would mostly extract
//! the same headers again. So the headers stay in the packet's old block (its header vector from the last pass), and
//! the parser's states copy them from there (`frames/parser/reparse.rs`). The engine writes the headers as bytes only
//! if the parser's outcome would differ, or if the ingress control requests a clone or a resubmission, which begins
//! with the frame as it came to ingress. The old block is the engine's `spare` block until the control has run.

use dataplane::{
    DropReason, PortId,
    engine::{IngressInput, IngressOutcome, IngressVerdict, PacketHandle, State},
    limits,
};

use super::Native;
use crate::{
    context::Requests,
    passes::{ArriveHeaders, NOT_PARSED, NOT_PLAIN, Plain},
};

/// The highest number of frames that are parsed ahead: about as many as the engine processes while memory delivers a
/// flow record.
pub(super) const AHEAD_MAX: usize = 4;

impl Native {
    /// Runs the whole pass of a new frame.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
        arrived: u64,
    ) -> u64 {
        let port = input.ingress_port.0.into();
        let block = self.attach(state, handle, false);
        let context = &raw mut *self.context;
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { (self.program.passes.arrive)(context, block, port, arrived) }
    }

    /// Runs the first half of [`Native::arrive`]. `epoch` is the engine's epoch if the frame is parsed ahead, else 0.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
        arrived: u64,
        epoch: u64,
    ) {
        let port = input.ingress_port.0.into();
        let block = self.attach(state, handle, false);
        let begin = self.program.passes.begin;
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { begin(&raw mut *self.context, block, port, arrived) };
        let consumed = self.consumed();
        let packet = self.packets.pool.same_mut(handle);
        packet.consumed = consumed;
        packet.packet_length = self.context.packet_length;
        packet.parsed_ahead = epoch;
    }

    /// Runs the second half of [`Native::arrive`].
    #[inline]
    pub(super) fn go_on(&mut self, state: &mut State, handle: PacketHandle) -> u64 {
        let block = self.attach(state, handle, true);
        let go_on = self.program.passes.go_on;
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { go_on(&raw mut *self.context, block) }
    }

    pub(super) fn consumed(&self) -> usize {
        usize::try_from(self.context.consumed).expect("a usize has 64 bits")
    }

    /// Runs the pass of a resubmitted or recirculated packet. The packet's old block becomes the engine's spare block.
    #[inline(never)]
    pub(super) fn arrive_again(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> u64 {
        let packet = self.packets.pool.packet(handle);
        if let Some(arrive_headers) = self.program.passes.arrive_headers
            && packet.unwritten.is_some()
        {
            self.attach(state, handle, true);
            match self.arrive_headers(arrive_headers, input, handle) {
                NOT_PARSED => self.become_frame(state, handle),
                came_to => return came_to,
            }
        }
        let packet = self.packets.pool.same_mut(handle);
        packet.ingress_bytes = input.ingress_bytes;
        let (len, list) = (packet.frame_len() as u64, packet.kept_list.into());
        std::mem::swap(&mut packet.vector, &mut self.spare);
        let block = self.attach(state, handle, false);
        let (context, old) = (&raw mut *self.context, self.spare.as_ptr());
        let (arrive_again, how) = (self.program.passes.arrive_again, input.instance_type as u64);
        // SAFETY: context and new block are the packet's, the old block has the same layout, the code is the program's.
        unsafe { arrive_again(context, block, old, len, list, how) }
    }

    /// Runs the pass of a packet whose headers are in its block. Returns [`NOT_PARSED`] if the parser cannot copy the
    /// headers from the block. The context must point to the packet.
    #[inline(always)]
    pub(super) fn arrive_headers(
        &mut self,
        arrive_headers: ArriveHeaders,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> u64 {
        let packet = self.packets.pool.same_mut(handle);
        packet.ingress_bytes = input.ingress_bytes;
        self.context.ingress_bytes = input.ingress_bytes as u64;
        let len = packet.unwritten.unwrap_or_default() as u64;
        let list = packet.kept_list.into();
        std::mem::swap(&mut packet.vector, &mut self.spare);
        let (block, old) = (packet.vector.as_mut_ptr(), self.spare.as_ptr());
        // SAFETY: context and new block are the packet's, the old block has the same layout, the code is the program's.
        unsafe { arrive_headers(&raw mut *self.context, block, old, len, list) }
    }

    /// Writes the headers of the spare block as bytes, because the parser could not copy them from that block.
    #[cold]
    pub(super) fn become_frame(&mut self, state: &State, handle: PacketHandle) {
        let packet = self.packets.pool.same_mut(handle);
        std::mem::swap(&mut packet.vector, &mut self.spare);
        let block = packet.vector.as_mut_ptr();
        if let Some(reparse) = self.frames.reparse {
            // SAFETY: the block is the packet's, the code the program's.
            unsafe { self.write_block(state, handle, block, reparse.write) };
        }
    }

    /// Returns the outcome of the ingress pass that has just run. If the pass parsed a frame, also stores how much the
    /// parser consumed.
    #[inline]
    pub(super) fn ingress_outcome(
        &mut self,
        state: &State,
        handle: PacketHandle,
        came_to: u64,
    ) -> IngressOutcome {
        let consumed = self.consumed();
        let packet = self.packets.pool.same_mut(handle);
        if packet.unwritten.is_none() {
            packet.consumed = consumed;
        }
        if came_to == NOT_PLAIN {
            return self.rare_outcome(state, handle);
        }
        packet.requests = Requests::NONE;
        packet.packet_length = self.context.packet_length;
        let plain = Plain(came_to);
        IngressOutcome {
            verdict: IngressVerdict::Unicast(PortId(plain.port())),
            clone_session: None,
            has_digest: false,
            priority: plain.priority(),
        }
    }

    /// Returns the outcome of a pass whose result is not [`Plain`].
    #[inline(never)]
    fn rare_outcome(&mut self, state: &State, handle: PacketHandle) -> IngressOutcome {
        let failed = self.finish(handle);
        self.write_what_came(state, handle);
        let packet = self.packets.pool.packet(handle);
        let vector = &packet.vector;
        let group = self.slots.mcast_grp.get(vector);
        let port = self.egress_port(packet);
        if let Some(reason) = failed {
            return IngressOutcome {
                verdict: IngressVerdict::Drop(reason),
                clone_session: None,
                has_digest: false,
                priority: 0,
            };
        }
        let verdict = match group {
            _ if packet.requests.resubmit != 0 => IngressVerdict::Resubmit,
            0 if port.0 == limits::DROP_PORT => IngressVerdict::Drop(DropReason::IngressDrop),
            0 => IngressVerdict::Unicast(port),
            group => IngressVerdict::Multicast(u32::try_from(group).unwrap_or(u32::MAX)),
        };
        IngressOutcome {
            verdict,
            clone_session: packet.requests.clone_request().map(|(session, _)| session),
            has_digest: packet.requests.digest != 0,
            priority: self.slots.priority.get(vector),
        }
    }

    /// Writes the headers with which the packet came to ingress as bytes, if the control requested a clone or a
    /// resubmission and these headers are only in the old block.
    fn write_what_came(&mut self, state: &State, handle: PacketHandle) {
        let packet = self.packets.pool.packet(handle);
        let is_wanted = packet.requests.clone != 0 || packet.requests.resubmit != 0;
        if packet.unwritten.is_some()
            && is_wanted
            && let Some(reparse) = self.frames.reparse
        {
            let block = self.spare.as_mut_ptr();
            // SAFETY: the spare block has the program's layout, nobody else uses it, and the code is the program's.
            let len = unsafe { self.write_block(state, handle, block, reparse.write) };
            self.packets.pool.same_mut(handle).consumed = len;
        }
    }
}
