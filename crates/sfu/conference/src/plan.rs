//! A change of the switch as a list of steps, and the only code that executes them.
//!
//! [`crate::backend`] orders the steps so that each packet sees one version of its group, the old or the new version.
//! This module defines a step, splits steps into `WriteRequest`s of bounded size, and interprets the failure of a step.

use std::fmt;
use std::future::Future;

use p4runtime_client::batches;
use p4runtime_client::{Client, ClientError};
use p4runtime_proto::p4::v1::{Entity, Update, entity};

/// The purpose of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Writes the addresses for which the SFU answers, and for each output port the addresses that copies leave with.
    Address,
    /// Records the planned changes of presenters, for a command that finds the change interrupted.
    Journal,
    /// Switches off presenters that leave or change their group.
    Unlink,
    /// Writes state that no packet can see yet.
    Prepare,
    /// Activates the groups' new versions by writing one value per group.
    Flip,
    /// Switches presenters on.
    Link,
    /// Removes the journal's head, an entry without which the journal's records are ignored. Then the change is
    /// complete.
    End,
    /// Deletes state that no packet can see any more.
    Cleanup,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Address => "the SFU's own address",
            Stage::Journal => "the journal of the presenters' changes",
            Stage::Unlink => "the removal of presenters",
            Stage::Prepare => "the new viewers",
            Stage::Flip => "the groups' change to their new viewers",
            Stage::Link => "the presenters",
            Stage::End => "the end of the journal",
            Stage::Cleanup => "the removal of what is no longer used",
        })
    }
}

/// One step. The next step begins when this one is complete.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Waits until no packet uses state that earlier steps have made unreachable.
    Drain,
    /// Writes updates; their order does not matter.
    Write(Stage, Vec<Update>),
}

/// All steps from one state of the switch to another; empty if nothing changes.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Plan {
    /// The steps, in order of execution.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Appends a write, unless there are no updates.
    pub fn write(&mut self, stage: Stage, updates: Vec<Update>) {
        if !updates.is_empty() {
            self.steps.push(Step::Write(stage, updates));
        }
    }

    /// Appends a drain, unless the last step is a drain.
    pub fn drain(&mut self) {
        if self.steps.last() != Some(&Step::Drain) {
            self.steps.push(Step::Drain);
        }
    }

    /// Whether the plan has no write.
    pub fn is_empty(&self) -> bool {
        !self
            .steps
            .iter()
            .any(|step| matches!(step, Step::Write(..)))
    }

    /// Number of updates in all steps.
    pub fn n_updates(&self) -> usize {
        self.steps
            .iter()
            .map(|step| {
                if let Step::Write(_, u) = step {
                    u.len()
                } else {
                    0
                }
            })
            .sum()
    }

    /// Returns all updates except those of counters, in order, for a switch with empty state that has received no
    /// packet. Such a switch needs no drain, and its counters are already 0.
    pub fn into_updates_for_empty_switch(self) -> Vec<Update> {
        let is_counter = |update: &Update| {
            let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
            matches!(entity, Some(entity::Entity::CounterEntry(_)))
        };
        let updates = self.steps.into_iter().flat_map(|step| match step {
            Step::Drain => Vec::new(),
            Step::Write(_, updates) => updates,
        });
        updates.filter(|update| !is_counter(update)).collect()
    }
}

/// The control plane's view of a switch: the gRPC client, or a fake in a test.
pub trait Target {
    /// Why a call failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads entities; a wildcard stands for all entities that match.
    fn read(
        &mut self,
        entities: Vec<Entity>,
    ) -> impl Future<Output = Result<Vec<Entity>, Self::Error>> + Send;

    /// Writes one batch. After an error, any part of the batch may be done.
    fn write(
        &mut self,
        updates: Vec<Update>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns when no packet in the switch uses state that was made unreachable before the call.
    fn drain(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl Target for Client {
    type Error = ClientError;

    async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        Client::read(self, entities).await
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), ClientError> {
        Client::write(self, updates).await
    }

    async fn drain(&mut self) -> Result<(), ClientError> {
        Client::drain(self).await
    }
}

/// A plan that stopped at an error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}; {consequence}")]
pub struct RunError<E: std::error::Error + 'static> {
    what: String,
    consequence: &'static str,
    /// Why the step failed.
    pub source: E,
}

/// The first and the last step that change how packets are forwarded. A plan that stops before, between or after these
/// steps leaves different states.
struct Noticed {
    first: usize,
    last: usize,
}

impl Noticed {
    fn of(plan: &Plan) -> Noticed {
        let is_noticed = |step: &Step| match step {
            Step::Drain => false,
            Step::Write(stage, _) => matches!(
                stage,
                Stage::Address | Stage::Unlink | Stage::Flip | Stage::Link
            ),
        };
        let first = plan.steps.iter().position(is_noticed);
        let last = plan.steps.iter().rposition(is_noticed);
        Noticed {
            first: first.unwrap_or(plan.steps.len()),
            last: last.unwrap_or(0),
        }
    }

    fn consequence(&self, idx: usize) -> &'static str {
        if idx < self.first {
            "everything is as it was"
        } else if idx > self.last {
            "the new state is in force, and the next change deletes entries of the old state that are still in the switch"
        } else {
            "each group is in its old or its new state, and the next change completes or undoes this one"
        }
    }
}

/// Executes a plan step by step and stops at the first error. `progress` receives the number of
/// updates done so far. After an error, or if the caller drops the future,
/// [`crate::backend::SfuProgram::settle`] can continue from the resulting state.
///
/// # Errors
/// A write or a drain failed. The message names the resulting state.
pub async fn run<T: Target>(
    plan: Plan,
    target: &mut T,
    mut progress: impl FnMut(usize),
) -> Result<(), RunError<T::Error>> {
    let noticed = Noticed::of(&plan);
    let mut n_done = 0;
    for (idx, step) in plan.steps.into_iter().enumerate() {
        let failed = |what: String, source| RunError {
            what,
            consequence: noticed.consequence(idx),
            source,
        };
        match step {
            Step::Drain => {
                let drained = target.drain().await;
                let what = "drain the switch".to_owned();
                drained.map_err(|source| failed(what, source))?;
            }
            Step::Write(stage, updates) => {
                for batch in batches(&updates) {
                    let written = target.write(batch.to_vec()).await;
                    written.map_err(|source| failed(format!("write {stage}"), source))?;
                    n_done += batch.len();
                    progress(n_done);
                }
            }
        }
    }
    Ok(())
}
