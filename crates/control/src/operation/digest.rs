//! Clients' subscriptions to digests.

use dataplane::{ControlError, ControlErrorKind};

use super::{Operation, Place, Rules, Site, Stored, Undo, Update};
use crate::error::OperationResult;
use crate::notes::Note;

/// A change of a client's subscription to the digests of a name.
pub(super) struct Subscription<'a>(pub(super) &'a String, pub(super) &'a Update<Note, ()>);

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
            Update::Insert(note) | Update::Modify(note) => {
                site.digests.insert(name.clone(), note.clone());
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
            Update::Insert(note) | Update::Modify(note) => {
                let insert = Update::Insert(note.clone());
                Stored::replaced(place, Operation::Digest(name.clone(), insert))
            }
            Update::Delete(()) => Stored::Removed(place),
        }
    }
}
