//! Recirculation without bytes.
//!
//! What the deparser would write of a packet that recirculates, the parser would most often take as the
//! same headers again. So the checksums are updated and the length is counted, but the headers stay
//! in the packet's block: ingress begins with a blank block, into which they are copied as the parser's
//! states ask for them (`frames/parser/again.rs`), each field as the words that it is. Of the frame
//! nothing changes but its length; its bytes lie where they lay, and what follows the headers is not
//! touched. Deparser and parser are two calls, a swap of buffers and every field turned around twice;
//! this is one call and a copy of the headers that are there.
//!
//! They become bytes after all where the parser would come to something else, where the packet is cut,
//! and where the ingress control wants a clone or a resubmission, which begin with the frame as it
//! came: the old block is kept until then.

use super::{
    FieldListId, IngressInput, IngressOutcome, Native, PacketHandle, State, copy_words,
    start_ingress, whole::plain_outcome,
};
use crate::{
    context::Requests,
    frames::{AgainCode, Deparse},
    packets::Packets,
    passes::{NOT_PARSED, NOT_PLAIN, Plain},
    vector::Vector,
};

impl Native {
    /// Checksum update and deparser of a packet that the context is about, after egress; the length
    /// of the frame.
    pub(super) fn end_egress(&mut self, state: &State, handle: PacketHandle) -> usize {
        let requests = &self.packets.pool.packet(handle).requests;
        let is_whole = requests.truncate_bytes == Requests::WHOLE;
        match self.frames.again {
            Some(again) if requests.recirculate != 0 && is_whole => self.measure(again, handle),
            _ => self.write_headers(state, handle),
        }
    }

    /// The headers stay where they are.
    fn measure(&mut self, again: AgainCode, handle: PacketHandle) -> usize {
        let packet = self.packets.pool.packet_mut(handle);
        let context = &raw mut *self.context;
        // SAFETY: context and block are the packet's, the code is the program's.
        let headers = unsafe { (again.measure)(context, packet.vector.as_mut_ptr()) };
        let len = usize::try_from(headers).expect("a usize has 64 bits") + packet.rest_len();
        packet.unwritten = Some(len);
        len
    }

    /// Parses a packet whose headers never were bytes, if it is one and that can be done; gives its
    /// block, and the context is about the rest. Otherwise the packet is a frame now.
    pub(super) fn parse_again(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> Option<*mut u64> {
        let again = self.frames.again?;
        let packet = self.packets.pool.packet_mut(handle);
        let len = packet.unwritten?;
        let list = Requests::list_of(packet.requests.recirculate);
        copy_words(&self.blank_words, &self.blank, &mut self.spare);
        self.lists.copy(list, &packet.vector, &mut self.spare);
        std::mem::swap(&mut packet.vector, &mut self.spare);
        start_ingress(&self.slots, packet, len, input);
        let block = self.begin(state, handle, true);
        let context = &raw mut *self.context;
        // SAFETY: context and new block are the packet's, the old block is one of the same layout, the
        // code is the program's.
        if unsafe { (again.parse)(context, block, self.spare.as_ptr()) } != 0 {
            return Some(block);
        }
        self.become_bytes(state, handle, again, list);
        None
    }

    /// The whole of it in one call, up to the end of the ingress control. None if the packet is not
    /// such a one, or is a frame now.
    #[inline]
    pub(super) fn arrive_again(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> Option<IngressOutcome> {
        let arrive = self.controls.passes.arrive_again?;
        let again = self.frames.again?;
        let Packets { pool, current, .. } = &mut *self.packets;
        let packet = pool.packet_mut(handle);
        let len = packet.unwritten?;
        *current = handle;
        packet.ingress_bytes = input.ingress_bytes;
        std::mem::swap(&mut packet.vector, &mut self.spare);
        let list = packet.requests.recirculate;
        let block = packet.vector.as_mut_ptr();
        let context = &mut *self.context;
        context.ingress_bytes = input.ingress_bytes as u64;
        self.packets.point_to_rest(context, handle);
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        let old = self.spare.as_ptr();
        // SAFETY: context and new block are the packet's, the old block is one of the same layout, the
        // code is the program's.
        let came_to =
            unsafe { arrive(&raw mut *self.context, block, old, len as u64, list.into()) };
        self.arrived_again(state, handle, came_to, (again, list))
    }

    /// What comes of [`ArriveAgain`], given the field list that the packet kept. None if the packet is a
    /// frame now.
    ///
    /// [`ArriveAgain`]: crate::passes::ArriveAgain
    #[inline]
    pub(super) fn arrived_again(
        &mut self,
        state: &mut State,
        handle: PacketHandle,
        came_to: u64,
        (again, list): (AgainCode, u32),
    ) -> Option<IngressOutcome> {
        match came_to {
            NOT_PARSED => {
                self.become_bytes(state, handle, again, Requests::list_of(list));
                None
            }
            NOT_PLAIN => {
                let failed = self.finish(handle);
                self.write_what_came(state, handle);
                Some(self.ingress_outcome(self.packets.pool.packet(handle), failed))
            }
            plain => {
                let packet = self.packets.pool.packet_mut(handle);
                packet.requests = Requests::NONE;
                packet.packet_length = self.context.packet_length;
                Some(plain_outcome(Plain(plain)))
            }
        }
    }

    /// The headers that stand in the spare block could not be parsed there.
    #[cold]
    fn become_bytes(
        &mut self,
        state: &mut State,
        handle: PacketHandle,
        again: AgainCode,
        list: Option<FieldListId>,
    ) {
        let packet = self.packets.pool.packet_mut(handle);
        std::mem::swap(&mut packet.vector, &mut self.spare);
        let block = packet.vector.as_mut_ptr();
        // SAFETY: the block is the packet's, the code the program's.
        unsafe { self.write_block(state, handle, block, again.write) };
        self.keep_only(handle, list);
    }

    /// After the ingress control: the frame as it came, where somebody is about to ask for it.
    pub(super) fn write_what_came(&mut self, state: &State, handle: PacketHandle) {
        let packet = self.packets.pool.packet(handle);
        let Requests {
            clone, resubmit, ..
        } = packet.requests;
        if packet.unwritten.is_none() || (clone == 0 && resubmit == 0) {
            return;
        }
        if let Some(again) = self.frames.again {
            let block = self.spare.as_mut_ptr();
            // SAFETY: the spare block is one of the layout, which nobody else uses, the code the program's.
            let len = unsafe { self.write_block(state, handle, block, again.write) };
            self.packets.pool.packet_mut(handle).consumed = len;
        }
    }

    /// Writes the headers of a block in front of what follows a packet's; gives their length.
    ///
    /// # Safety
    /// The block is of the engine's layout, and nobody else uses it now; `write` is the code of the engine's
    /// program, and the context was attached in this pass.
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
        // SAFETY: the context is the packet's, the block of the layout, the code is the program's, and
        // `out` has room for every header and the slack.
        let written = unsafe { write(context, block, out) };
        let written = usize::try_from(written).expect("a length");
        assert!(
            written <= len,
            "the deparser wrote {written} bytes where there is room for {len}"
        );
        let (packet, scratch) = self.packets.pool.with_scratch(handle);
        packet.deparsed(scratch, written);
        written
    }
}
