//! Functions that generated code calls, and the data that generated code shares with them: entries of tables as words,
//! pointers to arrays.
#![expect(
    unsafe_code,
    reason = "generated code hands over the pointers that the engine gave it"
)]

use cranelift_codegen::ir::{Type, types};
use dataplane::{
    ActionProfileId, CounterId, MeterId, Program, RegisterId, TableId,
    engine::{EntryAction, State, TableChange},
    interpret::{Pass, Phv},
};

use crate::{
    context::PassContext,
    fallback::{self, Construct, Interpretable},
    flow::FlowCache,
    frames,
    layout::Layout,
    packets,
    tables::{self, NativeTables},
    vector::Vector,
    wire::{BitString, Block},
};

#[derive(Clone, Copy)]
pub(crate) struct Address(pub *const u8);

// SAFETY: a function's address is a constant.
unsafe impl Sync for Address {}

/// Name, address, parameters and result of a function that generated code may call.
pub(crate) type Function = (&'static str, Address, &'static [Type], Option<Type>);

/// Makes a list of [`Function`]s from lines `name(parameters) -> result;` with Cranelift's types.
macro_rules! functions {
    (@result) => { None };
    (@result $result:ident) => { Some(types::$result) };
    ($($name:ident($($param:ident),*) $(-> $result:ident)?;)*) => {
        &[$((
            stringify!($name),
            Address($name as *const u8),
            &[$(types::$param),*],
            functions!(@result $($result)?),
        )),*]
    };
}
pub(crate) use functions;

pub(crate) const FUNCTIONS: &[Function] = functions! {
    look_up(I64, I64, I32) -> I32;
    count_hit(I64, I32, I32);
    execute_direct_meter(I64, I32, I32) -> I64;
    resolve(I64, I64, I32, I32) -> I64;
    interpret_primitive(I64, I64, I32, I64);
    interpret_condition(I64, I64, I32, I64) -> I64;
    execute_meter(I64, I32, I64) -> I64;
    random(I64, I64, I64) -> I64;
};

/// What the functions of this module need besides the context.
pub struct Runtime {
    pub(crate) program: Program,
    pub(crate) layout: Layout,
    pub(crate) constructs: Vec<Construct>,
    /// The interpreter's header vector, for the parts of a program (constructs) that the interpreter runs.
    pub(crate) phv: Phv,
    pub(crate) tables: NativeTables,
    /// Scratch memory for the input of a calculation.
    pub(crate) bits: BitString,
    /// The identity of the state that `arrays` and `table_counters` point into.
    state: u64,
    arrays: Vec<*mut u64>,
    table_counters: *mut u64,
    meters: Vec<MeterId>,
    /// In boxes because the generated code contains the addresses of the caches.
    #[expect(clippy::vec_box, reason = "the code has their addresses")]
    flows: Vec<Box<FlowCache>>,
}

// SAFETY: the pointers lead to memory of the runtime itself and of the state, which both move with
// the engine from thread to thread; nobody uses the pointers outside of a pass.
unsafe impl Send for Runtime {}

/// The number of the ingress control's flow cache, if the control has one. It is 0, because this cache is made first.
pub(crate) const INGRESS_FLOW: usize = 0;

impl Runtime {
    /// The state's arrays must stay in place as long as the program is loaded.
    #[expect(clippy::vec_box, reason = "the code has their addresses")]
    pub(crate) fn new(
        state: &mut State,
        layout: Layout,
        constructs: Vec<Construct>,
        flows: Vec<Box<FlowCache>>,
    ) -> Self {
        let program = state.program().clone();
        let ir = program.ir();
        let registers = (0..).take(ir.registers.len());
        let registers: Vec<*mut u64> = registers
            .map(|index| {
                let id = program.register(&ir.registers[index].name);
                register_pointer(state, id)
            })
            .collect();
        let counters = ir.counters.iter().map(|counter| {
            let id = program.counter(&counter.name);
            counter_pointer(state, id)
        });
        let arrays = registers.into_iter().chain(counters).collect();
        let table_counters = state.table_counters().as_mut_ptr().cast();
        let mut runtime = Self {
            flows,
            layout,
            constructs,
            phv: Phv::new(ir),
            bits: BitString::default(),
            tables: NativeTables::new(state),
            state: state.identity(),
            arrays,
            table_counters,
            meters: program.meters().map(|(id, _)| id).collect(),
            program,
        };
        runtime.forget_flows();
        runtime
    }

    /// Applies a change that a call from the control plane has made to a table.
    pub(crate) fn table_changed(
        &mut self,
        state: &mut State,
        table: TableId,
        change: TableChange<'_>,
    ) {
        self.tables.changed(state, table, change);
        self.forget_flows();
    }

    /// Applies a change that a call from the control plane has made to an action profile.
    pub(crate) fn profile_changed(&mut self, profile: ActionProfileId) {
        self.tables.profile_changed(profile);
        self.forget_flows();
    }

    /// Whether the ingress control has a flow cache that packets do not bypass at the moment.
    pub(crate) fn has_ingress_flows(&self) -> bool {
        let flow = self.flows.get(INGRESS_FLOW);
        flow.is_some_and(|flow| !flow.is_asleep())
    }

    fn forget_flows(&mut self) {
        for flow in &mut self.flows {
            flow.invalidate(&self.tables);
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Points a context to the runtime and to the state, which must be the state that the runtime was made for: the
    /// runtime has pointers to the arrays of that state.
    pub fn attach(&mut self, context: &mut PassContext, state: &mut State) {
        assert!(
            self.state == state.identity(),
            "an engine was given another state than the one it was loaded for"
        );
        context.now = state.now();
        context.arrays = self.arrays.as_ptr();
        context.table_counters = self.table_counters;
        context.tables = self.tables.records().cast();
        context.runtime = std::ptr::from_mut(self).cast();
        context.state = std::ptr::from_mut(state).cast();
    }
}

fn register_pointer(state: &mut State, id: Option<RegisterId>) -> *mut u64 {
    let words = id.and_then(|id| state.register_words(id));
    words.map_or(std::ptr::null_mut(), |words| words.as_mut_ptr())
}

fn counter_pointer(state: &mut State, id: Option<CounterId>) -> *mut u64 {
    id.map_or(std::ptr::null_mut(), |id| {
        state.counter_cells(id).as_mut_ptr().cast()
    })
}

/// The objects that a context points to.
pub(crate) struct World<'a> {
    pub context: &'a mut PassContext,
    pub runtime: &'a mut Runtime,
    pub state: &'a mut State,
}

impl World<'_> {
    /// # Safety
    /// The context was attached by [`Runtime::attach`] to a runtime and a state that live and that
    /// nobody else uses now.
    pub(crate) unsafe fn new(context: *mut PassContext) -> Self {
        // SAFETY: the caller has promised it; the three are different objects.
        unsafe {
            let context = &mut *context;
            Self {
                runtime: &mut *context.runtime.cast(),
                state: &mut *context.state.cast(),
                context,
            }
        }
    }

    fn table(&self, table: u32) -> Option<TableId> {
        self.runtime.tables.id(table as usize)
    }

    fn ingress_bytes(&self) -> usize {
        usize::try_from(self.context.ingress_bytes).expect("a usize has 64 bits")
    }
}

/// The number of the entry that a packet hits; the interpreter computes the key.
unsafe extern "C" fn look_up(context: *mut PassContext, vector: *mut u8, table: u32) -> u32 {
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let (world, vector) = unsafe { (World::new(context), Vector::new(vector)) };
    let table = world.table(table);
    tables::number_of(table.and_then(|table| fallback::look_up(world, vector, table)))
}

/// Counts a hit of an entry that the switch has reported idle to the control plane.
unsafe extern "C" fn count_hit(context: *mut PassContext, table: u32, entry: u32) {
    // SAFETY: generated code gives the context of the pass it is in.
    let world = unsafe { World::new(context) };
    if let (Some(table), Some(entry)) = (world.table(table), tables::entry_of(entry)) {
        world.state.count_hit(table, entry, world.ingress_bytes());
    }
}

/// The colour that an entry's direct meter gives.
unsafe extern "C" fn execute_direct_meter(
    context: *mut PassContext,
    table: u32,
    entry: u32,
) -> u64 {
    // SAFETY: generated code gives the context of the pass it is in.
    let world = unsafe { World::new(context) };
    let bytes = world.ingress_bytes();
    match (world.table(table), tables::entry_of(entry)) {
        (Some(table), Some(entry)) => world.state.execute_direct_meter(table, entry, bytes).into(),
        _ => 0,
    }
}

/// The words of the action to which an entry or the default action resolves, in a table with an action profile.
unsafe extern "C" fn resolve(
    context: *mut PassContext,
    vector: *mut u8,
    table: u32,
    entry: u32,
) -> *const u64 {
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let world = unsafe { World::new(context) };
    let id = world.table(table);
    let World {
        context,
        runtime,
        state,
    } = world;
    let Some(id) = id else {
        return runtime.tables.nothing();
    };
    let program = &runtime.program;
    let entry = tables::entry_of(entry);
    let action = match entry {
        Some(entry) => state.entry(id, entry).map(|view| view.action.clone()),
        None => state.default_action(id).cloned(),
    };
    let profile = program.ir().table_nodes[id.index()].profile;
    let (Some(action), Some(profile)) = (action, profile) else {
        return runtime
            .tables
            .keep_resolved(program, id, entry, None, false);
    };
    let is_choice = matches!(action, EntryAction::Group(_) | EntryAction::OneShot(_));
    let mut hash = 0;
    let selector = program.ir().action_profiles[profile.index()]
        .selector
        .as_ref();
    if let Some(selector) = selector.filter(|_| is_choice) {
        let block = Block {
            // SAFETY: generated code gives the block of the pass it is in.
            vector: unsafe { Vector::new(vector) },
            layout: &runtime.layout,
            ir: program.ir(),
        };
        // SAFETY: the engine has given the payload of the pass.
        let rest = unsafe { packets::pieces(context) };
        frames::gather(&block, &selector.input, rest, &mut runtime.bits);
        hash = state.select(profile, runtime.bits.bytes());
    }
    let call = state.resolve(profile, &action, || hash);
    let call = call.as_ref().map(|call| (call.action, &*call.args));
    let tables = &mut runtime.tables;
    tables.keep_resolved(program, id, entry, call, !is_choice)
}

/// Runs a construct ([`fallback`]) in the interpreter.
///
/// # Safety
/// Context, block and arguments are those of the running pass.
pub(crate) unsafe fn interpret(
    context: *mut PassContext,
    vector: *mut u8,
    construct: u32,
    args: *const u64,
    run: impl FnOnce(&mut Pass<'_>, &Interpretable) -> u64,
) -> u64 {
    // SAFETY: the caller has promised it.
    let (world, vector) = unsafe { (World::new(context), Vector::new(vector)) };
    // SAFETY: generated code gives the entry whose action it runs, or nothing.
    let construct = (construct, unsafe { fallback::Arguments::new(args) });
    fallback::with(world, vector, construct, run)
}

unsafe extern "C" fn interpret_primitive(
    context: *mut PassContext,
    vector: *mut u8,
    construct: u32,
    args: *const u64,
) {
    let run = |pass: &mut Pass<'_>, what: &Interpretable| {
        if let Interpretable::Primitive(primitive) = what {
            pass.primitive(primitive);
        }
        0
    };
    // SAFETY: generated code gives the context, the block and the arguments of the pass it is in.
    unsafe { interpret(context, vector, construct, args, run) };
}

unsafe extern "C" fn interpret_condition(
    context: *mut PassContext,
    vector: *mut u8,
    construct: u32,
    args: *const u64,
) -> u64 {
    let run = |pass: &mut Pass<'_>, what: &Interpretable| match what {
        Interpretable::Condition(condition) => u64::from(pass.truth(condition)),
        _ => 0,
    };
    // SAFETY: generated code gives the context, the block and the arguments of the pass it is in.
    unsafe { interpret(context, vector, construct, args, run) }
}

/// The colour that a meter gives; `u64::MAX` if there is no such meter cell.
unsafe extern "C" fn execute_meter(context: *mut PassContext, meter: u32, index: u64) -> u64 {
    // SAFETY: generated code gives the context of the pass it is in.
    let world = unsafe { World::new(context) };
    let bytes = world.ingress_bytes();
    let meter = world.runtime.meters.get(meter as usize).copied();
    let index = usize::try_from(index).expect("a usize has 64 bits");
    let color = meter.and_then(|meter| world.state.execute_meter(meter, index, bytes));
    color.map_or(u64::MAX, u64::from)
}

/// A random number in `low..=high`; `low` must not be above `high`.
unsafe extern "C" fn random(context: *mut PassContext, low: u64, high: u64) -> u64 {
    // SAFETY: generated code gives the context of the pass it is in.
    let World { state, .. } = unsafe { World::new(context) };
    state.random(low, high).unwrap_or(low)
}
