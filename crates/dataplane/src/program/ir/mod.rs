//! The verified program as the interpreter reads it: typed ids instead of names, every reference
//! resolved, every expression typed. Built by `load`, never changed afterwards.

mod externs;

pub(crate) use externs::*;

use std::ops::Range;

use crate::{
    program::{ActionId, ActionProfileId, CounterId, MeterId, RegisterId, TableId, ValueSetId},
    trace::SourceLine,
    value::Int,
};

macro_rules! inner_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub(crate) struct $name(pub(crate) u32);

        impl $name {
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

inner_ids! {
    /// A field of a header instance, among all fields.
    FieldId;
    /// A header or metadata instance.
    HeaderId;
    /// A header stack.
    StackId;
    /// A header union.
    UnionId;
    /// A stack of header unions.
    UnionStackId;
    /// A parser state.
    StateId;
    /// A calculation.
    CalculationId;
    /// A field list.
    FieldListId;
    /// A digest.
    DigestId;
    /// A node of a control.
    NodeId;
}

/// A field of a header instance.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// `header.field`, as in P4.
    pub name: String,
    pub header: HeaderId,
    /// Bits; 0 for a varbit field, whose width the packet decides.
    pub bits: u32,
    pub signed: bool,
    pub variable: bool,
}

/// A header or metadata instance.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub name: String,
    /// Which header type; equal for headers that may be assigned to each other.
    pub type_index: usize,
    /// Its fields, in the order of the wire.
    pub fields: Range<u32>,
    pub metadata: bool,
    /// Bits without the varbit field.
    pub fixed_bits: u32,
    pub variable_field: Option<FieldId>,
    /// Bytes at most where there is a varbit field; 0 if the program does not say.
    pub max_bytes: u32,
    pub union: Option<UnionId>,
}

impl Header {
    pub(crate) fn field_ids(&self) -> impl DoubleEndedIterator<Item = FieldId> + use<> {
        self.fields.clone().map(FieldId)
    }

    pub(crate) fn field_at(&self, offset: u32) -> FieldId {
        FieldId(self.fields.start + offset)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub elements: Vec<HeaderId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Union {
    pub members: Vec<HeaderId>,
}

#[derive(Debug, Clone)]
pub(crate) struct UnionStack {
    pub elements: Vec<UnionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
    /// Two's complement of the right operand's width.
    TwoCompMod,
    SaturateUnsigned,
    SaturateSigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// An expression that gives a number.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Const(Int),
    Field(FieldId),
    /// The validity as a number: the hidden field `$valid$`.
    ValidBit(HeaderId),
    /// A parameter of the action.
    Param(usize),
    /// A field of the last element of a stack.
    LastField {
        stack: StackId,
        offset: u32,
    },
    /// A field of a member of the last element of a union stack.
    UnionLastField {
        stack: UnionStackId,
        member: u32,
        offset: u32,
    },
    /// A field of a header that is found at run time.
    Access {
        header: Box<HeaderExpr>,
        offset: u32,
    },
    Register {
        register: RegisterId,
        index: Box<Expr>,
    },
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Complement(Box<Expr>),
    Choose {
        condition: Box<BoolExpr>,
        yes: Box<Expr>,
        no: Box<Expr>,
    },
    FromBool(Box<BoolExpr>),
    LastStackIndex(AnyStack),
    StackSize(AnyStack),
}

/// A stack of headers or of unions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyStack {
    Headers(StackId),
    Unions(UnionStackId),
}

/// An expression that gives a truth value.
#[derive(Debug, Clone)]
pub(crate) enum BoolExpr {
    Const(bool),
    Compare(Comparison, Expr, Expr),
    SameHeader(HeaderExpr, HeaderExpr),
    SameUnion(UnionExpr, UnionExpr),
    SameBool(Box<BoolExpr>, Box<BoolExpr>),
    And(Box<BoolExpr>, Box<BoolExpr>),
    Or(Box<BoolExpr>, Box<BoolExpr>),
    Not(Box<BoolExpr>),
    Valid(HeaderExpr),
    ValidUnion(UnionExpr),
    FromNumber(Expr),
    Choose {
        condition: Box<BoolExpr>,
        yes: Box<BoolExpr>,
        no: Box<BoolExpr>,
    },
}

/// An expression that gives a header instance.
#[derive(Debug, Clone)]
pub(crate) enum HeaderExpr {
    Header(HeaderId),
    Element { stack: StackId, index: Box<Expr> },
    Member { union: UnionExpr, offset: u32 },
}

/// An expression that gives a header union.
#[derive(Debug, Clone)]
pub(crate) enum UnionExpr {
    Union(UnionId),
    Element {
        stack: UnionStackId,
        index: Box<Expr>,
    },
}

/// What can be assigned to.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Field(FieldId),
    Access { header: HeaderExpr, offset: u32 },
    LastField { stack: StackId, offset: u32 },
    RegisterCell { register: RegisterId, index: Expr },
}

#[derive(Debug, Clone)]
pub(crate) enum Primitive {
    NoOp,
    Assign {
        to: Place,
        from: Expr,
    },
    AssignVariable {
        to: FieldId,
        from: FieldId,
    },
    AssignHeader {
        to: HeaderExpr,
        from: HeaderExpr,
    },
    AssignUnion {
        to: UnionExpr,
        from: UnionExpr,
    },
    AssignStack {
        to: StackId,
        from: StackId,
    },
    AssignUnionStack {
        to: UnionStackId,
        from: UnionStackId,
    },
    AddHeader(HeaderExpr),
    RemoveHeader(HeaderExpr),
    Push(AnyStack, Expr),
    Pop(AnyStack, Expr),
    /// Continues at that primitive, a later or an earlier one.
    Jump(usize),
    JumpIfZero(Expr, usize),
    Exit,
    MarkToDrop,
    RegisterRead {
        to: Place,
        register: RegisterId,
        index: Expr,
    },
    RegisterWrite {
        register: RegisterId,
        index: Expr,
        value: Expr,
    },
    Count {
        counter: CounterId,
        index: Expr,
    },
    ExecuteMeter {
        to: Place,
        meter: MeterId,
        index: Expr,
    },
    Hash {
        to: Place,
        base: Expr,
        calculation: CalculationId,
        size: Expr,
    },
    Random {
        to: Place,
        low: Expr,
        high: Expr,
    },
    Digest(DigestId),
    Truncate(Expr),
    Assert(BoolExpr),
    Assume(BoolExpr),
    Log {
        format: String,
        args: Vec<Expr>,
    },
    Clone {
        session: Expr,
        list: Option<FieldListId>,
    },
    /// None takes the request back.
    Resubmit(Option<FieldListId>),
    /// None takes the request back.
    Recirculate(Option<FieldListId>),
}

#[derive(Debug, Clone)]
pub(crate) enum ExtractTarget {
    Header(HeaderId),
    Stack(StackId),
    UnionStack { stack: UnionStackId, member: u32 },
}

#[derive(Debug, Clone)]
pub(crate) enum ParserOp {
    Extract(ExtractTarget),
    ExtractVariable { target: ExtractTarget, bits: Expr },
    Set { to: Place, from: Expr },
    SetLookahead { to: Place, offset: u32, bits: u32 },
    Verify { condition: BoolExpr, error: Expr },
    Advance { bits: Expr },
    Primitive(Primitive),
}

#[derive(Debug, Clone)]
pub(crate) enum KeyPart {
    Value {
        name: String,
        value: Expr,
        bits: u32,
    },
    Lookahead {
        offset: u32,
        bits: u32,
    },
}

impl KeyPart {
    pub(crate) fn bits(&self) -> u32 {
        match self {
            KeyPart::Value { bits, .. } | KeyPart::Lookahead { bits, .. } => *bits,
        }
    }
}

/// An arrow to another state.
#[derive(Debug, Clone)]
pub(crate) struct Transition {
    pub case: TransitionCase,
    pub next: Option<StateId>,
}

#[derive(Debug, Clone)]
pub(crate) enum TransitionCase {
    /// One value and mask a key part.
    Values(Vec<(Int, Option<Int>)>),
    /// A member of a parser value set; the mask is over the key's parts, one after the other.
    ValueSet { set: ValueSetId, mask: Option<Int> },
}

#[derive(Debug, Clone)]
pub(crate) struct State {
    pub name: String,
    pub ops: Vec<ParserOp>,
    pub key: Vec<KeyPart>,
    pub transitions: Vec<Transition>,
    pub default: Option<StateId>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Parser {
    pub states: Vec<State>,
    pub start: Option<StateId>,
}

/// Numbers of the core library's errors in this program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoreErrors {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub parser_timeout: u32,
    pub parser_invalid_argument: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub primitives: Vec<Primitive>,
    /// Where each primitive is in the source.
    pub lines: Vec<Option<SourceLine>>,
    /// Where the action is.
    pub line: Option<SourceLine>,
}

/// A key field as the lookup reads it.
#[derive(Debug, Clone)]
pub(crate) struct KeySource {
    pub value: Expr,
    pub mask: Option<Int>,
}

/// Where a table goes on.
#[derive(Debug, Clone)]
pub(crate) enum NextNode {
    HitMiss {
        hit: Option<NodeId>,
        miss: Option<NodeId>,
    },
    /// In the order of the table's actions.
    PerAction(Vec<Option<NodeId>>),
}

#[derive(Debug, Clone)]
pub(crate) struct TableNode {
    pub key: Vec<KeySource>,
    pub next: NextNode,
    pub default_next: Option<NodeId>,
    pub line: Option<SourceLine>,
    pub profile: Option<ActionProfileId>,
    pub meter: Option<DirectMeter>,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Table(TableId),
    If {
        name: String,
        line: Option<SourceLine>,
        condition: BoolExpr,
        yes: Option<NodeId>,
        no: Option<NodeId>,
    },
    Call {
        action: ActionId,
        next: Option<NodeId>,
    },
}

/// A default action that the program gives, with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct BoundAction {
    pub action: ActionId,
    pub args: Vec<Int>,
}

/// What a key field of an entry matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Matcher {
    Exact(Int),
    Lpm { value: Int, prefix_len: u32 },
    Ternary { value: Int, mask: Int },
    Range { low: Int, high: Int },
    Optional(Option<Int>),
}

#[derive(Debug, Clone)]
pub(crate) struct InitialEntry {
    pub key: Vec<Matcher>,
    pub priority: i32,
    pub action: BoundAction,
    /// A control plane may not take it away.
    pub is_const: bool,
}

/// What a table starts with.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableInit {
    pub default: Option<BoundAction>,
    pub entries: Vec<InitialEntry>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Deparser {
    pub primitives: Vec<Primitive>,
    pub order: Vec<HeaderId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Ir {
    pub fields: Vec<Field>,
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    pub union_stacks: Vec<UnionStack>,
    pub metadata: crate::v1model::StandardMetadata,
    pub errors: Vec<(String, u32)>,
    pub core_errors: CoreErrors,
    pub parser: Parser,
    pub deparser: Deparser,
    pub actions: Vec<Action>,
    /// One a table, in the order of the ids.
    pub table_nodes: Vec<TableNode>,
    pub table_inits: Vec<TableInit>,
    pub nodes: Vec<Node>,
    pub ingress: Option<NodeId>,
    pub egress: Option<NodeId>,
    pub calculations: Vec<Calculation>,
    pub checksums: Vec<Checksum>,
    pub field_lists: Vec<FieldList>,
    pub digests: Vec<DigestList>,
    pub registers: Vec<RegisterArray>,
    pub counters: Vec<CounterArray>,
    pub meters: Vec<MeterArray>,
    pub value_sets: Vec<ValueSet>,
    pub action_profiles: Vec<ActionProfile>,
}
