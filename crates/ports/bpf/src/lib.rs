//! Safe functions around bpf(2): maps, programs with the verifier's messages, test runs and links, and an eBPF
//! assembler.
//!
//! Programs are assembled in this process: no ELF file, no C library and no BPF compiler is needed. RFC 9669 defines
//! the instructions, Linux (`linux/bpf.h`) defines the maps and helper functions.
//!
//! Every object lives as long as a file descriptor of the object is open. When a process ends, however it ends, the
//! kernel detaches the process's programs from their interfaces and frees the programs and their maps. Only pinned
//! objects stay ([`Link::pin`], [`Map::pin`], [`Program::pin`]).

pub mod asm;
mod grace;
mod instruction;
mod link;
mod map;
mod memory;
mod pin;
mod processors;
mod program;
mod ring;
mod sys;
mod test_run;

pub use grace::{is_realtime, kernel_clock_ns, wait_for_programs};
pub use instruction::{Instruction, MapReference};
pub use link::{AttachMode, Link};
pub use map::{Batch, Map, MapConfig, MapKind, Write};
pub use memory::Memory;
pub use pin::is_bpf_folder;
pub use processors::n_possible_processors;
pub use program::{Program, ProgramConfig, ProgramKind};
pub use ring::RingBuffer;
pub use test_run::{TestRun, Verdict};
