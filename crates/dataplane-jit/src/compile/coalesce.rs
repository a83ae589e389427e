//! What an action need not do: stores that later ones overwrite before anybody reads, and
//! conditions that its constants decide.

use std::collections::HashSet;

use cranelift_codegen::ir::{InstructionData, Opcode, Value, ValueDef};
use dataplane::engine::ir::{
    BoolExpr, Comparison, Expr, FieldId, HeaderExpr, Int, Ir, Node, NodeId, Place, Primitive,
};

use super::Emit;

/// For each primitive of an action, the fields that it need not write.
pub(super) fn dead_stores(ir: &Ir, primitives: &[Primitive]) -> Vec<Vec<FieldId>> {
    let mut later = HashSet::new();
    let mut dead = vec![Vec::new(); primitives.len()];
    for (primitive, dead) in primitives.iter().zip(&mut dead).rev() {
        match primitive {
            Primitive::NoOp
            | Primitive::Log { .. }
            | Primitive::RemoveHeader(HeaderExpr::Header(_)) => {}
            Primitive::Assign {
                to: Place::Field(field),
                from,
            } => {
                if later.contains(field) {
                    dead.push(*field);
                } else {
                    later.insert(*field);
                    read(ir, from, &mut later);
                }
            }
            Primitive::AddHeader(HeaderExpr::Header(header)) => {
                let fields = ir.headers[header.index()].field_ids();
                dead.extend(fields.filter(|field| later.contains(field)));
            }
            Primitive::MarkToDrop => {
                later.insert(ir.metadata.egress_spec);
                later.extend(ir.metadata.mcast_grp);
            }
            Primitive::Count { index, .. } => read(ir, index, &mut later),
            Primitive::RegisterWrite { index, value, .. } => {
                read(ir, index, &mut later);
                read(ir, value, &mut later);
            }
            // It reads what nobody follows here, or does not always come to what is behind it.
            _ => later.clear(),
        }
    }
    dead
}

/// What a number reads is not overwritten before it is read.
fn read(ir: &Ir, expr: &Expr, later: &mut HashSet<FieldId>) {
    match expr {
        Expr::Const(_) | Expr::ValidBit(_) | Expr::Param(_) => {}
        Expr::Field(field) => {
            later.remove(field);
        }
        Expr::Access { header, offset } => match &**header {
            HeaderExpr::Header(header) => {
                later.remove(&ir.headers[header.index()].field_at(*offset));
            }
            _ => later.clear(),
        },
        Expr::Arithmetic(_, left, right) => {
            read(ir, left, later);
            read(ir, right, later);
        }
        Expr::Complement(operand) => read(ir, operand, later),
        Expr::Choose { condition, yes, no } => {
            read_truth(ir, condition, later);
            read(ir, yes, later);
            read(ir, no, later);
        }
        Expr::FromBool(condition) => read_truth(ir, condition, later),
        Expr::Register { index, .. } => read(ir, index, later),
        Expr::LastField { .. }
        | Expr::UnionLastField { .. }
        | Expr::LastStackIndex(_)
        | Expr::StackSize(_) => later.clear(),
    }
}

fn read_truth(ir: &Ir, condition: &BoolExpr, later: &mut HashSet<FieldId>) {
    match condition {
        BoolExpr::Const(_) | BoolExpr::Valid(HeaderExpr::Header(_)) => {}
        BoolExpr::Compare(_, left, right) => {
            read(ir, left, later);
            read(ir, right, later);
        }
        BoolExpr::SameBool(left, right)
        | BoolExpr::And(left, right)
        | BoolExpr::Or(left, right) => {
            read_truth(ir, left, later);
            read_truth(ir, right, later);
        }
        BoolExpr::Not(operand) => read_truth(ir, operand, later),
        BoolExpr::FromNumber(number) => read(ir, number, later),
        _ => later.clear(),
    }
}

impl Emit<'_, '_, '_> {
    /// The node where a control really goes on: a condition that is known here is not asked again.
    pub(super) fn threaded(&self, mut node: Option<NodeId>) -> Option<NodeId> {
        if !self.unit.options.action_specialisation {
            return node;
        }
        let nodes = &self.ir().nodes;
        for _ in nodes {
            let Node::If {
                condition, yes, no, ..
            } = &nodes[node?.index()]
            else {
                return node;
            };
            match self.decided(condition) {
                Some(true) => node = *yes,
                Some(false) => node = *no,
                None => return node,
            }
        }
        node
    }

    /// What a condition gives, where it is known when compiling.
    fn decided(&self, condition: &BoolExpr) -> Option<bool> {
        match condition {
            BoolExpr::Const(holds) => Some(*holds),
            BoolExpr::Compare(op, left, right) => {
                let (left, right) = (self.constant_of(left)?, self.constant_of(right)?);
                Some(match op {
                    Comparison::Equal => left == right,
                    Comparison::NotEqual => left != right,
                    Comparison::Less => left < right,
                    Comparison::LessEqual => left <= right,
                    Comparison::Greater => left > right,
                    Comparison::GreaterEqual => left >= right,
                })
            }
            BoolExpr::Not(operand) => Some(!self.decided(operand)?),
            BoolExpr::And(left, right) => match (self.decided(left), self.decided(right)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            BoolExpr::Or(left, right) => match (self.decided(left), self.decided(right)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            BoolExpr::FromNumber(number) => Some(self.constant_of(number)? != Int::ZERO),
            _ => None,
        }
    }

    fn constant_of(&self, number: &Expr) -> Option<Int> {
        match number {
            Expr::Const(value) => Some(value.clone()),
            Expr::FromBool(condition) => Some(Int::from(u8::from(self.decided(condition)?))),
            Expr::Field(field) => {
                let slot = self.layout().field(*field);
                let is_plain = slot.words == 1 && !slot.signed && !slot.variable;
                let value = self.known.get(&(*field, 0)).filter(|_| is_plain)?;
                self.constant_word(*value).map(Int::from)
            }
            _ => None,
        }
    }

    fn constant_word(&self, value: Value) -> Option<u64> {
        let dfg = &self.b.func.dfg;
        let ValueDef::Result(made_by, _) = dfg.value_def(value) else {
            return None;
        };
        match dfg.insts[made_by] {
            InstructionData::UnaryImm {
                opcode: Opcode::Iconst,
                imm,
            } => Some(imm.bits().cast_unsigned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::engine::ir::{Header, HeaderId};

    fn assign(field: u32, from: Expr) -> Primitive {
        let to = Place::Field(FieldId(field));
        Primitive::Assign { to, from }
    }

    fn ir() -> Ir {
        let header = Header {
            name: "h".into(),
            type_index: 0,
            fields: 0..3,
            metadata: false,
            fixed_bits: 24,
            variable_field: None,
            max_bytes: 0,
            union: None,
        };
        Ir {
            headers: vec![header],
            ..Ir::default()
        }
    }

    #[test]
    fn a_store_is_dead_where_a_later_one_comes_before_any_reader() {
        let five = || Expr::Const(Int::from(5));
        let add = Primitive::AddHeader(HeaderExpr::Header(HeaderId(0)));
        let of = |primitives: &[Primitive]| dead_stores(&ir(), primitives);
        let field = |number| vec![FieldId(number)];
        assert_eq!(
            of(&[assign(0, five()), assign(0, five())]),
            [field(0), vec![]]
        );
        let reader = assign(1, Expr::Field(FieldId(0)));
        assert_eq!(
            of(&[assign(0, five()), reader, assign(0, five())])[0],
            vec![]
        );
        let jump = Primitive::Jump(2);
        assert_eq!(of(&[assign(0, five()), jump, assign(0, five())])[0], vec![]);
        assert_eq!(of(&[add, assign(2, five())])[0], field(2));
    }
}
