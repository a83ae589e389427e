//! Hosts and their sockets.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use conference_api::Name;
use conference_model::BindingRecord;
use conference_service::rows::OwnAddress;
use fastrand::Rng;
use hello::SigningIn;

use crate::frames::MEDIA_PORT;
use crate::switch::N_PORTS;

/// A participant's host.
#[derive(Clone)]
pub struct Host {
    /// The host's next socket gets this address, with a UDP port of its own.
    pub base: BindingRecord,
    pub is_on: bool,
}

/// A host's socket for a leg. A leg is a participant's connection by one UDP socket.
#[derive(Clone)]
pub struct Socket {
    pub owner: (Name, Name),
    pub signing: SigningIn,
    pub place: BindingRecord,
    pub is_on: bool,
    /// Since when the socket exists.
    pub since_s: u64,
    /// Whether the last hello was answered.
    pub is_answered: bool,
}

/// Gives addresses that nobody had before.
pub struct Places {
    own_addresses: Vec<OwnAddress>,
    n_given: u32,
    udp_ports: BTreeMap<IpAddr, u16>,
}

/// Returns the switch's addresses: one IPv4 and one IPv6 address on each port.
pub fn own_addresses() -> Vec<OwnAddress> {
    let of_port = |port: u16| {
        let number = u8::try_from(port).expect("a few ports");
        let v4 = Ipv4Addr::new(10, number, 0, 254);
        let v6 = Ipv6Addr::new(0x2001, 0xdb8, port, 0, 0, 0, 0, 0xfe);
        [v4.into(), v6.into()].map(|address| OwnAddress {
            port,
            address,
            mac: [2, 0, 0, 0xff, 0, number],
            media_port: MEDIA_PORT,
        })
    };
    (0..N_PORTS).flat_map(of_port).collect()
}

impl Places {
    pub fn new() -> Places {
        Places {
            own_addresses: own_addresses(),
            n_given: 0,
            udp_ports: BTreeMap::new(),
        }
    }

    /// Makes the address of a host on a random port of the switch, over IPv4 or IPv6. Some hosts are behind a router,
    /// whose MAC address other hosts have, too.
    pub fn host(&mut self, rng: &mut Rng) -> BindingRecord {
        self.n_given += 1;
        let own = &self.own_addresses[rng.usize(..self.own_addresses.len())];
        let [_, a, b, c] = self.n_given.to_be_bytes();
        let port = u8::try_from(own.port).expect("a few ports");
        let address = match own.address {
            IpAddr::V4(_) => IpAddr::from([10 + a, port, b, c]),
            IpAddr::V6(_) => {
                let [high, low] = [self.n_given >> 16, self.n_given & 0xffff];
                let [high, low] = [high, low].map(|it| u16::try_from(it).expect("16 bits"));
                Ipv6Addr::new(0x2001, 0xdb8, own.port, 1, 0, 0, high, low).into()
            }
        };
        let mac = if rng.u8(..5) == 0 {
            [2, 0, 0, 0xee, 0, port]
        } else {
            [2, 1, port, a, b, c]
        };
        BindingRecord {
            port: own.port,
            mac,
            address,
            udp_port: 0,
            own_mac: own.mac,
            own_address: own.address,
        }
    }

    /// Makes the address of a new socket of a host.
    pub fn socket(&mut self, base: &BindingRecord) -> BindingRecord {
        let last = self.udp_ports.entry(base.address).or_insert(39_999);
        *last += 1;
        BindingRecord {
            udp_port: *last,
            ..*base
        }
    }
}
