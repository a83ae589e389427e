//! Finds dead stores in an action: stores that later stores overwrite before anybody reads the field.

use std::collections::HashSet;

use dataplane::engine::ir::{Expr, FieldId, HeaderExpr, Ir, Place, Primitive};

use crate::usage::Usage;

/// For each primitive of an action, the fields that the primitive need not write.
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
            // Any other primitive may read fields that this function does not track, or may not continue with the next
            // primitive.
            _ => later.clear(),
        }
    }
    dead
}

/// Removes from `later` the fields that the numeric expression `expr` reads. `later` holds the fields that are
/// overwritten before anything reads them.
fn read(ir: &Ir, expr: &Expr, later: &mut HashSet<FieldId>) {
    if !later.is_empty() {
        let usage = Usage::of_number(ir, expr);
        later.retain(|field| !usage.field(*field).is_read());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::engine::ir::{Field, Header, HeaderId, Int};

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
        let field = Field {
            name: "h.field".into(),
            header: HeaderId(0),
            bits: 8,
            signed: false,
            variable: false,
        };
        let mut ir = Ir::default();
        ir.headers.push(header);
        ir.fields.resize(3, field);
        ir
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
