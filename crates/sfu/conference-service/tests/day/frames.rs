//! Frames as hosts send and expect them, made byte by byte: nothing here is shared with the service or the switch.

use std::net::IpAddr;

use conference_model::BindingRecord;

pub const MEDIA_PORT: u16 = 5004;
const TTL: u8 = 64;
const ETHERNET_LEN: usize = 14;

struct Addresses {
    macs: [[u8; 6]; 2],
    ips: [IpAddr; 2],
    ports: [u16; 2],
}

/// Makes the frame in which a socket sends `payload` to the switch. `with_checksum` says whether it has a UDP checksum,
/// which may be missing over IPv4.
pub fn sent(from: &BindingRecord, to_port: u16, payload: &[u8], with_checksum: bool) -> Vec<u8> {
    let addresses = Addresses {
        macs: [from.mac, from.own_mac],
        ips: [from.address, from.own_address],
        ports: [from.udp_port, to_port],
    };
    datagram(&addresses, TTL, payload, with_checksum)
}

/// Makes the frame in which the service answers a socket.
pub fn answer(to: &BindingRecord, payload: &[u8]) -> Vec<u8> {
    datagram(&back(to), TTL, payload, true)
}

/// Makes the frame in which a receiver gets its copy of a datagram.
pub fn copy(to: &BindingRecord, payload: &[u8], with_checksum: bool) -> Vec<u8> {
    datagram(&back(to), TTL - 1, payload, with_checksum)
}

/// Returns the payload of a frame, which must be of the kind that this module makes.
pub fn payload(frame: &[u8]) -> &[u8] {
    let ip_len = if frame[12..14] == [0x08, 0x00] {
        20
    } else {
        40
    };
    &frame[ETHERNET_LEN + ip_len + 8..]
}

fn back(to: &BindingRecord) -> Addresses {
    Addresses {
        macs: [to.own_mac, to.mac],
        ips: [to.own_address, to.address],
        ports: [MEDIA_PORT, to.udp_port],
    }
}

fn datagram(addresses: &Addresses, ttl: u8, payload: &[u8], with_checksum: bool) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).expect("a short datagram");
    let mut udp = Vec::with_capacity(8 + payload.len());
    udp.extend(addresses.ports[0].to_be_bytes());
    udp.extend(addresses.ports[1].to_be_bytes());
    udp.extend(udp_len.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    if with_checksum {
        let mut pseudo = Vec::with_capacity(36);
        for ip in addresses.ips {
            match ip {
                IpAddr::V4(v4) => pseudo.extend(v4.octets()),
                IpAddr::V6(v6) => pseudo.extend(v6.octets()),
            }
        }
        pseudo.extend([0, 17]);
        pseudo.extend(udp_len.to_be_bytes());
        let checksum = match checksum(sum(&pseudo) + sum(&udp)) {
            0 => 0xffff,
            other => other,
        };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
    let mut frame = Vec::with_capacity(ETHERNET_LEN + 40 + udp.len());
    frame.extend(addresses.macs[1]);
    frame.extend(addresses.macs[0]);
    match addresses.ips {
        [IpAddr::V4(from), IpAddr::V4(to)] => {
            frame.extend([0x08, 0x00]);
            let mut ip = [0; 20];
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
            ip[6] = 0x40; // don't fragment
            (ip[8], ip[9]) = (ttl, 17);
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..20].copy_from_slice(&to.octets());
            let header = checksum(sum(&ip));
            ip[10..12].copy_from_slice(&header.to_be_bytes());
            frame.extend(ip);
        }
        [IpAddr::V6(from), IpAddr::V6(to)] => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(udp_len.to_be_bytes());
            frame.extend([17, ttl]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        ips => panic!("expected two addresses of one family, found {ips:?}"),
    }
    frame.extend(udp);
    frame
}

/// Returns the sum of the 16-bit words; an odd last byte is filled up with a zero.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    let words = words.map(|it| u64::from(it[0]) << 8 | u64::from(it.get(1).copied().unwrap_or(0)));
    words.sum()
}

fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("it is folded")
}
