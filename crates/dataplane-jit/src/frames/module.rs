//! The functions of a program that are about frames.
#![expect(unsafe_code, reason = "addresses of finished code become functions")]

use cranelift_codegen::ir::types;
use cranelift_module::FuncId;

use super::{checksum, deparser, digest, parser};
use crate::{
    CompileError,
    compile::{Code, Unit},
    context::PassContext,
};

/// The parser, over its context and the packet's block.
pub(crate) type Parse = unsafe extern "C" fn(*mut PassContext, *mut u64);
/// Checksum verification: 1 where every checksum is right, else 0.
pub(crate) type Verify = unsafe extern "C" fn(*mut PassContext, *mut u64) -> u64;
/// The deparser: the third is where it writes; gives how many bytes.
pub(crate) type Deparse = unsafe extern "C" fn(*mut PassContext, *mut u64, *mut u8) -> u64;

/// A program's code for frames; lives as long as the program's code does.
#[derive(Clone, Copy)]
pub(crate) struct FrameCode {
    pub parse: Parse,
    /// None where no checksum is verified.
    pub verify: Option<Verify>,
    /// Checksum update and deparser.
    pub deparse: Deparse,
}

/// The same before it has addresses.
pub(crate) struct Frames {
    parse: FuncId,
    verify: Option<FuncId>,
    deparse: FuncId,
}

impl Frames {
    /// Writes the functions of a program.
    pub(crate) fn define(unit: &mut Unit<'_>) -> Result<Self, CompileError> {
        let ir = unit.program.ir();
        let parse = unit.define("parse", |emit| parser::emit(emit))?;
        let is_verified = ir.checksums.iter().any(|checksum| checksum.verify);
        let verify = match is_verified {
            true => Some(unit.define_with("verify", 0, Some(types::I64), |emit, _| {
                Some(checksum::emit_verification(emit))
            })?),
            false => None,
        };
        let deparse = unit.define_with("deparse", 1, Some(types::I64), |emit, more| {
            checksum::emit_update(emit);
            let out = more.first().copied()?;
            Some(deparser::emit(emit, out))
        })?;
        unit.explained.extend(digest::interpreted(ir));
        Ok(Self {
            parse,
            verify,
            deparse,
        })
    }

    /// The finished functions.
    pub(crate) fn code(&self, code: &Code) -> FrameCode {
        // SAFETY: the functions were written with these parameters and results.
        unsafe {
            FrameCode {
                parse: std::mem::transmute::<*const u8, Parse>(code.address(self.parse)),
                verify: self
                    .verify
                    .map(|verify| std::mem::transmute::<*const u8, Verify>(code.address(verify))),
                deparse: std::mem::transmute::<*const u8, Deparse>(code.address(self.deparse)),
            }
        }
    }
}
