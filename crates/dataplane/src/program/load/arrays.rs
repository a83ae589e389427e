//! Registers, counters, meters, value sets and action profiles.

use bmv2_json as json;

use super::{Context, Load, Loader, declarations::check_width, index_u32};
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
            check_width(&context, "a cell", register.bitwidth)?;
            let cells = check_cells(&context, register.size)?;
            let id = RegisterId(index_u32(self.ir.registers.len()));
            self.ir.registers.push(RegisterArray {
                name: register.name.clone(),
                cells,
                bits: register.bitwidth,
                is_operand: false,
            });
            if self.names.registers.insert(&register.name, id).is_some() {
                return context.fail("declared twice");
            }
        }
        for counter in self
            .json
            .counter_arrays
            .iter()
            .filter(|counter| !counter.is_direct)
        {
            let context = Context::new("counter array", &counter.name);
            let size = counter
                .size
                .ok_or_else(|| context.error("expected \"size\""))?;
            let cells = check_cells(&context, size)?;
            let id = CounterId(index_u32(self.ir.counters.len()));
            self.ir.counters.push(CounterArray {
                name: counter.name.clone(),
                cells,
            });
            if self.names.counters.insert(&counter.name, id).is_some() {
                return context.fail("declared twice");
            }
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
            let is_new = if meter.is_direct {
                self.direct_meter(&context, meter, kind)?
            } else {
                self.meter_array(&context, meter, kind)?
            };
            if !is_new {
                return context.fail("declared twice");
            }
        }
        Ok(())
    }

    fn meter_array(
        &mut self,
        context: &Context,
        meter: &'a json::MeterArray,
        kind: MeterKind,
    ) -> Load<bool> {
        let size = meter
            .size
            .ok_or_else(|| context.error("expected \"size\""))?;
        let cells = check_cells(context, size)?;
        let id = MeterId(index_u32(self.ir.meters.len()));
        self.ir.meters.push(MeterArray {
            name: meter.name.clone(),
            cells,
            kind,
        });
        Ok(self.names.meters.insert(&meter.name, id).is_none())
    }

    fn direct_meter(
        &mut self,
        context: &Context,
        meter: &'a json::MeterArray,
        kind: MeterKind,
    ) -> Load<bool> {
        let Some((header, field)) = &meter.result_target else {
            return context.fail("expected \"result_target\"");
        };
        let direct = DirectMeter {
            name: meter.name.clone(),
            kind,
            result: self.field(context, header, field)?,
        };
        let names = &mut self.names.direct_meters;
        Ok(names.insert(&meter.name, direct).is_none())
    }

    pub(super) fn value_sets(&mut self) -> Load {
        for set in &self.json.parse_vsets {
            let context = Context::new("value set", &set.name);
            check_width(&context, "a value", set.compressed_bitwidth)?;
            let id = ValueSetId(index_u32(self.ir.value_sets.len()));
            self.ir.value_sets.push(ValueSet {
                name: set.name.clone(),
                parts: vec![set.compressed_bitwidth],
                max_size: set.max_size.map_or(usize::MAX, |size| size as usize),
            });
            if self.names.value_sets.insert(&set.name, id).is_some() {
                return context.fail("declared twice");
            }
        }
        Ok(())
    }

    pub(super) fn action_profiles(&mut self) -> Load {
        let pipelines = self.json.pipelines.iter();
        for profile in pipelines.flat_map(|pipeline| &pipeline.action_profiles) {
            let context = Context::new("action profile", &profile.name);
            let selector = match &profile.selector {
                Some(selector) => Some(self.selector(&context, selector)?),
                None => None,
            };
            let id = ActionProfileId(index_u32(self.ir.action_profiles.len()));
            self.ir.action_profiles.push(ActionProfile {
                name: profile.name.clone(),
                max_size: profile.max_size as usize,
                selector,
            });
            if self
                .names
                .action_profiles
                .insert(&profile.name, id)
                .is_some()
            {
                return context.fail("declared twice");
            }
        }
        Ok(())
    }

    fn selector(&self, context: &Context, selector: &json::Selector) -> Load<Calculation> {
        let mut input = Vec::new();
        for value in &selector.input {
            input.push(self.calculation_input(context, value, None)?);
        }
        Ok(Calculation {
            name: String::new(),
            algorithm: super::calculation::algorithm(context, &selector.algo)?,
            input,
        })
    }
}

fn check_cells(context: &Context, size: u32) -> Load<usize> {
    if u64::from(size) > limits::ARRAY_CELLS_MAX {
        return context.fail(format!(
            "has {size} cells, expected {} at most",
            limits::ARRAY_CELLS_MAX
        ));
    }
    Ok(size as usize)
}
