//! Scalars and lists of `conference.yaml`, and their errors. An error states what was expected and found in terms of
//! the file, not of the YAML library.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::Ipv4Addr;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::{Mac, Sfu};

pub(super) trait Word: Sized {
    const EXPECTED: &str;

    /// Parses a scalar; `None` if it is not valid.
    fn of(text: &str) -> Option<Self>;
}

impl Word for u16 {
    const EXPECTED: &str = "a number from 0 to 65535";

    /// Refuses a leading zero: some YAML readers take such a number for octal, others for decimal.
    fn of(text: &str) -> Option<u16> {
        let is_plain = text == "0" || text.starts_with(|first| ('1'..='9').contains(&first));
        is_plain.then(|| text.parse().ok()).flatten()
    }
}

impl Word for Ipv4Addr {
    const EXPECTED: &str = "an IPv4 address like 10.0.1.5";

    fn of(text: &str) -> Option<Ipv4Addr> {
        text.parse().ok()
    }
}

impl Word for Mac {
    const EXPECTED: &str = "an Ethernet address like 02:00:00:00:00:05";

    fn of(text: &str) -> Option<Mac> {
        text.parse().ok()
    }
}

impl Word for bool {
    const EXPECTED: &str = "true or false";

    fn of(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" => Some(true),
            "false" | "no" | "off" | "n" => Some(false),
            _ => None,
        }
    }
}

pub(super) fn word<'de, D: Deserializer<'de>, T: Word>(deserializer: D) -> Result<T, D::Error> {
    let expected = T::EXPECTED;
    // The value is read as a string, since the YAML library could read the number `010` as 10 or as 8.
    let Ok(text) = Option::<String>::deserialize(deserializer) else {
        let came = "a list, keys with values, or a tag";
        return Err(D::Error::custom(format!("expected {expected}, got {came}")));
    };
    let Some(text) = text else {
        return Err(D::Error::custom(format!(
            "expected {expected}, got nothing"
        )));
    };
    let error = || {
        let has_leading_zero = text.len() > 1 && text.starts_with('0');
        let why = if has_leading_zero && text.parse::<u16>().is_ok() {
            ": a leading zero makes it octal to some readers of YAML, leave it out"
        } else {
            ""
        };
        D::Error::custom(format!("expected {expected}, got \"{text}\"{why}"))
    };
    T::of(&text).ok_or_else(error)
}

pub(super) fn word_if_any<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Word,
{
    word(deserializer).map(Some)
}

/// Deserializes a list; a key without a value is an empty list.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list (a line beginning with `-` for each)")
        }

        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }

    deserializer.deserialize_any(List(PhantomData))
}

/// Deserializes one address of the SFU (a map), or a list of addresses.
pub(super) fn one_or_several<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Sfu>, D::Error> {
    struct OneOrSeveral;

    impl<'de> Visitor<'de> for OneOrSeveral {
        type Value = Vec<Sfu>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an own address (port, ip, mac), or a list of them, one a port")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Sfu>, A::Error> {
            Ok(vec![Sfu::deserialize(MapAccessDeserializer::new(map))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<Sfu>, A::Error> {
            let addresses = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
            if addresses.is_empty() {
                return Err(A::Error::custom(
                    "expected an own address at least, got an empty list",
                ));
            }
            Ok(addresses)
        }
    }

    deserializer.deserialize_any(OneOrSeveral)
}

/// Formats the library's errors in terms of the file.
pub(super) struct Words;

impl MessageFormatter for Words {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::MultipleDocuments { .. } => {
                "expected one document, got a second one after `---`".into()
            }
            Error::Eof { .. } => {
                "expected more, at least `sfu:` with its keys, got the end of the file".into()
            }
            Error::Unexpected { expected, .. } if expected.starts_with("mapping") => {
                "expected keys with values (`key: value`), got something else".into()
            }
            Error::SerdeInvalidType {
                unexpected,
                expected,
                ..
            } => format!("expected {expected}, got {}", came(unexpected)).into(),
            error => UserMessageFormatter.format_message(error),
        }
    }
}

/// Replaces serde's name for a kind of value by a name that readers of YAML know.
fn came(unexpected: &str) -> &str {
    match unexpected {
        "unit value" => "nothing",
        "map" => "keys with values",
        "sequence" => "a list",
        other => other,
    }
}
