//! Frames or payloads that wait to be sent with one system call, back to back in one buffer.
//!
//! The buffer is used again for every batch, so that it stays in the cache and nothing is
//! allocated for a frame.

use crate::limits::{TX_BATCH_BYTES, TX_BATCH_FRAMES};

/// A batch of up to [`TX_BATCH_FRAMES`].
pub(crate) struct TxBatch {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
}

impl TxBatch {
    pub(crate) fn new() -> TxBatch {
        TxBatch {
            bytes: Vec::new(),
            ends: Vec::with_capacity(TX_BATCH_FRAMES),
        }
    }

    /// Copies one more in, from its two pieces.
    pub(crate) fn push(&mut self, [head, payload]: [&[u8]; 2]) {
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
    }

    /// Whether it is to be sent before the next is pushed.
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= TX_BATCH_FRAMES || self.bytes.len() >= TX_BATCH_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The one in that place.
    pub(crate) fn get(&self, place: usize) -> &[u8] {
        let start = place
            .checked_sub(1)
            .map_or(0, |before_it| self.ends[before_it]);
        &self.bytes[start..self.ends[place]]
    }

    /// All from that place on.
    pub(crate) fn iter_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        (first..self.len()).map(|place| self.get(place))
    }

    /// Empties it; what was rarely needed of the memory is given back.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.shrink_to(2 * TX_BATCH_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_whole_and_in_order() {
        let mut batch = TxBatch::new();
        batch.push([&[1, 2], &[3]]);
        batch.push([&[], &[]]);
        batch.push([&[4], &[]]);
        assert_eq!(batch.len(), 3);
        let all: Vec<&[u8]> = batch.iter_from(0).collect();
        assert_eq!(all, [&[1, 2, 3][..], &[], &[4]]);
        assert_eq!(batch.iter_from(2).count(), 1);
        batch.clear();
        assert_eq!(batch.iter_from(0).count(), 0);
    }

    #[test]
    fn it_is_full_by_number_or_by_bytes_and_does_not_keep_more() {
        let mut batch = TxBatch::new();
        batch.push([&[0; TX_BATCH_BYTES], &[0; 4 * TX_BATCH_BYTES]]);
        assert!(batch.is_full());
        batch.clear();
        assert!(batch.bytes.capacity() <= 2 * TX_BATCH_BYTES);
        for _ in 0..TX_BATCH_FRAMES {
            assert!(!batch.is_full());
            batch.push([&[0; 14], &[]]);
        }
        assert!(batch.is_full());
    }
}
