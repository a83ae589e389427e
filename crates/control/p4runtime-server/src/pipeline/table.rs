//! Binds the P4Info's tables and actions to those of the program.

use std::collections::HashMap;
use std::fmt;

use dataplane::{ActionId, KeyField, MatchKind, ParamInfo, Program, TableId, TableInfo};
use p4runtime_proto::p4::config::v1 as p4info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::config::v1::match_field::{Match, MatchType};
use p4runtime_proto::p4::config::v1::meter_spec::Type as MeterType;
use p4runtime_proto::p4::config::v1::table::IdleTimeoutBehavior;

use super::array::meter_type;
use super::translation::{Types, Values};
use super::{PipelineError, PipelineResult};

pub(crate) struct Table {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) table: TableId,
    /// The match fields, in the order of the table's key.
    pub(crate) fields: Vec<Field>,
    pub(crate) actions: Vec<Action>,
    pub(crate) is_const: bool,
    pub(crate) is_default_const: bool,
    pub(crate) has_priority: bool,
    pub(crate) has_direct_counter: bool,
    /// The type of the table's direct meter; `None` if the table has none.
    pub(crate) direct_meter: Option<MeterType>,
    pub(crate) has_idle_timeout: bool,
    /// The action profile that implements the table. `None` for a direct table.
    pub(crate) profile: Option<u32>,
}

pub(crate) struct Field {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: MatchKind,
    /// The key field in the data plane. Its match kind can differ from `kind`: BMv2 JSON has no `optional`, so p4c
    /// writes `ternary` instead.
    pub(crate) key: KeyField,
    pub(crate) values: Values,
    /// Whether the values of this field are hidden from readers.
    pub(crate) is_secret: bool,
}

pub(crate) struct Action {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) action: ActionId,
    pub(crate) scope: Scope,
    /// The parameters, in the program's order.
    pub(crate) params: Vec<Param>,
}

pub(crate) struct Param {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) values: Values,
}

impl Table {
    /// Whether controllers write some values of this table as strings.
    pub(crate) fn has_names(&self) -> bool {
        let fields = self.fields.iter().map(|field| &field.values);
        let params = self.actions.iter().flat_map(|action| &action.params);
        let mut values = fields.chain(params.map(|param| &param.values));
        values.any(|values| values.names().is_some())
    }

    pub(crate) fn action(&self, id: u32) -> Option<&Action> {
        self.actions.iter().find(|action| action.id == id)
    }

    pub(crate) fn action_of(&self, action: ActionId) -> Option<&Action> {
        self.actions.iter().find(|a| a.action == action)
    }
}

pub(super) fn tables(
    p4info: &P4Info,
    program: &Program,
    types: &mut Types<'_>,
) -> PipelineResult<Vec<Table>> {
    let actions: HashMap<u32, &p4info::Action> = p4info
        .actions
        .iter()
        .filter_map(|action| Some((action.preamble.as_ref()?.id, action)))
        .collect();
    p4info
        .tables
        .iter()
        .map(|table| bind(p4info, table, &actions, program, types))
        .collect()
}

fn bind(
    p4info: &P4Info,
    table: &p4info::Table,
    actions: &HashMap<u32, &p4info::Action>,
    program: &Program,
    types: &mut Types<'_>,
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
            "is_const_table is {}, but {} in the device config",
            table.is_const_table, info.is_const
        )));
    }
    let direct = |ids: Vec<u32>| ids.iter().any(|id| table.direct_resource_ids.contains(id));
    let has_direct_counter = direct(ids(&p4info.direct_counters, |c| c.preamble.as_ref()));
    if has_direct_counter && !info.with_counters {
        return Err(error(
            "has a direct counter, but none in the device config".into(),
        ));
    }
    Ok(Table {
        id: preamble.id,
        table: id,
        fields: fields(table, info, types).map_err(&error)?,
        actions: table
            .action_refs
            .iter()
            .map(|action| bind_action(id, action, actions, program, types))
            .collect::<Result<_, _>>()
            .map_err(&error)?,
        is_const: info.is_const,
        is_default_const: info.is_default_const || table.const_default_action_id != 0,
        has_priority: info.has_priority(),
        has_direct_counter,
        direct_meter: direct_meter(p4info, table, info).map_err(&error)?,
        has_idle_timeout: table.idle_timeout_behavior != IdleTimeoutBehavior::NoTimeout as i32,
        profile: implementation(p4info, table, info).map_err(&error)?,
        name: preamble.name,
    })
}

fn direct_meter(
    p4info: &P4Info,
    table: &p4info::Table,
    info: &TableInfo,
) -> Result<Option<MeterType>, String> {
    let mut meters = p4info.direct_meters.iter();
    let meter = meters.find(|meter| {
        let id = meter.preamble.as_ref().map_or(0, |preamble| preamble.id);
        table.direct_resource_ids.contains(&id)
    });
    match meter {
        Some(_) if !info.with_meters => {
            Err("has a direct meter, but none in the device config".into())
        }
        Some(meter) => meter_type(meter.spec.as_ref()).map(Some),
        None => Ok(None),
    }
}

fn implementation(
    p4info: &P4Info,
    table: &p4info::Table,
    info: &TableInfo,
) -> Result<Option<u32>, String> {
    let id = table.implementation_id;
    if (id != 0) != info.action_profile.is_some() {
        let is_there = info.action_profile.is_some();
        return Err(format!(
            "implementation_id is {id}, but the table has {} action profile in the device config",
            if is_there { "an" } else { "no" }
        ));
    }
    let mut profiles = p4info.action_profiles.iter();
    let is_it = |it: &p4info::ActionProfile| it.preamble.as_ref().is_some_and(|it| it.id == id);
    match id {
        0 => Ok(None),
        id if profiles.any(is_it) => Ok(Some(id)),
        id => Err(format!("no action profile has the id {id:#010x}")),
    }
}

fn ids<T>(objects: &[T], preamble: impl Fn(&T) -> Option<&p4info::Preamble>) -> Vec<u32> {
    objects
        .iter()
        .filter_map(|object| Some(preamble(object)?.id))
        .collect()
}

fn fields(
    table: &p4info::Table,
    info: &TableInfo,
    types: &mut Types<'_>,
) -> Result<Vec<Field>, String> {
    if table.match_fields.len() != info.key.len() {
        return Err(format!(
            "has {} match fields, but {} in the device config",
            table.match_fields.len(),
            info.key.len()
        ));
    }
    let pairs = table.match_fields.iter().zip(&info.key);
    let fields = pairs.enumerate().map(|(position, (field, key))| {
        let kind = match_kind(field)?;
        let is_kind = kind == key.kind
            || (kind, key.kind) == (MatchKind::Optional, MatchKind::Ternary);
        let named = field.type_name.as_ref();
        match types.values(named, field.bitwidth, key.width_bits) {
            Ok(values) if is_kind && field.name == key.name => Ok(Field {
                id: field.id,
                name: field.name.clone(),
                kind,
                key: key.clone(),
                values,
                is_secret: key.is_secret,
            }),
            values => Err(format!(
                "match field {} is \"{}\" ({kind:?}, {} bits), but in the device config it is \"{}\" ({:?}, {} bits){}",
                position + 1,
                field.name,
                field.bitwidth,
                key.name,
                key.kind,
                key.width_bits,
                values.err().map(|error| format!(": {error}")).unwrap_or_default()
            )),
        }
    });
    let fields: Vec<Field> = fields.collect::<Result<_, _>>()?;
    check_member_ids("match field", fields.iter().map(|field| field.id))?;
    Ok(fields)
}

pub(super) fn match_kind(field: &p4info::MatchField) -> Result<MatchKind, String> {
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
    types: &mut Types<'_>,
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
    check_member_ids("parameter", action.params.iter().map(|param| param.id))?;
    Ok(Action {
        id: preamble.id,
        action: id,
        scope: Scope::try_from(action_ref.scope)
            .map_err(|_| format!("scope {} is not supported", action_ref.scope))?,
        params: params(&preamble.name, &action.params, &info.params, types)?,
        name: preamble.name,
    })
}

fn listed<'a, W: fmt::Display>(params: impl Iterator<Item = (&'a str, W)>) -> String {
    let params: Vec<String> = params
        .map(|(name, bits)| format!("\"{name}\" ({bits} bits)"))
        .collect();
    match &params[..] {
        [] => "no parameters".to_owned(),
        [one] => format!("the parameter {one}"),
        _ => format!("the parameters {}", params.join(", ")),
    }
}

fn params(
    action: &str,
    params: &[p4info::action::Param],
    infos: &[ParamInfo],
    types: &mut Types<'_>,
) -> Result<Vec<Param>, String> {
    let wrong = || {
        let found = listed(params.iter().map(|p| (p.name.as_str(), p.bitwidth)));
        let expected = listed(infos.iter().map(|p| (p.name.as_str(), p.width_bits)));
        format!("action \"{action}\" has {found}, but {expected} in the device config")
    };
    if params.len() != infos.len() {
        return Err(wrong());
    }
    let pairs = params.iter().zip(infos);
    let params = pairs.map(|(param, info)| {
        let named = param.type_name.as_ref();
        match types.values(named, param.bitwidth, info.width_bits) {
            Ok(values) if param.name == info.name => Ok(Param {
                id: param.id,
                name: param.name.clone(),
                values,
            }),
            Ok(_) => Err(wrong()),
            Err(error) => Err(format!("{}: \"{}\" {error}", wrong(), param.name)),
        }
    });
    params.collect()
}

/// Checks that ids of fields or parameters are unique and not 0.
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
