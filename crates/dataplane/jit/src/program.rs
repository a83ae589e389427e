//! A compiled program: machine code, and the data that it runs on.
#![expect(unsafe_code, reason = "machine code is called, and freed")]

use dataplane::engine::{Interpreted, State};

use crate::{
    CompileError, NativeOptions,
    blank::Blanks,
    compile::{Code, Finished, Listing, Unit},
    context::PassContext,
    flow::Capacity,
    frames::{FrameCode, Frames, Sums},
    layout::Layout,
    packing::Packing,
    passes::{self, PassCode, Passes},
    runtime::{INGRESS_FLOW, Runtime},
};

/// A generated function. It takes the pass's context and the packet's block (header vector).
pub(crate) type Function = unsafe extern "C" fn(*mut PassContext, *mut u8);

pub struct NativeProgram {
    /// The data that the code uses besides the context.
    pub runtime: Box<Runtime>,
    pub(crate) passes: PassCode,
    /// Whether frames are parsed ahead and their flow records prefetched.
    pub(crate) is_prefetched: bool,
    pub(crate) ingress: Function,
    pub(crate) frames: FrameCode,
    explained: Vec<Interpreted>,
    /// Owns the memory of the functions.
    code: Code,
}

impl NativeProgram {
    /// Compiles the program to which a switch's state belongs.
    ///
    /// # Errors
    /// [`CompileError`] if Cranelift cannot generate code for this machine.
    pub fn compile(state: &mut State, options: NativeOptions) -> Result<Self, CompileError> {
        Ok(Self::compile_with(state, options, None)?.0)
    }

    /// The functions of a state's program by name, as Cranelift's IR before optimisation. The text is the same on every
    /// machine, because it has names instead of addresses.
    ///
    /// # Errors
    /// The same as for [`NativeProgram::compile`].
    pub fn listing(
        state: &mut State,
        options: NativeOptions,
    ) -> Result<Vec<(String, String)>, CompileError> {
        Ok(Self::compile_with(state, options, Some(Listing::default()))?.1)
    }

    fn compile_with(
        state: &mut State,
        options: NativeOptions,
        listing: Option<Listing>,
    ) -> Result<(Self, Vec<(String, String)>), CompileError> {
        let program = state.program().clone();
        let ir = program.ir();
        let packing = Packing::choose(ir, options);
        let blanks = Blanks::of(ir, options);
        let layout = Layout::with(ir, &packing, &blanks, Sums::of(ir, options).len());
        let mut unit = Unit::new(&program, &layout, options)?;
        unit.listing = listing;
        let frames = Frames::define(&mut unit)?;
        let is_prefetched = passes::may_prefetch(&unit, &frames);
        let capacity = if is_prefetched {
            Capacity::Prefetched
        } else {
            Capacity::Near
        };
        let ingress = unit.define("ingress", |emit| emit.control(ir.ingress, capacity))?;
        let prefetched = (is_prefetched && !unit.flows.is_empty()).then_some(INGRESS_FLOW);
        let egress = unit.define("egress", |emit| emit.control(ir.egress, Capacity::Near))?;
        let parts = passes::Parts {
            parse: frames.parse,
            verify: frames.verify,
            ingress,
            prefetched,
            egress,
            deparse: frames.deparse,
            reparse: frames.reparse.as_ref().map(|reparse| reparse.parse),
        };
        let passes = Passes::define(&mut unit, &parts)?;
        let listing = unit.listing.take();
        let Finished {
            code,
            constructs,
            explained,
            flows,
        } = unit.finish()?;
        let program = Self {
            passes: passes.code(&code),
            is_prefetched: prefetched.is_some(),
            // SAFETY: the function was written with these parameters.
            ingress: unsafe { code.function(ingress) },
            frames: frames.code(&code),
            explained,
            runtime: Box::new(Runtime::new(state, layout, constructs, flows)),
            code,
        };
        Ok((program, listing.unwrap_or_default().functions))
    }

    /// Points a context to the runtime and to the state.
    pub(crate) fn attach(&mut self, context: &mut PassContext, state: &mut State) {
        self.runtime.attach(context, state);
    }

    /// The constructs left to the interpreter, and why.
    pub fn explain(&self) -> &[Interpreted] {
        &self.explained
    }

    pub fn layout(&self) -> &Layout {
        self.runtime.layout()
    }

    /// Runs only the ingress control over a packet's block, without parser and deparser.
    ///
    /// # Panics
    /// The block is shorter than the layout, or the program was compiled for another state.
    ///
    /// # Safety
    /// The context's `head` and `payload` point to as many bytes as the context says. The bytes live,
    /// and nobody writes them, until this returns. The context's `packets` is null or points to an
    /// engine's packets.
    pub unsafe fn ingress(
        &mut self,
        context: &mut PassContext,
        state: &mut State,
        block: &mut [u64],
    ) {
        assert!(
            size_of_val(block) >= self.runtime.layout().size(),
            "a block of {} words is too short for the layout",
            block.len()
        );
        self.runtime.attach(context, state);
        // SAFETY: the code was generated for this layout, the block is long enough, the context
        // leads to the runtime and to the state, which nobody else uses until it returns, and, as the
        // caller promises, to a frame.
        unsafe { (self.ingress)(context, block.as_mut_ptr().cast()) }
    }
}

impl Drop for NativeProgram {
    fn drop(&mut self) {
        if let Some(module) = self.code.take() {
            // SAFETY: the functions of the module are called through `self` only.
            unsafe { module.free_memory() };
        }
    }
}
