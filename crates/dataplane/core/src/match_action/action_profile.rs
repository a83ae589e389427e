//! Action profiles and selectors: members that entries share, and groups from which a hash selects a member.
//!
//! A member is selected as in BMv2. The hash of the selector's fields modulo the group's size (the sum of its members'
//! weights) gives a position; the members take positions in the order of their handles (internal numbers), and each
//! member takes as many positions as its weight. A new member gets the lowest free handle, so handles are in order of
//! creation until a member is deleted. A member that watches a port is left out of the size and the order while this
//! port is down, because BMv2's P4Runtime server removes such a member from the group. A group whose members are all
//! left out behaves like an empty group.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::Call;
use crate::{
    ControlError, ControlErrorKind, Controlled, PortId, ProfileGroup, invalid, model::PortSet,
    refuse,
};

/// Internal number of a member; free numbers are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberHandle(usize);

/// What an entry or a default action runs.
#[derive(Debug, Clone)]
pub enum EntryAction {
    /// An action with arguments.
    Call(Call),
    /// A member of the table's action profile.
    Member(MemberHandle),
    /// A group of the table's action selector.
    Group(u32),
    /// A group that belongs to this entry alone.
    OneShot(Arc<Choices<Call>>),
}

/// Weighted items, one of which a number selects.
#[derive(Debug, Clone)]
pub struct Choices<T> {
    /// Each item with the sum of the weights up to and including its own.
    items: Vec<(u64, T)>,
    /// The port that each item watches; empty if no item watches a port.
    watches: Vec<Option<PortId>>,
}

impl<T> Choices<T> {
    pub(crate) fn new(items: impl IntoIterator<Item = (u32, Option<PortId>, T)>) -> Self {
        let (mut sum, mut watches) = (0, Vec::new());
        let items = items.into_iter().map(|(weight, watch, item)| {
            sum += u64::from(weight);
            watches.push(watch);
            (sum, item)
        });
        let items = items.collect();
        if watches.iter().all(Option::is_none) {
            watches.clear();
        }
        Self { items, watches }
    }

    /// Selects an item; `None` if no item can be selected. Takes linear time if items watch ports and some port is
    /// down.
    pub(crate) fn choose(&self, number: u64, down: &PortSet) -> Option<&T> {
        if !self.watches.is_empty() && !down.is_empty() {
            return self.choose_up(number, down);
        }
        let (total, _) = self.items.last()?;
        let chosen = number % total;
        let position = self.items.partition_point(|(sum, _)| *sum <= chosen);
        self.items.get(position).map(|(_, item)| item)
    }

    fn choose_up(&self, number: u64, down: &PortSet) -> Option<&T> {
        let is_up = |watch: Option<PortId>| watch.is_none_or(|port| !down.contains(port));
        let up = || self.iter().filter(|(_, watch, _)| is_up(*watch));
        let total: u64 = up().map(|(weight, ..)| u64::from(weight)).sum();
        let mut left = number.checked_rem(total)?;
        let mut up = up();
        let chosen = up.find(|(weight, ..)| {
            let is_it = left < u64::from(*weight);
            left = left.saturating_sub(u64::from(*weight));
            is_it
        });
        chosen.map(|(_, _, item)| item)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Option<PortId>, &T)> {
        let before = [0]
            .into_iter()
            .chain(self.items.iter().map(|(sum, _)| *sum));
        let watches = self.watches.iter().copied().chain(std::iter::repeat(None));
        let items = self.items.iter().zip(before).zip(watches);
        items.map(|(((sum, item), before), watch)| {
            let weight = u32::try_from(sum - before).expect("a weight has 32 bits");
            (weight, watch, item)
        })
    }
}

#[derive(Debug, Clone)]
struct Member {
    id: u32,
    call: Call,
    /// Number of entries and groups that refer to the member.
    uses: usize,
}

/// A group's members by handle, with weight and watched port.
type GroupMembers = BTreeMap<MemberHandle, (u32, Option<PortId>)>;

#[derive(Debug, Clone)]
struct Group {
    choices: Choices<MemberHandle>,
    max_size: u32,
    counts_members: bool,
    /// Number of entries that refer to the group.
    uses: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Profile {
    what: String,
    max_size: usize,
    members: Vec<Option<Member>>,
    handles: HashMap<u32, MemberHandle>,
    groups: BTreeMap<u32, Group>,
    /// Number of entries with a one-shot group.
    n_one_shots: usize,
    /// The switch's ports that are down.
    pub down: PortSet,
}

impl Profile {
    pub(crate) fn new(name: &str, max_size: usize) -> Self {
        Self {
            what: format!("action profile \"{name}\""),
            max_size,
            members: Vec::new(),
            handles: HashMap::new(),
            groups: BTreeMap::new(),
            n_one_shots: 0,
            down: PortSet::default(),
        }
    }

    /// Resolves an entry's action to the call that runs; `None` for an empty group.
    pub(crate) fn resolve(&self, action: &EntryAction, hash: impl FnOnce() -> u64) -> Option<Call> {
        match action {
            EntryAction::Call(call) => Some(call.clone()),
            EntryAction::OneShot(choices) => choices.choose(hash(), &self.down).cloned(),
            EntryAction::Member(handle) => self.call_of(*handle),
            EntryAction::Group(id) => {
                let handle = self.groups.get(id)?.choices.choose(hash(), &self.down)?;
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

    /// Adds `change` (1 or -1) to the count of uses of the member or group that this action names. For a one-shot
    /// group, adds `change` to the number of entries with a one-shot group.
    pub(crate) fn count_use(&mut self, action: &EntryAction, change: isize) {
        match action {
            EntryAction::Call(_) => {}
            EntryAction::OneShot(_) => {
                self.n_one_shots = self.n_one_shots.saturating_add_signed(change);
            }
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

    /// Returns the id and the call of every member, in the order of handles.
    pub(crate) fn members(&self) -> impl Iterator<Item = (u32, &Call)> {
        let members = self.members.iter().flatten();
        members.map(|member| (member.id, &member.call))
    }

    pub(crate) fn has_members(&self) -> bool {
        !self.handles.is_empty() || !self.groups.is_empty()
    }

    pub(crate) fn n_one_shots(&self) -> usize {
        self.n_one_shots
    }

    /// Checks that each member of a group is listed once, with a weight above 0; returns the members by handle.
    fn group_members(&self, group: &ProfileGroup) -> Controlled<GroupMembers> {
        let what = || format!("{}: group {}", self.what, group.id);
        let mut members = BTreeMap::new();
        for (member, weight) in &group.members {
            if *weight == 0 {
                return invalid(format!("{}: member {member} has the weight 0", what()));
            }
            let place = self.handle(*member)?;
            if members.insert(place, (*weight, None)).is_some() {
                return invalid(format!("{}: member {member} is named twice", what()));
            }
        }
        for (member, port) in &group.watched {
            match members.get_mut(&self.handle(*member)?) {
                Some((_, watch)) => *watch = Some(*port),
                None => {
                    let found = format!("member {member} watches a port but is not in the group");
                    return invalid(format!("{}: {found}", what()));
                }
            }
        }
        let weights = members.values().map(|(weight, _)| u64::from(*weight));
        let (total, of) = if group.counts_members {
            (members.len() as u64, "the number of members")
        } else {
            (weights.sum(), "the sum of weights")
        };
        let size = group.max_size;
        if size > 0 && total > u64::from(size) {
            let found = format!("{of} is {total}, but the group's max_size is {size}");
            let message = format!("{}: {found}", what());
            return refuse(ControlErrorKind::ResourceExhausted, message);
        }
        Ok(members)
    }

    pub(crate) fn insert_group(&mut self, group: &ProfileGroup) -> Controlled {
        if self.groups.contains_key(&group.id) {
            let message = format!("{} has a group {} already", self.what, group.id);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        let members = self.group_members(group)?;
        self.put_group(group, members, 0);
        Ok(())
    }

    pub(crate) fn modify_group(&mut self, group: &ProfileGroup) -> Controlled {
        let max_size = self.group(group.id)?.max_size;
        if max_size != group.max_size {
            let found = format!(
                "its max_size is {max_size}, and cannot become {}",
                group.max_size
            );
            return invalid(format!("{}: group {}: {found}", self.what, group.id));
        }
        let members = self.group_members(group)?;
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

    fn put_group(&mut self, group: &ProfileGroup, members: GroupMembers, uses: usize) {
        for handle in members.keys() {
            self.add_uses(*handle, 1);
        }
        let members = members.into_iter();
        let members = members.map(|(handle, (weight, watch))| (weight, watch, handle));
        let made = Group {
            choices: Choices::new(members),
            max_size: group.max_size,
            counts_members: group.counts_members,
            uses,
        };
        self.groups.insert(group.id, made);
    }

    /// Removes a group; returns how many entries refer to it.
    fn take_group(&mut self, id: u32) -> usize {
        let Some(group) = self.groups.remove(&id) else {
            return 0;
        };
        for (_, _, handle) in group.choices.iter() {
            self.add_uses(*handle, -1);
        }
        group.uses
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = ProfileGroup> {
        self.groups.iter().map(|(id, group)| {
            let (mut members, mut watched) = (Vec::new(), Vec::new());
            for (weight, watch, handle) in group.choices.iter() {
                let Some(member) = self.id_of(*handle) else {
                    continue;
                };
                members.push((member, weight));
                watched.extend(watch.map(|port| (member, port)));
            }
            ProfileGroup {
                id: *id,
                max_size: group.max_size,
                counts_members: group.counts_members,
                members,
                watched,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_share_of_the_numbers() {
        let choices = Choices::new([(1, None, 'a'), (3, None, 'b'), (1, None, 'c')]);
        let up = PortSet::default();
        let choose = |number| choices.choose(number, &up);
        let chosen: String = (0..7).filter_map(choose).collect();
        assert_eq!(chosen, "abbbcab");
        let weights: Vec<_> = choices.iter().collect();
        assert_eq!(weights, [(1, None, &'a'), (3, None, &'b'), (1, None, &'c')]);
        assert_eq!(Choices::<char>::new([]).choose(3, &up), None);
    }

    #[test]
    fn who_watches_a_port_that_is_down_is_left_out() {
        let ports = [PortId(1), PortId(2)].map(Some);
        let choices = Choices::new([(1, ports[0], 'a'), (3, ports[1], 'b'), (1, None, 'c')]);
        let chosen = |down: &[u16]| -> String {
            let mut set = PortSet::default();
            for port in down {
                set.set(PortId(*port), true);
            }
            (0..5)
                .filter_map(|number| choices.choose(number, &set))
                .collect()
        };
        assert_eq!(chosen(&[]), "abbbc");
        assert_eq!(chosen(&[1]), "bbbcb");
        assert_eq!(chosen(&[2, 7]), "acaca");
        assert_eq!(chosen(&[1, 2]), "ccccc");
        let all = Choices::new([(1, ports[0], 'a')]);
        let mut down = PortSet::default();
        down.set(PortId(1), true);
        assert_eq!(all.choose(0, &down), None);
    }
}
