//! Which instances a construct may mean that finds its header when a packet is there.

use dataplane::engine::ir::{AnyStack, FieldId, HeaderExpr, HeaderId, Ir, UnionExpr, UnionId};

/// The unions that an expression may give.
fn unions<'p>(ir: &'p Ir, union: &'p UnionExpr) -> &'p [UnionId] {
    match union {
        UnionExpr::Union(union) => std::slice::from_ref(union),
        UnionExpr::Element { stack, .. } => &ir.union_stacks[stack.index()].elements,
    }
}

/// Every member of the unions that an expression may give.
pub(super) fn members(ir: &Ir, union: &UnionExpr) -> Vec<HeaderId> {
    let members = unions(ir, union)
        .iter()
        .map(|union| &ir.unions[union.index()].members);
    members.flatten().copied().collect()
}

/// The headers that an expression may give, in the order of the index that chooses.
pub(super) fn headers(ir: &Ir, header: &HeaderExpr) -> Vec<HeaderId> {
    match header {
        HeaderExpr::Header(header) => vec![*header],
        HeaderExpr::Element { stack, .. } => ir.stacks[stack.index()].elements.clone(),
        HeaderExpr::Member { union, offset } => {
            let unions = unions(ir, union).iter();
            let members = unions.map(|union| &ir.unions[union.index()].members);
            let members = members.filter_map(|members| members.get(*offset as usize));
            members.copied().collect()
        }
    }
}

/// The fields at a position of the headers that an expression may give.
pub(super) fn fields(ir: &Ir, header: &HeaderExpr, offset: u32) -> Vec<FieldId> {
    let headers = headers(ir, header).into_iter();
    let fields = headers.map(|header| ir.headers[header.index()].field_at(offset));
    fields.collect()
}

/// Every header of a stack.
pub(super) fn within(ir: &Ir, stack: AnyStack) -> Vec<HeaderId> {
    match stack {
        AnyStack::Headers(stack) => ir.stacks[stack.index()].elements.clone(),
        AnyStack::Unions(stack) => {
            let elements = ir.union_stacks[stack.index()].elements.iter();
            let members = elements.map(|union| &ir.unions[union.index()].members);
            members.flatten().copied().collect()
        }
    }
}
