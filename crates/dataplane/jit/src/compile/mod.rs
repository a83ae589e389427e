//! Compiles a program to machine code: the Cranelift module, and the means to write one function.
//!
//! An [`Emit`] writes one function; it knows where the context and the packet's block (its header vector,
//! [`crate::layout`]) are. The comment on a method of [`Emit`] says what the generated code does. In signatures,
//! `Block` is a basic block of Cranelift. Sibling modules add methods to [`Emit`]: expressions, primitives, controls,
//! tables. If a sibling cannot compile something, it returns an `Err` with the reason, before it generates anything
//! with an effect. The caller then leaves the whole construct (a primitive, a condition, a key) to the interpreter.
#![expect(unsafe_code, reason = "addresses of finished code become functions")]

mod arithmetic;
mod coalesce;
mod control;
mod expression;
mod flow;
mod header;
mod lanes;
mod listing;
mod packed;
mod primitive;
mod table;
mod truth;

use std::collections::HashMap;

use cranelift_codegen::{
    ir::{
        AbiParam, AliasRegion, AliasRegionData, Block, FuncRef, InstBuilder, MemFlagsData,
        Signature, Type, UserFuncName, Value, types,
    },
    settings::{self, Configurable},
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError, default_libcall_names};
use dataplane::{
    ActionId, Program,
    engine::{
        Interpreted,
        ir::{AnyStack, FieldId, HeaderId, Int, Ir, range},
    },
};
use thiserror::Error;

use crate::{
    fallback::{Construct, Interpretable},
    flow::FlowCache,
    frames,
    layout::Layout,
    options::NativeOptions,
    runtime,
};
pub(crate) use listing::Listing;

/// We let Cranelift optimise only programs with at most this many nodes and parser states. Cranelift's work on one
/// function grows faster than the size of the function: 20,000 parser states in a row took half a minute.
const OPTIMISED_NODES: usize = 8_000;

/// What the computation of an expression's range needs. The layout gives the widths of fields.
pub(crate) type Names<'p> = range::Names<'p, Layout>;

#[derive(Debug, Error)]
pub enum CompileError {
    #[error("no native code for this machine: {0}")]
    Machine(String),
    /// Code generation failed, which is a bug of ours.
    #[error("code generation failed: {0}")]
    Generation(#[from] Box<ModuleError>),
}

impl From<ModuleError> for CompileError {
    fn from(error: ModuleError) -> Self {
        Self::Generation(Box::new(error))
    }
}

/// Why one construct has no native code.
pub(crate) type Reason = String;

/// The result of generating code, or why the construct has no native code.
pub(crate) type Emitted<T = ()> = Result<T, Reason>;

/// A compilation in progress: its input, its options and its results so far.
pub(crate) struct Unit<'p> {
    pub program: &'p Program,
    pub layout: &'p Layout,
    pub options: NativeOptions,
    module: JITModule,
    imports: HashMap<&'static str, FuncId>,
    /// Whether the code so far may access state that one packet leaves for the next.
    pub touches_state: bool,
    /// The constructs left to the interpreter.
    pub constructs: Vec<Construct>,
    pub explained: Vec<Interpreted>,
    /// The flow caches of the controls. They are in boxes because the generated code contains their addresses.
    #[expect(clippy::vec_box, reason = "the code has their addresses")]
    pub flows: Vec<Box<FlowCache>>,
    /// The functions as text, if requested.
    pub listing: Option<Listing>,
}

/// Memory that generated code touches; different regions never overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Region {
    /// The packet's block.
    Vector,
    Context,
    /// Entries of tables and pointers to arrays. No pass (a packet's way through ingress or egress) writes them.
    Entry,
    /// Registers and counters.
    State,
}

impl<'p> Unit<'p> {
    pub(crate) fn new(
        program: &'p Program,
        layout: &'p Layout,
        options: NativeOptions,
    ) -> Result<Self, CompileError> {
        let machine = |error: &dyn std::fmt::Display| CompileError::Machine(error.to_string());
        let mut flags = settings::builder();
        let verify = if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        };
        let ir = program.ir();
        let n_nodes = ir.nodes.len() + ir.parser.states.len();
        let level = if n_nodes > OPTIMISED_NODES {
            "none"
        } else {
            "speed"
        };
        for (name, value) in [
            ("opt_level", level),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("enable_probestack", "false"),
            ("enable_verifier", verify),
        ] {
            flags.set(name, value).map_err(|error| machine(&error))?;
        }
        let isa = cranelift_native::builder().map_err(|error| machine(&error))?;
        let isa = isa
            .finish(settings::Flags::new(flags))
            .map_err(|error| machine(&error))?;
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        let functions = || runtime::FUNCTIONS.iter().chain(frames::FUNCTIONS);
        for (name, address, _, _) in functions() {
            builder.symbol(*name, address.0);
        }
        let mut unit = Self {
            program,
            layout,
            options,
            module: JITModule::new(builder),
            imports: HashMap::new(),
            touches_state: false,
            constructs: Vec::new(),
            explained: Vec::new(),
            flows: Vec::new(),
            listing: None,
        };
        for (name, _, params, returns) in functions() {
            let signature = unit.signature(params, *returns);
            let id = unit
                .module
                .declare_function(name, Linkage::Import, &signature)?;
            unit.imports.insert(name, id);
        }
        Ok(unit)
    }

    pub(crate) fn signature(&self, params: &[Type], returns: Option<Type>) -> Signature {
        let mut signature = self.module.make_signature();
        signature
            .params
            .extend(params.iter().map(|it| AbiParam::new(*it)));
        signature.returns.extend(returns.map(AbiParam::new));
        signature
    }

    /// Makes a function that takes the context and the packet's block and has no result. `body` writes the function's
    /// code and ends every basic block but the last; at the end of the last basic block, the function returns.
    pub(crate) fn define(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Emit<'_, '_, 'p>),
    ) -> Result<FuncId, CompileError> {
        self.define_with(name, 0, None, |emit, _| {
            body(emit);
            None
        })
    }

    /// Makes a function as [`Unit::define`] does, with `n_more` further parameters of a word each, and a result.
    pub(crate) fn define_with(
        &mut self,
        name: &str,
        n_more: usize,
        returns: Option<Type>,
        body: impl FnOnce(&mut Emit<'_, '_, 'p>, &[Value]) -> Option<Value>,
    ) -> Result<FuncId, CompileError> {
        let signature = self.signature(&vec![types::I64; 2 + n_more], returns);
        let id = self
            .module
            .declare_function(name, Linkage::Local, &signature)?;
        let mut context = self.module.make_context();
        context.func.signature = signature;
        context.func.name = UserFuncName::user(0, id.as_u32());
        let mut frontend = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let parameters = builder.block_params(entry).to_vec();
        let (pass, vector) = (parameters[0], parameters[1]);
        let regions = std::array::from_fn(|number| {
            builder.func.dfg.alias_regions.insert(AliasRegionData {
                user_id: u32::try_from(number).expect("a program has fewer than 2^32 functions"),
                description: "".into(),
            })
        });
        let config = self.module.target_config();
        let mut emit = Emit {
            b: builder,
            unit: self,
            pass,
            vector,
            regions,
            known: HashMap::new(),
            functions: HashMap::new(),
            action: None,
            args: None,
            bound: &[],
            flow: None,
            dead: Vec::new(),
            place: name.to_owned(),
        };
        let result = body(&mut emit, &parameters[2..]);
        emit.b.ins().return_(result.as_slice());
        emit.b.seal_all_blocks();
        emit.b.finalize(config);
        if let Some(listing) = &mut self.listing {
            listing.add(name, &context.func, &self.module);
        }
        self.module.define_function(id, &mut context)?;
        Ok(id)
    }

    /// Ends code generation; from then on functions have addresses.
    pub(crate) fn finish(mut self) -> Result<Finished, CompileError> {
        self.module.finalize_definitions()?;
        let code = Code {
            module: Some(self.module),
        };
        Ok(Finished {
            code,
            constructs: self.constructs,
            explained: self.explained,
            flows: self.flows,
        })
    }
}

pub(crate) struct Finished {
    pub code: Code,
    /// The constructs left to the interpreter.
    pub constructs: Vec<Construct>,
    /// The places and reasons of these constructs, as text for people.
    pub explained: Vec<Interpreted>,
    #[expect(clippy::vec_box, reason = "the code has their addresses")]
    pub flows: Vec<Box<FlowCache>>,
}

/// Machine code. `NativeProgram` frees the code when the program is dropped.
pub(crate) struct Code {
    module: Option<JITModule>,
}

impl Code {
    fn address(&self, function: FuncId) -> *const u8 {
        self.module.as_ref().map_or(std::ptr::null(), |module| {
            module.get_finalized_function(function)
        })
    }

    /// Returns the address of a function as a function pointer.
    ///
    /// # Safety
    /// `F` is a function pointer with the parameters and the result that the function was written with.
    pub(crate) unsafe fn function<F: Copy>(&self, function: FuncId) -> F {
        const { assert!(size_of::<F>() == size_of::<*const u8>()) };
        // SAFETY: both types are pointers, and the caller guarantees that `F` fits the function.
        unsafe { std::mem::transmute_copy(&self.address(function)) }
    }

    pub(crate) fn take(&mut self) -> Option<JITModule> {
        self.module.take()
    }
}

/// Words of fields whose values are in processor registers.
pub(crate) type Known = HashMap<(FieldId, usize), Value>;

/// A function that is being written.
pub(crate) struct Emit<'f, 'u, 'p> {
    pub b: FunctionBuilder<'f>,
    pub unit: &'u mut Unit<'p>,
    /// The pass's context.
    pub pass: Value,
    /// The packet's block.
    pub vector: Value,
    regions: [AliasRegion; 4],
    /// Words of fields whose values are in processor registers at this point of the current basic block.
    known: Known,
    functions: HashMap<&'static str, FuncRef>,
    pub action: Option<ActionId>,
    /// The address of the entry whose words hold the arguments of the running action, if it runs for an entry.
    args: Option<Value>,
    /// The arguments of the running action, if it is a table's constant default action; otherwise empty.
    bound: &'p [Int],
    /// The packet's record in the control's flow cache, if the control has a cache.
    flow: Option<flow::Flow>,
    /// Fields that the current primitive need not write: a later primitive writes them before anything reads them.
    dead: Vec<FieldId>,
    /// The place in the P4 program that is being compiled. Reports of constructs left to the interpreter name it.
    pub place: String,
}

fn offset32(offset: u32) -> i32 {
    i32::try_from(offset).expect("a packet's state has fewer than 2^31 bytes")
}

impl<'p> Emit<'_, '_, 'p> {
    pub(crate) fn ir(&self) -> &'p Ir {
        self.unit.program.ir()
    }

    pub(crate) fn layout(&self) -> &'p Layout {
        self.unit.layout
    }

    pub(crate) fn names(&self) -> Names<'p> {
        let program = self.unit.program;
        Names {
            ir: program.ir(),
            widths: self.unit.layout,
            action: self.action.and_then(|action| program.action_info(action)),
        }
    }

    fn flags(&self, region: Region) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.regions[region as usize]))
    }

    pub(crate) fn load(&mut self, ty: Type, region: Region, base: Value, offset: u32) -> Value {
        let flags = self.flags(region);
        self.b.ins().load(ty, flags, base, offset32(offset))
    }

    pub(crate) fn store(&mut self, region: Region, value: Value, base: Value, offset: u32) {
        let flags = self.flags(region);
        self.b.ins().store(flags, value, base, offset32(offset));
    }

    pub(crate) fn load_vector(&mut self, ty: Type, offset: u32) -> Value {
        self.load(ty, Region::Vector, self.vector, offset)
    }

    pub(crate) fn store_vector(&mut self, value: Value, offset: u32) {
        self.store(Region::Vector, value, self.vector, offset);
    }

    /// Loads a 32-bit number from the packet's block and extends it to 64 bits.
    fn load_number(&mut self, offset: u32) -> Value {
        let number = self.load_vector(types::I32, offset);
        self.b.ins().uextend(types::I64, number)
    }

    /// Stores the lowest 32 bits of `number` in the packet's block.
    fn store_number(&mut self, number: Value, offset: u32) {
        let number = self.b.ins().ireduce(types::I32, number);
        self.store_vector(number, offset);
    }

    pub(crate) fn load_context(&mut self, ty: Type, offset: usize) -> Value {
        let offset = u32::try_from(offset).expect("an offset in a block of memory");
        self.load(ty, Region::Context, self.pass, offset)
    }

    pub(crate) fn store_context(&mut self, value: Value, offset: usize) {
        let offset = u32::try_from(offset).expect("an offset in a block of memory");
        self.store(Region::Context, value, self.pass, offset);
    }

    pub(crate) fn constant(&mut self, value: u64) -> Value {
        self.b.ins().iconst(types::I64, value.cast_signed())
    }

    /// Gives the address of an object as a constant. The object must stay in place as long as the code exists. Listings
    /// show `name` instead of the address.
    pub(crate) fn address<T>(&mut self, of: *const T, name: &'static str) -> Value {
        let address = of as usize as u64;
        if let Some(listing) = &mut self.unit.listing {
            listing.names.insert(address, name);
        }
        self.constant(address)
    }

    pub(crate) fn constant32(&mut self, value: u32) -> Value {
        self.b.ins().iconst(types::I32, i64::from(value))
    }

    pub(crate) fn blocks<const N: usize>(&mut self) -> [Block; N] {
        std::array::from_fn(|_| self.b.create_block())
    }

    /// Switches to a block and forgets cached field values.
    pub(crate) fn begin(&mut self, block: Block) {
        self.forget();
        self.b.switch_to_block(block);
    }

    /// The cached field values at this point.
    pub(crate) fn known(&self) -> Known {
        self.known.clone()
    }

    /// Switches to a block that is reached only from a point where the words in `known` are in processor registers.
    /// Between that point and the block, nothing may write the fields that these words belong to.
    pub(crate) fn begin_knowing(&mut self, block: Block, known: Known) {
        self.known = known;
        self.b.switch_to_block(block);
    }

    /// Switches to a block that is reached only from here; cached field values stay valid.
    pub(crate) fn begin_inner(&mut self, block: Block) {
        self.b.switch_to_block(block);
    }

    pub(crate) fn jump(&mut self, block: Block) {
        self.b.ins().jump(block, &[]);
    }

    pub(crate) fn branch(&mut self, condition: Value, yes: Block, no: Block) {
        self.b.ins().brif(condition, yes, &[], no, &[]);
    }

    /// Forgets cached field values, since any field may have been written.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// Calls a function of the runtime. The function may write the packet's block.
    pub(crate) fn call(&mut self, name: &'static str, args: &[Value]) -> Option<Value> {
        let result = self.call_outside(name, args);
        self.forget();
        result
    }

    /// Calls a function of the runtime as `call` does, and returns its result.
    pub(crate) fn value_of(&mut self, name: &'static str, args: &[Value]) -> Value {
        self.call(name, args).expect("it gives a value")
    }

    /// Calls a function of the runtime with the context, the packet's block and the further arguments `more`.
    pub(crate) fn call_on_block(&mut self, name: &'static str, more: &[Value]) -> Option<Value> {
        let args = [&[self.pass, self.vector], more].concat();
        self.call(name, &args)
    }

    /// Calls a function of the runtime as `call_on_block` does, and returns its result.
    pub(crate) fn ask(&mut self, name: &'static str, more: &[Value]) -> Value {
        self.call_on_block(name, more).expect("it gives a value")
    }

    /// Calls a function of the runtime that does not write the packet's block.
    pub(crate) fn call_outside(&mut self, name: &'static str, args: &[Value]) -> Option<Value> {
        let function = match self.functions.get(name) {
            Some(function) => *function,
            None => {
                let id = self.unit.imports[name];
                let function = self.unit.module.declare_func_in_func(id, self.b.func);
                self.functions.insert(name, function);
                function
            }
        };
        let call = self.b.ins().call(function, args);
        self.b.inst_results(call).first().copied()
    }

    /// Calls another function of the program with the context and block of this function and the further arguments
    /// `more`. Forgets cached field values, since the other function may have written the fields.
    pub(crate) fn call_inside(&mut self, function: FuncId, more: &[Value]) -> Option<Value> {
        let function = self.unit.module.declare_func_in_func(function, self.b.func);
        let args = [&[self.pass, self.vector], more].concat();
        let call = self.b.ins().call(function, &args);
        self.known.clear();
        self.b.inst_results(call).first().copied()
    }

    /// Loads a word of a field. If the field has fewer words, gives the word that extends the field's value: 0, or
    /// copies of the sign bit if the field is signed.
    pub(crate) fn field_word(&mut self, field: FieldId, word: usize) -> Value {
        let slot = self.layout().field(field);
        let words = slot.words as usize;
        if word >= words {
            if !slot.signed {
                return self.constant(0);
            }
            let top = self.field_word(field, words - 1);
            return self.b.ins().sshr_imm_u(top, 63);
        }
        if let Some(value) = self.known.get(&(field, word)) {
            return *value;
        }
        let value = match slot.packed {
            Some(_) => self.packed_word(slot, word),
            None => {
                let word = u32::try_from(word).expect("a field has a few words");
                self.load_vector(types::I64, slot.offset + 8 * word)
            }
        };
        self.know(field, word, value);
        value
    }

    /// Writes a word of a field; the value is already cut to the field's width and extended.
    pub(crate) fn put_field_word(&mut self, field: FieldId, word: usize, value: Value) {
        let slot = self.layout().field(field);
        if slot.packed.is_some() {
            self.put_packed_word(slot, word, value);
        } else {
            let offset = slot.offset + 8 * u32::try_from(word).expect("a field has a few words");
            self.store_vector(value, offset);
        }
        self.know(field, word, value);
    }

    /// Caches `value` as a word of a field, from this point of the code on.
    pub(crate) fn know(&mut self, field: FieldId, word: usize, value: Value) {
        if self.unit.options.action_specialisation {
            self.known.insert((field, word), value);
        }
    }

    /// Forgets one cached word of a field, because the code may have written the field.
    pub(crate) fn forget_word(&mut self, field: FieldId, word: usize) {
        self.known.remove(&(field, word));
    }

    /// Whether a header is valid: 0 or 1 in 8 bits.
    pub(crate) fn valid(&mut self, header: HeaderId) -> Value {
        self.load_vector(types::I8, self.layout().valid(header))
    }

    /// Writes a header's validity. If the header is in a union, the validity of the other members does not change.
    pub(crate) fn put_valid(&mut self, header: HeaderId, valid: bool) {
        let value = self.b.ins().iconst(types::I8, i64::from(valid));
        self.store_vector(value, self.layout().valid(header));
    }

    /// Loads the `nextIndex` of a stack, extended to 64 bits.
    pub(crate) fn next_index(&mut self, stack: AnyStack) -> Value {
        self.load_number(self.layout().next_index(stack))
    }

    pub(crate) fn put_next_index(&mut self, stack: AnyStack, next: Value) {
        self.store_number(next, self.layout().next_index(stack));
    }

    /// Loads the current width of a header's varbit field, extended to 64 bits.
    pub(crate) fn variable_bits(&mut self, header: HeaderId) -> Value {
        self.load_number(self.layout().variable_bits(header))
    }

    pub(crate) fn put_variable_bits(&mut self, header: HeaderId, bits: Value) {
        self.store_number(bits, self.layout().variable_bits(header));
    }

    /// Leaves a construct to the interpreter. Returns the construct's number.
    pub(crate) fn leave(&mut self, what: Interpretable, reason: Reason) -> Value {
        let number = u32::try_from(self.unit.constructs.len())
            .expect("a program has fewer than 2^32 constructs");
        self.unit.touches_state = true;
        self.unit.constructs.push(Construct {
            what,
            action: self.action,
        });
        self.unit.explained.push(Interpreted {
            place: self.place.clone(),
            reason,
        });
        self.constant32(number)
    }

    /// The address of the running action's arguments; 0 if there are no arguments.
    pub(crate) fn args_pointer(&mut self) -> Value {
        match self.args {
            Some(args) => args,
            None => self.constant(0),
        }
    }
}
