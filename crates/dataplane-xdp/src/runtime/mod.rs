//! An image in the kernel: its maps, its programs on the ports, and what they count.

mod grace;
mod groups;
mod index;
mod maps;
mod prefixes;
mod ranges;
mod table;
mod told;
pub mod transmit;
mod writer;

/// Instructions as bpf(2) takes them.
pub(crate) fn to_kernel(instructions: &[crate::asm::Instruction]) -> Vec<bpf::Instruction> {
    let instructions = instructions.iter();
    let to_kernel = |it: &crate::asm::Instruction| bpf::Instruction {
        code: it.code,
        registers: it.registers,
        offset: it.offset,
        immediate: it.immediate,
    };
    instructions.map(to_kernel).collect()
}
