//! Keeps the prefixes of a trie, and finds the next shorter prefix of each. If a prefix's entry is not visible to a
//! packet, the packet's lookup continues at the next shorter prefix.

use std::collections::BTreeMap;

/// A key of a trie: its length in bits, 4 bytes in host order, then the bits.
type Key = Vec<u8>;

#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    /// The body (an entry's memory) of each prefix. Ordered by bits, then length: a prefix is followed by all longer
    /// prefixes that begin with it.
    bodies: BTreeMap<(Vec<u8>, u32), u32>,
}

fn split(key: &Key) -> (Vec<u8>, u32) {
    let (length, bits) = key.split_at(4.min(key.len()));
    let length = length.try_into().map_or(0, u32::from_ne_bytes);
    (bits.to_vec(), length)
}

/// Keeps the first `length` bits and clears the others.
fn cut(bits: &[u8], length: u32) -> Vec<u8> {
    let mut cut = bits.to_vec();
    for (position, byte) in (0..).step_by(8).zip(&mut cut) {
        let kept = length.saturating_sub(position).min(8);
        *byte &= !(0xff_u16 >> kept) as u8;
    }
    cut
}

impl Prefixes {
    /// Returns the body of the next shorter prefix, or 0 if there is none.
    pub(crate) fn shorter(&self, key: &Key) -> u32 {
        let (bits, length) = split(key);
        let lengths = (0..length).rev();
        let mut bodies =
            lengths.filter_map(|length| self.bodies.get(&(cut(&bits, length), length)));
        bodies.next().copied().unwrap_or(0)
    }

    /// Returns the bodies of the prefixes whose next shorter prefix is `key`, or would be once `key` is inserted.
    pub(crate) fn next_longer(&self, key: &Key) -> Vec<u32> {
        let (bits, length) = split(key);
        let from = (bits.clone(), length + 1);
        let mut found = Vec::new();
        // The prefixes that begin with `key` follow `key` in the map. Skip prefixes that begin with a prefix found
        // already.
        let mut last: Option<(Vec<u8>, u32)> = None;
        for ((other, other_length), body) in self.bodies.range(from..) {
            if cut(other, length) != bits {
                break;
            }
            let is_below = last.as_ref().is_some_and(|(last, last_length)| {
                other_length > last_length && cut(other, *last_length) == *last
            });
            if *other_length > length && !is_below {
                found.push(*body);
                last = Some((other.clone(), *other_length));
            }
        }
        found
    }

    pub(crate) fn insert(&mut self, key: &Key, body: u32) {
        self.bodies.insert(split(key), body);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.bodies.remove(&split(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: [u8; 2], length: u32) -> Key {
        [&length.to_ne_bytes()[..], &bytes].concat()
    }

    #[test]
    fn the_next_shorter_prefix_and_the_next_longer_ones_are_found() {
        let mut prefixes = Prefixes::default();
        let all = [
            (key([0, 0], 0), 1),
            (key([0xc0, 0], 2), 2),
            (key([0xc0, 0], 8), 3),
            (key([0xc0, 0x80], 9), 4),
            (key([0xc1, 0], 8), 5),
            (key([0x80, 0], 16), 6),
        ];
        for (key, body) in &all {
            prefixes.insert(key, *body);
        }
        let shorter: Vec<u32> = all.iter().map(|(key, _)| prefixes.shorter(key)).collect();
        assert_eq!(shorter, [0, 1, 2, 3, 2, 1]);
        assert_eq!(prefixes.next_longer(&all[0].0), [6, 2]);
        assert_eq!(prefixes.next_longer(&all[1].0), [3, 5]);
        // This prefix is not in the trie.
        assert_eq!(prefixes.next_longer(&key([0x80, 0], 1)), [6, 2]);
        prefixes.remove(&all[2].0);
        assert_eq!(prefixes.shorter(&all[3].0), 2);
        assert_eq!(prefixes.next_longer(&all[1].0), [4, 5]);
    }
}
