//! Expressions and places. Numbers have infinite precision, cut where they are stored.

use super::{FieldId, HeaderId, StackId, UnionId, UnionStackId};
use crate::{RegisterId, value::Int};

/// Operators that give a number; with infinite precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`; by zero it gives zero.
    Div,
    /// `%`; by zero it gives zero.
    Mod,
    /// `<<`; by more than `limits::FIELD_BITS_MAX` it gives zero.
    ShiftLeft,
    /// `>>` of a signed number; by more than `limits::FIELD_BITS_MAX` it gives 0 or -1.
    ShiftRight,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// Two's complement of the right operand's width.
    TwoCompMod,
    /// The nearest number that an unsigned field of the right operand's width holds.
    SaturateUnsigned,
    /// The nearest number that a signed field of the right operand's width holds.
    SaturateSigned,
}

/// Operators that compare two numbers.
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

/// An expression that gives a number.
#[derive(Debug, Clone)]
pub enum Expr {
    /// A number.
    Const(Int),
    /// A field's value, whether its header is valid or not.
    Field(FieldId),
    /// The validity as a number: the hidden field `$valid$`.
    ValidBit(HeaderId),
    /// A parameter of the action.
    Param(usize),
    /// A field of a header that is found at run time.
    Access {
        /// The header; none beyond the end of a stack, which reads as zero.
        header: Box<HeaderExpr>,
        /// The field's position in the header.
        offset: u32,
    },
    /// A cell of a register; zero beyond its end.
    Register {
        /// The register.
        register: RegisterId,
        /// The cell.
        index: Box<Expr>,
    },
    /// An operator and its operands.
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// `~`, of an integer without a width: `-1 - x`.
    Complement(Box<Expr>),
    /// `?:`
    Choose {
        /// What decides.
        condition: Box<BoolExpr>,
        /// The value where it holds.
        yes: Box<Expr>,
        /// The value where it does not.
        no: Box<Expr>,
    },
    /// 1 or 0.
    FromBool(Box<BoolExpr>),
    /// `nextIndex` less 1.
    LastStackIndex(AnyStack),
    /// `nextIndex`.
    StackSize(AnyStack),
}

/// A stack of headers or of unions.
#[derive(Debug, Clone, Copy)]
pub enum AnyStack {
    /// Of headers.
    Headers(StackId),
    /// Of unions.
    Unions(UnionStackId),
}

/// An expression that gives a truth value.
#[derive(Debug, Clone)]
pub enum BoolExpr {
    /// A truth value.
    Const(bool),
    /// Two numbers compared.
    Compare(Comparison, Expr, Expr),
    /// Both valid, of one type and of the same values.
    SameHeader(HeaderExpr, HeaderExpr),
    /// The same member is valid and has the same values, or none is.
    SameUnion(UnionExpr, UnionExpr),
    /// Equivalence.
    SameBool(Box<BoolExpr>, Box<BoolExpr>),
    /// Both; the right one is not looked at where the left one does not hold.
    And(Box<BoolExpr>, Box<BoolExpr>),
    /// At least one; the right one is not looked at where the left one holds.
    Or(Box<BoolExpr>, Box<BoolExpr>),
    /// The opposite.
    Not(Box<BoolExpr>),
    /// `isValid()`; not beyond the end of a stack.
    Valid(HeaderExpr),
    /// Whether a member is valid.
    ValidUnion(UnionExpr),
    /// Whether it is not zero.
    FromNumber(Expr),
    /// `?:`
    Choose {
        /// What decides.
        condition: Box<BoolExpr>,
        /// The value where it holds.
        yes: Box<BoolExpr>,
        /// The value where it does not.
        no: Box<BoolExpr>,
    },
}

/// An expression that gives a header instance.
#[derive(Debug, Clone)]
pub enum HeaderExpr {
    /// An instance.
    Header(HeaderId),
    /// An element of a stack; none beyond its end.
    Element {
        /// The stack.
        stack: StackId,
        /// Which element.
        index: Box<Expr>,
    },
    /// A member of a union.
    Member {
        /// The union.
        union: UnionExpr,
        /// The member's position.
        offset: u32,
    },
}

/// An expression that gives a header union.
#[derive(Debug, Clone)]
pub enum UnionExpr {
    /// An instance.
    Union(UnionId),
    /// An element of a stack; none beyond its end.
    Element {
        /// The stack.
        stack: UnionStackId,
        /// Which element.
        index: Box<Expr>,
    },
}

/// What can be assigned to.
#[derive(Debug, Clone)]
pub enum Place {
    /// A field.
    Field(FieldId),
    /// A field of a header that is found at run time.
    Access {
        /// The header.
        header: HeaderExpr,
        /// The field's position in it.
        offset: u32,
    },
    /// A cell of a register.
    RegisterCell {
        /// The register.
        register: RegisterId,
        /// The cell.
        index: Expr,
    },
}
