//! The flow cache in generated code: when a control begins, its inputs are packed and lead to the
//! flow's cells; a table whose cell is not open is not asked.

use std::collections::HashMap;

use cranelift_codegen::ir::{InstBuilder, Value, types};
use dataplane::{TableId, engine::ir::NodeId};

use super::{Emit, Region};
use crate::flow::{FlowCache, FlowPlan, Input};

/// The cells of the packet's flow.
pub(super) struct Flow {
    cells: Value,
    places: HashMap<TableId, u32>,
}

impl Emit<'_, '_, '_> {
    /// Finds the flow of a packet that comes to a control, where it has a cache.
    pub(super) fn begin_flow(&mut self, start: Option<NodeId>) {
        let options = self.unit.options;
        if !options.microflow_cache && !options.megaflow_cache {
            return;
        }
        let Some(plan) = FlowPlan::new(self.unit.program, self.layout(), start) else {
            return;
        };
        let key = self.inputs(&plan);
        let key = self.on_stack(key);
        let mut cache = Box::new(FlowCache::new(plan, options.megaflow_cache));
        let places = (0..).zip(&cache.plan().tables);
        let places = places.map(|(place, table)| (*table, 4 * place)).collect();
        let function = cache.function();
        let address = self.constant((&raw mut *cache) as usize as u64);
        let args = [address, key];
        let cells = self.call_address(function as usize, &args, types::I64);
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
                    match self.layout().field(*field).signed {
                        true => self.wrap(value, place.bits, false),
                        false => value,
                    }
                }
            };
            self.place(&mut words, *place, value);
        }
        let words = words.into_iter();
        let words = words.map(|word| word.unwrap_or_else(|| self.constant(0)));
        words.collect()
    }

    /// What was found in a table for a packet of this flow; none where the table is not cached.
    pub(super) fn cell(&mut self, table: TableId) -> Option<Value> {
        let flow = self.flow.as_ref()?;
        let (cells, place) = (flow.cells, *flow.places.get(&table)?);
        Some(self.load(types::I32, Region::State, cells, place))
    }

    /// Keeps what was found.
    pub(super) fn keep_cell(&mut self, table: TableId, number: Value) {
        let flow = self.flow.as_ref();
        let cell = flow.and_then(|flow| Some((flow.cells, *flow.places.get(&table)?)));
        if let Some((cells, place)) = cell {
            self.store(Region::State, number, cells, place);
        }
    }
}
