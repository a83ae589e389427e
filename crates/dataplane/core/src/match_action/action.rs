//! Actions with arguments, as entries and default actions store them.

use std::sync::Arc;

use crate::{
    ActionCall, ActionId,
    program::{ActionInfo, ir::BoundAction},
    value::{self, Int},
};

/// An action with its arguments.
#[derive(Debug, Clone)]
pub struct Call {
    /// The action to run.
    pub action: ActionId,
    /// One argument per parameter.
    pub args: Arc<[Int]>,
}

impl Call {
    pub(crate) fn from_program(bound: &BoundAction) -> Self {
        Self {
            action: bound.action,
            args: bound.args.as_slice().into(),
        }
    }

    pub(crate) fn to_control(&self, info: &ActionInfo) -> ActionCall {
        let args = info.params.iter().zip(self.args.iter());
        let args = args.map(|(param, arg)| value::to_canonical_bytes(arg, param.width_bits));
        ActionCall {
            action: self.action,
            args: args.collect(),
        }
    }
}
