//! The facts at a point in the program: fields that hold a constant or a copy of another field, and conditions that
//! hold.

use std::rc::Rc;

use bmv2_json::{Operand, Value};
use num_bigint::BigInt;
use num_traits::{ToPrimitive as _, Zero as _};

use super::atoms::{Atom, Atoms};
use super::effect::{Effect, Touch, reads};
use super::fold;
use super::model::{FieldId, Model, Role, VALID};
use super::number;

/// Maximum number of conditions that are remembered. It is enough for the conditions of one path, and bounds the work.
const CONDITIONS_MAX: usize = 16;
/// Maximum width of a constant that is remembered, in bits: an IPv6 address fits.
const CONSTANT_BITS_MAX: u32 = 128;

#[derive(PartialEq, Debug)]
struct Condition {
    /// A hash of the value, compared first.
    fingerprint: u64,
    value: Value,
    truth: bool,
    fields: Vec<FieldId>,
    of_action: bool,
}

/// Returns a hash of an operand. Equal operands have the same hash.
fn fingerprint(value: &Value) -> u64 {
    let mut sum: u64 = 0;
    let mut add = |text: &str| {
        for byte in text.bytes() {
            sum = sum
                .wrapping_mul(0x0100_0000_01b3)
                .wrapping_add(u64::from(byte) + 1);
        }
    };
    if let Some(operation) = fold::as_operation(value) {
        add(&operation.op);
    }
    super::walk::inside(value, &mut |inner| match inner {
        Value::Field((_, text)) | Value::Hexstr(text) | Value::Header(text) => add(text),
        _ => {}
    });
    sum
}

#[derive(Clone, Debug, Default)]
pub struct Facts {
    atoms: Atoms,
    conditions: Vec<Rc<Condition>>,
}

impl Facts {
    pub fn set_constant(&mut self, field: FieldId, value: u128) {
        self.atoms.insert(field, Atom::Constant(value));
    }

    /// Keeps the facts that hold on both paths.
    pub fn meet(&mut self, other: &Facts) {
        self.atoms.meet(&other.atoms);
        self.conditions.retain(|condition| {
            let is_same = |it: &Rc<Condition>| Rc::ptr_eq(it, condition) || it == condition;
            other.conditions.iter().any(is_same)
        });
    }

    fn forget(&mut self, field: FieldId) {
        self.atoms.forget(field);
        self.conditions
            .retain(|condition| !condition.fields.contains(&field));
    }

    pub fn forget_all(&mut self) {
        self.atoms.clear();
        self.conditions.clear();
    }

    pub fn forget_touched(&mut self, touched: &Touch) {
        if touched.all {
            return self.forget_all();
        }
        touched.fields.iter().for_each(|field| self.forget(*field));
    }

    /// Forgets the facts about the action's parameters, which have no value outside the action.
    pub fn leave_action(&mut self) {
        self.atoms
            .remove_linked(|atom| matches!(atom, Atom::Parameter(_)));
        self.conditions.retain(|condition| !condition.of_action);
    }

    /// Returns the operand that replaces a read of the field.
    pub fn read(&self, model: &Model, header: &str, field: &str) -> Value {
        let known = model.id(header, field).and_then(|id| self.atoms.get(id));
        match known {
            Some(Atom::Constant(value)) => number::literal(&BigInt::from(value)),
            Some(Atom::Copy(other)) => model.value(other),
            Some(Atom::Parameter(at)) => Value::Local(at),
            None => Value::Field((header.to_owned(), field.to_owned())),
        }
    }

    /// Returns whether a condition is true or false, or `None` if this is not known.
    pub fn truth(&self, model: &Model, value: &Value) -> Option<bool> {
        if let Some(operation) = fold::as_operation(value)
            && operation.op == "valid"
            && let Some(Operand::Value(Value::Header(header))) = &operation.right
        {
            let valid = model.headers.get(header)?.valid;
            return match self.atoms.get(valid) {
                Some(Atom::Constant(value)) => Some(value != 0),
                _ => None,
            };
        }
        if self.conditions.is_empty() || !fold::is_truth(value) {
            return None;
        }
        let sought = fingerprint(value);
        let known = self
            .conditions
            .iter()
            .find(|condition| condition.fingerprint == sought && condition.value == *value);
        known.map(|condition| condition.truth)
    }

    /// Records that a condition holds, or that it does not.
    pub fn learn(&mut self, model: &Model, value: &Value, truth: bool) {
        let Some(operation) = fold::as_operation(value) else {
            return;
        };
        let op = operation.op.as_str();
        match (op, &operation.left, &operation.right) {
            ("and", Some(Operand::Value(left)), Some(Operand::Value(right))) if truth => {
                self.learn(model, left, true);
                self.learn(model, right, true);
            }
            ("or", Some(Operand::Value(left)), Some(Operand::Value(right))) if !truth => {
                self.learn(model, left, false);
                self.learn(model, right, false);
            }
            ("not", None, Some(Operand::Value(inner))) => self.learn(model, inner, !truth),
            ("valid", None, Some(Operand::Value(Value::Header(header)))) => {
                if let Some(header) = model.headers.get(header) {
                    self.set_constant(header.valid, u128::from(truth));
                }
            }
            ("d2b", None, Some(Operand::Value(Value::Field((header, field))))) => {
                let id = model.id(header, field);
                if let Some(id) = id.filter(|id| !truth || model.info(*id).bits == 1) {
                    self.know(model, id, &BigInt::from(u8::from(truth)));
                }
            }
            (
                "==" | "!=",
                Some(Operand::Value(Value::Field((header, field)))),
                Some(Operand::Value(constant)),
            ) if truth == (op == "==") => {
                if let (Some(id), Some(value)) =
                    (model.id(header, field), number::constant(constant))
                {
                    self.know(model, id, &value);
                }
            }
            _ => {}
        }
        self.remember(model, value, truth);
    }

    fn remember(&mut self, model: &Model, value: &Value, truth: bool) {
        let touched = reads(model, value);
        if touched.all || touched.outside || self.conditions.len() >= CONDITIONS_MAX {
            return;
        }
        let fingerprint = fingerprint(value);
        let is_known = |it: &Rc<Condition>| {
            it.fingerprint == fingerprint && it.truth == truth && it.value == *value
        };
        if !self.conditions.iter().any(is_known) {
            let mut of_action = false;
            super::walk::inside(value, &mut |inner| {
                of_action |= matches!(inner, Value::Local(_) | Value::RuntimeData(_));
            });
            self.conditions.push(Rc::new(Condition {
                fingerprint,
                value: value.clone(),
                truth,
                fields: touched.fields,
                of_action,
            }));
        }
    }

    /// Records the facts that follow if the number that a `_jump_if_zero` tested is 0 (`is_zero`) or is not 0.
    pub fn learn_number(&mut self, model: &Model, value: &Value, is_zero: bool) {
        let Some(operation) = fold::as_operation(value) else {
            if let (Value::Field((header, field)), true) = (value, is_zero)
                && let Some(id) = model.id(header, field)
            {
                self.know(model, id, &BigInt::zero());
            }
            return;
        };
        if operation.op == "b2d"
            && let Some(Operand::Value(inner)) = &operation.right
        {
            self.learn(model, inner, !is_zero);
        }
    }

    /// Records that the field has this value, if the field is unsigned and not too wide, and the value fits the field.
    fn know(&mut self, model: &Model, field: FieldId, value: &BigInt) {
        let info = model.info(field);
        if !info.is_plain() || info.bits > CONSTANT_BITS_MAX {
            return;
        }
        if let Some(value) = value
            .to_u128()
            .filter(|_| value.bits() <= u64::from(info.bits))
        {
            self.set_constant(field, value);
        }
    }

    /// Updates the facts for an effect.
    pub fn pass(&mut self, effect: &Effect) {
        self.forget_touched(&effect.writes);
    }

    /// Updates the facts for a copy into a field; `value` is already simplified by earlier facts.
    pub fn assign(&mut self, model: &Model, field: FieldId, value: &Value, widths: &[u32]) {
        self.forget(field);
        let info = model.info(field);
        if !info.is_plain() {
            return;
        }
        match value {
            Value::Hexstr(_) => {
                if let Some(value) = number::constant(value) {
                    let kept = value & number::ones(info.bits);
                    self.know(model, field, &kept);
                }
            }
            Value::Field((header, name)) if info.role == Role::Local && name != VALID => {
                let Some(source) = model.id(header, name) else {
                    return;
                };
                let other = model.info(source);
                if source != field && other.is_plain() && other.bits <= info.bits {
                    self.atoms.insert(field, Atom::Copy(source));
                }
            }
            Value::Local(at) | Value::RuntimeData(at)
                if info.role == Role::Local
                    && widths
                        .get(*at as usize)
                        .is_some_and(|bits| *bits <= info.bits) =>
            {
                self.atoms.insert(field, Atom::Parameter(*at));
            }
            _ => {}
        }
    }

    /// Records a header's validity. The facts about its fields are already removed.
    pub fn set_valid(&mut self, model: &Model, header: &str, valid: bool) {
        let Some(header) = model.headers.get(header) else {
            return;
        };
        self.set_constant(header.valid, u128::from(valid));
        if valid {
            for rival in &header.rivals {
                self.set_constant(*rival, 0);
            }
        }
    }
}
