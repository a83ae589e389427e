//! A frame that leaves, where the data plane has it: all that a port and the data plane know of each
//! other.

/// An Ethernet frame in two pieces, one after the other; either may be empty. A port copies them once, to
/// where it sends from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What was made for this frame: its headers.
    pub head: &'a [u8],
    /// What follows them, shared with other copies.
    pub payload: &'a [u8],
    /// Identifies the bytes of which the payload is a part. As long as the process lives, two frames with the same
    /// `payload_id` and with payloads at the same address have the same bytes there. 0: unknown.
    pub payload_id: u64,
}

/// Which payload a frame has: two that are equal have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadIdentity {
    id: u64,
    address: usize,
    len: usize,
}

impl Frame<'_> {
    /// Length of the frame.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// None where nothing is known of it.
    #[inline]
    pub fn payload_identity(&self) -> Option<PayloadIdentity> {
        (self.payload_id != 0).then(|| PayloadIdentity {
            id: self.payload_id,
            address: self.payload.as_ptr().addr(),
            len: self.payload.len(),
        })
    }
}

/// In one piece.
impl<'a> From<&'a [u8]> for Frame<'a> {
    #[inline]
    fn from(whole: &'a [u8]) -> Self {
        [whole, &[]].into()
    }
}

/// A frame with an unidentified payload.
impl<'a> From<[&'a [u8]; 2]> for Frame<'a> {
    #[inline]
    fn from([head, payload]: [&'a [u8]; 2]) -> Self {
        Self {
            head,
            payload,
            payload_id: 0,
        }
    }
}
