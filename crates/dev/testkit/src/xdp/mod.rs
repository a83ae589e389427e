//! Tests the kernel engine in two ways. The kernel engine is an offload that forwards packets with XDP programs in the
//! kernel. First, `BPF_PROG_TEST_RUN` runs the kernel engine's programs on given frames, and the results are compared
//! with the results of the interpreter. Second, a switch with the kernel engine runs on real veth pairs.

pub mod beside;
pub mod by_hand;
pub mod cable;
pub mod checked;
pub mod conference;
pub mod counts;
pub mod kernel;
pub mod packets;
pub mod sfu;

use std::path::Path;

/// Compiles and loads a P4 program.
pub fn program_at(path: &Path) -> Result<dataplane::Program, String> {
    stf::load(path, &p4_compiler::Options::default()).map_err(|error| error.to_string())
}
