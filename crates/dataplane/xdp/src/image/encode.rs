//! Encodes table entries' keys and arguments as the program's maps hold them.

use dataplane::engine::ir::{Int, Matcher};
use thiserror::Error;

use super::layout::{Body, Index, KeyPart, KeyPlace, TableLayout};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EncodeError {
    #[error("the table is left to the engine")]
    Left,
    /// The range is neither a single value, nor a prefix, nor the range of all values.
    #[error("a range that is neither a prefix nor a single value")]
    Range,
}

/// An entry's key, in the form that its table's [`Index`] needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EncodedKey {
    /// The table has no key.
    None,
    /// A position in the array of [`Index::Direct`].
    Position(u32),
    /// A key of the index's map.
    Bytes(Vec<u8>),
    /// A mask, and a key of the map. The first 4 bytes of the key are 0; the mask's number will replace them once the
    /// mask has a number.
    Masked {
        /// The mask, as long as `key`.
        mask: Vec<u8>,
        /// The masked key.
        key: Vec<u8>,
    },
}

fn ones(bits: u32) -> Int {
    (Int::ONE << bits as usize) - Int::ONE
}

/// Returns the 64-bit word of a value at `position`, counted from the lowest word.
fn word(value: &Int, position: u32) -> u64 {
    let shifted = value.clone() >> (64 * position as usize);
    u64::try_from(&(shifted & Int::from(u64::MAX))).unwrap_or_default()
}

/// Appends a value as words in host order, lowest first.
fn push_words(bytes: &mut Vec<u8>, value: &Int, bits: u32) {
    for position in 0..TableLayout::words(bits) {
        bytes.extend_from_slice(&word(value, position).to_ne_bytes());
    }
}

fn put(key: &mut [u8], part: KeyPart, value: &Int, place: KeyPlace) {
    let mut bytes = Vec::new();
    push_words(&mut bytes, value, 8 * part.bytes);
    bytes.truncate(part.bytes as usize);
    if place == KeyPlace::Network {
        bytes.reverse();
    }
    key[part.at as usize..][..bytes.len()].copy_from_slice(&bytes);
}

/// Returns a matcher as value and mask.
fn masked(matcher: &Matcher, bits: u32) -> Result<(Int, Int), EncodeError> {
    Ok(match matcher {
        Matcher::Exact(value) | Matcher::Optional(Some(value)) => (value.clone(), ones(bits)),
        Matcher::Optional(None) => (Int::ZERO, Int::ZERO),
        Matcher::Lpm { value, prefix_len } => {
            let rest = bits.saturating_sub(*prefix_len);
            (value.clone(), ones(bits) - ones(rest))
        }
        Matcher::Ternary { value, mask } => (value.clone(), mask.clone()),
        Matcher::Range { low, high } => {
            // This is the range of all values of a signed field, such as 0x80 to 0x7f for 8 bits.
            if *low == high + Int::ONE {
                return Ok((Int::ZERO, Int::ZERO));
            }
            // The range is a prefix if its ends differ only in low bits, all 0 in `low` and all 1 in `high`.
            let span = low ^ high;
            let is_prefix = (&span & (&span + Int::ONE)) == Int::ZERO;
            if !is_prefix || (low & &span) != Int::ZERO {
                return Err(EncodeError::Range);
            }
            (low.clone(), ones(bits) - span)
        }
    })
}

impl TableLayout {
    /// Encodes a key for the table's index.
    ///
    /// # Errors
    /// The index cannot hold this key.
    pub fn encode_key(&self, key: &[Matcher]) -> Result<EncodedKey, EncodeError> {
        let exact = |matcher: &Matcher| match matcher {
            Matcher::Exact(value) | Matcher::Lpm { value, .. } => value.clone(),
            _ => Int::ZERO,
        };
        match &self.index {
            Index::Left => Err(EncodeError::Left),
            Index::None => Ok(EncodedKey::None),
            Index::Direct { .. } => {
                let mut position = 0_u64;
                for (matcher, bits) in key.iter().zip(&self.key_bits) {
                    position = position << bits | word(&exact(matcher), 0);
                }
                Ok(EncodedKey::Position(u32::try_from(position).unwrap_or(0)))
            }
            Index::Hash {
                parts, key_bytes, ..
            } => {
                let mut bytes = vec![0; *key_bytes as usize];
                for (part, matcher) in parts.iter().zip(key) {
                    put(&mut bytes, *part, &exact(matcher), KeyPlace::Host);
                }
                Ok(EncodedKey::Bytes(bytes))
            }
            Index::Lpm {
                parts,
                prefix,
                key_bytes,
                ..
            } => {
                let mut bytes = vec![0; *key_bytes as usize];
                let mut length = 0;
                for (position, (part, matcher)) in parts.iter().zip(key).enumerate() {
                    let mut value = exact(matcher);
                    if position == *prefix {
                        // The field is left-aligned in its bytes.
                        value <<= (8 * part.bytes - part.bits) as usize;
                        if let Matcher::Lpm { prefix_len, .. } = matcher {
                            length = 8 * (part.at - 4) + prefix_len;
                        }
                    }
                    put(&mut bytes, *part, &value, KeyPlace::Network);
                }
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                Ok(EncodedKey::Bytes(bytes))
            }
            Index::Ternary {
                parts, key_bytes, ..
            } => {
                let mut mask = vec![0; *key_bytes as usize];
                let mut bytes = mask.clone();
                for (part, matcher) in parts.iter().zip(key) {
                    let (value, bits) = masked(matcher, part.bits)?;
                    put(&mut bytes, *part, &value, KeyPlace::Host);
                    put(&mut mask, *part, &bits, KeyPlace::Host);
                }
                Ok(EncodedKey::Masked { mask, key: bytes })
            }
        }
    }

    /// Encodes a slot of an entry's [`Body`]: action, then arguments. Missing arguments are 0.
    pub fn encode_slot(&self, action: u32, args: &[Int]) -> Vec<u8> {
        let mut bytes = u64::from(action).to_ne_bytes().to_vec();
        if let Some(widths) = self.args.get(action as usize) {
            for (value, bits) in args.iter().zip(widths) {
                push_words(&mut bytes, value, *bits);
            }
        }
        let slot_bytes = self.body.slots[1] - self.body.slots[0];
        bytes.resize(slot_bytes.max(Body::ARGS) as usize, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::MapRef;

    fn table(index: Index, key_bits: &[u32]) -> TableLayout {
        TableLayout {
            index,
            key_bits: key_bits.to_vec(),
            body: Body::new(0, 4, false, 3),
            actions: Vec::new(),
            args: vec![vec![48, 100]],
        }
    }

    fn part(bits: u32, at: u32, bytes: u32) -> KeyPart {
        KeyPart { bits, at, bytes }
    }

    #[test]
    fn exact_fields_stand_in_host_order_and_prefixes_in_network_order() {
        let parts = vec![part(48, 0, 8), part(16, 8, 2)];
        let hash = Index::Hash {
            map: MapRef(0),
            parts,
            key_bytes: 12,
        };
        let exact = |value: u64| Matcher::Exact(Int::from(value));
        let key = table(hash, &[48, 16]).encode_key(&[exact(0x0102), exact(3)]);
        let found = EncodedKey::Bytes(vec![2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(key, Ok(found));

        let lpm = Index::Lpm {
            map: MapRef(0),
            parts: vec![part(9, 4, 4), part(20, 8, 4)],
            prefix: 1,
            key_bytes: 12,
        };
        let prefix = Matcher::Lpm {
            value: Int::from(0xabc00),
            prefix_len: 12,
        };
        let key = table(lpm, &[9, 20]).encode_key(&[exact(0x101), prefix]);
        let found = EncodedKey::Bytes(vec![44, 0, 0, 0, 0, 0, 1, 1, 0xab, 0xc0, 0, 0]);
        assert_eq!(key, Ok(found));
    }

    #[test]
    fn a_range_is_a_mask_where_it_is_a_prefix() {
        let range = |low: u32, high: u32| Matcher::Range {
            low: Int::from(low),
            high: Int::from(high),
        };
        let found = masked(&range(0x20, 0x3f), 8);
        assert_eq!(found, Ok((Int::from(0x20), Int::from(0xe0))));
        assert_eq!(masked(&range(0, 255), 8), Ok((Int::ZERO, Int::ZERO)));
        // For a signed field, this is the range of all values.
        assert_eq!(masked(&range(0x80, 0x7f), 8), Ok((Int::ZERO, Int::ZERO)));
        assert_eq!(masked(&range(0xff, 0x7f), 8), Err(EncodeError::Range));
        let negative = Ok((Int::from(0x80), Int::from(0x80)));
        assert_eq!(masked(&range(0x80, 0xff), 8), negative);
        assert_eq!(masked(&range(1, 2), 8), Err(EncodeError::Range));
        assert_eq!(masked(&range(0x30, 0x4f), 8), Err(EncodeError::Range));
    }

    #[test]
    fn arguments_take_whole_words_the_lowest_first() {
        let value = (Int::from(5) << 64) + Int::from(7);
        let slot = table(Index::None, &[]).encode_slot(0, &[Int::from(9), value]);
        let words: Vec<u64> = slot
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect();
        assert_eq!(words, [0, 9, 7, 5]);
    }
}
