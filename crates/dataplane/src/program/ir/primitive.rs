//! Statements.

use super::{
    AnyStack, BoolExpr, CalculationId, DigestId, Expr, FieldId, FieldListId, HeaderExpr,
    PayloadExternId, Place, UnionExpr,
};
use crate::{CounterId, DropReason, MeterId, RegisterId};

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
        to: AnyStack,
        /// Where from: a stack of the same kind and size.
        from: AnyStack,
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
    /// Ends the packet where it does not hold, for the reason that it names: `assert` or `assume`.
    Check(BoolExpr, DropReason),
    /// Seen in traces only.
    Log {
        /// The text, with `{}` for arguments.
        format: String,
        /// The arguments; none in the place of a secret.
        args: Vec<Option<Expr>>,
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
    /// Asks an extern to change the payload, after the deparser. In egress only.
    ChangePayload {
        /// The extern.
        function: PayloadExternId,
        /// Value and width of each argument, which is cut to it.
        args: Vec<(Expr, u32)>,
    },
}

impl Primitive {
    /// Where a number is written, if it is one place.
    pub fn written_place(&self) -> Option<&Place> {
        match self {
            Primitive::Assign { to, .. }
            | Primitive::RegisterRead { to, .. }
            | Primitive::ExecuteMeter { to, .. }
            | Primitive::Hash { to, .. }
            | Primitive::Random { to, .. } => Some(to),
            _ => None,
        }
    }
}
