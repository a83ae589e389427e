//! Hashes and other computations over lists of fields.

use bmv2_json::{Calculation, CalculationInput, Value};

use super::place::parameter;
use super::{Lower, Stage};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

impl Lower<'_> {
    pub fn hash(&mut self, arguments: &[Option<Expr>], span: Span) {
        let algo = self.enum_argument(arguments, 1, span);
        let (base, max) = (
            self.data_argument(arguments, 2),
            self.data_argument(arguments, 4),
        );
        let Some(Some(fields)) = arguments.get(3) else {
            return;
        };
        let name = self.calculation(&algo, fields, false, span);
        self.out_primitive(arguments, 0, span, |target| {
            (
                "modify_field_with_hash_based_offset",
                vec![target, base, Value::Calculation(name), max],
            )
        });
    }

    /// The scalars of a list, struct or header, as operands with their types.
    pub fn flatten(&mut self, expr: &Expr) -> Vec<(Value, Type)> {
        let expr = self.resolve(expr);
        if let ExprKind::List(items) = &expr.kind {
            return items.iter().flat_map(|item| self.flatten(item)).collect();
        }
        let aggregate = matches!(
            expr.ty,
            Type::Struct(_) | Type::Tuple(_) | Type::ListOf(_) | Type::Stack(..)
        );
        if aggregate && let Some(place) = self.place(&expr) {
            return self
                .fields(&place)
                .iter()
                .map(|leaf| {
                    let (value, ty) = self.read_raw(leaf);
                    (value, ty.unwrap_or(Type::Bool))
                })
                .collect();
        }
        if expr.ty == Type::Int {
            self.sink
                .error("E0418", expr.span, "the numbers in this list need widths")
                .help("write for example `16w0`");
        }
        vec![(self.data(&expr), expr.ty.clone())]
    }

    /// Creates a named computation over fields and constants. Any other value is first stored in a temporary.
    pub fn calculation(
        &mut self,
        algo: &str,
        fields: &Expr,
        with_payload: bool,
        span: Span,
    ) -> String {
        let mut input = Vec::new();
        for (value, ty) in self.flatten(fields) {
            let width = self.program.width(&ty);
            input.push(match value {
                Value::Hexstr(_) => CalculationInput { value, bitwidth: width },
                Value::Field(_) => CalculationInput { value, bitwidth: None },
                computed => {
                    if matches!(self.stage, Stage::Verify | Stage::Compute) {
                        self.sink.error("E0611", fields.span, "a checksum's data are fields and constants; nothing is computed here").help("compute it in ingress or egress, into metadata");
                    }
                    let temp = self.temp("hash", &ty, span);
                    let (target, _) = self.read_raw(&temp);
                    self.emit("assign", vec![target.clone(), parameter(computed)], span);
                    CalculationInput { value: target, bitwidth: None }
                }
            });
        }
        if with_payload {
            input.push(CalculationInput {
                value: Value::Payload(None),
                bitwidth: None,
            });
        }
        let name = self.fresh("calc");
        let id = self.json.calculations.len() as u32;
        let source_info = self.source_info(span);
        self.json.calculations.push(Calculation {
            name: name.clone(),
            id,
            source_info,
            algo: algo.to_owned(),
            input,
        });
        name
    }
}
