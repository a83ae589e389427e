//! A change of the switch as a list of steps, and the only code that carries one out.
//!
//! The order of the steps keeps one version per packet; [`crate::backend`] makes it. This module
//! defines a step, turns steps into `WriteRequest`s of bounded size, and interprets the failure of
//! a step.

use std::fmt;
use std::future::Future;

use p4runtime_proto::p4::v1::{Entity, Update, entity};

use crate::limits::WRITE_BATCH_UPDATES;

/// The purpose of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The SFU's own address and the port that copies leave by.
    Address,
    /// Records what is to happen to presenters, for who finds the change interrupted.
    Journal,
    /// Takes presenters off that leave or change their group.
    Unlink,
    /// Writes state that no packet can see yet.
    Prepare,
    /// Groups' new versions come into force, one value each.
    Flip,
    /// Puts presenters on.
    Link,
    /// The journal is done with.
    End,
    /// Deletes state that no packet can see any more.
    Cleanup,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Address => "the SFU's own address",
            Stage::Journal => "what is to happen to presenters",
            Stage::Unlink => "the removal of presenters",
            Stage::Prepare => "the new viewers",
            Stage::Flip => "the groups' switch to their new viewers",
            Stage::Link => "the presenters",
            Stage::End => "that all presenters are put on",
            Stage::Cleanup => "the removal of what is no longer used",
        })
    }
}

/// One step. The next begins when it is done.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Wait until no packet uses unlinked state.
    Drain,
    /// Write; the order of the updates does not matter.
    Write(Stage, Vec<Update>),
}

/// All steps from one state of the switch to another; empty if nothing changes.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Appends a write unless there is nothing to write.
    pub fn write(&mut self, stage: Stage, updates: Vec<Update>) {
        if !updates.is_empty() {
            self.steps.push(Step::Write(stage, updates));
        }
    }

    /// Appends a drain. Two in a row are one.
    pub fn drain(&mut self) {
        if self.steps.last() != Some(&Step::Drain) {
            self.steps.push(Step::Drain);
        }
    }

    /// Does the plan write anything?
    pub fn is_empty(&self) -> bool {
        !self
            .steps
            .iter()
            .any(|step| matches!(step, Step::Write(..)))
    }

    /// Number of updates in all.
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

    /// Every update in order, for a switch with empty state that has not had a packet: no drain is
    /// needed, and every counter is already 0.
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

/// The control plane's view of a switch: the client over gRPC, or a test's own.
pub trait Target {
    /// The reason why a call failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads entities; wildcards give as many as there are.
    fn read(
        &mut self,
        entities: Vec<Entity>,
    ) -> impl Future<Output = Result<Vec<Entity>, Self::Error>> + Send;

    /// Writes one batch. After an error some of it may be done and some not.
    fn write(
        &mut self,
        updates: Vec<Update>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns when no packet in the switch uses state that was unlinked before the call.
    fn drain(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A plan that stopped at an error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}; {consequence}")]
pub struct RunError<E: std::error::Error + 'static> {
    what: String,
    consequence: &'static str,
    /// Why.
    pub source: E,
}

/// The steps of a plan that a packet notices: the state after a plan that stopped.
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

/// Carries a plan out, step after step, and stops at the first error. `progress` gets the number of
/// updates that are done. If an error, or a caller that drops it, stops it, it leaves a state from
/// which [`crate::backend::SfuProgram::settle`] goes on.
///
/// # Errors
/// A write or a drain failed. The message names the state that this leaves.
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
                let what = "go on, the switch did not drain".to_owned();
                drained.map_err(|source| failed(what, source))?;
            }
            Step::Write(stage, updates) => {
                for batch in updates.chunks(WRITE_BATCH_UPDATES) {
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
