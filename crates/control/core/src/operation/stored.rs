//! The operations that a store keeps for an entity. A switch with a new pipeline executes these operations, and then
//! has the entity in its stored state. Mostly the store keeps a single insert. For an entity that the program itself
//! declares, the store keeps a change or a deletion.

use dataplane::{ActionProfileId, MeterId, RegisterId, TableId, ValueSetId};
use serde::Serialize;

use super::{Identified, Operation, Update};
use crate::client_data::EntryKey;

/// The entity of an operation. The order of the variants is an order in which a switch accepts the entities: an entity
/// comes after the entities to which it refers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum EntityKey {
    /// The parameters of the CRC calculation with this name.
    Crc(String),
    /// A parser value set.
    ValueSet(ValueSetId),
    /// A member of an action profile.
    Member(ActionProfileId, u32),
    /// A group of an action profile.
    ProfileGroup(ActionProfileId, u32),
    /// The multicast group with this id.
    MulticastGroup(u32),
    /// The clone session with this id.
    CloneSession(u32),
    /// A subscription to the digests with this name.
    Digest(String),
    /// A table's default action.
    DefaultAction(TableId),
    /// A table's entry.
    Entry(EntryKey),
    /// A meter array.
    Meter(MeterId),
    /// A register array.
    Register(RegisterId),
    /// A packet generator. Generators belong to the switch and outlive pipelines.
    Generator(u32),
}

/// The effect of an operation on the stored operations of its entity.
#[derive(Debug, PartialEq, Eq)]
pub enum Stored {
    /// This operation replaces the stored operations.
    Replaced(EntityKey, Box<Operation>),
    /// The stored operations are removed.
    Removed(EntityKey),
    /// The stored operations are combined with this operation ([`Operation::combined`]).
    Combined(EntityKey),
    /// Cells of an array are written ([`Operation::Cells`]).
    Cells,
    /// The store changes nothing.
    Unchanged,
}

impl Stored {
    pub(super) fn replaced(entity: EntityKey, operation: Operation) -> Self {
        Self::Replaced(entity, Box::new(operation))
    }

    /// Returns the effect of an update: an insert of the new entity replaces the stored operations, and a deletion
    /// removes them.
    pub(super) fn of_update<T: Identified + Clone>(
        update: &Update<T>,
        entity: EntityKey,
        insert: impl FnOnce(Update<T>) -> Operation,
    ) -> Self {
        match update.value() {
            Some(value) => Self::replaced(entity, insert(Update::Insert(value.clone()))),
            None => Self::Removed(entity),
        }
    }
}
