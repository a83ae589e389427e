//! Meters in the heap: the rates of each cell, and its buckets, which all processors share.

use dataplane::MeterConfig;
use dataplane::offload::Bucket;

use super::layout::{ACTION_PUNT, Body, Index, TableLayout};

/// The layout of a meter array, or of the meters of a table's entries.
///
/// A cell is a [`Body`]. The cell of a table entry has the same number as the entry's body. A cell's action is
/// [`MeterLayout::GREEN`] or [`MeterLayout::TWO_RATES`], or [`ACTION_PUNT`] for rates that the program cannot apply. If
/// neither slot of a cell is valid for a packet's version, the colour is green. The action's arguments are two
/// [`Bucket`]s, first the committed one, then the peak one. Each bucket consists of the rate, the burst and the number
/// of tokens that are gone. The program changes only the last word of each bucket, and only in the slot that is valid.
/// New rates come with another slot, so a cell with new rates has new buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterLayout {
    pub cells: TableLayout,
    /// The counter of the first cell's green packets. A cell has [`MeterLayout::N_COLORS`] counters, by colour.
    pub counters: u32,
}

impl MeterLayout {
    /// The action of a cell without rates.
    pub const GREEN: u32 = 0;
    /// The action of a cell with a committed and a peak rate.
    pub const TWO_RATES: u32 = 1;
    /// Number of counters of a cell.
    pub const N_COLORS: u32 = 3;
    /// Offset of the committed bucket in a slot.
    pub const COMMITTED: u32 = Body::ARGS;
    /// Offset of the peak bucket in a slot.
    pub const PEAK: u32 = Self::COMMITTED + 24;
    /// Offset of the rate in a bucket.
    pub const RATE: u32 = 0;
    /// Offset of the burst in a bucket.
    pub const BURST: u32 = 8;
    /// Offset in a bucket of the number of tokens that are gone.
    pub const GONE: u32 = 16;
    /// Words of both buckets.
    const N_WORDS: u32 = 6;

    pub(crate) fn new(first: u32, n: u32, counters: u32) -> Self {
        Self {
            cells: TableLayout {
                index: Index::None,
                key_bits: Vec::new(),
                body: Body::new(first, n, false, Self::N_WORDS),
                actions: Vec::new(),
                args: vec![Vec::new(), vec![64; Self::N_WORDS as usize]],
            },
            counters,
        }
    }

    /// Returns the size of `n` cells in the heap, or `None` if the size does not fit into a `u32`.
    pub(crate) fn bytes(n: u32) -> Option<u32> {
        Body::new(0, n, false, Self::N_WORDS).stride.checked_mul(n)
    }

    /// Encodes a cell's slot with buckets that are full at this time on `CLOCK_MONOTONIC`.
    pub fn encode_slot(&self, config: Option<MeterConfig>, now_ns: u64) -> Vec<u8> {
        let Some(config) = config else {
            return self.cells.encode_slot(Self::GREEN, &[]);
        };
        let micros = now_ns / 1_000;
        let committed = Bucket::full(config.committed_rate, config.committed_burst, micros);
        let peak = Bucket::full(config.peak_rate, config.peak_burst, micros);
        match (committed, peak, config.excess_burst) {
            (Some(committed), Some(peak), 0) => {
                let words = [committed, peak].map(|it| [it.rate, it.burst, it.gone]);
                let words: Vec<_> = words.as_flattened().iter().map(|it| (*it).into()).collect();
                self.cells.encode_slot(Self::TWO_RATES, &words)
            }
            _ => self.cells.encode_slot(ACTION_PUNT, &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(config: MeterConfig) -> Vec<u64> {
        let slot = MeterLayout::new(0, 1, 0).encode_slot(Some(config), 2_000_000_500);
        let words = slot.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn a_slot_has_the_committed_bucket_then_the_peak_bucket_both_full() {
        let config = MeterConfig {
            committed_rate: 1_000,
            committed_burst: 20,
            peak_rate: 3_000,
            peak_burst: 40,
            excess_burst: 0,
        };
        let gone = [2 * 1_000 - 20, 2 * 3_000 - 40];
        let expected = [1, 1_000, 20, gone[0], 3_000, 40, gone[1]];
        assert_eq!(words(config), expected);
    }

    #[test]
    fn rates_that_the_program_cannot_apply_are_punted() {
        let punt = u64::from(ACTION_PUNT);
        let excess = MeterConfig {
            excess_burst: 1,
            ..MeterConfig::default()
        };
        let fast = MeterConfig {
            peak_rate: u64::MAX,
            ..MeterConfig::default()
        };
        assert_eq!([words(excess)[0], words(fast)[0]], [punt; 2]);
        assert_eq!(words(MeterConfig::default())[0], 1, "no token, no rate");
    }
}
