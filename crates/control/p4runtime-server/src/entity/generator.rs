//! `ExternEntry`: the switch's packet generators.
//!
//! A generator is an instance of an extern type that every pipeline has on this target. No program declares the type,
//! and no P4Info lists it. The type's number is one of those that P4Runtime leaves to architectures. The entry is a
//! `google.protobuf.Struct`, so that a client needs no protobuf message of this project. Source: P4Runtime 1.5.0,
//! "ExternEntry" and "ID Allocation for P4Info Objects"; docs/p4runtime.md lists the members.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control::{GeneratorUpdate, Operation};
use dataplane::{
    GeneratorChange, GeneratorConfig, GeneratorCounters, GeneratorState, GeneratorStatus, Pace,
    PortId, limits,
};
use p4runtime_proto::p4::v1;
use p4runtime_proto::p4::v1::update::Type;
use prost::Message;
use prost_types::value::Kind as Value;
use prost_types::{Any, ListValue, Struct};

use super::unset;
use crate::error::{EntityError, EntityResult};

/// The extern type of packet generators: the first number that P4Runtime leaves to architectures
/// (`P4Ids.OTHER_EXTERNS_START`).
const EXTERN_TYPE: u32 = 0x81;

/// The number of bits below the type in an extern's id.
const NUMBER_BITS: u32 = 24;

/// The last part of the type URL.
const STRUCT: &str = "google.protobuf.Struct";

/// 2^53: a double holds every smaller whole number exactly.
const EXACT_NUMBERS: f64 = 9_007_199_254_740_992.0;

/// Members that can be read but not written.
const COUNTED: [&str; 5] = ["state", "sent", "dropped", "late", "late_max_ns"];

pub(super) fn operation(kind: Type, entry: &v1::ExternEntry) -> EntityResult<Operation> {
    expect_type(entry.extern_type_id)?;
    let id = number(entry.extern_id)?;
    if kind == Type::Delete {
        return Ok(Operation::Generator(GeneratorUpdate::Delete(id)));
    }
    let change = change(entry)?;
    if kind == Type::Modify {
        return Ok(Operation::Generator(GeneratorUpdate::Modify(id, change)));
    }
    let runs = change.runs.unwrap_or(false);
    let config = config(id, change)?;
    Ok(Operation::Generator(GeneratorUpdate::Insert {
        id,
        config,
        runs,
    }))
}

/// The generator that a Read requests. `None` means all.
pub(crate) fn wanted(request: &v1::ExternEntry) -> EntityResult<Option<u32>> {
    if request.extern_type_id != 0 {
        expect_type(request.extern_type_id)?;
    }
    match request.extern_id {
        0 => Ok(None),
        id => number(id).map(Some),
    }
}

pub(crate) fn to_proto(status: GeneratorStatus) -> v1::ExternEntry {
    let GeneratorStatus {
        id,
        config,
        state,
        counters,
    } = status;
    let GeneratorCounters {
        sent,
        dropped,
        late,
        late_max_ns,
    } = counters;
    let frames = config.frames.iter();
    let frames = frames.map(|frame| Value::StringValue(STANDARD.encode(frame)));
    let (pace, frames_or_ns) = match config.pace {
        Pace { frames: 1, per_ns } => ("period_ns", per_ns),
        Pace { frames, .. } => ("rate_pps", frames),
    };
    let members = [
        ("name", Value::StringValue(config.name)),
        ("port", whole(config.port.0.into())),
        ("frames", list(frames)),
        (pace, whole(frames_or_ns)),
        ("count", config.count.map_or(Value::NullValue(0), whole)),
        (
            "running",
            Value::BoolValue(state == GeneratorState::Running),
        ),
        ("state", Value::StringValue(state.name().to_owned())),
        ("sent", whole(sent)),
        ("dropped", whole(dropped)),
        ("late", whole(late)),
        ("late_max_ns", whole(late_max_ns)),
    ];
    let value = |kind| prost_types::Value { kind: Some(kind) };
    let members = members.map(|(name, kind)| (name.to_owned(), value(kind)));
    let entry = Struct {
        fields: members.into_iter().collect(),
    };
    v1::ExternEntry {
        extern_type_id: EXTERN_TYPE,
        extern_id: EXTERN_TYPE << NUMBER_BITS | id,
        entry: Some(Any {
            type_url: format!("type.googleapis.com/{STRUCT}"),
            value: entry.encode_to_vec(),
        }),
    }
}

fn list(kinds: impl Iterator<Item = Value>) -> Value {
    let values = kinds.map(|kind| prost_types::Value { kind: Some(kind) });
    Value::ListValue(ListValue {
        values: values.collect(),
    })
}

/// Encodes a whole number as a double, or as a decimal string if a double does not hold it exactly.
fn whole(number: u64) -> Value {
    let double = number as f64;
    if double < EXACT_NUMBERS {
        Value::NumberValue(double)
    } else {
        Value::StringValue(number.to_string())
    }
}

fn expect_type(found: u32) -> EntityResult {
    if found == EXTERN_TYPE {
        return Ok(());
    }
    Err(EntityError::not_found(format!(
        "expected the extern type {EXTERN_TYPE:#x}, packet generators, the only one on this switch, found {found:#x}"
    )))
}

fn number(id: u32) -> EntityResult<u32> {
    let number = id & ((1 << NUMBER_BITS) - 1);
    if id >> NUMBER_BITS == EXTERN_TYPE && number != 0 {
        return Ok(number);
    }
    let base = EXTERN_TYPE << NUMBER_BITS;
    Err(EntityError::invalid(format!(
        "expected an extern id from {:#x} (generator 1) to {:#x}, found {id:#x}",
        base | 1,
        base | ((1 << NUMBER_BITS) - 1)
    )))
}

/// Decodes an entry, which may have only some members.
fn change(entry: &v1::ExternEntry) -> EntityResult<GeneratorChange> {
    let any = entry.entry.as_ref().ok_or_else(|| unset("entry"))?;
    let url = &any.type_url;
    if url.rsplit('/').next() != Some(STRUCT) {
        return Err(EntityError::invalid(format!(
            "entry: expected a {STRUCT}, found \"{url}\""
        )));
    }
    let members = Struct::decode(&*any.value).map_err(|error| {
        EntityError::invalid(format!("entry: expected a {STRUCT} as bytes: {error}"))
    })?;
    let mut change = GeneratorChange::default();
    for (name, value) in &members.fields {
        let kind = value.kind.as_ref().ok_or_else(|| unset(name))?;
        read_member(&mut change, name, kind)?;
    }
    let is_given = |name: &str| members.fields.contains_key(name);
    if is_given("period_ns") && is_given("rate_pps") {
        return Err(EntityError::invalid(
            "expected period_ns or rate_pps, found both",
        ));
    }
    Ok(change)
}

fn read_member(change: &mut GeneratorChange, name: &str, kind: &Value) -> EntityResult {
    match (name, kind) {
        ("name", Value::StringValue(text)) => change.name = Some(text.clone()),
        ("port", kind) => change.port = Some(port(kind)?),
        ("frames", Value::ListValue(list)) => change.frames = Some(frames(list)?),
        ("period_ns", kind) => change.pace = Some(Pace::every(number_of(name, kind)?)),
        ("rate_pps", kind) => change.pace = Some(Pace::per_second(number_of(name, kind)?)),
        ("count", Value::NullValue(_)) => change.count = Some(None),
        ("count", kind) => change.count = Some(Some(number_of(name, kind)?)),
        ("running", Value::BoolValue(runs)) => change.runs = Some(*runs),
        ("name", other) => return Err(unexpected(name, "a string", other)),
        ("frames", other) => return Err(unexpected(name, "a list of base64 strings", other)),
        ("running", other) => return Err(unexpected(name, "true or false", other)),
        (name, _) if COUNTED.contains(&name) => {
            return Err(EntityError::invalid(format!(
                "{name} cannot be written, since the switch determines it: leave it out"
            )));
        }
        (name, _) => {
            return Err(EntityError::invalid(format!(
                "expected name, port, frames, period_ns, rate_pps, count or running, found \"{name}\""
            )));
        }
    }
    Ok(())
}

fn config(id: u32, change: GeneratorChange) -> EntityResult<GeneratorConfig> {
    let missing = |name: &str| EntityError::invalid(format!("generator {id}: {name} is missing"));
    Ok(GeneratorConfig {
        name: change.name.unwrap_or_else(|| format!("generator {id}")),
        port: change.port.ok_or_else(|| missing("port"))?,
        frames: change.frames.ok_or_else(|| missing("frames"))?,
        pace: change
            .pace
            .ok_or_else(|| missing("period_ns or rate_pps"))?,
        count: change.count.flatten(),
    })
}

fn port(kind: &Value) -> EntityResult<PortId> {
    let number = number_of("port", kind)?;
    let max = limits::PORT_ID_MAX;
    let port = u16::try_from(number).ok().filter(|port| *port <= max);
    port.map(PortId)
        .ok_or_else(|| EntityError::invalid(format!("port: expected 0 to {max}, found {number}")))
}

fn frames(list: &ListValue) -> EntityResult<Arc<[Box<[u8]>]>> {
    let mut frames = Vec::with_capacity(list.values.len());
    for (place, value) in (1..).zip(&list.values) {
        let name = format!("frame {place}");
        let text = match &value.kind {
            Some(Value::StringValue(text)) => text,
            Some(other) => return Err(unexpected(&name, "a base64 string", other)),
            None => return Err(unset(&name)),
        };
        let frame = STANDARD
            .decode(text)
            .map_err(|error| EntityError::invalid(format!("{name}: expected base64: {error}")))?;
        frames.push(frame.into_boxed_slice());
    }
    Ok(frames.into())
}

/// Decodes a whole number: an exact double, or a decimal string.
fn number_of(name: &str, kind: &Value) -> EntityResult<u64> {
    let number = match kind {
        Value::NumberValue(number) => {
            let is_exact = number.fract() == 0.0 && (0.0..EXACT_NUMBERS).contains(number);
            is_exact.then_some(*number as u64)
        }
        Value::StringValue(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| unexpected(name, "a whole number", kind))
}

/// The error for a member of the wrong type. Does not repeat long values.
fn unexpected(name: &str, expected: &str, found: &Value) -> EntityError {
    let found = match found {
        Value::NullValue(_) => "null".to_owned(),
        Value::NumberValue(number) => number.to_string(),
        Value::StringValue(text) if text.len() <= 40 => format!("{text:?}"),
        Value::StringValue(_) => "a long string".to_owned(),
        Value::BoolValue(value) => value.to_string(),
        Value::StructValue(_) => "a struct".to_owned(),
        Value::ListValue(_) => "a list".to_owned(),
    };
    EntityError::invalid(format!("{name}: expected {expected}, found {found}"))
}
