//! The instances that a header expression may select at run time.

use super::{AnyStack, FieldId, HeaderExpr, HeaderId, Ir, UnionExpr, UnionId};

/// The unions that an expression may select.
pub fn unions<'p>(ir: &'p Ir, union: &'p UnionExpr) -> &'p [UnionId] {
    match union {
        UnionExpr::Union(union) => std::slice::from_ref(union),
        UnionExpr::Element { stack, .. } => &ir.union_stacks[stack.index()].elements,
    }
}

/// All members of these unions.
pub fn members(ir: &Ir, unions: &[UnionId]) -> Vec<HeaderId> {
    let members = unions.iter().map(|union| &ir.unions[union.index()].members);
    members.flatten().copied().collect()
}

/// The member of each union at position `offset`.
fn members_at(ir: &Ir, unions: &[UnionId], offset: u32) -> Vec<HeaderId> {
    let members = unions.iter().map(|union| &ir.unions[union.index()].members);
    let members = members.filter_map(|members| members.get(offset as usize));
    members.copied().collect()
}

/// The headers that an expression may select, in the order of the stack's elements.
pub fn headers(ir: &Ir, header: &HeaderExpr) -> Vec<HeaderId> {
    match header {
        HeaderExpr::Header(header) => vec![*header],
        HeaderExpr::Element { stack, .. } => ir.stacks[stack.index()].elements.clone(),
        HeaderExpr::Member { union, offset } => members_at(ir, unions(ir, union), *offset),
    }
}

/// The field at position `offset` of each header that an expression may select.
pub fn fields(ir: &Ir, header: &HeaderExpr, offset: u32) -> Vec<FieldId> {
    let headers = headers(ir, header).into_iter();
    let fields = headers.map(|header| ir.headers[header.index()].field_at(offset));
    fields.collect()
}

/// Returns the headers that an element of a stack may be. For a stack of unions, these are the members at position
/// `member` of all its unions.
pub fn elements(ir: &Ir, stack: AnyStack, member: u32) -> Vec<HeaderId> {
    match stack {
        AnyStack::Headers(stack) => ir.stacks[stack.index()].elements.clone(),
        AnyStack::Unions(stack) => members_at(ir, &ir.union_stacks[stack.index()].elements, member),
    }
}

/// Every header of a stack, with all members of unions.
pub fn within(ir: &Ir, stack: AnyStack) -> Vec<HeaderId> {
    match stack {
        AnyStack::Headers(stack) => ir.stacks[stack.index()].elements.clone(),
        AnyStack::Unions(stack) => members(ir, &ir.union_stacks[stack.index()].elements),
    }
}
