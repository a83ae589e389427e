//! Makes headers for a datagram, and finds a datagram in a frame; no I/O.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::offload::internet_checksum;

const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV4_BYTES_MAX: usize = 60;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;

/// Bytes of the longest headers that [`write_headers`] makes.
pub(super) const HEADROOM_BYTES: usize = ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES;

/// Longest headers of a frame, in bytes, with two VLAN tags and IPv4 options.
const HEADERS_BYTES_MAX: usize = ETHERNET_BYTES + 2 * TAG_BYTES + IPV4_BYTES_MAX + UDP_BYTES;

/// Returns the MAC address that stands for an IP address in the frames of a switch's port that is a UDP socket: 02:00
/// (locally administered), then the address's last four bytes. 10.0.1.4 is 02:00:0a:00:01:04.
pub fn mac_of(address: IpAddr) -> [u8; 6] {
    let last = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            [a, b, c, d]
        }
    };
    [2, 0, last[0], last[1], last[2], last[3]]
}

/// Writes headers in front of the payload, which begins at byte [`HEADROOM_BYTES`] of `buffer`. Returns the frame, or
/// `None` if the frame is too long for its length fields, or if one address is IPv4 and the other IPv6.
pub(super) fn write_headers(
    buffer: &mut [u8],
    source: SocketAddr,
    destination: SocketAddr,
) -> Option<&[u8]> {
    let udp_bytes = u16::try_from(buffer.len() - HEADROOM_BYTES + UDP_BYTES).ok()?;
    let udp_start = HEADROOM_BYTES - UDP_BYTES;
    put(buffer, udp_start, &source.port().to_be_bytes());
    put(buffer, udp_start + 2, &destination.port().to_be_bytes());
    put(buffer, udp_start + 4, &udp_bytes.to_be_bytes());
    put(buffer, udp_start + 6, &[0, 0]);
    let (addresses, ether_type, ip_start) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let start = udp_start - IPV4_BYTES;
            write_ipv4(&mut buffer[start..], udp_bytes, from, to)?;
            (start + 12..udp_start, [0x08, 0x00], start)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let start = udp_start - IPV6_BYTES;
            write_ipv6(&mut buffer[start..], udp_bytes, from, to);
            (start + 8..udp_start, [0x86, 0xdd], start)
        }
        _ => return None,
    };
    let pseudo = u32::from(UDP) + u32::from(udp_bytes);
    let pseudo = u32::from(!internet_checksum(pseudo, &buffer[addresses]));
    let sum = match internet_checksum(pseudo, &buffer[udp_start..]) {
        // 0 would mean that there is no checksum (RFC 768).
        0 => 0xffff,
        sum => sum,
    };
    put(buffer, udp_start + 6, &sum.to_be_bytes());
    let frame = &mut buffer[ip_start - ETHERNET_BYTES..];
    put(frame, 0, &mac_of(destination.ip()));
    put(frame, 6, &mac_of(source.ip()));
    put(frame, 12, &ether_type);
    Some(frame)
}

/// Writes an IPv4 header (RFC 791) without options. It has the flag "don't fragment", so the identification does not
/// matter (RFC 6864).
fn write_ipv4(header: &mut [u8], udp_bytes: u16, from: Ipv4Addr, to: Ipv4Addr) -> Option<()> {
    let total_bytes = udp_bytes.checked_add(IPV4_BYTES as u16)?;
    put(header, 0, &[0x45, 0]);
    put(header, 2, &total_bytes.to_be_bytes());
    put(header, 4, &[0, 0, 0x40, 0, TIME_TO_LIVE, UDP, 0, 0]);
    put(header, 12, &from.octets());
    put(header, 16, &to.octets());
    let sum = internet_checksum(0, &header[..IPV4_BYTES]);
    put(header, 10, &sum.to_be_bytes());
    Some(())
}

/// Writes an IPv6 header (RFC 8200).
fn write_ipv6(header: &mut [u8], udp_bytes: u16, from: Ipv6Addr, to: Ipv6Addr) {
    put(header, 0, &[0x60, 0, 0, 0]);
    put(header, 4, &udp_bytes.to_be_bytes());
    put(header, 6, &[UDP, TIME_TO_LIVE]);
    put(header, 8, &from.octets());
    put(header, 24, &to.octets());
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Datagram<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: SocketAddr,
    /// The payload without the frame's padding, in the frame's two pieces.
    pub(super) payload: [&'a [u8]; 2],
}

impl<'a> Datagram<'a> {
    /// Finds the datagram in a frame. Returns `None` if the frame is not a whole UDP datagram over IPv4, or over IPv6
    /// without extension headers.
    pub(super) fn find([head, rest]: [&'a [u8]; 2]) -> Option<Datagram<'a>> {
        let mut start = [0; HEADERS_BYTES_MAX];
        let n_head = head.len().min(start.len());
        let n_rest = rest.len().min(start.len() - n_head);
        start[..n_head].copy_from_slice(&head[..n_head]);
        start[n_head..n_head + n_rest].copy_from_slice(&rest[..n_rest]);
        let headers = &start[..n_head + n_rest];
        let mut ip_start = ETHERNET_BYTES;
        while matches!(
            headers.get(ip_start - 2..ip_start)?,
            [0x81, 0x00] | [0x88, 0xa8]
        ) {
            ip_start += TAG_BYTES;
        }
        let (source, destination, udp_start) = match headers.get(ip_start - 2..ip_start)? {
            [0x08, 0x00] => find_ipv4(headers, ip_start)?,
            [0x86, 0xdd] => find_ipv6(headers, ip_start)?,
            _ => return None,
        };
        let port = word(headers, udp_start + 2)?;
        let udp_bytes = usize::from(word(headers, udp_start + 4)?);
        let from = udp_start + UDP_BYTES;
        let to = udp_start + udp_bytes;
        if from > to || to > head.len() + rest.len() {
            return None;
        }
        let in_head = head.len().min(from)..head.len().min(to);
        let in_rest = from.saturating_sub(head.len())..to.saturating_sub(head.len());
        Some(Datagram {
            source,
            destination: SocketAddr::new(destination, port),
            payload: [&head[in_head], &rest[in_rest]],
        })
    }
}

/// Returns the source address, the destination address, and the offset of the UDP header.
fn find_ipv4(headers: &[u8], start: usize) -> Option<(IpAddr, IpAddr, usize)> {
    let header_bytes = usize::from(headers.get(start)? & 0x0f) * 4;
    let is_fragment = word(headers, start + 6)? & 0x3fff != 0;
    if header_bytes < IPV4_BYTES || is_fragment || *headers.get(start + 9)? != UDP {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 4] = headers.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    };
    let (source, destination) = (address(start + 12)?, address(start + 16)?);
    Some((source, destination, start + header_bytes))
}

fn find_ipv6(headers: &[u8], start: usize) -> Option<(IpAddr, IpAddr, usize)> {
    if *headers.get(start + 6)? != UDP {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 16] = headers.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    };
    let (source, destination) = (address(start + 8)?, address(start + 24)?);
    Some((source, destination, start + IPV6_BYTES))
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let mut buffer = [&[0xee; HEADROOM_BYTES], payload].concat();
        let address = |text: &str| text.parse().expect("an address");
        let frame = write_headers(&mut buffer, address(source), address(destination));
        frame.expect("a frame").to_vec()
    }

    #[test]
    fn headers_over_ipv4_are_those_of_a_wire() {
        let frame = made("10.0.0.1:4000", "10.0.1.100:5004", b"four");
        let parsed = etherparse::PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
        let link = parsed
            .link
            .and_then(|link| link.ethernet2())
            .expect("Ethernet");
        assert_eq!(link.source, [2, 0, 10, 0, 0, 1]);
        assert_eq!(link.destination, [2, 0, 10, 0, 1, 100]);
        let Some(etherparse::NetHeaders::Ipv4(ip, _)) = parsed.net else {
            unreachable!("IPv4 was asked for");
        };
        assert_eq!(
            (ip.source, ip.destination),
            ([10, 0, 0, 1], [10, 0, 1, 100])
        );
        assert_eq!((ip.time_to_live, ip.total_len), (64, 32));
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        let udp = parsed
            .transport
            .and_then(|transport| transport.udp())
            .expect("UDP");
        assert_eq!(
            (udp.source_port, udp.destination_port, udp.length),
            (4000, 5004, 12)
        );
        let expected = udp.calc_checksum_ipv4(&ip, b"four").expect("a checksum");
        assert_eq!(udp.checksum, expected);
    }

    #[test]
    fn headers_over_ipv6_are_those_of_a_wire() {
        let frame = made("[fd00::1]:4000", "[fd00::102:304]:5004", b"odd");
        let parsed = etherparse::PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
        let link = parsed
            .link
            .and_then(|link| link.ethernet2())
            .expect("Ethernet");
        assert_eq!(link.destination, [2, 0, 1, 2, 3, 4]);
        let Some(etherparse::NetHeaders::Ipv6(ip, _)) = parsed.net else {
            unreachable!("IPv6 was asked for");
        };
        assert_eq!((ip.hop_limit, ip.payload_length), (64, 11));
        let udp = parsed
            .transport
            .and_then(|transport| transport.udp())
            .expect("UDP");
        let expected = udp.calc_checksum_ipv6(&ip, b"odd").expect("a checksum");
        assert_eq!(udp.checksum, expected);
    }

    #[test]
    fn a_made_frame_is_found_again_wherever_it_is_cut_in_two() {
        for (from, to) in [
            ("10.0.0.1:4000", "10.0.1.100:5004"),
            ("[fd00::1]:1", "[fd00::2]:2"),
        ] {
            let mut frame = made(from, to, b"payload");
            // Padding, as a card would add.
            frame.extend([0; 9]);
            for at in 0..=frame.len() {
                let (head, rest) = frame.split_at(at);
                let found = Datagram::find([head, rest]).expect("a datagram");
                let source: SocketAddr = from.parse().expect("an address");
                assert_eq!(found.source, source.ip());
                assert_eq!(Ok(found.destination), to.parse());
                assert_eq!(found.payload.concat(), b"payload");
            }
            let n_headers = frame.len() - 9 - b"payload".len();
            for n_bytes in 0..n_headers + 7 {
                assert_eq!(
                    Datagram::find([&frame[..n_bytes], &[]]),
                    None,
                    "{n_bytes} bytes"
                );
            }
        }
    }

    #[test]
    fn tags_are_passed_over_and_what_is_not_whole_udp_is_refused() {
        let frame = made("10.0.0.1:1", "10.0.0.2:2", b"x");
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
        let found = Datagram::find([&tagged, &[]]).expect("a datagram");
        assert_eq!(found.payload.concat(), b"x");
        let changed = |at: usize, value: u8| {
            let mut frame = frame.clone();
            frame[at] = value;
            Datagram::find([&frame, &[]]).is_none()
        };
        assert!(changed(13, 0x06), "ARP");
        assert!(changed(23, 6), "TCP");
        assert!(changed(20, 0x20), "a first fragment");
        assert!(changed(21, 1), "a later fragment");
        assert!(changed(14, 0x44), "a header of 16 bytes");
        assert!(changed(39, 7), "a datagram of 7 bytes");
        assert!(changed(39, 10), "a datagram longer than its frame");
        assert!(!changed(15, 0xff), "a type of service");
    }
}
