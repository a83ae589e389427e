//! Parses the actions that stand after `->`, with their parameters, and members and groups of action profiles.

use p4runtime_client::{alias, entities, id_of};
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    TableAction, action_profile_action, action_profile_group, table_action,
};

use super::{Items, KeyUse, i32_of, number_u32, port, set, table_words, u32_of};
use crate::output;
use crate::p4rt::print::{MODES, SIZES};
use crate::p4rt::schema::{Parsed, Schema, find_of};
use crate::p4rt::words::{Item, Value};

pub(super) fn table_action(
    schema: &Schema,
    table: &config::Table,
    items: &mut Items,
    usage: KeyUse,
) -> Parsed<TableAction> {
    let is_default = usage == KeyUse::Default;
    let (article, actions_are) = if is_default {
        ("a", "default action")
    } else {
        ("an", "action")
    };
    let kind = format!("{actions_are} of {}", table_words(table));
    let expected = || format!("expected {article} {kind} after \"->\"");
    let item = items
        .next()
        .ok_or_else(|| format!("{}, the line ends", expected()))?;
    let actions = schema.actions_of(table, is_default);
    let is_partial = usage == KeyUse::Filter;
    let is_indirect = table.implementation_id != 0;
    let found = match item {
        Item::Pair(name, value) if name == "member" => {
            table_action::Type::ActionProfileMemberId(u32_of(&name, &value)?)
        }
        Item::Pair(name, value) if name == "group" => {
            table_action::Type::ActionProfileGroupId(u32_of(&name, &value)?)
        }
        Item::Value(Value::Set(members)) => {
            table_action::Type::ActionProfileActionSet(one_shot(schema, &actions, members, items)?)
        }
        item if is_indirect && !is_default && !is_partial => {
            return Err(format!(
                "{} gets its actions from an action profile: expected member=ID, group=ID or {{ACTION(...) weight=N, ...}} after \"->\", got \"{item}\"",
                table_words(table)
            ));
        }
        item => table_action::Type::Action(call(schema, &kind, &actions, item, is_partial)?),
    };
    Ok(TableAction {
        r#type: Some(found),
    })
}

fn one_shot(
    schema: &Schema,
    actions: &[&config::Action],
    members: Vec<Vec<Item>>,
    items: &mut Items,
) -> Parsed<ActionProfileActionSet> {
    let mut set = ActionProfileActionSet::default();
    for member in members {
        let mut found = ActionProfileAction {
            weight: 1,
            ..ActionProfileAction::default()
        };
        for item in member {
            match item {
                Item::Pair(name, value) if name == "weight" => {
                    found.weight = i32_of(&name, &value)?;
                }
                Item::Pair(name, value) if name == "watch" => {
                    let port = port(&value)?;
                    found.watch_kind = Some(action_profile_action::WatchKind::WatchPort(port));
                }
                item if found.action.is_none() => {
                    found.action = Some(call(schema, "action", actions, item, false)?);
                }
                item => {
                    return Err(format!("expected weight=N or watch=PORT, got \"{item}\""));
                }
            }
        }
        if found.action.is_none() {
            return Err("expected an action for each member between { and }".to_owned());
        }
        set.action_profile_actions.push(found);
    }
    while let Some(Item::Pair(name, value)) = items.peek() {
        let chosen = |names: &[&str]| {
            let found = names
                .iter()
                .position(|it| !it.is_empty() && *it == value.to_string());
            let found = found.and_then(|idx| i32::try_from(idx).ok());
            let names = names[1..].join(" or ");
            found.ok_or_else(|| format!("{name}: expected {names}, got \"{value}\""))
        };
        match name.as_str() {
            "selection" => set.action_selection_mode = chosen(MODES)?,
            "size" => set.size_semantics = chosen(SIZES)?,
            _ => break,
        }
        items.next();
    }
    Ok(set)
}

/// Parses an action, `forward(dst=08:00:00:00:01:11, port=2)`; its parameters may also be in order without names.
pub fn call(
    schema: &Schema,
    kind: &str,
    actions: &[&config::Action],
    item: Item,
    is_partial: bool,
) -> Parsed<Action> {
    let (name, args) = match item {
        Item::Call(name, args) => (name, args),
        Item::Value(Value::Atom(atom)) => (atom.text, Vec::new()),
        item => {
            return Err(format!(
                "expected ACTION(PARAMETER=VALUE, ...), got \"{item}\""
            ));
        }
    };
    let action = find_action(kind, &name, actions)?;
    let name = action.preamble.as_ref().map_or(name.as_str(), alias);
    let mut values: Vec<Option<Vec<u8>>> = vec![None; action.params.len()];
    for arg in args {
        let (idx, value) = match arg {
            Item::Pair(param, value) => {
                let names = action.params.iter().enumerate();
                let names = names.map(|(idx, it)| (idx, it.name.as_str()));
                let kind = format!("parameter of action \"{name}\"");
                (find_of(&kind, &param, names)?, value)
            }
            Item::Value(value) => {
                let idx = values.iter().position(Option::is_none).ok_or_else(|| {
                    format!(
                        "action \"{name}\" has {}, got one more: \"{value}\"",
                        output::count(values.len(), "parameter")
                    )
                })?;
                (idx, value)
            }
            item => return Err(format!("expected PARAMETER=VALUE, got \"{item}\"")),
        };
        let param = &action.params[idx];
        if values[idx].is_some() {
            return Err(format!("parameter \"{}\" is there twice", param.name));
        }
        let Value::Atom(atom) = &value else {
            return Err(format!(
                "parameter \"{}\": expected a value, got \"{value}\"",
                param.name
            ));
        };
        let bytes = atom.bytes(&schema.param_type(param));
        let bytes = bytes.map_err(|message| format!("parameter \"{}\": {message}", param.name))?;
        values[idx] = Some(bytes);
    }
    let mut params = Vec::new();
    for (param, value) in action.params.iter().zip(values) {
        match value {
            Some(value) => params.push((param.id, value)),
            None if is_partial => {}
            None => {
                let expected = schema.param_type(param).format.example();
                return Err(format!(
                    "expected {}={expected} for action \"{name}\"",
                    param.name
                ));
            }
        }
    }
    let action_id = id_of(action.preamble.as_ref());
    Ok(entities::action(action_id, params))
}

fn find_action<'p>(
    kind: &str,
    wanted: &str,
    actions: &[&'p config::Action],
) -> Parsed<&'p config::Action> {
    let all = || {
        actions
            .iter()
            .copied()
            .filter_map(|it| Some((it, it.preamble.as_ref()?)))
    };
    if let Some((it, _)) = all().find(|(_, preamble)| alias(preamble) == wanted) {
        return Ok(it);
    }
    find_of(
        kind,
        wanted,
        all().map(|(it, preamble)| (it, preamble.name.as_str())),
    )
}

/// Parses a member of an action profile: `spread 1 -> send(port=1)` is member 1 of `spread`, which runs action `send`.
pub fn member(schema: &Schema, items: &mut Items, has_action: bool) -> Parsed<ActionProfileMember> {
    let profile = schema.profile(&items.expect_word("an action profile's name")?)?;
    let member_id = number_u32(items, "a member's id")?;
    let action = match items.next() {
        None if !has_action => None,
        Some(Item::Arrow) => {
            let name = profile.preamble.as_ref().map_or("", alias);
            let kind = format!("action of action profile \"{name}\"");
            let actions = schema.actions_of_profile(profile);
            let item = items.next();
            let item = item.ok_or_else(|| format!("expected an {kind}, the line ends"))?;
            Some(call(schema, &kind, &actions, item, false)?)
        }
        Some(item) => return Err(format!("expected \"->\" and an action, got \"{item}\"")),
        None => return Err("expected \"->\" and an action, the line ends".to_owned()),
    };
    items.end()?;
    Ok(ActionProfileMember {
        action_profile_id: id_of(profile.preamble.as_ref()),
        member_id,
        action,
    })
}

/// Parses a group of an action profile: `spread 5 {1, 2 weight=3 watch=1} max_size=4` is group 5 of `spread`, with
/// members 1 and 2; member 2 has weight 3, and takes part only while port 1 is up.
pub fn group(schema: &Schema, items: &mut Items, has_members: bool) -> Parsed<ActionProfileGroup> {
    let profile = schema.profile(&items.expect_word("an action profile's name")?)?;
    let mut group = ActionProfileGroup {
        action_profile_id: id_of(profile.preamble.as_ref()),
        group_id: number_u32(items, "a group's id")?,
        ..ActionProfileGroup::default()
    };
    if has_members {
        group.members = members(&set(items, "{MEMBER weight=N watch=PORT, ...}")?)?;
    }
    while let Some(item) = items.next() {
        match item {
            Item::Pair(name, value) if name == "max_size" => {
                group.max_size = i32_of(&name, &value)?
            }
            item => return Err(format!("expected max_size=N, got \"{item}\"")),
        }
    }
    Ok(group)
}

fn members(set: &[Vec<Item>]) -> Parsed<Vec<action_profile_group::Member>> {
    let member = |items: &Vec<Item>| {
        let mut items = Items::new(items.clone());
        let mut found = action_profile_group::Member {
            member_id: number_u32(&mut items, "a member's id")?,
            weight: 1,
            watch_kind: None,
        };
        while let Some(item) = items.next() {
            match item {
                Item::Pair(name, value) if name == "weight" => {
                    found.weight = i32_of(&name, &value)?;
                }
                Item::Pair(name, value) if name == "watch" => {
                    let port = port(&value)?;
                    found.watch_kind =
                        Some(action_profile_group::member::WatchKind::WatchPort(port));
                }
                item => return Err(format!("expected weight=N or watch=PORT, got \"{item}\"")),
            }
        }
        Ok(found)
    };
    set.iter().map(member).collect()
}
