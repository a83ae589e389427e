//! `bm_serialize_state`: the state that clients have written, as JSON for people. BMv2 writes this state as a text that
//! only BMv2 itself loads, when it starts. This switch restores its state from its own state file instead.

use std::sync::Arc;

use control::{Cursor, Pipeline, Reading};
use data_encoding::HEXLOWER;
use dataplane::{ActionCall, MatchField, Program, TableAction, TableEntry, TableInfo};
use serde_json::{Map, Value, json};

use crate::call::{Answer, Answered, Refusal};
use crate::context::Context;
use crate::key::hidden;
use bmv2_thrift::limits::ANSWER_BYTES_MAX;

/// Serializes tables with their entries, action profiles, registers, multicast groups and mirroring sessions.
pub(crate) async fn serialize(ctx: &Arc<Context>) -> Answered {
    let _long = ctx.long_calls.acquire().await;
    let reading = ctx.device.reading().await?;
    let pipeline = Arc::clone(reading.pipeline());
    let mut state = Map::new();
    state.insert("tables".into(), tables(&reading, &pipeline).await?);
    state.insert(
        "action_profiles".into(),
        profiles(&reading, &pipeline).await?,
    );
    state.insert("registers".into(), registers(&reading, &pipeline).await?);
    state.insert("multicast_groups".into(), groups(&reading).await?);
    state.insert("mirroring_sessions".into(), sessions(&reading).await?);
    drop(reading);
    let text = Value::Object(state).to_string();
    if text.len() > ANSWER_BYTES_MAX {
        let message = format!("the state is longer than {ANSWER_BYTES_MAX} bytes");
        return Err(Refusal::internal(message));
    }
    Ok(Answer::Bytes(text.into_bytes()))
}

async fn tables(reading: &Reading, pipeline: &Pipeline) -> Result<Value, Refusal> {
    let program = pipeline.program();
    let mut tables = Map::new();
    let shown = program.tables().filter(|(_, info)| !info.is_generated());
    for (id, info) in shown {
        let (mut cursor, mut entries) = (Cursor::ALL, Vec::new());
        while let Some(some) = reading.entries(id, &mut cursor).await? {
            entries.extend(some.iter().map(|entry| entry_json(program, info, entry)));
        }
        let default = reading.default_action(id).await?;
        let default = default.map(|action| action_json(program, &action));
        let table = json!({"entries": entries, "default": default});
        tables.insert(info.name.clone(), table);
    }
    Ok(Value::Object(tables))
}

fn entry_json(program: &Program, info: &TableInfo, entry: &TableEntry) -> Value {
    let key = info.key.iter().zip(&entry.key);
    let key = key.map(|(field, matched)| {
        if field.is_secret {
            match_text(&hidden(matched))
        } else {
            match_text(matched)
        }
    });
    let key: Vec<String> = key.collect();
    json!({
        "key": key,
        "priority": entry.priority,
        "action": action_json(program, &entry.action),
        "packets": entry.counter.packets,
        "bytes": entry.counter.bytes,
        "timeout_ns": entry.idle_timeout_ns,
    })
}

fn hex(bytes: &[u8]) -> String {
    format!("0x{}", HEXLOWER.encode(bytes))
}

/// Writes a match in the notation of simple_switch_CLI.
fn match_text(field: &MatchField) -> String {
    match field {
        MatchField::Exact(value) | MatchField::Optional(Some(value)) => hex(value),
        MatchField::Lpm { value, prefix_len } => format!("{}/{prefix_len}", hex(value)),
        MatchField::Ternary { value, mask } => format!("{}&&&{}", hex(value), hex(mask)),
        MatchField::Range { low, high } => format!("{}->{}", hex(low), hex(high)),
        MatchField::Optional(None) => "*".into(),
    }
}

fn call_json(program: &Program, call: &ActionCall) -> Value {
    let name = program.action_info(call.action).map(|info| &info.name);
    let args: Vec<String> = call.args.iter().map(|arg| hex(arg)).collect();
    json!({"action": name, "args": args})
}

fn action_json(program: &Program, action: &TableAction) -> Value {
    match action {
        TableAction::Call(call) => call_json(program, call),
        TableAction::Member(id) => json!({"member": id}),
        TableAction::Group(id) => json!({"group": id}),
        TableAction::OneShot(calls) => {
            let call = |it: &dataplane::WeightedCall| json!({"weight": it.weight, "call": call_json(program, &it.call)});
            json!({"one_shot": calls.iter().map(call).collect::<Vec<_>>()})
        }
    }
}

async fn profiles(reading: &Reading, pipeline: &Pipeline) -> Result<Value, Refusal> {
    let program = pipeline.program();
    let mut profiles = Map::new();
    for (id, info) in program.action_profiles() {
        let members = reading.members(id).await?;
        let read = move |switch: &dataplane::Switch| switch.groups(id);
        let groups = reading.of_first(read).await?;
        let members = members
            .iter()
            .map(|member| json!({"id": member.id, "call": call_json(program, &member.action)}));
        let groups = groups
            .iter()
            .map(|group| json!({"id": group.id, "members": group.members}));
        let profile = json!({
            "members": members.collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
        });
        profiles.insert(info.name.clone(), profile);
    }
    Ok(Value::Object(profiles))
}

async fn registers(reading: &Reading, pipeline: &Pipeline) -> Result<Value, Refusal> {
    let mut registers = Map::new();
    for (id, name) in pipeline.program().registers() {
        let size = reading
            .of_first(move |switch| switch.register_size(id))
            .await?;
        let (mut cells, mut values) = (0..size, Vec::new());
        while let Some(some) = reading.register_cells(id, &mut cells).await? {
            values.extend(some.iter().map(|value| hex(value)));
        }
        registers.insert(name.to_owned(), json!(values));
    }
    Ok(Value::Object(registers))
}

fn replicas_json(replicas: &[dataplane::Replica]) -> Value {
    let replica = |it: &dataplane::Replica| json!({"port": it.port.0, "rid": it.instance});
    json!(replicas.iter().map(replica).collect::<Vec<_>>())
}

async fn groups(reading: &Reading) -> Result<Value, Refusal> {
    let (mut first, mut all) = (0, Map::new());
    loop {
        let groups = reading.multicast_groups(first).await?;
        let Some(last) = groups.last() else { break };
        first = last.id + 1;
        let groups = groups.iter();
        all.extend(groups.map(|group| (group.id.to_string(), replicas_json(&group.replicas))));
    }
    Ok(Value::Object(all))
}

async fn sessions(reading: &Reading) -> Result<Value, Refusal> {
    let (mut first, mut all) = (0, Map::new());
    loop {
        let sessions = reading.clone_sessions(first).await?;
        let Some(last) = sessions.last() else { break };
        first = last.id + 1;
        let sessions = sessions.iter();
        all.extend(sessions.map(|it| (it.id.to_string(), replicas_json(&it.replicas))));
    }
    Ok(Value::Object(all))
}
