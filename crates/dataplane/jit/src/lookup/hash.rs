//! A hash of a key's words. For every two words, it multiplies 64 by 64 bits and folds the halves of the product
//! together (the construction of wyhash and foldhash).
//!
//! The constants are fixed, so that two runs behave the same. The control plane chooses the keys of a table, so senders
//! of packets cannot choose keys that collide.

const K: [u64; 4] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0xd6e8_feb8_6659_fd93,
];

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let low = u64::try_from(product & u128::from(u64::MAX)).expect("masked to 64 bits");
    let high = u64::try_from(product >> 64).expect("shifted to 64 bits");
    low ^ high
}

/// The hash of `words` words; `word(n)` returns the n-th word.
#[inline(always)]
pub(crate) fn hash_words(words: usize, word: impl Fn(usize) -> u64) -> u64 {
    match words {
        0 => K[0],
        1 => fold(word(0) ^ K[0], K[1]),
        2 => fold(word(0) ^ K[0], word(1) ^ K[1]),
        3 => fold(word(0) ^ K[0], word(1) ^ K[1]) ^ fold(word(2) ^ K[2], K[3]),
        4 => fold(word(0) ^ K[0], word(1) ^ K[1]) ^ fold(word(2) ^ K[2], word(3) ^ K[3]),
        _ => {
            let mut hash = K[2];
            let mut at = 0;
            while at < words {
                let second = if at + 1 < words { word(at + 1) } else { 0 };
                hash = fold(hash ^ word(at), second ^ K[1]).rotate_left(23) ^ K[3];
                at += 2;
            }
            fold(hash, K[1])
        }
    }
}
