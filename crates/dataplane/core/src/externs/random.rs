//! v1model's `random`: deterministic from a seed, so that equal input gives equal output. Uses
//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number in `low..=high`; `None` if that range is empty.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> Option<u64> {
        let span = high.checked_sub(low)?;
        let number = self.next();
        // The bias of scaling a 64-bit number is below 2^-64 times the span.
        let scaled = (u128::from(number) * (u128::from(span) + 1)) >> 64;
        Some(low + u64::try_from(scaled).expect("at most the span"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_between_the_bounds_and_follow_from_the_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..1000)
                .filter_map(|_| random.between(3, 5))
                .collect::<Vec<_>>()
        };
        let numbers = draw(7);
        assert_eq!(numbers.len(), 1000);
        for expected in 3..=5 {
            assert!(numbers.contains(&expected), "{expected} never came");
        }
        assert!(numbers.iter().all(|number| (3..=5).contains(number)));
        assert_eq!(numbers, draw(7));
        assert_ne!(numbers, draw(8));
        assert_eq!(Random::new(1).between(5, 3), None);
        assert!(Random::new(1).between(0, u64::MAX).is_some());
    }
}
