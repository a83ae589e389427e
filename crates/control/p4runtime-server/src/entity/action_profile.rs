//! `ActionProfileMember`, `ActionProfileGroup`, and one-shot action sets of entries.
//!
//! Source: P4Runtime 1.5.0, "ActionProfileMember & ActionProfileGroup".

use control::{Operation, Update};
use dataplane::{PortId, ProfileGroup, ProfileMember, TableAction, WeightedCall};
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::action_profile_action::WatchKind as ActionWatch;
use p4runtime_proto::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use p4runtime_proto::p4::v1::action_profile_group::Member;
use p4runtime_proto::p4::v1::action_profile_group::member::WatchKind;
use p4runtime_proto::p4::v1::update::Type;

use super::replication::{port_number, port_to_proto};
use super::table_entry::{call, call_to_proto};
use super::{unset, update};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{GroupSize, Pipeline, Profile, Table};

pub(super) fn member_operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::ActionProfileMember,
) -> EntityResult<Operation> {
    let profile = pipeline.profile(entry.action_profile_id)?;
    let (id, name) = (entry.member_id, &profile.name);
    expect_id(
        id,
        &format!("action profile \"{name}\": expected a member id"),
    )?;
    if kind == Type::Delete {
        return Ok(Operation::Member(profile.profile, Update::Delete(id)));
    }
    let action = entry.action.as_ref().ok_or_else(|| unset("action"))?;
    let table = pipeline.table_of(profile)?;
    let action = call(table, action, Scope::TableOnly)?;
    let member = ProfileMember { id, action };
    Ok(Operation::Member(profile.profile, update(kind, member)))
}

pub(super) fn group_operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::ActionProfileGroup,
) -> EntityResult<Operation> {
    let profile = pipeline.profile(entry.action_profile_id)?;
    let (id, name) = (entry.group_id, &profile.name);
    if !profile.has_groups {
        return Err(EntityError::invalid(format!(
            "action profile \"{name}\" has no selector, so it has no groups"
        )));
    }
    expect_id(
        id,
        &format!("action profile \"{name}\": expected a group id"),
    )?;
    if kind == Type::Delete {
        return Ok(Operation::ProfileGroup(profile.profile, Update::Delete(id)));
    }
    let what = format!("action profile \"{name}\": group {id}");
    let mut group = ProfileGroup {
        id,
        max_size: max_size(profile, entry.max_size, &what)?,
        counts_members: profile.size != GroupSize::Weights,
        members: Vec::with_capacity(entry.members.len()),
        watched: Vec::new(),
    };
    for member in &entry.members {
        let what = format!("{what}: member {}", member.member_id);
        let weight = weight(profile, member.weight, &what)?;
        group.members.push((member.member_id, weight));
        let watch = watched_port(&what, member_watch(member.watch_kind.as_ref()))?;
        group
            .watched
            .extend(watch.map(|port| (member.member_id, port)));
    }
    Ok(Operation::ProfileGroup(
        profile.profile,
        update(kind, group),
    ))
}

fn expect_id(id: u32, expected: &str) -> EntityResult {
    match id {
        0 => Err(EntityError::invalid(format!("{expected}, found 0"))),
        _ => Ok(()),
    }
}

fn max_size(profile: &Profile, given: i32, what: &str) -> EntityResult<u32> {
    let max = profile.max_group_size;
    let size = u32::try_from(given).ok();
    let fits = |size: &u32| max == 0 || (1..=max).contains(size);
    size.filter(fits).ok_or_else(|| {
        let expected = match max {
            0 => "from 0".to_owned(),
            max => format!("of 1 to {max}"),
        };
        EntityError::invalid(format!(
            "{what}: expected a max_size {expected}, found {given}"
        ))
    })
}

/// Checks a weight. If weights are disallowed, each member has weight 1.
fn weight(profile: &Profile, given: i32, what: &str) -> EntityResult<u32> {
    let refuse = |expected: &str| {
        let message = format!("{what}: expected {expected}, found {given}");
        Err(EntityError::invalid(message))
    };
    if profile.weights_disallowed {
        return match given {
            0 => Ok(1),
            _ => refuse("no weight, since the program disallows weights"),
        };
    }
    match (u32::try_from(given), profile.size) {
        (Ok(1..), GroupSize::Members(max)) if max > 0 && given.unsigned_abs() > max => {
            refuse(&format!("a weight of {max} at most"))
        }
        (Ok(weight @ 1..), _) => Ok(weight),
        _ => refuse("a weight from 1"),
    }
}

fn weight_to_proto(profile: &Profile, weight: u32) -> i32 {
    if profile.weights_disallowed {
        0
    } else {
        i32::try_from(weight).unwrap_or(i32::MAX)
    }
}

enum Watch<'a> {
    Number(i32),
    Bytes(&'a [u8]),
}

#[expect(deprecated, reason = "controllers of before P4Runtime 1.3 write it")]
fn member_watch(watch: Option<&WatchKind>) -> Option<Watch<'_>> {
    watch.map(|watch| match watch {
        WatchKind::Watch(number) => Watch::Number(*number),
        WatchKind::WatchPort(bytes) => Watch::Bytes(bytes),
    })
}

#[expect(deprecated, reason = "controllers of before P4Runtime 1.3 write it")]
fn action_watch(watch: Option<&ActionWatch>) -> Option<Watch<'_>> {
    watch.map(|watch| match watch {
        ActionWatch::Watch(number) => Watch::Number(*number),
        ActionWatch::WatchPort(bytes) => Watch::Bytes(bytes),
    })
}

/// The watched port; `None` if `watch_port` is empty or the deprecated field `watch` is 0, its default.
fn watched_port(what: &str, watch: Option<Watch<'_>>) -> EntityResult<Option<PortId>> {
    let what = format!("{what}: watch_port");
    match watch {
        None | Some(Watch::Number(0) | Watch::Bytes([])) => Ok(None),
        Some(Watch::Bytes(bytes)) => port_number(bytes, &what).map(Some),
        Some(Watch::Number(number)) => port_number(&number.to_be_bytes(), &what).map(Some),
    }
}

/// Checks a one-shot action set. The entry's client data keeps how the controller wrote selection mode and size
/// semantics ([`form`]).
pub(super) fn one_shot(
    pipeline: &Pipeline,
    table: &Table,
    set: &v1::ActionProfileActionSet,
) -> EntityResult<TableAction> {
    let what = format!("table \"{}\"", table.name);
    let profile = pipeline.profile_of(table).filter(|it| it.has_groups);
    let profile = profile.ok_or_else(|| {
        EntityError::invalid(format!(
            "{what} has no action selector, so its entries have no groups"
        ))
    })?;
    expect_modes(profile, set, &what)?;
    let actions = set.action_profile_actions.iter();
    let calls = actions.map(|given| {
        let action = given.action.as_ref().ok_or_else(|| unset("action"))?;
        Ok(WeightedCall {
            call: call(table, action, Scope::TableOnly)?,
            weight: weight(profile, given.weight, &what)?,
            watch: watched_port(&what, action_watch(given.watch_kind.as_ref()))?,
        })
    });
    let calls: Vec<_> = calls.collect::<EntityResult<_>>()?;
    let weights = calls.iter().map(|call| u64::from(call.weight));
    let (size, of) = match profile.size {
        GroupSize::Weights => (weights.sum(), "weights"),
        GroupSize::Members(_) => (calls.len() as u64, "actions"),
    };
    let max = u64::from(profile.max_group_size);
    if max > 0 && size > max {
        return Err(EntityError::invalid(format!(
            "{what}: expected {of} of {max} at most, found {size}"
        )));
    }
    Ok(TableAction::OneShot(calls))
}

/// Refuses a selection mode or size semantics that differ from those of the action selector.
fn expect_modes(profile: &Profile, set: &v1::ActionProfileActionSet, what: &str) -> EntityResult {
    let own = match profile.size {
        GroupSize::Weights => SizeSemantics::SumOfWeights,
        GroupSize::Members(_) => SizeSemantics::SumOfMembers,
    };
    let (mode, size) = (set.action_selection_mode(), set.size_semantics());
    let default_mode = ActionSelectionMode::DefaultModeDeterminedByActionSelector;
    let default_size = SizeSemantics::DefaultSizeDeterminedByActionSelector;
    let is_known = mode as i32 == set.action_selection_mode && size as i32 == set.size_semantics;
    if is_known
        && [default_mode, ActionSelectionMode::Hash].contains(&mode)
        && [default_size, own].contains(&size)
    {
        return Ok(());
    }
    Err(EntityError::unimplemented(format!(
        "{what}: its action selector chooses by a hash, with the size semantics {}; other settings of a group are \
         not supported",
        own.as_str_name()
    )))
}

/// Packs the selection mode and the size semantics, as the controller wrote them, into a number for the entry's client
/// data.
pub(super) fn form(action: Option<&v1::TableAction>) -> u32 {
    use v1::table_action::Type;
    match action.and_then(|action| action.r#type.as_ref()) {
        Some(Type::ActionProfileActionSet(set)) => {
            set.action_selection_mode.unsigned_abs() << 8 | set.size_semantics.unsigned_abs()
        }
        _ => 0,
    }
}

/// The argument `form` is the number in which the function [`form`] packed selection mode and size semantics.
pub(super) fn one_shot_to_proto(
    pipeline: &Pipeline,
    table: &Table,
    calls: &[WeightedCall],
    form: u32,
) -> v1::ActionProfileActionSet {
    let profile = pipeline.profile_of(table);
    let actions = calls.iter().filter_map(|weighted| {
        Some(v1::ActionProfileAction {
            action: Some(call_to_proto(table, &weighted.call)?),
            weight: weight_to_proto(profile?, weighted.weight),
            watch_kind: weighted
                .watch
                .map(|port| ActionWatch::WatchPort(port_to_proto(port))),
        })
    });
    let part = |part: u32| i32::try_from(part & 0xff).expect("it has 8 bits");
    v1::ActionProfileActionSet {
        action_profile_actions: actions.collect(),
        action_selection_mode: part(form >> 8),
        size_semantics: part(form),
    }
}

pub(crate) fn member_to_proto(
    pipeline: &Pipeline,
    profile: &Profile,
    member: &ProfileMember,
) -> v1::ActionProfileMember {
    let table = pipeline.table_of(profile).ok();
    v1::ActionProfileMember {
        action_profile_id: profile.id,
        member_id: member.id,
        action: table.and_then(|table| call_to_proto(table, &member.action)),
    }
}

pub(crate) fn group_to_proto(profile: &Profile, group: &ProfileGroup) -> v1::ActionProfileGroup {
    let members = group.members.iter().map(|(id, weight)| {
        let mut watched = group.watched.iter();
        let port = watched
            .find(|(member, _)| member == id)
            .map(|(_, port)| *port);
        Member {
            member_id: *id,
            weight: weight_to_proto(profile, *weight),
            watch_kind: port.map(|port| WatchKind::WatchPort(port_to_proto(port))),
        }
    });
    v1::ActionProfileGroup {
        action_profile_id: profile.id,
        group_id: group.id,
        members: members.collect(),
        max_size: i32::try_from(group.max_size).unwrap_or(i32::MAX),
    }
}
