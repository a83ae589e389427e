//! Generates the part of the tracepoint's program that counts residence times: the times from a frame's arrival until a
//! device takes the frame or a copy of it. They are counted in a histogram with 32 buckets for each power of two.

use super::note::{self, frame};
use super::{QUEUE_FRAMES, TIMES};
use crate::asm::reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use crate::asm::{Alu, Assembler, Helper, Jump, Label, Reg, Size, Symbol};

/// Log2 of the number of buckets in each power of two.
const SHIFT: u32 = 5;

/// Entries of the histogram, one for each interface, stream and bucket. When all entries are in use, a time that needs
/// a new entry is not recorded. A stream uses about 100 entries on one port.
pub(super) const KEYS_MAX: u32 = 1 << 14;

// Stack offsets.
const NOW: i16 = -24;
const ARRIVAL: i16 = -32;
const STREAM: i16 = -40;
/// The key of an entry of the histogram: an interface, a stream and a bucket.
const KEY: i16 = -56;
const VALUE: i16 = -64;

/// The index of a frame in the record of a device's queue, [`note`].
const PLACE: Reg = R6;
/// How many frames in a row have the same origin, while they are counted.
const N_EQUAL: Reg = R8;
/// How many frames the driver took.
const N_TAKEN: Reg = R9;

pub(super) fn middle_ns(bucket: u32) -> u64 {
    let (power, rest) = (bucket >> SHIFT, u64::from(bucket & ((1 << SHIFT) - 1)));
    match power.checked_sub(1) {
        None => rest,
        Some(power) => {
            let first = ((1 << SHIFT) | rest) << power.min(63 - SHIFT);
            first + ((1_u64 << power.min(63 - SHIFT)) >> 1)
        }
    }
}

/// Records the times of the frames that the driver took. At first R7 is the record, R8 how many the driver took, R9 the
/// number of frames in the record, and `R10 - 4` the interface. Overwrites all registers but R7.
pub(super) fn add(asm: &mut Assembler) {
    let [all, first, same, next, record, done] = [(); 6].map(|()| asm.label());
    asm.jump_if(Jump::Le, R9, R8, all);
    asm.mov(N_TAKEN, R8);
    asm.place(all);
    asm.jump_if_imm(Jump::Eq, N_TAKEN, 0, done);
    asm.call(Helper::KtimeGetNs);
    asm.store(Size::B8, R10, NOW, R0);
    take_all(asm, record);
    asm.mov_imm(PLACE, 0);
    asm.place(first);
    load(asm);
    asm.store(Size::B8, R10, ARRIVAL, R2);
    asm.store(Size::B8, R10, STREAM, R3);
    asm.store_imm(Size::B4, R7, note::N_EQUAL, 0);
    asm.jump(same);
    asm.place(next);
    asm.jump_if_imm(Jump::Ge, PLACE, QUEUE_FRAMES as i32, record);
    asm.jump_if(Jump::Ge, PLACE, N_TAKEN, record);
    load(asm);
    asm.load(Size::B8, R4, R10, ARRIVAL);
    asm.jump_if(Jump::Ne, R4, R2, record);
    asm.load(Size::B8, R4, R10, STREAM);
    asm.jump_if(Jump::Ne, R4, R3, record);
    asm.place(same);
    asm.load(Size::B4, N_EQUAL, R7, note::N_EQUAL);
    asm.alu_imm(Alu::Add, N_EQUAL, 1);
    asm.store(Size::B4, R7, note::N_EQUAL, N_EQUAL);
    asm.alu_imm(Alu::Add, PLACE, 1);
    asm.jump(next);
    asm.place(record);
    asm.load(Size::B4, N_EQUAL, R7, note::N_EQUAL);
    count(asm);
    asm.jump_if_imm(Jump::Ge, PLACE, QUEUE_FRAMES as i32, done);
    asm.jump_if(Jump::Lt, PLACE, N_TAKEN, first);
    asm.place(done);
}

/// If the first and the last frame have the same origin (arrival time and stream), takes all frames as one group and
/// jumps to `record`.
/// Comparing these two suffices: a packet's copies are consecutive, and no two packets have the same known
/// arrival time.
fn take_all(asm: &mut Assembler, record: Label) {
    let differ = asm.label();
    asm.mov(R1, N_TAKEN);
    asm.alu_imm(Alu::Sub, R1, 1);
    asm.alu_imm(Alu::And, R1, QUEUE_FRAMES as i32 - 1);
    asm.alu_imm(Alu::Lsh, R1, frame::SHIFT);
    asm.alu(Alu::Add, R1, R7);
    asm.load(Size::B8, R2, R7, note::FRAMES + frame::ARRIVAL);
    asm.load(Size::B4, R3, R7, note::FRAMES + frame::STREAM);
    asm.load(Size::B8, R4, R1, note::FRAMES + frame::ARRIVAL);
    asm.jump_if(Jump::Ne, R4, R2, differ);
    asm.load(Size::B4, R4, R1, note::FRAMES + frame::STREAM);
    asm.jump_if(Jump::Ne, R4, R3, differ);
    asm.store(Size::B8, R10, ARRIVAL, R2);
    asm.store(Size::B8, R10, STREAM, R3);
    asm.mov_imm(PLACE, u64::from(QUEUE_FRAMES));
    asm.store(Size::B4, R7, note::N_EQUAL, N_TAKEN);
    asm.jump(record);
    asm.place(differ);
}

/// Loads the origin of the frame at `PLACE`: arrival into R2, stream into R3. Overwrites R1.
fn load(asm: &mut Assembler) {
    asm.mov(R1, PLACE);
    asm.alu_imm(Alu::Lsh, R1, frame::SHIFT);
    asm.alu(Alu::Add, R1, R7);
    asm.load(Size::B8, R2, R1, note::FRAMES + frame::ARRIVAL);
    asm.load(Size::B4, R3, R1, note::FRAMES + frame::STREAM);
}

/// Counts the frames of one origin, if their arrival time is known.
fn count(asm: &mut Assembler) {
    let (end, new) = (asm.label(), asm.label());
    asm.load(Size::B8, R2, R10, ARRIVAL);
    asm.jump_if_imm(Jump::Eq, R2, 0, end);
    asm.load(Size::B8, R1, R10, NOW);
    asm.alu(Alu::Sub, R1, R2);
    bucket(asm);
    asm.store(Size::B4, R10, KEY + 8, R1);
    asm.load(Size::B4, R1, R10, -4);
    asm.store(Size::B4, R10, KEY, R1);
    asm.load(Size::B8, R1, R10, STREAM);
    asm.store(Size::B4, R10, KEY + 4, R1);
    asm.symbol(R1, Symbol::Map(TIMES));
    asm.mov(R2, R10);
    asm.alu_imm(Alu::Add, R2, i32::from(KEY));
    asm.call(Helper::MapLookupElem);
    asm.jump_if_imm(Jump::Eq, R0, 0, new);
    asm.load(Size::B8, R1, R0, 0);
    asm.alu(Alu::Add, R1, N_EQUAL);
    asm.store(Size::B8, R0, 0, R1);
    asm.jump(end);
    asm.place(new);
    asm.store(Size::B8, R10, VALUE, N_EQUAL);
    asm.symbol(R1, Symbol::Map(TIMES));
    asm.mov(R2, R10);
    asm.alu_imm(Alu::Add, R2, i32::from(KEY));
    asm.mov(R3, R10);
    asm.alu_imm(Alu::Add, R3, i32::from(VALUE));
    asm.mov_imm(R4, 0);
    asm.call(Helper::MapUpdateElem);
    asm.place(end);
}

/// Converts the time in R1 to its bucket, in R1. R7 is the record.
fn bucket(asm: &mut Assembler) {
    let small = asm.label();
    asm.jump_if_imm(Jump::Lt, R1, 1 << SHIFT, small);
    // Compute by how many bits the time must be shifted right until `SHIFT` + 1 bits are left. First count whole bytes,
    // then count the remaining bits with the table.
    asm.mov(R2, R1);
    asm.alu_imm(Alu::Rsh, R2, SHIFT as i32 + 1);
    asm.mov_imm(R3, 0);
    for bits in [32, 16, 8] {
        let less = asm.label();
        asm.mov(R4, R2);
        asm.alu_imm(Alu::Rsh, R4, bits);
        asm.jump_if_imm(Jump::Eq, R4, 0, less);
        asm.mov(R2, R4);
        asm.alu_imm(Alu::Add, R3, bits);
        asm.place(less);
    }
    asm.alu_imm(Alu::And, R2, 0xff);
    asm.alu(Alu::Add, R2, R7);
    asm.load(Size::B1, R2, R2, note::BITS);
    asm.alu(Alu::Add, R3, R2);
    asm.alu(Alu::Rsh, R1, R3);
    asm.alu_imm(Alu::And, R1, (1 << SHIFT) - 1);
    asm.alu_imm(Alu::Add, R3, 1);
    asm.alu_imm(Alu::Lsh, R3, SHIFT as i32);
    asm.alu(Alu::Add, R1, R3);
    asm.place(small);
}

/// Returns, for each value of a byte, the position of its highest set bit, counted from 1; 0 for the value 0.
pub(super) fn bits() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).map(|byte| (u8::BITS - byte.leading_zeros()) as u8)
}

#[cfg(test)]
mod tests {
    use super::{SHIFT, middle_ns};

    #[test]
    fn the_middle_of_a_bucket_is_between_its_neighbours() {
        for bucket in 0..32 {
            assert_eq!(middle_ns(bucket), u64::from(bucket));
        }
        // Buckets 32 and 33 hold one value each; the first bucket of pairs holds 64 and 65, and its middle is 65.
        let first_of_pairs = 2 << SHIFT;
        assert_eq!([32, 33].map(middle_ns), [32, 33]);
        assert_eq!(middle_ns(first_of_pairs), 65);
        let middles: Vec<u64> = (0..60 << SHIFT).map(middle_ns).collect();
        assert!(middles.is_sorted());
        for pair in middles.windows(2).skip(32) {
            assert!((pair[1] - pair[0]) * 31 <= pair[1], "{pair:?}");
        }
    }
}
