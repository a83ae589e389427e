//! Tables and their entries.

use std::collections::HashSet;

use bmv2_json::{self as json, MatchKey};

use super::{
    At, Context, Load, Loader, action, index_u32,
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
        let at = self.at(&context);
        let profile = at.implementation(table)?;
        let meter = table.direct_meters.as_ref();
        let meter = meter.map(|name| at.table_meter(name)).transpose()?;
        if self.tables.iter().any(|other| other.name == table.name) {
            return context.fail("declared twice");
        }
        let actions = at.table_actions(table)?;
        let (key, sources) = at.table_key(table)?;
        let node = TableNode {
            key: sources,
            next: at.next_map(table, &actions, names)?,
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
            has_selector: profile.is_some_and(|profile| at.has_selector(profile)),
        };
        let init = at.table_init(&info, default, entries)?;
        let id = TableId(index_u32(self.tables.len()));
        self.tables.push(info);
        self.ir.table_nodes.push(node);
        self.ir.table_inits.push(init);
        Ok(id)
    }
}

impl At<'_, '_> {
    /// The action profile of an indirect table.
    fn implementation(&self, table: &json::Table) -> Load<Option<ActionProfileId>> {
        let with_groups = match table.kind.as_str() {
            "simple" => return Ok(None),
            "indirect" => false,
            "indirect_ws" => true,
            other => return self.fail(format!("unknown type \"{other}\"")),
        };
        let Some(name) = &table.action_profile else {
            return self.fail("expected \"action_profile\"");
        };
        let profiles = &self.loader.names.action_profiles;
        let profile = self.find(profiles, "action profile", name)?;
        if with_groups && !self.has_selector(profile) {
            return self.fail(format!("action profile \"{name}\" has no selector"));
        }
        if !table.entries.as_deref().unwrap_or_default().is_empty() {
            return self.fail("has an action profile, so it has no entries of its own");
        }
        Ok(Some(profile))
    }

    fn has_selector(&self, profile: ActionProfileId) -> bool {
        let declared = &self.loader.ir.action_profiles[profile.index()];
        declared.selector.is_some()
    }

    fn table_meter(&self, name: &str) -> Load<DirectMeter> {
        let meter = self.loader.names.direct_meters.get(name).cloned();
        meter.ok_or_else(|| self.error(format!("unknown direct meter \"{name}\"")))
    }

    fn table_actions(&self, table: &json::Table) -> Load<Vec<ActionId>> {
        let by_name = |name: &String| {
            let mut known = self.loader.actions.iter();
            let position = known.position(|action| &action.name == name);
            let error = || self.error(format!("unknown action \"{name}\""));
            position
                .map(|place| ActionId(index_u32(place)))
                .ok_or_else(error)
        };
        let actions: Vec<_> = if table.action_ids.is_empty() {
            table.actions.iter().map(by_name).collect::<Load<_>>()?
        } else {
            let ids = table.action_ids.iter();
            ids.map(|id| self.action_by_id(*id)).collect::<Load<_>>()?
        };
        if action::has_duplicates(&actions) {
            return self.fail("names an action twice");
        }
        Ok(actions)
    }

    fn action_by_id(&self, id: u32) -> Load<ActionId> {
        let actions = &self.loader.names.actions;
        self.context.find_id(actions, "action", id)
    }

    fn table_key(&self, table: &json::Table) -> Load<(Vec<KeyField>, Vec<KeySource>)> {
        let mut fields = Vec::new();
        let mut sources = Vec::new();
        for key in &table.key {
            let (header, field) = &key.target;
            let value = self.field_expr(header, field)?;
            if matches!(&value, Expr::Field(id) if self.loader.ir.fields[id.index()].variable) {
                return self.fail(format!("key \"{field}\": a varbit field"));
            }
            let kind = match key.match_type.as_str() {
                "exact" | "valid" => MatchKind::Exact,
                "lpm" => MatchKind::Lpm,
                "ternary" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                "optional" => MatchKind::Optional,
                other => return self.fail(format!("unknown match type \"{other}\"")),
            };
            let mask = key.mask.as_ref().map(|mask| self.hex(mask));
            let name = key.name.clone();
            fields.push(KeyField {
                name: name.unwrap_or_else(|| format!("{header}.{field}")),
                kind,
                width_bits: self.loader.bits_of(&value).unwrap_or(1),
                is_signed: self.loader.is_signed(&value),
                is_secret: key.secret,
            });
            sources.push(KeySource {
                value,
                mask: mask.transpose()?,
            });
        }
        let lpm = fields.iter().filter(|field| field.kind == MatchKind::Lpm);
        if lpm.count() > 1 {
            return self.fail("expected one lpm field at most");
        }
        Ok((fields, sources))
    }

    fn next_map(
        &self,
        table: &json::Table,
        actions: &[ActionId],
        names: &NodeNames<'_>,
    ) -> Load<NextNode> {
        let node = |name: &Option<String>| next(self.context, names, name.as_deref());
        let next_tables = &table.next_tables;
        let (hit, miss) = (next_tables.get("__HIT__"), next_tables.get("__MISS__"));
        if hit.is_some() || miss.is_some() {
            let (Some(hit), Some(miss), 2) = (hit, miss, next_tables.len()) else {
                return self.fail("expected both or none of \"__HIT__\" and \"__MISS__\"");
            };
            return Ok(NextNode::HitMiss {
                hit: node(hit)?,
                miss: node(miss)?,
            });
        }
        let per_action = actions.iter().map(|action| {
            let name = &self.loader.actions[action.index()].name;
            let error = || self.error(format!("no next node for action \"{name}\""));
            node(next_tables.get(name).ok_or_else(error)?)
        });
        Ok(NextNode::PerAction(per_action.collect::<Load<_>>()?))
    }

    fn table_init(
        &self,
        info: &TableInfo,
        default: Option<&json::DefaultEntry>,
        entries: &[json::Entry],
    ) -> Load<TableInit> {
        let default = default.map(|it| self.bound_action(info, it.action_id, &it.action_data));
        let default = default.transpose()?;
        // In BMv2 the lowest priority number wins, in P4Runtime the highest.
        let mut priorities: Vec<u32> = entries.iter().map(|entry| entry.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let mut loaded = Vec::with_capacity(entries.len());
        let mut seen = HashSet::with_capacity(entries.len());
        for (position, entry) in entries.iter().enumerate() {
            let context = self.context.within(&format!("entry {position}"));
            let at = self.loader.at(&context);
            let (expected, found) = (info.key.len(), entry.match_key.len());
            if found != expected {
                return at.fail(format!("expected {expected} key fields, found {found}"));
            }
            let key = info.key.iter().zip(&entry.match_key);
            let key = key.map(|(field, key)| at.matcher(field, key));
            let key = key.collect::<Load<Vec<_>>>()?;
            let rank = priorities.len() - priorities.partition_point(|it| *it < entry.priority);
            let priority = match entry.control_priority {
                _ if !info.has_priority() => 0,
                Some(priority) => priority,
                None => i32::try_from(rank).expect("a file has fewer than 2^31 entries"),
            };
            let action = &entry.action_entry;
            let action = at.bound_action(info, action.action_id, &action.action_data)?;
            if !seen.insert((key.clone(), priority)) {
                return at.fail("the same key as an earlier entry");
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

    fn bound_action(&self, info: &TableInfo, id: u32, data: &[String]) -> Load<BoundAction> {
        let action = self.action_by_id(id)?;
        let action_info = &self.loader.actions[action.index()];
        if !info.actions.contains(&action) {
            let name = &action_info.name;
            return self.fail(format!("action \"{name}\" is not in its list"));
        }
        Ok(BoundAction {
            action,
            args: self.arguments(action_info, data)?,
        })
    }

    fn matcher(&self, field: &KeyField, key: &MatchKey) -> Load<Matcher> {
        let (name, bits) = (&field.name, field.width_bits);
        let number = |text: &str| {
            let given = self.hex(text)?;
            // Negative values of a signed field are allowed.
            let number = match field.is_signed && given < Int::ZERO {
                true if value::wrap(given.clone(), bits, true) == given => {
                    value::wrap(given, bits, false)
                }
                _ => given,
            };
            if value::fits(&number, bits) {
                Ok(number)
            } else {
                self.fail(format!("key \"{name}\": {text} does not fit {bits} bits"))
            }
        };
        Ok(match (field.kind, key) {
            (MatchKind::Exact, MatchKey::Exact { key }) => Matcher::Exact(number(key)?),
            (MatchKind::Exact, MatchKey::Valid { key }) => {
                Matcher::Exact(Int::from(u8::from(*key)))
            }
            (MatchKind::Lpm, MatchKey::Lpm { key, prefix_length }) => {
                let prefix_len = *prefix_length;
                if prefix_len > bits {
                    return self.fail(format!(
                        "key \"{name}\": {bits} bits, found a prefix of {prefix_len}"
                    ));
                }
                Matcher::Lpm {
                    value: number(key)? & value::prefix_mask(bits, prefix_len),
                    prefix_len,
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
                if field.order(&low) > field.order(&high) {
                    return self.fail(format!("key \"{name}\": {start} is above {end}"));
                }
                Matcher::Range { low, high }
            }
            (kind, key) => {
                return self.fail(format!(
                    "key \"{name}\": expected a match of kind {kind:?}, found {key:?}"
                ));
            }
        })
    }
}
