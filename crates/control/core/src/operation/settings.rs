//! Settings that are replaced as a whole: the members of a value set, the parameters of a CRC, the entry handles of a
//! table.

use dataplane::{CrcParameters, MatchField, TableId, ValueSetId};

use super::{EntityKey, Operation, Rules, Stored, Undo, WorkerState};
use crate::error::OperationResult;

/// All members of a value set.
pub(super) struct Members<'a>(pub(super) ValueSetId, pub(super) &'a [Vec<MatchField>]);

/// The name of a CRC calculation, and its new parameters.
pub(super) struct Crc<'a>(pub(super) &'a String, pub(super) CrcParameters);

/// Restarts the numbering of the entry handles of this table.
pub(super) struct Handles(pub(super) TableId);

impl Rules for Members<'_> {
    fn n_updates(&self) -> usize {
        1 + self.1.len()
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        state.switch.set_value_set(self.0, self.1.to_vec())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        let (set, members) = (self.0, state.switch.value_set(self.0));
        undo.push(move |state| state.switch.set_value_set(set, members));
    }

    fn stored(&self) -> Stored {
        let set = Operation::ValueSet(self.0, self.1.to_vec());
        Stored::replaced(EntityKey::ValueSet(self.0), set)
    }
}

impl Rules for Crc<'_> {
    fn irreversible(&self) -> Option<&'static str> {
        Some("the earlier parameters of a CRC cannot be read")
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        state.switch.set_crc_parameters(self.0, self.1)
    }

    /// Records nothing, because the change cannot be undone: see [`Rules::irreversible`].
    fn record(&self, _: &mut Undo, _: &mut WorkerState<'_>) {}

    fn stored(&self) -> Stored {
        let set = Operation::Crc(self.0.clone(), self.1);
        Stored::replaced(EntityKey::Crc(self.0.clone()), set)
    }
}

impl Rules for Handles {
    fn irreversible(&self) -> Option<&'static str> {
        Some("the earlier numbering of handles cannot be restored")
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        state.switch.forget_handles(self.0)
    }

    /// Records nothing, because the change cannot be undone: see [`Rules::irreversible`].
    fn record(&self, _: &mut Undo, _: &mut WorkerState<'_>) {}

    /// Handles are not stored: their numbering begins anew with each start.
    fn stored(&self) -> Stored {
        Stored::Unchanged
    }
}
