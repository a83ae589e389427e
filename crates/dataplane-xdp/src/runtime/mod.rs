//! An image in the kernel: its maps, its programs on the ports, and what they count.

mod counts;
mod grace;
mod groups;
mod index;
mod loaded;
mod maps;
mod offload;
mod prefixes;
mod ranges;
mod table;
mod told;
pub mod transmit;
mod writer;

pub use offload::{KernelOffload, KernelPort};

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
