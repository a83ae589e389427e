//! Statements of actions, parser and deparser.

use super::{
    AnyStack, BoolExpr, CalculationId, DigestId, Expr, FieldId, FieldListId, HeaderExpr,
    PayloadExternId, Place, UnionExpr,
};
use crate::{CounterId, DropReason, MeterId, RegisterId};

/// A statement of an action, of the parser or of the deparser.
#[derive(Debug, Clone)]
pub enum Primitive {
    /// Does nothing.
    NoOp,
    /// Assigns a number, truncated to the destination's width.
    Assign {
        /// The destination.
        to: Place,
        /// The value.
        from: Expr,
    },
    /// Copies a varbit field with its width.
    AssignVariable {
        /// The destination.
        to: FieldId,
        /// The source.
        from: FieldId,
    },
    /// Copies a header's fields and validity; a source beyond the end of a stack counts as invalid.
    AssignHeader {
        /// The destination.
        to: HeaderExpr,
        /// The source.
        from: HeaderExpr,
    },
    /// Copies all members of a header union.
    AssignUnion {
        /// The destination.
        to: UnionExpr,
        /// The source.
        from: UnionExpr,
    },
    /// Copies a stack's elements and `nextIndex`.
    AssignStack {
        /// The destination.
        to: AnyStack,
        /// The source, of the same type and size.
        from: AnyStack,
    },
    /// `setValid()`; zeroes the fields of an invalid header.
    AddHeader(HeaderExpr),
    /// `setInvalid()`
    RemoveHeader(HeaderExpr),
    /// `push_front`
    Push(AnyStack, Expr),
    /// `pop_front`
    Pop(AnyStack, Expr),
    /// Continues at the primitive with this index in the action.
    Jump(usize),
    /// Continues at the primitive with this index if the value is zero.
    JumpIfZero(Expr, usize),
    /// Ends the control after this action.
    Exit,
    /// Sets `egress_spec` to the drop port and `mcast_grp` to zero.
    MarkToDrop,
    /// Reads a register cell. Nothing is written to the destination if the index is beyond the array's end.
    RegisterRead {
        /// The destination.
        to: Place,
        /// The register array.
        register: RegisterId,
        /// The cell's index.
        index: Expr,
    },
    /// Writes a value, truncated to the cell's width, to a register cell. Ignored if the index is beyond the array's
    /// end.
    RegisterWrite {
        /// The register array.
        register: RegisterId,
        /// The cell's index.
        index: Expr,
        /// The value.
        value: Expr,
    },
    /// Counts the packet in a cell of a counter array. Ignored if the index is beyond the array's end.
    Count {
        /// The counter array.
        counter: CounterId,
        /// The cell's index.
        index: Expr,
    },
    /// Runs a meter. Nothing is written to the destination if the index is beyond the array's end.
    ExecuteMeter {
        /// The destination of the colour.
        to: Place,
        /// The meter array.
        meter: MeterId,
        /// The cell's index.
        index: Expr,
    },
    /// Writes `base` + (the calculation's result mod `size`), each taken as its low 64 bits; a `size` of 0 counts as 1.
    Hash {
        /// The destination.
        to: Place,
        /// The smallest value.
        base: Expr,
        /// Algorithm and input.
        calculation: CalculationId,
        /// The number of possible values.
        size: Expr,
    },
    /// Writes a random number in `low..=high`; writes nothing if that range is empty.
    Random {
        /// The destination.
        to: Place,
        /// The smallest value.
        low: Expr,
        /// The largest value.
        high: Expr,
    },
    /// Asks for a digest, made at the end of ingress.
    Digest(DigestId),
    /// Asks to truncate the packet; if asked several times, the shortest length counts.
    Truncate(Expr),
    /// `assert` or `assume`: drops the packet for this reason unless the condition holds.
    Check(BoolExpr, DropReason),
    /// `log_msg`; visible only in traces.
    Log {
        /// The text, with `{}` for arguments.
        format: String,
        /// The arguments; `None` replaces a secret.
        args: Vec<Option<Expr>>,
    },
    /// Asks for a clone, made at the end of the control.
    Clone {
        /// The id of the session, of which only the low 15 bits count.
        session: Expr,
        /// The metadata that the clone preserves.
        list: Option<FieldListId>,
    },
    /// Asks for a resubmission with this field list; `None` cancels an earlier request.
    Resubmit(Option<FieldListId>),
    /// Asks for a recirculation with this field list; `None` cancels an earlier request.
    Recirculate(Option<FieldListId>),
    /// Asks an extern to change the payload after the deparser. The loader allows this only in egress.
    ChangePayload {
        /// The extern to call.
        function: PayloadExternId,
        /// Each argument and the width to truncate it to.
        args: Vec<(Expr, u32)>,
    },
}

impl Primitive {
    /// The destination of the number that the statement writes, if it has one.
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
