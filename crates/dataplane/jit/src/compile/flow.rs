//! The flow cache in generated code. When a control begins, its code packs the control's inputs (fields and header
//! validities) into a key, and finds the flow's cells with the key. A flow has one cell for each table. The cell holds
//! the number of the entry that an earlier packet of the flow found. If a table's cell is filled, the code does not
//! look up the table.

use std::collections::HashMap;

use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use dataplane::{TableId, engine::ir::NodeId};

use super::{Emit, Region};
use crate::flow::{Capacity, FlowCache, FlowPlan, Input};

pub(super) struct Flow {
    cells: Value,
    places: HashMap<TableId, u32>,
}

impl Emit<'_, '_, '_> {
    /// Returns the flow cache of the control that begins at `start`, or `None` if the control gets no cache.
    pub(super) fn flow_cache(
        &self,
        start: Option<NodeId>,
        capacity: Capacity,
    ) -> Option<Box<FlowCache>> {
        let options = self.unit.options;
        if !options.microflow_cache && !options.megaflow_cache {
            return None;
        }
        let plan = FlowPlan::new(self.unit.program, self.layout(), start)?;
        let cache = FlowCache::new(plan, options.megaflow_cache, capacity);
        Some(Box::new(cache))
    }

    /// Generates the check whether the cache sleeps, that is, whether packets bypass the cache for now. Then begins the
    /// basic block for packets that bypass the cache. This basic block first decrements the number of packets that are
    /// still to bypass the cache; the caller generates the rest of its code. Returns the basic block for packets that
    /// use the cache.
    pub(super) fn while_asleep(&mut self, cache: &FlowCache) -> Block {
        let [asleep, awake] = self.blocks();
        let address = self.address(&raw const *cache, "flow cache");
        let at = u32::try_from(FlowCache::ASLEEP).expect("an offset in a block of memory");
        let left = self.load(types::I32, Region::State, address, at);
        self.branch(left, asleep, awake);
        self.begin_inner(asleep);
        let one = self.constant32(1);
        let left = self.b.ins().isub(left, one);
        self.store(Region::State, left, address, at);
        awake
    }

    /// Generates code that prefetches the flow record of a packet that will soon enter a control. The engine does not
    /// run this code while packets bypass the cache.
    pub(crate) fn prefetch_flow(&mut self, flow: usize) {
        let cache = &self.unit.flows[flow];
        let (plan, (_, function)) = (cache.plan().clone(), cache.functions());
        let address = &raw const **cache;
        let address = self.address(address, "flow cache");
        let key = self.inputs(&plan);
        let key = self.on_stack(key);
        let function = (function as *const u8, "prefetch_flow");
        self.call_any(function, &[address, key], None);
    }

    /// Generates code that finds the flow record of a packet that enters a control.
    pub(super) fn begin_flow(&mut self, cache: Box<FlowCache>) {
        let key = self.inputs(cache.plan());
        let key = self.on_stack(key);
        let places = (0..).zip(&cache.plan().tables);
        let places = places.map(|(place, table)| (*table, 4 * place)).collect();
        let (function, _) = cache.functions();
        let args = [self.address(&raw const *cache, "flow cache"), key];
        let function = (function as *const u8, "find_flow");
        let cells = self.call_address(function, &args, types::I64);
        self.unit.flows.push(cache);
        self.flow = Some(Flow { cells, places });
    }

    fn inputs(&mut self, plan: &FlowPlan) -> Vec<Value> {
        let mut words: Vec<Option<Value>> = vec![None; plan.shape.words()];
        for (place, (input, _)) in plan.shape.fields().iter().zip(&plan.inputs) {
            let value = match input {
                Input::Valid(header) => {
                    let valid = self.valid(*header);
                    vec![self.b.ins().uextend(types::I64, valid)]
                }
                Input::Field(field) => {
                    let value = (0..place.words())
                        .map(|word| self.field_word(*field, word))
                        .collect();
                    if self.layout().field(*field).signed {
                        self.wrap(value, place.bits, false)
                    } else {
                        value
                    }
                }
            };
            self.place(&mut words, *place, value);
        }
        let words = words.into_iter();
        let words = words.map(|word| word.unwrap_or_else(|| self.constant(0)));
        words.collect()
    }

    /// Loads the cell of a table: the number of the entry that an earlier packet of this flow found. `None` if the
    /// table is not cached.
    pub(super) fn cell(&mut self, table: TableId) -> Option<Value> {
        let flow = self.flow.as_ref()?;
        let (cells, place) = (flow.cells, *flow.places.get(&table)?);
        Some(self.load(types::I32, Region::State, cells, place))
    }

    /// Stores in the table's cell the number of the entry that a lookup found.
    pub(super) fn keep_cell(&mut self, table: TableId, number: Value) {
        let flow = self.flow.as_ref();
        let cell = flow.and_then(|flow| Some((flow.cells, *flow.places.get(&table)?)));
        if let Some((cells, place)) = cell {
            self.store(Region::State, number, cells, place);
        }
    }
}
