//! The syntax tree: the result of P4_16's grammar, with source positions, before names are resolved.

#![expect(
    dead_code,
    reason = "the tree keeps all that the grammar gives, read or not"
)]

use std::rc::Rc;

use num_bigint::BigInt;

use crate::lex::{Token, Written};
use crate::source::Span;

#[derive(Clone, Debug)]
pub struct Ident {
    pub name: Rc<str>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Annotation {
    pub name: Rc<str>,
    pub body: AnnotationBody,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum AnnotationBody {
    None,
    /// `@name(...)`: the tokens, unchanged.
    Tokens(Vec<Token>),
    /// `@name[a, b]`.
    List(Vec<Expr>),
    /// `@name[k = v]`.
    Pairs(Vec<(Ident, Expr)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Not,
    Complement,
    Minus,
    Plus,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    Mul,
    Div,
    Mod,
    Add,
    Sub,
    AddSat,
    SubSat,
    Shl,
    Shr,
    Le,
    Ge,
    Lt,
    Gt,
    Ne,
    Eq,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
    Concat,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: Box<ExprKind>,
    pub span: Span,
    /// Height of the tree, bounded so that recursive walks stay within the stack.
    pub height: u16,
}

#[derive(Clone, Debug)]
pub struct Argument {
    pub name: Option<Ident>,
    /// `None` for `_`.
    pub value: Option<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Int(BigInt, Written),
    Bool(bool),
    Str(Rc<str>),
    /// A name; true for `.name`, which is global.
    Name(Ident, bool),
    /// `_` or `default`.
    DontCare,
    Dots,
    /// `{#}`.
    Invalid,
    /// A type in an expression's place: `error`, `bit<8>`, before a dot or a call.
    Type(Type),
    Member(Expr, Ident),
    Index(Expr, Expr),
    Slice(Expr, Expr, Expr),
    /// `a[start +: width]`.
    PartSlice(Expr, Expr, Expr),
    Unary(UnaryOp, Expr),
    Binary(BinaryOp, Expr, Expr),
    Mux(Expr, Expr, Expr),
    Cast(Type, Expr),
    Call(Expr, Vec<Type>, Vec<Argument>),
    List(Vec<Expr>),
    Struct(Vec<(Ident, Expr)>, bool),
    Range(Expr, Expr),
    Mask(Expr, Expr),
}

#[derive(Clone, Debug)]
pub struct Type {
    pub kind: TypeKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    Bool,
    Error,
    MatchKind,
    String,
    Void,
    DontCare,
    /// `int` without a width.
    Int,
    /// `bit<W>`, or `int<W>` if the flag is set.
    Bits(Box<Expr>, bool),
    Varbit(Box<Expr>),
    Tuple(Vec<Type>),
    List(Box<Type>),
    Name(Ident, bool, Vec<Type>),
    Stack(Box<Type>, Box<Expr>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    None,
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub annotations: Vec<Annotation>,
    pub direction: Direction,
    pub ty: Type,
    pub name: Ident,
    pub default: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub name: Ident,
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub kind: StatementKind,
    pub span: Span,
    pub annotations: Vec<Annotation>,
}

#[derive(Clone, Debug)]
pub enum StatementKind {
    Empty,
    Assign(Expr, Option<BinaryOp>, Expr),
    Call(Expr),
    Block(Vec<Statement>),
    If(Expr, Box<Statement>, Option<Box<Statement>>),
    Switch(Expr, Vec<SwitchCase>),
    Return(Option<Expr>),
    Exit,
    Break,
    Continue,
    /// Initial statements, condition, updates, body.
    For(Vec<Statement>, Expr, Vec<Statement>, Box<Statement>),
    /// Type and name of the variable, its values (a range or an expression), body.
    ForIn(Type, Ident, Expr, Box<Statement>),
    Var(Variable),
    Const(Constant),
    Instance(Instance),
}

#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// `None` for `default`.
    pub label: Option<Expr>,
    /// `None` if the label has no body, so that the body of the next label runs (fall-through).
    pub body: Option<Statement>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Variable {
    pub ty: Type,
    pub name: Ident,
    pub init: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Constant {
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub name: Ident,
    pub value: Expr,
}

#[derive(Clone, Debug)]
pub struct Instance {
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub arguments: Vec<Argument>,
    pub name: Ident,
    /// Implementations of an extern's abstract methods; `None` without `= { ... }`.
    pub methods: Option<Vec<Rc<Function>>>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Action {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub parameters: Vec<Parameter>,
    pub body: Vec<Statement>,
}

#[derive(Clone, Debug)]
pub struct Function {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub returns: Type,
    pub type_parameters: Vec<Ident>,
    pub parameters: Vec<Parameter>,
    pub body: Vec<Statement>,
}

#[derive(Clone, Debug)]
pub struct KeyElement {
    pub annotations: Vec<Annotation>,
    pub expr: Expr,
    pub match_kind: Ident,
}

#[derive(Clone, Debug)]
pub struct ActionRef {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub global: bool,
    pub arguments: Vec<Argument>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct EntrySyntax {
    pub annotations: Vec<Annotation>,
    pub is_const: bool,
    pub priority: Option<Expr>,
    pub keys: Vec<Expr>,
    pub action: ActionRef,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum Property {
    Key(Vec<KeyElement>),
    Actions(Vec<ActionRef>),
    Entries {
        is_const: bool,
        list: Vec<EntrySyntax>,
    },
    Other {
        annotations: Vec<Annotation>,
        is_const: bool,
        name: Ident,
        value: Expr,
    },
}

#[derive(Clone, Debug)]
pub struct Table {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub properties: Vec<Property>,
    /// Where each property begins.
    pub property_spans: Vec<Span>,
}

#[derive(Clone, Debug)]
pub struct ValueSet {
    pub annotations: Vec<Annotation>,
    pub ty: Type,
    pub size: Expr,
    pub name: Ident,
}

#[derive(Clone, Debug)]
pub enum Local {
    Const(Constant),
    Var(Variable, Span),
    Instance(Instance),
    Action(Rc<Action>),
    Table(Rc<Table>),
    ValueSet(ValueSet),
}

#[derive(Clone, Debug)]
pub struct Control {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub type_parameters: Vec<Ident>,
    pub parameters: Vec<Parameter>,
    pub constructor: Vec<Parameter>,
    /// `None` for a type declaration.
    pub body: Option<(Vec<Local>, Vec<Statement>)>,
}

#[derive(Clone, Debug)]
pub struct State {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub statements: Vec<Statement>,
    pub transition: Transition,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum Transition {
    /// The state has no transition, so it goes to `reject`.
    None,
    To(Ident),
    Select(Vec<Expr>, Vec<SelectCase>, Span),
}

#[derive(Clone, Debug)]
pub struct SelectCase {
    pub keys: Vec<Expr>,
    pub next: Ident,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Parser {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub type_parameters: Vec<Ident>,
    pub parameters: Vec<Parameter>,
    pub constructor: Vec<Parameter>,
    /// `None` for a type declaration.
    pub body: Option<(Vec<Local>, Vec<State>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StructKind {
    Struct,
    Header,
    Union,
}

#[derive(Clone, Debug)]
pub struct Struct {
    pub annotations: Vec<Annotation>,
    pub kind: StructKind,
    pub name: Ident,
    pub type_parameters: Vec<Ident>,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub struct Enum {
    pub annotations: Vec<Annotation>,
    pub underlying: Option<Type>,
    pub name: Ident,
    pub members: Vec<(Ident, Option<Expr>)>,
}

#[derive(Clone, Debug)]
pub struct Method {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    /// `None` for a constructor.
    pub returns: Option<Type>,
    pub type_parameters: Vec<Ident>,
    pub parameters: Vec<Parameter>,
    /// An instance of the extern must implement the method.
    pub is_abstract: bool,
}

#[derive(Clone, Debug)]
pub struct Extern {
    pub name: Ident,
    pub type_parameters: Vec<Ident>,
    pub methods: Vec<Method>,
}

#[derive(Clone, Debug)]
pub struct Package {
    pub name: Ident,
    pub type_parameters: Vec<Ident>,
    pub parameters: Vec<Parameter>,
}

#[derive(Clone, Debug)]
pub struct TypeDef {
    pub annotations: Vec<Annotation>,
    pub name: Ident,
    pub ty: Type,
    /// A struct or enum that is declared inside the `typedef` or `type`.
    pub inner: Option<Box<Declaration>>,
    /// `type`, not `typedef`.
    pub is_new: bool,
}

#[derive(Clone, Debug)]
pub enum Declaration {
    Const(Constant),
    Error(Vec<Ident>),
    MatchKind(Vec<Ident>),
    Struct(Rc<Struct>),
    Enum(Enum),
    TypeDef(TypeDef),
    Extern(Rc<Extern>),
    ExternFunction(Method),
    Function(Rc<Function>),
    Action(Rc<Action>),
    Parser(Rc<Parser>),
    Control(Rc<Control>),
    Package(Rc<Package>),
    Instance(Instance),
}
