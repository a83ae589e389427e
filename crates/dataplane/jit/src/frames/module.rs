//! A program's generated functions that handle frames.
#![expect(unsafe_code, reason = "addresses of finished code become functions")]

use cranelift_codegen::ir::types;
use cranelift_module::FuncId;
use dataplane::engine::ir::{Algorithm, Ir, ParserOp, Primitive};

use super::{checksum, deparser, digest, parser};
use crate::{
    CompileError,
    compile::{Code, Unit},
    context::PassContext,
};

/// The parser. Takes the context and the packet's block (header vector).
pub(crate) type Parse = unsafe extern "C" fn(*mut PassContext, *mut u64);
/// The deparser. Its third parameter is the address to which it writes the headers. It returns the number of bytes.
pub(crate) type Deparse = unsafe extern "C" fn(*mut PassContext, *mut u64, *mut u8) -> u64;

/// Updates checksums, and returns how many bytes of headers the deparser would write.
pub(crate) type Measure = unsafe extern "C" fn(*mut PassContext, *mut u64) -> u64;

/// The functions of [`Reparse`] that the engine calls, with their addresses.
#[derive(Clone, Copy)]
pub(crate) struct ReparseCode {
    pub measure: Measure,
    /// Writes the headers as bytes, if this turns out to be necessary after `measure` has run.
    pub write: Deparse,
}

/// The addresses of a program's functions for frames; valid as long as the program's code lives.
#[derive(Clone, Copy)]
pub(crate) struct FrameCode {
    pub parse: Parse,
    /// Checksum update and deparser.
    pub deparse: Deparse,
    /// `None` if fan-out fusion is off, if the program never recirculates, or if no packet can be parsed from its
    /// block.
    pub reparse: Option<ReparseCode>,
}

/// A program's functions for frames before they have addresses.
pub(crate) struct Frames {
    pub parse: FuncId,
    /// Returns 1 if every checksum is right, else 0. `None` if no checksum is verified.
    pub verify: Option<FuncId>,
    /// Whether parser and verification keep no state between packets.
    pub is_stateless: bool,
    pub deparse: FuncId,
    pub reparse: Option<Reparse>,
}

/// Functions for a recirculated packet whose headers stay in its block (header vector) and do not become bytes.
pub(crate) struct Reparse {
    measure: FuncId,
    /// The parser of headers in a block. Takes the context, the new block and the old block; returns
    /// 0 if the headers must become bytes.
    pub parse: FuncId,
    write: FuncId,
}

impl Reparse {
    fn define(unit: &mut Unit<'_>) -> Result<Option<Self>, CompileError> {
        let ir = unit.program.ir();
        let primitives = ir.actions.iter().flat_map(|action| &action.primitives);
        let recirculates = |primitive: &Primitive| matches!(primitive, Primitive::Recirculate(_));
        let is_worth = unit.options.fanout_fusion && primitives.clone().any(recirculates);
        if !is_worth || !parser::is_reparse_possible(ir) {
            return Ok(None);
        }
        // The report lists constructs left to the interpreter only once, though their code is generated again here.
        let n_explained = unit.explained.len();
        let measure = unit.define_with("measure", 0, Some(types::I64), |emit, _| {
            checksum::emit_update(emit);
            deparser::prepare(emit);
            Some(deparser::len(emit))
        })?;
        unit.explained.truncate(n_explained);
        let parse = unit.define_with("reparse", 1, Some(types::I64), |emit, more| {
            let old = more.first().copied()?;
            Some(parser::emit_reparse(emit, old))
        })?;
        unit.explained.truncate(n_explained);
        let write = unit.define_with("write", 1, Some(types::I64), |emit, more| {
            let out = more.first().copied()?;
            Some(deparser::headers(emit, out))
        })?;
        Ok(Some(Self {
            measure,
            parse,
            write,
        }))
    }

    fn code(&self, code: &Code) -> ReparseCode {
        // SAFETY: the functions were written with these parameters and results.
        unsafe {
            ReparseCode {
                measure: code.function(self.measure),
                write: code.function(self.write),
            }
        }
    }
}

/// Whether the parser does more than extract, assign and skip.
fn has_primitives(ir: &Ir) -> bool {
    let mut ops = ir.parser.states.iter().flat_map(|state| &state.ops);
    ops.any(|op| matches!(op, ParserOp::Primitive(_)))
}

/// Whether the verification of a checksum uses the switch's random number generator.
fn draws_to_verify(ir: &Ir) -> bool {
    let mut verified = ir.checksums.iter().filter(|checksum| checksum.verify);
    verified.any(|checksum| {
        let calculation = &ir.calculations[checksum.calculation.index()];
        calculation.algorithm == Algorithm::Random
    })
}

impl Frames {
    pub(crate) fn define(unit: &mut Unit<'_>) -> Result<Self, CompileError> {
        let ir = unit.program.ir();
        unit.touches_state = false;
        let parse = unit.define("parse", |emit| parser::emit(emit))?;
        let is_verified = ir.checksums.iter().any(|checksum| checksum.verify);
        let verify = if is_verified {
            Some(unit.define_with("verify", 0, Some(types::I64), |emit, _| {
                Some(checksum::emit_verification(emit))
            })?)
        } else {
            None
        };
        let is_stateless = !unit.touches_state && !has_primitives(ir) && !draws_to_verify(ir);
        let deparse = unit.define_with("deparse", 1, Some(types::I64), |emit, more| {
            checksum::emit_update(emit);
            let out = more.first().copied()?;
            Some(deparser::emit(emit, out))
        })?;
        let reparse = Reparse::define(unit)?;
        unit.explained.extend(digest::interpreted(ir));
        Ok(Self {
            parse,
            verify,
            is_stateless,
            deparse,
            reparse,
        })
    }

    pub(crate) fn code(&self, code: &Code) -> FrameCode {
        // SAFETY: the functions were written with these parameters and results.
        unsafe {
            FrameCode {
                parse: code.function(self.parse),
                deparse: code.function(self.deparse),
                reparse: self.reparse.as_ref().map(|reparse| reparse.code(code)),
            }
        }
    }
}
