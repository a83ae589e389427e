//! Reads and writes keys as hexadecimal text. Errors never quote the text, since it may be a key.

use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use k256::ecdsa::VerifyingKey;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The key that a member shares with the sequencer for one epoch. As text it has 16 digits: k0, then k1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TagKey(pub aom::half_siphash::Key);

/// A public key of secp256k1. As text it has 66 digits: the compressed point (SEC 1, section 2.3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("expected {expected} hexadecimal digits, found {found} characters")]
    Digits { expected: usize, found: usize },
    #[error("expected a compressed point of secp256k1 (02 or 03, then 64 digits), found no point")]
    NoPoint,
}

impl PublicKey {
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        self.0
    }
}

impl From<VerifyingKey> for PublicKey {
    fn from(key: VerifyingKey) -> PublicKey {
        PublicKey(key)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(self.0.to_encoded_point(true).as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for TagKey {
    /// Hides the key, so that it never gets into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TagKey(..)")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        let bytes: [u8; 33] = bytes_of(text)?;
        // The library also reads a compact point (05). If it were accepted, one key would have two texts.
        if !matches!(bytes[0], 2 | 3) {
            return Err(KeyError::NoPoint);
        }
        let key = VerifyingKey::from_sec1_bytes(&bytes).map_err(|_| KeyError::NoPoint)?;
        Ok(PublicKey(key))
    }
}

impl FromStr for TagKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<TagKey, KeyError> {
        let [a, b, c, d, e, f, g, h] = bytes_of(text)?;
        Ok(TagKey(aom::half_siphash::Key {
            k0: u32::from_be_bytes([a, b, c, d]),
            k1: u32::from_be_bytes([e, f, g, h]),
        }))
    }
}

/// Reads exactly `2 * N` hexadecimal digits.
///
/// # Errors
///
/// If the text has another number of characters, or a character that is not a hexadecimal digit.
pub fn bytes_of<const N: usize>(text: &str) -> Result<[u8; N], KeyError> {
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| KeyError::Digits {
        expected: 2 * N,
        found: text.chars().count(),
    })
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err = KeyError>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(de::Error::custom)
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
        parsed(deserializer)
    }
}

impl<'de> Deserialize<'de> for TagKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TagKey, D::Error> {
        parsed(deserializer)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for TagKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let aom::half_siphash::Key { k0, k1 } = self.0;
        serializer.collect_str(&format_args!("{k0:08x}{k1:08x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator of secp256k1 (SEC 2, section 2.4.1).
    const POINT: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key: TagKey = serde_json::from_str("\"0011223344556677\"").expect("a key");
        assert_eq!((key.0.k0, key.0.k1), (0x0011_2233, 0x4455_6677));
        assert_eq!(
            serde_json::to_string(&key).expect("JSON"),
            "\"0011223344556677\""
        );
        let point: PublicKey = POINT.parse().expect("a point");
        assert_eq!(point.to_string(), POINT);
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        for text in [
            "",
            "00112233445566",
            "001122334455667788",
            "001122334455667x",
            "+0112233445566",
        ] {
            let error = text.parse::<TagKey>().expect_err(text).to_string();
            assert!(
                error.starts_with("expected 16 hexadecimal digits"),
                "{error}"
            );
        }
        let beyond_the_field = format!("02{}", "f".repeat(64));
        for no_point in [
            POINT.replace("0279", "0579"),
            POINT.replace("0279", "0079"),
            beyond_the_field,
        ] {
            assert_eq!(
                no_point.parse::<PublicKey>(),
                Err(KeyError::NoPoint),
                "{no_point}"
            );
        }
    }

    #[test]
    fn a_tag_key_is_not_printed() {
        let key: TagKey = "0011223344556677".parse().expect("a key");
        assert_eq!(format!("{key:?}"), "TagKey(..)");
    }
}
