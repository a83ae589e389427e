//! Undoes operations exactly, with a record taken before each operation. No frame passes between the record and the
//! operation.

use std::collections::HashMap;

use dataplane::{ActionProfileId, ProfileSnapshot, Switch, TableId};

use super::WorkerState;
use crate::error::OperationResult;

type Step = Box<dyn FnOnce(&mut WorkerState<'_>) -> OperationResult>;

/// Undo steps, in the order of the operations.
#[derive(Default)]
pub(crate) struct Undo {
    steps: Vec<Step>,
    /// The state of each action profile before the first operation that concerns it.
    profiles: HashMap<ActionProfileId, Option<ProfileSnapshot>>,
}

impl Undo {
    /// Undoes all operations, the last one first.
    pub(crate) fn take_back(self, state: &mut WorkerState<'_>) {
        for step in self.steps.into_iter().rev() {
            step(state).expect("what was there before fits");
        }
        for was in self.profiles.into_values().flatten() {
            state.switch.restore_profile(was);
        }
    }

    pub(super) fn push(
        &mut self,
        step: impl FnOnce(&mut WorkerState<'_>) -> OperationResult + 'static,
    ) {
        self.steps.push(Box::new(step));
    }

    pub(super) fn profile(&mut self, profile: ActionProfileId, switch: &Switch) {
        let was = || switch.profile_snapshot(profile);
        self.profiles.entry(profile).or_insert_with(was);
    }

    /// Records the table's action profile, since a profile counts the entries that use its members and groups.
    pub(super) fn profile_of(&mut self, table: TableId, state: &WorkerState<'_>) {
        if let Some(profile) = state.profile_of(table) {
            self.profile(profile, state.switch);
        }
    }
}
