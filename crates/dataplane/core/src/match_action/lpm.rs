//! Exact and longest prefix match: one hash map per prefix length, the longest first. At most one
//! field of the key is a prefix, and all others are exact. A table without a prefix field has one
//! hash map.

use std::{cmp::Reverse, collections::BTreeMap};

use super::EntryIndex;
use crate::{
    ShardedMap,
    program::{MatchKind, TableInfo, ir::Matcher},
    value::{self, Int},
};

/// Entries by prefix length, then by key bytes with zeros after the prefix.
#[derive(Debug, Default)]
pub(super) struct LpmIndex {
    by_length: BTreeMap<Reverse<u32>, ShardedMap<Box<[u8]>, EntryIndex>>,
}

impl LpmIndex {
    pub(super) fn lookup(
        &self,
        info: &TableInfo,
        key: &[Int],
        bytes: &mut Vec<u8>,
    ) -> Option<EntryIndex> {
        let mut lengths = self.by_length.iter();
        lengths.find_map(|(Reverse(prefix_len), entries)| {
            bytes.clear();
            for (field, value) in info.key.iter().zip(key) {
                if field.kind == MatchKind::Lpm {
                    let prefix = value & value::prefix_mask(field.width_bits, *prefix_len);
                    value::push_be_bytes(bytes, &prefix, field.width_bits);
                } else {
                    value::push_be_bytes(bytes, value, field.width_bits);
                }
            }
            entries.get(bytes.as_slice()).copied()
        })
    }

    pub(super) fn insert(&mut self, info: &TableInfo, key: &[Matcher], entry: EntryIndex) {
        let (prefix_len, bytes) = key_bytes(info, key);
        let entries = self.by_length.entry(Reverse(prefix_len)).or_default();
        entries.insert(bytes, entry);
    }

    pub(super) fn remove(&mut self, info: &TableInfo, key: &[Matcher]) {
        let (prefix_len, bytes) = key_bytes(info, key);
        if let Some(entries) = self.by_length.get_mut(&Reverse(prefix_len)) {
            entries.remove(&bytes);
            if entries.is_empty() {
                self.by_length.remove(&Reverse(prefix_len));
            }
        }
    }
}

fn key_bytes(info: &TableInfo, key: &[Matcher]) -> (u32, Box<[u8]>) {
    let mut length = 0;
    let mut bytes = Vec::new();
    for (field, matcher) in info.key.iter().zip(key) {
        if let Matcher::Lpm { prefix_len, .. } = matcher {
            length = *prefix_len;
        }
        if let Matcher::Exact(value) | Matcher::Lpm { value, .. } = matcher {
            value::push_be_bytes(&mut bytes, value, field.width_bits);
        }
    }
    (length, bytes.into())
}
