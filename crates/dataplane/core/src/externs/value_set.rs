//! Parser value sets: the values of a `select` case that the control plane sets.

use crate::{MatchField, ValueSetId, program::ir::ValueSet, value::Int};

/// A member: value and mask of the concatenated key parts.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub value: Int,
    pub mask: Int,
    /// The member as the control plane wrote it.
    pub fields: Vec<MatchField>,
}

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

    /// Whether a key is in a set. With a `mask`, only the bits that are set in `mask` are compared.
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
