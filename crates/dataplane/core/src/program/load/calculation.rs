//! Calculations and the checksums that use them.

use bmv2_json::Value;

use super::{At, Context, Load, Loader, index_u32};
use crate::program::ir::{Algorithm, Calculation, CalculationId, CalculationInput, Checksum};

impl Loader<'_> {
    pub(super) fn calculations(&mut self) -> Load {
        for calculation in &self.json.calculations {
            let context = Context::new("calculation", &calculation.name);
            let at = self.at(&context);
            let algorithm = at.algorithm(&calculation.algo)?;
            let input = calculation.input.iter();
            let input = input.map(|part| at.calculation_input(&part.value, part.bitwidth));
            let input = input.collect::<Load<_>>()?;
            let id = CalculationId(index_u32(self.ir.calculations.len()));
            self.ir.calculations.push(Calculation {
                name: calculation.name.clone(),
                algorithm,
                input,
            });
            context.declare(&mut self.names.calculations, &calculation.name, id)?;
        }
        Ok(())
    }

    pub(super) fn checksums(&mut self) -> Load {
        for checksum in &self.json.checksums {
            let context = Context::new("checksum", &checksum.name);
            let kind = &checksum.kind;
            if kind != "generic" {
                return context.fail(format!("expected type \"generic\", found \"{kind}\""));
            }
            let at = self.at(&context);
            let (header, field) = &checksum.target;
            let condition = checksum.if_cond.as_ref();
            let checksum = Checksum {
                target: at.field(header, field)?,
                calculation: at.calculation(&checksum.calculation)?,
                condition: condition.map(|value| at.truth(value)).transpose()?,
                verify: checksum.verify,
                update: checksum.update,
            };
            self.ir.checksums.push(checksum);
        }
        Ok(())
    }
}

impl At<'_, '_> {
    pub(super) fn calculation_input(
        &self,
        value: &Value,
        bitwidth: Option<u32>,
    ) -> Load<CalculationInput> {
        Ok(match value {
            Value::Field((header, field)) => CalculationInput::Field(self.field(header, field)?),
            Value::Header(name) => CalculationInput::Header(self.header(name)?),
            Value::Hexstr(text) => {
                let bits =
                    bitwidth.ok_or_else(|| self.error(format!("{text}: expected \"bitwidth\"")))?;
                self.context.check_width(text, bits)?;
                CalculationInput::Constant {
                    value: self.hex(text)?,
                    bits,
                }
            }
            Value::Payload(_) => CalculationInput::Payload,
            other => return self.fail(format!("unsupported input {other:?}")),
        })
    }

    pub(super) fn algorithm(&self, name: &str) -> Load<Algorithm> {
        let error = || self.error(format!("unknown hash algorithm \"{name}\""));
        Algorithm::from_name(name).ok_or_else(error)
    }

    pub(super) fn calculation(&self, name: &str) -> Load<CalculationId> {
        self.find(&self.loader.names.calculations, "calculation", name)
    }
}
