//! Tests the kernel engine, an offload that forwards with XDP programs in the kernel, in two ways. `BPF_PROG_TEST_RUN`
//! runs the kernel engine's programs on given frames, and the results are compared with the interpreter's. A switch
//! with the kernel engine runs on real veth pairs.

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
