//! Expressions, and the places that statements assign to. Numbers have infinite precision and are truncated where they
//! are stored.

use super::{FieldId, HeaderId, StackId, UnionId, UnionStackId};
use crate::{RegisterId, value::Int};

/// Operators on numbers, with infinite precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`; division by zero gives zero.
    Div,
    /// `%`; modulo zero gives zero.
    Mod,
    /// `<<`; a shift by more than `limits::FIELD_BITS_MAX` bits gives zero.
    ShiftLeft,
    /// Arithmetic `>>`; a shift by more than `limits::FIELD_BITS_MAX` bits gives 0, or -1 for a negative number.
    ShiftRight,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// Truncates to a signed number; the right operand is the width.
    TwoCompMod,
    /// Saturates to an unsigned number; the right operand is the width.
    SaturateUnsigned,
    /// Saturates to a signed number; the right operand is the width.
    SaturateSigned,
}

/// Comparisons of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

/// A numeric expression.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A constant.
    Const(Int),
    /// A field's value, whether or not its header is valid.
    Field(FieldId),
    /// A header's validity as 0 or 1: the hidden field `$valid$`.
    ValidBit(HeaderId),
    /// A parameter of the action, by position.
    Param(usize),
    /// A field of a header selected at run time.
    Access {
        /// The header; beyond the end of a stack the field reads as zero.
        header: Box<HeaderExpr>,
        /// The field's position in the header.
        offset: u32,
    },
    /// The value of a register cell; zero if the index is beyond the array's end.
    Register {
        /// The register array.
        register: RegisterId,
        /// The cell's index.
        index: Box<Expr>,
    },
    /// An operator and its operands.
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// `~` on an integer without a width: `-1 - x`.
    Complement(Box<Expr>),
    /// `?:`
    Choose {
        /// Selects the value.
        condition: Box<BoolExpr>,
        /// The value if the condition holds.
        yes: Box<Expr>,
        /// The value if the condition does not hold.
        no: Box<Expr>,
    },
    /// 1 if the condition holds, otherwise 0.
    FromBool(Box<BoolExpr>),
    /// `lastIndex`: `nextIndex` - 1.
    LastStackIndex(AnyStack),
    /// `nextIndex`.
    StackSize(AnyStack),
}

/// A stack of headers or of header unions.
#[derive(Debug, Clone, Copy)]
pub enum AnyStack {
    /// A header stack.
    Headers(StackId),
    /// A stack of header unions.
    Unions(UnionStackId),
}

/// A Boolean expression.
#[derive(Debug, Clone)]
pub enum BoolExpr {
    /// A constant.
    Const(bool),
    /// Compares two numbers.
    Compare(Comparison, Expr, Expr),
    /// Whether both headers are valid, have the same type and are equal in all fields.
    SameHeader(HeaderExpr, HeaderExpr),
    /// Whether the same member is valid and equal in both unions, or no member is valid in either.
    SameUnion(UnionExpr, UnionExpr),
    /// Logical equality.
    SameBool(Box<BoolExpr>, Box<BoolExpr>),
    /// `&&`, with short-circuit evaluation.
    And(Box<BoolExpr>, Box<BoolExpr>),
    /// `||`, with short-circuit evaluation.
    Or(Box<BoolExpr>, Box<BoolExpr>),
    /// `!`
    Not(Box<BoolExpr>),
    /// `isValid()`; false beyond the end of a stack.
    Valid(HeaderExpr),
    /// Whether any member is valid.
    ValidUnion(UnionExpr),
    /// Whether a number is not zero.
    FromNumber(Expr),
    /// `?:`
    Choose {
        /// Selects the value.
        condition: Box<BoolExpr>,
        /// The value if the condition holds.
        yes: Box<BoolExpr>,
        /// The value if the condition does not hold.
        no: Box<BoolExpr>,
    },
}

/// An expression that selects a header instance.
#[derive(Debug, Clone)]
pub enum HeaderExpr {
    /// A fixed instance.
    Header(HeaderId),
    /// An element of a stack; no header beyond its end.
    Element {
        /// The header stack.
        stack: StackId,
        /// The element's index.
        index: Box<Expr>,
    },
    /// A member of a header union.
    Member {
        /// The header union.
        union: UnionExpr,
        /// The member's position.
        offset: u32,
    },
}

/// An expression that selects a header union.
#[derive(Debug, Clone)]
pub enum UnionExpr {
    /// A fixed instance.
    Union(UnionId),
    /// An element of a stack; no union beyond its end.
    Element {
        /// The stack of unions.
        stack: UnionStackId,
        /// The element's index.
        index: Box<Expr>,
    },
}

/// A destination of assignments.
#[derive(Debug, Clone)]
pub enum Place {
    /// A fixed field.
    Field(FieldId),
    /// A field of a header selected at run time.
    Access {
        /// The header; beyond the end of a stack nothing is written.
        header: HeaderExpr,
        /// The field's position in the header.
        offset: u32,
    },
    /// A register cell. Nothing is written if the index is beyond the array's end.
    RegisterCell {
        /// The register array.
        register: RegisterId,
        /// The cell's index.
        index: Expr,
    },
}
