//! The packets that publishers of a load send: RTP packets (RFC 3550) whose payload names the run, the publisher, the
//! packet's number and the time of sending.
//!
//! All numbers are in network byte order:
//!
//! | bytes of the payload | content |
//! | --- | --- |
//! | 0..4 | "RLD1" |
//! | 4..12 | the run, a random number |
//! | 12..16 | the publisher's index |
//! | 16..24 | the packet's number, from 0 on |
//! | 24..32 | when it was sent, in nanoseconds since 1970 |

const MAGIC: [u8; 4] = *b"RLD1";
const RTP_LEN: usize = 12;
/// The length of the shortest packet: the RTP header and the label.
pub const LEN_MIN: usize = RTP_LEN + 32;
/// The first dynamic payload type (RFC 3551).
const PAYLOAD_TYPE: u8 = 96;
/// The rate of the RTP timestamps of video (RFC 3551).
const CLOCK_HZ: u128 = 90_000;

/// What a packet's payload says about the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    pub run: u64,
    pub publisher: u32,
    pub number: u64,
    pub sent_ns: u64,
}

impl Label {
    /// Writes the RTP header and the label into the packet's first bytes. The bytes after them stay as they are.
    pub fn write(&self, packet: &mut [u8]) {
        let number = self.number.to_be_bytes();
        let time = u128::from(self.sent_ns) * CLOCK_HZ / 1_000_000_000;
        let time = time.to_be_bytes();
        // Each publisher has its own RTP source (SSRC), which differs from run to run.
        let source = u32::try_from(self.run >> 32).unwrap_or(0) ^ self.publisher;
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            packet[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&[0x80, PAYLOAD_TYPE]);
        put(&number[6..]);
        put(&time[12..]);
        put(&source.to_be_bytes());
        put(&MAGIC);
        put(&self.run.to_be_bytes());
        put(&self.publisher.to_be_bytes());
        put(&number);
        put(&self.sent_ns.to_be_bytes());
    }

    /// Reads a packet; `None` if no publisher of a load has sent it.
    pub fn read(packet: &[u8]) -> Option<Label> {
        let payload = packet.get(RTP_LEN..LEN_MIN)?;
        if packet[0] != 0x80 || packet[1] != PAYLOAD_TYPE || payload[..4] != MAGIC {
            return None;
        }
        Some(Label {
            run: u64::from_be_bytes(payload[4..12].try_into().ok()?),
            publisher: u32::from_be_bytes(payload[12..16].try_into().ok()?),
            number: u64::from_be_bytes(payload[16..24].try_into().ok()?),
            sent_ns: u64::from_be_bytes(payload[24..32].try_into().ok()?),
        })
    }
}

/// How many packets a second a publisher sends, and how long each packet is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    pub per_s: u32,
    pub len: usize,
}

/// Minimum number of packets a second. Audio with 20 ms in each packet has the same number.
const PER_S_MIN: u32 = 50;
/// The length of the longest packets, in bytes of UDP payload. It leaves room for all headers on any path.
const LEN_MAX: u32 = 1_200;
/// Headers of a whole frame: Ethernet with a VLAN, IPv6, UDP.
const HEADERS: u64 = 18 + 40 + 8;

impl Pace {
    /// The pace at which a publisher sends this rate of UDP payload.
    pub fn of(kbps: u32) -> Pace {
        let bytes_per_s = u64::from(kbps) * 1_000 / 8;
        let per_s = bytes_per_s.div_ceil(LEN_MAX.into());
        let per_s = u32::try_from(per_s).unwrap_or(u32::MAX).max(PER_S_MIN);
        let len = bytes_per_s / u64::from(per_s);
        Pace {
            per_s,
            len: usize::try_from(len).unwrap_or(0).max(LEN_MIN),
        }
    }

    /// The maximum rate to declare for a track with this pace. It is twice the rate that the pace needs, so that a
    /// stalled sender can catch up.
    pub fn max_kbps(self) -> u32 {
        let frame = self.len as u64 + HEADERS;
        let kbps = (frame * 8 * u64::from(self.per_s)).div_ceil(1_000) * 2;
        u32::try_from(kbps).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label {
        run: 0x0102_0304_0506_0708,
        publisher: 9,
        number: 70_000,
        sent_ns: 1_795_836_063_010_000_001,
    };

    #[test]
    fn a_packet_is_rtp_and_says_what_was_written() {
        let mut packet = vec![0; 100];
        LABEL.write(&mut packet);
        assert_eq!(Label::read(&packet), Some(LABEL));
        assert_eq!(&packet[..2], [0x80, 96]);
        assert_eq!(packet[2..4], (70_000_u32 as u16).to_be_bytes());
        assert_eq!(packet[8..12], (0x0102_0304_u32 ^ 9).to_be_bytes());
        assert_eq!(Label::read(&packet[..LEN_MIN]), Some(LABEL));
    }

    #[test]
    fn other_packets_are_none_of_a_load() {
        let mut packet = vec![0; 100];
        LABEL.write(&mut packet);
        assert_eq!(Label::read(&packet[..LEN_MIN - 1]), None);
        assert_eq!(Label::read(&[]), None);
        for at in [0, 1, 12, 15] {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert_eq!(Label::read(&other), None, "byte {at}");
        }
    }

    #[test]
    fn packets_are_as_many_and_as_long_as_the_rate_needs() {
        assert_eq!(
            Pace::of(64),
            Pace {
                per_s: 50,
                len: 160
            }
        );
        assert_eq!(
            Pace::of(10_000),
            Pace {
                per_s: 1_042,
                len: 1_199
            }
        );
        // No packet can be shorter than its label.
        assert_eq!(
            Pace::of(1),
            Pace {
                per_s: 50,
                len: LEN_MIN
            }
        );
        assert_eq!(
            Pace {
                per_s: 50,
                len: 160
            }
            .max_kbps(),
            182
        );
    }
}
