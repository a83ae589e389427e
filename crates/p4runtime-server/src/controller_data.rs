//! What controllers store with their entities and the data plane knows nothing of.
//!
//! Changed only on the switch's thread, together with the entity it belongs to.

use std::collections::HashMap;

use dataplane::{MatchField, ShardedMap, TableId};

/// Opaque values of table entries, groups and sessions.
#[derive(Default)]
pub(crate) struct ControllerData {
    entries: ShardedMap<EntryKey, EntryMetadata>,
    default_entries: HashMap<TableId, EntryMetadata>,
    groups: HashMap<u32, GroupData>,
    sessions: HashMap<u32, PortForm>,
}

/// What identifies a table entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EntryKey {
    pub(crate) table: TableId,
    pub(crate) key: Vec<MatchField>,
    pub(crate) priority: i32,
}

/// The opaque fields of a table entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EntryMetadata {
    pub(crate) metadata: Vec<u8>,
    pub(crate) controller_metadata: u64,
}

/// The opaque fields of a multicast group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupData {
    pub(crate) metadata: Vec<u8>,
    pub(crate) ports: PortForm,
}

/// How a controller wrote the ports of replicas; they are read back in the same form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PortForm {
    /// `port`, a byte string.
    #[default]
    Bytes,
    /// `egress_port`, a number; deprecated since P4Runtime 1.4.0.
    Number,
}

impl ControllerData {
    pub(crate) fn entry(&self, key: &EntryKey) -> EntryMetadata {
        self.entries.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn set_entry(&mut self, key: EntryKey, metadata: EntryMetadata) {
        if metadata == EntryMetadata::default() {
            self.entries.remove(&key);
        } else {
            self.entries.insert(key, metadata);
        }
    }

    pub(crate) fn remove_entry(&mut self, key: &EntryKey) {
        self.entries.remove(key);
    }

    pub(crate) fn default_entry(&self, table: TableId) -> EntryMetadata {
        self.default_entries
            .get(&table)
            .cloned()
            .unwrap_or_default()
    }

    pub(crate) fn set_default_entry(&mut self, table: TableId, metadata: EntryMetadata) {
        set(&mut self.default_entries, table, metadata);
    }

    pub(crate) fn group(&self, id: u32) -> GroupData {
        self.groups.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn set_group(&mut self, id: u32, data: GroupData) {
        set(&mut self.groups, id, data);
    }

    pub(crate) fn session(&self, id: u32) -> PortForm {
        self.sessions.get(&id).copied().unwrap_or_default()
    }

    pub(crate) fn set_session(&mut self, id: u32, ports: PortForm) {
        set(&mut self.sessions, id, ports);
    }
}

/// Default values take no room.
fn set<K: Eq + std::hash::Hash, V: Default + PartialEq>(map: &mut HashMap<K, V>, key: K, value: V) {
    if value == V::default() {
        map.remove(&key);
    } else {
        map.insert(key, value);
    }
}
