//! Tables: entries by BMv2's handles, default actions, direct counters and meters.
//!
//! A handle names an entry's position in its table, so entries that P4Runtime writes have handles too. An operation
//! on a handle looks the entry up and changes it under one exclusive access: nobody can remove the entry in between.

use std::ops::Range;
use std::sync::Arc;

use control::{
    ClientData, EntryChange, EntryKey, EntryUpdate, Exclusive, NewAction, Operation,
    OperationResult, Pipeline,
};
use dataplane::{
    ActionCall, ControlErrorKind, CounterValue, EntryHandle, MeterConfig, TableAction, TableEntry,
    TableId, TableInfo,
};

use super::{expect_context, meters};
use crate::call::{Answer, Answered, Refusal, declared, expect_room};
use crate::context::{Context, write_all};
use crate::key;
use crate::values::cut;
use bmv2_thrift::Args;
use bmv2_thrift::exception::{Exception, MeterCode, TableCode};
use bmv2_thrift::message::{self, ActionEntry, Entry, Life, Options, Structure};
use bmv2_thrift::wire::Type;
use bmv2_thrift::wire::write::Writer;

const NS_PER_MS: u64 = 1_000_000;

/// Where a table's entries have their actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Direct,
    /// In an action profile without groups.
    Indirect,
    /// In an action profile with groups.
    WithSelector,
}

#[derive(Clone)]
struct Target {
    pipeline: Arc<Pipeline>,
    id: TableId,
}

impl Target {
    /// Finds the table that field 2 of the arguments names.
    fn of(ctx: &Context, args: Args<'_>) -> Result<Self, Refusal> {
        expect_context(args)?;
        let pipeline = ctx.pipeline()?;
        let name = args.text(2)?;
        match pipeline.program().table(name) {
            Some(id) => Ok(Self { pipeline, id }),
            None => refuse(TableCode::InvalidTableName, format!("no table \"{name}\"")),
        }
    }

    fn info(&self) -> &TableInfo {
        let info = self.pipeline.program().table_info(self.id);
        info.expect("the program has its table")
    }

    fn kind(&self) -> Kind {
        match self.info() {
            info if info.has_selector => Kind::WithSelector,
            info if info.action_profile.is_some() => Kind::Indirect,
            _ => Kind::Direct,
        }
    }

    /// Refuses the table unless it is of one of these kinds.
    fn expect(self, kinds: &[Kind]) -> Result<Self, Refusal> {
        let found = self.kind();
        if kinds.contains(&found) {
            return Ok(self);
        }
        let name = &self.info().name;
        let message = format!("table \"{name}\": expected one of {kinds:?}, it is {found:?}");
        refuse(TableCode::WrongTableType, message)
    }

    fn call(&self, name: &str, args: &[&[u8]]) -> Result<ActionCall, Refusal> {
        let program = self.pipeline.program();
        let Some(action) = program.action_of(self.id, name) else {
            let table = &self.info().name;
            let message = format!("table \"{table}\" has no action \"{name}\"");
            return refuse(TableCode::InvalidActionName, message);
        };
        action_call(&self.pipeline, action, args)
    }

    /// Converts the key of an entry, with its priority. Fails if the table's key has no fields.
    fn entry_key(
        &self,
        params: &[Args<'_>],
        options: Option<Args<'_>>,
    ) -> Result<EntryKey, Refusal> {
        let info = self.info();
        if info.key.is_empty() {
            let message = format!("table \"{}\" has no key", info.name);
            return refuse(TableCode::NoTableKey, message);
        }
        let options = options.map(Options::read).transpose()?.unwrap_or_default();
        let priority = options.priority.unwrap_or(0);
        Ok(EntryKey {
            table: self.id,
            key: key::key(info, params)?,
            priority: key::priority(info, priority)?,
        })
    }
}

fn refuse<T>(code: TableCode, message: String) -> Result<T, Refusal> {
    Err(Exception::new(code, message).into())
}

/// Makes an action call. Each argument is cut to the width of its parameter.
pub(super) fn action_call(
    pipeline: &Pipeline,
    action: dataplane::ActionId,
    args: &[&[u8]],
) -> Result<ActionCall, Refusal> {
    let info = pipeline.program().action_info(action);
    let params = info.map_or(&[][..], |info| &info.params);
    if params.len() != args.len() {
        let (name, expected) = (info.map_or("", |info| &info.name), params.len());
        let message = format!(
            "action \"{name}\": expected {expected} arguments, found {}",
            args.len()
        );
        return refuse(TableCode::BadActionData, message);
    }
    let args = params.iter().zip(args);
    let args = args
        .map(|(param, arg)| cut(arg, param.width_bits))
        .collect();
    Ok(ActionCall { action, args })
}

fn code(kind: ControlErrorKind) -> TableCode {
    match kind {
        ControlErrorKind::AlreadyExists => TableCode::DuplicateEntry,
        ControlErrorKind::ResourceExhausted => TableCode::TableFull,
        ControlErrorKind::PermissionDenied => TableCode::ImmutableTableEntries,
        ControlErrorKind::InvalidArgument => TableCode::BadMatchKey,
        _ => TableCode::Error,
    }
}

/// The code for a missing member or group depends on the action.
fn code_of_action(action: &TableAction) -> impl Fn(ControlErrorKind) -> TableCode + use<> {
    let missing = match action {
        TableAction::Member(_) => TableCode::InvalidMemberHandle,
        TableAction::Group(_) => TableCode::InvalidGroupHandle,
        _ => TableCode::Error,
    };
    move |kind| match kind {
        ControlErrorKind::NotFound => missing,
        kind => code(kind),
    }
}

pub(crate) async fn answer(ctx: &Arc<Context>, call: &str, args: Args<'_>) -> Option<Answered> {
    Some(match call {
        "bm_mt_get_num_entries" => num_entries(ctx, args).await,
        "bm_mt_clear_entries" => clear(ctx, args).await,
        "bm_mt_add_entry" => add(ctx, args, &[Kind::Direct]).await,
        "bm_mt_indirect_add_entry" => add(ctx, args, &[Kind::Indirect, Kind::WithSelector]).await,
        "bm_mt_indirect_ws_add_entry" => add(ctx, args, &[Kind::WithSelector]).await,
        "bm_mt_set_default_action" => set_default_action(ctx, args).await,
        "bm_mt_indirect_set_default_member" => set_default(ctx, args, TableAction::Member).await,
        "bm_mt_indirect_ws_set_default_group" => set_default(ctx, args, TableAction::Group).await,
        "bm_mt_reset_default_entry" | "bm_mt_indirect_reset_default_entry" => {
            reset_default(ctx, args).await
        }
        "bm_mt_delete_entry" => delete(ctx, args, &[Kind::Direct]).await,
        "bm_mt_indirect_delete_entry" => {
            delete(ctx, args, &[Kind::Indirect, Kind::WithSelector]).await
        }
        "bm_mt_modify_entry" => modify_action(ctx, args).await,
        "bm_mt_indirect_modify_entry" => modify(ctx, args, TableAction::Member).await,
        "bm_mt_indirect_ws_modify_entry" => modify(ctx, args, TableAction::Group).await,
        "bm_mt_set_entry_ttl" | "bm_mt_indirect_set_entry_ttl" => set_ttl(ctx, args).await,
        "bm_mt_get_entries" => entries(ctx, args).await,
        "bm_mt_get_entry" => entry(ctx, args).await,
        "bm_mt_get_entry_from_key" => entry_from_key(ctx, args).await,
        "bm_mt_get_default_entry" => default_entry(ctx, args).await,
        "bm_mt_read_counter" => read_counter(ctx, args).await,
        "bm_mt_write_counter" => write_counter(ctx, args).await,
        "bm_mt_reset_counters" => reset_counters(ctx, args).await,
        "bm_mt_set_meter_rates" => set_meter_rates(ctx, args).await,
        "bm_mt_get_meter_rates" => meter_rates(ctx, args).await,
        _ => return None,
    })
}

async fn num_entries(ctx: &Context, args: Args<'_>) -> Answered {
    let Target { pipeline, id } = Target::of(ctx, args)?;
    let count = ctx
        .read_first(&pipeline, move |switch| switch.entry_count(id))
        .await?;
    Ok(Answer::I64(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Deletes every entry that is not constant, and restarts the numbering of handles.
async fn clear(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let resets_default = args.bool(3)?;
    let call = |exclusive: Exclusive| async move {
        let mut operations = Vec::new();
        each_part(exclusive.device(), &target, |_, entry| {
            if !entry.is_const {
                operations.push(Operation::Entry(EntryUpdate::Delete(key_of(
                    &target, &entry,
                ))));
            }
            Ok(())
        })
        .await?;
        operations.push(Operation::ForgetHandles(target.id));
        if resets_default {
            operations.push(set_default_operation(&target, None));
        }
        let written = write_all(exclusive, &target.pipeline, operations).await?;
        written.map_err(declared(code))
    };
    ctx.exclusively(call).await?;
    Ok(Answer::Void)
}

fn key_of(target: &Target, entry: &TableEntry) -> EntryKey {
    EntryKey {
        table: target.id,
        key: entry.key.clone(),
        priority: entry.priority,
    }
}

/// In calls for direct tables, fields 4 and 5 have the action. In the other calls, field 4 has the handle of a member
/// or group. The options follow.
async fn add(ctx: &Context, args: Args<'_>, kinds: &[Kind]) -> Answered {
    let target = Target::of(ctx, args)?.expect(kinds)?;
    let (action, options) = match kinds {
        [Kind::Direct] => {
            let call = target.call(args.text(4)?, &args.all_bytes(5)?)?;
            (TableAction::Call(call), args.fields(6)?)
        }
        [Kind::WithSelector] => (
            TableAction::Group(args.i32(4)?.cast_unsigned()),
            args.fields(5)?,
        ),
        _ => (
            TableAction::Member(args.i32(4)?.cast_unsigned()),
            args.fields(5)?,
        ),
    };
    expect_members(ctx, &target, &action).await?;
    let EntryKey {
        table,
        key,
        priority,
    } = target.entry_key(&args.all_fields(3)?, options)?;
    let code = code_of_action(&action);
    let entry = TableEntry::new(key.clone(), priority, action);
    let client_data = ClientData::default();
    let insert = Operation::Entry(EntryUpdate::Insert {
        table,
        entry,
        client_data,
    });
    let handle = move |switch: &dataplane::Switch| switch.entry_handle(table, &key, priority);
    let (result, handle) = ctx.write_and_read(target.pipeline, insert, handle).await?;
    result.map_err(declared(code))?;
    match handle {
        Some(handle) => Ok(Answer::I32(handle.0.cast_signed())),
        None => refuse(
            TableCode::Error,
            "the entry's position is too high for a handle".into(),
        ),
    }
}

/// Like BMv2, refuses an empty group as an action.
async fn expect_members(
    ctx: &Context,
    target: &Target,
    action: &TableAction,
) -> Result<(), Refusal> {
    let (TableAction::Group(id), Some(profile)) = (action, target.info().action_profile) else {
        return Ok(());
    };
    let id = *id;
    let group = move |switch: &dataplane::Switch| {
        let groups = switch.groups(profile);
        groups.into_iter().find(|group| group.id == id)
    };
    match ctx.read_first(&target.pipeline, group).await? {
        None => refuse(TableCode::InvalidGroupHandle, format!("no group {id}")),
        Some(group) if group.members.is_empty() => refuse(
            TableCode::EmptyGroup,
            format!("the group {id} has no members"),
        ),
        Some(_) => Ok(()),
    }
}

fn set_default_operation(target: &Target, action: Option<TableAction>) -> Operation {
    Operation::DefaultAction {
        table: target.id,
        action,
        client_data: ClientData::default(),
    }
}

async fn write_default(ctx: &Context, target: Target, action: Option<TableAction>) -> Answered {
    let of_action = action.as_ref().map(code_of_action);
    let code = move |kind| match (kind, &of_action) {
        (ControlErrorKind::PermissionDenied, _) => TableCode::DefaultEntryIsConst,
        (ControlErrorKind::InvalidArgument, _) => TableCode::BadActionData,
        (kind, Some(code)) => code(kind),
        (kind, None) => code(kind),
    };
    let operation = set_default_operation(&target, action);
    let result = ctx.write(target.pipeline, operation).await?;
    result.map_err(declared(code))?;
    Ok(Answer::Void)
}

async fn set_default_action(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?.expect(&[Kind::Direct])?;
    let call = target.call(args.text(3)?, &args.all_bytes(4)?)?;
    write_default(ctx, target, Some(TableAction::Call(call))).await
}

async fn set_default(ctx: &Context, args: Args<'_>, action: fn(u32) -> TableAction) -> Answered {
    let action = action(args.i32(3)?.cast_unsigned());
    let target = Target::of(ctx, args)?.expect(kinds_of(&action))?;
    expect_members(ctx, &target, &action).await?;
    write_default(ctx, target, Some(action)).await
}

fn kinds_of(action: &TableAction) -> &'static [Kind] {
    match action {
        TableAction::Group(_) => &[Kind::WithSelector],
        TableAction::Member(_) => &[Kind::Indirect, Kind::WithSelector],
        _ => &[Kind::Direct],
    }
}

async fn reset_default(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    write_default(ctx, target, None).await
}

/// What a handle refers to. For an entry's counter, meter or timeout, BMv2 uses only the position in the handle,
/// whichever entry is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    TheEntry,
    ThePlace,
}

/// Finds the entry of a handle, and sums the counts of all workers.
async fn find(
    device: &control::Device,
    target: &Target,
    handle: i32,
    means: Means,
) -> Result<(EntryHandle, TableEntry), Refusal> {
    let handle = EntryHandle(handle.cast_unsigned());
    let (table, place) = (target.id, handle.place());
    let read =
        move |switch: &dataplane::Switch| switch.entries_with_handles_in(table, place..place + 1);
    let all = device.read(&target.pipeline, 1, read).await?;
    let found = together(all).into_iter().next();
    let (code, what) = match found {
        Some(found) if means == Means::ThePlace || found.0 == handle => return Ok(found),
        Some(_) => (TableCode::ExpiredHandle, "the entry of the handle"),
        None => (TableCode::InvalidHandle, "an entry of the handle"),
    };
    let message = format!(
        "table \"{}\": {what} {} is not there",
        target.info().name,
        handle.0
    );
    refuse(code, message)
}

/// Merges the workers' copies of the same entries, and sums their counts.
fn together(all: Vec<Vec<(EntryHandle, TableEntry)>>) -> Vec<(EntryHandle, TableEntry)> {
    let mut all = all.into_iter();
    let mut entries = all.next().unwrap_or_default();
    for others in all {
        for ((_, entry), (_, other)) in entries.iter_mut().zip(others) {
            entry.counter.packets = entry.counter.packets.wrapping_add(other.counter.packets);
            entry.counter.bytes = entry.counter.bytes.wrapping_add(other.counter.bytes);
            entry.since_last_hit_ns = entry.since_last_hit_ns.min(other.since_last_hit_ns);
        }
    }
    entries
}

/// Visits all entries of a table by position. The caller must have exclusive access or block writes.
async fn each_part(
    device: &control::Device,
    target: &Target,
    mut each: impl FnMut(EntryHandle, TableEntry) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let (table, step) = (target.id, control::limits::ENTRIES_PER_VISIT);
    for first in (0..).step_by(step) {
        let part = move |switch: &dataplane::Switch| {
            let is_end = first + step >= switch.entry_places(table);
            (
                switch.entries_with_handles_in(table, first..first + step),
                is_end,
            )
        };
        let parts = device.read(&target.pipeline, step, part).await?;
        let is_end = parts.iter().all(|(_, is_end)| *is_end);
        let entries = together(parts.into_iter().map(|(entries, _)| entries).collect());
        for (handle, entry) in entries {
            each(handle, entry)?;
        }
        if is_end {
            break;
        }
    }
    Ok(())
}

async fn at_handle(
    ctx: &Context,
    target: Target,
    handle: i32,
    means: Means,
    code: impl Fn(ControlErrorKind) -> TableCode + Send + 'static,
    operation: impl FnOnce(&Target, TableEntry) -> Operation + Send + 'static,
) -> Answered {
    let call = move |exclusive: Exclusive| async move {
        let (_, entry) = find(exclusive.device(), &target, handle, means).await?;
        let operation = operation(&target, entry);
        let written = write_all(exclusive, &target.pipeline, vec![operation]).await?;
        written.map_err(declared(code))
    };
    ctx.exclusively(call).await?;
    Ok(Answer::Void)
}

async fn delete(ctx: &Context, args: Args<'_>, kinds: &[Kind]) -> Answered {
    let target = Target::of(ctx, args)?.expect(kinds)?;
    let handle = args.i32(3)?;
    let delete = |target: &Target, entry: TableEntry| {
        Operation::Entry(EntryUpdate::Delete(key_of(target, &entry)))
    };
    at_handle(ctx, target, handle, Means::TheEntry, code, delete).await
}

async fn modify_action(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?.expect(&[Kind::Direct])?;
    let call = target.call(args.text(4)?, &args.all_bytes(5)?)?;
    write_action(ctx, target, args.i32(3)?, TableAction::Call(call)).await
}

async fn modify(ctx: &Context, args: Args<'_>, action: fn(u32) -> TableAction) -> Answered {
    let action = action(args.i32(4)?.cast_unsigned());
    let target = Target::of(ctx, args)?.expect(kinds_of(&action))?;
    expect_members(ctx, &target, &action).await?;
    write_action(ctx, target, args.i32(3)?, action).await
}

async fn write_action(ctx: &Context, target: Target, handle: i32, action: TableAction) -> Answered {
    let code = code_of_action(&action);
    let modify = move |target: &Target, entry: TableEntry| {
        let timeout = entry.idle_timeout_ns;
        changed_action(target, entry, action, timeout)
    };
    at_handle(ctx, target, handle, Means::TheEntry, code, modify).await
}

/// Makes the operation that changes an entry's action and idle timeout. The entry keeps the client data that another
/// protocol's client stores with it.
fn changed_action(
    target: &Target,
    entry: TableEntry,
    action: TableAction,
    idle_timeout_ns: u64,
) -> Operation {
    let key = key_of(target, &entry);
    let client_data = target.pipeline.client_data().entry(&key);
    let change = EntryChange {
        action: Some(NewAction {
            action,
            idle_timeout_ns,
            client_data,
        }),
        ..EntryChange::default()
    };
    Operation::Entry(EntryUpdate::Modify(key, change))
}

async fn set_ttl(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    if !target.info().has_idle_timeout {
        let message = format!("table \"{}\" has no timeouts", target.info().name);
        return refuse(TableCode::AgeingDisabled, message);
    }
    let timeout_ns = u64::from(args.i32(4)?.cast_unsigned()) * NS_PER_MS;
    let set = move |target: &Target, entry: TableEntry| {
        let action = entry.action.clone();
        changed_action(target, entry, action, timeout_ns)
    };
    at_handle(ctx, target, args.i32(3)?, Means::ThePlace, code, set).await
}

async fn entries(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let _long = ctx.long_calls.acquire().await;
    let reading = ctx.device.reading().await?;
    let (mut writer, mut n_entries) = (Writer::default(), 0);
    each_part(&ctx.device, &target, |handle, entry| {
        bmv2_entry(&target, handle, &entry).write(&mut writer);
        n_entries += 1;
        expect_room(&writer)
    })
    .await?;
    drop(reading);
    Ok(Answer::list(Type::Struct, n_entries, &writer))
}

async fn entry(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let (handle, entry) = find(&ctx.device, &target, args.i32(3)?, Means::TheEntry).await?;
    Ok(entry_answer(&target, handle, &entry))
}

fn entry_answer(target: &Target, handle: EntryHandle, entry: &TableEntry) -> Answer {
    Answer::structure(&bmv2_entry(target, handle, entry))
}

async fn entry_from_key(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let params = args.all_fields(3)?;
    if params.is_empty() {
        return only_default(ctx, &target).await;
    }
    let EntryKey {
        table,
        key,
        priority,
    } = target.entry_key(&params, args.fields(4)?)?;
    let handle = move |switch: &dataplane::Switch| switch.entry_handle(table, &key, priority);
    match ctx.read_first(&target.pipeline, handle).await? {
        Some(handle) => {
            let handle = handle.0.cast_signed();
            let (handle, entry) = find(&ctx.device, &target, handle, Means::TheEntry).await?;
            Ok(entry_answer(&target, handle, &entry))
        }
        None => {
            let message = format!("table \"{}\" has no such entry", target.info().name);
            refuse(TableCode::BadMatchKey, message)
        }
    }
}

/// BMv2's answer for an empty key: an entry of zeros with the default action.
async fn only_default(ctx: &Context, target: &Target) -> Answered {
    let action = default_action(ctx, target).await?;
    Ok(Answer::structure(&Entry {
        key: Vec::new(),
        options: Options::default(),
        handle: 0,
        action: action_entry(&target.pipeline, action.as_ref()),
        life: None,
    }))
}

async fn default_action(ctx: &Context, target: &Target) -> Result<Option<TableAction>, Refusal> {
    let table = target.id;
    ctx.read_first(&target.pipeline, move |switch| switch.default_action(table))
        .await
}

async fn default_entry(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    let action = default_action(ctx, &target).await?;
    let entry = action_entry(&target.pipeline, action.as_ref());
    Ok(Answer::structure(&entry))
}

fn bmv2_entry(target: &Target, handle: EntryHandle, entry: &TableEntry) -> Entry {
    let info = target.info();
    let priority = Some(key::bmv2_priority(info, entry.priority));
    let life = Life {
        timeout_ms: millis(entry.idle_timeout_ns),
        since_hit_ms: millis(entry.since_last_hit_ns),
    };
    Entry {
        key: key::params(info, &entry.key),
        options: Options { priority },
        handle: handle.0.cast_signed(),
        action: action_entry(&target.pipeline, Some(&entry.action)),
        life: (entry.idle_timeout_ns != 0).then_some(life),
    }
}

fn millis(ns: u64) -> i32 {
    i32::try_from(ns / NS_PER_MS).unwrap_or(i32::MAX)
}

/// The action of an entry. A one-shot group, which only P4Runtime makes, has no handle and is shown with the handle -1.
fn action_entry(pipeline: &Pipeline, action: Option<&TableAction>) -> ActionEntry {
    const ONE_SHOT: i32 = -1;
    match action {
        None => ActionEntry::Empty,
        Some(TableAction::Call(call)) => {
            let (name, args) = name_and_args(pipeline, call);
            ActionEntry::Call(name, args)
        }
        Some(TableAction::Member(id)) => ActionEntry::Member(id.cast_signed()),
        Some(TableAction::Group(id)) => ActionEntry::Group(id.cast_signed()),
        Some(TableAction::OneShot(_)) => ActionEntry::Group(ONE_SHOT),
    }
}

/// An action's name and arguments. Secret arguments become zeros.
pub(super) fn name_and_args(pipeline: &Pipeline, call: &ActionCall) -> (String, Vec<Vec<u8>>) {
    let info = pipeline.program().action_info(call.action);
    let name = info.map_or_else(String::new, |info| info.name.clone());
    let params = info.into_iter().flat_map(|info| &info.params);
    let are_secret = params.map(|param| param.is_secret);
    let args = call.args.iter().zip(are_secret);
    let args = args.map(|(arg, is_secret)| if is_secret { vec![0] } else { arg.clone() });
    (name, args.collect())
}

fn expect_counters(target: &Target) -> Result<(), Refusal> {
    if target.info().with_counters {
        return Ok(());
    }
    let message = format!("table \"{}\" has no direct counter", target.info().name);
    refuse(TableCode::CountersDisabled, message)
}

async fn read_counter(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    expect_counters(&target)?;
    let (_, entry) = find(&ctx.device, &target, args.i32(3)?, Means::ThePlace).await?;
    Ok(counter_answer(entry.counter))
}

pub(super) fn counter_answer(value: CounterValue) -> Answer {
    Answer::structure(&message::CounterValue {
        bytes: value.bytes.cast_signed(),
        packets: value.packets.cast_signed(),
    })
}

pub(super) fn counter_value(args: Option<Args<'_>>) -> Result<CounterValue, Refusal> {
    let Some(args) = args else {
        return Ok(CounterValue::default());
    };
    let value = message::CounterValue::read(args)?;
    Ok(CounterValue {
        bytes: value.bytes.cast_unsigned(),
        packets: value.packets.cast_unsigned(),
    })
}

fn counter_change(target: &Target, entry: &TableEntry, value: CounterValue) -> Operation {
    let change = EntryChange {
        counter: Some(value),
        ..EntryChange::default()
    };
    Operation::Entry(EntryUpdate::Modify(key_of(target, entry), change))
}

async fn write_counter(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    expect_counters(&target)?;
    let value = counter_value(args.fields(4)?)?;
    let write = move |target: &Target, entry: TableEntry| counter_change(target, &entry, value);
    at_handle(ctx, target, args.i32(3)?, Means::ThePlace, code, write).await
}

async fn reset_counters(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    expect_counters(&target)?;
    let call = move |exclusive: Exclusive| async move {
        let mut operations = Vec::new();
        each_part(exclusive.device(), &target, |_, entry| {
            operations.push(counter_change(&target, &entry, CounterValue::default()));
            Ok(())
        })
        .await?;
        let written: OperationResult = write_all(exclusive, &target.pipeline, operations).await?;
        written.map_err(declared(code))
    };
    ctx.exclusively(call).await?;
    Ok(Answer::Void)
}

fn expect_meters(target: &Target) -> Result<(), Refusal> {
    if target.pipeline.program().direct_meter(target.id).is_some() {
        return Ok(());
    }
    let message = format!("table \"{}\" has no direct meter", target.info().name);
    refuse(TableCode::MetersDisabled, message)
}

async fn set_meter_rates(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    expect_meters(&target)?;
    let rates = meters::rates(args.all_fields(4)?);
    let config = rates?.map_err(|(_, message)| Exception::new(TableCode::Error, message))?;
    let set = move |target: &Target, entry: TableEntry| meter_change(target, &entry, config);
    let code = |kind| match kind {
        ControlErrorKind::InvalidArgument => TableCode::Error,
        kind => code(kind),
    };
    at_handle(ctx, target, args.i32(3)?, Means::ThePlace, code, set).await
}

/// The direct meters of a table, as an array whose index is the entry's position. BMv2 offers such an array too.
pub(super) struct EntryMeters(Target);

impl EntryMeters {
    /// The meters of the table whose direct meter has this name.
    pub(super) fn named(pipeline: &Arc<Pipeline>, name: &str) -> Option<Self> {
        let program = pipeline.program();
        let is_it = |id: &TableId| {
            program
                .direct_meter(*id)
                .is_some_and(|(found, _)| found == name)
        };
        let id = program.tables().map(|(id, _)| id).find(is_it)?;
        let pipeline = Arc::clone(pipeline);
        Some(Self(Target { pipeline, id }))
    }

    /// Sets the meters at some positions, or all if `places` is `None`. A position without an entry is skipped, since a
    /// new entry starts without rates.
    pub(super) async fn set(
        self,
        ctx: &Context,
        places: Option<Range<u64>>,
        config: MeterConfig,
        code: impl Fn(ControlErrorKind) -> MeterCode + Send + 'static,
    ) -> Answered {
        let target = self.0;
        let call = move |exclusive: Exclusive| async move {
            let mut operations = Vec::new();
            each_part(exclusive.device(), &target, |handle, entry| {
                let place = handle.place() as u64;
                if places.as_ref().is_none_or(|places| places.contains(&place)) {
                    operations.push(meter_change(&target, &entry, config));
                }
                Ok(())
            })
            .await?;
            let written: OperationResult =
                write_all(exclusive, &target.pipeline, operations).await?;
            written.map_err(declared(code))
        };
        ctx.exclusively(call).await?;
        Ok(Answer::Void)
    }

    pub(super) async fn get(
        &self,
        ctx: &Context,
        place: u64,
    ) -> Result<Option<MeterConfig>, Refusal> {
        let mut found = None;
        each_part(&ctx.device, &self.0, |handle, entry| {
            if handle.place() as u64 == place {
                found = entry.meter;
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }

    pub(super) fn size(&self) -> u64 {
        self.0.info().size as u64
    }
}

fn meter_change(target: &Target, entry: &TableEntry, config: MeterConfig) -> Operation {
    let change = EntryChange {
        meter: Some(Some(config)),
        ..EntryChange::default()
    };
    Operation::Entry(EntryUpdate::Modify(key_of(target, entry), change))
}

async fn meter_rates(ctx: &Context, args: Args<'_>) -> Answered {
    let target = Target::of(ctx, args)?;
    expect_meters(&target)?;
    let (_, entry) = find(&ctx.device, &target, args.i32(3)?, Means::ThePlace).await?;
    Ok(meters::rates_answer(entry.meter))
}
