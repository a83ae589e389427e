//! Types, and the type checker, which turns a syntax tree into a checked program ([`crate::ir`]).

pub mod annotation;
mod annotation_rules;
pub mod block;
pub mod call;
pub mod check;
pub mod const_eval;
mod construct;
mod declaration_rules;
pub mod declare;
pub mod generic;
pub mod infer;
pub mod initial;
mod key_name;
pub mod legality;
pub mod loops;
pub mod method;
mod open_check;
mod open_shift;
pub mod operator;
pub mod part_slice;
mod priority_rules;
pub mod rules;
pub mod scope;
pub mod statement;
pub mod table;
mod table_rules;
pub mod unify;
pub mod unknown;

use std::rc::Rc;

use crate::ir::{EnumId, NewtypeId, StructId};

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Void,
    Bool,
    String,
    Error,
    MatchKind,
    /// A number of any size, known at compile time.
    Int,
    Bits {
        width: u32,
        signed: bool,
    },
    Varbit(u32),
    Enum(EnumId),
    Newtype(NewtypeId),
    /// Struct, header or header union.
    Struct(StructId),
    Stack(Box<Type>, u32),
    Tuple(Vec<Type>),
    /// `{a, b}` before its type is known.
    ListOf(Vec<Type>),
    /// `{k = a}` before its type is known.
    RecordOf(Vec<(Rc<str>, Type)>),
    /// `{#}` before its type is known.
    InvalidHeader,
    /// `...` before its type is known.
    Default,
    /// `list<T>`: any number of values, at compile time only.
    List(Box<Type>),
    Extern(usize, Vec<Type>),
    /// The type of a control's instances, by the control's number.
    Control(usize),
    Parser(usize),
    /// A generic control or parser whose type arguments follow from its constructor's arguments.
    OpenBlock(usize),
    /// `control C(...);`, with which a package declares the control that it needs.
    ControlKind(usize, Vec<Type>),
    ParserKind(usize, Vec<Type>),
    Package(usize, Vec<Type>),
    /// The result of `t.apply()`.
    ApplyResult(usize),
    /// `t.apply().action_run`.
    ActionRun(usize),
    Set(Box<Type>),
    /// A type parameter that is being inferred or declared.
    Variable(Rc<str>),
    /// `_`.
    DontCare,
    /// Stands for a type that is unknown because of a reported error; fits every type.
    Poison,
}

impl Type {
    pub const fn bits(width: u32) -> Self {
        Self::Bits {
            width,
            signed: false,
        }
    }

    pub fn is_poison(&self) -> bool {
        matches!(self, Self::Poison)
    }
}
