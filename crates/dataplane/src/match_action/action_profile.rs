//! Action profiles and selectors: members that entries share, groups of which a hash chooses one.
//!
//! The choice is BMv2's: the hash of the selector's fields modulo the group's size (the sum of its
//! weights), counted along the members by their handle. A handle is the lowest number that was
//! free when the member was made, so it is the order of making as long as none was deleted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::Call;
use crate::{ControlError, ControlErrorKind, Controlled, ProfileGroup, invalid, refuse};

/// Number of a member inside; free numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberHandle(usize);

/// What an entry or a default action runs.
#[derive(Debug, Clone)]
pub enum EntryAction {
    /// An action.
    Call(Call),
    /// A member of the table's action profile.
    Member(MemberHandle),
    /// A group of the table's action selector.
    Group(u32),
    /// A group that belongs to this entry alone.
    OneShot(Arc<Choices<Call>>),
}

/// Things with weights, one of which a number chooses.
#[derive(Debug, Clone)]
pub struct Choices<T> {
    /// The sum of the weights up to each.
    items: Vec<(u64, T)>,
}

impl<T> Choices<T> {
    pub(crate) fn new(items: impl IntoIterator<Item = (u32, T)>) -> Self {
        let mut sum = 0;
        let items = items.into_iter().map(|(weight, item)| {
            sum += u64::from(weight);
            (sum, item)
        });
        Self {
            items: items.collect(),
        }
    }

    /// None where there is nothing to choose from.
    pub(crate) fn choose(&self, number: u64) -> Option<&T> {
        let (total, _) = self.items.last()?;
        let chosen = number % total;
        let position = self.items.partition_point(|(sum, _)| *sum <= chosen);
        self.items.get(position).map(|(_, item)| item)
    }

    /// Each with its own weight.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let before = [0]
            .into_iter()
            .chain(self.items.iter().map(|(sum, _)| *sum));
        self.items.iter().zip(before).map(|((sum, item), before)| {
            let weight = u32::try_from(sum - before).expect("a weight has 32 bits");
            (weight, item)
        })
    }
}

#[derive(Debug)]
struct Member {
    id: u32,
    call: Call,
    /// Entries and groups that name it.
    uses: usize,
}

#[derive(Debug)]
struct Group {
    /// Weight by member.
    members: BTreeMap<MemberHandle, u32>,
    choices: Choices<MemberHandle>,
    max_size: u32,
    /// Entries that name it.
    uses: usize,
}

/// The members and groups of an action profile.
#[derive(Debug)]
pub(crate) struct Profile {
    /// As messages name it.
    what: String,
    max_size: usize,
    members: Vec<Option<Member>>,
    handles: HashMap<u32, MemberHandle>,
    groups: BTreeMap<u32, Group>,
}

impl Profile {
    pub(crate) fn new(name: &str, max_size: usize) -> Self {
        Self {
            what: format!("action profile \"{name}\""),
            max_size,
            members: Vec::new(),
            handles: HashMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// What an entry's action comes down to for a packet; none of an empty group.
    pub(crate) fn resolve(&self, action: &EntryAction, hash: impl FnOnce() -> u64) -> Option<Call> {
        match action {
            EntryAction::Call(call) => Some(call.clone()),
            EntryAction::OneShot(choices) => choices.choose(hash()).cloned(),
            EntryAction::Member(handle) => self.call_of(*handle),
            EntryAction::Group(id) => {
                let handle = self.groups.get(id)?.choices.choose(hash())?;
                self.call_of(*handle)
            }
        }
    }

    fn member(&self, handle: MemberHandle) -> Option<&Member> {
        self.members.get(handle.0)?.as_ref()
    }

    fn call_of(&self, handle: MemberHandle) -> Option<Call> {
        self.member(handle).map(|member| member.call.clone())
    }

    pub(crate) fn id_of(&self, handle: MemberHandle) -> Option<u32> {
        self.member(handle).map(|member| member.id)
    }

    /// The handle of a member's id.
    pub(crate) fn handle(&self, id: u32) -> Controlled<MemberHandle> {
        let handle = self.handles.get(&id).copied();
        handle.ok_or_else(|| self.without("member", id))
    }

    pub(crate) fn check_group(&self, id: u32) -> Controlled {
        self.group(id).map(|_| ())
    }

    fn group(&self, id: u32) -> Controlled<&Group> {
        let group = self.groups.get(&id);
        group.ok_or_else(|| self.without("group", id))
    }

    fn without(&self, kind: &str, id: u32) -> ControlError {
        let message = format!("{} has no {kind} {id}", self.what);
        ControlError::new(ControlErrorKind::NotFound, message)
    }

    fn add_uses(&mut self, handle: MemberHandle, change: isize) {
        if let Some(Some(member)) = self.members.get_mut(handle.0) {
            member.uses = member.uses.saturating_add_signed(change);
        }
    }

    /// An entry begins (1) or ends (-1) to name what it runs.
    pub(crate) fn count_use(&mut self, action: &EntryAction, change: isize) {
        match action {
            EntryAction::Call(_) | EntryAction::OneShot(_) => {}
            EntryAction::Member(handle) => self.add_uses(*handle, change),
            EntryAction::Group(id) => {
                if let Some(group) = self.groups.get_mut(id) {
                    group.uses = group.uses.saturating_add_signed(change);
                }
            }
        }
    }

    pub(crate) fn insert_member(&mut self, id: u32, call: Call) -> Controlled {
        if self.handles.contains_key(&id) {
            let message = format!("{} has a member {id} already", self.what);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        if self.handles.len() >= self.max_size {
            let message = format!("{} is full, its size is {}", self.what, self.max_size);
            return refuse(ControlErrorKind::ResourceExhausted, message);
        }
        let free = self.members.iter().position(Option::is_none);
        let handle = free.unwrap_or(self.members.len());
        let member = Some(Member { id, call, uses: 0 });
        match self.members.get_mut(handle) {
            Some(slot) => *slot = member,
            None => self.members.push(member),
        }
        self.handles.insert(id, MemberHandle(handle));
        Ok(())
    }

    pub(crate) fn modify_member(&mut self, id: u32, call: Call) -> Controlled {
        let handle = self.handle(id)?;
        if let Some(Some(member)) = self.members.get_mut(handle.0) {
            member.call = call;
        }
        Ok(())
    }

    pub(crate) fn delete_member(&mut self, id: u32) -> Controlled {
        let handle = self.handle(id)?;
        let uses = self.member(handle).map_or(0, |member| member.uses);
        if uses > 0 {
            let found = format!("member {id} is used by {uses} entries or groups");
            let message = format!("{}: {found}", self.what);
            return refuse(ControlErrorKind::FailedPrecondition, message);
        }
        self.handles.remove(&id);
        if let Some(slot) = self.members.get_mut(handle.0) {
            *slot = None;
        }
        Ok(())
    }

    /// Every member by its handle: id and action.
    pub(crate) fn members(&self) -> impl Iterator<Item = (u32, &Call)> {
        let members = self.members.iter().flatten();
        members.map(|member| (member.id, &member.call))
    }

    /// The members of a group by their handles; each once, with a weight above 0.
    fn weights(&self, group: &ProfileGroup) -> Controlled<BTreeMap<MemberHandle, u32>> {
        let what = || format!("{}: group {}", self.what, group.id);
        let mut weights = BTreeMap::new();
        for (member, weight) in &group.members {
            if *weight == 0 {
                return invalid(format!("{}: member {member} has the weight 0", what()));
            }
            if weights.insert(self.handle(*member)?, *weight).is_some() {
                return invalid(format!("{}: member {member} is named twice", what()));
            }
        }
        let total: u64 = weights.values().map(|weight| u64::from(*weight)).sum();
        let size = group.max_size;
        if size > 0 && total > u64::from(size) {
            let message = format!("{}: weights of {total}, its size is {size}", what());
            return refuse(ControlErrorKind::ResourceExhausted, message);
        }
        Ok(weights)
    }

    pub(crate) fn insert_group(&mut self, group: &ProfileGroup) -> Controlled {
        if self.groups.contains_key(&group.id) {
            let message = format!("{} has a group {} already", self.what, group.id);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        let members = self.weights(group)?;
        self.put_group(group, members, 0);
        Ok(())
    }

    pub(crate) fn modify_group(&mut self, group: &ProfileGroup) -> Controlled {
        self.check_group(group.id)?;
        let members = self.weights(group)?;
        let uses = self.take_group(group.id);
        self.put_group(group, members, uses);
        Ok(())
    }

    pub(crate) fn delete_group(&mut self, id: u32) -> Controlled {
        let uses = self.group(id)?.uses;
        if uses > 0 {
            let message = format!("{}: group {id} is used by {uses} entries", self.what);
            return refuse(ControlErrorKind::FailedPrecondition, message);
        }
        self.take_group(id);
        Ok(())
    }

    fn put_group(
        &mut self,
        written: &ProfileGroup,
        members: BTreeMap<MemberHandle, u32>,
        uses: usize,
    ) {
        for handle in members.keys() {
            self.add_uses(*handle, 1);
        }
        let choices = Choices::new(members.iter().map(|(handle, weight)| (*weight, *handle)));
        let group = Group {
            members,
            choices,
            max_size: written.max_size,
            uses,
        };
        self.groups.insert(written.id, group);
    }

    /// Takes a group away and says how many entries name it.
    fn take_group(&mut self, id: u32) -> usize {
        let Some(group) = self.groups.remove(&id) else {
            return 0;
        };
        for handle in group.members.keys() {
            self.add_uses(*handle, -1);
        }
        group.uses
    }

    /// Every group by its id: id, size, and the members' ids with their weights.
    pub(crate) fn groups(&self) -> impl Iterator<Item = ProfileGroup> {
        self.groups.iter().map(|(id, group)| {
            let members = group.members.iter();
            let members =
                members.filter_map(|(handle, weight)| Some((self.id_of(*handle)?, *weight)));
            ProfileGroup {
                id: *id,
                max_size: group.max_size,
                members: members.collect(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_share_of_the_numbers() {
        let choices = Choices::new([(1, 'a'), (3, 'b'), (1, 'c')]);
        let chosen: String = (0..7).filter_map(|number| choices.choose(number)).collect();
        assert_eq!(chosen, "abbbcab");
        let weights: Vec<(u32, &char)> = choices.iter().collect();
        assert_eq!(weights, [(1, &'a'), (3, &'b'), (1, &'c')]);
        assert_eq!(Choices::<char>::new([]).choose(3), None);
    }
}
