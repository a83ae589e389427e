//! `TableEntry`: ordinary entries and default entries.
//!
//! Source: P4Runtime 1.5.0, "TableEntry".

use control::{
    ClientData, ClientDataMap, EntryChange, EntryKey, EntryUpdate, NewAction, Operation,
};
use dataplane::{ActionCall, CounterValue, MatchField, MeterConfig, TableAction};
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::action::Param;
use p4runtime_proto::p4::v1::table_action;
use p4runtime_proto::p4::v1::table_entry::IdleTimeout;
use p4runtime_proto::p4::v1::update::Type;

use super::counter::{counter_data, counter_value};
use super::{action_profile, meter, table_key, unset};
use crate::error::{EntityError, EntityResult};
use crate::pipeline::{NamesInUse, NewNames, Pipeline, Table};

pub(super) fn operation(
    pipeline: &Pipeline,
    kind: Type,
    entry: &v1::TableEntry,
) -> EntityResult<Operation> {
    let table = pipeline.table(entry.table_id)?;
    if kind != Type::Delete {
        check_fields(table, kind, entry)?;
    }
    if entry.is_const {
        return Err(EntityError::invalid(format!(
            "table \"{}\": is_const cannot be written",
            table.name
        )));
    }
    if entry.is_default_action {
        return default_operation(table, kind, entry);
    }
    if table.is_const && kind != Type::Modify {
        return Err(EntityError::denied(format!(
            "table \"{}\": its entries are constant",
            table.name
        )));
    }
    if table.fields.is_empty() {
        return Err(EntityError::invalid(format!(
            "table \"{}\" has no key: only its default entry can be written",
            table.name
        )));
    }
    let new_names = match kind {
        Type::Insert => NewNames::Bound,
        _ => NewNames::Refused,
    };
    let key = entry_key(table, entry, new_names)?;
    match kind {
        Type::Insert => insert(pipeline, table, entry, key),
        Type::Modify => modify(pipeline, table, entry, key),
        Type::Delete | Type::Unspecified => Ok(Operation::Entry(EntryUpdate::Delete(key))),
    }
}

fn insert(
    pipeline: &Pipeline,
    table: &Table,
    entry: &v1::TableEntry,
    key: EntryKey,
) -> EntityResult<Operation> {
    let action = entry.action.as_ref().ok_or_else(|| unset("action"))?;
    let action = table_action(pipeline, table, action)?;
    let new = dataplane::TableEntry {
        counter: counter(table, entry)?.unwrap_or_default(),
        meter: meter(table, entry)?,
        idle_timeout_ns: entry.idle_timeout_ns.unsigned_abs(),
        ..dataplane::TableEntry::new(key.key, key.priority, action)
    };
    Ok(Operation::Entry(EntryUpdate::Insert {
        table: key.table,
        entry: new,
        client_data: client_data(entry),
    }))
}

/// Translates a MODIFY. An unset counter stays unchanged. If the action is unset, action, idle timeout and metadata
/// stay unchanged. An unset meter config removes the rates, so the meter is green. In a constant entry nothing but the
/// counter can be set.
fn modify(
    pipeline: &Pipeline,
    table: &Table,
    entry: &v1::TableEntry,
    key: EntryKey,
) -> EntityResult<Operation> {
    let action = match &entry.action {
        Some(_) if table.is_const => return Err(constant(&table.name)),
        Some(action) => Some(table_action(pipeline, table, action)?),
        None => None,
    };
    let meter = meter(table, entry)?;
    let what = format!("table \"{}\"", table.name);
    let change = EntryChange {
        action: action.map(|action| NewAction {
            action,
            idle_timeout_ns: entry.idle_timeout_ns.unsigned_abs(),
            client_data: client_data(entry),
        }),
        counter: counter(table, entry)?,
        meter: table.direct_meter.map(|_| meter),
        resets_meter_counts: meter::resets(entry.meter_counter_data.as_ref(), &what)?,
    };
    Ok(Operation::Entry(EntryUpdate::Modify(key, change)))
}

fn constant(table: &str) -> EntityError {
    EntityError::denied(format!(
        "table \"{table}\": the entry is constant, its action cannot be written"
    ))
}

fn default_operation(table: &Table, kind: Type, entry: &v1::TableEntry) -> EntityResult<Operation> {
    let error = |message: &str| {
        Err(EntityError::invalid(format!(
            "table \"{}\": the default entry {message}",
            table.name
        )))
    };
    if kind != Type::Modify {
        return error("can only be modified");
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return error("has neither match nor priority");
    }
    if entry.idle_timeout_ns != 0 {
        return error("has no idle timeout");
    }
    if entry.meter_config.is_some() || entry.meter_counter_data.is_some() {
        meter::expect_direct_meter(table, entry)?;
    }
    if entry.counter_data.is_some() {
        // BMv2 counts hits only, so a counter written to a default entry could never be read.
        return Err(EntityError::unimplemented(format!(
            "table \"{}\": the default entry has no direct counter",
            table.name
        )));
    }
    // P4Runtime prescribes a constant NoAction as the default entry of an indirect table.
    if table.is_default_const || table.profile.is_some() {
        return Err(EntityError::denied(format!(
            "table \"{}\": its default action is constant",
            table.name
        )));
    }
    let action = match &entry.action {
        Some(action) => Some(direct_call(table, action, Scope::DefaultOnly)?.into()),
        None => None,
    };
    Ok(Operation::DefaultAction {
        table: table.table,
        action,
        client_data: client_data(entry),
    })
}

/// Refuses fields that no entry of this table can have.
fn check_fields(table: &Table, kind: Type, entry: &v1::TableEntry) -> EntityResult {
    if (entry.meter_config.is_some() || entry.meter_counter_data.is_some())
        && table.direct_meter.is_none()
    {
        return Err(no_meter(table));
    }
    if kind == Type::Insert {
        let what = format!("table \"{}\"", table.name);
        meter::resets(entry.meter_counter_data.as_ref(), &what)?;
    }
    if entry.time_since_last_hit.is_some() {
        return Err(EntityError::invalid(format!(
            "table \"{}\": time_since_last_hit cannot be written",
            table.name
        )));
    }
    match entry.idle_timeout_ns {
        0 => Ok(()),
        _ if !table.has_idle_timeout => Err(no_idle_timeout(table)),
        ..0 => Err(EntityError::invalid(format!(
            "table \"{}\": expected an idle timeout from 0 nanoseconds on, found {}",
            table.name, entry.idle_timeout_ns
        ))),
        1.. => Ok(()),
    }
}

fn no_action_profile(table: &Table) -> EntityError {
    EntityError::invalid(format!("table \"{}\" has no action profile", table.name))
}

fn no_meter(table: &Table) -> EntityError {
    EntityError::invalid(format!("table \"{}\" has no direct meter", table.name))
}

fn no_idle_timeout(table: &Table) -> EntityError {
    EntityError::invalid(format!("table \"{}\" has no idle timeout", table.name))
}

pub(super) fn entry_key(
    table: &Table,
    entry: &v1::TableEntry,
    new_names: NewNames,
) -> EntityResult<EntryKey> {
    let of = format!("table \"{}\"", table.name);
    let key = table_key::key(&table.fields, &entry.r#match, new_names, &of)?;
    if table.has_priority != (entry.priority > 0) || entry.priority < 0 {
        return Err(EntityError::invalid(format!(
            "table \"{}\": expected a priority {}, found {}",
            table.name,
            if table.has_priority {
                "above 0"
            } else {
                "of 0"
            },
            entry.priority
        )));
    }
    Ok(EntryKey {
        table: table.table,
        key,
        priority: entry.priority,
    })
}

fn client_data(entry: &v1::TableEntry) -> ClientData {
    #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
    let controller_metadata = entry.controller_metadata;
    ClientData {
        bytes: entry.metadata.clone(),
        number: controller_metadata,
        form: action_profile::form(entry.action.as_ref()),
    }
}

fn counter(table: &Table, entry: &v1::TableEntry) -> EntityResult<Option<CounterValue>> {
    let Some(data) = &entry.counter_data else {
        return Ok(None);
    };
    if !table.has_direct_counter {
        return Err(EntityError::invalid(format!(
            "table \"{}\" has no direct counter",
            table.name
        )));
    }
    counter_value(data, &table.name).map(Some)
}

fn meter(table: &Table, entry: &v1::TableEntry) -> EntityResult<Option<MeterConfig>> {
    let (Some(config), Some(kind)) = (&entry.meter_config, table.direct_meter) else {
        return Ok(None);
    };
    let what = format!("table \"{}\"", table.name);
    meter::meter_config(kind, config, &what).map(Some)
}

fn table_action(
    pipeline: &Pipeline,
    table: &Table,
    action: &v1::TableAction,
) -> EntityResult<TableAction> {
    if table.profile.is_none() {
        return Ok(direct_call(table, action, Scope::TableOnly)?.into());
    }
    let what = format!("table \"{}\": expected", table.name);
    match &action.r#type {
        Some(table_action::Type::ActionProfileMemberId(id)) => Ok(TableAction::Member(*id)),
        Some(table_action::Type::ActionProfileGroupId(id)) => Ok(TableAction::Group(*id)),
        Some(table_action::Type::ActionProfileActionSet(set)) => {
            action_profile::one_shot(pipeline, table, set)
        }
        Some(table_action::Type::Action(_)) => Err(EntityError::invalid(format!(
            "{what} a member, a group or an action set, since it has an action profile, found an action"
        ))),
        None => Err(EntityError::invalid(format!(
            "{what} an action, found none"
        ))),
    }
}

/// Checks an action that is not in an action profile.
fn direct_call(table: &Table, action: &v1::TableAction, place: Scope) -> EntityResult<ActionCall> {
    match &action.r#type {
        Some(table_action::Type::Action(given)) => call(table, given, place),
        Some(_) => Err(no_action_profile(table)),
        None => Err(EntityError::invalid(format!(
            "table \"{}\": expected an action, found none",
            table.name
        ))),
    }
}

/// Checks an action and its arguments. `place` is the scope that an action must have unless it is allowed everywhere.
pub(super) fn call(table: &Table, given: &v1::Action, place: Scope) -> EntityResult<ActionCall> {
    let action = table.action(given.action_id).ok_or_else(|| {
        EntityError::invalid(format!(
            "table \"{}\" has no action with id {} ({:#010x})",
            table.name, given.action_id, given.action_id
        ))
    })?;
    if action.scope != Scope::TableAndDefault && action.scope != place {
        return Err(EntityError::denied(format!(
            "table \"{}\": action \"{}\" has the scope {}",
            table.name,
            action.name,
            action.scope.as_str_name()
        )));
    }
    let what = format!("table \"{}\": action \"{}\"", table.name, action.name);
    if let Some(extra) = given
        .params
        .iter()
        .find(|given| !action.params.iter().any(|p| p.id == given.param_id))
    {
        return Err(EntityError::invalid(format!(
            "{what} has no parameter with id {}",
            extra.param_id
        )));
    }
    let args = action.params.iter().map(|param| {
        let what = format!("{what}: parameter \"{}\" (id {})", param.name, param.id);
        let mut values = given.params.iter().filter(|g| g.param_id == param.id);
        match (values.next(), values.next()) {
            (Some(given), None) => param.values.to_data(&given.value, NewNames::Bound, &what),
            (None, _) => Err(EntityError::invalid(format!(
                "{what}: expected a value, found none"
            ))),
            (Some(_), Some(_)) => Err(EntityError::invalid(format!("{what} is given twice"))),
        }
    });
    Ok(ActionCall {
        action: action.action,
        args: args.collect::<EntityResult<_>>()?,
    })
}

/// Converts an ordinary entry. `request` selects the optional fields.
pub(crate) fn to_proto(
    pipeline: &Pipeline,
    table: &Table,
    entry: &dataplane::TableEntry,
    client_data: &ClientDataMap,
    request: &v1::TableEntry,
) -> v1::TableEntry {
    let key = EntryKey {
        table: table.table,
        key: entry.key.clone(),
        priority: entry.priority,
    };
    let with_meter = request.meter_config.is_some() && table.direct_meter.is_some();
    let with_colors = request.meter_counter_data.is_some() && table.direct_meter.is_some();
    let with_counter = request.counter_data.is_some() && table.has_direct_counter;
    let with_time = request.time_since_last_hit.is_some();
    let time_since_last_hit = with_time.then(|| IdleTimeout {
        elapsed_ns: nanoseconds(entry.since_last_hit_ns),
    });
    v1::TableEntry {
        time_since_last_hit,
        action: action_to_proto(pipeline, table, &entry.action, client_data.entry(&key).form),
        meter_config: meter::config_to_proto(entry.meter.filter(|_| with_meter)),
        meter_counter_data: with_colors.then(|| meter::counts_to_proto(entry.meter_counts)),
        counter_data: with_counter.then(|| counter_data(entry.counter)),
        is_const: entry.is_const,
        ..identified(table, entry, client_data)
    }
}

/// The entry in an idle timeout notification: key, idle timeout and metadata, but no action.
pub(crate) fn identified(
    table: &Table,
    entry: &dataplane::TableEntry,
    client_data: &ClientDataMap,
) -> v1::TableEntry {
    let key = EntryKey {
        table: table.table,
        key: entry.key.clone(),
        priority: entry.priority,
    };
    v1::TableEntry {
        idle_timeout_ns: nanoseconds(entry.idle_timeout_ns),
        ..with_metadata(key_to_proto(table, entry), client_data.entry(&key))
    }
}

/// Converts a time to the protocol's signed number; times above its maximum, 292 years, become the maximum.
fn nanoseconds(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

pub(super) fn key_to_proto(table: &Table, entry: &dataplane::TableEntry) -> v1::TableEntry {
    v1::TableEntry {
        table_id: table.id,
        r#match: table_key::matches(&table.fields, &entry.key),
        priority: entry.priority,
        ..Default::default()
    }
}

pub(crate) fn default_to_proto(
    pipeline: &Pipeline,
    table: &Table,
    action: &TableAction,
    client_data: &ClientDataMap,
) -> v1::TableEntry {
    let entry = v1::TableEntry {
        table_id: table.id,
        action: action_to_proto(pipeline, table, action, 0),
        is_default_action: true,
        is_const: table.is_default_const,
        ..Default::default()
    };
    with_metadata(entry, client_data.default_action(table.table))
}

#[expect(deprecated, reason = "controllers of before P4Runtime 1.4 read it")]
fn with_metadata(entry: v1::TableEntry, client_data: ClientData) -> v1::TableEntry {
    v1::TableEntry {
        metadata: client_data.bytes,
        controller_metadata: client_data.number,
        ..entry
    }
}

/// Converts an action; `None` if the P4Info does not list it among the table's actions. This is the case for an action
/// that the program hides from controllers.
fn action_to_proto(
    pipeline: &Pipeline,
    table: &Table,
    action: &TableAction,
    form: u32,
) -> Option<v1::TableAction> {
    let action = match action {
        TableAction::Call(call) => table_action::Type::Action(call_to_proto(table, call)?),
        TableAction::Member(id) => table_action::Type::ActionProfileMemberId(*id),
        TableAction::Group(id) => table_action::Type::ActionProfileGroupId(*id),
        TableAction::OneShot(calls) => table_action::Type::ActionProfileActionSet(
            action_profile::one_shot_to_proto(pipeline, table, calls, form),
        ),
    };
    Some(v1::TableAction {
        r#type: Some(action),
    })
}

pub(super) fn call_to_proto(table: &Table, call: &ActionCall) -> Option<v1::Action> {
    let action = table.action_of(call.action)?;
    let params = action.params.iter().zip(&call.args);
    let params = params.map(|(param, value)| Param {
        param_id: param.id,
        value: param.values.to_controller(value),
    });
    Some(v1::Action {
        action_id: action.id,
        params: params.collect(),
    })
}

pub(crate) fn note_names(table: &Table, entry: &dataplane::TableEntry, used: &mut NamesInUse) {
    table_key::note_names(&table.fields, &entry.key, used);
    note_names_of_action(table, &entry.action, used);
}

pub(crate) fn note_names_of_action(table: &Table, action: &TableAction, used: &mut NamesInUse) {
    match action {
        TableAction::Call(call) => note_names_of_call(table, call, used),
        TableAction::OneShot(calls) => {
            let calls = calls.iter().map(|weighted| &weighted.call);
            calls.for_each(|call| note_names_of_call(table, call, used));
        }
        // `names_in_use` visits the members of the action profile itself.
        TableAction::Member(_) | TableAction::Group(_) => {}
    }
}

pub(crate) fn note_names_of_call(table: &Table, call: &ActionCall, used: &mut NamesInUse) {
    let Some(action) = table.action_of(call.action) else {
        return;
    };
    for (param, number) in action.params.iter().zip(&call.args) {
        used.add(&param.values, number);
    }
}

/// Which entries of a table a Read requests.
pub(crate) struct Filter {
    /// The complete key, if the request has any match field.
    pub(crate) key: Option<Vec<MatchField>>,
    /// 0 means any.
    priority: i32,
    action: Option<dataplane::ActionId>,
    client_data: ClientData,
}

impl Filter {
    pub(crate) fn new(table: &Table, request: &v1::TableEntry) -> EntityResult<Self> {
        let asks_for_time = request.time_since_last_hit.is_some() || request.idle_timeout_ns != 0;
        if asks_for_time && !table.has_idle_timeout {
            return Err(no_idle_timeout(table));
        }
        if request.idle_timeout_ns != 0 {
            return Err(EntityError::unimplemented(format!(
                "table \"{}\": entries are not chosen by their idle timeout; leave it out",
                table.name
            )));
        }
        let asks_for_meter = request.meter_config.is_some() || request.meter_counter_data.is_some();
        if asks_for_meter && table.direct_meter.is_none() {
            return Err(no_meter(table));
        }
        let of = format!("table \"{}\"", table.name);
        let key = match request.r#match.as_slice() {
            [] => None,
            given => Some(table_key::key(
                &table.fields,
                given,
                NewNames::Refused,
                &of,
            )?),
        };
        let action = match request.action.as_ref().and_then(|a| a.r#type.as_ref()) {
            None => None,
            Some(table_action::Type::Action(action)) => {
                let found = table.action(action.action_id).ok_or_else(|| {
                    EntityError::invalid(format!(
                        "table \"{}\" has no action with id {}",
                        table.name, action.action_id
                    ))
                })?;
                Some(found.action)
            }
            Some(_) if table.profile.is_none() => return Err(no_action_profile(table)),
            Some(_) => {
                return Err(EntityError::unimplemented(format!(
                    "{of}: entries are not chosen by their member or group; leave the action out"
                )));
            }
        };
        Ok(Self {
            key,
            priority: request.priority,
            action,
            client_data: client_data(request),
        })
    }

    pub(crate) fn accepts(&self, entry: &dataplane::TableEntry) -> bool {
        self.key.as_ref().is_none_or(|key| *key == entry.key)
            && (self.priority == 0 || self.priority == entry.priority)
            && self.action.is_none_or(|action| {
                let call = entry.action.call();
                call.is_some_and(|call| call.action == action)
            })
    }

    #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 ask for it")]
    pub(crate) fn accepts_metadata(&self, entry: &v1::TableEntry) -> bool {
        let wanted = &self.client_data;
        (wanted.bytes.is_empty() || wanted.bytes == entry.metadata)
            && (wanted.number == 0 || wanted.number == entry.controller_metadata)
    }
}

/// Refuses any filter in a Read of all tables.
#[expect(deprecated, reason = "controllers of before P4Runtime 1.4 ask for it")]
pub(crate) fn expect_no_filter(request: &v1::TableEntry) -> EntityResult {
    if request.r#match.is_empty()
        && request.action.is_none()
        && request.priority == 0
        && request.metadata.is_empty()
        && request.controller_metadata == 0
        && !request.is_default_action
    {
        return Ok(());
    }
    Err(EntityError::invalid(
        "reading every table (table_id 0) takes no other filter, found one",
    ))
}
