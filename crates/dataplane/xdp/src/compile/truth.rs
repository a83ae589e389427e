//! Generates code for conditions, as jumps: comparisons, validity, equality of headers.

use dataplane::engine::ir::{
    BoolExpr, Comparison, Expr, HeaderExpr, HeaderId, UnionId, range::Range,
};

use super::{
    emit::{Emit, Emitted, next},
    expression::{WORDS_MAX, low_word},
    found::Found,
};
use crate::asm::{Jump, Label, Reg, reg::*};

fn jump_of(op: Comparison, signed: bool) -> Jump {
    match (op, signed) {
        (Comparison::Equal, _) => Jump::Eq,
        (Comparison::NotEqual, _) => Jump::Ne,
        (Comparison::Less, true) => Jump::Slt,
        (Comparison::Less, false) => Jump::Lt,
        (Comparison::LessEqual, true) => Jump::Sle,
        (Comparison::LessEqual, false) => Jump::Le,
        (Comparison::Greater, true) => Jump::Sgt,
        (Comparison::Greater, false) => Jump::Gt,
        (Comparison::GreaterEqual, true) => Jump::Sge,
        (Comparison::GreaterEqual, false) => Jump::Ge,
    }
}

/// A jump to `to` if a condition's value is `wanted`. Evaluation overwrites registers from `free` on.
#[derive(Clone, Copy)]
struct Branch {
    wanted: bool,
    to: Label,
    free: Reg,
}

/// Two numbers to compare. The comparison overwrites registers from `free` on.
#[derive(Clone, Copy)]
struct Operands<'e> {
    left: &'e Expr,
    right: &'e Expr,
    free: Reg,
}

impl Emit<'_> {
    /// Jumps if the expression's value is `wanted`. Overwrites registers from `free` on.
    pub(super) fn jump_if(
        &mut self,
        expr: &BoolExpr,
        wanted: bool,
        to: Label,
        free: Reg,
    ) -> Emitted<()> {
        let branch = Branch { wanted, to, free };
        match expr {
            BoolExpr::Const(truth) => {
                if *truth == wanted {
                    self.asm.jump(to);
                }
                Ok(())
            }
            BoolExpr::Compare(op, left, right) => self.compare(*op, left, right, branch),
            BoolExpr::SameHeader(left, right) => {
                let (left, right) = (self.header_of(left), self.header_of(right));
                self.same_found(&left, &right, branch, Self::same_fields)
            }
            BoolExpr::SameUnion(left, right) => {
                let (left, right) = (self.union_of(left), self.union_of(right));
                self.same_found(&left, &right, branch, Self::same_members)
            }
            BoolExpr::SameBool(left, right) => {
                let same = Expr::FromBool(left.clone());
                let other = Expr::FromBool(right.clone());
                self.compare(Comparison::Equal, &same, &other, branch)
            }
            BoolExpr::And(left, right) => self.both(left, right, false, branch),
            BoolExpr::Or(left, right) => self.both(left, right, true, branch),
            BoolExpr::Not(operand) => self.jump_if(operand, !wanted, to, free),
            BoolExpr::Valid(header) => self.valid(header, wanted, to, free),
            BoolExpr::ValidUnion(union) => {
                let found = self.union_of(union);
                let some = |emit: &mut Self, union| {
                    emit.union_valid(union, wanted, to, free);
                    Ok(())
                };
                self.for_found(&found, free, some, |emit| emit.jump_unless(wanted, to))
            }
            BoolExpr::FromNumber(operand) => self.is_not_zero(operand, wanted, to, free),
            BoolExpr::Choose { condition, yes, no } => {
                let (otherwise, end) = (self.asm.label(), self.asm.label());
                self.jump_if(condition, false, otherwise, free)?;
                self.jump_if(yes, wanted, to, free)?;
                self.asm.jump(end);
                self.asm.place(otherwise);
                self.jump_if(no, wanted, to, free)?;
                self.asm.place(end);
                Ok(())
            }
        }
    }

    /// Generates `And` or `Or`. The condition's value is `early` as soon as the value of one operand is `early`.
    fn both(
        &mut self,
        left: &BoolExpr,
        right: &BoolExpr,
        early: bool,
        branch: Branch,
    ) -> Emitted<()> {
        let Branch { wanted, to, free } = branch;
        if wanted == early {
            self.jump_if(left, early, to, free)?;
            return self.jump_if(right, early, to, free);
        }
        let end = self.asm.label();
        self.jump_if(left, early, end, free)?;
        self.jump_if(right, wanted, to, free)?;
        self.asm.place(end);
        Ok(())
    }

    fn valid(&mut self, header: &HeaderExpr, wanted: bool, to: Label, free: Reg) -> Emitted<()> {
        let found = self.header_of(header);
        let some = |emit: &mut Self, header| {
            emit.jump_if_valid(header, wanted, to, free);
            Ok(())
        };
        self.for_found(&found, free, some, |emit| emit.jump_unless(wanted, to))
    }

    /// Generates the jump for a condition that is known to be false: a jump is needed only if `wanted` is false.
    fn jump_unless(&mut self, wanted: bool, to: Label) {
        if !wanted {
            self.asm.jump(to);
        }
    }

    fn union_valid(&mut self, union: UnionId, wanted: bool, to: Label, free: Reg) {
        let is_valid = self.asm.label();
        for member in self.members(union) {
            self.jump_if_valid(member, true, if wanted { to } else { is_valid }, free);
        }
        self.jump_unless(wanted, to);
        self.asm.place(is_valid);
    }

    fn is_not_zero(&mut self, operand: &Expr, wanted: bool, to: Label, free: Reg) -> Emitted<()> {
        let range = self.bounded(operand)?;
        let end = self.asm.label();
        for word in 0..range.words() {
            self.word(operand, word, free)?;
            let target = if wanted { to } else { end };
            self.asm.jump_if_imm(Jump::Ne, free, 0, target);
        }
        if !wanted {
            self.asm.jump(to);
        }
        self.asm.place(end);
        Ok(())
    }

    fn compare(
        &mut self,
        op: Comparison,
        left: &Expr,
        right: &Expr,
        branch: Branch,
    ) -> Emitted<()> {
        let both = self.bounded(left)?.join(&self.bounded(right)?);
        let words = both.words();
        if words > WORDS_MAX {
            return Err(format!("a comparison of more than {} bits", 64 * WORDS_MAX));
        }
        let Branch { wanted, to, free } = branch;
        let operands = Operands { left, right, free };
        if words > 1 {
            return self.compare_words(op, operands, &both, branch);
        }
        let mut jump = jump_of(op, both.signed);
        if !wanted {
            jump = jump.inverse().ok_or("a comparison without an opposite")?;
        }
        self.compare_word(jump, operands, 0, to)
    }

    /// Compares one word of two numbers.
    fn compare_word(
        &mut self,
        jump: Jump,
        operands: Operands<'_>,
        word: u32,
        to: Label,
    ) -> Emitted<()> {
        let Operands { left, right, free } = operands;
        let constant = match right {
            Expr::Const(value) => i32::try_from(low_word(value, word).cast_signed()).ok(),
            _ => None,
        };
        if let Some(constant) = constant {
            self.word(left, word, free)?;
            self.asm.jump_if_imm(jump, free, constant, to);
            return Ok(());
        }
        self.pair(free, (left, word), (right, word), |emit, a, b| {
            emit.asm.jump_if(jump, a, b, to);
        })
    }

    /// Compares all words of two numbers whose values are in `range`.
    fn compare_words(
        &mut self,
        op: Comparison,
        operands: Operands<'_>,
        range: &Range,
        Branch { wanted, to, .. }: Branch,
    ) -> Emitted<()> {
        let words = range.words();
        let end = self.asm.label();
        if matches!(op, Comparison::Equal | Comparison::NotEqual) {
            // `!=` holds as soon as a word differs.
            let jumps_if_different = (op == Comparison::NotEqual) == wanted;
            let differs_to = if jumps_if_different { to } else { end };
            for word in 0..words {
                self.compare_word(Jump::Ne, operands, word, differs_to)?;
            }
            if differs_to == end {
                self.asm.jump(to);
            }
            self.asm.place(end);
            return Ok(());
        }
        let is_less = matches!(op, Comparison::Less | Comparison::LessEqual);
        let if_less = if is_less == wanted { to } else { end };
        let if_greater = if is_less == wanted { end } else { to };
        for word in (0..words).rev() {
            let less = jump_of(Comparison::Less, range.signed && word + 1 == words);
            self.compare_word(less, operands, word, if_less)?;
            self.compare_word(Jump::Ne, operands, word, if_greater)?;
        }
        let holds_if_equal = matches!(op, Comparison::LessEqual | Comparison::GreaterEqual);
        if holds_if_equal == wanted {
            self.asm.jump(to);
        }
        self.asm.place(end);
        Ok(())
    }

    /// Jumps if two headers or unions are equal and true is wanted, or if they differ and false is wanted. A header or
    /// union whose index is beyond the end of its stack equals nothing. `same` compares two existing headers or unions,
    /// and falls through if they are equal.
    fn same_found<T: Copy>(
        &mut self,
        left: &Found<'_, T>,
        right: &Found<'_, T>,
        Branch { wanted, to, free }: Branch,
        same: impl Fn(&mut Self, T, T, Label, Reg) -> Emitted<()>,
    ) -> Emitted<()> {
        let differ = self.asm.label();
        let differs_to = if wanted { differ } else { to };
        let differs = |emit: &mut Self| emit.asm.jump(differs_to);
        self.for_found(
            left,
            free,
            |emit, left| {
                let some = |emit: &mut Self, right| same(emit, left, right, differs_to, free);
                emit.for_found(right, free, some, differs)
            },
            differs,
        )?;
        if wanted {
            self.asm.jump(to);
        }
        self.asm.place(differ);
        Ok(())
    }

    /// Falls through if both headers are valid, of one type, and have equal fields.
    fn same_fields(
        &mut self,
        left: HeaderId,
        right: HeaderId,
        differs_to: Label,
        free: Reg,
    ) -> Emitted<()> {
        let headers = &self.ir.headers;
        let (a, b) = (&headers[left.index()], &headers[right.index()]);
        if a.type_index != b.type_index {
            self.asm.jump(differs_to);
            return Ok(());
        }
        if a.variable_field.is_some() {
            return Err("a field of variable width".into());
        }
        if free >= R5 {
            return Err("a comparison of headers deep in an expression".into());
        }
        self.jump_if_valid(left, false, differs_to, free);
        self.jump_if_valid(right, false, differs_to, free);
        for (x, y) in a.field_ids().zip(b.field_ids()) {
            for word in 0..self.words(x) {
                self.field_word(x, word, free);
                self.field_word(y, word, next(free));
                self.asm.jump_if(Jump::Ne, free, next(free), differs_to);
            }
        }
        Ok(())
    }

    /// Falls through if each member of the left union equals the member at the same position in the right union, or
    /// both members are invalid.
    fn same_members(
        &mut self,
        left: UnionId,
        right: UnionId,
        differs_to: Label,
        free: Reg,
    ) -> Emitted<()> {
        for (left, right) in self.members(left).into_iter().zip(self.members(right)) {
            let (some, none) = (self.asm.label(), self.asm.label());
            self.jump_if_valid(left, true, some, free);
            self.jump_if_valid(right, false, none, free);
            self.asm.place(some);
            self.same_fields(left, right, differs_to, free)?;
            self.asm.place(none);
        }
        Ok(())
    }
}
