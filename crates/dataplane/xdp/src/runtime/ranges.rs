//! An allocator for ranges of numbers.

use std::collections::BTreeMap;

/// The free numbers: first and length of each range.
#[derive(Debug)]
pub(crate) struct Ranges {
    free: BTreeMap<u32, u32>,
}

impl Ranges {
    /// Makes all numbers below `n` free.
    pub(crate) fn new(n: u32) -> Ranges {
        Ranges {
            free: BTreeMap::from([(0, n)]),
        }
    }

    /// Whether no number is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes the lowest `n` consecutive free numbers and returns the first.
    pub(crate) fn take(&mut self, n: u32) -> Option<u32> {
        let (first, n_free) = self.free.iter().find(|(_, n_free)| **n_free >= n)?;
        let (first, n_free) = (*first, *n_free);
        self.free.remove(&first);
        if n_free > n {
            self.free.insert(first + n, n_free - n);
        }
        Some(first)
    }

    pub(crate) fn give_back(&mut self, mut first: u32, mut n: u32) {
        if n == 0 {
            return;
        }
        if let Some(n_behind) = self.free.remove(&(first + n)) {
            n += n_behind;
        }
        if let Some((before, n_before)) = self.free.range(..first).next_back()
            && before + n_before == first
        {
            (first, n) = (*before, n_before + n);
        }
        self.free.insert(first, n);
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn what_is_given_back_is_whole_again() {
        let mut ranges = Ranges::new(10);
        let taken: Vec<_> = [4, 3, 3].map(|n| ranges.take(n)).to_vec();
        assert_eq!(taken, [Some(0), Some(4), Some(7)]);
        assert_eq!(ranges.take(1), None);
        ranges.give_back(0, 4);
        ranges.give_back(7, 3);
        assert_eq!(ranges.take(5), None);
        ranges.give_back(4, 3);
        assert_eq!(ranges.take(10), Some(0));
    }
}
