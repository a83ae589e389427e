//! Clients' subscriptions to digests.

use dataplane::{ControlError, ControlErrorKind};

use super::{EntityKey, Operation, Rules, Stored, Undo, Update, WorkerState};
use crate::client_data::ClientData;
use crate::error::OperationResult;

/// A change of a client's subscription to the digests of this name.
pub(super) struct Subscription<'a>(pub(super) &'a String, pub(super) &'a Update<ClientData, ()>);

impl Rules for Subscription<'_> {
    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        let Self(name, update) = *self;
        let is_there = state.digests.contains_key(name);
        let error = |kind, what| {
            let message = format!("digest \"{name}\" {what}");
            Err(ControlError::new(kind, message))
        };
        match update {
            Update::Insert(_) if is_there => error(
                ControlErrorKind::AlreadyExists,
                "already has a subscription",
            ),
            Update::Modify(_) | Update::Delete(()) if !is_there => {
                error(ControlErrorKind::NotFound, "has no subscription")
            }
            Update::Insert(client_data) | Update::Modify(client_data) => {
                state.digests.insert(name.clone(), client_data.clone());
                Ok(())
            }
            Update::Delete(()) => {
                state.digests.remove(name);
                Ok(())
            }
        }
    }

    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        let name = self.0.clone();
        let was = state.digests.get(&name).cloned();
        undo.push(move |state| {
            match was {
                Some(was) => state.digests.insert(name, was),
                None => state.digests.remove(&name),
            };
            Ok(())
        });
    }

    fn stored(&self) -> Stored {
        let Self(name, update) = *self;
        let entity = EntityKey::Digest(name.clone());
        match update {
            Update::Insert(client_data) | Update::Modify(client_data) => {
                let insert = Update::Insert(client_data.clone());
                Stored::replaced(entity, Operation::Digest(name.clone(), insert))
            }
            Update::Delete(()) => Stored::Removed(entity),
        }
    }
}
