//! Operations. Every write to a switch is a value of a type defined here: any thread can make it, and each worker's
//! thread executes it.
//!
//! Ids are the program's ([`dataplane::Program::table`] and similar methods find them by name), and values have the
//! data plane's form. An operation is done completely or not at all. Each group of entities has a file with its
//! [`Rules`]: how updates of these entities are executed, undone and stored.

mod cells;
mod digest;
mod entry;
mod generator;
mod profile;
mod replication;
mod settings;
mod stored;
mod undo;

use std::ops::Range;

use dataplane::{
    ActionProfileId, CloneSession, ControlError, ControlErrorKind, CounterValue, CrcParameters,
    MatchField, Mirror, MulticastGroup, ProfileGroup, ProfileMember, Program, Switch, TableAction,
    TableId, ValueSetId,
};
use serde::{Deserialize, Serialize};

use crate::client_data::{ClientData, ClientDataMap, Digests};
use crate::error::OperationResult;

pub use cells::CellValue;
use cells::Cells;
use digest::Subscription;
use entry::DefaultAction;
pub use entry::{EntryChange, EntryUpdate, NewAction};
pub use generator::GeneratorUpdate;
pub(crate) use generator::expect_forwarding;
use profile::InProfile;
use replication::{Mirrored, WithClientData};
use settings::{Crc, Handles, Members};
pub use stored::{EntityKey, Stored};
pub(crate) use undo::Undo;

/// One update of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// A change of a table's entries.
    Entry(EntryUpdate),
    /// Sets a table's default action, as [`Switch::set_default_action`] does.
    DefaultAction {
        /// The table whose default action is set.
        table: TableId,
        /// The new default action; `None` restores the program's own action.
        action: Option<TableAction>,
        /// Client data of the default action: what a controller stores with it, such as P4Runtime's metadata. If
        /// `action` is `None`, the stored client data is removed instead.
        client_data: ClientData,
    },
    /// Restarts the numbering of a table's entry handles, as [`Switch::forget_handles`] does.
    ForgetHandles(TableId),
    /// A change of an action profile's members.
    Member(ActionProfileId, Update<ProfileMember>),
    /// A change of an action profile's groups.
    ProfileGroup(ActionProfileId, Update<ProfileGroup>),
    /// Sets a range of an array's cells to the same value; frames may pass before all cells of a long range are set.
    Cells(CellValue, Range<u64>),
    /// Replaces all members of a parser value set, as [`Switch::set_value_set`] does.
    ValueSet(ValueSetId, Vec<Vec<MatchField>>),
    /// Sets the parameters of the CRC calculation with this name, as [`Switch::set_crc_parameters`] does.
    Crc(String, CrcParameters),
    /// A change of a client's subscription to the digests of this name. The client data holds the subscription's
    /// settings.
    Digest(String, Update<ClientData, ()>),
    /// A change of the multicast groups, with the group's client data (the default value for a deletion).
    MulticastGroup(Update<MulticastGroup>, ClientData),
    /// A change of the clone sessions, with the session's client data (the default value for a deletion).
    CloneSession(Update<CloneSession>, ClientData),
    /// Makes or replaces a clone session, as [`Switch::mirror`] does.
    Mirror(u32, Mirror),
    /// A change of the switch's packet generators.
    Generator(GeneratorUpdate),
}

impl From<Update<MulticastGroup>> for Operation {
    /// Makes an operation from a change, without client data.
    fn from(update: Update<MulticastGroup>) -> Self {
        Self::MulticastGroup(update, ClientData::default())
    }
}

impl From<Update<CloneSession>> for Operation {
    /// Makes an operation from a change, without client data.
    fn from(update: Update<CloneSession>) -> Self {
        Self::CloneSession(update, ClientData::default())
    }
}

/// A change of an entity, whose id has the type `K`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Update<T, K = u32> {
    /// Makes an entity; it must not exist.
    Insert(T),
    /// Replaces an entity; it must exist.
    Modify(T),
    /// Removes an entity; it must exist.
    Delete(K),
}

/// An entity whose id is a number.
pub trait Identified {
    /// The entity's id, which no other entity of its kind has.
    fn id(&self) -> u32;
}

impl<T: Identified> Update<T> {
    fn id(&self) -> u32 {
        match self {
            Self::Insert(it) | Self::Modify(it) => it.id(),
            Self::Delete(id) => *id,
        }
    }

    /// Returns the entity that the update inserts or modifies; `None` if the update deletes an entity.
    fn value(&self) -> Option<&T> {
        match self {
            Self::Insert(it) | Self::Modify(it) => Some(it),
            Self::Delete(_) => None,
        }
    }
}

/// How the updates of one kind of entity are executed, undone and stored.
pub(crate) trait Rules {
    /// The cost of the update, as the number of table entry updates that would take the same time.
    fn n_updates(&self) -> usize {
        1
    }

    /// Why the update cannot be undone; `None` if it can.
    fn irreversible(&self) -> Option<&'static str> {
        None
    }

    /// Refuses an update that is impossible with several workers or in a saved pipeline.
    fn expect_possible(&self, state: &WorkerState<'_>) -> OperationResult {
        let _ = state;
        Ok(())
    }

    /// Executes the whole update at once, and stores its client data in `state`.
    fn run(&self, state: &mut WorkerState<'_>) -> OperationResult;

    /// Records the state that the update is about to change, or that the entity does not exist. If the entity's table,
    /// array or profile does not exist, nothing is recorded, since the update will be refused.
    fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>);

    /// The effect of the update on the operations that a store has for the entity.
    fn stored(&self) -> Stored;

    /// Returns the operations to store in place of `kept` (the entity's stored operations so far), where
    /// [`Rules::stored`] returns [`Stored::Combined`].
    fn combined(&self, kept: Vec<Operation>) -> Vec<Operation> {
        kept
    }
}

/// The worker state that operations change.
pub(crate) struct WorkerState<'a> {
    pub(crate) switch: &'a mut Switch,
    /// The client data of the entities. The pipeline keeps only the client data of the first worker.
    pub(crate) client_data: &'a mut ClientDataMap,
    pub(crate) digests: &'a mut Digests,
    pub(crate) worker: usize,
    pub(crate) n_workers: usize,
    /// False for the switch of a saved pipeline.
    pub(crate) forwards: bool,
}

impl Operation {
    /// Calls `work` with the rules of the operation's entity.
    fn with_rules<R>(&self, work: impl FnOnce(&dyn Rules) -> R) -> R {
        match self {
            Self::Entry(update) => work(update),
            Self::DefaultAction {
                table,
                action,
                client_data,
            } => work(&DefaultAction(*table, action.as_ref(), client_data)),
            Self::ForgetHandles(table) => work(&Handles(*table)),
            Self::Member(profile, update) => work(&InProfile(*profile, update)),
            Self::ProfileGroup(profile, update) => work(&InProfile(*profile, update)),
            Self::Cells(value, cells) => work(&Cells(value, cells)),
            Self::ValueSet(set, members) => work(&Members(*set, members)),
            Self::Crc(name, parameters) => work(&Crc(name, *parameters)),
            Self::Digest(name, update) => work(&Subscription(name, update)),
            Self::MulticastGroup(update, client_data) => work(&WithClientData(update, client_data)),
            Self::CloneSession(update, client_data) => work(&WithClientData(update, client_data)),
            Self::Mirror(id, mirror) => work(&Mirrored(*id, *mirror)),
            Self::Generator(update) => work(update),
        }
    }

    /// Executes the operation on a switch that belongs to no device. The operation's client data are dropped.
    ///
    /// # Errors
    /// The switch refuses the operation; nothing has changed.
    pub fn apply(&self, switch: &mut Switch) -> OperationResult {
        self.run(&mut WorkerState {
            switch,
            client_data: &mut ClientDataMap::default(),
            digests: &mut Digests::default(),
            worker: 0,
            n_workers: 1,
            forwards: true,
        })
    }

    /// The cost of the operation, as the number of table entry updates that would take the same time.
    pub(crate) fn n_updates(&self) -> usize {
        self.with_rules(|rules| rules.n_updates())
    }

    /// Returns the operation in the form in which a new process may repeat it, or `None` if a new process must not
    /// repeat the operation. A new process starts without the state that packets have written.
    pub(crate) fn in_a_new_process(mut self, program: &Program) -> Option<Self> {
        match &mut self {
            // Packets have changed the register since the controller wrote it. For example, a register may hold a
            // sequencer's counter: if the controller's value were restored, the sequencer would give out every number a
            // second time.
            Self::Cells(CellValue::Register(register, _), _)
                if program.is_written_by_packets(*register) =>
            {
                return None;
            }
            // Nobody knows how many of the packet generator's frames were sent, so the generator does not start by
            // itself.
            Self::Generator(GeneratorUpdate::Insert { config, runs, .. })
                if config.count.is_some() =>
            {
                *runs = false;
            }
            _ => {}
        }
        Some(self)
    }

    /// Refuses an operation that cannot be undone.
    pub(crate) fn expect_reversible(&self) -> OperationResult {
        let Some(what) = self.with_rules(|rules| rules.irreversible()) else {
            return Ok(());
        };
        let message = format!(
            "this operation cannot be part of a batch that is done as a whole or not at all: {what}"
        );
        Err(ControlError::new(ControlErrorKind::Unimplemented, message))
    }

    /// Executes the whole operation at once.
    pub(crate) fn run(&self, state: &mut WorkerState<'_>) -> OperationResult {
        self.with_rules(|rules| {
            rules.expect_possible(state)?;
            rules.run(state)
        })
    }

    pub(crate) fn record(&self, undo: &mut Undo, state: &mut WorkerState<'_>) {
        self.with_rules(|rules| rules.record(undo, state));
    }

    /// The effect of the operation on the operations that a store has for the same entity.
    pub fn stored(&self) -> Stored {
        self.with_rules(|rules| rules.stored())
    }

    /// Returns the operations to store in place of `kept` (the entity's stored operations so far), where
    /// [`Operation::stored`] returns [`Stored::Combined`]. If the program or the command line made the entity, `kept`
    /// is empty until a controller has written to the entity.
    pub fn combined(&self, kept: Vec<Operation>) -> Vec<Operation> {
        self.with_rules(|rules| rules.combined(kept))
    }

    pub(crate) fn is_of_generator(&self) -> bool {
        matches!(self, Self::Generator(_))
    }
}

impl WorkerState<'_> {
    /// This worker's share of a count that a client writes. The first worker gets the whole count and the other workers
    /// 0, so that the sum of all workers is the count.
    fn share_of(&self, value: CounterValue) -> CounterValue {
        match self.worker {
            0 => value,
            _ => CounterValue::default(),
        }
    }

    fn expect_one_worker(&self, what: &str) -> OperationResult {
        if self.n_workers == 1 {
            return Ok(());
        }
        let n_workers = self.n_workers;
        let message = format!("{what} need a switch with one worker, this one has {n_workers}");
        Err(ControlError::new(ControlErrorKind::Unimplemented, message))
    }

    fn table_name(&self, table: TableId) -> &str {
        let info = self.switch.program().and_then(|it| it.table_info(table));
        info.map_or("", |info| &info.name)
    }

    fn profile_of(&self, table: TableId) -> Option<ActionProfileId> {
        self.switch.program()?.table_info(table)?.action_profile
    }
}
