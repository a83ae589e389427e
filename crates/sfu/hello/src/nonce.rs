//! Nonces that the service can check without storing them.

use std::net::IpAddr;

use subtle::ConstantTimeEq;

use crate::{KEY_LEN, NONCE_LEN, signature};

/// How long a nonce is accepted at least. It is accepted for at most twice this time.
pub const NONCE_LIFE_MS: u64 = 10_000;

/// Where a hello came from, as the switch saw it. A nonce is good for one origin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// The switch's port.
    pub port: u16,
    /// The frame's source MAC address.
    pub mac: [u8; 6],
    /// The packet's source address.
    pub address: IpAddr,
    /// The datagram's source port.
    pub udp_port: u16,
    /// The packet's destination address, which is an address of the switch.
    pub own_address: IpAddr,
}

/// Makes and checks nonces. A nonce is a keyed hash of leg, origin and time. So a service keeps no state for a host
/// that has not signed in, however many hellos come.
#[derive(Clone)]
pub struct Nonces {
    secret: [u8; KEY_LEN],
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nonces")
    }
}

impl Nonces {
    /// Makes nonces with a secret that nobody else has. With a new secret, all earlier nonces are void.
    #[must_use]
    pub fn new(secret: [u8; KEY_LEN]) -> Nonces {
        Nonces { secret }
    }

    /// Returns the nonce for a hello of this leg that came from this origin at `now_ms`, the time of any clock that
    /// does not go back.
    #[must_use]
    pub fn nonce(&self, leg: u32, origin: &Origin, now_ms: u64) -> [u8; NONCE_LEN] {
        self.nonce_of(leg, origin, now_ms / NONCE_LIFE_MS)
    }

    /// Whether this is the nonce for that leg and origin, made in the present period of `NONCE_LIFE_MS` or in the
    /// previous period.
    #[must_use]
    pub fn is_nonce(
        &self,
        nonce: &[u8; NONCE_LEN],
        leg: u32,
        origin: &Origin,
        now_ms: u64,
    ) -> bool {
        let period = now_ms / NONCE_LIFE_MS;
        let is_of = |period| bool::from(self.nonce_of(leg, origin, period).ct_eq(nonce));
        is_of(period) || period.checked_sub(1).is_some_and(is_of)
    }

    fn nonce_of(&self, leg: u32, origin: &Origin, period: u64) -> [u8; NONCE_LEN] {
        let mut text = Vec::with_capacity(64);
        text.extend(period.to_be_bytes());
        text.extend(leg.to_be_bytes());
        text.extend(origin.port.to_be_bytes());
        text.extend(origin.mac);
        text.extend(origin.udp_port.to_be_bytes());
        for address in [origin.address, origin.own_address] {
            match address {
                IpAddr::V4(v4) => text.extend(v4.to_ipv6_mapped().octets()),
                IpAddr::V6(v6) => text.extend(v6.octets()),
            }
        }
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&signature(&self.secret, &text)[..NONCE_LEN]);
        // A nonce of zeros would mean that the host has got no nonce yet.
        nonce[0] |= 1;
        nonce
    }
}
