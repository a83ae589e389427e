//! Values of leaves and their encodings.
//!
//! Source: gNMI specification 0.10.0, 2.2.3 and 2.3.1; RFC 7951, 6.1.

use gnmi_proto::gnmi::typed_value::Value as Typed;
use gnmi_proto::gnmi::{Encoding, TypedValue};
use serde_json::Value as Json;
use tonic::Status;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Strings, enumerations, identities.
    Text(String),
    Flag(bool),
    /// At most 32 bits.
    Small(u32),
    /// 64 bits.
    Number(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoded {
    /// Scalars of `TypedValue`.
    Proto,
    Json,
    JsonIetf,
}

/// The encodings in the answer to `Capabilities`.
pub(crate) const ENCODINGS: [Encoding; 3] = [Encoding::Json, Encoding::JsonIetf, Encoding::Proto];

impl Encoded {
    pub(crate) fn asked(encoding: i32) -> Result<Self, Status> {
        let name = match Encoding::try_from(encoding) {
            Ok(Encoding::Json) => return Ok(Self::Json),
            Ok(Encoding::JsonIetf) => return Ok(Self::JsonIetf),
            Ok(Encoding::Proto) => return Ok(Self::Proto),
            Ok(other) => other.as_str_name().to_owned(),
            Err(_) => encoding.to_string(),
        };
        let message =
            format!("the encoding {name} is not supported: expected JSON, JSON_IETF or PROTO");
        Err(Status::unimplemented(message))
    }

    /// Returns the encoding in which a subscription's values are sent. JSON is replaced by PROTO, because a request
    /// without an encoding looks like a request for JSON, and controllers that omit the encoding expect scalars. A
    /// client sees the encoding of a value from the field of the message that is set (gNMI specification, section 2.3).
    pub(crate) fn subscribed(encoding: i32) -> Result<Self, Status> {
        Ok(match Self::asked(encoding)? {
            Self::Json => Self::Proto,
            other => other,
        })
    }

    pub(crate) fn typed_json(self, json: &Json) -> TypedValue {
        let text = json.to_string().into_bytes();
        TypedValue {
            value: Some(match self {
                Self::JsonIetf => Typed::JsonIetfVal(text),
                _ => Typed::JsonVal(text),
            }),
        }
    }
}

impl Value {
    /// RFC 7951 encodes 64-bit numbers as strings.
    pub(crate) fn json(&self, encoded: Encoded) -> Json {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Small(number) => (*number).into(),
            Self::Number(number) if encoded == Encoded::JsonIetf => number.to_string().into(),
            Self::Number(number) => (*number).into(),
        }
    }

    pub(crate) fn typed(&self, encoded: Encoded) -> TypedValue {
        if encoded != Encoded::Proto {
            return encoded.typed_json(&self.json(encoded));
        }
        let value = match self {
            Self::Text(text) => Typed::StringVal(text.clone()),
            Self::Flag(flag) => Typed::BoolVal(*flag),
            Self::Small(number) => Typed::UintVal((*number).into()),
            Self::Number(number) => Typed::UintVal(*number),
        };
        TypedValue { value: Some(value) }
    }

    /// Whether a client has sent this value.
    pub(crate) fn is(&self, sent: &Sent) -> bool {
        match (self, sent) {
            (_, Sent::Json(json)) => {
                *json == self.json(Encoded::Json) || *json == self.json(Encoded::JsonIetf)
            }
            (Self::Text(text), Sent::Text(sent)) => text == sent,
            (Self::Flag(flag), Sent::Flag(sent)) => flag == sent,
            (Self::Small(number), Sent::Number(sent)) => u64::from(*number) == *sent,
            (Self::Number(number), Sent::Number(sent)) => number == sent,
            _ => false,
        }
    }
}

/// The value that a client has sent for a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sent {
    Text(String),
    Flag(bool),
    Number(u64),
    Json(Json),
}

impl Sent {
    pub(crate) fn read(value: Option<&TypedValue>) -> Result<Self, Status> {
        let json = |text: &[u8]| {
            serde_json::from_slice(text)
                .map(Self::Json)
                .map_err(|error| Status::invalid_argument(format!("the value is no JSON: {error}")))
        };
        match value.and_then(|value| value.value.as_ref()) {
            Some(Typed::StringVal(text)) => Ok(Self::Text(text.clone())),
            Some(Typed::BoolVal(flag)) => Ok(Self::Flag(*flag)),
            Some(Typed::UintVal(number)) => Ok(Self::Number(*number)),
            Some(Typed::IntVal(number)) => u64::try_from(*number).map(Self::Number).map_err(|_| {
                Status::invalid_argument(format!("expected a number from 0, found {number}"))
            }),
            Some(Typed::JsonVal(text) | Typed::JsonIetfVal(text)) => json(text),
            Some(other) => {
                let field = field_of(other);
                Err(Status::unimplemented(format!(
                    "a value in {field} is not supported: expected a scalar, json_val or json_ietf_val"
                )))
            }
            None => Err(Status::invalid_argument(
                "the update has no val: expected a scalar, json_val or json_ietf_val",
            )),
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Json(json) => json.as_bool(),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Json(json) => {
                let mut text = json.to_string();
                text.truncate(text.floor_char_boundary(SHOWN_BYTES));
                text
            }
        }
    }
}

const SHOWN_BYTES: usize = 100;

/// The name of the field of `TypedValue` in which a client has sent an unsupported value.
fn field_of(value: &Typed) -> &'static str {
    match value {
        Typed::BytesVal(_) => "bytes_val",
        Typed::DoubleVal(_) => "double_val",
        Typed::LeaflistVal(_) => "leaflist_val",
        Typed::AnyVal(_) => "any_val",
        Typed::AsciiVal(_) => "ascii_val",
        Typed::ProtoBytes(_) => "proto_bytes",
        _ => "a deprecated field",
    }
}
