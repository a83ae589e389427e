//! Registers, counters, meters, value sets and action profiles.

use bmv2_json as json;

use super::{At, Context, Load, Loader, index_u32};
use crate::{
    ActionProfileId, CounterId, MeterId, RegisterId, ValueSetId, limits,
    program::{
        MeterUnit,
        ir::{
            ActionProfile, Calculation, CounterArray, DirectMeter, MeterArray, MeterKind,
            RegisterArray, ValueSet,
        },
    },
};

impl<'a> Loader<'a> {
    pub(super) fn arrays(&mut self) -> Load {
        for register in &self.json.register_arrays {
            let context = Context::new("register array", &register.name);
            context.check_width("a cell", register.bitwidth)?;
            let cells = check_cells(&context, register.size)?;
            let id = RegisterId(index_u32(self.ir.registers.len()));
            self.ir.registers.push(RegisterArray {
                name: register.name.clone(),
                cells,
                bits: register.bitwidth,
                is_shared: register.shared,
                is_operand: false,
                is_secret: register.secret,
            });
            context.declare(&mut self.names.registers, &register.name, id)?;
        }
        let counters = self.json.counter_arrays.iter();
        for counter in counters.filter(|counter| !counter.is_direct) {
            let context = Context::new("counter array", &counter.name);
            let cells = sized(&context, counter.size)?;
            let id = CounterId(index_u32(self.ir.counters.len()));
            self.ir.counters.push(CounterArray {
                name: counter.name.clone(),
                cells,
            });
            context.declare(&mut self.names.counters, &counter.name, id)?;
        }
        Ok(())
    }

    pub(super) fn meters(&mut self) -> Load {
        for meter in &self.json.meter_arrays {
            let context = Context::new("meter array", &meter.name);
            let unit = match meter.kind.as_str() {
                "packets" => MeterUnit::Packets,
                "bytes" => MeterUnit::Bytes,
                other => return context.fail(format!("unknown type \"{other}\"")),
            };
            if !(1..=2).contains(&meter.rate_count) {
                return context.fail(format!("expected 1 or 2 rates, found {}", meter.rate_count));
            }
            let kind = MeterKind {
                unit,
                rates: meter.rate_count as usize,
            };
            let name = meter.name.clone();
            if meter.is_direct {
                let Some((header, field)) = &meter.result_target else {
                    return context.fail("expected \"result_target\"");
                };
                let result = self.at(&context).field(header, field)?;
                let direct = DirectMeter { name, kind, result };
                context.declare(&mut self.names.direct_meters, &meter.name, direct)?;
            } else {
                let cells = sized(&context, meter.size)?;
                let id = MeterId(index_u32(self.ir.meters.len()));
                self.ir.meters.push(MeterArray { name, cells, kind });
                context.declare(&mut self.names.meters, &meter.name, id)?;
            }
        }
        Ok(())
    }

    pub(super) fn value_sets(&mut self) -> Load {
        for set in &self.json.parse_vsets {
            let context = Context::new("value set", &set.name);
            context.check_width("a value", set.compressed_bitwidth)?;
            let id = ValueSetId(index_u32(self.ir.value_sets.len()));
            self.ir.value_sets.push(ValueSet {
                name: set.name.clone(),
                parts: vec![set.compressed_bitwidth],
                max_size: set.max_size.map_or(usize::MAX, |size| size as usize),
            });
            context.declare(&mut self.names.value_sets, &set.name, id)?;
        }
        Ok(())
    }

    pub(super) fn action_profiles(&mut self) -> Load {
        let pipelines = self.json.pipelines.iter();
        for profile in pipelines.flat_map(|pipeline| &pipeline.action_profiles) {
            let context = Context::new("action profile", &profile.name);
            let selector = profile.selector.as_ref();
            let selector = selector.map(|selector| self.at(&context).selector(selector));
            let selector = selector.transpose()?;
            let id = ActionProfileId(index_u32(self.ir.action_profiles.len()));
            self.ir.action_profiles.push(ActionProfile {
                name: profile.name.clone(),
                max_size: profile.max_size as usize,
                selector,
            });
            context.declare(&mut self.names.action_profiles, &profile.name, id)?;
        }
        Ok(())
    }
}

impl At<'_, '_> {
    fn selector(&self, selector: &json::Selector) -> Load<Calculation> {
        let input = selector.input.iter();
        let input = input.map(|value| self.calculation_input(value, None));
        Ok(Calculation {
            name: String::new(),
            algorithm: self.algorithm(&selector.algo)?,
            input: input.collect::<Load<_>>()?,
        })
    }
}

fn sized(context: &Context, size: Option<u32>) -> Load<usize> {
    let size = size.ok_or_else(|| context.error("expected \"size\""))?;
    check_cells(context, size)
}

fn check_cells(context: &Context, size: u32) -> Load<usize> {
    let max = limits::ARRAY_CELLS_MAX;
    if size > max {
        return context.fail(format!("has {size} cells, expected {max} at most"));
    }
    Ok(size as usize)
}
