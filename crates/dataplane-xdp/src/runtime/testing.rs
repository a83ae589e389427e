//! Shared parts of the runtime's tests.

use std::io;
use std::path::Path;

use bpf::{Instruction, Program, ProgramConfig, ProgramKind};

use crate::compile::compile;
use crate::image::{Image, Room};

/// A program with tables and groups.
pub(super) fn program() -> dataplane::Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/exchange.p4");
    stf::load(&path, &p4_compiler::Options::default()).expect("a sound program")
}

pub(super) fn image() -> Image {
    compile(&program(), &Room::default()).expect("it fits")
}

/// An egress program for copies that does nothing.
pub(super) fn passing() -> io::Result<Program> {
    let instruction = |code, immediate| Instruction {
        code,
        registers: 0,
        offset: 0,
        immediate,
    };
    Program::load(&ProgramConfig {
        name: "passing",
        kind: ProgramKind::XdpDeviceMap,
        has_fragments: false,
        instructions: &[instruction(0xb7, 2), instruction(0x95, 0)],
    })
}
