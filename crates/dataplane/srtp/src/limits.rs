//! Limits.

/// The most streams (SSRCs) of one sender or receiver. A participant sends a few: audio, and video in some qualities,
/// each with its retransmissions.
pub const STREAMS_MAX: usize = 256;
/// By how many bytes protection makes a packet longer at most: a tag of 16 bytes and, in SRTCP, an index of 4.
pub const GROWTH_BYTES_MAX: usize = 20;
/// How many packet indices below the highest one a stream remembers as used or not. RFC 3711, section 3.3.2, asks for 64
/// at least. More packets than that may be overtaken where several receive queues deliver one stream.
pub const WINDOW: u64 = 128;
/// A packet index of SRTP has 48 bits: 32 of the roll-over counter and 16 of the sequence number (RFC 3711, section
/// 3.3.1).
pub const RTP_INDEX_MAX: u64 = (1 << 48) - 1;
/// A packet index of SRTCP has 31 bits (RFC 3711, section 3.4).
pub const RTCP_INDEX_MAX: u64 = (1 << 31) - 1;
