//! Cuts a super-frame (TSO, USO, GRO) into the frames that would be on the wire.

use super::internet_checksum;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 768; each segment is a datagram of its own.
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    pub transport: Transport,
    /// Bytes of payload in each segment but the last.
    pub payload_bytes: usize,
    /// Offset of the transport header in the frame.
    pub transport_start: usize,
}

const FLAGS: usize = 13;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Cuts `frame` and hands every segment to `take`, in order. Each segment has its own lengths, IPv4 identification and
/// header checksum, TCP sequence number and flags, and transport checksum. Returns the number of segments. If the frame
/// does not have the transport header that `how` announces, directly over IPv4 or IPv6, returns `None` without calling
/// `take`. All segments use one buffer; `take` sees `headroom` bytes before each frame, for a VLAN tag.
pub fn segment(
    frame: &[u8],
    how: &Segmentation,
    headroom: usize,
    take: &mut dyn FnMut(&mut [u8]),
) -> Option<usize> {
    let layout = Layout::find(frame, how)?;
    let payload = &frame[layout.payload_start..];
    if payload.is_empty() || how.payload_bytes == 0 {
        return None;
    }
    let n_segments = payload.len().div_ceil(how.payload_bytes);
    let mut buffer = Vec::new();
    for (segment_idx, chunk) in payload.chunks(how.payload_bytes).enumerate() {
        buffer.clear();
        buffer.resize(headroom, 0);
        buffer.extend_from_slice(&frame[..layout.payload_start]);
        buffer.extend_from_slice(chunk);
        let segment = &mut buffer[headroom..];
        layout.fix_network_header(segment, segment_idx);
        match how.transport {
            Transport::Tcp => {
                let offset = segment_idx * how.payload_bytes;
                let is_last = segment_idx + 1 == n_segments;
                layout.fix_tcp_header(segment, offset, is_last);
            }
            Transport::Udp => {
                let len = (segment.len() - layout.transport_start) as u16;
                put(segment, layout.transport_start + 4, len);
            }
        }
        layout.fix_transport_checksum(segment, how.transport);
        take(&mut buffer);
    }
    Some(n_segments)
}

/// Offsets of a super-frame's headers.
struct Layout {
    network_start: usize,
    is_ipv4: bool,
    transport_start: usize,
    payload_start: usize,
}

impl Layout {
    fn find(frame: &[u8], how: &Segmentation) -> Option<Layout> {
        let mut network_start = 14;
        let mut ether_type = word(frame, 12)?;
        while matches!(ether_type, 0x8100 | 0x88a8) {
            ether_type = word(frame, network_start + 2)?;
            network_start += 4;
        }
        let (is_ipv4, header_bytes, protocol) = match ether_type {
            0x0800 => {
                let header_bytes = usize::from(*frame.get(network_start)? & 0x0f) * 4;
                (true, header_bytes, *frame.get(network_start + 9)?)
            }
            0x86dd => (false, 40, *frame.get(network_start + 6)?),
            _ => return None,
        };
        let transport_start = network_start + header_bytes;
        let (expected_protocol, transport_bytes) = match how.transport {
            Transport::Tcp => (6, usize::from(*frame.get(transport_start + 12)? >> 4) * 4),
            Transport::Udp => (17, 8),
        };
        let payload_start = transport_start + transport_bytes;
        let agrees = protocol == expected_protocol
            && header_bytes >= 20
            && transport_start == how.transport_start
            && transport_bytes >= 8
            && payload_start <= frame.len()
            // A segment's length fields have 16 bits.
            && payload_start - network_start + how.payload_bytes <= 0xffff;
        agrees.then_some(Layout {
            network_start,
            is_ipv4,
            transport_start,
            payload_start,
        })
    }

    fn fix_network_header(&self, segment: &mut [u8], segment_idx: usize) {
        let network = self.network_start;
        if self.is_ipv4 {
            put(segment, network + 2, (segment.len() - network) as u16);
            let id = u16::from_be_bytes([segment[network + 4], segment[network + 5]]);
            // The identification wraps by design.
            put(segment, network + 4, id.wrapping_add(segment_idx as u16));
            put(segment, network + 10, 0);
            let sum = internet_checksum(0, &segment[network..self.transport_start]);
            put(segment, network + 10, sum);
        } else {
            put(
                segment,
                network + 4,
                (segment.len() - self.transport_start) as u16,
            );
        }
    }

    fn fix_tcp_header(&self, segment: &mut [u8], offset: usize, is_last: bool) {
        let at = self.transport_start + 4;
        let sequence = u32::from_be_bytes([
            segment[at],
            segment[at + 1],
            segment[at + 2],
            segment[at + 3],
        ]);
        let sequence = sequence.wrapping_add(offset as u32);
        segment[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
        if !is_last {
            segment[self.transport_start + FLAGS] &= !FIN_PSH;
        }
        if offset > 0 {
            segment[self.transport_start + FLAGS] &= !CWR;
        }
    }

    /// Writes the transport checksum. RFC 793 and RFC 768 define the pseudo-header for IPv4, RFC 8200 section 8.1 for
    /// IPv6.
    fn fix_transport_checksum(&self, segment: &mut [u8], transport: Transport) {
        let (field, protocol) = match transport {
            Transport::Tcp => (self.transport_start + 16, 6),
            Transport::Udp => (self.transport_start + 6, 17),
        };
        let addresses = if self.is_ipv4 {
            self.network_start + 12..self.network_start + 20
        } else {
            self.network_start + 8..self.network_start + 40
        };
        put(segment, field, 0);
        let pseudo = protocol + (segment.len() - self.transport_start) as u32;
        let pseudo = u32::from(!internet_checksum(pseudo, &segment[addresses]));
        let sum = match internet_checksum(pseudo, &segment[self.transport_start..]) {
            0 => 0xffff,
            sum => sum,
        };
        put(segment, field, sum);
    }
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

fn put(segment: &mut [u8], at: usize, value: u16) {
    segment[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, transport_header: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
        let len = (20 + transport_header.len() + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([
            0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        frame.extend(transport_header);
        frame.extend(payload);
        frame
    }

    fn tcp_header(flags: u8) -> Vec<u8> {
        let mut header = vec![
            0x30, 0x39, 0x00, 0x50, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0x50,
        ];
        header.extend([flags, 1, 0, 0xbe, 0xef, 0, 0]);
        header
    }

    fn cut(frame: &[u8], how: &Segmentation) -> Option<Vec<Vec<u8>>> {
        let mut segments = Vec::new();
        segment(frame, how, 0, &mut |segment| {
            segments.push(segment.to_vec())
        })?;
        Some(segments)
    }

    /// Asserts that the checksums are right. The sum over the checksummed bytes, including the checksum itself and the
    /// pseudo-header, is then all ones.
    fn assert_checksums(segment: &[u8], protocol: u32) {
        assert_eq!(internet_checksum(0, &segment[14..34]), 0, "IPv4 header");
        let pseudo = protocol + (segment.len() - 34) as u32;
        let pseudo = u32::from(!internet_checksum(pseudo, &segment[26..34]));
        assert_eq!(internet_checksum(pseudo, &segment[34..]), 0, "transport");
    }

    #[test]
    fn tcp_is_cut_with_sequence_numbers_flags_and_checksums_of_each_segment() {
        let payload: Vec<u8> = (0..25).collect();
        let how = Segmentation {
            transport: Transport::Tcp,
            payload_bytes: 10,
            transport_start: 34,
        };
        let segments =
            cut(&ipv4(6, &tcp_header(CWR | FIN_PSH | 0x10), &payload), &how).expect("a TCP frame");
        assert_eq!(segments.len(), 3);
        let flags: Vec<u8> = segments.iter().map(|segment| segment[34 + FLAGS]).collect();
        assert_eq!(flags, [CWR | 0x10, 0x10, FIN_PSH | 0x10]);
        let sequences: Vec<&[u8]> = segments.iter().map(|segment| &segment[38..42]).collect();
        assert_eq!(
            sequences,
            [[0xff, 0xff, 0xff, 0xfe], [0, 0, 0, 8], [0, 0, 0, 18]]
        );
        let ids: Vec<&[u8]> = segments.iter().map(|segment| &segment[18..20]).collect();
        assert_eq!(ids, [[0xff, 0xff], [0, 0], [0, 1]]);
        let payloads: Vec<u8> = segments.iter().flat_map(|s| s[54..].to_vec()).collect();
        assert_eq!(payloads, payload);
        for segment in &segments {
            assert_eq!(
                u16::from_be_bytes([segment[16], segment[17]]),
                segment.len() as u16 - 14
            );
            assert_checksums(segment, 6);
        }
    }

    #[test]
    fn udp_is_cut_into_datagrams_with_their_own_lengths() {
        let header = [0x13, 0x88, 0x13, 0x89, 0, 0, 0, 0];
        let how = Segmentation {
            transport: Transport::Udp,
            payload_bytes: 4,
            transport_start: 34,
        };
        let segments = cut(&ipv4(17, &header, &[1, 2, 3, 4, 5, 6, 7]), &how).expect("a UDP frame");
        let lengths: Vec<&[u8]> = segments.iter().map(|segment| &segment[38..40]).collect();
        assert_eq!(lengths, [[0, 12], [0, 11]]);
        segments
            .iter()
            .for_each(|segment| assert_checksums(segment, 17));
    }

    #[test]
    fn what_is_not_the_announced_transport_is_refused() {
        let frame = ipv4(17, &[0; 8], &[1; 100]);
        let tcp = Segmentation {
            transport: Transport::Tcp,
            payload_bytes: 10,
            transport_start: 34,
        };
        assert_eq!(cut(&frame, &tcp), None);
        let tunnelled = Segmentation {
            transport: Transport::Udp,
            payload_bytes: 10,
            transport_start: 84,
        };
        assert_eq!(cut(&frame, &tunnelled), None);
        let nothing = Segmentation {
            transport: Transport::Udp,
            payload_bytes: 0,
            transport_start: 34,
        };
        assert_eq!(cut(&frame, &nothing), None);
        for len in 0..42 {
            let udp = Segmentation {
                transport: Transport::Udp,
                payload_bytes: 10,
                transport_start: 34,
            };
            assert_eq!(cut(&frame[..len], &udp), None, "{len} bytes");
        }
    }
}
