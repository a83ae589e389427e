//! Mutates the structure of a BMv2 JSON file.

use fastrand::Rng;
use serde_json::{Value, json};

fn pointers(value: &Value, here: &mut String, out: &mut Vec<String>) {
    let length = here.len();
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                here.push_str(&format!("/{at}"));
                out.push(here.clone());
                pointers(item, here, out);
                here.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                here.push('/');
                here.push_str(&key.replace('~', "~0").replace('/', "~1"));
                out.push(here.clone());
                pointers(item, here, out);
                here.truncate(length);
            }
        }
        _ => {}
    }
}

fn extreme(rng: &mut Rng) -> Value {
    match rng.u32(..12) {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(1),
        3 => json!(u32::MAX),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!(1e300),
        7 => json!(rng.u32(..100)),
        8 => json!(format!("0x{}", "f".repeat(rng.usize(..5_000)))),
        9 => json!("0x"),
        10 => json!("-0x1"),
        _ => json!(1_u64 << rng.u32(..63)),
    }
}

fn other_type(rng: &mut Rng, value: &Value) -> Value {
    match rng.u32(..8) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(""),
        3 => json!([value]),
        4 => json!({ "type": "expression", "value": value }),
        5 => json!([]),
        6 => json!({}),
        _ => json!({ "type": "hexstr", "value": "0x1" }),
    }
}

/// Nests an expression up to 120 times.
fn nest(rng: &mut Rng, value: &Value) -> Value {
    let mut value = value.clone();
    for _ in 0..rng.usize(..120) {
        value = match rng.u32(..3) {
            0 => json!({ "type": "expression", "value": value }),
            1 => {
                json!({ "type": "expression", "value": { "op": "+", "left": value, "right": { "type": "hexstr", "value": "0x1" } } })
            }
            _ => json!({ "op": "~", "left": null, "right": value }),
        };
    }
    value
}

/// Changes one to four values of the file. A change removes, duplicates, swaps, nests or replaces a value, or takes the
/// value from another file.
pub fn mutate(rng: &mut Rng, value: &mut Value, other: &Value) {
    for _ in 0..=rng.usize(..4) {
        let mut places = Vec::new();
        pointers(value, &mut String::new(), &mut places);
        if places.is_empty() {
            return;
        }
        let place = places[rng.usize(..places.len())].clone();
        let second = places[rng.usize(..places.len())].clone();
        match rng.u32(..10) {
            0 | 1 => remove(value, &place),
            2 => double(value, &place),
            3 | 4 => replace(value, &place, |_| extreme(rng)),
            5 => replace(value, &place, |old| other_type(rng, old)),
            6 => replace(value, &place, |old| nest(rng, old)),
            7 => {
                // The new value is a value with the same key from elsewhere in the file, so that ids and names are
                // confused.
                let alike = same_key(&places, &place, rng).unwrap_or(second);
                let from = value.pointer(&alike).cloned().unwrap_or_default();
                replace(value, &place, |_| from);
            }
            8 => {
                let a = value.pointer(&place).cloned().unwrap_or_default();
                let b = value.pointer(&second).cloned().unwrap_or_default();
                replace(value, &place, |_| b);
                replace(value, &second, |_| a);
            }
            _ => {
                let mut theirs = Vec::new();
                pointers(other, &mut String::new(), &mut theirs);
                let from = same_key(&theirs, &place, rng).and_then(|at| other.pointer(&at));
                if let Some(from) = from.cloned() {
                    replace(value, &place, |_| from);
                }
            }
        }
    }
}

fn same_key(places: &[String], like: &str, rng: &mut Rng) -> Option<String> {
    let key = like.rsplit('/').next()?;
    let alike: Vec<&String> = places
        .iter()
        .filter(|place| place.rsplit('/').next() == Some(key))
        .collect();
    rng.choice(alike).cloned()
}

fn replace(value: &mut Value, place: &str, with: impl FnOnce(&Value) -> Value) {
    if let Some(slot) = value.pointer_mut(place) {
        *slot = with(slot);
    }
}

/// Returns the array or object that contains the value at the JSON pointer `place`, and the value's key in that array
/// or object.
fn holder<'v>(value: &'v mut Value, place: &str) -> Option<(&'v mut Value, String)> {
    let (parent, key) = place.rsplit_once('/')?;
    let key = key.replace("~1", "/").replace("~0", "~");
    value.pointer_mut(parent).map(|parent| (parent, key))
}

fn remove(value: &mut Value, place: &str) {
    match holder(value, place) {
        Some((Value::Object(fields), key)) => drop(fields.remove(&key)),
        Some((Value::Array(items), key)) => {
            if let Some(at) = key.parse().ok().filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

fn double(value: &mut Value, place: &str) {
    if let Some((Value::Array(items), key)) = holder(value, place)
        && let Some(item) = key
            .parse()
            .ok()
            .and_then(|at: usize| items.get(at))
            .cloned()
    {
        items.push(item);
    }
}
