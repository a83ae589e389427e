//! Parser value sets: the control plane says which values a `select` case stands for.

use crate::{MatchField, ValueSetId, program::ir::ValueSet, value::Int};

/// A member: the parts of the key one after the other, and the bits of them that count.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub value: Int,
    pub mask: Int,
    /// As the control plane wrote it.
    pub fields: Vec<MatchField>,
}

/// The members of every value set of a program.
#[derive(Debug)]
pub(crate) struct ValueSets {
    sets: Vec<Vec<Member>>,
}

impl ValueSets {
    pub(crate) fn new(declared: &[ValueSet]) -> Self {
        Self {
            sets: vec![Vec::new(); declared.len()],
        }
    }

    /// Whether a key is in a set; only the bits of `mask`, if there is one, are looked at.
    pub(crate) fn contains(&self, set: ValueSetId, key: &Int, mask: Option<&Int>) -> bool {
        self.members(set).iter().any(|member| match mask {
            Some(mask) => key & &member.mask & mask == &member.value & mask,
            None => key & &member.mask == member.value,
        })
    }

    pub(crate) fn members(&self, set: ValueSetId) -> &[Member] {
        self.sets.get(set.index()).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn replace(&mut self, set: ValueSetId, members: Vec<Member>) {
        if let Some(set) = self.sets.get_mut(set.index()) {
            *set = members;
        }
    }
}
