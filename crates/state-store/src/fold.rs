//! How an operation changes what is kept of its entity.
//!
//! An entity is stored as the operations that make it in a switch on which only the pipeline was set: mostly one
//! insert. For an entity of the program itself, that is a change or a deletion.

use control::{EntryChange, EntryKey, Operation, Slot};
use dataplane::{CounterValue, GeneratorChange, MeterCounts};

use crate::key;

/// The effect on the stored operations of one key.
pub(crate) enum Fold<'a> {
    /// This operation replaces them.
    Put(Vec<u8>, Box<Operation>),
    /// They are removed.
    Remove(Vec<u8>),
    /// They are combined with this operation.
    Change(Vec<u8>, &'a Operation),
    /// Cells of an array are written.
    Cells(&'a Operation),
    /// Nothing that is kept changes: handles begin anew with each start.
    Nothing,
}

/// Exhaustive, so that nobody forgets a new kind of operation.
pub(crate) fn fold(slot: Slot, operation: &Operation) -> Fold<'_> {
    use Operation as Op;
    match operation {
        Op::InsertEntry { table, entry, .. } => {
            let of = EntryKey {
                table: *table,
                key: entry.key.clone(),
                priority: entry.priority,
            };
            Fold::Change(key::entry(slot, &of), operation)
        }
        Op::ModifyEntry(of, _) | Op::DeleteEntry(of) => {
            Fold::Change(key::entry(slot, of), operation)
        }
        Op::SetDefaultAction { table, action, .. } => {
            let key = key::default_action(slot, *table);
            match action {
                Some(_) => put(key, operation.clone()),
                None => Fold::Remove(key),
            }
        }
        Op::InsertMember(profile, member) | Op::ModifyMember(profile, member) => put(
            key::member(slot, *profile, member.id),
            Op::InsertMember(*profile, member.clone()),
        ),
        Op::DeleteMember(profile, id) => Fold::Remove(key::member(slot, *profile, *id)),
        Op::InsertProfileGroup(profile, group) | Op::ModifyProfileGroup(profile, group) => put(
            key::profile_group(slot, *profile, group.id),
            Op::InsertProfileGroup(*profile, group.clone()),
        ),
        Op::DeleteProfileGroup(profile, id) => {
            Fold::Remove(key::profile_group(slot, *profile, *id))
        }
        Op::SetCells(..) => Fold::Cells(operation),
        Op::SetValueSet(set, _) => put(key::value_set(slot, *set), operation.clone()),
        Op::SetCrcParameters(name, _) => put(key::crc(slot, name), operation.clone()),
        Op::InsertMulticastGroup(group, note) | Op::ModifyMulticastGroup(group, note) => put(
            key::multicast_group(slot, group.id),
            Op::InsertMulticastGroup(group.clone(), note.clone()),
        ),
        Op::DeleteMulticastGroup(id) => Fold::Remove(key::multicast_group(slot, *id)),
        Op::InsertCloneSession(session, note) | Op::ModifyCloneSession(session, note) => put(
            key::clone_session(slot, session.id),
            Op::InsertCloneSession(session.clone(), note.clone()),
        ),
        Op::Mirror(id, _) => put(key::clone_session(slot, *id), operation.clone()),
        Op::DeleteCloneSession(id) => Fold::Remove(key::clone_session(slot, *id)),
        Op::InsertDigest(name, note) | Op::ModifyDigest(name, note) => put(
            key::digest(slot, name),
            Op::InsertDigest(name.clone(), note.clone()),
        ),
        Op::DeleteDigest(name) => Fold::Remove(key::digest(slot, name)),
        Op::ForgetHandles(_) => Fold::Nothing,
        Op::InsertGenerator { id, .. } | Op::ModifyGenerator(id, _) | Op::DeleteGenerator(id) => {
            Fold::Change(key::generator(*id), operation)
        }
    }
}

fn put<'a>(key: Vec<u8>, operation: Operation) -> Fold<'a> {
    Fold::Put(key, Box::new(operation))
}

/// The operations to store after an operation on an entry or a generator. The program or the command line may have made
/// the entity; then `kept` is empty as long as no controller has written it.
pub(crate) fn changed(mut kept: Vec<Operation>, operation: &Operation) -> Vec<Operation> {
    use Operation as Op;
    match operation {
        Op::InsertEntry { .. } | Op::InsertGenerator { .. } => kept.push(without_counts(operation)),
        // Nothing stays stored of an entity that a controller inserted. The deletion of any other entity is stored, and
        // repeated at each start.
        Op::DeleteEntry(_) | Op::DeleteGenerator(_) => match kept.first() {
            Some(Op::InsertEntry { .. } | Op::InsertGenerator { .. }) => kept.clear(),
            _ => kept = vec![operation.clone()],
        },
        Op::ModifyEntry(of, change) => match kept.last_mut() {
            Some(inserted @ Op::InsertEntry { .. }) => change_entry(inserted, change),
            Some(Op::ModifyEntry(_, before)) => merge_changes(before, change),
            _ if change.action.is_none() && change.meter.is_none() => {}
            _ => {
                let mut all = EntryChange::default();
                merge_changes(&mut all, change);
                kept.push(Op::ModifyEntry(of.clone(), all));
            }
        },
        Op::ModifyGenerator(_, change) => match kept.last_mut() {
            Some(Op::InsertGenerator { config, runs, .. }) => {
                change.apply(config);
                *runs = change.runs.unwrap_or(*runs);
            }
            Some(Op::ModifyGenerator(_, before)) => merge_generator_changes(before, change),
            _ => kept.push(operation.clone()),
        },
        other => kept = vec![other.clone()],
    }
    kept
}

fn without_counts(operation: &Operation) -> Operation {
    let mut operation = operation.clone();
    if let Operation::InsertEntry { entry, .. } = &mut operation {
        entry.counter = CounterValue::default();
        entry.meter_counts = MeterCounts::default();
        entry.since_last_hit_ns = 0;
    }
    operation
}

/// Changes an inserted entry as the data plane does.
fn change_entry(inserted: &mut Operation, change: &EntryChange) {
    let Operation::InsertEntry { entry, note, .. } = inserted else {
        return;
    };
    if let Some(new) = &change.action {
        entry.action = new.action.clone();
        entry.idle_timeout_ns = new.idle_timeout_ns;
        entry.meter = change.meter.flatten();
        *note = new.note.clone();
    } else if let Some(meter) = change.meter {
        entry.meter = meter;
    }
}

fn merge_changes(before: &mut EntryChange, change: &EntryChange) {
    if let Some(new) = &change.action {
        before.action = Some(new.clone());
        before.meter = change.meter;
    } else if change.meter.is_some() {
        before.meter = change.meter;
    }
}

fn merge_generator_changes(before: &mut GeneratorChange, change: &GeneratorChange) {
    let GeneratorChange {
        name,
        port,
        frames,
        pace,
        count,
        runs,
    } = change.clone();
    before.name = name.or(before.name.take());
    before.port = port.or(before.port);
    before.frames = frames.or(before.frames.take());
    before.pace = pace.or(before.pace);
    before.count = count.or(before.count);
    before.runs = runs.or(before.runs);
}
