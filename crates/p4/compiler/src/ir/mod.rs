//! The checked program: every name resolved, every expression typed, every implicit cast written
//! out, constants of known value folded.
//!
//! Invariants, on which `lower` relies:
//! - a [`Var`] is used only inside the declaration that owns it;
//! - the two sides of an arithmetic operation have the same type (shifts excepted);
//! - a call has one entry in its `arguments` for each parameter, in the parameters' order;
//! - no [`Type::Variable`], `ListOf` or `RecordOf` is left in an expression, except as the type of
//!   an argument whose parameter has no structure of its own (`digest`, checksum data).

use std::rc::Rc;

use num_bigint::BigInt;

pub use crate::syntax::ast::{Annotation, BinaryOp, Direction, StructKind, UnaryOp};

use crate::source::Span;
use crate::types::Type;

pub type VarId = usize;
pub type StructId = usize;
pub type EnumId = usize;
pub type NewtypeId = usize;
pub type InstanceId = usize;
pub type FunctionId = usize;
pub type ActionId = usize;
pub type TableId = usize;
pub type ControlId = usize;
pub type ParserId = usize;

#[derive(Debug, Clone)]
pub struct Var {
    pub name: Rc<str>,
    pub ty: Type,
    pub direction: Direction,
    pub is_parameter: bool,
    pub default: Option<Expr>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub name: Rc<str>,
    pub ty: Type,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Struct {
    pub name: Rc<str>,
    pub kind: StructKind,
    pub fields: Vec<Field>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Enum {
    pub name: Rc<str>,
    /// `None` for a plain enum.
    pub underlying: Option<Type>,
    pub members: Vec<(Rc<str>, BigInt)>,
    pub annotations: Vec<Annotation>,
    pub from_library: bool,
}

#[derive(Debug, Clone)]
pub struct Newtype {
    pub name: Rc<str>,
    pub ty: Type,
    pub annotations: Vec<Annotation>,
}

#[derive(Debug, Clone)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Type,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackProperty {
    Next,
    Last,
    LastIndex,
}

#[derive(Debug, Clone)]
pub enum ExprKind {
    Int(BigInt),
    Bool(bool),
    Str(Rc<str>),
    Error(u32),
    /// A plain enum's constant: the position of the member.
    Member(EnumId, usize),
    Var(VarId),
    Instance(InstanceId),
    Construct(Box<Instance>),
    Field(Box<Expr>, usize),
    Index(Box<Expr>, Box<Expr>),
    Stack(Box<Expr>, StackProperty),
    Slice(Box<Expr>, u32, u32),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    /// Fields in the type's order.
    List(Vec<Expr>),
    InvalidHeader,
    Call(Box<Call>),
    /// `.hit` (true) or `.miss` (false) of a table's `apply()`.
    Hit(Box<Expr>, bool),
    /// `_`: a set that matches everything, or an ignored result.
    DontCare,
    Range(Box<Expr>, Box<Expr>),
    Mask(Box<Expr>, Box<Expr>),
    ValueSet(usize),
    /// Stands for an expression with an error that was reported.
    Poison,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    IsValid,
    SetValid,
    SetInvalid,
    PushFront,
    PopFront,
}

#[derive(Debug, Clone)]
pub enum Callee {
    Function(FunctionId),
    Action(ActionId),
    ExternFunction(Rc<str>, Vec<Type>),
    ExternMethod(Expr, Rc<str>),
    ApplyTable(TableId),
    /// Applies an instance of a control or parser. It is an expression, because it may be a constructor parameter.
    ApplyBlock(Expr),
    Builtin(Builtin, Expr),
}

#[derive(Debug, Clone)]
pub struct Call {
    pub callee: Callee,
    /// `None` for `_`, or for an action's parameter that the control plane supplies.
    pub arguments: Vec<Option<Expr>>,
}

#[derive(Debug, Clone)]
pub struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub enum StatementKind {
    Assign(Expr, Expr),
    Call(Expr),
    Block(Vec<Statement>),
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// `switch (t.apply().action_run)`: labels are actions, None is default.
    SwitchAction(Expr, Vec<(Vec<Option<ActionId>>, Vec<Statement>)>),
    /// `switch (expr)`: labels are constants, None is default.
    SwitchValue(Expr, Vec<(Vec<Option<Expr>>, Vec<Statement>)>),
    Declare(VarId, Option<Expr>),
    Return(Option<Expr>),
    Exit,
    For(Box<Loop>),
    Break,
    Continue,
}

#[derive(Debug, Clone)]
pub struct Loop {
    pub head: LoopHead,
    pub body: Vec<Statement>,
}

#[derive(Debug, Clone)]
pub enum LoopHead {
    /// Initial statements, condition, updates.
    While(Vec<Statement>, Expr, Vec<Statement>),
    /// Each number from the lower bound to the upper one, inclusive.
    Range(VarId, Expr, Expr),
    Each(VarId, Vec<Expr>),
}

#[derive(Debug, Clone)]
pub enum InstanceKind {
    Extern(usize, Vec<Type>),
    Control(ControlId),
    Parser(ParserId),
    Package(usize, Vec<Type>),
}

#[derive(Debug, Clone)]
pub struct Instance {
    pub name: Rc<str>,
    pub kind: InstanceKind,
    /// The name of each argument's parameter.
    pub parameters: Vec<Rc<str>>,
    pub arguments: Vec<Option<Expr>>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Function {
    pub parameters: Vec<VarId>,
    pub returns: Type,
    pub body: Vec<Statement>,
}

#[derive(Debug, Clone)]
pub struct Action {
    pub name: Rc<str>,
    pub parameters: Vec<VarId>,
    pub body: Vec<Statement>,
    pub annotations: Vec<Annotation>,
    pub is_global: bool,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Key {
    pub expr: Expr,
    pub match_kind: Rc<str>,
    pub annotations: Vec<Annotation>,
    /// The key's name for the control plane.
    pub name: String,
}

/// A reference to an action with the arguments that the program gives.
#[derive(Debug, Clone)]
pub struct ActionUse {
    pub action: ActionId,
    pub arguments: Vec<Option<Expr>>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub keys: Vec<Expr>,
    pub action: ActionUse,
    pub priority: Option<Expr>,
    /// The number in `@priority`: the entry with the lowest number wins.
    pub rank: Option<u32>,
    pub is_const: bool,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct TableProperty {
    pub name: Rc<str>,
    pub value: Expr,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub name: Rc<str>,
    pub keys: Vec<Key>,
    pub actions: Vec<ActionUse>,
    pub default_action: Option<ActionUse>,
    pub default_is_const: bool,
    pub entries: Option<(bool, Vec<Entry>)>,
    pub properties: Vec<TableProperty>,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

impl Table {
    pub fn property(&self, name: &str) -> Option<&TableProperty> {
        self.properties
            .iter()
            .find(|property| &*property.name == name)
    }
}

#[derive(Debug, Clone)]
pub struct ValueSet {
    pub name: Rc<str>,
    pub ty: Type,
    pub size: Expr,
    pub annotations: Vec<Annotation>,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    Instance(InstanceId),
    Action(ActionId),
    Table(TableId),
}

#[derive(Debug, Clone, Default)]
pub struct Control {
    pub name: Rc<str>,
    pub parameters: Vec<VarId>,
    pub constructor: Vec<VarId>,
    /// Variables with their initial values, in order.
    pub variables: Vec<(VarId, Option<Expr>)>,
    pub instances: Vec<InstanceId>,
    /// Declarations that P4Info lists, in the order of the source.
    pub locals: Vec<Local>,
    pub apply: Vec<Statement>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub enum Target {
    Accept,
    Reject,
    State(usize),
}

#[derive(Debug, Clone)]
pub enum Transition {
    To(Target),
    /// Keys and cases. A case has one set for each key, or one set for all keys together, and a target.
    Select(Vec<Expr>, Vec<(Vec<Expr>, Target, Span)>),
}

#[derive(Debug, Clone)]
pub struct State {
    pub name: Rc<str>,
    pub statements: Vec<Statement>,
    pub transition: Transition,
    pub span: Span,
}

#[derive(Debug, Clone, Default)]
pub struct Parser {
    pub name: Rc<str>,
    pub parameters: Vec<VarId>,
    pub constructor: Vec<VarId>,
    pub variables: Vec<(VarId, Option<Expr>)>,
    pub instances: Vec<InstanceId>,
    pub value_sets: Vec<usize>,
    pub states: Vec<State>,
    pub start: usize,
    pub span: Span,
}

#[derive(Debug, Default)]
pub struct Program {
    pub vars: Vec<Var>,
    pub structs: Vec<Struct>,
    pub enums: Vec<Enum>,
    pub newtypes: Vec<Newtype>,
    pub errors: Vec<Rc<str>>,
    pub extern_names: Vec<Rc<str>>,
    pub package_names: Vec<Rc<str>>,
    pub control_kind_names: Vec<Rc<str>>,
    pub parser_kind_names: Vec<Rc<str>>,
    pub functions: Vec<Function>,
    pub actions: Vec<Action>,
    pub tables: Vec<Table>,
    pub value_sets: Vec<ValueSet>,
    pub controls: Vec<Control>,
    pub parsers: Vec<Parser>,
    pub instances: Vec<Instance>,
    pub globals: Vec<InstanceId>,
    pub main: Option<InstanceId>,
    pub names: crate::types::scope::Names,
}

impl Program {
    /// Returns the type on which a `type` declaration or a serializable enum is based, and any other type as it is.
    pub fn underlying<'a>(&'a self, ty: &'a Type) -> &'a Type {
        match ty {
            Type::Newtype(id) => self.underlying(&self.newtypes[*id].ty),
            Type::Enum(id) => self.enums[*id]
                .underlying
                .as_ref()
                .map_or(ty, |inner| self.underlying(inner)),
            _ => ty,
        }
    }

    /// Returns the number of bits of a value of this type; `None` if this number is not fixed.
    pub fn width(&self, ty: &Type) -> Option<u32> {
        match self.underlying(ty) {
            Type::Bool => Some(1),
            Type::Bits { width, .. } => Some(*width),
            Type::Error | Type::Enum(_) => Some(32),
            Type::Struct(id) => {
                let fields = &self.structs[*id].fields;
                fields
                    .iter()
                    .try_fold(0_u32, |sum, field| sum.checked_add(self.width(&field.ty)?))
            }
            Type::Tuple(items) | Type::ListOf(items) => items
                .iter()
                .try_fold(0_u32, |sum, item| sum.checked_add(self.width(item)?)),
            Type::Stack(element, size) => self.width(element)?.checked_mul(*size),
            _ => None,
        }
    }

    /// Returns the greatest (`is_most`) or least number of bits that a value of this type has in a packet (P4_16 1.2.5,
    /// section 9). A varbit field may have no bits, and a header union counts as its longest member. `None` for a type
    /// that is never in a packet.
    pub fn packed_bits(&self, ty: &Type, is_most: bool) -> Option<u32> {
        let bits = |ty: &Type| self.packed_bits(ty, is_most);
        match self.underlying(ty) {
            Type::Varbit(width) => Some(if is_most { *width } else { 0 }),
            Type::Struct(id) => {
                let decl = &self.structs[*id];
                let mut fields = decl.fields.iter().map(|field| bits(&field.ty));
                match decl.kind {
                    StructKind::Union => {
                        fields.try_fold(0, |longest: u32, bits| Some(longest.max(bits?)))
                    }
                    _ => fields.try_fold(0_u32, |sum, bits| sum.checked_add(bits?)),
                }
            }
            Type::Tuple(items) | Type::ListOf(items) => items
                .iter()
                .try_fold(0_u32, |sum, item| sum.checked_add(bits(item)?)),
            Type::Stack(element, size) => bits(element)?.checked_mul(*size),
            Type::Error | Type::Enum(_) => None,
            other => self.width(other),
        }
    }

    pub fn is_header(&self, ty: &Type) -> bool {
        matches!(ty, Type::Struct(id) if self.structs[*id].kind == StructKind::Header)
    }

    pub fn is_union(&self, ty: &Type) -> bool {
        matches!(ty, Type::Struct(id) if self.structs[*id].kind == StructKind::Union)
    }

    /// Returns the type as messages print it, in P4 syntax where P4 has a syntax for it.
    pub fn type_name(&self, ty: &Type) -> String {
        let join = |items: &[Type]| {
            items
                .iter()
                .map(|item| self.type_name(item))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match ty {
            Type::Void => "void".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::String => "string".to_owned(),
            Type::Error => "error".to_owned(),
            Type::MatchKind => "match_kind".to_owned(),
            Type::Int => "int".to_owned(),
            Type::Bits { width, signed } => {
                format!("{}<{width}>", if *signed { "int" } else { "bit" })
            }
            Type::Varbit(width) => format!("varbit<{width}>"),
            Type::Enum(id) => self.enums[*id].name.to_string(),
            Type::Newtype(id) => self.newtypes[*id].name.to_string(),
            Type::Struct(id) => self.structs[*id].name.to_string(),
            Type::Stack(element, size) => format!("{}[{size}]", self.type_name(element)),
            Type::Tuple(items) => format!("tuple<{}>", join(items)),
            Type::ListOf(items) => format!("{{{}}}", join(items)),
            Type::RecordOf(items) => {
                let fields: Vec<_> = items
                    .iter()
                    .map(|(name, item)| format!("{name} = {}", self.type_name(item)))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            Type::InvalidHeader => "{#}".to_owned(),
            Type::Default => "...".to_owned(),
            Type::List(element) => format!("list<{}>", self.type_name(element)),
            Type::OpenBlock(_) => "a control or parser with type parameters".to_owned(),
            Type::Extern(id, items) if items.is_empty() => self.extern_names[*id].to_string(),
            Type::Extern(id, items) => format!("{}<{}>", self.extern_names[*id], join(items)),
            Type::Control(id) => format!("control {}", self.controls[*id].name),
            Type::Parser(id) => format!("parser {}", self.parsers[*id].name),
            Type::ControlKind(id, _) => format!("a control like {}", self.control_kind_names[*id]),
            Type::ParserKind(id, _) => format!("a parser like {}", self.parser_kind_names[*id]),
            Type::Package(id, _) => format!("package {}", self.package_names[*id]),
            Type::ApplyResult(_) => "the result of a table's apply".to_owned(),
            Type::ActionRun(_) => "action_run".to_owned(),
            Type::Set(inner) => format!("set<{}>", self.type_name(inner)),
            Type::Variable(name) => name.to_string(),
            Type::DontCare => "_".to_owned(),
            Type::Poison => "(unknown)".to_owned(),
        }
    }
}

/// Returns the string in `@name("...")`.
pub fn name_annotation(annotations: &[Annotation]) -> Option<String> {
    string_annotation(annotations, "name")
}

/// Returns the string in `@which("...")`; several strings in a row are joined.
pub fn string_annotation(annotations: &[Annotation], which: &str) -> Option<String> {
    use crate::lex::Tok;
    use crate::syntax::ast::AnnotationBody;
    let found = annotations
        .iter()
        .find(|annotation| &*annotation.name == which)?;
    let AnnotationBody::Tokens(tokens) = &found.body else {
        return None;
    };
    let parts: Option<Vec<&str>> = tokens
        .iter()
        .map(|token| match &token.tok {
            Tok::Str(text) => Some(&**text),
            _ => None,
        })
        .collect();
    parts
        .filter(|parts| !parts.is_empty())
        .map(|parts| parts.concat())
}

/// Returns the integers in `@which(1, 2)`.
pub fn int_annotation(annotations: &[Annotation], which: &str) -> Option<Vec<BigInt>> {
    use crate::syntax::ast::AnnotationBody;
    let found = annotations
        .iter()
        .find(|annotation| &*annotation.name == which)?;
    matches!(found.body, AnnotationBody::Tokens(_)).then(|| annotation_ints(found).collect())
}

/// Returns the integers in an annotation's parentheses.
pub fn annotation_ints(annotation: &Annotation) -> impl Iterator<Item = BigInt> + '_ {
    use crate::lex::Tok;
    use crate::syntax::ast::AnnotationBody;
    let tokens = match &annotation.body {
        AnnotationBody::Tokens(tokens) => tokens.as_slice(),
        _ => &[],
    };
    tokens.iter().filter_map(|token| match &token.tok {
        Tok::Int(value, _) => Some(value.clone()),
        _ => None,
    })
}

/// Whether the annotations have `@secret`, which hides from every reader the values that a controller writes.
pub fn is_secret(annotations: &[Annotation]) -> bool {
    has_annotation(annotations, "secret")
}

pub fn has_annotation(annotations: &[Annotation], which: &str) -> bool {
    annotations
        .iter()
        .any(|annotation| &*annotation.name == which)
}
