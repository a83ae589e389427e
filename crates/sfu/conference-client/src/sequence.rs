//! Keeps account of the packets of a numbered sequence: which are new, late, repeated or lost.

use std::ops::Range;

/// The number of bits of the window. For the highest number and the 127 numbers below it, the window says whether they
/// have come. A lower number counts as a repetition.
pub const WINDOW: u64 = 128;

/// Whether a packet that comes is new, late or a repetition, as its number shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The number is above or below all numbers so far. The numbers in `skipped`, between it and the nearest of them,
    /// have not come yet.
    New {
        /// The numbers that are lost unless they come late.
        skipped: Range<u64>,
    },
    /// The packet was taken for lost, and has come late.
    Late,
    /// The packet has come before, or its number is so old that nobody can tell whether it has.
    Again,
}

/// Records which numbers of a sequence have come, in constant memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    first: u64,
    highest: u64,
    /// Bit `n` says whether the number `highest - n` has come.
    window: u128,
    n_received: u64,
    n_again: u64,
}

impl Sequence {
    /// Begins a sequence with the number that comes first.
    #[must_use]
    pub fn starting_at(first: u64) -> Sequence {
        Sequence {
            first,
            highest: first,
            window: 1,
            n_received: 1,
            n_again: 0,
        }
    }

    /// The lowest number that has come.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The highest number that has come.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns how many numbers have come, each counted once.
    #[must_use]
    pub fn n_received(&self) -> u64 {
        self.n_received
    }

    /// Returns for how many packets [`Sequence::take`] has returned [`Seen::Again`].
    #[must_use]
    pub fn n_again(&self) -> u64 {
        self.n_again
    }

    /// Returns how many numbers between the lowest and the highest number that have come are missing.
    #[must_use]
    pub fn n_lost(&self) -> u64 {
        self.highest - self.first + 1 - self.n_received
    }

    /// Records that a packet with this number has come. Returns what the packet is: new, late or a repetition.
    pub fn take(&mut self, number: u64) -> Seen {
        if number > self.highest {
            return self.take_higher(number);
        }
        let back = self.highest - number;
        if back >= WINDOW || self.window & (1 << back) != 0 {
            self.n_again += 1;
            return Seen::Again;
        }
        self.window |= 1 << back;
        self.n_received += 1;
        if number >= self.first {
            return Seen::Late;
        }
        // This packet was sent before the packet that came first.
        let skipped = number + 1..self.first;
        self.first = number;
        Seen::New { skipped }
    }

    fn take_higher(&mut self, number: u64) -> Seen {
        let skipped = self.highest + 1..number;
        let ahead = number - self.highest;
        self.window = if ahead < WINDOW {
            (self.window << ahead) | 1
        } else {
            1
        };
        self.highest = number;
        self.n_received += 1;
        Seen::New { skipped }
    }
}

/// Extends a 16-bit RTP sequence number to the number nearest to `near` that has the same lower 16 bits (RFC 3550,
/// appendix A.1).
#[must_use]
pub fn extended(number: u16, near: u64) -> u64 {
    let near_low = u16::try_from(near & 0xffff).unwrap_or(u16::MAX);
    let ahead = number.wrapping_sub(near_low).cast_signed();
    near.wrapping_add_signed(i64::from(ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_lost_until_it_comes_late() {
        let mut it = Sequence::starting_at(10);
        assert_eq!(it.take(11), Seen::New { skipped: 11..11 });
        assert_eq!(it.take(14), Seen::New { skipped: 12..14 });
        assert_eq!((it.n_lost(), it.n_received()), (2, 3));
        assert_eq!(it.take(13), Seen::Late);
        assert_eq!(it.take(13), Seen::Again);
        assert_eq!(it.take(14), Seen::Again);
        assert_eq!((it.n_lost(), it.n_again()), (1, 2));
        // Packet 7 was sent before packet 10, which overtook it and came first.
        assert_eq!(it.take(7), Seen::New { skipped: 8..10 });
        assert_eq!((it.first(), it.n_lost()), (7, 3));
        assert_eq!(it.take(9), Seen::Late);
        assert_eq!(it.n_lost(), 2);
    }

    #[test]
    fn a_number_older_than_the_window_counts_as_again() {
        let mut it = Sequence::starting_at(0);
        assert_eq!(
            it.take(WINDOW + 1),
            Seen::New {
                skipped: 1..WINDOW + 1
            }
        );
        assert_eq!(it.take(1), Seen::Again);
        assert_eq!(it.take(2), Seen::Late);
        assert_eq!(it.n_lost(), WINDOW - 1);
    }

    #[test]
    fn any_order_of_any_numbers_counts_as_a_set_does() {
        let mut chance = 1_u64;
        let mut next = |below: u64| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (chance >> 33) % below
        };
        for _ in 0..200 {
            let base = 1_000;
            let mut it = Sequence::starting_at(base);
            let mut set = std::collections::BTreeSet::from([base]);
            let mut n_again = 0;
            for _ in 0..100 {
                // The numbers are never further apart than the window.
                let number = base + next(WINDOW / 2) - WINDOW / 4;
                n_again += u64::from(!set.insert(number));
                it.take(number);
            }
            let (first, last) = (set.first().expect("one"), set.last().expect("one"));
            assert_eq!((it.first(), it.highest()), (*first, *last));
            assert_eq!(it.n_received(), set.len() as u64);
            assert_eq!(it.n_lost(), last - first + 1 - set.len() as u64);
            assert_eq!(it.n_again(), n_again);
        }
    }

    #[test]
    fn numbers_of_16_bits_go_on_after_the_last_one() {
        assert_eq!(extended(65_535, 65_536), 65_535);
        assert_eq!(extended(0, 65_535), 65_536);
        assert_eq!(extended(7, 65_536 * 3 + 65_530), 65_536 * 4 + 7);
        assert_eq!(extended(65_530, 65_536 * 4 + 7), 65_536 * 3 + 65_530);
    }
}
