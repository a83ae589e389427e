//! A P4Runtime switch for tests, with entities in memory. The switch checks every write strictly. While the controller
//! writes, the switch processes packets step by step, and each packet must see only one version of its group.

pub mod fake;
pub mod programs;
pub mod service;

/// A random number generator with a seed, for reproducible sequences (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}
