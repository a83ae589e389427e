//! Computes the tag of AOM-HM: HalfSipHash-2-4 over four words, with the initial state of the sequencer that NeoBFT's
//! authors published. The function differs from the reference HalfSipHash (J.-P. Aumasson, `halfsiphash.c`) in the
//! initial state, in the output (XOR of all four words of the state), and in having no length word. The input words are
//! the words of the packet's header, big endian. A tag has 32 bits, so a forger succeeds after about 2^32 attempts.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::wire::Stamp;

/// The key that a receiver shares with the sequencer in one epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// SipHash's k0.
    pub k0: u32,
    /// SipHash's k1.
    pub k1: u32,
}

impl fmt::Debug for Key {
    /// Hides the key, so that it never gets into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Returns the words that a tag covers, in the header's order. As in the published sequencer, they contain only the low
/// 8 bits of the epoch; the other bits need no tag, since each epoch has fresh keys.
fn words_of(stamp: &Stamp) -> [u32; 4] {
    let [d0, d1, d2, d3, d4, d5, d6, d7] = stamp.digest;
    [
        stamp.epoch << 24 | u32::from(stamp.shard) << 16 | u32::from(stamp.group),
        stamp.sequence,
        u32::from_be_bytes([d0, d1, d2, d3]),
        u32::from_be_bytes([d4, d5, d6, d7]),
    ]
}

/// Computes a packet's tag for the receiver with `key`.
#[must_use]
pub fn tag(key: Key, stamp: &Stamp) -> u32 {
    tag_of_words(key, words_of(stamp))
}

/// Returns whether `found` is the packet's tag. Runs in constant time.
#[must_use]
pub fn verify(key: Key, stamp: &Stamp, found: u32) -> bool {
    tag(key, stamp).ct_eq(&found).into()
}

fn tag_of_words(Key { k0, k1 }: Key, words: [u32; 4]) -> u32 {
    let mut state = State {
        v0: k0 ^ 0x7073_6575,
        v1: k1 ^ 0x6e64_6f6d,
        v2: k0 ^ 0x6e65_7261,
        v3: k1 ^ 0x7974_6573,
    };
    for word in words {
        state.absorb(word);
    }
    state.finish();
    state.v0 ^ state.v1 ^ state.v2 ^ state.v3
}

struct State {
    v0: u32,
    v1: u32,
    v2: u32,
    v3: u32,
}

impl State {
    fn absorb(&mut self, word: u32) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    fn finish(&mut self) {
        self.v2 ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
    }

    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(5) ^ self.v0;
        self.v3 = self.v3.rotate_left(8) ^ self.v2;
        self.v0 = self.v0.rotate_left(16).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v3 = self.v3.rotate_left(7) ^ self.v0;
        self.v1 = self.v1.rotate_left(13) ^ self.v2;
        self.v2 = self.v2.rotate_left(16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key {
        k0: 0x3332_3130,
        k1: 0x4241_3938,
    };

    fn stamp(epoch: u32, shard: u8, sequence: u32, digest: u64) -> Stamp {
        Stamp {
            epoch,
            shard,
            group: 0,
            sequence,
            digest: digest.to_be_bytes(),
        }
    }

    #[test]
    fn tags_are_those_of_the_published_sequencer() {
        for (stamped, expected) in [
            (stamp(0, 0, 1, 0), 0x62b8_12f9),
            (stamp(2, 0, 1, 0x0001_0203_0405_0607), 0x11e4_fcd2),
            (stamp(2, 0, 2, 0x0001_0203_0405_0607), 0x7ea4_23c6),
            (stamp(2, 1, 1, 0x0001_0203_0405_0607), 0x892e_fb0b),
            (stamp(2, 0, 0xdead_beef, 0x1111_1111_1111_1111), 0xd8d1_07c2),
        ] {
            assert_eq!(tag(KEY, &stamped), expected, "{stamped:?}");
        }
    }

    #[test]
    fn words_packed_as_the_artifact_once_did_have_its_tags() {
        for (where_, sequence, expected) in [
            (0, 0, 0x9cde_fd49),
            (1, 0, 0xce43_577f),
            (0, 1, 0x5ede_f8db),
            (1, 1, 0x9043_9a4a),
        ] {
            assert_eq!(
                tag_of_words(KEY, [where_, sequence, 0, 0x0101_0101]),
                expected
            );
        }
    }

    /// Tests the round and the last steps of the hash with the reference's vectors. The reference has another initial
    /// state, byte order and output than AOM, and it has a length word.
    #[test]
    fn rounds_are_those_of_the_reference() {
        const EXPECTED: [u32; 17] = [
            0xa935_9f5b,
            0x2747_5ab8,
            0xfa62_a603,
            0x8afe_e704,
            0x2a6e_4689,
            0xc5fa_b669,
            0x5863_fc23,
            0x8bcf_63c5,
            0xd0b8_848f,
            0xf806_e779,
            0x94b0_7934,
            0x0808_3050,
            0x57f0_872f,
            0x77e6_63ff,
            0xd6ff_f87c,
            0x74fe_2b97,
            0xd9b5_ac84,
        ];
        let input: Vec<u8> = (0..16).collect();
        for (n_bytes, expected) in EXPECTED.into_iter().enumerate() {
            let found = reference(0x0302_0100, 0x0706_0504, &input[..n_bytes]);
            assert_eq!(
                found.to_le_bytes(),
                expected.to_be_bytes(),
                "{n_bytes} bytes"
            );
        }
    }

    fn reference(k0: u32, k1: u32, input: &[u8]) -> u32 {
        let mut state = State {
            v0: k0,
            v1: k1,
            v2: k0 ^ 0x6c79_6765,
            v3: k1 ^ 0x7465_6462,
        };
        let mut words = input.chunks_exact(4);
        for word in &mut words {
            state.absorb(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        }
        let mut last = [0, 0, 0, input.len() as u8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        state.absorb(u32::from_le_bytes(last));
        state.finish();
        state.v1 ^ state.v3
    }

    #[test]
    fn every_bit_of_what_is_covered_and_of_the_key_changes_the_tag() {
        let whole = stamp(2, 1, 7, 0x0001_0203_0405_0607);
        let before = tag(KEY, &whole);
        for bit in 0..8 {
            for (epoch, shard) in [(1 << bit, 0), (0, 1 << bit)] {
                let other = Stamp {
                    epoch: whole.epoch ^ epoch,
                    shard: whole.shard ^ shard,
                    ..whole
                };
                assert_ne!(tag(KEY, &other), before);
            }
        }
        for bit in 0..16 {
            let group = whole.group ^ (1 << bit);
            assert_ne!(tag(KEY, &Stamp { group, ..whole }), before);
        }
        for bit in 0..32 {
            let sequence = whole.sequence ^ (1 << bit);
            assert_ne!(tag(KEY, &Stamp { sequence, ..whole }), before);
            for (k0, k1) in [(1 << bit, 0), (0, 1 << bit)] {
                let other = Key {
                    k0: KEY.k0 ^ k0,
                    k1: KEY.k1 ^ k1,
                };
                assert_ne!(tag(other, &whole), before);
            }
        }
        for bit in 0..64 {
            let digest = (u64::from_be_bytes(whole.digest) ^ (1 << bit)).to_be_bytes();
            assert_ne!(tag(KEY, &Stamp { digest, ..whole }), before);
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{KEY:?}"), "Key(..)");
    }
}
