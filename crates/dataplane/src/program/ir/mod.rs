//! The verified program as engines read it: typed ids instead of names, every reference
//! resolved, every expression typed. Built by `load`, never changed afterwards.

mod externs;

pub use externs::*;

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
        pub struct $name(pub u32);

        impl $name {
            /// The position among its kind, from 0 without gaps.
            pub fn index(self) -> usize {
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
pub struct Field {
    /// `header.field`, as in P4.
    pub name: String,
    /// The instance it is in.
    pub header: HeaderId,
    /// Bits; 0 for a varbit field, whose width the packet decides.
    pub bits: u32,
    /// Whether values are in two's complement.
    pub signed: bool,
    /// Whether it is a varbit field.
    pub variable: bool,
}

/// A header or metadata instance.
#[derive(Debug, Clone)]
pub struct Header {
    /// As in P4.
    pub name: String,
    /// Which header type; equal for headers that may be assigned to each other.
    pub type_index: usize,
    /// Its fields, in the order of the wire.
    pub fields: Range<u32>,
    /// Always valid, in no frame; cleared in a clone.
    pub metadata: bool,
    /// Bits without the varbit field.
    pub fixed_bits: u32,
    /// The varbit field, if there is one.
    pub variable_field: Option<FieldId>,
    /// Bytes at most where there is a varbit field; 0 if the program does not say.
    pub max_bytes: u32,
    /// The union it is a member of.
    pub union: Option<UnionId>,
}

impl Header {
    /// Its fields, in the order of the wire.
    pub fn field_ids(&self) -> impl DoubleEndedIterator<Item = FieldId> + use<> {
        self.fields.clone().map(FieldId)
    }

    /// The field at a position.
    pub fn field_at(&self, offset: u32) -> FieldId {
        FieldId(self.fields.start + offset)
    }
}

/// A header stack.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The instances, from index 0.
    pub elements: Vec<HeaderId>,
}

/// A header union.
#[derive(Debug, Clone)]
pub struct Union {
    /// The instances, of which one at most is valid.
    pub members: Vec<HeaderId>,
}

/// A stack of header unions.
#[derive(Debug, Clone)]
pub struct UnionStack {
    /// The unions, from index 0.
    pub elements: Vec<UnionId>,
}

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
    /// A field of the last element of a stack.
    LastField {
        /// The stack.
        stack: StackId,
        /// The field's position in the header.
        offset: u32,
    },
    /// A field of a member of the last element of a union stack.
    UnionLastField {
        /// The stack.
        stack: UnionStackId,
        /// The member's position in the union.
        member: u32,
        /// The field's position in the header.
        offset: u32,
    },
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
    /// A field of the last element of a stack.
    LastField {
        /// The stack.
        stack: StackId,
        /// The field's position in the header.
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

/// A statement of an action, of the parser or of the deparser.
#[derive(Debug, Clone)]
pub enum Primitive {
    /// Nothing.
    NoOp,
    /// A number into a place, cut to its width.
    Assign {
        /// Where to.
        to: Place,
        /// The value.
        from: Expr,
    },
    /// A varbit field with its width.
    AssignVariable {
        /// Where to.
        to: FieldId,
        /// Where from.
        from: FieldId,
    },
    /// A header's fields and validity; one that is not there counts as invalid.
    AssignHeader {
        /// Where to.
        to: HeaderExpr,
        /// Where from.
        from: HeaderExpr,
    },
    /// A union's members.
    AssignUnion {
        /// Where to.
        to: UnionExpr,
        /// Where from.
        from: UnionExpr,
    },
    /// A stack's elements and `nextIndex`.
    AssignStack {
        /// Where to.
        to: StackId,
        /// Where from.
        from: StackId,
    },
    /// A union stack's elements and `nextIndex`.
    AssignUnionStack {
        /// Where to.
        to: UnionStackId,
        /// Where from.
        from: UnionStackId,
    },
    /// `setValid()`: an invalid header's fields become zero.
    AddHeader(HeaderExpr),
    /// `setInvalid()`
    RemoveHeader(HeaderExpr),
    /// `push_front`
    Push(AnyStack, Expr),
    /// `pop_front`
    Pop(AnyStack, Expr),
    /// Continues at that primitive, a later or an earlier one.
    Jump(usize),
    /// Continues at that primitive if the value is zero.
    JumpIfZero(Expr, usize),
    /// Ends the control after this action.
    Exit,
    /// `egress_spec` becomes the drop port, `mcast_grp` zero.
    MarkToDrop,
    /// Reads a cell; beyond the end nothing is written.
    RegisterRead {
        /// Where to.
        to: Place,
        /// The register.
        register: RegisterId,
        /// The cell.
        index: Expr,
    },
    /// Writes a cell, cut to its width; beyond the end nothing.
    RegisterWrite {
        /// The register.
        register: RegisterId,
        /// The cell.
        index: Expr,
        /// The value.
        value: Expr,
    },
    /// Counts the packet; beyond the end nothing.
    Count {
        /// The counter array.
        counter: CounterId,
        /// The cell.
        index: Expr,
    },
    /// Marks the packet; beyond the end nothing is written.
    ExecuteMeter {
        /// Where the colour goes.
        to: Place,
        /// The meter array.
        meter: MeterId,
        /// The cell.
        index: Expr,
    },
    /// `base` plus the calculation modulo `size`, the low 64 bits of both; a size of 0 counts as 1.
    Hash {
        /// Where to.
        to: Place,
        /// The least result.
        base: Expr,
        /// What is computed over what.
        calculation: CalculationId,
        /// How many results there are.
        size: Expr,
    },
    /// A number of `low..=high`; where that is empty nothing is written.
    Random {
        /// Where to.
        to: Place,
        /// The least.
        low: Expr,
        /// The greatest.
        high: Expr,
    },
    /// Asks for a digest, made at the end of ingress.
    Digest(DigestId),
    /// Asks to cut the packet to so many bytes; the shortest length counts.
    Truncate(Expr),
    /// Ends the packet where it does not hold.
    Assert(BoolExpr),
    /// Ends the packet where it does not hold.
    Assume(BoolExpr),
    /// Seen in traces only.
    Log {
        /// The text, with `{}` for arguments.
        format: String,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// Asks for a clone, made at the end of the control.
    Clone {
        /// The clone session; its low bits up to `limits::CLONE_SESSION_ID_MAX` count.
        session: Expr,
        /// What the clone keeps of the metadata.
        list: Option<FieldListId>,
    },
    /// None takes the request back.
    Resubmit(Option<FieldListId>),
    /// None takes the request back.
    Recirculate(Option<FieldListId>),
}

/// Where the parser extracts to.
#[derive(Debug, Clone)]
pub enum ExtractTarget {
    /// An instance.
    Header(HeaderId),
    /// The next element of a stack; full is an error.
    Stack(StackId),
    /// A member of the next element of a union stack; full is an error.
    UnionStack {
        /// The stack.
        stack: UnionStackId,
        /// The member's position in the union.
        member: u32,
    },
}

/// A statement of a parser state.
#[derive(Debug, Clone)]
pub enum ParserOp {
    /// A header of a fixed length.
    Extract(ExtractTarget),
    /// A header with a varbit field.
    ExtractVariable {
        /// Where to.
        target: ExtractTarget,
        /// Width of the varbit field, a multiple of 8.
        bits: Expr,
    },
    /// A number into a place.
    Set {
        /// Where to.
        to: Place,
        /// The value.
        from: Expr,
    },
    /// Bits that follow, without taking them.
    SetLookahead {
        /// Where to.
        to: Place,
        /// Bits from the position on.
        offset: u32,
        /// How many.
        bits: u32,
    },
    /// Ends the parser with an error where a condition does not hold.
    Verify {
        /// The condition.
        condition: BoolExpr,
        /// The number of the error.
        error: Expr,
    },
    /// Skips bits, a multiple of 8.
    Advance {
        /// How many.
        bits: Expr,
    },
    /// Any other statement.
    Primitive(Primitive),
}

/// A part of a state's `select`.
#[derive(Debug, Clone)]
pub enum KeyPart {
    /// A value.
    Value {
        /// As in P4.
        name: String,
        /// The value.
        value: Expr,
        /// It is cut to so many.
        bits: u32,
    },
    /// Bits that follow, without taking them.
    Lookahead {
        /// Bits from the position on.
        offset: u32,
        /// How many.
        bits: u32,
    },
}

impl KeyPart {
    /// Its width.
    pub fn bits(&self) -> u32 {
        match self {
            KeyPart::Value { bits, .. } | KeyPart::Lookahead { bits, .. } => *bits,
        }
    }
}

/// An arrow to another state.
#[derive(Debug, Clone)]
pub struct Transition {
    /// When it is taken.
    pub case: TransitionCase,
    /// The state; none ends the parser.
    pub next: Option<StateId>,
}

/// When an arrow is taken.
#[derive(Debug, Clone)]
pub enum TransitionCase {
    /// One value and mask a key part.
    Values(Vec<(Int, Option<Int>)>),
    /// A member of a parser value set; the mask is over the key's parts, one after the other.
    ValueSet {
        /// The value set.
        set: ValueSetId,
        /// The bits that count, beside those of the member.
        mask: Option<Int>,
    },
}

/// A parser state.
#[derive(Debug, Clone)]
pub struct State {
    /// As in P4.
    pub name: String,
    /// What it does first.
    pub ops: Vec<ParserOp>,
    /// What decides where to go on.
    pub key: Vec<KeyPart>,
    /// The arrows; the first that matches counts.
    pub transitions: Vec<Transition>,
    /// Where to go on if none does; none ends the parser.
    pub default: Option<StateId>,
}

/// The parser.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// Its states.
    pub states: Vec<State>,
    /// The first; none extracts nothing.
    pub start: Option<StateId>,
}

/// Numbers of the core library's errors in this program.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreErrors {
    /// `NoError`
    pub no_error: u32,
    /// `PacketTooShort`
    pub packet_too_short: u32,
    /// `StackOutOfBounds`
    pub stack_out_of_bounds: u32,
    /// `HeaderTooShort`
    pub header_too_short: u32,
    /// `ParserTimeout`
    pub parser_timeout: u32,
    /// `ParserInvalidArgument`
    pub parser_invalid_argument: u32,
}

/// An action.
#[derive(Debug, Clone)]
pub struct Action {
    /// What it does, one after the other.
    pub primitives: Vec<Primitive>,
    /// Where each primitive is in the source.
    pub lines: Vec<Option<SourceLine>>,
    /// Where the action is.
    pub line: Option<SourceLine>,
}

/// A key field as the lookup reads it.
#[derive(Debug, Clone)]
pub struct KeySource {
    /// The value; a field of an invalid header counts as zero.
    pub value: Expr,
    /// The bits that count.
    pub mask: Option<Int>,
}

/// Where a table goes on.
#[derive(Debug, Clone)]
pub enum NextNode {
    /// By hit and miss.
    HitMiss {
        /// After a hit.
        hit: Option<NodeId>,
        /// After a miss.
        miss: Option<NodeId>,
    },
    /// In the order of the table's actions.
    PerAction(Vec<Option<NodeId>>),
}

/// A table as a control applies it; the rest is in [`crate::TableInfo`].
#[derive(Debug, Clone)]
pub struct TableNode {
    /// Where the key's fields come from.
    pub key: Vec<KeySource>,
    /// Where the control goes on.
    pub next: NextNode,
    /// Where it goes on, by action, if no action ran.
    pub default_next: Option<NodeId>,
    /// Where it is in the source.
    pub line: Option<SourceLine>,
    /// Where its actions are; none where the entries have them.
    pub profile: Option<ActionProfileId>,
    /// The meter of each entry.
    pub meter: Option<DirectMeter>,
}

/// A node of a control.
#[derive(Debug, Clone)]
pub enum Node {
    /// Applies a table.
    Table(TableId),
    /// Branches.
    If {
        /// Its text in the source, or the node's name.
        name: String,
        /// Where it is in the source.
        line: Option<SourceLine>,
        /// What decides.
        condition: BoolExpr,
        /// Where to go on if it holds; none ends the control.
        yes: Option<NodeId>,
        /// Where to go on if not; none ends the control.
        no: Option<NodeId>,
    },
    /// Runs an action without arguments.
    Call {
        /// The action.
        action: ActionId,
        /// Where to go on; none ends the control.
        next: Option<NodeId>,
    },
}

/// A default action that the program gives, with its arguments.
#[derive(Debug, Clone)]
pub struct BoundAction {
    /// The action.
    pub action: ActionId,
    /// One a parameter.
    pub args: Vec<Int>,
}

/// What a key field of an entry matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Matcher {
    /// This value.
    Exact(Int),
    /// The leading bits.
    Lpm {
        /// The prefix; bits after it are zero.
        value: Int,
        /// How many bits count.
        prefix_len: u32,
    },
    /// A value under a mask.
    Ternary {
        /// The value; zero where the mask is.
        value: Int,
        /// The bits that count.
        mask: Int,
    },
    /// A closed interval.
    Range {
        /// The first value.
        low: Int,
        /// The last value.
        high: Int,
    },
    /// This value, or anything.
    Optional(Option<Int>),
}

/// An entry that the program gives.
#[derive(Debug, Clone)]
pub struct InitialEntry {
    /// One matcher a key field.
    pub key: Vec<Matcher>,
    /// The numerically higher wins; 0 where the table has no priorities.
    pub priority: i32,
    /// What a hit runs.
    pub action: BoundAction,
    /// A control plane may not take it away.
    pub is_const: bool,
}

/// What a table starts with.
#[derive(Debug, Clone, Default)]
pub struct TableInit {
    /// What a miss runs.
    pub default: Option<BoundAction>,
    /// The program's entries.
    pub entries: Vec<InitialEntry>,
}

/// The deparser.
#[derive(Debug, Clone, Default)]
pub struct Deparser {
    /// What runs before the headers are written.
    pub primitives: Vec<Primitive>,
    /// The headers that are written if they are valid, in this order.
    pub order: Vec<HeaderId>,
}

impl Ir {
    /// Whether some action writes `priority`, so that packets go to different queues.
    pub fn gives_priorities(&self) -> bool {
        let Some(priority) = self.metadata.priority else {
            return false;
        };
        let primitives = self.actions.iter().flat_map(|action| &action.primitives);
        let mut places = primitives.filter_map(|primitive| match primitive {
            Primitive::Assign { to, .. }
            | Primitive::RegisterRead { to, .. }
            | Primitive::ExecuteMeter { to, .. }
            | Primitive::Hash { to, .. }
            | Primitive::Random { to, .. } => Some(to),
            _ => None,
        });
        places.any(|place| matches!(place, Place::Field(field) if *field == priority))
    }
}

/// The whole program.
#[derive(Debug, Clone, Default)]
pub struct Ir {
    /// By [`FieldId`].
    pub fields: Vec<Field>,
    /// By [`HeaderId`].
    pub headers: Vec<Header>,
    /// By [`StackId`].
    pub stacks: Vec<Stack>,
    /// By [`UnionId`].
    pub unions: Vec<Union>,
    /// By [`UnionStackId`].
    pub union_stacks: Vec<UnionStack>,
    /// The fields that the target reads and writes.
    pub metadata: crate::v1model::StandardMetadata,
    /// Names and numbers of the program's errors.
    pub errors: Vec<(String, u32)>,
    /// Numbers of the errors that the target raises.
    pub core_errors: CoreErrors,
    /// The parser.
    pub parser: Parser,
    /// The deparser.
    pub deparser: Deparser,
    /// By [`ActionId`].
    pub actions: Vec<Action>,
    /// One a table, in the order of the ids.
    pub table_nodes: Vec<TableNode>,
    /// What each table starts with.
    pub table_inits: Vec<TableInit>,
    /// By [`NodeId`], of both controls.
    pub nodes: Vec<Node>,
    /// Where ingress begins; none does nothing.
    pub ingress: Option<NodeId>,
    /// Where egress begins; none does nothing.
    pub egress: Option<NodeId>,
    /// By [`CalculationId`].
    pub calculations: Vec<Calculation>,
    /// In the order in which they are verified and updated.
    pub checksums: Vec<Checksum>,
    /// By [`FieldListId`].
    pub field_lists: Vec<FieldList>,
    /// By [`DigestId`].
    pub digests: Vec<DigestList>,
    /// By [`RegisterId`].
    pub registers: Vec<RegisterArray>,
    /// By [`CounterId`].
    pub counters: Vec<CounterArray>,
    /// By [`MeterId`].
    pub meters: Vec<MeterArray>,
    /// By [`ValueSetId`].
    pub value_sets: Vec<ValueSet>,
    /// By [`ActionProfileId`].
    pub action_profiles: Vec<ActionProfile>,
}
