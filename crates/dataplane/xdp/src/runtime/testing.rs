//! Shared parts of the runtime's tests.

use std::io;
use std::path::Path;

use bpf::{Program, ProgramConfig, ProgramKind};

use crate::asm::{Assembler, reg::R0};
use crate::compile::compile;
use crate::image::{Image, Room};

/// Loads a program with tables and groups.
pub(super) fn program() -> dataplane::Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/exchange.p4");
    stf::load(&path, &p4_compiler::Options::default()).expect("a sound program")
}

pub(super) fn image() -> Image {
    compile(&program(), &Room::default()).expect("it fits")
}

/// Loads an egress program for copies that does nothing.
pub(super) fn passing() -> io::Result<Program> {
    let mut asm = Assembler::default();
    asm.mov_imm(R0, 2);
    asm.exit();
    let code = asm.finish().map_err(io::Error::other)?;
    Program::load(&ProgramConfig {
        name: "passing",
        kind: ProgramKind::XdpDeviceMap,
        has_fragments: false,
        instructions: &code.instructions,
    })
}
