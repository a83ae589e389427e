//! Generates the code that runs at the beginning of a NAPI poll, and the code that drops a packet before its copies are
//! made, if the port's device would refuse some or all copies in this poll. [`Polls`] describes the data;
//! `runtime/transmit/polls.rs` computes the limits.

use dataplane::DropReason;

use super::{
    emit::{Emit, SLOT, STACK_KEY, XDP_DROP},
    layout::Word,
    ports::End,
};
use crate::{
    asm::{Alu, Helper, Jump, Label, Size, reg::*},
    image::{Body, FanOut, GroupArg, Heap, Polls},
};

/// How long a limit (the number of copies that a port's device takes in one poll) is used, in nanoseconds. After that
/// time the port is tried again without the limit, and some copies of one packet are lost. At 5,000 packets per second
/// this happens to one packet in a hundred. An outdated limit drops packets for at most this long.
const KNOWN_FOR_NS: i32 = 20_000_000;

/// Packets with fewer copies are always copied. Dropping such a packet costs nearly as much as copying it, and while it
/// is copied, the receiver empties the ring for the next packet. This was measured with 8 copies and with NAPI in a
/// kernel thread of its own: when such packets were dropped, only half as many copies left.
const COPIES_MIN: i32 = 32;

impl Emit<'_> {
    /// At the first packet of a poll, marks this processor as polling ([`Heap::polls`]). If a writer saw the processor
    /// outside a poll before the mark, the packet's later reads see everything that the writer had written by then.
    pub(super) fn begin_poll(&mut self, aborted: Label) {
        self.asm.note("the first packet of a poll?");
        let heap = self.memory.heap;
        let is_within = self.asm.label();
        self.asm.call(Helper::GetSmpProcessorId);
        self.asm
            .jump_if_imm(Jump::Ge, R0, heap.n_processors as i32, aborted);
        self.asm.alu_imm(Alu::Lsh, R0, Heap::PROCESSOR_SHIFT as i32);
        self.heap(R1, heap.processors);
        self.asm.alu(Alu::Add, R1, R0);
        self.asm.load(Size::B8, R0, R1, 0);
        self.asm.jump_if_imm(Jump::Set, R0, 1, is_within);
        self.asm.mov_imm(R0, 1);
        self.asm.fetch_add(R1, 0, R0);
        self.asm.place(is_within);
    }

    /// Drops the packet if the group's port has no room for the packet's copies in this poll. Otherwise adds their
    /// number to the number of copies in this poll. The group's slot is in `SLOT`.
    pub(super) fn drop_without_room(&mut self, fan_out: &FanOut) {
        self.asm
            .note("has the port room for the copies in this poll?");
        let [same, unknown, counted, fits] = [(); 4].map(|()| self.asm.label());
        self.load_word(R1, Word::Replicas);
        self.asm.jump_if_imm(Jump::Lt, R1, COPIES_MIN, fits);
        self.find_port_of_poll(fan_out, fits);
        // R1: data of the port; R4: number of copies.
        self.load_word(R4, Word::Replicas);
        self.asm.load(Size::B4, R2, R0, Polls::NUMBER);
        self.asm.load(Size::B4, R3, R1, Polls::POLL);
        self.asm.jump_if(Jump::Eq, R2, R3, same);
        self.asm.store(Size::B4, R1, Polls::POLL, R2);
        self.asm.place(unknown);
        self.asm.mov(R3, R4);
        self.asm.jump(counted);
        self.asm.place(same);
        self.asm.load(Size::B4, R3, R1, Polls::MADE);
        self.asm.load(Size::B4, R5, R1, Polls::LIMIT);
        self.asm.alu(Alu::Add, R3, R4);
        self.asm.jump_if_imm(Jump::Eq, R5, 0, counted);
        self.asm.jump_if(Jump::Le, R3, R5, counted);
        self.refuse_or_forget();
        self.asm.jump_if_imm(Jump::Ge, R3, Polls::FULL, unknown);
        self.asm.place(counted);
        self.asm.store(Size::B4, R1, Polls::MADE, R3);
        self.asm.store(Size::B4, R1, Polls::LAST, R4);
        self.asm.place(fits);
    }

    /// Loads the address of this processor's value in the map of [`Polls`] into R0, and the address of the port's data
    /// in that value into R1. Jumps to `unknown` if the group has several ports.
    fn find_port_of_poll(&mut self, fan_out: &FanOut, unknown: Label) {
        let port = (Body::ARGS + 8 * GroupArg::Port as u32) as i16;
        self.asm.load(Size::B8, R1, SLOT, port);
        self.asm.jump_if_imm(Jump::Eq, R1, 0, unknown);
        self.asm.store_imm(Size::B4, R10, STACK_KEY, 0);
        self.look_up(fan_out.polls, STACK_KEY);
        self.asm.jump_if_imm(Jump::Eq, R0, 0, unknown);
        self.asm.load(Size::B8, R1, SLOT, port);
        self.asm
            .jump_if_imm(Jump::Gt, R1, Heap::N_PORTS as i32, unknown);
        self.asm.alu_imm(Alu::Lsh, R1, Polls::SHIFT as i32);
        self.asm.alu(Alu::Add, R1, R0);
    }

    /// Drops the packet, and makes the program drop all later packets for this port in this poll, so that no packet of
    /// a smaller group overtakes the dropped packet. If the limit is too old, forgets the limit instead.
    fn refuse_or_forget(&mut self) {
        let forgotten = self.asm.label();
        self.load_word(R2, Word::Arrival);
        self.asm.load(Size::B8, R5, R1, Polls::SINCE);
        self.asm.alu(Alu::Sub, R2, R5);
        self.asm.jump_if_imm(Jump::Sge, R2, KNOWN_FOR_NS, forgotten);
        self.asm.alu(Alu::Sub, R3, R4);
        self.asm.alu_imm(Alu::Or, R3, Polls::FULL);
        self.asm.store(Size::B4, R1, Polls::MADE, R3);
        self.set_word(Word::End, End::Refused as i32);
        let finish = self.ends.finish;
        self.asm.jump(finish);
        self.asm.place(forgotten);
        self.asm.store_imm(Size::B4, R1, Polls::LIMIT, 0);
    }

    /// Counts a packet that ended with [`End::Refused`] as a packet whose copies the device has refused.
    pub(super) fn finish_refused(&mut self) {
        self.count_replication();
        let counters = &self.memory.counters;
        let refused = counters.dropped_for(DropReason::DeviceRefused);
        self.asm.mov_imm(R1, u64::from(refused));
        self.add_to_counter(Some(Word::Replicas), Word::IngressBytes);
        self.exit(XDP_DROP);
    }
}
