//! Members and groups of action profiles.

use dataplane::{ActionProfileId, ControlError, ControlErrorKind, ProfileGroup, ProfileMember};

use super::{EntityKey, Identified, Operation, Rules, Stored, Undo, Update, WorkerState};
use crate::error::OperationResult;

/// A change of a member or group of an action profile.
pub(super) struct InProfile<'a, T>(pub(super) ActionProfileId, pub(super) &'a Update<T>);

impl Identified for ProfileMember {
    fn id(&self) -> u32 {
        self.id
    }
}

impl Identified for ProfileGroup {
    fn id(&self) -> u32 {
        self.id
    }
}

impl<T> InProfile<'_, T> {
    fn expect_one_way(&self, state: &WorkerState<'_>) -> OperationResult {
        match self.1 {
            Update::Insert(_) => state.expect_one_way(self.0, state.switch.n_one_shots(self.0) > 0),
            _ => Ok(()),
        }
    }
}

impl Rules for InProfile<'_, ProfileMember> {
    fn expect_possible(&self, state: &WorkerState<'_>) -> OperationResult {
        self.expect_one_way(state)
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        match self.1 {
            Update::Insert(member) => state.switch.insert_member(self.0, member.clone()),
            Update::Modify(member) => state.switch.modify_member(self.0, member.clone()),
            Update::Delete(id) => state.switch.delete_member(self.0, *id),
        }
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        undo.profile(self.0, state.switch);
    }

    fn stored(&self) -> Stored {
        let Self(profile, update) = *self;
        let entity = EntityKey::Member(profile, update.id());
        Stored::of_update(update, entity, |insert| Operation::Member(profile, insert))
    }
}

impl Rules for InProfile<'_, ProfileGroup> {
    fn n_updates(&self) -> usize {
        1 + self.1.value().map_or(0, |group| group.members.len())
    }

    fn expect_possible(&self, state: &WorkerState<'_>) -> OperationResult {
        self.expect_one_way(state)
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        match self.1 {
            Update::Insert(group) => state.switch.insert_group(self.0, group.clone()),
            Update::Modify(group) => state.switch.modify_group(self.0, group.clone()),
            Update::Delete(id) => state.switch.delete_group(self.0, *id),
        }
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        undo.profile(self.0, state.switch);
    }

    fn stored(&self) -> Stored {
        let Self(profile, update) = *self;
        let entity = EntityKey::ProfileGroup(profile, update.id());
        Stored::of_update(update, entity, |insert| {
            Operation::ProfileGroup(profile, insert)
        })
    }
}

impl WorkerState<'_> {
    /// Refuses to mix members and one-shot groups in an action profile (P4Runtime specification 1.5.0, section "One
    /// Shot Action Selector Programming").
    pub(super) fn expect_one_way(
        &self,
        profile: ActionProfileId,
        is_mixed: bool,
    ) -> OperationResult {
        if !is_mixed {
            return Ok(());
        }
        let program = self.switch.program();
        let info = program.and_then(|program| program.action_profile_info(profile));
        let message = format!(
            "action profile \"{}\": either it has members, or its entries have groups of their own, not both",
            info.map_or("", |info| &info.name)
        );
        Err(ControlError::new(
            ControlErrorKind::InvalidArgument,
            message,
        ))
    }
}
