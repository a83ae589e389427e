//! What clients store with their entities and the data plane knows nothing of.
//!
//! Changed only on the switch's thread, together with the entity it belongs to.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use dataplane::{MatchField, ShardedMap, TableId};
use serde::{Deserialize, Serialize};

/// What identifies a table entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EntryKey {
    /// Its table.
    pub table: TableId,
    /// One match a key field, in the key's order.
    pub key: Vec<MatchField>,
    /// 0 where the table has no priorities.
    pub priority: i32,
}

/// What a client stores with an entity and reads back. Its protocol says what it means; one that is all
/// zero takes no room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// P4Runtime's `metadata`.
    pub bytes: Vec<u8>,
    /// A cookie, or how the client wrote the entity.
    pub number: u64,
    /// How the client wrote it, where there are more ways than one and a cookie too.
    pub form: u32,
}

/// Digests of which a client is told, by name, and how. Each worker has its own, all the same.
pub(crate) type Digests = BTreeMap<String, Note>;

/// Notes of table entries, default actions, groups and sessions.
#[derive(Default)]
pub struct Notes {
    entries: ShardedMap<EntryKey, Note>,
    default_actions: HashMap<TableId, Note>,
    groups: HashMap<u32, Note>,
    sessions: HashMap<u32, Note>,
}

impl Notes {
    /// A table entry's.
    pub fn entry(&self, key: &EntryKey) -> Note {
        self.entries.get(key).cloned().unwrap_or_default()
    }

    /// A table's default action's.
    pub fn default_action(&self, table: TableId) -> Note {
        of(&self.default_actions, table)
    }

    /// A multicast group's.
    pub fn group(&self, id: u32) -> Note {
        of(&self.groups, id)
    }

    /// A clone session's.
    pub fn session(&self, id: u32) -> Note {
        of(&self.sessions, id)
    }

    pub(crate) fn set_entry(&mut self, key: EntryKey, note: Note) {
        if note == Note::default() {
            self.entries.remove(&key);
        } else {
            self.entries.insert(key, note);
        }
    }

    pub(crate) fn remove_entry(&mut self, key: &EntryKey) {
        self.entries.remove(key);
    }

    pub(crate) fn set_default_action(&mut self, table: TableId, note: Note) {
        set(&mut self.default_actions, table, note);
    }

    pub(crate) fn set_group(&mut self, id: u32, note: Note) {
        set(&mut self.groups, id, note);
    }

    pub(crate) fn set_session(&mut self, id: u32, note: Note) {
        set(&mut self.sessions, id, note);
    }
}

fn of<K: Eq + Hash>(map: &HashMap<K, Note>, key: K) -> Note {
    map.get(&key).cloned().unwrap_or_default()
}

/// Default values take no room.
fn set<K: Eq + Hash>(map: &mut HashMap<K, Note>, key: K, note: Note) {
    if note == Note::default() {
        map.remove(&key);
    } else {
        map.insert(key, note);
    }
}
