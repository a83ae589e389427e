//! Multicast groups and clone sessions.

use dataplane::{CloneSession, Mirror, MulticastGroup};

use super::{EntityKey, Identified, Operation, Rules, Stored, Undo, Update, WorkerState};
use crate::client_data::ClientData;
use crate::error::OperationResult;

/// A change of an entity, with its client data.
pub(super) struct WithClientData<'a, T>(pub(super) &'a Update<T>, pub(super) &'a ClientData);

/// The id and the targets of a clone session that is given as a port and a multicast group, as in BMv2's Thrift API.
pub(super) struct Mirrored(pub(super) u32, pub(super) Mirror);

impl Identified for MulticastGroup {
    fn id(&self) -> u32 {
        self.id
    }
}

impl Identified for CloneSession {
    fn id(&self) -> u32 {
        self.id
    }
}

impl Rules for WithClientData<'_, MulticastGroup> {
    fn n_updates(&self) -> usize {
        1 + self.0.value().map_or(0, |group| group.replicas.len())
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        match self.0 {
            Update::Insert(group) => state.switch.insert_multicast_group(group.clone()),
            Update::Modify(group) => state.switch.modify_multicast_group(group.clone()),
            Update::Delete(id) => state.switch.delete_multicast_group(*id),
        }?;
        state.client_data.set_group(self.0.id(), self.1.clone());
        Ok(())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        let id = self.0.id();
        let found = state.switch.multicast_groups_from(id, 1).into_iter().next();
        let was = found.filter(|group| group.id == id);
        let client_data = state.client_data.group(id);
        undo.push(move |state| {
            state.client_data.set_group(id, client_data);
            let is_there = state.switch.delete_multicast_group(id);
            match was {
                Some(was) => state.switch.insert_multicast_group(was),
                None => is_there.or(Ok(())),
            }
        });
    }

    fn stored(&self) -> Stored {
        let entity = EntityKey::MulticastGroup(self.0.id());
        Stored::of_update(self.0, entity, |insert| {
            Operation::MulticastGroup(insert, self.1.clone())
        })
    }
}

impl Rules for WithClientData<'_, CloneSession> {
    fn n_updates(&self) -> usize {
        let session = self.0.value();
        1 + session.map_or(0, |session| session.replicas.len())
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        match self.0 {
            Update::Insert(session) => state.switch.insert_clone_session(session.clone()),
            Update::Modify(session) => state.switch.modify_clone_session(session.clone()),
            Update::Delete(id) => state.switch.delete_clone_session(*id),
        }?;
        state.client_data.set_session(self.0.id(), self.1.clone());
        Ok(())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        record_session(self.0.id(), undo, state);
    }

    fn stored(&self) -> Stored {
        let entity = EntityKey::CloneSession(self.0.id());
        Stored::of_update(self.0, entity, |insert| {
            Operation::CloneSession(insert, self.1.clone())
        })
    }
}

impl Rules for Mirrored {
    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        state.switch.mirror(self.0, self.1)?;
        state.client_data.set_session(self.0, ClientData::default());
        Ok(())
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        record_session(self.0, undo, state);
    }

    fn stored(&self) -> Stored {
        Stored::replaced(
            EntityKey::CloneSession(self.0),
            Operation::Mirror(self.0, self.1),
        )
    }
}

fn record_session(id: u32, undo: &mut Undo, state: &WorkerState<'_>) {
    let found = state.switch.clone_sessions_from(id, 1).into_iter().next();
    let was = found.filter(|session| session.id == id);
    // If the session refers to a multicast group, `was` also has the group's replicas. So the session is restored as a
    // `Mirror`, which refers to the group again.
    let mirrored = state.switch.mirrored(id).filter(|to| to.group.is_some());
    let client_data = state.client_data.session(id);
    undo.push(move |state| {
        state.client_data.set_session(id, client_data);
        let is_there = state.switch.delete_clone_session(id);
        match (was, mirrored) {
            (_, Some(mirror)) => state.switch.mirror(id, mirror),
            (Some(was), None) => state.switch.insert_clone_session(was),
            (None, None) => is_there.or(Ok(())),
        }
    });
}
