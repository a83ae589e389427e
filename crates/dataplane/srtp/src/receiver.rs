//! Checks and decrypts packets.

use std::collections::HashMap;

use crate::cipher::{Cipher, Forged, Kind};
use crate::index::{Used, Window, nearest};
use crate::limits::{RTP_INDEX_MAX, STREAMS_MAX};
use crate::packet::{Malformed, RTCP_HEADER_BYTES, RtpHeader, rtcp_ssrc};
use crate::profile::MasterKey;

/// Why a packet was not accepted. Its bytes are worthless.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Rejected {
    /// It is no packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The receiver has had it, or it is too old to know.
    #[error(transparent)]
    Replayed(#[from] Used),
    /// Its tag is wrong: it was protected with another key, or changed on its way.
    #[error("the tag is wrong")]
    Forged,
    /// An RTCP packet that is not encrypted.
    #[error("the packet is not encrypted")]
    NotEncrypted,
    /// The receiver has [`STREAMS_MAX`] other streams.
    #[error("the receiver has {STREAMS_MAX} streams already")]
    Streams,
}

impl From<Forged> for Rejected {
    fn from(Forged: Forged) -> Rejected {
        Rejected::Forged
    }
}

/// Checks and decrypts what the other side of a connection sends with one master key. Only packets with a right tag
/// change a receiver: a forged packet neither moves a replay window nor takes the place of a stream.
pub struct Receiver {
    rtp: Cipher,
    rtcp: Cipher,
    streams: HashMap<u32, Window>,
    reports: HashMap<u32, Window>,
}

impl Receiver {
    /// Makes a receiver.
    #[must_use]
    pub fn new(master: &MasterKey) -> Receiver {
        Receiver {
            rtp: Cipher::new(master, Kind::Rtp),
            rtcp: Cipher::new(master, Kind::Rtcp),
            streams: HashMap::new(),
            reports: HashMap::new(),
        }
    }

    /// Checks and decrypts an RTP packet in place; returns its length.
    ///
    /// # Errors
    /// The packet is not accepted.
    pub fn unprotect_rtp(&mut self, packet: &mut [u8]) -> Result<usize, Rejected> {
        let header = RtpHeader::read(packet)?;
        let window = self.streams.get_mut(&header.ssrc);
        let index = match &window {
            Some(window) => {
                let index = nearest(window.highest(), header.sequence).ok_or(Used::TooOld)?;
                if index > RTP_INDEX_MAX {
                    return Err(Rejected::Forged);
                }
                window.check(index)?;
                index
            }
            None => u64::from(header.sequence),
        };
        let n_bytes = self
            .rtp
            .unprotect(packet, header.n_bytes, header.ssrc, index)?;
        accept(&mut self.streams, header.ssrc, index)?;
        Ok(n_bytes)
    }

    /// Checks and decrypts an RTCP packet in place; returns its length.
    ///
    /// # Errors
    /// The packet is not accepted.
    pub fn unprotect_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, Rejected> {
        let ssrc = rtcp_ssrc(packet)?;
        if packet.len() < RTCP_HEADER_BYTES + self.rtcp.growth_bytes() {
            return Err(Malformed::Short.into());
        }
        let index = self.rtcp.rtcp_index(packet).ok_or(Rejected::NotEncrypted)?;
        let index = u64::from(index);
        if let Some(window) = self.reports.get(&ssrc) {
            window.check(index)?;
        }
        let n_bytes = self
            .rtcp
            .unprotect(packet, RTCP_HEADER_BYTES, ssrc, index)?;
        accept(&mut self.reports, ssrc, index)?;
        Ok(n_bytes)
    }
}

/// Marks the index of a packet with a right tag.
fn accept(windows: &mut HashMap<u32, Window>, ssrc: u32, index: u64) -> Result<(), Rejected> {
    let n_streams = windows.len();
    match windows.get_mut(&ssrc) {
        Some(window) => window.mark(index),
        None if n_streams >= STREAMS_MAX => return Err(Rejected::Streams),
        None => drop(windows.insert(ssrc, Window::begin(index))),
    }
    Ok(())
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver")
            .field("streams", &self.streams)
            .field("reports", &self.reports)
            .finish_non_exhaustive()
    }
}
