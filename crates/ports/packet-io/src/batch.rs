//! Frames or payloads that wait to be sent with one system call, back to back in one buffer.
//!
//! The buffer is reused for every batch, so it stays in the cache and no frame allocates memory. If frames in a row
//! have the same long payload, as a packet's copies do, the payload is in the buffer once, behind the first frame's
//! headers. The kernel reads each of the other frames from two places of the buffer: the frame's own headers, and this
//! payload.

use frame::{Frame, PayloadIdentity};

use crate::limits::{SHARED_PAYLOAD_BYTES_MIN, TX_BATCH_BYTES, TX_BATCH_FRAMES};

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    start: usize,
    len: usize,
}

/// The payload that was copied last.
#[derive(Clone, Copy, Debug)]
struct Payload {
    identity: PayloadIdentity,
    part: Part,
}

/// A batch of up to [`TX_BATCH_FRAMES`].
pub(crate) struct TxBatch {
    /// The number of zero bytes before each frame. They are a header that the socket expects and that does not leave on
    /// the wire.
    header_bytes: usize,
    bytes: Vec<u8>,
    /// Each frame's two parts; the second may be empty.
    frames: Vec<[Part; 2]>,
    last_payload: Option<Payload>,
}

impl TxBatch {
    pub(crate) fn new() -> TxBatch {
        TxBatch::with_header(0)
    }

    /// Makes an empty batch that puts `header_bytes` zeros before each frame.
    pub(crate) fn with_header(header_bytes: usize) -> TxBatch {
        TxBatch {
            header_bytes,
            bytes: Vec::new(),
            frames: Vec::with_capacity(TX_BATCH_FRAMES),
            last_payload: None,
        }
    }

    /// Adds a frame. Does not copy its payload if the payload is long and is the payload that was copied last.
    pub(crate) fn push(&mut self, frame: Frame<'_>) {
        let Frame { head, payload, .. } = frame;
        let identity = frame.payload_identity();
        let start = self.bytes.len();
        self.bytes.resize(start + self.header_bytes, 0);
        self.bytes.extend_from_slice(head);
        let mut first = Part {
            start,
            len: self.header_bytes + head.len(),
        };
        if let Some(shared) = self.find(identity) {
            self.frames.push([first, shared]);
            return;
        }
        let part = Part {
            start: self.bytes.len(),
            len: payload.len(),
        };
        self.bytes.extend_from_slice(payload);
        self.last_payload = identity.map(|identity| Payload { identity, part });
        first.len += payload.len();
        self.frames.push([first, Part::default()]);
    }

    /// Returns the place of the wanted payload in the buffer, if the payload is long and is the payload that was copied
    /// last.
    fn find(&self, wanted: Option<PayloadIdentity>) -> Option<Part> {
        let Payload { identity, part } = self.last_payload?;
        (part.len >= SHARED_PAYLOAD_BYTES_MIN && wanted == Some(identity)).then_some(part)
    }

    /// Whether the batch must be sent before the next frame is pushed.
    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= TX_BATCH_FRAMES || self.bytes.len() >= TX_BATCH_BYTES
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the length in bytes of the frame at this position.
    pub(crate) fn bytes_of(&self, place: usize) -> usize {
        let [first, second] = self.frames[place];
        first.len + second.len - self.header_bytes
    }

    /// Returns all frames from this position on, with their headers, in two pieces; the second may be empty.
    pub(crate) fn iter_from(&self, first: usize) -> impl Iterator<Item = [&[u8]; 2]> {
        let frames = self.frames[first..].iter();
        frames.map(|parts| parts.map(|part| self.part(part)))
    }

    fn part(&self, part: Part) -> &[u8] {
        &self.bytes[part.start..part.start + part.len]
    }

    /// Removes the first `n_frames`. Their bytes stay until the batch is empty.
    pub(crate) fn remove_first(&mut self, n_frames: usize) {
        if n_frames == self.frames.len() {
            return self.clear();
        }
        self.frames.drain(..n_frames);
    }

    /// Empties the batch, and frees memory that it rarely needs.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
        self.last_payload = None;
        self.bytes.shrink_to(2 * TX_BATCH_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(batch: &TxBatch, first: usize) -> Vec<Vec<u8>> {
        batch.iter_from(first).map(|frame| frame.concat()).collect()
    }

    fn known<'a>(head: &'a [u8], payload: &'a [u8], payload_id: u64) -> Frame<'a> {
        Frame {
            head,
            payload,
            payload_id,
        }
    }

    #[test]
    fn frames_come_back_whole_and_in_order() {
        let mut batch = TxBatch::new();
        batch.push([&[1, 2][..], &[3]].into());
        batch.push([&[][..], &[]].into());
        batch.push([&[4][..], &[]].into());
        assert_eq!(batch.len(), 3);
        assert_eq!(frames(&batch, 0), [&[1, 2, 3][..], &[], &[4]]);
        assert_eq!([0, 1, 2].map(|place| batch.bytes_of(place)), [3, 0, 1]);
        assert_eq!(batch.iter_from(2).count(), 1);
        batch.clear();
        assert_eq!(batch.iter_from(0).count(), 0);
    }

    #[test]
    fn a_header_stands_in_front_of_each_frame_and_is_no_byte_of_it() {
        let mut batch = TxBatch::with_header(3);
        let payload = [7; 1000];
        batch.push(known(&[1], &payload, 9));
        batch.push(known(&[2], &payload, 9));
        let expected = [1, 2].map(|number| [&[0, 0, 0, number][..], &payload].concat());
        assert_eq!(frames(&batch, 0), expected);
        assert_eq!([0, 1].map(|place| batch.bytes_of(place)), [1001, 1001]);
    }

    #[test]
    fn those_behind_the_first_stay_and_share_what_they_did() {
        let mut batch = TxBatch::new();
        let payload = [7; 1000];
        for number in 0..3 {
            batch.push(known(&[number], &payload, 9));
        }
        batch.remove_first(0);
        assert_eq!(batch.len(), 3);
        batch.remove_first(2);
        batch.push(known(&[3], &payload, 9));
        let expected = [2, 3].map(|number| [&[number][..], &payload].concat());
        assert_eq!(frames(&batch, 0), expected);
        batch.remove_first(2);
        assert_eq!((batch.len(), batch.bytes.len()), (0, 0));
    }

    #[test]
    fn a_payload_that_follows_itself_is_there_once() {
        let mut batch = TxBatch::new();
        let payload = [7; 1000];
        for number in 0..5 {
            batch.push(known(&[number; 42], &payload, 9));
        }
        assert_eq!(batch.bytes.len(), 5 * 42 + payload.len());
        for (number, frame) in (0..).zip(frames(&batch, 0)) {
            assert_eq!(frame, [&[number; 42][..], &payload].concat());
            assert_eq!(batch.bytes_of(usize::from(number)), 1042);
        }
    }

    #[test]
    fn another_payload_where_one_was_is_another() {
        let mut batch = TxBatch::new();
        let mut payload = [7; 1000];
        batch.push(known(&[1], &payload, 1));
        payload[999] = 8;
        batch.push(known(&[2], &payload, 2));
        batch.push(known(&[3], &payload[..999], 2));
        let expected = [
            [&[1][..], &[7; 1000]].concat(),
            [&[2][..], &[7; 999], &[8]].concat(),
            [&[3][..], &[7; 999]].concat(),
        ];
        assert_eq!(frames(&batch, 0), expected);
        batch.clear();
        batch.push(known(&[4], &payload, 2));
        assert_eq!(frames(&batch, 0), [[&[4][..], &payload].concat()]);
    }

    #[test]
    fn a_payload_of_which_nothing_is_known_is_copied_each_time() {
        let mut batch = TxBatch::new();
        let payload = [7; 1000];
        batch.push(known(&[1], &payload, 0));
        batch.push(known(&[2], &payload, 0));
        assert_eq!(batch.bytes.len(), 2 * 1001);
    }

    #[test]
    fn it_is_full_by_number_or_by_bytes_and_does_not_keep_more() {
        let mut batch = TxBatch::new();
        batch.push([&[0; TX_BATCH_BYTES][..], &[0; 4 * TX_BATCH_BYTES]].into());
        assert!(batch.is_full());
        batch.clear();
        assert!(batch.bytes.capacity() <= 2 * TX_BATCH_BYTES);
        for _ in 0..TX_BATCH_FRAMES {
            assert!(!batch.is_full());
            batch.push([&[0; 14][..], &[]].into());
        }
        assert!(batch.is_full());
    }
}
