//! The parts of RTP and RTCP packets that SRTP looks at (RFC 3550, sections 5.1, 5.3.1 and 6.4).

/// Why bytes are no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// The packet ends inside its header or, where it is protected, inside its tag or index.
    #[error("the packet ends inside its header, its tag or its index")]
    Short,
    /// The version is not 2.
    #[error("the version is not 2")]
    Version,
    /// The caller's buffer is too short for the packet and what protection adds.
    #[error("the buffer is too short")]
    Room,
}

/// The fixed header of RTCP, with the sender's SSRC: SRTCP leaves it in clear.
pub const RTCP_HEADER_BYTES: usize = 8;
/// The encryption flag and the index of SRTCP.
pub const RTCP_INDEX_BYTES: usize = 4;

/// What is in an RTP packet's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtpHeader {
    pub ssrc: u32,
    pub sequence: u16,
    /// Bytes of the header with its CSRCs and its extension: SRTP leaves them in clear.
    pub n_bytes: usize,
}

impl RtpHeader {
    pub fn read(packet: &[u8]) -> Result<RtpHeader, Malformed> {
        let fixed: &[u8; 12] = packet.first_chunk().ok_or(Malformed::Short)?;
        if fixed[0] >> 6 != 2 {
            return Err(Malformed::Version);
        }
        let mut n_bytes = fixed.len() + usize::from(fixed[0] & 0x0f) * 4;
        if fixed[0] & 0x10 != 0 {
            let extension = packet.get(n_bytes..n_bytes + 4).ok_or(Malformed::Short)?;
            n_bytes += 4 + usize::from(u16::from_be_bytes([extension[2], extension[3]])) * 4;
        }
        if packet.len() < n_bytes {
            return Err(Malformed::Short);
        }
        Ok(RtpHeader {
            ssrc: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
            sequence: u16::from_be_bytes([fixed[2], fixed[3]]),
            n_bytes,
        })
    }
}

/// Returns the SSRC of the sender of an RTCP packet.
pub fn rtcp_ssrc(packet: &[u8]) -> Result<u32, Malformed> {
    let header: &[u8; RTCP_HEADER_BYTES] = packet.first_chunk().ok_or(Malformed::Short)?;
    if header[0] >> 6 != 2 {
        return Err(Malformed::Version);
    }
    Ok(u32::from_be_bytes([
        header[4], header[5], header[6], header[7],
    ]))
}
