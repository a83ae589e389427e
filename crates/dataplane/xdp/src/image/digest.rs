//! Decodes the digests that compiled programs send.

use dataplane::Digest;
use dataplane::engine::ir::Ir;

use super::layout::TableLayout;

/// A record of the ring buffer [`super::MapRole::Digests`]. It holds the digest's position among the program's digests
/// plus 1, then the digest's members in host order. Each member takes one or more whole words of 8 bytes, the lowest
/// word first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestRecord;

impl DigestRecord {
    /// Offset of a word of 8 bytes that holds the digest's position plus 1.
    pub const DIGEST: u32 = 0;
    /// Offset of the first member.
    pub const MEMBERS: u32 = 8;

    /// Decodes a digest. Returns `None` if the bytes are no message of the program.
    pub fn decode(ir: &Ir, bytes: &[u8]) -> Option<Digest> {
        let words = bytes.as_chunks::<8>().0.iter();
        let mut words = words.map(|word| u64::from_ne_bytes(*word));
        let position = words.next()?.checked_sub(1)?;
        let list = ir.digests.get(usize::try_from(position).ok()?)?;
        let members = list.fields.iter().map(|(_, bits)| {
            let n_words = TableLayout::words(*bits) as usize;
            let member: Vec<u64> = words.by_ref().take(n_words).collect();
            (member.len() == n_words).then(|| canonical(&member))
        });
        Some(Digest {
            name: list.name.clone(),
            members: members.collect::<Option<_>>()?,
        })
    }
}

/// Returns a value's bytes in network order without leading zeros, but at least one byte.
fn canonical(words: &[u64]) -> Vec<u8> {
    let bytes = words.iter().rev().flat_map(|word| word.to_be_bytes());
    let mut bytes: Vec<u8> = bytes.skip_while(|byte| *byte == 0).collect();
    if bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_no_zeros_in_front_and_at_least_one_byte() {
        assert_eq!(canonical(&[0]), [0]);
        assert_eq!(canonical(&[0x0102, 0]), [1, 2]);
        assert_eq!(canonical(&[5, 0x0300]), [3, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    }
}
