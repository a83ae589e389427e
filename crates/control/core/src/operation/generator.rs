//! The switch's packet generators.

use dataplane::{ControlError, ControlErrorKind, GeneratorChange, GeneratorConfig};
use serde::{Deserialize, Serialize};

use super::{EntityKey, Operation, Rules, Stored, Undo, WorkerState};
use crate::error::OperationResult;

/// A change of one of the switch's packet generators. Generators are numbered from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GeneratorUpdate {
    /// Adds a generator, as [`dataplane::Switch::insert_generator`] does.
    Insert {
        /// The generator's number.
        id: u32,
        /// The frames that the generator sends, their pace and their count, and the port at which they enter the
        /// switch.
        config: GeneratorConfig,
        /// Whether the generator starts at once.
        runs: bool,
    },
    /// Changes a generator, as [`dataplane::Switch::modify_generator`] does.
    Modify(u32, GeneratorChange),
    /// Deletes a generator, as [`dataplane::Switch::delete_generator`] does.
    Delete(u32),
}

impl Rules for GeneratorUpdate {
    fn irreversible(&self) -> Option<&'static str> {
        Some("a packet generator may have sent frames meanwhile")
    }

    fn expect_possible(&self, state: &WorkerState<'_>) -> OperationResult {
        expect_forwarding(state.forwards)?;
        state.expect_one_worker("packet generators")
    }

    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        match self {
            Self::Insert { id, config, runs } => {
                state.switch.insert_generator(*id, config.clone(), *runs)
            }
            Self::Modify(id, change) => state.switch.modify_generator(*id, change),
            Self::Delete(id) => state.switch.delete_generator(*id),
        }
    }

    /// Records nothing, because the change cannot be undone: see [`Rules::irreversible`].
    fn record(&self, _: &mut Undo, _: &mut WorkerState<'_>) {}

    fn stored(&self) -> Stored {
        let (Self::Insert { id, .. } | Self::Modify(id, _) | Self::Delete(id)) = self;
        Stored::Combined(EntityKey::Generator(*id))
    }

    fn combined(&self, mut kept: Vec<Operation>) -> Vec<Operation> {
        match self {
            Self::Insert { .. } => kept.push(Operation::Generator(self.clone())),
            // If a controller inserted the generator, the store forgets it.
            Self::Delete(_) => match kept.first() {
                Some(Operation::Generator(Self::Insert { .. })) => kept.clear(),
                _ => kept = vec![Operation::Generator(self.clone())],
            },
            Self::Modify(_, change) => match kept.last_mut() {
                Some(Operation::Generator(Self::Insert { config, runs, .. })) => {
                    change.apply(config);
                    *runs = change.runs.unwrap_or(*runs);
                }
                Some(Operation::Generator(Self::Modify(_, before))) => merge(before, change),
                _ => kept.push(Operation::Generator(self.clone())),
            },
        }
        kept
    }
}

fn merge(before: &mut GeneratorChange, later: &GeneratorChange) {
    let GeneratorChange {
        name,
        port,
        frames,
        pace,
        count,
        runs,
    } = later.clone();
    before.name = name.or(before.name.take());
    before.port = port.or(before.port);
    before.frames = frames.or(before.frames.take());
    before.pace = pace.or(before.pace);
    before.count = count.or(before.count);
    before.runs = runs.or(before.runs);
}

/// Refuses access to packet generators through a saved pipeline (one that waits for its commit), since the generators
/// belong to the switch that forwards.
pub(crate) fn expect_forwarding(forwards: bool) -> OperationResult {
    if forwards {
        return Ok(());
    }
    Err(ControlError::new(
        ControlErrorKind::FailedPrecondition,
        "packet generators belong to the switch that forwards, and a saved pipeline waits: commit it first",
    ))
}
