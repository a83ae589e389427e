//! The verified program as engines read it: typed ids instead of names, every reference
//! resolved, every expression typed. Built by `load`, never changed afterwards.

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

/// What a key field of an entry matches. Numbers are bits: those of a negative number are its two's complement.
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
    /// A closed interval in the order of [`crate::KeyField::order`].
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
    /// Whether the program is told how long a packet has been inside, so that it matters when each pass
    /// begins.
    pub fn tells_time_inside(&self) -> bool {
        self.metadata.nanoseconds_inside.is_some()
    }

    /// What chooses a member of a profile's group.
    pub fn selector(&self, profile: ActionProfileId) -> Option<&Calculation> {
        let declared = self.action_profiles.get(profile.index())?;
        declared.selector.as_ref()
    }

    /// A header of a stack; none beyond its end.
    pub fn element(&self, stack: AnyStack, member: u32, index: usize) -> Option<HeaderId> {
        match stack {
            AnyStack::Headers(stack) => self.stacks[stack.index()].elements.get(index).copied(),
            AnyStack::Unions(stack) => Some(self.member(self.union_element(stack, index)?, member)),
        }
    }

    /// Elements of a stack.
    pub fn stack_size(&self, stack: AnyStack) -> usize {
        match stack {
            AnyStack::Headers(stack) => self.stacks[stack.index()].elements.len(),
            AnyStack::Unions(stack) => self.union_stacks[stack.index()].elements.len(),
        }
    }

    /// A union of a stack; none beyond its end.
    pub(crate) fn union_element(&self, stack: UnionStackId, index: usize) -> Option<UnionId> {
        let elements = &self.union_stacks[stack.index()].elements;
        elements.get(index).copied()
    }

    /// A member of a union.
    pub(crate) fn member(&self, union: UnionId, offset: u32) -> HeaderId {
        self.unions[union.index()].members[offset as usize]
    }

    /// A header of the type that an expression gives.
    pub(crate) fn example_of(&self, header: &HeaderExpr) -> HeaderId {
        match header {
            HeaderExpr::Header(id) => *id,
            HeaderExpr::Element { stack, .. } => self.stacks[stack.index()].elements[0],
            HeaderExpr::Member { union, offset } => self.members_of(union)[*offset as usize],
        }
    }

    /// The members of a union of the type that an expression gives.
    pub(crate) fn members_of(&self, union: &UnionExpr) -> &[HeaderId] {
        let example = match union {
            UnionExpr::Union(id) => *id,
            UnionExpr::Element { stack, .. } => self.union_stacks[stack.index()].elements[0],
        };
        &self.unions[example.index()].members
    }

    /// Whether a field, if the architecture has it, holds a secret.
    pub(crate) fn has_secret(&self, field: Option<FieldId>) -> bool {
        field.is_some_and(|field| self.secrets.has_field(field))
    }

    /// The direct meter of a table.
    pub fn direct_meter(&self, table: TableId) -> Option<&DirectMeter> {
        self.table_nodes.get(table.index())?.meter.as_ref()
    }

    /// Whether some action writes `priority`, so that packets go to different queues.
    pub fn gives_priorities(&self) -> bool {
        let Some(priority) = self.metadata.priority else {
            return false;
        };
        let primitives = self.actions.iter().flat_map(|action| &action.primitives);
        let mut places = primitives.filter_map(Primitive::written_place);
        places.any(|place| matches!(place, Place::Field(field) if *field == priority))
    }
}

/// Fields, registers and externs' arguments with something secret in them.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    fields: BTreeSet<FieldId>,
    registers: BTreeSet<RegisterId>,
    payload_arguments: BTreeSet<(PayloadExternId, usize)>,
    /// Arrays in which a secret chooses a cell.
    indexed: BTreeSet<Array>,
    /// A secret chooses a session.
    are_in_sessions: bool,
}

/// What has cells, one of which an expression chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Array {
    Register(RegisterId),
    Counter(CounterId),
    Meter(MeterId),
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
    /// The architecture that the program is for.
    pub architecture: &'static Architecture,
    /// The fields that both share.
    pub metadata: StandardMetadata,
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
    /// By [`PayloadExternId`]: those that the program calls.
    pub payload_externs: Vec<PayloadSignature>,
    /// What traces and logs do not show.
    pub(crate) secrets: Secrets,
}
