//! Completes checksums that a local sender left to its network card. This happens before the program sees the frame.
//!
//! XDP has no flag for such frames. On a virtual interface, the code recognises them by their contents: the checksum
//! field holds the pseudo-header's sum. The ports of `packet_io` complete the checksums of frames that they receive in
//! the same way; [`packet_io::offload::complete_partial_checksum`] gives the reasons. The code of this module is the
//! first part of the XDP program that runs at the ports.

use std::io;

use bpf::Instruction;

use crate::asm::reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::asm::{Alu, Assembler, Helper, Jump, Label, Reg, Size};

const CONTEXT: Reg = R6;
/// Position in the packet up to which it has been parsed.
const AT: Reg = R7;
const FRAME_END: Reg = R8;
const SEGMENT_END: Reg = R9;

// Stack offsets.
const SUM: i16 = -8;
const SEGMENT: i16 = -16;
const FIELD: i16 = -24;

const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;

const ETHERNET_BYTES: i32 = 14;
const VLAN_TAG_BYTES: i32 = 4;
/// The most VLAN tags that are skipped.
const VLAN_TAGS: usize = 2;
const IPV4_BYTES: i32 = 20;
const IPV6_BYTES: i32 = 40;
/// Exclusive upper bounds in bytes: one for the headers before a segment, one for a segment.
const HEADERS_BYTES_MAX: i32 = 128;
const SEGMENT_BYTES_MAX: i32 = 8192;
const UDP: i32 = 17;
const TCP: i32 = 6;

/// Sizes in bytes of the pieces that are summed in one step, each with how often the code tries to sum a piece of this
/// size. Together the pieces suffice for the longest frame in one buffer.
const PIECES: [(i32, usize); 8] = [
    (512, 7),
    (256, 1),
    (128, 1),
    (64, 1),
    (32, 1),
    (16, 1),
    (8, 1),
    (4, 1),
];

/// Builds the code that completes checksums. R1 is the context, on entry and on exit; all other registers are
/// overwritten.
///
/// # Errors
/// A jump is too far.
pub(super) fn finishing() -> io::Result<Vec<Instruction>> {
    let mut asm = Assembler::default();
    let done = asm.label();
    asm.mov(CONTEXT, R1);
    asm.load(Size::B4, AT, R1, XDP_MD_DATA);
    asm.load(Size::B4, FRAME_END, R1, XDP_MD_DATA_END);
    find_segment(&mut asm, done);
    compare(&mut asm, done);
    sum(&mut asm);
    write(&mut asm, done);
    asm.place(done);
    asm.mov(R1, CONTEXT);
    Ok(asm.finish().map_err(io::Error::other)?.instructions)
}

/// Jumps to `elsewhere` if the frame has fewer than `n_bytes` bytes from [`AT`] on.
fn expect(asm: &mut Assembler, n_bytes: i32, elsewhere: Label) {
    asm.mov(R2, AT);
    asm.alu_imm(Alu::Add, R2, n_bytes);
    asm.jump_if(Jump::Gt, R2, FRAME_END, elsewhere);
}

/// Returns the value that a load of these two bytes of a frame gives.
fn of_two(bytes: [u8; 2]) -> i32 {
    i32::from(u16::from_ne_bytes(bytes))
}

/// Parses the IP header. Puts the header's length into R3, the segment's length into R4, the protocol into R5, and the
/// sum of the addresses into R0.
fn find_segment(asm: &mut Assembler, done: Label) {
    expect(asm, ETHERNET_BYTES, done);
    asm.load(Size::B2, R3, AT, 12);
    asm.alu_imm(Alu::Add, AT, ETHERNET_BYTES);
    let untagged = asm.label();
    for _ in 0..VLAN_TAGS {
        let tagged = asm.label();
        asm.jump_if_imm(Jump::Eq, R3, of_two([0x81, 0x00]), tagged);
        asm.jump_if_imm(Jump::Ne, R3, of_two([0x88, 0xa8]), untagged);
        asm.place(tagged);
        expect(asm, VLAN_TAG_BYTES, done);
        asm.load(Size::B2, R3, AT, 2);
        asm.alu_imm(Alu::Add, AT, VLAN_TAG_BYTES);
    }
    asm.place(untagged);
    let (ipv6, found) = (asm.label(), asm.label());
    asm.jump_if_imm(Jump::Ne, R3, of_two([0x08, 0x00]), ipv6);
    find_in_ipv4(asm, done);
    asm.jump(found);
    asm.place(ipv6);
    asm.jump_if_imm(Jump::Ne, R3, of_two([0x86, 0xdd]), done);
    find_in_ipv6(asm, done);
    asm.place(found);
}

fn find_in_ipv4(asm: &mut Assembler, done: Label) {
    expect(asm, IPV4_BYTES, done);
    asm.load(Size::B1, R3, AT, 0);
    asm.alu_imm(Alu::And, R3, 0x0f);
    asm.alu_imm(Alu::Lsh, R3, 2);
    asm.jump_if_imm(Jump::Lt, R3, IPV4_BYTES, done);
    // Skip fragments.
    asm.load(Size::B2, R4, AT, 6);
    asm.alu_imm(Alu::And, R4, of_two([0x3f, 0xff]));
    asm.jump_if_imm(Jump::Ne, R4, 0, done);
    asm.load(Size::B2, R4, AT, 2);
    asm.to_be(R4, Size::B2);
    asm.jump_if(Jump::Lt, R4, R3, done);
    asm.alu(Alu::Sub, R4, R3);
    asm.load(Size::B1, R5, AT, 9);
    asm.load(Size::B4, R0, AT, 12);
    asm.load(Size::B4, R1, AT, 16);
    asm.alu(Alu::Add, R0, R1);
}

fn find_in_ipv6(asm: &mut Assembler, done: Label) {
    expect(asm, IPV6_BYTES, done);
    asm.mov_imm(R3, IPV6_BYTES as u64);
    asm.load(Size::B2, R4, AT, 4);
    asm.to_be(R4, Size::B2);
    asm.load(Size::B1, R5, AT, 6);
    asm.mov_imm(R0, 0);
    for word in 0..8 {
        asm.load(Size::B4, R1, AT, 8 + 4 * word);
        asm.alu(Alu::Add, R0, R1);
    }
}

/// Makes the verifier forget everything about [`AT`] except that [`AT`] is at most `n_bytes_max - 1` bytes after
/// `behind`. Then all paths to this place look alike to the verifier, and it verifies the following code only once.
fn forget(asm: &mut Assembler, behind: Reg, n_bytes_max: i32) {
    asm.alu(Alu::Sub, AT, behind);
    asm.alu_imm(Alu::And, AT, n_bytes_max - 1);
    asm.alu(Alu::Add, behind, AT);
    asm.mov(AT, behind);
}

/// Jumps to `done` if the checksum is not the pseudo-header's sum.
fn compare(asm: &mut Assembler, done: Label) {
    let (udp, known) = (asm.label(), asm.label());
    asm.alu(Alu::Add, AT, R3);
    asm.load(Size::B4, R1, CONTEXT, XDP_MD_DATA);
    forget(asm, R1, HEADERS_BYTES_MAX);
    asm.jump_if_imm(Jump::Eq, R5, UDP, udp);
    asm.jump_if_imm(Jump::Ne, R5, TCP, done);
    asm.mov_imm(R3, 16);
    asm.jump(known);
    asm.place(udp);
    asm.mov_imm(R3, 6);
    asm.place(known);
    // The checksum must be inside the segment, and the segment inside the frame.
    asm.mov(R1, R3);
    asm.alu_imm(Alu::Add, R1, 2);
    asm.jump_if(Jump::Lt, R4, R1, done);
    asm.mov(SEGMENT_END, AT);
    asm.alu(Alu::Add, SEGMENT_END, R4);
    asm.jump_if(Jump::Gt, SEGMENT_END, FRAME_END, done);
    asm.store(Size::B8, R10, SEGMENT, AT);
    asm.store(Size::B8, R10, FIELD, R3);
    // The sum adds 16-bit words as the machine loads them. So the length is byte-swapped, and the protocol is the
    // second byte of its word.
    asm.to_be(R4, Size::B2);
    asm.alu(Alu::Add, R0, R4);
    asm.alu_imm(Alu::Lsh, R5, 8);
    asm.alu(Alu::Add, R0, R5);
    fold(asm, R0);
    at_field(asm, R2, done);
    asm.load(Size::B2, R1, R2, 0);
    asm.jump_if(Jump::Ne, R0, R1, done);
}

/// Loads the checksum's address; jumps to `done` if the frame ends before the checksum does.
fn at_field(asm: &mut Assembler, to: Reg, done: Label) {
    asm.load(Size::B8, to, R10, SEGMENT);
    asm.load(Size::B8, R1, R10, FIELD);
    asm.alu(Alu::Add, to, R1);
    asm.mov(R1, to);
    asm.alu_imm(Alu::Add, R1, 2);
    asm.jump_if(Jump::Gt, R1, FRAME_END, done);
}

fn fold(asm: &mut Assembler, sum: Reg) {
    for _ in 0..4 {
        asm.mov(R1, sum);
        asm.alu_imm(Alu::Rsh, R1, 16);
        asm.alu_imm(Alu::And, sum, 0xffff);
        asm.alu(Alu::Add, sum, R1);
    }
}

/// Sums the segment into memory at [`SUM`].
fn sum(asm: &mut Assembler) {
    asm.store_imm(Size::B8, R10, SUM, 0);
    for (n_bytes, times) in PIECES {
        let next = asm.label();
        for _ in 0..times {
            expect_of_segment(asm, n_bytes, next);
            asm.mov_imm(R1, 0);
            asm.mov_imm(R2, 0);
            asm.mov(R3, AT);
            asm.mov_imm(R4, n_bytes as u64);
            asm.load(Size::B8, R5, R10, SUM);
            asm.call(Helper::CsumDiff);
            asm.store(Size::B8, R10, SUM, R0);
            asm.alu_imm(Alu::Add, AT, n_bytes);
            forget_in_segment(asm);
        }
        asm.place(next);
        forget_in_segment(asm);
    }
    for (n_bytes, size) in [(2, Size::B2), (1, Size::B1)] {
        let next = asm.label();
        expect_of_segment(asm, n_bytes, next);
        asm.load(size, R1, AT, 0);
        asm.load(Size::B8, R0, R10, SUM);
        asm.alu(Alu::Add, R0, R1);
        asm.store(Size::B8, R10, SUM, R0);
        asm.alu_imm(Alu::Add, AT, n_bytes);
        asm.place(next);
        forget_in_segment(asm);
    }
}

fn forget_in_segment(asm: &mut Assembler) {
    asm.load(Size::B8, R1, R10, SEGMENT);
    forget(asm, R1, SEGMENT_BYTES_MAX);
}

fn expect_of_segment(asm: &mut Assembler, n_bytes: i32, elsewhere: Label) {
    expect(asm, n_bytes, elsewhere);
    asm.jump_if(Jump::Gt, R2, SEGMENT_END, elsewhere);
}

/// Writes the sum's complement if the whole segment was summed. If the complement is 0, writes 0xffff, since in UDP a 0
/// means that there is no checksum.
fn write(asm: &mut Assembler, done: Label) {
    asm.jump_if(Jump::Ne, AT, SEGMENT_END, done);
    asm.load(Size::B8, R0, R10, SUM);
    fold(asm, R0);
    asm.alu_imm(Alu::Xor, R0, 0xffff);
    let is_number = asm.label();
    asm.jump_if_imm(Jump::Ne, R0, 0, is_number);
    asm.mov_imm(R0, 0xffff);
    asm.place(is_number);
    at_field(asm, R2, done);
    asm.store(Size::B2, R2, 0, R0);
}

#[cfg(test)]
mod tests {
    use bpf::{Program, ProgramConfig, ProgramKind, Verdict};
    use packet_io::offload::complete_partial_checksum;
    use testkit::namespace::may_use_bpf;

    use super::*;

    /// Loads a program that completes checksums and passes every frame. Returns `None` if we may not load programs into
    /// the kernel.
    fn program() -> Option<Program> {
        if !may_use_bpf() {
            return None;
        }
        let mut asm = Assembler::default();
        asm.mov_imm(R0, 2);
        asm.exit();
        let mut instructions = finishing().expect("short jumps");
        instructions.extend(asm.finish().expect("no jumps").instructions);
        let loaded = Program::load(&ProgramConfig {
            name: "test",
            kind: ProgramKind::Xdp,
            has_fragments: false,
            instructions: &instructions,
        });
        Some(loaded.expect("the verifier takes it"))
    }

    /// Makes a frame with a segment of `n_bytes`, usually with an unfinished checksum.
    fn frame(random: &mut fastrand::Rng, is_ipv6: bool, is_tcp: bool, n_bytes: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for _ in 0..random.usize(0..3) {
            frame.extend([0x81, 0x00, 0, 5]);
        }
        let protocol = if is_tcp { 6 } else { 17 };
        let address_bytes = if is_ipv6 { 16 } else { 4 };
        let addresses: Vec<u8> = (0..2 * address_bytes).map(|_| random.u8(..)).collect();
        if is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(n_bytes.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(&addresses);
        } else {
            let n_words = random.u8(5..=15);
            frame.extend([0x08, 0x00, 0x40 | n_words, 0]);
            frame.extend((n_bytes + 4 * u16::from(n_words)).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend(&addresses);
            frame.extend((20..4 * n_words).map(|_| random.u8(..)));
        }
        let segment = frame.len();
        frame.extend((0..n_bytes).map(|_| random.u8(..)));
        let field = segment + if is_tcp { 16 } else { 6 };
        if random.u8(0..8) > 0 && field + 2 <= frame.len() {
            let mut sum = u64::from(n_bytes) + u64::from(protocol);
            for pair in addresses.chunks(2) {
                sum += u64::from(pair[0]) << 8 | u64::from(pair[1]);
            }
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            frame[field..field + 2].copy_from_slice(&(sum as u16).to_be_bytes());
        }
        frame.extend((0..random.usize(0..9)).map(|_| 0));
        frame.resize(frame.len().max(60), 0);
        frame
    }

    #[test]
    fn checksums_are_finished_as_a_port_finishes_them() {
        let Some(program) = program() else {
            return;
        };
        // The code must have few paths, because the verifier goes through the program that follows this code once for
        // each path.
        assert!(program.n_verified() < 10_000, "{}", program.n_verified());
        let mut random = fastrand::Rng::with_seed(1);
        let mut n_finished = 0;
        for round in 0..4000_u16 {
            let n_bytes = match round {
                0..1600 => round,
                _ => random.u16(0..3300),
            };
            let is_ipv6 = random.bool();
            let frame = frame(&mut random, is_ipv6, round % 3 == 0, n_bytes);
            let mut expected = frame.clone();
            n_finished += usize::from(complete_partial_checksum(&mut expected));
            let run = program.test_run(&frame, 1).expect("it runs");
            assert_eq!(run.verdict, Verdict::Pass);
            assert!(
                run.frame == expected,
                "round {round}, {n_bytes} bytes: {frame:02x?}"
            );
        }
        assert!(n_finished > 2000, "{n_finished}");
    }
}
