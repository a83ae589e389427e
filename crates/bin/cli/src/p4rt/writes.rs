//! Writes, one by one or in batches, and reports the switch's result for each update.

use p4runtime_client::WriteError;
use p4runtime_client::entities;
use p4runtime_client::limits::WRITE_BATCH_UPDATES;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{self as p4, ActionProfileGroup, Entity, Update, entity, update};
use serde_json::{Value, json};
use tonic::Code;

use super::command::Query;
use super::shell::{Done, Place, Shell, Stop, unless_interrupted};
use crate::output;

/// Maximum number of failed updates that are reported individually.
const FAILED_SHOWN_MAX: usize = 20;

/// Updates collected until `commit`.
pub(super) struct Batch {
    atomicity: Atomicity,
    updates: Vec<Update>,
    /// The file and line of each update's command.
    places: Vec<Place>,
}

impl Shell {
    pub(super) async fn write(&mut self, mut updates: Vec<Update>, place: &Place) -> Done {
        for update in &mut updates {
            self.keep_max_size(update).await?;
        }
        if let Some(batch) = &mut self.batch {
            batch.places.extend(updates.iter().map(|_| place.clone()));
            let n = updates.len();
            batch.updates.extend(updates);
            self.print(place, json!({ "collected": n }), String::new);
            return Ok(());
        }
        self.expect_primary().await?;
        let places = vec![place.clone(); updates.len()];
        self.send(updates, Atomicity::ContinueOnError, &places)
            .await?;
        self.print(place, json!({ "written": places.len() }), String::new);
        Ok(())
    }

    /// If the update modifies a group of an action profile and gives no `max_size`, adds the group's present
    /// `max_size`: P4Runtime sets the size when the group is inserted, and requires the same size in every change. The
    /// size comes from the open batch's last change of the group, or from the switch.
    async fn keep_max_size(&mut self, update: &mut Update) -> Done {
        let is_modify = update.r#type() == update::Type::Modify;
        let Some(group) = group_of(update).filter(|group| is_modify && group.max_size == 0) else {
            return Ok(());
        };
        let is_same = |other: &ActionProfileGroup| {
            other.action_profile_id == group.action_profile_id && other.group_id == group.group_id
        };
        let collected = self.batch.as_ref().and_then(|batch| {
            let mut groups = batch.updates.iter().rev().filter_map(group_of);
            groups.find(|other| is_same(other)).map(|it| it.max_size)
        });
        let max_size = match collected {
            Some(max_size) => max_size,
            None => {
                let wanted = ActionProfileGroup {
                    action_profile_id: group.action_profile_id,
                    group_id: group.group_id,
                    ..ActionProfileGroup::default()
                };
                let mut found = 0;
                let each = |part: Vec<Entity>| {
                    for entity in part {
                        if let Some(entity::Entity::ActionProfileGroup(group)) = entity.entity {
                            found = group.max_size;
                        }
                    }
                };
                let wanted = entities::entity(entity::Entity::ActionProfileGroup(wanted));
                let read = self.client.read_each(vec![wanted], each);
                let read = unless_interrupted(&mut self.interrupts, read).await;
                // If the read does not find the group, the write reports what is wrong.
                let _ = read.ok_or(Stop::Interrupted)?;
                found
            }
        };
        if let Some(Entity {
            entity: Some(entity::Entity::ActionProfileGroup(group)),
        }) = &mut update.entity
        {
            group.max_size = max_size;
        }
        Ok(())
    }

    /// Writes a batch. `places` has the file and line of each update's command, for messages.
    async fn send(&mut self, updates: Vec<Update>, atomicity: Atomicity, places: &[Place]) -> Done {
        let n = updates.len();
        let written = self.client.write_batch(updates, atomicity);
        let written = unless_interrupted(&mut self.interrupts, written).await;
        match written {
            None => {
                output::error_line(
                    "reprise: interrupted: the switch may still carry the write out",
                );
                Err(Stop::Interrupted)
            }
            Some(Ok(())) => Ok(()),
            Some(Err(WriteError::Updates(errors))) => {
                let stop = failed_updates(n, &errors, places);
                let mut failed = errors.iter().filter(|it| it.canonical_code != 0);
                let why = match failed.next() {
                    Some(first) => {
                        let code = Code::from(first.canonical_code);
                        self.other_program(code, &first.message).await
                    }
                    None => None,
                };
                Err(stop.and(why.as_deref().unwrap_or_default()))
            }
            Some(Err(WriteError::Call(error))) => {
                self.step_down_after(&error);
                Err(self.refused(error).await)
            }
        }
    }

    pub(super) fn begin(&mut self, atomicity: Atomicity, place: &Place) -> Done {
        if self.batch.is_some() {
            return Err(Stop::failed(
                "a batch is open already: `commit` writes it, `abort` forgets it",
            ));
        }
        self.batch = Some(Batch {
            atomicity,
            updates: Vec::new(),
            places: Vec::new(),
        });
        let name = atomicity.as_str_name();
        self.print(place, json!({ "atomicity": name }), String::new);
        Ok(())
    }

    pub(super) async fn commit(&mut self, place: &Place) -> Done {
        let n = self.batch.as_ref().ok_or_else(no_batch)?.updates.len();
        if n > 0 {
            self.expect_primary().await?;
        }
        // A refused batch is dropped: the failure reports what was done.
        let batch = self.batch.take().ok_or_else(no_batch)?;
        if n > 0 {
            self.send(batch.updates, batch.atomicity, &batch.places)
                .await?;
        }
        self.print(place, json!({ "written": n }), || {
            format!("{} written", output::count(n, "update"))
        });
        Ok(())
    }

    pub(super) fn abort(&mut self, place: &Place) -> Done {
        let batch = self.batch.take().ok_or_else(no_batch)?;
        let n = batch.updates.len();
        self.print(place, json!({ "forgotten": n }), || {
            format!("{} forgotten", output::count(n, "update"))
        });
        Ok(())
    }

    pub fn open_batch(&self) -> Option<usize> {
        self.batch.as_ref().map(|batch| batch.updates.len())
    }

    /// Deletes what the query finds, in batches; const entries stay.
    pub(super) async fn clear(&mut self, query: Query, place: &Place) -> Done {
        if self.batch.is_some() {
            return Err(Stop::failed(
                "`table clear` first reads the entries that it deletes, so it cannot be part of a batch: `commit` or `abort` before",
            ));
        }
        self.expect_primary().await?;
        let mut deletes = Vec::new();
        let each = |part: Vec<Entity>| {
            let keys = part.into_iter().filter_map(|it| match it.entity {
                Some(entity::Entity::TableEntry(entry)) if !entry.is_const => {
                    let key = entities::key_of(entry);
                    Some(entities::delete(entities::of_table(key)))
                }
                _ => None,
            });
            deletes.extend(keys);
        };
        let read = self.client.read_each(query.entities, each);
        let read = unless_interrupted(&mut self.interrupts, read).await;
        if let Err(error) = read.ok_or(Stop::Interrupted)? {
            return Err(self.refused(error).await);
        }
        let n = deletes.len();
        for batch in deletes.chunks(WRITE_BATCH_UPDATES) {
            let places = vec![place.clone(); batch.len()];
            self.send(batch.to_vec(), Atomicity::ContinueOnError, &places)
                .await?;
        }
        self.print(place, json!({ "written": n }), || {
            format!("{} deleted", entries(n))
        });
        Ok(())
    }
}

fn no_batch() -> Stop {
    Stop::failed("no batch is open: `begin` opens one")
}

fn group_of(update: &Update) -> Option<&ActionProfileGroup> {
    match update.entity.as_ref()?.entity.as_ref()? {
        entity::Entity::ActionProfileGroup(group) => Some(group),
        _ => None,
    }
}

fn entries(n: usize) -> String {
    match n {
        1 => "1 entry".to_owned(),
        n => format!("{n} entries"),
    }
}

/// Lists each failed update, if there are several.
fn failed_updates(n: usize, errors: &[p4::Error], places: &[Place]) -> Stop {
    let text = |error: &p4::Error| {
        let code = Code::from(error.canonical_code);
        format!("{} ({code:?})", error.message)
    };
    let failed: Vec<(usize, &p4::Error)> = errors
        .iter()
        .enumerate()
        .filter(|(_, error)| error.canonical_code != 0)
        .collect();
    let updates: Vec<Value> = failed
        .iter()
        .map(|(idx, error)| {
            json!({
                "update": idx,
                "command": places.get(*idx).map(|it| it.text.trim()),
                "code": format!("{:?}", Code::from(error.canonical_code)),
                "message": error.message,
            })
        })
        .collect();
    let found = json!({ "failed_updates": updates });
    match failed.as_slice() {
        [(_, error)] if n == 1 => Stop::Failed(text(error), found),
        failed => {
            for (idx, error) in failed.iter().take(FAILED_SHOWN_MAX) {
                let place = places.get(*idx);
                let at = place
                    .and_then(Place::words)
                    .map_or(String::new(), |at| format!("{at}: "));
                let line = place.map_or(String::new(), |it| format!(": {}", it.text.trim()));
                output::error_line(format_args!("reprise: {at}{}{line}", text(error)));
            }
            if let Some(more) = failed
                .len()
                .checked_sub(FAILED_SHOWN_MAX)
                .filter(|n| *n > 0)
            {
                output::error_line(format_args!("reprise: and {more} more"));
            }
            Stop::Failed(format!("{} of {n} updates failed", failed.len()), found)
        }
    }
}
