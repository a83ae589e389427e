//! Calculations and the checksums that use them.

use bmv2_json::Value;

use super::{Context, Load, Loader, index_u32};
use crate::program::ir::{Algorithm, Calculation, CalculationId, CalculationInput, Checksum};

impl Loader<'_> {
    pub(super) fn calculations(&mut self) -> Load {
        for calculation in &self.json.calculations {
            let context = Context::new("calculation", &calculation.name);
            let algorithm = algorithm(&context, &calculation.algo)?;
            let mut input = Vec::new();
            for part in &calculation.input {
                input.push(self.calculation_input(&context, &part.value, part.bitwidth)?);
            }
            let id = CalculationId(index_u32(self.ir.calculations.len()));
            self.ir.calculations.push(Calculation {
                name: calculation.name.clone(),
                algorithm,
                input,
            });
            if self
                .names
                .calculations
                .insert(&calculation.name, id)
                .is_some()
            {
                return context.fail("declared twice");
            }
        }
        Ok(())
    }

    pub(super) fn calculation_input(
        &self,
        context: &Context,
        value: &Value,
        bitwidth: Option<u32>,
    ) -> Load<CalculationInput> {
        Ok(match value {
            Value::Field((header, field)) => {
                CalculationInput::Field(self.field(context, header, field)?)
            }
            Value::Header(name) => {
                CalculationInput::Header(context.find(&self.names.headers, "header", name)?)
            }
            Value::Hexstr(text) => {
                let bits = bitwidth
                    .ok_or_else(|| context.error(format!("{text}: expected \"bitwidth\"")))?;
                super::declarations::check_width(context, text, bits)?;
                CalculationInput::Constant {
                    value: super::expression::hex(context, text)?,
                    bits,
                }
            }
            Value::Payload(_) => CalculationInput::Payload,
            other => return context.fail(format!("unsupported input {other:?}")),
        })
    }

    pub(super) fn checksums(&mut self) -> Load {
        for checksum in &self.json.checksums {
            let context = Context::new("checksum", &checksum.name);
            if checksum.kind != "generic" {
                return context.fail(format!(
                    "expected type \"generic\", found \"{}\"",
                    checksum.kind
                ));
            }
            let target = self.field(&context, &checksum.target.0, &checksum.target.1)?;
            let calculation = context.find(
                &self.names.calculations,
                "calculation",
                &checksum.calculation,
            )?;
            let condition = match &checksum.if_cond {
                Some(value) => Some(self.truth(&context, value)?),
                None => None,
            };
            self.ir.checksums.push(Checksum {
                target,
                calculation,
                condition,
                verify: checksum.verify,
                update: checksum.update,
            });
        }
        Ok(())
    }
}

pub(super) fn algorithm(context: &Context, name: &str) -> Load<Algorithm> {
    Algorithm::from_name(name)
        .ok_or_else(|| context.error(format!("unknown hash algorithm \"{name}\"")))
}
