//! Reads the fields of a call, an answer or a nested structure by their numbers.

use crate::wire::read::{Fields, Value};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {id}: expected {expected}, found {found}")]
pub struct ArgsError {
    id: i16,
    expected: &'static str,
    found: &'static str,
}

/// Fields by their numbers. A missing field reads as zero, as in the code that Thrift generates.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a>(&'a Fields);

fn expected<T>(id: i16, expected: &'static str, found: &Value) -> Result<T, ArgsError> {
    let found = match found {
        Value::Bool(_) => "a bool",
        Value::I8(_) => "an i8",
        Value::I16(_) => "an i16",
        Value::I32(_) => "an i32",
        Value::I64(_) => "an i64",
        Value::Double(_) => "a double",
        Value::Bytes(_) => "a string",
        Value::Struct(_) => "a struct",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    };
    Err(ArgsError {
        id,
        expected,
        found,
    })
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $of:ty, $variant:ident, $zero:expr, $what:literal;)*) => {
        $(
            $(#[$doc])*
            /// # Errors
            /// The field has another type.
            pub fn $name(self, id: i16) -> Result<$of, ArgsError> {
                match self.0.get(id) {
                    None => Ok($zero),
                    Some(Value::$variant(value)) => Ok(*value),
                    Some(found) => expected(id, $what, found),
                }
            }
        )*
    };
}

impl<'a> Args<'a> {
    pub fn new(fields: &'a Fields) -> Self {
        Self(fields)
    }

    pub fn has(self, id: i16) -> bool {
        self.0.get(id).is_some()
    }

    numbers! {
        bool: bool, Bool, false, "a bool";
        i16: i16, I16, 0, "an i16";
        i32: i32, I32, 0, "an i32";
        i64: i64, I64, 0, "an i64";
        double: f64, Double, 0.0, "a double";
    }

    /// A value of Thrift's type `string`: binary data or text.
    ///
    /// # Errors
    /// The field has another type.
    pub fn bytes(self, id: i16) -> Result<&'a [u8], ArgsError> {
        match self.0.get(id) {
            None => Ok(&[]),
            Some(Value::Bytes(value)) => Ok(value),
            Some(found) => expected(id, "a string", found),
        }
    }

    /// A string in UTF-8.
    ///
    /// # Errors
    /// The field has another type, or is not UTF-8.
    pub fn text(self, id: i16) -> Result<&'a str, ArgsError> {
        std::str::from_utf8(self.bytes(id)?).map_err(|_| ArgsError {
            id,
            expected: "text in UTF-8",
            found: "other bytes",
        })
    }

    /// The fields of a structure. `None` if the field is missing.
    ///
    /// # Errors
    /// The field has another type.
    pub fn fields(self, id: i16) -> Result<Option<Args<'a>>, ArgsError> {
        match self.0.get(id) {
            None => Ok(None),
            Some(Value::Struct(fields)) => Ok(Some(Args(fields))),
            Some(found) => expected(id, "a struct", found),
        }
    }

    fn list<T>(
        self,
        id: i16,
        what: &'static str,
        of: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, ArgsError> {
        let values = match self.0.get(id) {
            None => return Ok(Vec::new()),
            Some(Value::List(values)) => values,
            Some(found) => return expected(id, "a list", found),
        };
        let one = |value| of(value).map_or_else(|| expected(id, what, value), Ok);
        values.iter().map(one).collect()
    }

    /// A list of strings.
    ///
    /// # Errors
    /// The field has another type.
    pub fn all_bytes(self, id: i16) -> Result<Vec<&'a [u8]>, ArgsError> {
        self.list(id, "strings", |value| match value {
            Value::Bytes(value) => Some(value.as_slice()),
            _ => None,
        })
    }

    /// A list of structures.
    ///
    /// # Errors
    /// The field has another type.
    pub fn all_fields(self, id: i16) -> Result<Vec<Args<'a>>, ArgsError> {
        self.list(id, "structs", |value| match value {
            Value::Struct(fields) => Some(Args(fields)),
            _ => None,
        })
    }

    /// # Errors
    /// The field has another type.
    pub fn all_i32(self, id: i16) -> Result<Vec<i32>, ArgsError> {
        self.list(id, "i32s", |value| match value {
            Value::I32(value) => Some(*value),
            _ => None,
        })
    }

    /// # Errors
    /// The field has another type.
    pub fn all_i64(self, id: i16) -> Result<Vec<i64>, ArgsError> {
        self.list(id, "i64s", |value| match value {
            Value::I64(value) => Some(*value),
            _ => None,
        })
    }

    /// A map of strings. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// The field has another type.
    pub fn text_pairs(self, id: i16) -> Result<Vec<(String, String)>, ArgsError> {
        let pairs = match self.0.get(id) {
            None => return Ok(Vec::new()),
            Some(Value::Map(pairs)) => pairs,
            Some(found) => return expected(id, "a map", found),
        };
        let text = |value: &Value| match value {
            Value::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            found => expected(id, "a map of strings", found),
        };
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| Ok((text(key)?, text(value)?)))
            .collect()
    }
}
