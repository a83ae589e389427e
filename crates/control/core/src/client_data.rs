//! Data that clients store with their entities, such as P4Runtime's metadata. The data plane does not know this data.
//!
//! An entity's client data changes only on the switch's thread, together with the entity.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use dataplane::{MatchField, ShardedMap, TableId};
use serde::{Deserialize, Serialize};

/// The key by which clients address a table entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EntryKey {
    /// The table of the program that has the entry.
    pub table: TableId,
    /// One match for each key field, in the order of the table's key.
    pub key: Vec<MatchField>,
    /// The entry's priority; 0 if the table has no priorities.
    pub priority: i32,
}

/// Client data of one entity, returned by reads. The client's protocol defines its meaning; the default value is not
/// stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientData {
    /// P4Runtime's `metadata`.
    pub bytes: Vec<u8>,
    /// A number that the client stores (P4Runtime's `controller_metadata`). In an entity that has no
    /// `controller_metadata`, such as a multicast group, this number may say in which form the client wrote the entity,
    /// as `form` does in other entities.
    pub number: u64,
    /// The form in which the client wrote the entity, as a number that the client's protocol defines: for example,
    /// whether the client used deprecated fields or the fields that replace them. A read returns the entity in the same
    /// form.
    pub form: u32,
}

/// The digests to which a client has subscribed. Maps each digest's name to the settings of its subscription. Each
/// worker has an equal copy of this map.
pub(crate) type Digests = BTreeMap<String, ClientData>;

/// Client data of table entries, default actions, multicast groups and clone sessions. An entity without client data
/// has the default value.
#[derive(Default)]
pub struct ClientDataMap {
    entries: ShardedMap<EntryKey, ClientData>,
    default_actions: HashMap<TableId, ClientData>,
    groups: HashMap<u32, ClientData>,
    sessions: HashMap<u32, ClientData>,
}

impl ClientDataMap {
    /// Returns a table entry's data.
    pub fn entry(&self, key: &EntryKey) -> ClientData {
        self.entries.get(key).cloned().unwrap_or_default()
    }

    /// Returns the data of a table's default action.
    pub fn default_action(&self, table: TableId) -> ClientData {
        of(&self.default_actions, table)
    }

    /// Returns a multicast group's data.
    pub fn group(&self, id: u32) -> ClientData {
        of(&self.groups, id)
    }

    /// Returns a clone session's data.
    pub fn session(&self, id: u32) -> ClientData {
        of(&self.sessions, id)
    }

    pub(crate) fn set_entry(&mut self, key: EntryKey, client_data: ClientData) {
        if client_data == ClientData::default() {
            self.entries.remove(&key);
        } else {
            self.entries.insert(key, client_data);
        }
    }

    pub(crate) fn remove_entry(&mut self, key: &EntryKey) {
        self.entries.remove(key);
    }

    pub(crate) fn set_default_action(&mut self, table: TableId, client_data: ClientData) {
        set(&mut self.default_actions, table, client_data);
    }

    pub(crate) fn set_group(&mut self, id: u32, client_data: ClientData) {
        set(&mut self.groups, id, client_data);
    }

    pub(crate) fn set_session(&mut self, id: u32, client_data: ClientData) {
        set(&mut self.sessions, id, client_data);
    }
}

fn of<K: Eq + Hash>(map: &HashMap<K, ClientData>, key: K) -> ClientData {
    map.get(&key).cloned().unwrap_or_default()
}

/// Stores the data under the key. If the data is the default value, removes the key instead, which saves memory.
fn set<K: Eq + Hash>(map: &mut HashMap<K, ClientData>, key: K, client_data: ClientData) {
    if client_data == ClientData::default() {
        map.remove(&key);
    } else {
        map.insert(key, client_data);
    }
}
