//! P4 entities: updates become operations on the switch, what the switch has becomes entities.
//!
//! An update is checked and translated before the switch's thread sees it; what depends on the
//! switch's state is decided there. Source: P4Runtime 1.5.0, "P4 Entity Messages".

pub(crate) mod counter;
pub(crate) mod generator;
pub(crate) mod register;
pub(crate) mod replication;
pub(crate) mod table_entry;
mod table_key;

use std::ops::Range;
use std::sync::Arc;

use dataplane::{CounterValue, Switch};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{Entity, Index, Update};
use tonic::Code;

use crate::controller_data::ControllerData;
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{NamesInUse, Pipeline};

type Run = dyn Fn(&mut Site<'_>) -> EntityResult + Send + Sync;
type RunCells = dyn Fn(&mut Site<'_>, Range<u64>) -> EntityResult + Send + Sync;

/// One update, ready to run on each worker's thread; it changes everything or nothing.
#[derive(Clone)]
pub(crate) enum Operation {
    /// In one go: a packet sees all of it or nothing.
    Whole {
        run: Arc<Run>,
        /// How long it takes, in table entries.
        n_updates: usize,
    },
    /// The same to each of an array's cells, any number of them at a time: packets may come in between.
    Cells {
        run: Arc<RunCells>,
        cells: Range<u64>,
    },
}

impl Operation {
    /// All of it at once.
    pub(crate) fn run(&self, site: &mut Site<'_>) -> EntityResult {
        match self {
            Self::Whole { run, .. } => run(site),
            Self::Cells { run, cells } => run(site, cells.clone()),
        }
    }

    fn whole(run: impl Fn(&mut Site<'_>) -> EntityResult + Send + Sync + 'static) -> Self {
        Self::sized(1, run)
    }

    fn sized(
        n_updates: usize,
        run: impl Fn(&mut Site<'_>) -> EntityResult + Send + Sync + 'static,
    ) -> Self {
        let run = Arc::new(run);
        Self::Whole { run, n_updates }
    }

    fn cells(
        cells: Range<u64>,
        run: impl Fn(&mut Site<'_>, Range<u64>) -> EntityResult + Send + Sync + 'static,
    ) -> Self {
        let run = Arc::new(run);
        Self::Cells { run, cells }
    }
}

/// Where an update is carried out.
pub(crate) struct Site<'a> {
    /// A worker's.
    pub(crate) switch: &'a mut Switch,
    /// What controllers store with their entities: the first worker's is kept.
    pub(crate) data: &'a mut ControllerData,
    /// The worker's number.
    pub(crate) worker: usize,
}

impl Site<'_> {
    /// What of a count that a controller writes is this worker's: what they have adds up to it.
    pub(crate) fn share_of(&self, value: CounterValue) -> CounterValue {
        match self.worker {
            0 => value,
            _ => CounterValue::default(),
        }
    }
}

/// What several workers cannot do: an entry that one of them has not hit may be hit by another.
pub(crate) fn expect_workers(
    pipeline: &Pipeline,
    update: &Update,
    n_workers: usize,
) -> EntityResult {
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Kind::TableEntry(entry)) if n_workers > 1 && entry.idle_timeout_ns != 0 => {
            let table = &pipeline.table(entry.table_id)?.name;
            Err(EntityError::unimplemented(format!(
                "table \"{table}\": idle timeouts need a switch with one worker, this one has {n_workers}"
            )))
        }
        Some(Kind::ExternEntry(_)) if n_workers > 1 => Err(EntityError::unimplemented(format!(
            "packet generators need a switch with one worker, this one has {n_workers}"
        ))),
        _ => Ok(()),
    }
}

/// Generators belong to the switch that forwards, not to a pipeline that waits for its COMMIT.
pub(crate) fn expect_forwarding(kind: Option<&Kind>, is_saved: bool) -> EntityResult {
    match kind {
        Some(Kind::ExternEntry(_)) if is_saved => Err(EntityError::new(
            Code::FailedPrecondition,
            "packet generators belong to the switch that forwards, and a saved pipeline waits: commit it first",
        )),
        _ => Ok(()),
    }
}

/// Checks and translates an update.
pub(crate) fn operation(pipeline: &Pipeline, update: &Update) -> EntityResult<Operation> {
    let kind = match Type::try_from(update.r#type) {
        Ok(Type::Unspecified) | Err(_) => {
            return Err(EntityError::invalid(format!(
                "expected the update type INSERT, MODIFY or DELETE, found {}",
                update.r#type
            )));
        }
        Ok(kind) => kind,
    };
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Kind::TableEntry(entry)) => table_entry::operation(pipeline, kind, entry),
        Some(Kind::CounterEntry(entry)) => counter::operation(pipeline, kind, entry),
        Some(Kind::DirectCounterEntry(entry)) => counter::direct_operation(pipeline, kind, entry),
        Some(Kind::RegisterEntry(entry)) => register::operation(pipeline, kind, entry),
        Some(Kind::ExternEntry(entry)) => generator::operation(kind, entry),
        Some(Kind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(Replication::MulticastGroupEntry(entry)) => {
                replication::group_operation(kind, entry)
            }
            Some(Replication::CloneSessionEntry(entry)) => {
                replication::session_operation(kind, entry)
            }
            None => Err(unset("packet_replication_engine_entry.type")),
        },
        Some(other) => Err(unsupported(other)),
        None => Err(unset("entity")),
    }
}

/// The names that entries have, of types that controllers write as strings.
pub(crate) fn names_in_use(pipeline: &Pipeline, switch: &Switch) -> NamesInUse {
    let mut used = NamesInUse::default();
    for table in pipeline.tables().filter(|table| table.has_names()) {
        for entry in switch.entries(table.table) {
            table_entry::note_names(table, &entry, &mut used);
        }
        if let Some(action) = switch.default_action(table.table) {
            table_entry::note_names_of_action(table, &action, &mut used);
        }
    }
    used
}

/// An entity of a kind that the server knows and does not serve.
pub(crate) fn unsupported(kind: &Kind) -> EntityError {
    let name = match kind {
        Kind::ExternEntry(_) => "ExternEntry",
        Kind::TableEntry(_) => "TableEntry",
        Kind::ActionProfileMember(_) => "ActionProfileMember",
        Kind::ActionProfileGroup(_) => "ActionProfileGroup",
        Kind::MeterEntry(_) => "MeterEntry",
        Kind::DirectMeterEntry(_) => "DirectMeterEntry",
        Kind::CounterEntry(_) => "CounterEntry",
        Kind::DirectCounterEntry(_) => "DirectCounterEntry",
        Kind::PacketReplicationEngineEntry(_) => "PacketReplicationEngineEntry",
        Kind::ValueSetEntry(_) => "ValueSetEntry",
        Kind::RegisterEntry(_) => "RegisterEntry",
        Kind::DigestEntry(_) => "DigestEntry",
    };
    EntityError::unimplemented(format!("{name} is not supported"))
}

pub(crate) fn unset(field: &str) -> EntityError {
    EntityError::invalid(format!("expected {field} to be set, found it unset"))
}

/// Entities that always are there can only be modified.
fn expect_modify(kind: Type, what: &str) -> EntityResult {
    if kind == Type::Modify {
        return Ok(());
    }
    Err(EntityError::invalid(format!(
        "{what} can only be modified, found the update type {}",
        kind.as_str_name()
    )))
}

/// An index into an array of `size` cells; none is every cell.
pub(crate) fn cells(index: Option<Index>, size: u64, what: &str) -> EntityResult<Range<u64>> {
    let Some(Index { index }) = index else {
        return Ok(0..size);
    };
    let index = u64::try_from(index).map_err(|_| {
        EntityError::invalid(format!("{what}: expected an index from 0, found {index}"))
    })?;
    if index >= size {
        return Err(EntityError::new(
            Code::OutOfRange,
            format!("{what}: expected an index below {size}, found {index}"),
        ));
    }
    Ok(index..index + 1)
}

/// The number of an array cell as P4Runtime has it.
pub(crate) fn index(cell: u64) -> Option<Index> {
    let index = i64::try_from(cell).expect("arrays are far shorter than 2^63 cells");
    Some(Index { index })
}

pub(crate) fn entity(kind: Kind) -> Entity {
    Entity { entity: Some(kind) }
}
