//! What generated code calls, and what it and these functions share: entries of tables as words,
//! pointers to arrays.
#![expect(
    unsafe_code,
    reason = "generated code hands over the pointers that the engine gave it"
)]

use std::ops::Range;

use cranelift_codegen::ir::{Type, types};
use dataplane::{
    ActionInfo, CounterId, MeterId, Program, RegisterId, TableId, TableInfo,
    engine::{
        EntryAction, EntryIndex, State, TableChange,
        interpret::Phv,
        ir::{CalculationId, Int},
    },
};

use crate::{
    context::PassContext,
    fallback::{self, Construct, Interpretable},
    layout::Layout,
    lookup::{self, LookupFunction, TableIndex},
    vector::{self, Vector},
};

/// Where an entry says which of its table's actions runs: 32 bits.
pub(crate) const ENTRY_ACTION: u32 = 0;
/// Where an entry says whether it is a hit: 32 bits, 0 or 1.
pub(crate) const ENTRY_HIT: u32 = 4;
/// Where the arguments begin.
const ENTRY_ARGS: u32 = 8;
/// The action of an entry that runs nothing.
const NO_ACTION: u32 = u32::MAX;

/// An address of a function of ours.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub *const u8);

// SAFETY: a function's address is a constant.
unsafe impl Sync for Address {}

/// Name, address, parameters and result of every function that generated code may call.
pub(crate) const FUNCTIONS: &[(&str, Address, &[Type], Option<Type>)] = &[
    (
        "apply_table",
        Address(apply_table as *const u8),
        &[types::I64, types::I64, types::I32, types::I64],
        Some(types::I64),
    ),
    (
        "interpret_primitive",
        Address(interpret_primitive as *const u8),
        &[types::I64, types::I64, types::I32, types::I64],
        None,
    ),
    (
        "interpret_condition",
        Address(interpret_condition as *const u8),
        &[types::I64, types::I64, types::I32, types::I64],
        Some(types::I64),
    ),
    (
        "calculate",
        Address(calculate as *const u8),
        &[types::I64, types::I64, types::I32],
        Some(types::I64),
    ),
    (
        "execute_meter",
        Address(execute_meter as *const u8),
        &[types::I64, types::I32, types::I64],
        Some(types::I64),
    ),
    (
        "random",
        Address(random as *const u8),
        &[types::I64, types::I64, types::I64],
        Some(types::I64),
    ),
];

/// The words of a parameter in an entry, counted from the entry's beginning; none where the
/// action has no such parameter.
pub(crate) fn param_slot(action: &ActionInfo, index: usize) -> Option<Range<u32>> {
    let words = |bits: u32| bits.div_ceil(64).max(1);
    let width = action.params.get(index)?.width_bits;
    let before: u32 = action.params[..index]
        .iter()
        .map(|param| words(param.width_bits))
        .sum();
    let start = ENTRY_ARGS / 8 + before;
    Some(start..start + words(width))
}

/// A table as generated code sees it.
#[derive(Debug)]
struct NativeTable {
    id: TableId,
    /// By [`EntryIndex::index`]; empty where the entry's action is to be resolved.
    entries: Vec<Box<[u64]>>,
    n_entries: usize,
    /// What a miss runs; empty where it is to be resolved.
    default: Box<[u64]>,
    index: TableIndex,
    /// The index's function for keys of its shape.
    find: LookupFunction,
}

/// What the functions of this module need beside the context.
pub struct Runtime {
    pub(crate) program: Program,
    pub(crate) layout: Layout,
    pub(crate) constructs: Vec<Construct>,
    /// For constructs that are interpreted.
    pub(crate) phv: Phv,
    tables: Vec<NativeTable>,
    direct: Vec<*const u64>,
    arrays: Vec<*mut u64>,
    table_counters: *mut u64,
    meters: Vec<MeterId>,
    /// The entry that a profile's member was resolved to.
    resolved: Vec<u64>,
}

// SAFETY: the pointers lead to what the runtime itself and the state own, which go with the
// engine from thread to thread; nobody uses them outside of a pass.
unsafe impl Send for Runtime {}

fn words_of(out: &mut Vec<u64>, value: &Int, bits: u32) {
    let n = bits.div_ceil(64).max(1) as usize;
    out.extend(vector::words_of(value, n));
}

impl Runtime {
    /// What a state's program needs. The state's arrays keep their place as long as the program
    /// is loaded.
    pub(crate) fn new(state: &mut State, layout: Layout, constructs: Vec<Construct>) -> Self {
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
        let tables: Vec<NativeTable> = program
            .tables()
            .map(|(id, info)| {
                let index = TableIndex::new(info);
                NativeTable {
                    id,
                    entries: Vec::new(),
                    n_entries: 0,
                    default: Box::default(),
                    find: index.function(),
                    index,
                }
            })
            .collect();
        let mut runtime = Self {
            layout,
            constructs,
            phv: Phv::new(ir),
            direct: vec![std::ptr::null(); tables.len()],
            tables,
            arrays,
            table_counters,
            meters: program.meters().map(|(id, _)| id).collect(),
            resolved: Vec::new(),
            program,
        };
        for table in 0..runtime.tables.len() {
            runtime.load_table(state, table);
        }
        runtime
    }

    /// Where the packet's state is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes a context point to what is here and in the state.
    pub fn attach(&mut self, context: &mut PassContext, state: &mut State) {
        context.now = state.now();
        context.arrays = self.arrays.as_ptr();
        context.table_counters = self.table_counters;
        context.direct = self.direct.as_ptr();
        context.runtime = std::ptr::from_mut(self).cast();
        context.state = std::ptr::from_mut(state).cast();
    }

    fn load_table(&mut self, state: &State, number: usize) {
        let id = self.tables[number].id;
        let entries: Vec<EntryIndex> = state.entries(id).map(|(entry, _)| entry).collect();
        for entry in entries {
            self.put_entry(state, number, entry, true);
        }
        self.put_default(state, number);
    }

    fn put_entry(&mut self, state: &State, number: usize, entry: EntryIndex, is_new: bool) {
        let id = self.tables[number].id;
        let Some(view) = state.entry(id, entry) else {
            return;
        };
        let words = self.entry_words(id, view.action, true);
        let table = &mut self.tables[number];
        if table.entries.len() <= entry.index() {
            table.entries.resize_with(entry.index() + 1, Box::default);
        }
        table.entries[entry.index()] = words;
        if is_new {
            table.n_entries += 1;
            table
                .index
                .insert(view.key, view.priority, index_number(entry));
        }
        self.point_directly(number);
    }

    fn put_default(&mut self, state: &State, number: usize) {
        let id = self.tables[number].id;
        let words = match state.default_action(id) {
            Some(action) => self.entry_words(id, action, false),
            None => [no_action(false)].into(),
        };
        self.tables[number].default = words;
        self.point_directly(number);
    }

    fn point_directly(&mut self, number: usize) {
        let table = &self.tables[number];
        let nothing_else = table.n_entries == 0 && !table.default.is_empty();
        self.direct[number] = match nothing_else && table.index.shape().fields().is_empty() {
            true => table.default.as_ptr(),
            false => std::ptr::null(),
        };
    }

    /// An entry's words; none where the action profile has to be asked at each packet.
    fn entry_words(&self, table: TableId, action: &EntryAction, hit: bool) -> Box<[u64]> {
        let mut out = Vec::new();
        if let EntryAction::Call(call) = action {
            self.call_words(&mut out, table, call.action, &call.args, hit);
        }
        out.into()
    }

    fn call_words(
        &self,
        out: &mut Vec<u64>,
        table: TableId,
        action: dataplane::ActionId,
        args: &[Int],
        hit: bool,
    ) {
        let actions = runnable(&self.program, table);
        let position = actions.iter().position(|other| *other == action);
        let position = position.and_then(|it| u32::try_from(it).ok());
        out.push(head(position.unwrap_or(NO_ACTION), hit));
        let params = self.program.action_info(action);
        let params = params.map_or(&[][..], |info| &info.params);
        for (param, arg) in params.iter().zip(args) {
            words_of(out, arg, param.width_bits);
        }
    }

    /// Follows a control call that has changed a table.
    pub fn table_changed(&mut self, state: &State, table: TableId, change: TableChange<'_>) {
        let number = table.index();
        match change {
            TableChange::Inserted(entry) => self.put_entry(state, number, entry, true),
            TableChange::Modified(entry) => self.put_entry(state, number, entry, false),
            TableChange::Removed { entry, key, .. } => {
                let table = &mut self.tables[number];
                table.index.remove(key, index_number(entry));
                if let Some(words) = table.entries.get_mut(entry.index()) {
                    *words = Box::default();
                    table.n_entries = table.n_entries.saturating_sub(1);
                }
                self.point_directly(number);
            }
            TableChange::Default => self.put_default(state, number),
        }
    }
}

/// The actions that a table may run, its own ones first: a member of a profile that tables share
/// may run any of theirs.
pub(crate) fn runnable(program: &Program, table: TableId) -> Vec<dataplane::ActionId> {
    let Some(info) = program.table_info(table) else {
        return Vec::new();
    };
    let mut actions = info.actions.clone();
    if info.action_profile.is_some() {
        let sharing = program.tables().map(|(_, other)| other);
        let sharing = sharing.filter(|other| other.action_profile == info.action_profile);
        for action in sharing.flat_map(|other| &other.actions) {
            if !actions.contains(action) {
                actions.push(*action);
            }
        }
    }
    actions
}

/// The position of an action in a table's list. A member of a profile that tables share may be
/// another table's copy of the action.
pub(crate) fn position_of(
    program: &Program,
    info: &TableInfo,
    action: dataplane::ActionId,
) -> Option<usize> {
    let name = |action| program.action_info(action).map(|info| &info.name);
    let position = info.actions.iter().position(|other| *other == action);
    position.or_else(|| {
        let mut names = info.actions.iter().map(|other| name(*other));
        names.position(|other| other == name(action))
    })
}

fn head(action: u32, hit: bool) -> u64 {
    // Written as the two 32-bit numbers that generated code reads.
    let [a, b, c, d] = action.to_ne_bytes();
    let [e, f, g, h] = u32::from(hit).to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn no_action(hit: bool) -> u64 {
    head(NO_ACTION, hit)
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

/// What a context leads to.
struct World<'a> {
    context: &'a mut PassContext,
    runtime: &'a mut Runtime,
    state: &'a mut State,
}

impl<'a> World<'a> {
    /// # Safety
    /// The context was attached by [`Runtime::attach`] to a runtime and a state that live and that
    /// nobody else uses now.
    unsafe fn new(context: *mut PassContext) -> Self {
        // SAFETY: the caller has promised it; the three are different objects.
        unsafe {
            let context = &mut *context;
            let runtime = &mut *context.runtime.cast::<Runtime>();
            let state = &mut *context.state.cast::<State>();
            Self {
                context,
                runtime,
                state,
            }
        }
    }
}

/// Applies a table: finds the entry, counts, runs the direct meter, resolves profiles.
unsafe extern "C" fn apply_table(
    context: *mut PassContext,
    vector: *mut u8,
    table: u32,
    key: *const u64,
) -> *const u64 {
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let (world, mut vector) = unsafe { (World::new(context), Vector::new(vector)) };
    let World {
        context,
        runtime,
        state,
    } = world;
    let number = table as usize;
    let id = runtime.tables[number].id;
    let entry = if key.is_null() {
        fallback::look_up(runtime, context, state, vector, id)
    } else {
        // SAFETY: generated code has packed a key of the table's words.
        unsafe { find(runtime, number, key) }
    };
    let bytes = usize::try_from(context.ingress_bytes).unwrap_or(usize::MAX);
    let hit = entry.is_some();
    if let Some(counters) = state.table_counters().get_mut(number) {
        if hit {
            counters.hits += 1;
        } else {
            counters.misses += 1;
        }
    }
    if let Some(entry) = entry {
        let meter = &runtime.program.ir().table_nodes[number].meter;
        if let Some(result) = meter.as_ref().map(|meter| meter.result) {
            let color = state.execute_direct_meter(id, entry, bytes);
            vector.put(&runtime.layout, result, &Int::from(color));
        }
        state.count_hit(id, entry, bytes);
    }
    let table = &runtime.tables[number];
    let words = match entry {
        Some(entry) => table.entries.get(entry.index()),
        None => Some(&table.default),
    };
    match words {
        Some(words) if !words.is_empty() => words.as_ptr(),
        _ => fallback::resolve(runtime, context, state, vector, (id, entry)),
    }
}

/// An entry's number in the index. A table has far fewer than 2^32 entries: they would need
/// hundreds of GiB.
fn index_number(entry: EntryIndex) -> u32 {
    u32::try_from(entry.index()).unwrap_or(lookup::MISS)
}

/// The entry of a packed key.
///
/// # Safety
/// `key` leads to as many words as the shape of the table's key has.
unsafe fn find(runtime: &Runtime, number: usize, key: *const u64) -> Option<EntryIndex> {
    let table = &runtime.tables[number];
    // SAFETY: the function is that of this index; the caller has promised the key.
    let entry = unsafe { (table.find)(&raw const table.index, key) };
    (entry != lookup::MISS).then(|| EntryIndex::at(entry as usize))
}

impl Runtime {
    /// Keeps what a profile's entry came down to, and gives its words.
    pub(crate) fn keep_resolved(
        &mut self,
        table: TableId,
        call: Option<(dataplane::ActionId, &[Int])>,
        hit: bool,
    ) -> *const u64 {
        let mut words = std::mem::take(&mut self.resolved);
        words.clear();
        match call {
            Some((action, args)) => self.call_words(&mut words, table, action, args, hit),
            None => words.push(no_action(hit)),
        }
        self.resolved = words;
        self.resolved.as_ptr()
    }
}

/// Runs a primitive that has no native code.
unsafe extern "C" fn interpret_primitive(
    context: *mut PassContext,
    vector: *mut u8,
    construct: u32,
    args: *const u64,
) {
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let (world, vector) = unsafe { (World::new(context), Vector::new(vector)) };
    let World {
        context,
        runtime,
        state,
    } = world;
    let args = fallback::Arguments(args);
    fallback::with(
        runtime,
        context,
        state,
        vector,
        (construct, args),
        |pass, what| {
            if let Interpretable::Primitive(primitive) = what {
                pass.primitive(primitive);
            }
            0
        },
    );
}

/// Whether a condition holds that has no native code.
unsafe extern "C" fn interpret_condition(
    context: *mut PassContext,
    vector: *mut u8,
    construct: u32,
    args: *const u64,
) -> u64 {
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let (world, vector) = unsafe { (World::new(context), Vector::new(vector)) };
    let World {
        context,
        runtime,
        state,
    } = world;
    let args = fallback::Arguments(args);
    fallback::with(
        runtime,
        context,
        state,
        vector,
        (construct, args),
        |pass, what| {
            let Interpretable::Condition(condition) = what else {
                return 0;
            };
            u64::from(pass.truth(condition))
        },
    )
}

/// The result of a calculation over the packet.
unsafe extern "C" fn calculate(context: *mut PassContext, vector: *mut u8, id: u32) -> u64 {
    // SAFETY: generated code gives the context and the block of the pass it is in.
    let (world, vector) = unsafe { (World::new(context), Vector::new(vector)) };
    let World {
        context,
        runtime,
        state,
    } = world;
    fallback::calculate(runtime, context, state, vector, CalculationId(id))
}

/// The colour that a meter gives; beyond every colour where there is no such meter.
unsafe extern "C" fn execute_meter(context: *mut PassContext, meter: u32, index: u64) -> u64 {
    // SAFETY: generated code gives the context of the pass it is in.
    let World {
        context,
        runtime,
        state,
    } = unsafe { World::new(context) };
    let bytes = usize::try_from(context.ingress_bytes).unwrap_or(usize::MAX);
    let meter = runtime.meters.get(meter as usize).copied();
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let color = meter.and_then(|meter| state.execute_meter(meter, index, bytes));
    color.map_or(u64::MAX, u64::from)
}

/// A random number between two, of which the first is not the larger.
unsafe extern "C" fn random(context: *mut PassContext, low: u64, high: u64) -> u64 {
    // SAFETY: generated code gives the context of the pass it is in.
    let World { state, .. } = unsafe { World::new(context) };
    state.random(low, high).unwrap_or(low)
}
