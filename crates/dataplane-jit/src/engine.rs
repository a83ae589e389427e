//! The engine: what v1model's metadata hold when a packet comes to a control, and what becomes of
//! it afterwards, around the generated code. The interpreter's `mod.rs` is the same in slow.
#![expect(unsafe_code, reason = "generated code is called by its address")]

mod early;
mod fan_out;
mod recirculation;
mod rounds;
mod whole;

use std::ops::Range;

use dataplane::{
    ActionProfileId, Digest, DropReason, Nanos, PortId, TableId, ValueSetId,
    engine::{
        CloneCopies, Clones, Copies, EgressInput, EgressOutcome, EgressVerdict, Engine, Frame,
        IngressInput, IngressOutcome, IngressVerdict, Interpreted, LoneClones, PacketHandle,
        Rounds, RoundsInput, State, TableChange,
        ir::{CalculationId, FieldListId},
        one_by_one,
    },
    limits,
};

use crate::{
    context::{PassContext, Requests},
    frames::{self, FrameCode},
    metadata::{FieldLists, MetadataSlots},
    packet::{Packet, Pool},
    packets::{self, Packets},
    program::NativeProgram,
    vector::Vector,
};
use early::EARLY_PACKETS;
use fan_out::Fleeting;

/// The native engine of a program.
pub(crate) struct Native {
    controls: NativeProgram,
    frames: FrameCode,
    slots: MetadataSlots,
    lists: FieldLists,
    /// Words of a packet of which nothing is known.
    blank: Box<[u64]>,
    /// Those that must be blank before the parser.
    blank_words: [Range<usize>; 2],
    /// Those that a copy of a packet needs.
    copied_words: [Range<usize>; 2],
    /// A vector that belongs to no packet.
    spare: Box<[u64]>,
    fleeting: Fleeting,
    /// Bytes of the deparser's headers but for varbit fields.
    headers_len: usize,
    /// Replicas wait as one, and a packet goes through egress and deparser in one go.
    fuses_fanout: bool,
    /// From 1; another one begins where a control call changes what the parser reads.
    epoch: u64,
    /// In a box of its own: generated code has its address.
    packets: Box<Packets>,
    context: Box<PassContext>,
}

// SAFETY: the context's pointers are set before each pass from what the engine is given then; in
// between nobody follows them.
unsafe impl Send for Native {}

fn words_of(bytes: &[u8]) -> Box<[u64]> {
    let words = bytes.chunks_exact(8);
    words
        .map(|word| {
            word.iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        })
        .collect()
}

/// Copies some words of one vector to another.
fn copy_words(words: &[Range<usize>; 2], from: &[u64], to: &mut [u64]) {
    for range in words.iter().filter(|range| !range.is_empty()) {
        to[range.clone()].copy_from_slice(&from[range.clone()]);
    }
}

/// Timestamps are in microseconds.
fn micros(now: Nanos) -> u64 {
    now / 1_000
}

impl Native {
    pub(crate) fn new(state: &State, controls: NativeProgram) -> Self {
        let ir = state.program().ir();
        let layout = controls.layout().clone();
        let blank = words_of(layout.blank());
        let order = &ir.deparser.order;
        let header_bytes = order
            .iter()
            .map(|header| ir.headers[header.index()].fixed_bits as usize / 8);
        let headers_len = header_bytes.sum();
        Self {
            slots: MetadataSlots::new(ir, &layout),
            lists: FieldLists::new(ir, &layout),
            spare: blank.clone(),
            blank_words: layout.blank_words(),
            copied_words: layout.copied_words(),
            fleeting: Fleeting::new(&blank, headers_len),
            headers_len,
            packets: Box::new(Packets {
                pool: Pool::new(blank.len()),
                current: PacketHandle(0),
                layout,
            }),
            fuses_fanout: false,
            epoch: 1,
            blank,
            context: Box::new(PassContext::EMPTY),
            frames: controls.frames,
            controls,
        }
    }

    /// The same with or without [`crate::NativeOptions::fanout_fusion`].
    pub(crate) fn with_fusion(self, fuses_fanout: bool) -> Self {
        Self {
            fuses_fanout,
            ..self
        }
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.packets.pool
    }

    /// Lets the context be about a packet, of whose frame or rest it points to the pieces, and gives
    /// the packet's block. What is behind the pointers is not touched otherwise before the
    /// generated code is done.
    #[inline]
    fn begin(&mut self, state: &mut State, handle: PacketHandle, is_parsed: bool) -> *mut u64 {
        let packets = &mut *self.packets;
        packets.current = handle;
        let context = &mut *self.context;
        match is_parsed {
            true => packets.point_to_rest(context, handle),
            false => packets::point(context, packets.pool.frame(handle)),
        }
        let packet = packets.pool.packet_mut(handle);
        context.requests = packet.requests;
        context.packet_length = packet.packet_length;
        context.ingress_bytes = packet.ingress_bytes as u64;
        context.failed = 0;
        let block = packet.vector.as_mut_ptr();
        context.packets = (&raw mut *self.packets).cast();
        self.controls.attach(context, state);
        block
    }

    /// Takes back what the pass has changed; the reason why it gave up the packet, if it did.
    #[inline]
    fn finish(&mut self, handle: PacketHandle) -> Option<DropReason> {
        taken_back(&self.context, self.packets.pool.packet_mut(handle))
    }

    /// Runs the parser over a frame, the packet's vector being prepared, and goes on to its rest.
    /// Gives the packet's block.
    #[inline]
    fn parse_frame(&mut self, state: &mut State, handle: PacketHandle) -> *mut u64 {
        let block = self.begin(state, handle, false);
        let context = &raw mut *self.context;
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { (self.frames.parse)(context, block) };
        let context = &mut *self.context;
        // What gives up a packet in the parser has no effect, as in the interpreter.
        context.failed = 0;
        let packet = self.packets.pool.packet_mut(handle);
        packet.consumed = usize::try_from(context.consumed).expect("a usize has 64 bits");
        self.packets.point_to_rest(context, handle);
        block
    }

    /// Parser and checksum verification, and what the metadata say of them; gives the packet's
    /// block.
    #[inline]
    fn parse_and_verify(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> *mut u64 {
        let block = match self.parse_again(state, input, handle) {
            Some(block) => block,
            None => {
                let packet = self.packets.pool.packet_mut(handle);
                if !packet.is_prepared {
                    copy_words(&self.blank_words, &self.blank, &mut packet.vector);
                }
                packet.is_prepared = false;
                let len = packet.frame_len();
                start_ingress(&self.slots, packet, len, input);
                self.parse_frame(state, handle)
            }
        };
        let error = self.context.parser_error;
        let context = &raw mut *self.context;
        let is_right = match self.frames.verify {
            // SAFETY: context and block are the packet's, the code is the program's.
            Some(verify) => unsafe { verify(context, block) },
            None => 1,
        };
        let slots = &self.slots;
        let vector = &mut self.packets.pool.packet_mut(handle).vector;
        slots.parser_error.set(vector, error.into());
        slots.checksum_error.set(vector, 1 - is_right);
        vector.as_mut_ptr()
    }

    /// Parser, checksum verification and the ingress control, step by step.
    fn ingress_slowly(
        &mut self,
        state: &mut State,
        input: &IngressInput,
        handle: PacketHandle,
    ) -> IngressOutcome {
        let block = self.parse_and_verify(state, input, handle);
        let context = &raw mut *self.context;
        // SAFETY: context and block are the packet's, the code is the program's.
        unsafe { (self.controls.ingress)(context, block.cast()) };
        let failed = self.finish(handle);
        self.write_what_came(state, handle);
        self.ingress_outcome(self.packets.pool.packet(handle), failed)
    }

    /// The packet's vector becomes blank but for the fields of a list.
    fn keep_only(&mut self, handle: PacketHandle, list: Option<FieldListId>) {
        self.spare.copy_from_slice(&self.blank);
        let packet = self.packets.pool.packet_mut(handle);
        std::mem::swap(&mut packet.vector, &mut self.spare);
        self.lists.copy(list, &self.spare, &mut packet.vector);
        packet.is_prepared = true;
        packet.requests = Requests::NONE;
    }

    /// A clone's metadata: those of a field list of the original, the others zero.
    fn keep_metadata(
        &mut self,
        original: PacketHandle,
        clone: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let Packets { pool, layout, .. } = &mut *self.packets;
        if let Some((clone, original)) = pool.pair_mut(clone, original) {
            let metadata = layout.metadata();
            clone.vector[metadata.start / 8..metadata.end / 8].fill(0);
            let list = Requests::list_of(original.requests.clone_list);
            self.lists.copy(list, &original.vector, &mut clone.vector);
        }
        self.cloned(clone, copies)
    }

    /// A clone whose block is as it is to be.
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

    /// The packet that goes through egress: the handle's own, or a copy of it.
    #[inline]
    fn one_of(&mut self, handle: PacketHandle) -> PacketHandle {
        let words = &self.copied_words;
        let pool = &mut self.packets.pool;
        if pool.packet(handle).copies <= 1 {
            return handle;
        }
        pool.replicate(handle, |copy, original| {
            match self.controls.passes.copy_block {
                // SAFETY: both are blocks of the layout that the code is for.
                Some(copy_block) => unsafe { copy_block(copy.as_mut_ptr(), original.as_ptr()) },
                None => copy_words(words, original, copy),
            }
        })
    }

    /// What an egress pass comes to whose control has run.
    fn after_egress(
        &mut self,
        state: &State,
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
        EgressOutcome {
            packet: handle,
            verdict,
            clone_session: request.map(|(session, _)| session),
            frame_len_bytes: is_written.then(|| self.end_egress(state, handle)),
        }
    }

    /// Checksum update and deparser; gives the length of the frame.
    fn write_headers(&mut self, state: &State, handle: PacketHandle) -> usize {
        let block = self.packets.pool.packet_mut(handle).vector.as_mut_ptr();
        // SAFETY: the block is the packet's, the code the program's.
        unsafe { self.write_block(state, handle, block, self.frames.deparse) };
        let packet = self.packets.pool.packet_mut(handle);
        if let Some(len) = packet.requests.truncation() {
            packet.truncate_frame(len);
        }
        packet.frame_len()
    }

    fn egress_port(&self, packet: &Packet) -> PortId {
        let port = self.slots.egress_spec.get(&packet.vector);
        PortId(u16::try_from(port).unwrap_or(u16::MAX))
    }

    fn ingress_outcome(&self, packet: &Packet, failed: Option<DropReason>) -> IngressOutcome {
        let vector = &packet.vector;
        let group = self.slots.mcast_grp.get(vector);
        let port = self.egress_port(packet);
        let verdict = match failed {
            Some(reason) => {
                return IngressOutcome {
                    verdict: IngressVerdict::Drop(reason),
                    clone_session: None,
                    has_digest: false,
                    priority: 0,
                };
            }
            None if packet.requests.resubmit != 0 => IngressVerdict::Resubmit,
            None if group != 0 => {
                IngressVerdict::Multicast(u32::try_from(group).unwrap_or(u32::MAX))
            }
            None if port.0 == limits::DROP_PORT => IngressVerdict::Drop(DropReason::IngressDrop),
            None => IngressVerdict::Unicast(port),
        };
        IngressOutcome {
            verdict,
            clone_session: packet.requests.clone_request().map(|(session, _)| session),
            has_digest: packet.requests.digest != 0,
            priority: self.slots.priority.get(vector),
        }
    }
}

/// As [`Native::finish`].
#[inline]
fn taken_back(context: &PassContext, packet: &mut Packet) -> Option<DropReason> {
    packet.requests = context.requests;
    packet.packet_length = context.packet_length;
    let failed = context.failed.checked_sub(1)? as usize;
    Some(DropReason::ALL[failed])
}

fn truncation(bytes: Option<usize>) -> u64 {
    bytes.map_or(Requests::WHOLE, |bytes| bytes as u64)
}

/// The metadata a packet has when it comes to the parser.
#[inline]
fn start_ingress(slots: &MetadataSlots, packet: &mut Packet, len: usize, input: &IngressInput) {
    packet.requests = Requests::NONE;
    packet.packet_length = i64::try_from(len).expect("a frame is shorter than 2^63 bytes");
    packet.ingress_bytes = input.ingress_bytes;
    let vector = &mut packet.vector;
    if let Some(arrived) = input.arrived {
        slots.ingress_port.set(vector, input.ingress_port.0.into());
        slots
            .ingress_global_timestamp
            .set_to(vector, || micros(arrived));
    }
    slots.instance_type.set(vector, input.instance_type as u64);
    slots.packet_length.set(vector, len as u64);
}

/// What was asked for at ingress was done there, but for some.
#[inline]
fn at_egress(requests: &Requests) -> Requests {
    Requests {
        recirculate: requests.recirculate,
        truncate_bytes: requests.truncate_bytes,
        ..Requests::NONE
    }
}

/// The metadata a packet has when it comes to egress.
#[inline]
fn start_egress(slots: &MetadataSlots, packet: &mut Packet, now: Nanos, input: &EgressInput) {
    packet.requests = at_egress(&packet.requests);
    let vector = &mut packet.vector;
    if let Some(instance) = input.instance {
        slots.egress_rid.set(vector, instance.into());
    }
    slots.instance_type.set(vector, input.instance_type as u64);
    slots.egress_global_timestamp.set_to(vector, || micros(now));
    let inside = || now.saturating_sub(input.arrived);
    slots.nanoseconds_inside.set_to(vector, inside);
    if let Some(queueing) = &slots.queueing {
        let enqueued = micros(input.enqueued);
        let waited = micros(now).saturating_sub(enqueued);
        queueing.enq_timestamp.set(vector, enqueued);
        queueing.enq_qdepth.set(vector, input.enq_depth as u64);
        queueing.deq_timedelta.set(vector, waited);
        queueing.deq_qdepth.set(vector, input.deq_depth as u64);
    }
    slots.qid.set(vector, input.queue as u64);
    slots.egress_port.set(vector, input.port.0.into());
    // Any value but the drop port: simple_switch writes 512, of which 9 bits are 0.
    let not_dropped = u64::from(limits::DROP_PORT) + 1;
    slots.egress_spec.set(vector, not_dropped);
    let packet_length = packet.packet_length.cast_unsigned();
    slots.packet_length.set(vector, packet_length);
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
        if let Some(halves) = self.controls.passes.halves
            && self.packets.pool.packet(handle).begun == self.epoch
        {
            return self.go_on(state, halves.go_on, handle);
        }
        match (self.controls.passes.arrive, input.arrived) {
            (Some(arrive), Some(arrived)) => self.arrive(state, input, (arrive, arrived), handle),
            _ => match self.arrive_again(state, input, handle) {
                Some(outcome) => outcome,
                None => self.ingress_slowly(state, input, handle),
            },
        }
    }

    fn prefetch_depth(&self) -> usize {
        let NativeProgram {
            passes, runtime, ..
        } = &self.controls;
        match passes.halves.is_some() && runtime.has_ingress_flows() {
            true => EARLY_PACKETS,
            false => 0,
        }
    }

    fn prefetch(&mut self, state: &mut State, input: &IngressInput, handle: PacketHandle) {
        let halves = self.controls.passes.halves;
        if let (Some(halves), Some(arrived)) = (halves, input.arrived)
            && self.packets.pool.packet(handle).begun != self.epoch
        {
            self.begin_early(state, input, (halves, arrived), handle);
        }
    }

    fn parse(&mut self, state: &mut State, input: &IngressInput, handle: PacketHandle) {
        // What has recirculated without bytes can be parsed once.
        if self.packets.pool.packet(handle).unwritten.is_none() {
            self.parse_and_verify(state, input, handle);
        }
    }

    fn digest(&mut self, state: &mut State, handle: PacketHandle) -> Digest {
        self.begin(state, handle, true);
        let packet = self.packets.pool.packet_mut(handle);
        let requested = packet
            .requests
            .digest_request()
            .expect("the pass asked for a digest");
        // SAFETY: the block is the packet's, and of the layout.
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
        let frame_len = self.pool().packet(handle).frame_len();
        let truncated = self.pool().packet(handle).requests.truncation();
        let clone = self.pool().share_frame(handle);
        let ingress_port = &self.slots.ingress_port;
        let packet = self.packets.pool.packet_mut(clone);
        packet.vector.copy_from_slice(&self.blank);
        packet.truncate_frame(truncated.unwrap_or(usize::MAX));
        packet.packet_length =
            i64::try_from(frame_len).expect("a frame is shorter than 2^63 bytes");
        packet.ingress_bytes = input.ingress_bytes;
        // Parsers may branch on the port, so the clone's has to see the same one.
        let port = input.ingress_port.0.into();
        ingress_port.set(&mut packet.vector, port);
        self.parse_frame(state, clone);
        self.finish(clone);
        self.keep_metadata(handle, clone, copies)
    }

    fn replicate(&mut self, handle: PacketHandle, copies: u32) {
        let packet = self.pool().packet_mut(handle);
        if let Some(len) = packet.requests.truncation() {
            packet.truncate_rest(len);
        }
        packet.requests = Requests::NONE;
        packet.copies = copies;
    }

    fn resubmit(&mut self, handle: PacketHandle) {
        let packet = self.pool().packet_mut(handle);
        if let Some(len) = packet.requests.truncation() {
            packet.truncate_frame(len);
        }
        packet.consumed = 0;
        let list = Requests::list_of(packet.requests.resubmit);
        self.keep_only(handle, list);
    }

    fn egress(
        &mut self,
        state: &mut State,
        input: &EgressInput,
        handle: PacketHandle,
    ) -> EgressOutcome {
        let handle = self.one_of(handle);
        if let Some(depart) = self.controls.passes.depart {
            if let Some(frame_len_bytes) = self.depart(state, input, depart, handle) {
                return EgressOutcome {
                    packet: handle,
                    verdict: EgressVerdict::Transmit,
                    clone_session: None,
                    frame_len_bytes: Some(frame_len_bytes),
                };
            }
        } else {
            let packet = self.packets.pool.packet_mut(handle);
            start_egress(&self.slots, packet, state.now(), input);
            let block = self.begin(state, handle, true);
            let context = &raw mut *self.context;
            // SAFETY: context and block are the packet's, the code is the program's.
            unsafe { (self.controls.egress)(context, block.cast()) };
        }
        self.after_egress(state, input, handle)
    }

    fn fan_out(
        &mut self,
        state: &mut State,
        packet: PacketHandle,
        copies: &mut dyn Copies,
    ) -> Option<EgressOutcome> {
        let passes = &self.controls.passes;
        match (passes.copy_block, passes.depart) {
            (Some(copy_block), Some(depart))
                if self.may_fleet(self.packets.pool.packet(packet)) =>
            {
                self.fan_out_at_once(state, (copy_block, depart), packet, copies)
            }
            _ => one_by_one(self, state, packet, copies),
        }
    }

    fn rounds(
        &mut self,
        state: &mut State,
        input: &RoundsInput,
        packet: PacketHandle,
        clones: &mut dyn LoneClones,
    ) -> Rounds {
        match self.round_code(packet) {
            Some(code) => self.go_rounds(state, input, (packet, code), clones),
            None => Rounds::none(input),
        }
    }

    fn clone_egress(
        &mut self,
        _state: &mut State,
        handle: PacketHandle,
        copies: CloneCopies,
    ) -> Clones {
        let Packets { pool, layout, .. } = &mut *self.packets;
        let clone_block = self.controls.passes.clone_block;
        let copy = pool.share_rest(handle);
        if let Some((clone, original)) = pool.pair_mut(copy, handle) {
            if let Some(len) = original.requests.truncation() {
                clone.truncate_rest(len);
            }
            if let Some(clone_block) = clone_block {
                let list = original.requests.clone_list.into();
                // SAFETY: both are blocks of the layout that the code is for.
                unsafe { clone_block(clone.vector.as_mut_ptr(), original.vector.as_ptr(), list) };
                return self.cloned(copy, copies);
            }
            // What metadata the clone has is another question.
            let metadata = layout.metadata();
            for part in [0..metadata.start / 8, metadata.end / 8..clone.vector.len()] {
                clone.vector[part.clone()].copy_from_slice(&original.vector[part]);
            }
        }
        self.keep_metadata(handle, copy, copies)
    }

    fn deparse(&mut self, state: &mut State, handle: PacketHandle) -> usize {
        // Nothing has changed since egress, unless another packet was looked at.
        if self.packets.current != handle {
            self.begin(state, handle, true);
        }
        self.end_egress(state, handle)
    }

    fn recirculate(&mut self, handle: PacketHandle) {
        let packet = self.packets.pool.packet(handle);
        if packet.unwritten.is_none() {
            let list = Requests::list_of(packet.requests.recirculate);
            self.keep_only(handle, list);
        }
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

    fn table_changed(&mut self, state: &mut State, table: TableId, change: TableChange<'_>) {
        self.controls.runtime.table_changed(state, table, change);
    }

    fn profile_changed(&mut self, _state: &mut State, profile: ActionProfileId) {
        self.controls.runtime.profile_changed(profile);
    }

    fn value_set_changed(&mut self, _state: &mut State, _set: ValueSetId) {
        self.epoch += 1;
    }

    fn calculation_changed(&mut self, _state: &mut State, _calculation: CalculationId) {
        self.epoch += 1;
    }

    fn interpreted(&self) -> Vec<Interpreted> {
        self.controls.explain().to_vec()
    }
}
