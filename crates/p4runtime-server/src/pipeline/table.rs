//! Tables and their actions, bound to the program's.

use std::collections::HashMap;

use dataplane::{ActionId, MatchKind, Program, TableId, TableInfo};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::config::v1::match_field::{Match, MatchType};
use p4runtime_proto::p4::config::v1::table::IdleTimeoutBehavior;

use super::{PipelineError, PipelineResult};

/// A table as a controller sees it.
pub(crate) struct Table {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) table: TableId,
    /// In the key's order.
    pub(crate) fields: Vec<Field>,
    pub(crate) actions: Vec<Action>,
    pub(crate) is_const: bool,
    pub(crate) is_default_const: bool,
    /// Entries need a priority.
    pub(crate) has_priority: bool,
    pub(crate) has_direct_counter: bool,
    pub(crate) has_direct_meter: bool,
    pub(crate) has_idle_timeout: bool,
    /// The actions are in an action profile.
    pub(crate) is_indirect: bool,
}

/// A field of a table's key.
pub(crate) struct Field {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: MatchKind,
    pub(crate) width_bits: u32,
}

/// An action of a table.
pub(crate) struct Action {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) action: ActionId,
    pub(crate) scope: Scope,
    /// In the program's order.
    pub(crate) params: Vec<Param>,
}

/// A parameter of an action.
pub(crate) struct Param {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width_bits: u32,
}

impl Table {
    pub(crate) fn field(&self, id: u32) -> Option<(usize, &Field)> {
        self.fields.iter().enumerate().find(|(_, f)| f.id == id)
    }

    pub(crate) fn action(&self, id: u32) -> Option<&Action> {
        self.actions.iter().find(|action| action.id == id)
    }

    pub(crate) fn action_of(&self, action: ActionId) -> Option<&Action> {
        self.actions.iter().find(|a| a.action == action)
    }
}

/// Every table of the P4Info, found in the program.
pub(super) fn tables(p4info: &P4Info, program: &Program) -> PipelineResult<Vec<Table>> {
    let actions: HashMap<u32, &p4info::Action> = p4info
        .actions
        .iter()
        .filter_map(|action| Some((action.preamble.as_ref()?.id, action)))
        .collect();
    p4info
        .tables
        .iter()
        .map(|table| bind(p4info, table, &actions, program))
        .collect()
}

fn bind(
    p4info: &P4Info,
    table: &p4info::Table,
    actions: &HashMap<u32, &p4info::Action>,
    program: &Program,
) -> PipelineResult<Table> {
    let preamble = table.preamble.clone().unwrap_or_default();
    let error =
        |message: String| PipelineError(format!("P4Info table \"{}\": {message}", preamble.name));
    let (id, info) = program
        .table(&preamble.name)
        .and_then(|id| Some((id, program.table_info(id)?)))
        .ok_or_else(|| error("the device config has no such table".into()))?;
    if table.is_const_table != info.is_const {
        return Err(error(format!(
            "is_const_table is {}, in the device config it is {}",
            table.is_const_table, info.is_const
        )));
    }
    let direct = |ids: Vec<u32>| ids.iter().any(|id| table.direct_resource_ids.contains(id));
    let has_direct_counter = direct(ids(&p4info.direct_counters, |c| c.preamble.as_ref()));
    if has_direct_counter && !info.with_counters {
        return Err(error(
            "has a direct counter, in the device config it has none".into(),
        ));
    }
    Ok(Table {
        id: preamble.id,
        table: id,
        fields: fields(table, info).map_err(&error)?,
        actions: table
            .action_refs
            .iter()
            .map(|action| bind_action(id, action, actions, program))
            .collect::<Result<_, _>>()
            .map_err(&error)?,
        is_const: info.is_const,
        is_default_const: info.is_default_const || table.const_default_action_id != 0,
        has_priority: info.has_priority(),
        has_direct_counter,
        has_direct_meter: direct(ids(&p4info.direct_meters, |m| m.preamble.as_ref())),
        has_idle_timeout: table.idle_timeout_behavior != IdleTimeoutBehavior::NoTimeout as i32,
        is_indirect: table.implementation_id != 0,
        name: preamble.name,
    })
}

fn ids<T>(objects: &[T], preamble: impl Fn(&T) -> Option<&p4info::Preamble>) -> Vec<u32> {
    objects
        .iter()
        .filter_map(|object| Some(preamble(object)?.id))
        .collect()
}

fn fields(table: &p4info::Table, info: &TableInfo) -> Result<Vec<Field>, String> {
    if table.match_fields.len() != info.key.len() {
        return Err(format!(
            "has {} match fields, in the device config it has {}",
            table.match_fields.len(),
            info.key.len()
        ));
    }
    let pairs = table.match_fields.iter().zip(&info.key);
    let fields = pairs.enumerate().map(|(position, (field, key))| {
        let kind = match_kind(field)?;
        let found = (&field.name, kind, u32::try_from(field.bitwidth).unwrap_or(0));
        let expected = (&key.name, key.kind, key.width_bits);
        if found != expected {
            return Err(format!(
                "match field {} is \"{}\" ({:?}, {} bits), in the device config it is \"{}\" ({:?}, {} bits)",
                position + 1, found.0, found.1, found.2, expected.0, expected.1, expected.2,
            ));
        }
        Ok(Field { id: field.id, name: field.name.clone(), kind, width_bits: key.width_bits })
    });
    let fields: Vec<Field> = fields.collect::<Result<_, _>>()?;
    check_member_ids("match field", fields.iter().map(|field| field.id))?;
    Ok(fields)
}

fn match_kind(field: &p4info::MatchField) -> Result<MatchKind, String> {
    let kind = match &field.r#match {
        Some(Match::MatchType(kind)) => match MatchType::try_from(*kind) {
            Ok(MatchType::Exact) => Some(MatchKind::Exact),
            Ok(MatchType::Lpm) => Some(MatchKind::Lpm),
            Ok(MatchType::Ternary) => Some(MatchKind::Ternary),
            Ok(MatchType::Range) => Some(MatchKind::Range),
            Ok(MatchType::Optional) => Some(MatchKind::Optional),
            Ok(MatchType::Unspecified) | Err(_) => None,
        },
        Some(Match::OtherMatchType(other)) => {
            return Err(format!(
                "match field \"{}\": match kind \"{other}\" is not supported",
                field.name
            ));
        }
        None => None,
    };
    kind.ok_or_else(|| {
        format!(
            "match field \"{}\": expected a match type, found none",
            field.name
        )
    })
}

fn bind_action(
    table: TableId,
    action_ref: &p4info::ActionRef,
    actions: &HashMap<u32, &p4info::Action>,
    program: &Program,
) -> Result<Action, String> {
    let action = actions
        .get(&action_ref.id)
        .ok_or_else(|| format!("no action has the id {:#010x}", action_ref.id))?;
    let preamble = action.preamble.clone().unwrap_or_default();
    let (id, info) = program
        .action_of(table, &preamble.name)
        .and_then(|id| Some((id, program.action_info(id)?)))
        .ok_or_else(|| {
            format!(
                "in the device config it has no action \"{}\"",
                preamble.name
            )
        })?;
    let found: Vec<_> = action
        .params
        .iter()
        .map(|param| (&param.name, u32::try_from(param.bitwidth).unwrap_or(0)))
        .collect();
    let expected: Vec<_> = info
        .params
        .iter()
        .map(|p| (&p.name, p.width_bits))
        .collect();
    if found != expected {
        return Err(format!(
            "action \"{}\" has the parameters {found:?}, in the device config {expected:?}",
            preamble.name
        ));
    }
    check_member_ids("parameter", action.params.iter().map(|param| param.id))?;
    Ok(Action {
        id: preamble.id,
        name: preamble.name,
        action: id,
        scope: Scope::try_from(action_ref.scope)
            .map_err(|_| format!("scope {} is not supported", action_ref.scope))?,
        params: action
            .params
            .iter()
            .zip(&info.params)
            .map(|(param, info)| Param {
                id: param.id,
                name: param.name.clone(),
                width_bits: info.width_bits,
            })
            .collect(),
    })
}

/// Ids of fields and parameters are not 0 and differ.
pub(super) fn check_member_ids(kind: &str, ids: impl Iterator<Item = u32>) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    for id in ids {
        if id == 0 {
            return Err(format!("expected the id of a {kind}, found 0"));
        }
        if !seen.insert(id) {
            return Err(format!("two {kind}s have the id {id}"));
        }
    }
    Ok(())
}
