//! Decides which packets are signed. While there are enough nonces, all packets are signed. When the pool of nonces is
//! below its low-water mark, so few packets are signed that the pool fills again.

use std::time::Duration;

use crate::limits::{LOW_WATER_PART, UNSIGNED_FOR, UNSIGNED_MAX};

/// The packets since the last signed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsigned {
    /// The number of packets since the last signature, including the packet to decide on.
    pub n_packets: u32,
    /// How long ago the first of these packets came.
    pub since: Duration,
}

/// Whether a packet is signed, with `level` nonces in a pool of `capacity`.
///
/// If the pool is at least a quarter full, every packet is signed. If the pool is less full, every n-th packet is
/// signed, where n doubles each time that the level halves, up to [`UNSIGNED_MAX`]. A packet is also signed if the
/// first unsigned packet came at least [`UNSIGNED_FOR`] ago. Without a nonce no packet is signed.
#[must_use]
pub fn is_due(level: usize, capacity: usize, unsigned: Unsigned) -> bool {
    if level == 0 {
        return false;
    }
    let low_water = (capacity / LOW_WATER_PART).max(1);
    unsigned.n_packets >= every(level, low_water) || unsigned.since >= UNSIGNED_FOR
}

fn every(level: usize, low_water: usize) -> u32 {
    let every = low_water.div_ceil(level).next_power_of_two();
    u32::try_from(every)
        .unwrap_or(UNSIGNED_MAX)
        .min(UNSIGNED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsigned(n_packets: u32, since: Duration) -> Unsigned {
        Unsigned { n_packets, since }
    }

    #[test]
    fn fewer_nonces_sign_fewer_packets() {
        for (level, expected) in [
            (1024, 1),
            (256, 1),
            (255, 2),
            (128, 2),
            (127, 4),
            (64, 4),
            (16, 16),
            (4, 64),
            (1, 64),
        ] {
            let due = |n| is_due(level, 1024, unsigned(n, Duration::ZERO));
            let first = (1..=1000).find(|n| due(*n));
            assert_eq!(first, Some(expected), "{level} nonces");
        }
    }

    #[test]
    fn without_a_nonce_none_is_signed_and_with_one_none_waits_too_long() {
        let late = unsigned(1, UNSIGNED_FOR);
        assert!(!is_due(0, 1024, late));
        assert!(is_due(1, 1024, late));
        let early = unsigned(1, UNSIGNED_FOR - Duration::from_nanos(1));
        assert!(!is_due(1, 1024, early));
    }

    #[test]
    fn a_pool_of_one_signs() {
        assert!(is_due(1, 1, unsigned(1, Duration::ZERO)));
    }
}
