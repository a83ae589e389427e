//! bpf(2) behind safe functions: maps, programs with what the verifier says of them, test runs, links.
//!
//! Programs are loaded without a loader: no ELF file, no C library, no compiler for BPF at build time.
//! What instructions mean is RFC 9669's, what maps and helpers do is Linux' (`linux/bpf.h`).
//!
//! Everything is held by a descriptor: the kernel takes a program from its interface, and frees it and its
//! maps, when the last descriptor is closed, however the process ends. Only what is pinned stays
//! ([`Link::pin`], [`Map::pin`], [`Program::pin`]).

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
