//! Generates the eBPF program for the copies of a packet to a multicast group. The kernel's device map runs this
//! program for each copy, before the copy leaves. The program finds out which of the packet's copies the frame is, runs
//! egress, and deparses.

use dataplane::{
    DropReason,
    engine::ir::{Meaning, Moment},
};

use super::{
    deparser::{Place, Writing},
    emit::{
        CONTEXT, Emit, Emitted, FRAME, FRAME_END, SCRATCH, STACK_KEY, XDP_ABORTED, XDP_DROP,
        XDP_MD_DATA, XDP_MD_DATA_META, XDP_MD_EGRESS_IFINDEX, XDP_PASS,
    },
    layout::Word,
    note::Note,
    ports::End,
};
use crate::{
    asm::{Alu, Jump, Size, reg::*},
    image::FanOut,
};

impl Emit<'_> {
    pub(super) fn copies(&mut self, note: &Note) -> Emitted<()> {
        let memory = self.memory;
        let fan_out = memory.fan_out.as_ref().ok_or("no groups")?;
        let (begin, init, end) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.jump(init);
        self.asm.place(begin);
        self.read_headers()?;
        self.which_copy(fan_out);
        self.asm.note("egress of a copy");
        let instance_type = self.needs.metadata(Moment::Egress, Meaning::InstanceType);
        self.set_field(instance_type, 5);
        self.write_egress_metadata();
        self.control(self.ir.egress, end)?;
        self.asm.place(end);
        self.egress_verdict();
        self.deparse_copy()?;
        self.set_word(Word::End, End::Send as i32);
        let finish = self.ends.finish;
        self.asm.jump(finish);
        // A copy cannot be punted. No copy gets here if the loader follows the rules of `image/mod.rs`.
        let punt = self.ends.punt;
        self.asm.place(punt);
        self.set_word(Word::Reason, DropReason::OffloadStopped as i32);
        self.drop_end();
        self.finish_copy();
        self.asm.place(init);
        self.begin_copy(note, begin);
        Ok(())
    }

    fn begin_copy(&mut self, note: &Note, begin: crate::asm::Label) {
        self.asm.note("which port, and what ingress has left");
        let aborted = self.asm.label();
        let heap = self.memory.heap;
        self.asm.mov(CONTEXT, R1);
        self.asm
            .load_egress_interface(R1, CONTEXT, XDP_MD_EGRESS_IFINDEX);
        self.find_interface(R1, heap, aborted);
        self.find_scratch(aborted);
        self.asm.alu_imm(Alu::Sub, FRAME_END, 1);
        self.store_word(Word::OutPort, FRAME_END);
        self.clear_state();
        self.asm.load(Size::B4, R3, CONTEXT, XDP_MD_DATA_META);
        self.asm.load(Size::B4, R4, CONTEXT, XDP_MD_DATA);
        self.read_note(note, aborted);
        self.asm.jump(begin);
        self.asm.place(aborted);
        self.exit(XDP_ABORTED);
    }

    /// Reads the headers that ingress has written, in the deparser's order.
    fn read_headers(&mut self) -> Emitted<()> {
        self.asm.note("headers as ingress has left them");
        let punt = self.ends.punt;
        self.load_frame();
        self.set_word(Word::Cursor, 0);
        for header in self.emitted()? {
            if self.ir.headers[header.index()].variable_field.is_some() {
                return Err("a header of variable length".into());
            }
            let invalid = self.asm.label();
            self.jump_if_valid(header, false, invalid, R1);
            let bytes = self.header_bytes(header);
            self.load_word(R4, Word::Cursor);
            let at = self.layout.offset(header);
            self.asm.store(Size::B8, SCRATCH, at, R4);
            self.asm.mov(R1, R4);
            self.asm.alu_imm(Alu::Add, R1, bytes as i32);
            self.store_word(Word::Cursor, R1);
            let fields = self.wire_fields(header).into_iter();
            let fields = fields.filter(|(field, _)| self.needs.is_needed_in_egress(*field));
            let fields: Vec<_> = fields.collect();
            if !fields.is_empty() {
                self.bounded_pointer(R4, punt);
                self.asm.mov(R1, R4);
                self.asm.alu_imm(Alu::Add, R1, bytes as i32);
                self.asm.jump_if(Jump::Gt, R1, FRAME_END, punt);
                for (field, offset) in fields {
                    self.extract_field(field, R4, offset, bytes);
                }
            }
            self.asm.place(invalid);
        }
        self.load_word(R1, Word::Cursor);
        self.store_word(Word::Consumed, R1);
        for (now, parsed) in self.layout.valid_words() {
            self.asm.load(Size::B4, R1, SCRATCH, now);
            self.asm.store(Size::B4, SCRATCH, parsed, R1);
        }
        Ok(())
    }

    /// Finds the copy's instance (`egress_rid`). A packet's copies to one port arrive consecutively, in the group's
    /// order, and all have the serial number of their packet. So a copy with the same serial number as the port's
    /// previous copy is the next copy in that order.
    fn which_copy(&mut self, fan_out: &FanOut) {
        self.asm.note("which copy: the port's first, or the next");
        let (next, known, punt) = (self.asm.label(), self.asm.label(), self.ends.punt);
        let places = self.layout.word(Word::Places);
        // Each port has a word about its last copy. The high half holds the copy's serial number, the low half holds
        // the copy's position in the array of instances.
        self.load_word(FRAME, Word::OutPort);
        self.asm.jump_if_imm(Jump::Gt, FRAME, 511, punt);
        self.asm.alu_imm(Alu::Lsh, FRAME, 3);
        self.asm.alu(Alu::Add, FRAME, SCRATCH);
        self.asm.load(Size::B8, FRAME_END, FRAME, places);
        self.asm.mov(R1, FRAME_END);
        self.asm.alu_imm(Alu::Rsh, R1, 32);
        self.load_word(R2, Word::CopySerial);
        self.asm.jump_if(Jump::Eq, R1, R2, next);
        self.load_word(R1, Word::FanOut);
        self.asm.store(Size::B4, R10, STACK_KEY, R1);
        self.load_word(R1, Word::OutPort);
        self.asm.store(Size::B4, R10, STACK_KEY + 4, R1);
        self.look_up(fan_out.places, STACK_KEY);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, punt);
        self.asm.load(Size::B4, FRAME_END, R0, 0);
        self.load_word(R1, Word::CopySerial);
        self.asm.alu_imm(Alu::Lsh, R1, 32);
        self.asm.alu(Alu::Or, FRAME_END, R1);
        self.asm.jump(known);
        self.asm.place(next);
        self.asm.alu_imm(Alu::Add, FRAME_END, 1);
        self.asm.place(known);
        self.asm.store(Size::B8, FRAME, places, FRAME_END);
        let Some(instance) = self.needs.metadata(Moment::Egress, Meaning::Instance) else {
            return;
        };
        let mask = fan_out.n_instances - 1;
        self.asm.alu_imm(Alu::And, FRAME_END, mask.cast_signed());
        self.asm.alu_imm(Alu::Lsh, FRAME_END, 2);
        self.heap(R1, fan_out.instances);
        self.asm.alu(Alu::Add, R1, FRAME_END);
        self.asm.load(Size::B4, R1, R1, 0);
        self.store_field(instance, R1, None);
    }

    fn deparse_copy(&mut self) -> Emitted<()> {
        self.asm.note("deparser");
        self.update_checksums()?;
        let ir = self.ir;
        for primitive in &ir.deparser.primitives {
            self.primitive(primitive)?;
        }
        let needs = self.needs;
        self.write_headers(&Writing {
            place: &|_| Place::Noted,
            is_changed: &|field| needs.is_written_in_egress(field),
            may_change_validity: needs.changes_validity_in_egress(),
            refused: self.ends.punt,
        })
    }

    fn finish_copy(&mut self) {
        let (finish, sent) = (self.ends.finish, self.asm.label());
        self.asm.place(finish);
        self.asm.note("count what the copy was");
        self.count_journal();
        let counters = &self.memory.counters;
        self.load_word(R1, Word::End);
        self.asm.jump_if_imm(Jump::Eq, R1, End::Send as i32, sent);
        self.load_word(R1, Word::Reason);
        self.asm.alu_imm(Alu::Add, R1, counters.dropped as i32);
        self.count_packet(Word::IngressBytes);
        self.exit(XDP_DROP);
        self.asm.place(sent);
        self.load_word(R1, Word::OutPort);
        self.asm.alu_imm(Alu::Add, R1, counters.sent as i32);
        self.count_packet(Word::SentBytes);
        self.exit(XDP_PASS);
    }
}
