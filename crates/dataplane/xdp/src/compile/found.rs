//! Headers and header unions that are known only at run time, because an index selects them among a stack's elements.

use dataplane::engine::ir::{AnyStack, Expr, HeaderExpr, HeaderId, UnionExpr, UnionId, instances};

use super::emit::{Emit, Emitted};
use crate::asm::{Jump, Reg};

/// The header or union to which an expression refers.
pub(super) enum Found<'e, T> {
    /// Known at compile time. `None` if the index is beyond the end of the stack.
    Known(Option<T>),
    /// One of these elements, selected by an index that is known only at run time.
    ByIndex(&'e Expr, Vec<T>),
}

fn position(index: &Expr) -> Option<usize> {
    match index {
        Expr::Const(value) => Some(usize::try_from(value).unwrap_or(usize::MAX)),
        _ => None,
    }
}

fn found<T: Copy>(index: &Expr, all: Vec<T>) -> Found<'_, T> {
    match position(index) {
        Some(position) => Found::Known(all.get(position).copied()),
        None => Found::ByIndex(index, all),
    }
}

impl Emit<'_> {
    pub(super) fn header_of<'e>(&self, header: &'e HeaderExpr) -> Found<'e, HeaderId> {
        let all = instances::headers(self.ir, header);
        match header {
            HeaderExpr::Element { index, .. }
            | HeaderExpr::Member {
                union: UnionExpr::Element { index, .. },
                ..
            } => found(index, all),
            HeaderExpr::Header(_) | HeaderExpr::Member { .. } => Found::Known(all.first().copied()),
        }
    }

    pub(super) fn union_of<'e>(&self, union: &'e UnionExpr) -> Found<'e, UnionId> {
        match union {
            UnionExpr::Union(union) => Found::Known(Some(*union)),
            UnionExpr::Element { stack, index } => {
                let elements = &self.ir.union_stacks[stack.index()].elements;
                found(index, elements.clone())
            }
        }
    }

    /// Generates the code of `some` for each possible element, and the code of `none` for an index beyond the end.
    /// Overwrites registers from `free` on.
    pub(super) fn for_found<T: Copy>(
        &mut self,
        found: &Found<'_, T>,
        free: Reg,
        mut some: impl FnMut(&mut Self, T) -> Emitted<()>,
        none: impl FnOnce(&mut Self),
    ) -> Emitted<()> {
        let (index, all) = match found {
            Found::Known(Some(known)) => return some(self, *known),
            Found::Known(None) => {
                none(self);
                return Ok(());
            }
            Found::ByIndex(index, all) => (index, all),
        };
        self.index(index, free)?;
        let end = self.asm.label();
        for (position, one) in all.iter().enumerate() {
            let other = self.asm.label();
            self.asm.jump_if_imm(Jump::Ne, free, position as i32, other);
            some(self, *one)?;
            self.asm.jump(end);
            self.asm.place(other);
        }
        none(self);
        self.asm.place(end);
        Ok(())
    }

    /// Returns the unions of a stack, if it is a stack of unions.
    pub(super) fn unions_of(&self, stack: AnyStack) -> Option<Vec<UnionId>> {
        match stack {
            AnyStack::Headers(_) => None,
            AnyStack::Unions(stack) => Some(self.ir.union_stacks[stack.index()].elements.clone()),
        }
    }
}
