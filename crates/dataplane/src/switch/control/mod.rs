//! The control calls of the switch, a file a kind of entity.

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

    /// Tells whoever has derived something from it what a control call has changed.
    pub(super) fn tell(&mut self, change: &Change<'_>) {
        if let Some(engine) = &mut self.engine {
            engine.changed(&mut self.model.state, change);
        }
        self.tell_offload(change);
    }

    /// Tells of a change, the last of what a call does.
    fn done(&mut self, change: &Change<'_>) -> Controlled {
        self.tell(change);
        Ok(())
    }
}

/// The place of an index in an array of that kind and name.
fn place((kind, name): (&str, &str), index: u64, cells: usize) -> Controlled<usize> {
    match usize::try_from(index) {
        Ok(place) if place < cells => Ok(place),
        _ => {
            let message = format!("{kind} \"{name}\": index {index} of {cells} cells");
            refuse(ControlErrorKind::OutOfRange, message)
        }
    }
}
