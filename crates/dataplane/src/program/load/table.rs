//! Tables and their entries.

use std::collections::BTreeSet;

use bmv2_json::{self as json, MatchKey};

use super::{
    Context, Load, Loader, action,
    expression::hex,
    index_u32,
    pipeline::{NodeNames, next},
    source_line,
};
use crate::{
    ActionId, ActionProfileId, TableId,
    program::{
        KeyField, MatchKind, TableInfo,
        ir::{
            BoundAction, DirectMeter, Expr, InitialEntry, KeySource, Matcher, NextNode, TableInit,
            TableNode,
        },
    },
    value::{self, Int},
};

impl<'a> Loader<'a> {
    pub(super) fn table(&mut self, table: &'a json::Table, names: &NodeNames<'_>) -> Load<TableId> {
        let context = Context::new("table", &table.name);
        let profile = self.implementation(&context, table)?;
        let meter = match &table.direct_meters {
            Some(name) => Some(self.table_meter(&context, name)?),
            None => None,
        };
        if self.tables.iter().any(|other| other.name == table.name) {
            return context.fail("declared twice");
        }
        let actions = self.table_actions(&context, table)?;
        let (key, sources) = self.table_key(&context, table)?;
        let node = TableNode {
            key: sources,
            next: self.next_map(&context, table, &actions, names)?,
            default_next: next(&context, names, table.base_default_next.as_deref())?,
            line: source_line(&table.source_info),
            profile,
            meter,
        };
        let entries = table.entries.as_deref().unwrap_or_default();
        let default = table.default_entry.as_ref();
        let info = TableInfo {
            name: table.name.clone(),
            key,
            size: (table.max_size as usize).max(entries.len()),
            actions,
            is_const: table.entries.is_some() && table.const_entries != Some(false),
            is_default_const: default.is_some_and(|d| d.action_const || d.action_entry_const),
            with_counters: table.with_counters,
            with_meters: node.meter.is_some(),
            has_idle_timeout: table.support_timeout,
            action_profile: profile,
            has_selector: profile
                .is_some_and(|profile| self.ir.action_profiles[profile.index()].selector.is_some()),
        };
        let init = self.table_init(&context, &info, default, entries)?;
        let id = TableId(index_u32(self.tables.len()));
        self.tables.push(info);
        self.ir.table_nodes.push(node);
        self.ir.table_inits.push(init);
        Ok(id)
    }

    /// The action profile of an indirect table.
    fn implementation(
        &self,
        context: &Context,
        table: &json::Table,
    ) -> Load<Option<ActionProfileId>> {
        let with_groups = match table.kind.as_str() {
            "simple" => return Ok(None),
            "indirect" => false,
            "indirect_ws" => true,
            other => return context.fail(format!("unknown type \"{other}\"")),
        };
        let Some(name) = &table.action_profile else {
            return context.fail("expected \"action_profile\"");
        };
        let profile = context.find(&self.names.action_profiles, "action profile", name)?;
        if with_groups && self.ir.action_profiles[profile.index()].selector.is_none() {
            return context.fail(format!("action profile \"{name}\" has no selector"));
        }
        if table
            .entries
            .as_ref()
            .is_some_and(|entries| !entries.is_empty())
        {
            return context.fail("has an action profile, so it has no entries of its own");
        }
        Ok(Some(profile))
    }

    fn table_meter(&self, context: &Context, name: &str) -> Load<DirectMeter> {
        let meter = self.names.direct_meters.get(name).cloned();
        meter.ok_or_else(|| context.error(format!("unknown direct meter \"{name}\"")))
    }

    fn table_actions(&self, context: &Context, table: &json::Table) -> Load<Vec<ActionId>> {
        let mut actions = Vec::new();
        if table.action_ids.is_empty() {
            for name in &table.actions {
                let position = self.actions.iter().position(|action| &action.name == name);
                let position =
                    position.ok_or_else(|| context.error(format!("unknown action \"{name}\"")))?;
                actions.push(ActionId(index_u32(position)));
            }
        } else {
            for id in &table.action_ids {
                actions.push(self.action_by_id(context, *id)?);
            }
        }
        if action::has_duplicates(&actions) {
            return context.fail("names an action twice");
        }
        Ok(actions)
    }

    fn table_key(
        &self,
        context: &Context,
        table: &json::Table,
    ) -> Load<(Vec<KeyField>, Vec<KeySource>)> {
        let mut fields = Vec::new();
        let mut sources = Vec::new();
        for key in &table.key {
            let target = json::Value::Field(key.target.clone());
            let source = self.number(context, &target)?;
            if matches!(&source, Expr::Field(id) if self.ir.fields[id.index()].variable) {
                return context.fail(format!("key \"{}\": a varbit field", key.target.1));
            }
            let kind = match key.match_type.as_str() {
                "exact" | "valid" => MatchKind::Exact,
                "lpm" => MatchKind::Lpm,
                "ternary" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                "optional" => MatchKind::Optional,
                other => return context.fail(format!("unknown match type \"{other}\"")),
            };
            let mask = match &key.mask {
                Some(mask) => Some(hex(context, mask)?),
                None => None,
            };
            fields.push(KeyField {
                name: key
                    .name
                    .clone()
                    .unwrap_or_else(|| format!("{}.{}", key.target.0, key.target.1)),
                kind,
                width_bits: self.bits_of(&source).unwrap_or(1),
            });
            sources.push(KeySource {
                value: source,
                mask,
            });
        }
        if fields
            .iter()
            .filter(|field| field.kind == MatchKind::Lpm)
            .count()
            > 1
        {
            return context.fail("expected one lpm field at most");
        }
        Ok((fields, sources))
    }

    fn next_map(
        &self,
        context: &Context,
        table: &json::Table,
        actions: &[ActionId],
        names: &NodeNames<'_>,
    ) -> Load<NextNode> {
        let node = |name: &Option<String>| next(context, names, name.as_deref());
        let next_tables = &table.next_tables;
        let (hit, miss) = (next_tables.get("__HIT__"), next_tables.get("__MISS__"));
        if hit.is_some() || miss.is_some() {
            let (Some(hit), Some(miss), 2) = (hit, miss, next_tables.len()) else {
                return context.fail("expected both or none of \"__HIT__\" and \"__MISS__\"");
            };
            return Ok(NextNode::HitMiss {
                hit: node(hit)?,
                miss: node(miss)?,
            });
        }
        let mut per_action = Vec::new();
        for action in actions {
            let name = &self.actions[action.index()].name;
            let next = next_tables.get(name);
            let next =
                next.ok_or_else(|| context.error(format!("no next node for action \"{name}\"")))?;
            per_action.push(node(next)?);
        }
        Ok(NextNode::PerAction(per_action))
    }

    fn table_init(
        &self,
        context: &Context,
        info: &TableInfo,
        default: Option<&json::DefaultEntry>,
        entries: &[json::Entry],
    ) -> Load<TableInit> {
        let default = match default {
            Some(default) => {
                Some(self.bound_action(context, info, default.action_id, &default.action_data)?)
            }
            None => None,
        };
        // BMv2 looks at the lowest priority first, P4Runtime says the highest wins.
        let priorities: BTreeSet<u32> = entries.iter().map(|entry| entry.priority).collect();
        let mut loaded = Vec::new();
        for (position, entry) in entries.iter().enumerate() {
            let context = Context {
                place: format!("{}: entry {position}", context.place),
                ..Context::default()
            };
            if entry.match_key.len() != info.key.len() {
                return context.fail(format!(
                    "expected {} key fields, found {}",
                    info.key.len(),
                    entry.match_key.len()
                ));
            }
            let mut key = Vec::new();
            for (field, match_key) in info.key.iter().zip(&entry.match_key) {
                key.push(matcher(&context, field, match_key)?);
            }
            let rank = priorities.range(entry.priority..).count();
            let priority = match entry.control_priority {
                _ if !info.has_priority() => 0,
                Some(priority) => priority,
                None => i32::try_from(rank).expect("a file has fewer than 2^31 entries"),
            };
            let action = &entry.action_entry;
            let action =
                self.bound_action(&context, info, action.action_id, &action.action_data)?;
            if loaded
                .iter()
                .any(|e: &InitialEntry| e.key == key && e.priority == priority)
            {
                return context.fail("the same key as an earlier entry");
            }
            loaded.push(InitialEntry {
                key,
                priority,
                action,
                is_const: info.is_const || entry.is_const == Some(true),
            });
        }
        Ok(TableInit {
            default,
            entries: loaded,
        })
    }

    fn bound_action(
        &self,
        context: &Context,
        info: &TableInfo,
        id: u32,
        data: &[String],
    ) -> Load<BoundAction> {
        let action = self.action_by_id(context, id)?;
        let action_info = &self.actions[action.index()];
        if !info.actions.contains(&action) {
            return context.fail(format!(
                "action \"{}\" is not in its list",
                action_info.name
            ));
        }
        Ok(BoundAction {
            action,
            args: action::arguments(context, action_info, data)?,
        })
    }
}

fn number(context: &Context, field: &KeyField, text: &str) -> Load<Int> {
    let number = hex(context, text)?;
    if value::fits(&number, field.width_bits) {
        return Ok(number);
    }
    context.fail(format!(
        "key \"{}\": {text} does not fit {} bits",
        field.name, field.width_bits
    ))
}

fn matcher(context: &Context, field: &KeyField, key: &MatchKey) -> Load<Matcher> {
    let number = |text: &str| number(context, field, text);
    Ok(match (field.kind, key) {
        (MatchKind::Exact, MatchKey::Exact { key }) => Matcher::Exact(number(key)?),
        (MatchKind::Exact, MatchKey::Valid { key }) => Matcher::Exact(Int::from(u8::from(*key))),
        (MatchKind::Lpm, MatchKey::Lpm { key, prefix_length }) => {
            if *prefix_length > field.width_bits {
                return context.fail(format!(
                    "key \"{}\": a prefix of {prefix_length} of {} bits",
                    field.name, field.width_bits
                ));
            }
            let mask = value::prefix_mask(field.width_bits, *prefix_length);
            Matcher::Lpm {
                value: number(key)? & mask,
                prefix_len: *prefix_length,
            }
        }
        (MatchKind::Ternary, MatchKey::Ternary { key, mask }) => {
            let mask = number(mask)?;
            Matcher::Ternary {
                value: number(key)? & &mask,
                mask,
            }
        }
        (MatchKind::Optional, MatchKey::Ternary { key, mask }) => {
            Matcher::Optional(if number(mask)? == Int::ZERO {
                None
            } else {
                Some(number(key)?)
            })
        }
        (MatchKind::Range, MatchKey::Range { start, end }) => {
            let (low, high) = (number(start)?, number(end)?);
            if low > high {
                return context.fail(format!("key \"{}\": {start} is above {end}", field.name));
            }
            Matcher::Range { low, high }
        }
        (kind, key) => {
            return context.fail(format!(
                "key \"{}\": expected a match of kind {kind:?}, found {key:?}",
                field.name
            ));
        }
    })
}
