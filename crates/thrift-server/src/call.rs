//! A call's arguments by their numbers, and what it comes to.

use dataplane::{ControlError, ControlErrorKind};

use crate::exception::{Code, Exception};
use crate::limits::ANSWER_BYTES_MAX;
use crate::wire::read::{Fields, Value};
use crate::wire::write::Writer;
use crate::wire::{Failure, FailureKind, Type};

/// What a call comes to that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its service declares it.
    Declared(Exception),
    /// Its service does not.
    Failed(Failure),
}

pub(crate) type Answered = Result<Answer, Refusal>;

impl Refusal {
    /// The arguments are not those of the call.
    pub(crate) fn protocol(message: String) -> Self {
        let kind = FailureKind::Protocol;
        Self::Failed(Failure { kind, message })
    }

    /// The call cannot be carried out, and its service has no code for that.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let (kind, message) = (FailureKind::Internal, message.into());
        Self::Failed(Failure { kind, message })
    }
}

impl From<Exception> for Refusal {
    fn from(exception: Exception) -> Self {
        Self::Declared(exception)
    }
}

/// What is no mistake of the caller's in an entity.
impl From<control::Error> for Refusal {
    fn from(error: control::Error) -> Self {
        Self::internal(error.to_string())
    }
}

/// A code for what the data plane refused, with its words.
pub(crate) fn declared<C: Code>(
    code: impl FnOnce(ControlErrorKind) -> C,
) -> impl FnOnce(ControlError) -> Refusal {
    move |error| Exception::new(code(error.kind), error.message).into()
}

/// What a call gives back.
#[derive(Debug)]
pub(crate) enum Answer {
    Void,
    I32(i32),
    I64(i64),
    Bytes(Vec<u8>),
    /// A structure or container that is written already.
    Encoded(Type, Vec<u8>),
}

impl Answer {
    /// A structure or container.
    pub(crate) fn encoded(of: Type, write: impl FnOnce(&mut Writer)) -> Self {
        let mut writer = Writer::default();
        write(&mut writer);
        Self::Encoded(of, writer.into_bytes())
    }

    /// A list whose values are written behind each other already.
    pub(crate) fn list(of: Type, n_values: usize, values: &Writer) -> Self {
        let write = |writer: &mut Writer| writer.list(of, n_values).encoded(values.written());
        Self::encoded(Type::List, write)
    }

    /// The field that it is in the answer's structure.
    pub(crate) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Void => {}
            Self::I32(value) => writer.field(0, Type::I32).i32(*value),
            Self::I64(value) => writer.field(0, Type::I64).i64(*value),
            Self::Bytes(value) => writer.field(0, Type::Bytes).bytes(value),
            Self::Encoded(of, value) => writer.field(0, *of).encoded(value),
        }
    }
}

/// Refuses to write on where an answer has become too long.
pub(crate) fn expect_room(writer: &Writer) -> Result<(), Refusal> {
    if writer.n_bytes() <= ANSWER_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::internal(format!(
        "the answer is longer than {ANSWER_BYTES_MAX} bytes: P4Runtime reads in pieces"
    )))
}

/// Arguments of a call, or fields of one of them. One that is left out is zero, as generated code has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a>(&'a Fields);

fn expected<T>(id: i16, what: &str, found: &Value) -> Result<T, Refusal> {
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
    let message = format!("field {id}: expected {what}, found {found}");
    Err(Refusal::protocol(message))
}

impl<'a> Args<'a> {
    pub(crate) fn new(fields: &'a Fields) -> Self {
        Self(fields)
    }

    pub(crate) fn has(self, id: i16) -> bool {
        self.0.get(id).is_some()
    }

    pub(crate) fn bool(self, id: i16) -> Result<bool, Refusal> {
        match self.0.get(id) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(found) => expected(id, "a bool", found),
        }
    }

    pub(crate) fn i16(self, id: i16) -> Result<i16, Refusal> {
        match self.0.get(id) {
            None => Ok(0),
            Some(Value::I16(value)) => Ok(*value),
            Some(found) => expected(id, "an i16", found),
        }
    }

    pub(crate) fn i32(self, id: i16) -> Result<i32, Refusal> {
        match self.0.get(id) {
            None => Ok(0),
            Some(Value::I32(value)) => Ok(*value),
            Some(found) => expected(id, "an i32", found),
        }
    }

    pub(crate) fn i64(self, id: i16) -> Result<i64, Refusal> {
        match self.0.get(id) {
            None => Ok(0),
            Some(Value::I64(value)) => Ok(*value),
            Some(found) => expected(id, "an i64", found),
        }
    }

    pub(crate) fn double(self, id: i16) -> Result<f64, Refusal> {
        match self.0.get(id) {
            None => Ok(0.0),
            Some(Value::Double(value)) => Ok(*value),
            Some(found) => expected(id, "a double", found),
        }
    }

    pub(crate) fn bytes(self, id: i16) -> Result<&'a [u8], Refusal> {
        match self.0.get(id) {
            None => Ok(&[]),
            Some(Value::Bytes(value)) => Ok(value),
            Some(found) => expected(id, "a string", found),
        }
    }

    pub(crate) fn text(self, id: i16) -> Result<&'a str, Refusal> {
        let message = |_| Refusal::protocol(format!("field {id}: expected text in UTF-8"));
        std::str::from_utf8(self.bytes(id)?).map_err(message)
    }

    /// The fields of a structure; none where it is left out.
    pub(crate) fn fields(self, id: i16) -> Result<Option<Args<'a>>, Refusal> {
        match self.0.get(id) {
            None => Ok(None),
            Some(Value::Struct(fields)) => Ok(Some(Args(fields))),
            Some(found) => expected(id, "a struct", found),
        }
    }

    fn list(self, id: i16) -> Result<&'a [Value], Refusal> {
        match self.0.get(id) {
            None => Ok(&[]),
            Some(Value::List(values)) => Ok(values),
            Some(found) => expected(id, "a list", found),
        }
    }

    /// A list of strings.
    pub(crate) fn all_bytes(self, id: i16) -> Result<Vec<&'a [u8]>, Refusal> {
        let values = self.list(id)?.iter().map(|value| match value {
            Value::Bytes(value) => Ok(value.as_slice()),
            found => expected(id, "strings", found),
        });
        values.collect()
    }

    /// A list of structures.
    pub(crate) fn all_fields(self, id: i16) -> Result<Vec<Args<'a>>, Refusal> {
        let values = self.list(id)?.iter().map(|value| match value {
            Value::Struct(fields) => Ok(Args(fields)),
            found => expected(id, "structs", found),
        });
        values.collect()
    }
}
