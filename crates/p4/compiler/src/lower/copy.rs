//! Copies arguments into parameters before a call, and `out` and `inout` parameters back into their arguments after the
//! call: copy-in and copy-out (P4_16 language specification 1.2.5, section 6.8).

use super::Lower;
use super::place::{Place, parameter};
use crate::ir::{Expr, ExprKind};
use crate::source::Span;
use crate::types::Type;

/// An argument's l-value. An index known only at run time keeps its value from the time of the call.
#[derive(Clone, Debug)]
pub enum Target {
    Place(Place),
    /// Some bits of a place: the place's type, the high and the low bit.
    Slice(Place, Type, u32, u32),
}

/// A parameter's storage, and where it is copied when the call ends.
#[derive(Clone, Debug)]
pub struct CopyOut {
    pub target: Target,
    pub source: Place,
}

/// The copy-out of a control that is being applied.
#[derive(Clone, Debug)]
pub struct PendingBlock {
    pub copies: Vec<CopyOut>,
    /// Whether the control is applied at several places, which share the compiled actions of its tables.
    pub repeated: bool,
}

impl Lower<'_> {
    /// Returns an argument as an l-value; `None` if the argument is not an l-value.
    pub fn write_target(&mut self, argument: &Expr) -> Option<Target> {
        let ExprKind::Slice(inner, high, low) = &argument.kind else {
            let place = self.place(argument)?;
            return Some(Target::Place(self.freeze(place, argument.span)));
        };
        match self.write_target(inner)? {
            Target::Place(place) => Some(Target::Slice(place, inner.ty.clone(), *high, *low)),
            // A slice of a slice is a slice of the inner value.
            Target::Slice(place, ty, _, below) => {
                Some(Target::Slice(place, ty, high + below, low + below))
            }
        }
    }

    /// Saves a place's index in a variable, so that no later write changes it.
    pub fn freeze(&mut self, mut place: Place, span: Span) -> Place {
        if let Place::Element { index, .. }
        | Place::ElementField { index, .. }
        | Place::UnionElement { index, .. } = &mut place
            && !matches!(index, bmv2_json::Value::Hexstr(_))
        {
            let temp = self.temp("index", &Type::bits(32), span);
            let (target, _) = self.read_raw(&temp);
            self.emit(
                "assign",
                vec![target.clone(), parameter(index.clone())],
                span,
            );
            *index = target;
        }
        place
    }

    /// Emits `parameter = argument` before the call.
    pub fn copy_in(&mut self, parameter: &Place, target: &Target, argument: &Expr) {
        match target {
            Target::Place(place) => self.copy(parameter, place, argument.span),
            Target::Slice(..) => self.assign(parameter, argument),
        }
    }

    /// Emits `argument = parameter` after the call.
    pub fn copy_out(&mut self, copy: &CopyOut, span: Span) {
        match &copy.target {
            Target::Place(place) => self.copy(place, &copy.source, span),
            Target::Slice(place, ty, high, low) => {
                let inner = self.hold(place.clone(), ty.clone(), span);
                let bits = Type::bits(high - low + 1);
                let value = self.hold(copy.source.clone(), bits, span);
                self.assign_slice(&inner, *high, *low, &value, span);
            }
        }
    }

    /// Emits the copy-outs of an `exit`: those of the calls and controls that it leaves, innermost first.
    pub fn copy_out_all(&mut self, span: Span) {
        if self.copy_outs.exit_is_unknown {
            let what = "`exit` in a table's action of a control that is applied more than once, with \
                        `out` or `inout` arguments,";
            self.unsupported(span, what);
            return;
        }
        let (calls, blocks) = (
            self.copy_outs.of_calls.clone(),
            self.copy_outs.of_blocks.clone(),
        );
        let blocks = blocks.iter().rev().flat_map(|block| &block.copies);
        for copy in calls.iter().rev().flatten().chain(blocks) {
            self.copy_out(copy, span);
        }
    }
}
