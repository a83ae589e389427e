//! Clients' subscriptions to digests.

use dataplane::{ControlError, ControlErrorKind};

use super::{Operation, Place, Rules, Site, Stored, Undo, Update};
use crate::client_data::ClientData;
use crate::error::OperationResult;

/// A change of a client's subscription to the digests of a name.
pub(super) struct Subscription<'a>(pub(super) &'a String, pub(super) &'a Update<ClientData, ()>);

impl Rules for Subscription<'_> {
    fn run(&self, site: &mut Site<'_>) -> OperationResult {
        let Self(name, update) = *self;
        let is_there = site.digests.contains_key(name);
        let error = |kind, what| {
            let message = format!("digest \"{name}\" {what}");
            Err(ControlError::new(kind, message))
        };
        match update {
            Update::Insert(_) if is_there => {
                error(ControlErrorKind::AlreadyExists, "is told of already")
            }
            Update::Modify(_) | Update::Delete(()) if !is_there => {
                error(ControlErrorKind::NotFound, "is not told of")
            }
            Update::Insert(client_data) | Update::Modify(client_data) => {
                site.digests.insert(name.clone(), client_data.clone());
                Ok(())
            }
            Update::Delete(()) => {
                site.digests.remove(name);
                Ok(())
            }
        }
    }

    fn record(&self, undo: &mut Undo, site: &mut Site<'_>) {
        let name = self.0.clone();
        let was = site.digests.get(&name).cloned();
        undo.push(move |site| {
            match was {
                Some(was) => site.digests.insert(name, was),
                None => site.digests.remove(&name),
            };
            Ok(())
        });
    }

    fn stored(&self) -> Stored {
        let Self(name, update) = *self;
        let place = Place::Digest(name.clone());
        match update {
            Update::Insert(client_data) | Update::Modify(client_data) => {
                let insert = Update::Insert(client_data.clone());
                Stored::replaced(place, Operation::Digest(name.clone(), insert))
            }
            Update::Delete(()) => Stored::Removed(place),
        }
    }
}
