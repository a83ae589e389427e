//! Mutates messages so that they resemble messages of faulty or malicious clients. At any depth, protobuf fields are
//! removed, duplicated, swapped or filled with extreme values, and bytes are changed.

use fastrand::Rng;

/// The maximum depth of nested fields. No valid message is that deep.
const DEPTH_MAX: usize = 12;
const EXTREMES: [u64; 9] = [
    0,
    1,
    127,
    255,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

#[derive(Debug, Clone)]
pub struct Field {
    number: u64,
    value: Value,
}

/// A value of a field, by wire type.
#[derive(Debug, Clone)]
pub enum Value {
    /// Type 0.
    Varint(u64),
    /// Type 1.
    Eight([u8; 8]),
    /// Type 2: bytes, text or a message.
    Bytes(Vec<u8>),
    /// Type 5.
    Four([u8; 4]),
}

/// Changes some of a message's fields or bytes.
pub fn mutated(rng: &mut Rng, message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for _ in 0..rng.usize(1..4) {
        bytes = match rng.u8(..3) {
            0 => mutated_bytes(rng, bytes),
            _ => mutated_fields(rng, &bytes, 0),
        };
    }
    bytes
}

/// Truncates, inserts, appends or changes bytes.
pub fn mutated_bytes(rng: &mut Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    match rng.u8(..5) {
        0 => bytes.truncate(rng.usize(..=bytes.len())),
        1 => bytes.insert(rng.usize(..=bytes.len()), rng.u8(..)),
        2 => bytes.extend((0..rng.usize(..64)).map(|_| rng.u8(..))),
        _ if bytes.is_empty() => bytes.push(rng.u8(..)),
        kind => {
            let place = rng.usize(..bytes.len());
            bytes[place] = match kind {
                3 => rng.u8(..),
                _ => bytes[place] ^ 1 << rng.u8(..8),
            };
        }
    }
    bytes
}

/// Changes, duplicates or removes a field, often within a nested message.
pub fn mutated_fields(rng: &mut Rng, bytes: &[u8], depth: usize) -> Vec<u8> {
    let Some(mut fields) = parse(bytes).filter(|fields| !fields.is_empty()) else {
        return mutated_bytes(rng, bytes.to_vec());
    };
    let place = rng.usize(..fields.len());
    // In most cases a nested field is changed, since an error at the top level hides all other errors.
    if let Value::Bytes(within) = &fields[place].value
        && depth < DEPTH_MAX
        && rng.u8(..4) > 0
    {
        let within = mutated_fields(rng, within, depth + 1);
        fields[place].value = Value::Bytes(within);
        return write(&fields);
    }
    let other = rng.usize(..fields.len());
    match rng.u8(..6) {
        0 => drop(fields.remove(place)),
        1 => fields.insert(place, fields[place].clone()),
        2 => fields.swap(place, other),
        3 => fields[place].number = rng.u64(1..20),
        4 => fields[place].value = fields[other].value.clone(),
        _ => fields[place].value = extreme(rng, &fields[place].value),
    }
    write(&fields)
}

fn extreme(rng: &mut Rng, value: &Value) -> Value {
    match value {
        Value::Varint(_) => Value::Varint(rng.choice(EXTREMES).unwrap_or(0)),
        Value::Eight(_) => Value::Eight([rng.u8(..); 8]),
        Value::Four(_) => Value::Four([rng.u8(..); 4]),
        Value::Bytes(_) => {
            let n_bytes = rng.choice([0, 1, 2, 8, 9, 17, 300, 70_000]).unwrap_or(0);
            Value::Bytes(vec![
                rng.choice([0, 0xff, 0x41, 0x80]).unwrap_or(0);
                n_bytes
            ])
        }
    }
}

/// Returns the fields of a message, or `None` if the bytes are not a message.
pub fn parse(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = take_varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Value::Varint(take_varint(&mut bytes)?),
            1 => Value::Eight(take(&mut bytes, 8)?.try_into().ok()?),
            2 => {
                let n_bytes = usize::try_from(take_varint(&mut bytes)?).ok()?;
                Value::Bytes(take(&mut bytes, n_bytes)?.to_vec())
            }
            5 => Value::Four(take(&mut bytes, 4)?.try_into().ok()?),
            _ => return None,
        };
        let number = tag >> 3;
        fields.push(Field { number, value });
    }
    Some(fields)
}

fn take<'a>(bytes: &mut &'a [u8], n_bytes: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(n_bytes)?;
    *bytes = rest;
    Some(first)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(bytes, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub fn write(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field { number, value } in fields {
        match value {
            Value::Varint(value) => {
                put_varint(&mut bytes, number << 3);
                put_varint(&mut bytes, *value);
            }
            Value::Eight(value) => {
                put_varint(&mut bytes, number << 3 | 1);
                bytes.extend(value);
            }
            Value::Bytes(value) => {
                put_varint(&mut bytes, number << 3 | 2);
                put_varint(&mut bytes, value.len() as u64);
                bytes.extend(value);
            }
            Value::Four(value) => {
                put_varint(&mut bytes, number << 3 | 5);
                bytes.extend(value);
            }
        }
    }
    bytes
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
