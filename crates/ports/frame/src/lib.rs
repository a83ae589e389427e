//! The frame that the data plane hands to a port: the only type that the data plane and the ports share.

/// An Ethernet frame in two pieces; either may be empty. The port copies each piece once, into its send buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The headers, made for this copy of a packet.
    pub head: &'a [u8],
    /// The bytes after the headers, shared with other copies.
    pub payload: &'a [u8],
    /// Identifies the buffer that holds the payload; 0 if the buffer is unknown. While the process lives, two frames
    /// with the same `payload_id` and payloads at the same address have the same bytes there.
    pub payload_id: u64,
}

/// The identity of a payload: two payloads with equal identities have equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadIdentity {
    id: u64,
    address: usize,
    len: usize,
}

impl Frame<'_> {
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Returns `None` if `payload_id` is unknown.
    #[inline]
    pub fn payload_identity(&self) -> Option<PayloadIdentity> {
        (self.payload_id != 0).then(|| PayloadIdentity {
            id: self.payload_id,
            address: self.payload.as_ptr().addr(),
            len: self.payload.len(),
        })
    }
}

impl<'a> From<&'a [u8]> for Frame<'a> {
    #[inline]
    fn from(whole: &'a [u8]) -> Self {
        [whole, &[]].into()
    }
}

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
