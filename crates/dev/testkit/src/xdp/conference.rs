//! Sets up `p4/conference.p4` with legs for each version of IP, and makes the frames of the sending legs. A leg is the
//! connection of one UDP socket of a participant to the conference service.

use dataplane::{MulticastGroup, PortId, Replica, Switch};

use super::sfu::{checksum, insert};

/// The switch's port to which the sending legs are connected.
pub const PORT: PortId = PortId(1);
const SFU_MAC: [u8; 6] = [2, 0, 0, 0, 1, 100];
const LEG_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
const MEDIA_PORT: u16 = 5004;
const LEG_PORT: u16 = 40_000;
const GROUP: u16 = 4;

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
}

/// The address of a host, as IPv6 address.
fn address(ip: Ip, host: u16) -> [u8; 16] {
    let [high, low] = host.to_be_bytes();
    match ip {
        Ip::V4 => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, high, low],
        Ip::V6 => [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low],
    }
}

const SFU_HOST: u16 = 100;
const LEG_HOST: u16 = 1;

/// Configures addresses, one sending leg for each version of IP, and `n_receivers` receiving legs. The receiving legs
/// use IPv4 and IPv6 in turn, and every third of them is at another port.
pub fn set_up(switch: &mut Switch, n_receivers: u16) {
    let port = PORT.0.to_be_bytes();
    for (ip, leg) in [(Ip::V4, 1_u16), (Ip::V6, 2)] {
        let media_port = MEDIA_PORT.to_be_bytes();
        let key: [&[u8]; 2] = [&port, &address(ip, SFU_HOST)];
        let args: [&[u8]; 2] = [&SFU_MAC, &media_port];
        insert(switch, "own_addresses", "set_own_mac", &key, &args);
        let udp_port = LEG_PORT.to_be_bytes();
        let key: [&[u8]; 4] = [&port, &address(ip, LEG_HOST), &udp_port, &LEG_MAC];
        let (number, group) = (leg.to_be_bytes(), GROUP.to_be_bytes());
        let args: [&[u8]; 5] = [&number, &group, &group, &[3], &[1]];
        insert(switch, "sockets", "set_leg", &key, &args);
    }
    let mut replicas = Vec::new();
    for n in 0..n_receivers {
        let ip = if n % 2 == 0 { Ip::V4 } else { Ip::V6 };
        let [high, low] = n.to_be_bytes();
        let instance = n + 10;
        let args: [&[u8]; 5] = [
            &SFU_MAC,
            &[2, 0, 0, 1, high, low],
            &address(ip, SFU_HOST),
            &address(ip, 200 + n),
            &(6000 + n).to_be_bytes(),
        ];
        let key: [&[u8]; 1] = [&instance.to_be_bytes()];
        insert(switch, "receivers", "send_to", &key, &args);
        replicas.push(Replica {
            port: if n % 3 == 2 { PortId(2) } else { PORT },
            instance,
        });
    }
    let group = MulticastGroup {
        id: u32::from(GROUP),
        replicas,
        backups: Vec::new(),
    };
    switch.insert_multicast_group(group).unwrap();
}

/// Makes an RTP packet of the leg that sends by this version of IP.
pub fn frame(ip: Ip, payload: &[u8]) -> Vec<u8> {
    let payload = [&[0x80, 96], payload].concat();
    let length = (8 + payload.len()) as u16;
    let mut udp = Vec::new();
    for word in [LEG_PORT, MEDIA_PORT, length, 0] {
        udp.extend(word.to_be_bytes());
    }
    udp.extend(payload);
    let [from, to] = [LEG_HOST, SFU_HOST].map(|host| address(ip, host));
    // An IPv4-mapped address has words before the IPv4 address. These words are left out, since they would add to the
    // checksum.
    let start = if ip == Ip::V4 { 12 } else { 0 };
    let pseudo = [
        &from[start..],
        &to[start..],
        &[0, 17],
        &length.to_be_bytes(),
        &udp,
    ]
    .concat();
    udp[6..8].copy_from_slice(&checksum(&pseudo).to_be_bytes());
    let (ether_type, header): ([u8; 2], Vec<u8>) = match ip {
        Ip::V4 => {
            let mut header = vec![0x45, 0];
            header.extend((20 + length).to_be_bytes());
            header.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
            header.extend([&from[12..], &to[12..]].concat());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            ([8, 0], header)
        }
        Ip::V6 => {
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(length.to_be_bytes());
            header.extend([17, 64]);
            header.extend([from, to].concat());
            ([0x86, 0xdd], header)
        }
    };
    [&SFU_MAC[..], &LEG_MAC, &ether_type, &header, &udp].concat()
}
