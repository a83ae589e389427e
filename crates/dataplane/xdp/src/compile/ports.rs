//! Generates the program that runs for each frame that a port receives. This module generates the parts before the
//! parser, after ingress and after egress.

use dataplane::{
    DropReason,
    engine::ir::{FieldId, HeaderId, Meaning, Moment},
    limits,
};

use super::{
    deparser::{Place, Writing},
    emit::{
        CONTEXT, Emit, Emitted, FRAME, FRAME_END, Kind, SCRATCH, SLOT, STACK_KEY, STACK_SOCKETS,
        STACK_VERSION, XDP_ABORTED, XDP_DROP, XDP_MD_DATA, XDP_MD_DATA_META,
        XDP_MD_INGRESS_IFINDEX, XDP_MD_RX_QUEUE_INDEX, XDP_PASS,
    },
    layout::Word,
    note::Note,
    paths::Paths,
};
use crate::{
    asm::{Alu, Helper, Jump, Label, Reg, Size, reg::*},
    image::{Body, GroupArg, Heap, Interface, Origin, Symbol},
};

/// How the handling of a packet ends. [`Word::End`] holds one of these values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum End {
    Drop = 0,
    Send = 1,
    FanOut = 2,
    /// Dropped, because the device would refuse all copies.
    Refused = 3,
}

/// `BPF_F_BROADCAST`
const BROADCAST: u64 = 1 << 3;

impl Emit<'_> {
    pub(super) fn ports(&mut self, paths: &Paths, note: Option<&Note>) -> Emitted<()> {
        let (begin, init) = (self.asm.label(), self.asm.label());
        self.asm.jump(init);
        self.asm.place(begin);
        let parsed = self.asm.label();
        self.parser(paths, parsed)?;
        self.asm.place(parsed);
        self.after_parser()?;
        let (ingress_end, egress_end) = (self.asm.label(), self.asm.label());
        self.asm.note("ingress");
        self.is_in_ingress = true;
        self.control(self.ir.ingress, ingress_end)?;
        self.is_in_ingress = false;
        self.asm.place(ingress_end);
        self.take_digests()?;
        self.ingress_verdict(paths, note)?;
        self.asm.note("egress of a packet to one port");
        self.begin_egress();
        self.control(self.ir.egress, egress_end)?;
        self.asm.place(egress_end);
        self.egress_verdict();
        self.deparse(paths)?;
        self.set_word(Word::End, End::Send as i32);
        let finish = self.ends.finish;
        self.asm.jump(finish);
        self.drop_end();
        self.finish_ports()?;
        self.send();
        self.punt();
        self.asm.place(init);
        self.begin(begin)?;
        Ok(())
    }

    /// Finds the port and the scratch memory, and clears the packet's state.
    fn begin(&mut self, begin: Label) -> Emitted<()> {
        self.asm.note("which port, and a clean state");
        let (pass, aborted) = (self.asm.label(), self.asm.label());
        let heap = self.memory.heap;
        self.asm.mov(CONTEXT, R1);
        self.asm.load(Size::B4, R1, CONTEXT, XDP_MD_INGRESS_IFINDEX);
        self.find_interface(R1, heap, pass);
        self.asm.load(Size::B4, R1, R2, 4);
        self.asm.store(Size::B8, R10, STACK_SOCKETS, R1);
        self.find_scratch(aborted);
        self.asm.alu_imm(Alu::Sub, FRAME_END, 1);
        self.store_word(Word::Port, FRAME_END);
        let port = self.needs.metadata(Moment::Arrival, Meaning::IngressPort);
        self.begin_poll(aborted);
        self.heap(R1, heap.version);
        self.asm.load(Size::B8, R1, R1, 0);
        self.asm.store(Size::B8, R10, STACK_VERSION, R1);
        self.clear_state();
        self.asm.call(Helper::KtimeGetNs);
        self.store_word(Word::Arrival, R0);
        if let Some(port) = port {
            self.store_field(port, FRAME_END, None);
        }
        self.load_frame();
        self.asm.mov(R1, FRAME_END);
        self.asm.alu(Alu::Sub, R1, FRAME);
        self.store_word(Word::IngressBytes, R1);
        self.store_word(Word::PacketLength, R1);
        if let Some(length) = self.needs.metadata(Moment::Parser, Meaning::PacketLength) {
            self.store_field(length, R1, None);
        }
        self.write_time(Moment::Arrival, &[Meaning::IngressTimestamp]);
        self.asm.jump(begin);
        self.asm.place(pass);
        self.exit(XDP_PASS);
        self.asm.place(aborted);
        self.exit(XDP_ABORTED);
        Ok(())
    }

    pub(super) fn exit(&mut self, action: i32) {
        self.asm.mov_imm(R0, i64::from(action).cast_unsigned());
        self.asm.exit();
    }

    /// Finds an interface by its number. Puts the address of the interface's description into `R2`, and its port plus 1
    /// into [`FRAME_END`]. Jumps to `unknown` if the interface is no port.
    pub(super) fn find_interface(&mut self, number: Reg, heap: Heap, unknown: Label) {
        self.asm
            .jump_if_imm(Jump::Ge, number, heap.n_interfaces as i32, unknown);
        self.asm.alu_imm(Alu::Mul, number, Interface::BYTES as i32);
        self.heap(R2, heap.interfaces);
        self.asm.alu(Alu::Add, R2, number);
        self.asm.load(Size::B4, FRAME_END, R2, 0);
        self.asm.jump_if_imm(Jump::Eq, FRAME_END, 0, unknown);
        // The comparison gives the verifier a bound on the port.
        self.asm
            .jump_if_imm(Jump::Gt, FRAME_END, Heap::N_PORTS as i32, unknown);
    }

    pub(super) fn find_scratch(&mut self, aborted: Label) {
        self.asm.store_imm(Size::B4, R10, STACK_KEY, 0);
        let scratch = self.memory.scratch;
        self.look_up(scratch, STACK_KEY);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, aborted);
        self.asm.mov(SCRATCH, R0);
    }

    /// Clears the state: no header is valid, and fields that something may read before a write are zero.
    pub(super) fn clear_state(&mut self) {
        for (now, _) in self.layout.valid_words() {
            self.asm.store_imm(Size::B4, SCRATCH, now, 0);
        }
        for entry in (0..self.journal.len() as u32).step_by(2) {
            let at = self.layout.journal(entry);
            self.asm.store_imm(Size::B8, SCRATCH, at, 0);
        }
        for word in [Word::Irregular, Word::ChecksumError] {
            self.set_word(word, 0);
        }
        self.clear_digest();
        let no_error = self.ir.core_errors.no_error;
        self.set_word(Word::ParserError, no_error.cast_signed());
        for stack in self.layout.stacks() {
            let at = self.layout.next_index(stack);
            self.asm.store_imm(Size::B8, SCRATCH, at, 0);
        }
        for position in 0..self.ir.fields.len() as u32 {
            let field = FieldId(position);
            let is_cleared = match self.kind {
                Kind::Ports => self.needs.is_cleared(field),
                Kind::Copies => self.needs.is_cleared_in_egress(field),
            };
            for word in 0..self.words(field) {
                if is_cleared {
                    let at = self.layout.field(field, word);
                    self.asm.store_imm(Size::B8, SCRATCH, at, 0);
                }
            }
        }
    }

    /// Verifies checksums, and sets the metadata that depend on parser and checksums.
    fn after_parser(&mut self) -> Emitted<()> {
        for (now, parsed) in self.layout.valid_words() {
            self.asm.load(Size::B4, R1, SCRATCH, now);
            self.asm.store(Size::B4, SCRATCH, parsed, R1);
        }
        let field = |meaning| self.needs.metadata(Moment::Parsed, meaning);
        let (error, checksum) = (field(Meaning::ParserError), field(Meaning::ChecksumError));
        if checksum.is_some() {
            self.verify_checksums()?;
        }
        for (field, word) in [(error, Word::ParserError), (checksum, Word::ChecksumError)] {
            if let Some(field) = field {
                self.load_word(R1, word);
                self.store_field(field, R1, None);
            }
        }
        Ok(())
    }

    /// Carries out ingress' decision. Falls through for a packet to one port.
    fn ingress_verdict(&mut self, paths: &Paths, note: Option<&Note>) -> Emitted<()> {
        let metadata = &self.ir.metadata;
        let (punt, unicast) = (self.ends.punt, self.asm.label());
        if let Some(priority) = self.needs.priority() {
            // If the packet names a queue that does not exist, the engine decides what happens to the packet.
            self.field_word(priority, 0, R1);
            self.asm
                .jump_if_imm(Jump::Ge, R1, limits::EGRESS_QUEUES_PER_PORT as i32, punt);
        }
        if let Some(group) = metadata.mcast_grp.filter(|_| self.needs.may_multicast()) {
            self.asm.note("to a multicast group?");
            self.field_word(group, 0, R1);
            self.asm.jump_if_imm(Jump::Eq, R1, 0, unicast);
            match note {
                Some(note) => self.fan_out(paths, note)?,
                None => self.asm.jump(punt),
            }
        }
        self.asm.place(unicast);
        self.asm.note("to a port?");
        self.field_word(metadata.egress_spec, 0, R1);
        let sent = self.asm.label();
        let drop_port = i32::from(self.ir.architecture.drop_port);
        self.asm.jump_if_imm(Jump::Ne, R1, drop_port, sent);
        self.drop_for(DropReason::IngressDrop);
        self.asm.place(sent);
        self.asm
            .jump_if_imm(Jump::Ge, R1, Heap::N_PORTS as i32, punt);
        self.store_word(Word::OutPort, R1);
        self.asm.alu_imm(Alu::Lsh, R1, 2);
        self.heap(R2, self.memory.heap.ports);
        self.asm.alu(Alu::Add, R2, R1);
        self.asm.load(Size::B4, R2, R2, 0);
        // R2 is the length of the longest packet that may go to the port, or 0 without a device. The kernel would drop
        // a longer packet silently.
        self.load_word(R1, Word::PacketLength);
        self.asm.jump_if(Jump::Gt, R1, R2, punt);
        Ok(())
    }

    /// Sets the metadata of a packet to one port at the beginning of egress.
    fn begin_egress(&mut self) {
        let field = |meaning| self.needs.metadata(Moment::Egress, meaning);
        let instance = field(Meaning::InstanceType);
        self.set_field(instance, 0);
        self.write_egress_metadata();
    }

    /// Sets the metadata that packets to one port and copies have in common. The port is in [`Word::OutPort`].
    pub(super) fn write_egress_metadata(&mut self) {
        let field = |meaning| self.needs.metadata(Moment::Egress, meaning);
        let zeros = [
            Meaning::TimeInside,
            Meaning::EnqDepth,
            Meaning::DeqTimedelta,
            Meaning::DeqDepth,
        ];
        let zeros = zeros.map(field);
        let (port, length) = (field(Meaning::EgressPort), field(Meaning::PacketLength));
        let spec = field(Meaning::EgressSpec);
        for field in zeros {
            self.set_field(field, 0);
        }
        let queue = field(Meaning::Queue);
        match (queue, self.needs.priority()) {
            (Some(queue), Some(priority)) => {
                self.field_word(priority, 0, R1);
                self.store_field(queue, R1, None);
            }
            _ => self.set_field(queue, 0),
        }
        self.set_field(spec, self.ir.architecture.drop_port + 1);
        for (field, word) in [(port, Word::OutPort), (length, Word::PacketLength)] {
            if let Some(field) = field {
                self.load_word(R1, word);
                self.store_field(field, R1, None);
            }
        }
        // There is no queue, so the packet counts as enqueued when it comes to egress.
        self.write_time(
            Moment::Egress,
            &[Meaning::EgressTimestamp, Meaning::EnqTimestamp],
        );
    }

    /// Stores the switch's clock into the fields with these meanings, if something reads them.
    fn write_time(&mut self, moment: Moment, meanings: &[Meaning]) {
        let fields = meanings.iter();
        let fields = fields.filter_map(|meaning| self.needs.metadata(moment, *meaning));
        let fields: Vec<FieldId> = fields.collect();
        if fields.is_empty() {
            return;
        }
        match moment {
            Moment::Arrival => self.load_word(R0, Word::Arrival),
            _ => self.asm.call(Helper::KtimeGetNs),
        }
        self.heap(R1, self.memory.heap.clock);
        self.asm.load(Size::B8, R2, R1, 0);
        self.asm.alu(Alu::Add, R2, R0);
        let unit = self.ir.architecture.timestamp_ns as i32;
        self.asm.alu_imm(Alu::Div, R2, unit);
        for field in fields {
            self.asm.mov(R1, R2);
            self.store_field(field, R1, None);
        }
    }

    /// Carries out egress' decision. Falls through for a packet that leaves.
    pub(super) fn egress_verdict(&mut self) {
        let leaves = self.asm.label();
        self.field_word(self.ir.metadata.egress_spec, 0, R1);
        let drop_port = i32::from(self.ir.architecture.drop_port);
        self.asm.jump_if_imm(Jump::Ne, R1, drop_port, leaves);
        self.drop_for(DropReason::EgressDrop);
        self.asm.place(leaves);
    }

    fn deparse(&mut self, paths: &Paths) -> Emitted<()> {
        self.asm.note("deparser");
        self.update_checksums()?;
        let ir = self.ir;
        for primitive in &ir.deparser.primitives {
            self.try_or_punt("deparser".into(), |emit| emit.primitive(primitive))?;
        }
        let needs = self.needs;
        self.write_headers(&Writing {
            place: &|header| place(paths, header),
            is_changed: &|field| needs.is_written(field),
            may_change_validity: needs.is_rewritten,
            refused: self.ends.punt,
        })
    }

    /// Replicates a packet to the group in `R1`.
    fn fan_out(&mut self, paths: &Paths, note: &Note) -> Emitted<()> {
        let memory = self.memory;
        let fan_out = memory.fan_out.as_ref().ok_or("no groups")?;
        self.store_word(Word::Stream, R1);
        self.find_group(&fan_out.groups)?;
        let punt = self.ends.punt;
        self.asm.load(Size::B4, R1, SLOT, Body::ACTION as i16);
        self.asm.jump_if_imm(Jump::Ne, R1, 0, punt);
        let arg = |arg: GroupArg| (Body::ARGS + 8 * arg as u32) as i16;
        let some = self.asm.label();
        self.asm.load(Size::B8, R1, SLOT, arg(GroupArg::Replicas));
        self.store_word(Word::Replicas, R1);
        self.asm.load(Size::B8, R2, SLOT, arg(GroupArg::FanOut));
        self.store_word(Word::FanOut, R2);
        self.asm.jump_if_imm(Jump::Ne, R1, 0, some);
        self.drop_for(DropReason::MulticastGroupEmpty);
        self.asm.place(some);
        self.load_word(R1, Word::PacketLength);
        self.asm.load(Size::B8, R2, SLOT, arg(GroupArg::Longest));
        self.asm.jump_if(Jump::Gt, R1, R2, punt);
        self.drop_without_room(fan_out);
        self.asm.note("what copies need, in front of the frame");
        self.asm.mov(R1, CONTEXT);
        self.asm
            .mov_imm(R2, (-i64::from(note.bytes())).cast_unsigned());
        self.asm.call(Helper::XdpAdjustMeta);
        self.asm.jump_if_imm(Jump::Ne, R0, 0, punt);
        let needs = self.needs;
        self.write_headers(&Writing {
            place: &|header| place(paths, header),
            is_changed: &|field| needs.is_written(field),
            may_change_validity: needs.is_rewritten,
            refused: punt,
        })?;
        self.load_word(R1, Word::Serial);
        self.asm.alu_imm(Alu::Add, R1, 1);
        self.asm.mov32(R1, R1);
        self.store_word(Word::Serial, R1);
        self.asm.load(Size::B4, R3, CONTEXT, XDP_MD_DATA_META);
        self.asm.load(Size::B4, R4, CONTEXT, XDP_MD_DATA);
        self.write_note(note, punt);
        self.set_word(Word::End, End::FanOut as i32);
        let finish = self.ends.finish;
        self.asm.jump(finish);
        Ok(())
    }

    /// Generates the code to which the program jumps for dropped packets.
    pub(super) fn drop_end(&mut self) {
        let drop = self.ends.drop;
        self.asm.place(drop);
        self.set_word(Word::End, End::Drop as i32);
    }

    /// Counts the packet. Falls through for a packet that is sent.
    fn finish_ports(&mut self) -> Emitted<()> {
        let finish = self.ends.finish;
        self.asm.place(finish);
        self.asm.note("count what the packet was");
        let counters = &self.memory.counters;
        self.load_word(R1, Word::Port);
        self.asm.alu_imm(Alu::Add, R1, counters.received as i32);
        self.count_packet(Word::IngressBytes);
        self.count_journal();
        self.send_digest();
        let [sent, replicated, refused] = [(); 3].map(|()| self.asm.label());
        self.load_word(R1, Word::End);
        self.asm.jump_if_imm(Jump::Eq, R1, End::Send as i32, sent);
        self.asm
            .jump_if_imm(Jump::Eq, R1, End::FanOut as i32, replicated);
        self.asm
            .jump_if_imm(Jump::Eq, R1, End::Refused as i32, refused);
        self.load_word(R1, Word::Reason);
        self.asm.alu_imm(Alu::Add, R1, counters.dropped as i32);
        self.count_packet(Word::IngressBytes);
        self.exit(XDP_DROP);
        self.asm.place(replicated);
        self.redirect_to_group();
        self.asm.place(refused);
        self.finish_refused();
        self.asm.place(sent);
        self.load_word(R1, Word::OutPort);
        self.asm.alu_imm(Alu::Add, R1, counters.sent as i32);
        self.count_packet(Word::SentBytes);
        Ok(())
    }

    fn redirect_to_group(&mut self) {
        let Some(fan_out) = &self.memory.fan_out else {
            return self.exit(XDP_ABORTED);
        };
        let devices = fan_out.devices;
        let gone = self.asm.label();
        self.count_replication();
        self.load_word(R1, Word::FanOut);
        self.asm.store(Size::B4, R10, STACK_KEY, R1);
        self.look_up(devices, STACK_KEY);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, gone);
        self.asm.mov(R1, R0);
        self.asm.mov_imm(R2, 0);
        self.asm.mov_imm(R3, BROADCAST);
        self.asm.call(Helper::RedirectMap);
        self.asm.exit();
        self.asm.place(gone);
        self.exit(XDP_ABORTED);
    }

    /// Counts a replicated packet, and its copies beyond the first.
    pub(super) fn count_replication(&mut self) {
        self.load_word(R1, Word::Replicas);
        self.asm.alu_imm(Alu::Sub, R1, 1);
        self.store_word(Word::SentBytes, R1);
        let replicated = self.memory.counters.replicated;
        self.asm.mov_imm(R1, u64::from(replicated));
        self.count_packet(Word::SentBytes);
    }

    /// Writes [`Origin`] in front of a frame, if there is room.
    fn write_origin(&mut self) {
        self.asm.note("the arrival time, in front of the frame");
        let without = self.asm.label();
        self.asm.mov(R1, CONTEXT);
        self.asm
            .mov_imm(R2, (-i64::from(Origin::BYTES)).cast_unsigned());
        self.asm.call(Helper::XdpAdjustMeta);
        self.asm.jump_if_imm(Jump::Ne, R0, 0, without);
        self.asm.load(Size::B4, R3, CONTEXT, XDP_MD_DATA_META);
        self.asm.load(Size::B4, R4, CONTEXT, XDP_MD_DATA);
        self.asm.mov(R1, R3);
        self.asm.alu_imm(Alu::Add, R1, Origin::BYTES as i32);
        self.asm.jump_if(Jump::Gt, R1, R4, without);
        self.load_word(R1, Word::Arrival);
        self.asm.store(Size::B8, R3, Origin::ARRIVAL, R1);
        self.asm.store_imm(Size::B8, R3, Origin::STREAM, 0);
        self.asm.place(without);
    }

    fn send(&mut self) {
        self.write_origin();
        // A frame that leaves by the port that received it is also redirected. `XDP_TX` is not used: with it, a veth
        // loses the frame if its peer has no XDP program, and nobody would count the loss.
        self.load_word(R2, Word::OutPort);
        let devices = self.memory.devices;
        self.asm.symbol(R1, Symbol::Map(devices));
        self.asm.mov_imm(R3, i64::from(XDP_ABORTED).cast_unsigned());
        self.asm.call(Helper::RedirectMap);
        self.asm.exit();
    }

    /// Passes the unchanged frame to the engine.
    fn punt(&mut self) {
        let punt = self.ends.punt;
        self.asm.place(punt);
        self.asm.note("punt");
        self.asm.load(Size::B8, R2, R10, STACK_SOCKETS);
        self.asm.load(Size::B4, R1, CONTEXT, XDP_MD_RX_QUEUE_INDEX);
        self.asm.alu(Alu::Add, R2, R1);
        let sockets = self.memory.sockets;
        self.asm.symbol(R1, Symbol::Map(sockets));
        self.asm.mov_imm(R3, i64::from(XDP_ABORTED).cast_unsigned());
        self.asm.call(Helper::RedirectMap);
        self.asm.exit();
    }

    /// Counts one packet of `bytes` at the counter whose number is in `R1`.
    pub(super) fn count_packet(&mut self, bytes: Word) {
        self.add_to_counter(None, bytes);
    }

    /// Adds `packets` (one if `None`) and `bytes` to the counter whose number is in `R1`.
    pub(super) fn add_to_counter(&mut self, packets: Option<Word>, bytes: Word) {
        let missing = self.asm.label();
        self.asm.store(Size::B4, R10, STACK_KEY, R1);
        let map = self.memory.counter_map;
        self.look_up(map, STACK_KEY);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, missing);
        self.asm.load(Size::B8, R1, R0, 0);
        match packets {
            Some(packets) => {
                self.load_word(R2, packets);
                self.asm.alu(Alu::Add, R1, R2);
            }
            None => self.asm.alu_imm(Alu::Add, R1, 1),
        }
        self.asm.store(Size::B8, R0, 0, R1);
        self.load_word(R2, bytes);
        self.asm.load(Size::B8, R1, R0, 8);
        self.asm.alu(Alu::Add, R1, R2);
        self.asm.store(Size::B8, R0, 8, R1);
        self.asm.place(missing);
    }

    /// Increments the counters that the journal records.
    pub(super) fn count_journal(&mut self) {
        for entry in 0..self.journal.len() {
            let first = self.journal[entry];
            let nothing = self.asm.label();
            let at = self.layout.journal(entry as u32);
            self.asm.load(Size::B4, R1, SCRATCH, at);
            self.asm.jump_if_imm(Jump::Eq, R1, 0, nothing);
            self.asm.alu_imm(Alu::Add, R1, first as i32 - 1);
            self.count_packet(Word::IngressBytes);
            self.asm.place(nothing);
        }
    }
}

/// Returns the position at which the parser has found a header.
fn place(paths: &Paths, header: HeaderId) -> Place {
    match paths.offset(header) {
        Some(offset) => Place::Constant(offset),
        None => Place::Noted,
    }
}
