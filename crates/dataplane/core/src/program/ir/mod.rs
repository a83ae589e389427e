//! The verified program as engines read it: typed ids instead of names, all references resolved, all expressions typed.
//! The module `load` builds the program, which never changes afterwards.

pub mod accesses;
mod algorithm;
mod architecture;
mod expression;
mod externs;
mod id;
pub mod instances;
mod metadata;
mod parser;
mod primitive;
pub mod range;
mod secrets;

pub use algorithm::Algorithm;
pub use architecture::{Architecture, Block, Intrinsic, V1MODEL, Verdict, When};
pub use expression::*;
pub use externs::*;
pub use id::*;
pub use metadata::{Meaning, Moment, Queueing, StandardMetadata};
pub use parser::*;
pub use primitive::*;

use std::{collections::BTreeSet, ops::Range};

use crate::{
    ActionId, ActionProfileId, CounterId, MeterId, RegisterId, TableId, program::PayloadSignature,
    value::Int,
};

/// A field of a header instance.
#[derive(Debug, Clone)]
pub struct Field {
    /// `header.field`, as in P4.
    pub name: String,
    /// The instance that has the field.
    pub header: HeaderId,
    /// Width in bits; 0 for a varbit field, whose width depends on the packet.
    pub bits: u32,
    /// Whether values are in two's complement.
    pub signed: bool,
    /// Whether the field is a varbit field.
    pub variable: bool,
}

/// A header or metadata instance.
#[derive(Debug, Clone)]
pub struct Header {
    /// The name in P4.
    pub name: String,
    /// The header type; equal for headers that can be assigned to each other.
    pub type_index: usize,
    /// Ids of its fields, in wire order.
    pub fields: Range<u32>,
    /// Whether the instance is metadata: always valid, never in a frame, and cleared in a clone except for the fields
    /// of its field list.
    pub metadata: bool,
    /// Width without the varbit field.
    pub fixed_bits: u32,
    /// The varbit field, if any.
    pub variable_field: Option<FieldId>,
    /// Maximum length with the varbit field; 0 if the program does not give one.
    pub max_bytes: u32,
    /// The header union that the header belongs to.
    pub union: Option<UnionId>,
}

impl Header {
    /// The header's fields, in wire order.
    pub fn field_ids(&self) -> impl DoubleEndedIterator<Item = FieldId> + use<> {
        self.fields.clone().map(FieldId)
    }

    /// The field with this index among the header's fields.
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
    /// The instances; at most one is valid.
    pub members: Vec<HeaderId>,
}

/// A stack of header unions.
#[derive(Debug, Clone)]
pub struct UnionStack {
    /// The unions, from index 0.
    pub elements: Vec<UnionId>,
}

/// The body of an action; its name and parameters are in [`crate::ActionInfo`].
#[derive(Debug, Clone)]
pub struct Action {
    /// The statements, in order.
    pub primitives: Vec<Primitive>,
    /// The source line of each primitive.
    pub lines: Vec<Option<SourceLine>>,
    /// The source line of the action.
    pub line: Option<SourceLine>,
}

/// A key field as a lookup reads it.
#[derive(Debug, Clone)]
pub struct KeySource {
    /// The value; a field of an invalid header reads as zero.
    pub value: Expr,
    /// The bits to match; `None` matches all bits.
    pub mask: Option<Int>,
}

/// The successor of a table.
#[derive(Debug, Clone)]
pub enum NextNode {
    /// Depends on hit or miss.
    HitMiss {
        /// The node after a hit; `None` ends the control.
        hit: Option<NodeId>,
        /// The node after a miss; `None` ends the control.
        miss: Option<NodeId>,
    },
    /// Depends on the action: one node per action of the table, in the order of the table's actions; `None` ends the
    /// control.
    PerAction(Vec<Option<NodeId>>),
}

/// A table as a control applies it; the rest is in [`crate::TableInfo`].
#[derive(Debug, Clone)]
pub struct TableNode {
    /// The source of each key field.
    pub key: Vec<KeySource>,
    /// The node after the table.
    pub next: NextNode,
    /// The successor if `next` depends on the action and no action ran.
    pub default_next: Option<NodeId>,
    /// The P4 source line, if known.
    pub line: Option<SourceLine>,
    /// The action profile, if actions are indirect.
    pub profile: Option<ActionProfileId>,
    /// The direct meter, if any.
    pub meter: Option<DirectMeter>,
}

/// A node of a control.
#[derive(Debug, Clone)]
pub enum Node {
    /// Applies a table.
    Table(TableId),
    /// Branches on a condition.
    If {
        /// The condition's source text, or the node's name.
        name: String,
        /// The P4 source line, if known.
        line: Option<SourceLine>,
        /// The condition to test.
        condition: BoolExpr,
        /// The node if the condition holds; `None` ends the control.
        yes: Option<NodeId>,
        /// The node if the condition does not hold; `None` ends the control.
        no: Option<NodeId>,
    },
    /// Runs an action without arguments.
    Call {
        /// The action to run.
        action: ActionId,
        /// The next node; `None` ends the control.
        next: Option<NodeId>,
    },
}

/// An action with constant arguments.
#[derive(Debug, Clone)]
pub struct BoundAction {
    /// The action to run.
    pub action: ActionId,
    /// One argument per parameter.
    pub args: Vec<Int>,
}

/// What a key field of an entry matches. Numbers are bit patterns, in two's complement for signed fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Matcher {
    /// Equals this value.
    Exact(Int),
    /// Has the same leading `prefix_len` bits as `value`.
    Lpm {
        /// The prefix; bits after it are zero.
        value: Int,
        /// Number of bits that are compared.
        prefix_len: u32,
    },
    /// Equals `value` in the bits of `mask`.
    Ternary {
        /// Zero in every bit where the mask is zero.
        value: Int,
        /// The bits that are compared.
        mask: Int,
    },
    /// Lies in a closed interval, in the order of [`crate::KeyField::order`].
    Range {
        /// The lowest match.
        low: Int,
        /// The highest match.
        high: Int,
    },
    /// Equals this value; `None` matches everything.
    Optional(Option<Int>),
}

/// An entry that the program declares.
#[derive(Debug, Clone)]
pub struct InitialEntry {
    /// One matcher per key field.
    pub key: Vec<Matcher>,
    /// The numerically higher priority wins; 0 if the table has no priorities.
    pub priority: i32,
    /// The action that a hit runs.
    pub action: BoundAction,
    /// Whether the program declares the entry as constant, so that the control plane may not change it.
    pub is_const: bool,
}

/// The initial contents of a table.
#[derive(Debug, Clone, Default)]
pub struct TableInit {
    /// The action that a miss runs.
    pub default: Option<BoundAction>,
    /// The entries that the program declares.
    pub entries: Vec<InitialEntry>,
}

/// How headers and payload become a frame again.
#[derive(Debug, Clone, Default)]
pub struct Deparser {
    /// Statements that run before the headers are written.
    pub primitives: Vec<Primitive>,
    /// The headers to write if valid, in this order.
    pub order: Vec<HeaderId>,
}

impl Ir {
    /// Whether the program reads how long a packet has been inside the switch, so that the start time of each pass
    /// matters.
    pub fn reads_time_inside(&self) -> bool {
        self.metadata.nanoseconds_inside.is_some()
    }

    /// The selector of an action profile, if it has groups.
    pub fn selector(&self, profile: ActionProfileId) -> Option<&Calculation> {
        let declared = self.action_profiles.get(profile.index())?;
        declared.selector.as_ref()
    }

    /// Returns the header at an index of a stack; for a stack of unions, the given member of the union at this index.
    /// Returns `None` beyond the end of the stack.
    pub fn element(&self, stack: AnyStack, member: u32, index: usize) -> Option<HeaderId> {
        match stack {
            AnyStack::Headers(stack) => self.stacks[stack.index()].elements.get(index).copied(),
            AnyStack::Unions(stack) => Some(self.member(self.union_element(stack, index)?, member)),
        }
    }

    /// Number of elements of a stack.
    pub fn stack_size(&self, stack: AnyStack) -> usize {
        match stack {
            AnyStack::Headers(stack) => self.stacks[stack.index()].elements.len(),
            AnyStack::Unions(stack) => self.union_stacks[stack.index()].elements.len(),
        }
    }

    pub(crate) fn union_element(&self, stack: UnionStackId, index: usize) -> Option<UnionId> {
        let elements = &self.union_stacks[stack.index()].elements;
        elements.get(index).copied()
    }

    pub(crate) fn member(&self, union: UnionId, offset: u32) -> HeaderId {
        self.unions[union.index()].members[offset as usize]
    }

    /// Returns some header of the same type as the header that an expression selects.
    pub(crate) fn example_of(&self, header: &HeaderExpr) -> HeaderId {
        match header {
            HeaderExpr::Header(id) => *id,
            HeaderExpr::Element { stack, .. } => self.stacks[stack.index()].elements[0],
            HeaderExpr::Member { union, offset } => self.members_of(union)[*offset as usize],
        }
    }

    /// Returns the members of some union of the same type as the union that an expression selects.
    pub(crate) fn members_of(&self, union: &UnionExpr) -> &[HeaderId] {
        let example = match union {
            UnionExpr::Union(id) => *id,
            UnionExpr::Element { stack, .. } => self.union_stacks[stack.index()].elements[0],
        };
        &self.unions[example.index()].members
    }

    pub(crate) fn has_secret(&self, field: Option<FieldId>) -> bool {
        field.is_some_and(|field| self.secrets.has_field(field))
    }

    /// The direct meter of a table, if any.
    pub fn direct_meter(&self, table: TableId) -> Option<&DirectMeter> {
        self.table_nodes.get(table.index())?.meter.as_ref()
    }

    /// Whether an action writes `priority`, so that packets use different queues.
    pub fn gives_priorities(&self) -> bool {
        let Some(priority) = self.metadata.priority else {
            return false;
        };
        let primitives = self.actions.iter().flat_map(|action| &action.primitives);
        let mut places = primitives.filter_map(Primitive::written_place);
        places.any(|place| matches!(place, Place::Field(field) if *field == priority))
    }
}

/// The fields, registers and extern arguments that may hold a secret: a value that derives from a parameter or register
/// that the program declares `@secret`.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    fields: BTreeSet<FieldId>,
    registers: BTreeSet<RegisterId>,
    payload_arguments: BTreeSet<(PayloadExternId, usize)>,
    /// Arrays in which a secret selects the cell.
    indexed: BTreeSet<Array>,
    are_in_sessions: bool,
}

/// An array with cells selected by an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Array {
    Register(RegisterId),
    Counter(CounterId),
    Meter(MeterId),
}

/// The whole program.
#[derive(Debug, Clone, Default)]
pub struct Ir {
    /// Indexed by [`FieldId`].
    pub fields: Vec<Field>,
    /// Indexed by [`HeaderId`].
    pub headers: Vec<Header>,
    /// Indexed by [`StackId`].
    pub stacks: Vec<Stack>,
    /// Indexed by [`UnionId`].
    pub unions: Vec<Union>,
    /// Indexed by [`UnionStackId`].
    pub union_stacks: Vec<UnionStack>,
    /// The architecture that the program is written for.
    pub architecture: &'static Architecture,
    /// The fields shared with the architecture.
    pub metadata: StandardMetadata,
    /// Names and numbers of the program's errors.
    pub errors: Vec<(String, u32)>,
    /// Numbers of the errors that the target raises.
    pub core_errors: CoreErrors,
    /// The states of the parser.
    pub parser: Parser,
    /// How headers and payload become a frame again.
    pub deparser: Deparser,
    /// Indexed by [`ActionId`].
    pub actions: Vec<Action>,
    /// Indexed by table id.
    pub table_nodes: Vec<TableNode>,
    /// The initial contents of the tables, indexed by table id.
    pub table_inits: Vec<TableInit>,
    /// Indexed by [`NodeId`]; both controls share the ids.
    pub nodes: Vec<Node>,
    /// The first node of ingress; `None` if the control is empty.
    pub ingress: Option<NodeId>,
    /// The first node of egress; `None` if the control is empty.
    pub egress: Option<NodeId>,
    /// Indexed by [`CalculationId`].
    pub calculations: Vec<Calculation>,
    /// In the order in which they are verified and updated.
    pub checksums: Vec<Checksum>,
    /// Indexed by [`FieldListId`].
    pub field_lists: Vec<FieldList>,
    /// Indexed by [`DigestId`].
    pub digests: Vec<DigestList>,
    /// Indexed by [`RegisterId`].
    pub registers: Vec<RegisterArray>,
    /// Indexed by [`CounterId`].
    pub counters: Vec<CounterArray>,
    /// Indexed by [`MeterId`].
    pub meters: Vec<MeterArray>,
    /// Indexed by [`ValueSetId`].
    pub value_sets: Vec<ValueSet>,
    /// Indexed by [`ActionProfileId`].
    pub action_profiles: Vec<ActionProfile>,
    /// The externs that the program calls, indexed by [`PayloadExternId`].
    pub payload_externs: Vec<PayloadSignature>,
    /// What traces and logs must hide.
    pub(crate) secrets: Secrets,
}
