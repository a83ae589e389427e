//! Shared parts of the runtime's tests.

use std::io;
use std::path::Path;

use bpf::{Program, ProgramConfig, ProgramKind};

use crate::asm::{Assembler, reg::R0};
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

/// Whether the kernel lets us; if not, prints that nothing was tested.
pub(super) fn may_use_bpf() -> bool {
    let error = passing().err().map(|error| error.kind());
    let may = error != Some(io::ErrorKind::PermissionDenied);
    if !may {
        // Bypasses the test harness, which would swallow the message.
        let said = b"NOT TESTED: bpf(2) needs root outside any user namespace\n";
        io::Write::write_all(&mut io::stderr(), said).expect("standard error");
    }
    may
}
