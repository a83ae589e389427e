//! The control calls of the switch, a file a kind of entity.

mod arrays;
mod generators;
mod meters;
mod profiles;
mod tables;
mod traffic;
mod value_sets;

use crate::{
    ControlError, ControlErrorKind, Controlled, TableId,
    engine::{Change, State, TableChange},
    refuse,
    switch::Switch,
};

fn no_program() -> ControlError {
    ControlError::new(ControlErrorKind::FailedPrecondition, "no program is loaded")
}

impl Switch {
    fn loaded(&self) -> Controlled<&State> {
        match self.engine {
            Some(_) => Ok(&self.model.state),
            None => Err(no_program()),
        }
    }

    fn loaded_mut(&mut self) -> Controlled<&mut State> {
        match self.engine {
            Some(_) => Ok(&mut self.model.state),
            None => Err(no_program()),
        }
    }

    /// Tells whoever has derived something from it what a control call has changed.
    pub(super) fn tell(&mut self, change: &Change<'_>) {
        if let Some(engine) = &mut self.engine {
            engine.changed(&mut self.model.state, change);
        }
        self.tell_offload(change);
    }

    fn tell_table(&mut self, table: TableId, change: TableChange<'_>) -> Controlled {
        self.tell(&Change::Table(table, change));
        Ok(())
    }
}

fn beyond<T>(what: &str, index: u64, cells: usize) -> Controlled<T> {
    let message = format!("{what}: index {index} of {cells} cells");
    refuse(ControlErrorKind::OutOfRange, message)
}
