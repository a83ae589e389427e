//! Protects packets.

use std::collections::HashMap;

use crate::cipher::{Cipher, Kind};
use crate::index::{Used, Window, nearest};
use crate::limits::{RTCP_INDEX_MAX, RTP_INDEX_MAX, STREAMS_MAX};
use crate::packet::{Malformed, RTCP_HEADER_BYTES, RtpHeader, rtcp_ssrc};
use crate::profile::MasterKey;

/// Why a packet was not protected. It must not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// It is no packet, or there is no room.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Its index has been used, or may have been.
    #[error(transparent)]
    Used(#[from] Used),
    /// The sender has [`STREAMS_MAX`] other streams.
    #[error("the sender has {STREAMS_MAX} streams already")]
    Streams,
    /// The key has protected as many packets of the stream as it may: the peers need a new one.
    #[error("the key is used up")]
    KeyUsedUp,
}

/// Protects what one side of a connection sends, with one master key.
pub struct Sender {
    rtp: Cipher,
    rtcp: Cipher,
    streams: HashMap<u32, Window>,
    /// For each SSRC, the index of the next RTCP packet.
    reports: HashMap<u32, u64>,
}

impl Sender {
    /// Makes a sender. Nobody else may send with the same master key, also not later.
    #[must_use]
    pub fn new(master: &MasterKey) -> Sender {
        Sender {
            rtp: Cipher::new(master, Kind::Rtp),
            rtcp: Cipher::new(master, Kind::Rtcp),
            streams: HashMap::new(),
            reports: HashMap::new(),
        }
    }

    /// By how many bytes a protected RTP packet is longer.
    #[must_use]
    pub fn rtp_growth_bytes(&self) -> usize {
        self.rtp.growth_bytes()
    }

    /// By how many bytes a protected RTCP packet is longer.
    #[must_use]
    pub fn rtcp_growth_bytes(&self) -> usize {
        self.rtcp.growth_bytes()
    }

    /// Protects an RTP packet of `n_bytes` in place, and returns its new length. `room` begins with the packet.
    ///
    /// A stream begins with the roll-over counter 0. Its receiver assumes that too (RFC 3711, section 3.3.1), so it
    /// should see a packet before the stream's sequence number begins again at 0.
    ///
    /// # Errors
    /// The packet must not be sent; its bytes are as they were.
    pub fn protect_rtp(&mut self, room: &mut [u8], n_bytes: usize) -> Result<usize, Refused> {
        let header = RtpHeader::read(room.get(..n_bytes).ok_or(Malformed::Room)?)?;
        let n_protected = n_bytes + self.rtp.growth_bytes();
        let room = room.get_mut(..n_protected).ok_or(Malformed::Room)?;
        let n_streams = self.streams.len();
        let index = match self.streams.get_mut(&header.ssrc) {
            Some(window) => {
                let index = nearest(window.highest(), header.sequence).ok_or(Used::TooOld)?;
                if index > RTP_INDEX_MAX {
                    return Err(Refused::KeyUsedUp);
                }
                window.check(index)?;
                window.mark(index);
                index
            }
            None if n_streams >= STREAMS_MAX => return Err(Refused::Streams),
            None => {
                let index = u64::from(header.sequence);
                self.streams.insert(header.ssrc, Window::begin(index));
                index
            }
        };
        self.rtp.protect(room, header.n_bytes, header.ssrc, index);
        Ok(n_protected)
    }

    /// Protects a compound RTCP packet of `n_bytes` in place, and returns its new length. `room` begins with the packet.
    ///
    /// # Errors
    /// The packet must not be sent; its bytes are as they were.
    pub fn protect_rtcp(&mut self, room: &mut [u8], n_bytes: usize) -> Result<usize, Refused> {
        let ssrc = rtcp_ssrc(room.get(..n_bytes).ok_or(Malformed::Room)?)?;
        let n_protected = n_bytes + self.rtcp.growth_bytes();
        let room = room.get_mut(..n_protected).ok_or(Malformed::Room)?;
        if self.reports.len() >= STREAMS_MAX && !self.reports.contains_key(&ssrc) {
            return Err(Refused::Streams);
        }
        let next = self.reports.entry(ssrc).or_insert(0);
        if *next > RTCP_INDEX_MAX {
            return Err(Refused::KeyUsedUp);
        }
        let index = *next;
        *next += 1;
        self.rtcp.protect(room, RTCP_HEADER_BYTES, ssrc, index);
        Ok(n_protected)
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("streams", &self.streams)
            .field("reports", &self.reports)
            .finish_non_exhaustive()
    }
}
