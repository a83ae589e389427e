//! Decodes a complete call or answer.

use super::scan::Bounds;
use super::{Kind, Type, VERSION_1, VERSION_MASK, WireError};
use crate::limits::DEPTH_MAX;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    /// Thrift's type `string`: binary data or text.
    Bytes(Vec<u8>),
    Struct(Fields),
    /// A list or a set.
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

/// The fields of a structure, with their ids, in wire order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(Vec<(i16, Value)>);

impl Fields {
    /// The field with this id. If several fields have this id, the last one wins, as in the code that Thrift generates.
    pub fn get(&self, id: i16) -> Option<&Value> {
        let mut fields = self.0.iter().rev();
        fields.find(|(found, _)| *found == id).map(|(_, it)| it)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The call's name; with multiplexing, `SERVICE:CALL`.
    pub name: String,
    /// `None` if the number of the kind is unknown.
    pub kind: Option<Kind>,
    /// The client's sequence number, which the answer repeats.
    pub number: i32,
    pub fields: Fields,
}

/// Decodes a message. [`super::scan::Scan`] must have found the message's end.
///
/// # Errors
/// The bytes are not a valid message.
pub fn message(bytes: &[u8]) -> Result<Message, WireError> {
    let mut reader = Reader { rest: bytes };
    let (name, kind, number) = reader.head()?;
    let fields = reader.fields(0)?;
    Ok(Message {
        name,
        kind,
        number,
        fields,
    })
}

/// Decodes the fields of a structure.
///
/// # Errors
/// The bytes are not a valid structure.
pub fn structure(bytes: &[u8]) -> Result<Fields, WireError> {
    Reader { rest: bytes }.fields(0)
}

/// Decodes only name and sequence number, for the answer to a malformed call.
pub fn head(bytes: &[u8]) -> Option<(String, i32)> {
    let (name, _, number) = Reader { rest: bytes }.head().ok()?;
    Some((name, number))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, n_bytes: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(n_bytes)
            .ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let bytes = self.bytes(N)?;
        bytes.try_into().map_err(|_| WireError::Short)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    fn name(&mut self, n_bytes: i32) -> Result<String, WireError> {
        let name = self.bytes(Bounds::ANSWERS.length(n_bytes)?)?.to_vec();
        String::from_utf8(name).map_err(|_| WireError::Name)
    }

    fn head(&mut self) -> Result<(String, Option<Kind>, i32), WireError> {
        let first = self.i32()?;
        if first >= 0 {
            let name = self.name(first)?;
            let kind = Kind::of(self.u8()?);
            return Ok((name, kind, self.i32()?));
        }
        let [.., kind] = first.to_be_bytes();
        if first.cast_unsigned() & VERSION_MASK != VERSION_1 {
            return Err(WireError::Version(first.cast_unsigned()));
        }
        let n_bytes = self.i32()?;
        let name = self.name(n_bytes)?;
        Ok((name, Kind::of(kind), self.i32()?))
    }

    fn fields(&mut self, depth: usize) -> Result<Fields, WireError> {
        let mut fields = Vec::new();
        loop {
            let of = self.u8()?;
            if of == 0 {
                return Ok(Fields(fields));
            }
            let of = Type::of(of)?;
            let id = self.array().map(i16::from_be_bytes)?;
            fields.push((id, self.value(of, depth + 1)?));
        }
    }

    fn value(&mut self, of: Type, depth: usize) -> Result<Value, WireError> {
        if depth > DEPTH_MAX {
            return Err(WireError::TooDeep(DEPTH_MAX));
        }
        Ok(match of {
            Type::Bool => Value::Bool(self.u8()? != 0),
            Type::I8 => Value::I8(self.array().map(i8::from_be_bytes)?),
            Type::I16 => Value::I16(self.array().map(i16::from_be_bytes)?),
            Type::I32 => Value::I32(self.i32()?),
            Type::I64 => Value::I64(self.array().map(i64::from_be_bytes)?),
            Type::Double => Value::Double(self.array().map(f64::from_be_bytes)?),
            Type::Bytes => {
                let n_bytes = self.i32()?;
                Value::Bytes(self.bytes(Bounds::ANSWERS.length(n_bytes)?)?.to_vec())
            }
            Type::Struct => Value::Struct(self.fields(depth)?),
            Type::List | Type::Set => Value::List(self.list(depth)?),
            Type::Map => Value::Map(self.map(depth)?),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, WireError> {
        let of = self.u8()?;
        let n_values = Bounds::ANSWERS.count(self.i32()?)?;
        // An empty list may have an invalid type.
        let values = (0..n_values).map(|_| self.value(Type::of(of)?, depth + 1));
        values.collect()
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Value, Value)>, WireError> {
        let (one, other) = (self.u8()?, self.u8()?);
        let n_pairs = Bounds::ANSWERS.count(self.i32()?)?;
        let pairs = (0..n_pairs).map(|_| {
            let key = self.value(Type::of(one)?, depth + 1)?;
            Ok((key, self.value(Type::of(other)?, depth + 1)?))
        });
        pairs.collect()
    }
}
