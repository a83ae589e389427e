//! Lowers `select`: its keys, and the values and masks of its cases.

use bmv2_json::{Transition as JsonTransition, Value};
use num_bigint::BigInt;
use num_traits::{One as _, Zero as _};

use super::parser::default_transition;
use super::place::{hex_text, parameter};
use super::{Lower, qualify};
use crate::ir::{self, Callee, Expr, ExprKind};
use crate::limits;
use crate::source::Span;
use crate::types::const_eval::{mask, wrap};

/// The properties of a key that its cases need.
#[derive(Clone, Copy)]
pub struct SelectKey {
    pub width: u32,
    pub is_signed: bool,
}

/// The value and the mask with which a case compares one key, both unsigned.
type MaskedValue = (BigInt, BigInt);

impl Lower<'_> {
    /// Returns a key in a form that simple_switch takes: a field, or `lookahead` bits. A key that a later key may
    /// change (`is_kept`) is copied first.
    pub fn select_key(&mut self, key: &Expr, is_kept: bool) -> Value {
        if !is_kept
            && let ExprKind::Call(call) = &key.kind
            && let Callee::ExternMethod(_, method) = &call.callee
            && &**method == "lookahead"
            && let Some(width) = self.program.width(&key.ty).filter(|width| *width > 0)
        {
            return Value::Lookahead((0, width));
        }
        let value = self.data(key);
        match value {
            Value::Field(_) | Value::StackField(_) if !is_kept && !self.widens(key) => value,
            computed => {
                let temp = self.temp("key", &key.ty, key.span);
                let (target, _) = self.read_raw(&temp);
                self.emit(
                    "assign",
                    vec![target.clone(), parameter(computed)],
                    key.span,
                );
                target
            }
        }
    }

    /// Whether the key is a cast that changes the width of its operand, or a cast of such a cast.
    fn widens(&self, key: &Expr) -> bool {
        match &key.kind {
            ExprKind::Cast(inner) => {
                self.program.width(&inner.ty) != self.program.width(&key.ty) || self.widens(inner)
            }
            _ => false,
        }
    }

    pub fn case(
        &mut self,
        sets: &[Expr],
        keys: &[SelectKey],
        next: Option<String>,
        span: Span,
        out: &mut Vec<JsonTransition>,
    ) {
        if let [only] = sets {
            if matches!(only.kind, ExprKind::DontCare) {
                out.push(default_transition(next));
                return;
            }
            if let ExprKind::ValueSet(id) = only.kind {
                let set = &self.program.value_sets[id];
                let name =
                    ir::name_annotation(&set.annotations).unwrap_or_else(|| set.name.to_string());
                let value = Some(qualify(&self.path, &name));
                out.push(JsonTransition {
                    kind: Some("parse_vset".to_owned()),
                    value,
                    mask: None,
                    next_state: next,
                });
                return;
            }
        }
        let mut combined: Vec<MaskedValue> = vec![(BigInt::zero(), BigInt::zero())];
        let mut bytes = 0;
        for (set, key) in sets.iter().zip(keys) {
            let width = key.width;
            let Some(parts) = self.masked_values(set, *key) else {
                return;
            };
            bytes += width.div_ceil(8);
            if combined.len() * parts.len() > limits::SELECT_CASES {
                self.sink
                    .error(
                        "E0603",
                        span,
                        format!(
                            "this case becomes more than {} transitions",
                            limits::SELECT_CASES
                        ),
                    )
                    .help("use masks instead of ranges");
                return;
            }
            let padded = width.div_ceil(8) * 8;
            let join = |(value, bits): &MaskedValue, part: &MaskedValue| {
                ((value << padded) + &part.0, (bits << padded) + &part.1)
            };
            combined = combined
                .iter()
                .flat_map(|left| parts.iter().map(move |part| join(left, part)))
                .collect();
        }
        let exact: BigInt = keys.iter().fold(BigInt::zero(), |all, key| {
            (all << (key.width.div_ceil(8) * 8)) + mask(key.width)
        });
        for (value, bits) in combined {
            if bits.is_zero() {
                out.push(default_transition(next.clone()));
                continue;
            }
            let width = bytes * 8;
            let mask = (bits != exact).then(|| hex_text(&bits, width));
            out.push(JsonTransition {
                kind: Some("hexstr".to_owned()),
                value: Some(hex_text(&value, width)),
                mask,
                next_state: next.clone(),
            });
        }
    }

    /// Returns a set as values with masks; a range becomes prefixes.
    fn masked_values(&mut self, set: &Expr, key: SelectKey) -> Option<Vec<MaskedValue>> {
        let width = key.width;
        let all = mask(width);
        let number = |lower: &mut Self, expr: &Expr| match lower.constant(expr) {
            Some(value) => Some(wrap(&value, width, false)),
            None => {
                lower.sink.error(
                    "E0502",
                    expr.span,
                    "a key's value, mask or range must be known at compile time",
                );
                None
            }
        };
        match &set.kind {
            ExprKind::DontCare => Some(vec![(BigInt::zero(), BigInt::zero())]),
            ExprKind::Mask(value, bits) => {
                let (value, bits) = (number(self, value)?, number(self, bits)?);
                Some(vec![(value & &bits, bits)])
            }
            ExprKind::Range(low, high) => {
                // With the sign bit flipped, signed values are in the order of unsigned ones.
                let sign = if key.is_signed {
                    BigInt::one() << (width - 1)
                } else {
                    BigInt::zero()
                };
                let (first, last) = (number(self, low)? ^ &sign, number(self, high)? ^ &sign);
                if first > last {
                    let (low, high) = (
                        wrap(&(&first ^ &sign), width, key.is_signed),
                        wrap(&(last ^ sign), width, key.is_signed),
                    );
                    let message = format!("the range {low}..{high} is empty");
                    self.sink.error("E0509", set.span, message);
                    return None;
                }
                let parts = prefixes(first, &last, width).into_iter();
                Some(
                    parts
                        .map(|(value, bits)| (value ^ (&sign & &bits), bits))
                        .collect(),
                )
            }
            ExprKind::ValueSet(_) => {
                self.unsupported(set.span, "a value set together with other sets");
                None
            }
            _ => Some(vec![(number(self, set)?, all)]),
        }
    }
}

/// Returns the fewest prefixes that cover a closed interval.
fn prefixes(mut low: BigInt, high: &BigInt, width: u32) -> Vec<MaskedValue> {
    let mut out = Vec::new();
    while low <= *high {
        let aligned = low
            .trailing_zeros()
            .unwrap_or(u64::from(width))
            .min(u64::from(width));
        let mut free = aligned as u32;
        while free > 0 && &low + (BigInt::one() << free) - 1 > *high {
            free -= 1;
        }
        let bits: BigInt = mask(width) ^ mask(free);
        out.push((low.clone(), bits));
        low += BigInt::one() << free;
    }
    out
}
