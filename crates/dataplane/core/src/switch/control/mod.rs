//! The control calls of the switch, one file per kind of entity.

mod arrays;
mod generators;
mod meters;
mod ports;
mod profiles;
mod snapshots;
mod tables;
mod traffic;
mod value_sets;

use crate::{
    ControlErrorKind, Controlled,
    engine::{Change, State},
    refuse,
    switch::Switch,
};

impl Switch {
    fn loaded(&self) -> Controlled<&State> {
        match self.engine {
            Some(_) => Ok(&self.model.state),
            None => refuse(ControlErrorKind::FailedPrecondition, "no program is loaded"),
        }
    }

    fn loaded_mut(&mut self) -> Controlled<&mut State> {
        self.loaded()?;
        Ok(&mut self.model.state)
    }

    /// Reports a change to the engine and the offload, which derive data from the state.
    pub(super) fn notify(&mut self, change: &Change<'_>) {
        if let Some(engine) = &mut self.engine {
            engine.changed(&mut self.model.state, change);
        }
        self.notify_offload(change);
    }

    /// Reports the changes of one control call; an offload makes them visible to packets together.
    pub(super) fn notify_together(&mut self, changes: &[Change<'_>]) {
        let was_in_batch = std::mem::replace(&mut self.is_in_batch, true);
        for (position, change) in changes.iter().enumerate() {
            if position + 1 == changes.len() {
                self.is_in_batch = was_in_batch;
            }
            self.notify(change);
        }
    }

    /// Reports a change, as the last step of a control call.
    fn done(&mut self, change: &Change<'_>) -> Controlled {
        self.notify(change);
        Ok(())
    }
}

/// Checks an index into an array; the array's kind and name are for the error message.
fn place((kind, name): (&str, &str), index: u64, cells: usize) -> Controlled<usize> {
    match usize::try_from(index) {
        Ok(place) if place < cells => Ok(place),
        _ => {
            let found = format!("expected an index below {cells}, found {index}");
            let message = format!("{kind} \"{name}\": {found}");
            refuse(ControlErrorKind::OutOfRange, message)
        }
    }
}
