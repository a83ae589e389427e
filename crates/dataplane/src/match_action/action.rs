//! An action with its arguments, as an entry or a default action holds it.

use std::sync::Arc;

use crate::{
    ActionCall, ActionId,
    program::{ActionInfo, ir::BoundAction},
    value::{self, Int},
};

/// An action and its arguments.
#[derive(Debug, Clone)]
pub struct Call {
    /// The action.
    pub action: ActionId,
    /// One a parameter.
    pub args: Arc<[Int]>,
}

impl Call {
    pub(crate) fn from_program(bound: &BoundAction) -> Self {
        Self {
            action: bound.action,
            args: bound.args.as_slice().into(),
        }
    }

    /// As the control plane sees it.
    pub(crate) fn to_control(&self, info: &ActionInfo) -> ActionCall {
        let args = info.params.iter().zip(self.args.iter());
        let args = args.map(|(param, arg)| value::to_canonical_bytes(arg, param.width_bits));
        ActionCall {
            action: self.action,
            args: args.collect(),
        }
    }
}
