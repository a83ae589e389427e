//! Reports the ends of NAPI polls to the programs of the ports ([`Polls`]) and to the writer's grace periods
//! ([`Heap::polls`]). Also reports which ports refused copies during a poll.

use std::io;

use bpf::{Link, Map, Program, ProgramConfig, ProgramKind};

use super::{MapRef, QUEUE_FRAMES, count, give, linked};
use crate::asm::reg::{R0, R1, R2, R3, R6, R10};
use crate::asm::{Alu, Assembler, Helper, Jump, Label, Size, Symbol};
use crate::image::{Heap, Polls};

/// Offset of the third argument of tracepoint `napi_poll`: the poll's budget in packets.
const TRACEPOINT_BUDGET: i16 = 16;

/// The numbers of the maps in the program that runs at the end of a poll.
const HEAP: MapRef = MapRef(0);
const OF_PORTS: MapRef = MapRef(1);

// Stack offsets, below those of the surrounding program.
const PORT: i16 = -8;
const KEY: i16 = -12;

/// Reports ends of polls until it is dropped.
#[derive(Debug)]
pub(in crate::runtime) struct PollEnds {
    _link: Link,
    _program: Program,
}

impl PollEnds {
    /// Reports ends of polls in the heap's words ([`Heap::polls`]), and in the map of [`Polls`] if there is one.
    ///
    /// # Errors
    /// The kernel's error, or the kernel has no tracepoint `napi_poll`.
    pub(in crate::runtime) fn new(
        heap: &Map,
        layout: Heap,
        polls: Option<&Map>,
    ) -> io::Result<PollEnds> {
        let mut maps = vec![heap];
        maps.extend(polls);
        let program = Program::load(&ProgramConfig {
            name: "reprise_polls",
            kind: ProgramKind::RawTracepoint,
            has_fragments: false,
            instructions: &linked(at_end(layout, polls.is_some()), &maps)?,
        })?;
        let link = Link::attach_tracepoint(&program, c"napi_poll")?;
        Ok(PollEnds {
            _link: link,
            _program: program,
        })
    }
}

fn at_end(layout: Heap, has_polls: bool) -> Assembler {
    let mut asm = Assembler::default();
    let [unknown, end] = [(); 2].map(|()| asm.label());
    // A poll with budget 0 does not count: netconsole polls like this from within a driver.
    asm.load(Size::B4, R2, R1, TRACEPOINT_BUDGET);
    asm.jump_if_imm(Jump::Eq, R2, 0, end);
    if has_polls {
        find(&mut asm, OF_PORTS, unknown);
        asm.load(Size::B4, R1, R0, Polls::NUMBER);
        asm.alu_imm(Alu::Add, R1, 1);
        asm.store(Size::B4, R0, Polls::NUMBER, R1);
        asm.place(unknown);
    }
    asm.call(Helper::GetSmpProcessorId);
    asm.jump_if_imm(Jump::Ge, R0, layout.n_processors as i32, end);
    asm.alu_imm(Alu::Lsh, R0, Heap::PROCESSOR_SHIFT as i32);
    asm.symbol(R1, Symbol::Value(HEAP, layout.processors));
    asm.alu(Alu::Add, R1, R0);
    asm.load(Size::B8, R2, R1, 0);
    asm.alu_imm(Alu::And, R2, 1);
    asm.jump_if_imm(Jump::Eq, R2, 0, end);
    asm.fetch_add(R1, 0, R2);
    asm.place(end);
    give(&mut asm, 0);
    asm
}

/// Loads the address of this processor's value into R0.
fn find(asm: &mut Assembler, polls: MapRef, missing: Label) {
    asm.store_imm(Size::B4, R10, KEY, 0);
    asm.symbol(R1, Symbol::Map(polls));
    asm.mov(R2, R10);
    asm.alu_imm(Alu::Add, R2, i32::from(KEY));
    asm.call(Helper::MapLookupElem);
    asm.jump_if_imm(Jump::Eq, R0, 0, missing);
}

/// Handles a port that refused frames: limits the copies of later polls to the number that this poll made for earlier
/// packets, and stops copies for the port in this poll. R0 is the address of the port's counts. Overwrites R0 to R6.
pub(super) fn limit(asm: &mut Assembler) {
    let end = asm.label();
    asm.load(Size::B8, R1, R0, count::PORT);
    asm.jump_if_imm(Jump::Eq, R1, 0, end);
    asm.store(Size::B4, R10, PORT, R1);
    find(asm, super::POLLS, end);
    asm.load(Size::B4, R6, R10, PORT);
    asm.jump_if_imm(Jump::Gt, R6, Heap::N_PORTS as i32, end);
    asm.alu_imm(Alu::Lsh, R6, Polls::SHIFT as i32);
    asm.alu(Alu::Add, R6, R0);
    // If the numbers differ, this poll made no copies of a packet whose copies all leave by this port. So nothing is
    // known about the port's room.
    asm.load(Size::B4, R1, R0, Polls::NUMBER);
    asm.load(Size::B4, R2, R6, Polls::POLL);
    asm.jump_if(Jump::Ne, R1, R2, end);
    asm.load(Size::B4, R3, R6, Polls::MADE);
    asm.jump_if_imm(Jump::Ge, R3, Polls::CLOSED, end);
    asm.alu_imm(Alu::And, R3, !Polls::FULL);
    asm.load(Size::B4, R1, R6, Polls::LAST);
    asm.load(Size::B4, R2, R6, Polls::LIMIT);
    let [anew, known] = [(); 2].map(|()| asm.label());
    learn(asm);
    asm.store(Size::B4, R6, Polls::LIMIT, R3);
    asm.store_imm(Size::B4, R6, Polls::MADE, Polls::CLOSED);
    asm.jump_if_imm(Jump::Eq, R2, 0, anew);
    asm.jump_if_imm(Jump::Ne, R2, Polls::ANY, known);
    asm.place(anew);
    asm.call(Helper::KtimeGetNs);
    asm.store(Size::B8, R6, Polls::SINCE, R0);
    asm.place(known);
    asm.place(end);
}

/// Sets R3 to the limit of copies for the next polls. On entry R3 is how many copies this poll made, R1 how many of
/// these are the last packet's, R2 the previous limit or 0.
fn learn(asm: &mut Assembler) {
    let [first, unknown, any, learned] = [(); 4].map(|()| asm.label());
    asm.jump_if(Jump::Eq, R3, R1, first);
    // The refused copies belong to the last packet, or to the packet before it, of which some copies were still in the
    // device's queue. The limit excludes the copies of the last packet, and as many more as the queue holds.
    asm.alu(Alu::Sub, R3, R1);
    asm.alu_imm(Alu::Sub, R3, QUEUE_FRAMES as i32);
    asm.jump_if_imm(Jump::Sgt, R3, 0, learned);
    // The difference is not positive, because a packet with many copies followed a packet with few. The limit stays as
    // it was.
    asm.mov(R3, R2);
    asm.jump(unknown);
    // The poll's first packet was refused, so the ring is full of copies from earlier polls. If those polls had a
    // limit, it was too high; without a limit nothing is known.
    asm.place(first);
    asm.jump_if_imm(Jump::Eq, R2, 0, any);
    asm.mov(R3, R2);
    asm.jump_if_imm(Jump::Eq, R2, Polls::ANY, learned);
    asm.alu(Alu::Sub, R3, R1);
    asm.jump_if_imm(Jump::Sgt, R3, 0, learned);
    asm.mov_imm(R3, 1);
    asm.jump(learned);
    asm.place(unknown);
    asm.jump_if_imm(Jump::Ne, R2, 0, learned);
    asm.place(any);
    asm.mov_imm(R3, u64::from(Polls::ANY.cast_unsigned()));
    asm.place(learned);
}
