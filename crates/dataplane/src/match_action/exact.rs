//! Exact lookup: one hash of all key fields, each padded to whole bytes.

use super::EntryIndex;
use crate::{
    ShardedMap,
    program::{TableInfo, ir::Matcher},
    value::{self, Int},
};

/// Entries by their key's bytes.
#[derive(Debug, Default)]
pub(super) struct ExactIndex {
    entries: ShardedMap<Box<[u8]>, EntryIndex>,
}

impl ExactIndex {
    pub(super) fn lookup(
        &self,
        info: &TableInfo,
        key: &[Int],
        bytes: &mut Vec<u8>,
    ) -> Option<EntryIndex> {
        bytes.clear();
        for (field, value) in info.key.iter().zip(key) {
            value::push_be_bytes(bytes, value, field.width_bits);
        }
        self.entries.get(bytes.as_slice()).copied()
    }

    pub(super) fn insert(&mut self, info: &TableInfo, key: &[Matcher], entry: EntryIndex) {
        self.entries.insert(key_bytes(info, key), entry);
    }

    pub(super) fn remove(&mut self, info: &TableInfo, key: &[Matcher]) {
        self.entries.remove(&key_bytes(info, key));
    }
}

fn key_bytes(info: &TableInfo, key: &[Matcher]) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for (field, matcher) in info.key.iter().zip(key) {
        if let Matcher::Exact(value) = matcher {
            value::push_be_bytes(&mut bytes, value, field.width_bits);
        }
    }
    bytes.into()
}
