//! The functions of a program: made, finished, and freed with the program.
#![expect(unsafe_code, reason = "addresses of finished code become functions")]

use cranelift_codegen::{
    ir::{AbiParam, InstBuilder, Type, types},
    settings::{self, Configurable},
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use dataplane::{
    Program,
    engine::{
        Interpreted,
        ir::{Ir, Primitive},
    },
};

use super::{checksum, code::Code, deparser, parser};
use crate::{CompileError, context::PassContext, layout::Layout};

/// A pass's code over its context and the packet's block.
pub(crate) type Control = unsafe extern "C" fn(*mut PassContext, *mut u64);
/// The same with a result.
pub(crate) type Verification = unsafe extern "C" fn(*mut PassContext, *mut u64) -> u64;
/// The deparser: the third is where it writes; gives how many bytes.
pub(crate) type Deparse = unsafe extern "C" fn(*mut PassContext, *mut u64, *mut u8) -> u64;

/// A program's code for frames.
pub(crate) struct FrameCode {
    pub parse: Control,
    /// None where no checksum is verified.
    pub verify: Option<Verification>,
    /// Checksum update and deparser.
    pub deparse: Deparse,
    pub interpreted: Vec<Interpreted>,
    /// The code's memory; given back on dropping.
    module: Option<JITModule>,
    /// Primitives that stand in no program, which the code points to.
    #[expect(clippy::vec_box, reason = "the code has their addresses")]
    _made: Vec<Box<Primitive>>,
    /// Keeps what the code points to.
    _program: Program,
}

impl FrameCode {
    /// Compiles the parser, the checksums and the deparser.
    pub(crate) fn new(program: &Program, layout: &Layout) -> Result<Self, CompileError> {
        let ir = program.ir();
        let mut module = new_module()?;
        let mut notes = Notes::default();
        let mut writer = Writer {
            module: &mut module,
            ir,
            layout,
            notes: &mut notes,
        };
        let parse = writer.function("parse", 2, false, |code| {
            parser::emit(code);
            None
        })?;
        let is_verified = ir.checksums.iter().any(|checksum| checksum.verify);
        let verify = match is_verified {
            true => Some(writer.function("verify", 2, true, |code| {
                Some(checksum::emit_verification(code))
            })?),
            false => None,
        };
        let deparse = writer.function("deparse", 3, true, |code| {
            checksum::emit_update(code);
            let out = code.parameter(2);
            Some(deparser::emit(code, out))
        })?;
        module.finalize_definitions()?;
        let address = |function| module.get_finalized_function(function);
        // SAFETY: the functions were written with these parameters and results.
        let (parse, verify, deparse) = unsafe {
            (
                std::mem::transmute::<*const u8, Control>(address(parse)),
                verify
                    .map(|verify| std::mem::transmute::<*const u8, Verification>(address(verify))),
                std::mem::transmute::<*const u8, Deparse>(address(deparse)),
            )
        };
        Ok(Self {
            parse,
            verify,
            deparse,
            interpreted: notes.interpreted,
            module: Some(module),
            _made: notes.made,
            _program: program.clone(),
        })
    }
}

impl Drop for FrameCode {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the functions are fields of this struct, which is going; nobody runs them.
            unsafe { module.free_memory() };
        }
    }
}

fn new_module() -> Result<JITModule, CompileError> {
    let machine = |error: &dyn std::fmt::Display| CompileError::Machine(error.to_string());
    let mut flags = settings::builder();
    let settings = [
        ("opt_level", "speed"),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        (
            "enable_verifier",
            if cfg!(debug_assertions) {
                "true"
            } else {
                "false"
            },
        ),
    ];
    for (name, value) in settings {
        flags.set(name, value).map_err(|error| machine(&error))?;
    }
    let isa = cranelift_native::builder().map_err(|error| machine(&error))?;
    let isa = isa
        .finish(settings::Flags::new(flags))
        .map_err(|error| machine(&error))?;
    Ok(JITModule::new(JITBuilder::with_isa(
        isa,
        default_libcall_names(),
    )))
}

/// What comes up while code is written.
#[derive(Default)]
pub(crate) struct Notes {
    pub interpreted: Vec<Interpreted>,
    /// Primitives that stand in no program. In boxes: the code has their addresses.
    #[expect(clippy::vec_box, reason = "the code has their addresses")]
    pub made: Vec<Box<Primitive>>,
}

struct Writer<'a> {
    module: &'a mut JITModule,
    ir: &'a Ir,
    layout: &'a Layout,
    notes: &'a mut Notes,
}

impl Writer<'_> {
    /// Writes a function of so many words.
    fn function(
        &mut self,
        name: &str,
        n_parameters: usize,
        has_result: bool,
        write: impl FnOnce(&mut Code<'_>) -> Option<cranelift_codegen::ir::Value>,
    ) -> Result<FuncId, CompileError> {
        let mut context = self.module.make_context();
        let word: Type = types::I64;
        context.func.signature.params = vec![AbiParam::new(word); n_parameters];
        if has_result {
            context.func.signature.returns = vec![AbiParam::new(word)];
        }
        let mut builder_context = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let parameters = builder.block_params(entry).to_vec();
        let isa = self.module.isa();
        let frontend = isa.frontend_config();
        let mut code = Code::new(builder, self.ir, self.layout, self.notes, parameters);
        let result = write(&mut code);
        let mut builder = code.into_builder();
        builder.ins().return_(result.as_slice());
        builder.seal_all_blocks();
        builder.finalize(frontend);
        let signature = &context.func.signature;
        let id = self
            .module
            .declare_function(name, Linkage::Local, signature)?;
        self.module.define_function(id, &mut context)?;
        self.module.clear_context(&mut context);
        Ok(id)
    }
}
