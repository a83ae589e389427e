//! The native engine: calls the generated passes ([`crate::passes`]) and handles packets between them. A pass is a
//! packet's way through ingress or egress.
//!
//! | file | what |
//! |---|---|
//! | `engine/ingress.rs` | ingress of a packet that is new, prefetched, resubmitted or recirculated |
//! | `engine/egress.rs` | egress of a packet, and its headers as bytes |
//! | `engine/fan_out.rs` | the copies of one packet in one call, in a scratch packet |
//! | `engine/rounds.rs` | several rounds of a recirculating packet that makes a clone each time, in one call |
//!
//! Each file has the fast path and calls other code for rare cases. The interpreter's `mod.rs` does the same work in
//! code that is easier to read.
#![expect(unsafe_code, reason = "generated code is called by its address")]

mod egress;
mod fan_out;
mod ingress;
mod rounds;

use dataplane::{
    Digest, DropReason, PortId,
    engine::{
        Change, CloneCopies, Clones, Copies, EgressInput, EgressOutcome, EgressVerdict, Engine,
        Frame, IngressInput, IngressOutcome, Interpreted, LoneClones, PacketHandle, PayloadCall,
        Rounds, RoundsInput, State,
        ir::{FieldListId, Ir},
        one_by_one,
    },
};

use crate::{
    context::{PassContext, Requests},
    frames::{self, FrameCode},
    layout::{Layout, WORD_BYTES},
    metadata::MetadataSlots,
    packet::{Packet, Pool},
    packets::{self, Packets},
    program::NativeProgram,
    vector::Vector,
    wire,
};
use fan_out::Scratch;
use ingress::AHEAD_MAX;

pub(crate) struct Native {
    program: NativeProgram,
    frames: FrameCode,
    slots: MetadataSlots,
    /// The block (header vector) of a new packet.
    blank: Box<[u64]>,
    /// A block that no packet uses. A packet that comes to ingress again leaves its old block here.
    spare: Box<[u64]>,
    scratch: Scratch,
    /// The length in bytes of all headers that the deparser may emit, without varbit fields.
    headers_len: usize,
    /// Whether the replicas of a packet share one place in a queue, and one call takes a packet through egress and
    /// deparser.
    fuses_fanout: bool,
    changes_payloads: bool,
    /// Starts at 1 and increases when a call from the control plane changes what the parser reads. Other parts of the
    /// project also have numbers that they call epochs; this number has nothing to do with them.
    epoch: u64,
    /// In a box because the generated code contains the address of the packets.
    packets: Box<Packets>,
    context: Box<PassContext>,
}

// SAFETY: the engine sets the context's pointers before each pass, from the arguments that it is
// given for the pass. Between passes nobody follows the pointers.
unsafe impl Send for Native {}

fn words_of(bytes: &[u8]) -> Box<[u64]> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

impl Native {
    pub(crate) fn new(state: &State, program: NativeProgram, fuses_fanout: bool) -> Self {
        let ir = state.program().ir();
        let layout = program.layout().clone();
        let blank = words_of(layout.blank());
        let order = &ir.deparser.order;
        let header_bytes = order
            .iter()
            .map(|header| ir.headers[header.index()].fixed_bits as usize / 8);
        let headers_len = header_bytes.sum();
        Self {
            slots: MetadataSlots::new(ir, &layout),
            spare: blank.clone(),
            scratch: Scratch::new(&blank, headers_len),
            headers_len,
            packets: Box::new(Packets {
                pool: Pool::new(blank.len()),
                current: PacketHandle(0),
                layout,
            }),
            fuses_fanout,
            changes_payloads: state.changes_payloads(),
            epoch: 1,
            blank,
            context: Box::new(PassContext::EMPTY),
            frames: program.frames,
            program,
        }
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.packets.pool
    }

    /// Points the context to a packet's frame or, if `is_parsed`, to the bytes of the frame that the parser did not
    /// consume. Returns the packet's block. Until the generated code returns, no other code may use these bytes or the
    /// block.
    #[inline(always)]
    fn attach(&mut self, state: &mut State, handle: PacketHandle, is_parsed: bool) -> *mut u64 {
        let Packets { pool, current, .. } = &mut *self.packets;
        *current = handle;
        let packet = pool.same_mut(handle);
        let context = &mut *self.context;
        if is_parsed {
            packets::point_to_rest(context, packet)
        } else {
            packets::point(context, packet.frame())
        }
        context.ingress_bytes = packet.ingress_bytes as u64;
        context.packet_length = packet.packet_length;
        context.consumed = packet.consumed as u64;
        context.failed = 0;
        let block = packet.vector.as_mut_ptr();
        context.packets = (&raw mut *self.packets).cast();
        self.program.attach(context, state);
        block
    }

    /// Stores the pass's results in the packet. Returns the reason if the pass aborted.
    #[inline]
    fn finish(&mut self, handle: PacketHandle) -> Option<DropReason> {
        let packet = self.packets.pool.same_mut(handle);
        packet.requests = self.context.requests;
        packet.packet_length = self.context.packet_length;
        let failed = self.context.failed.checked_sub(1)? as usize;
        Some(DropReason::ALL[failed])
    }

    /// Sets the remaining state of a clone, whose block the caller has already written.
    #[inline]
    fn cloned(&mut self, clone: PacketHandle, copies: CloneCopies) -> Clones {
        let packet = self.packets.pool.packet_mut(clone);
        packet.copies = copies.copies;
        packet.requests = Requests::NONE;
        packet.requests.truncate_bytes = truncation(copies.truncate_bytes);
        Clones {
            packet: clone,
            priority: self.slots.priority.get(&packet.vector),
        }
    }

    /// The packet to take through egress: the handle's own, or a copy if the handle stands for several packets.
    #[inline]
    fn one_of(&mut self, handle: PacketHandle) -> PacketHandle {
        let pool = &mut self.packets.pool;
        if pool.packet(handle).copies <= 1 {
            return handle;
        }
        let copy_block = self.program.passes.copy_block;
        pool.replicate(handle, |copy, original| {
            // SAFETY: both arguments are blocks of the layout that the code is for.
            unsafe { copy_block(copy.as_mut_ptr(), original.as_ptr()) };
        })
    }

    fn egress_port(&self, packet: &Packet) -> PortId {
        let port = self.slots.egress_spec.get(&packet.vector);
        PortId(u16::try_from(port).unwrap_or(u16::MAX))
    }
}

fn truncation(bytes: Option<usize>) -> u64 {
    bytes.map_or(Requests::WHOLE, |bytes| bytes as u64)
}

/// Copies the varbit fields of a field list into an ingress clone, cut to the width that the clone's own parser found.
fn keep_variable(ir: &Ir, layout: &Layout, list: FieldListId, (from, to): (&Packet, &mut Packet)) {
    for field in &ir.field_lists[list.index()].fields {
        let slot = layout.field(*field);
        if slot.variable {
            let first = (slot.offset / WORD_BYTES) as usize;
            let words = first..first + slot.words as usize;
            // SAFETY: the block is the packet's and has this layout.
            let vector = unsafe { Vector::new(to.vector.as_mut_ptr().cast()) };
            let bits = vector.variable_bits(layout, ir.fields[field.index()].header);
            to.vector[words.clone()].copy_from_slice(&from.vector[words.clone()]);
            wire::wrap(&mut to.vector[words], bits, slot.signed);
        }
    }
}

/// Returns the requests of the ingress pass that egress inherits. The traffic manager has already carried out the
/// other requests.
#[inline]
fn at_egress(requests: &Requests) -> Requests {
    Requests {
        recirculate: requests.recirculate,
        truncate_bytes: requests.truncate_bytes,
        ..Requests::NONE
    }
}

impl Engine for Native {
    fn fuses_fanout(&self) -> bool {
        self.fuses_fanout
    }

    fn receive(&mut self, frame: &[u8]) -> PacketHandle {
        self.pool().receive(frame)
    }

    fn ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> IngressOutcome {
        let parsed_ahead = self.packets.pool.packet(handle).parsed_ahead;
        let is_parsed_ahead = self.program.is_prefetched && parsed_ahead == self.epoch;
        let came_to = match input.arrived {
            Some(_) if is_parsed_ahead => self.go_on(state, handle),
            Some(arrived) => self.arrive(state, input, handle, arrived),
            None => self.arrive_again(state, input, handle),
        };
        self.ingress_outcome(state, handle, came_to)
    }

    fn prefetch_depth(&self) -> usize {
        if self.program.is_prefetched && self.program.runtime.has_ingress_flows() {
            AHEAD_MAX
        } else {
            0
        }
    }

    fn prefetch(&mut self, state: &mut State, input: &IngressInput, handle: PacketHandle) {
        if let Some(arrived) = input.arrived
            && self.packets.pool.packet(handle).parsed_ahead != self.epoch
        {
            let epoch = self.epoch;
            self.begin(state, input, handle, arrived, epoch);
        }
    }

    fn parse(&mut self, state: &mut State, input: &IngressInput, handle: PacketHandle) {
        if let Some(arrived) = input.arrived {
            self.packets.pool.packet_mut(handle).parsed_ahead = 0;
            self.begin(state, input, handle, arrived, 0);
        }
    }

    fn digest(&mut self, state: &mut State, handle: PacketHandle) -> Digest {
        let packet = self.packets.pool.packet_mut(handle);
        let requested = packet
            .requests
            .digest_request()
            .expect("the pass asked for a digest");
        // SAFETY: the block is the packet's and has this layout.
        let vector = unsafe { Vector::new(packet.vector.as_mut_ptr().cast()) };
        frames::digest(state, &self.packets.layout, vector, requested)
    }

    fn clone_ingress(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let original = self.packets.pool.packet(handle);
        let frame_len = original.frame_len();
        let clone = self.pool().share_frame(handle);
        let packet = self.packets.pool.packet_mut(clone);
        packet.vector.copy_from_slice(&self.blank);
        packet.ingress_bytes = input.ingress_bytes;
        // Parsers may branch on the port: the clone's parser must see the same port.
        let port = input.ingress_port.0.into();
        self.slots.ingress_port.set(&mut packet.vector, port);
        let block = self.attach(state, clone, false);
        self.context.requests = Requests::NONE;
        self.context.packet_length = frame_len
            .try_into()
            .expect("a frame is shorter than 2^63 bytes");
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { (self.frames.parse)(&raw mut *self.context, block) };
        self.finish(clone);
        let consumed = self.consumed();
        let clone_metadata = self.program.passes.clone_metadata;
        let Packets { pool, layout, .. } = &mut *self.packets;
        if let Some((clone, original)) = pool.pair_mut(clone, handle) {
            clone.consumed = consumed;
            let (block, list) = (clone.vector.as_mut_ptr(), original.requests.clone_list);
            // SAFETY: both arguments are blocks of the layout that the code is for.
            unsafe { clone_metadata(block, original.vector.as_ptr(), list.into()) };
            if let Some(list) = Requests::list_of(list) {
                keep_variable(state.program().ir(), layout, list, (original, clone));
            }
        }
        self.cloned(clone, copies)
    }

    fn replicate(&mut self, handle: PacketHandle, copies: u32) {
        let packet = self.pool().packet_mut(handle);
        packet.requests = Requests::NONE;
        packet.copies = copies;
    }

    fn resubmit(&mut self, handle: PacketHandle) {
        let packet = self.pool().packet_mut(handle);
        packet.consumed = 0;
        packet.kept_list = packet.requests.resubmit;
    }

    fn egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        handle: PacketHandle,
    ) -> EgressOutcome {
        let handle = self.one_of(handle);
        if self.changes_payloads {
            self.packets.pool.gather_rest(handle);
            self.context.payload_call = PayloadCall::NONE;
        }
        match self.depart(state, input, handle) {
            None => self.after_egress(state, input, handle),
            is_written => {
                let outcome = EgressOutcome {
                    packet: handle,
                    verdict: EgressVerdict::Transmit,
                    clone_session: None,
                    frame_len_bytes: is_written,
                };
                if self.context.payload_call.is_some() {
                    outcome.deparsed(self.change_payload(state, handle))
                } else {
                    outcome
                }
            }
        }
    }

    fn fan_out(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: &mut dyn Copies,
    ) -> Option<EgressOutcome> {
        if self.may_use_scratch(self.packets.pool.packet(packet)) {
            self.fan_out_at_once(state, packet, copies)
        } else {
            one_by_one(self, state, packet, copies)
        }
    }

    fn rounds(
        &mut self,
        state: &mut State,
        input: &RoundsInput,
        packet: PacketHandle,
        clones: &mut dyn LoneClones,
    ) -> Rounds {
        match self.may_go_rounds(packet) {
            Some(code) => self.go_rounds(state, input, packet, code, clones),
            None => Rounds::none(input),
        }
    }

    fn clone_egress(
        &mut self,
        _state: &mut State,
        handle: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let pool = &mut self.packets.pool;
        let clone_block = self.program.passes.clone_block;
        let copy = pool.share_rest(handle);
        if let Some((clone, original)) = pool.pair_mut(copy, handle) {
            let list = original.requests.clone_list.into();
            // SAFETY: both arguments are blocks of the layout that the code is for.
            unsafe { clone_block(clone.vector.as_mut_ptr(), original.vector.as_ptr(), list) };
        }
        self.cloned(copy, copies)
    }

    fn deparse(&mut self, state: &mut State, handle: PacketHandle) -> Result<usize, DropReason> {
        // If the context still points to this packet, the context is as egress left it.
        if self.packets.current != handle {
            self.attach(state, handle, true);
            self.context.requests = self.packets.pool.packet(handle).requests;
        }
        self.end_egress(state, handle)
    }

    fn recirculate(&mut self, handle: PacketHandle) {
        let packet = self.packets.pool.packet_mut(handle);
        packet.kept_list = packet.requests.recirculate;
    }

    fn frame(&self, handle: PacketHandle) -> Frame<'_> {
        let [head, payload] = self.packets.pool.frame(handle);
        Frame {
            head,
            payload,
            payload_id: self.packets.pool.payload_id(handle),
        }
    }

    fn discard(&mut self, handle: PacketHandle) {
        self.pool().discard(handle);
    }

    fn changed(&mut self, state: &mut State, change: &Change<'_>) {
        let runtime = &mut self.program.runtime;
        match change {
            Change::Table(table, change) => runtime.table_changed(state, *table, *change),
            Change::Profile(profile) => runtime.profile_changed(*profile),
            Change::ValueSet(_) | Change::Calculation(_) => self.epoch += 1,
            _ => {}
        }
    }

    fn interpreted(&self) -> Vec<Interpreted> {
        self.program.explain().to_vec()
    }
}
