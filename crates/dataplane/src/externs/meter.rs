//! Meters: the two-rate three-colour marker of RFC 2698, colour-blind, as BMv2 computes it.
//!
//! A bucket is not filled by what has passed since its last packet but by the difference of two
//! totals, each cut to whole tokens, so that rounding never adds up. A packet that the peak bucket
//! cannot pay is red and touches nothing else; one that only the committed bucket cannot pay is
//! yellow. Time is the switch's, in microseconds since the program was loaded. A meter without
//! rates is green, and so is one beyond the end of its array.

use crate::{
    MeterConfig, MeterId, Nanos,
    color::{GREEN, RED, YELLOW},
    program::{
        MeterUnit,
        ir::{MeterArray, MeterKind},
    },
};

#[derive(Debug, Clone, Default)]
struct Bucket {
    /// A floating-point number, since BMv2's is one: its rounding can be seen.
    tokens_per_micro: f64,
    burst: u64,
    tokens: u64,
    /// All that came in since time began, at the last packet.
    total_before: u64,
}

impl Bucket {
    fn new(rate_per_second: u64, burst: u64) -> Self {
        Self {
            tokens_per_micro: rate_per_second as f64 / 1_000_000.0,
            burst,
            tokens: burst,
            total_before: 0,
        }
    }

    /// Pays for a packet, if it can.
    fn pay(&mut self, micros: u64, cost: u64) -> bool {
        let total = (micros as f64 * self.tokens_per_micro) as u64;
        let came_in = total.saturating_sub(self.total_before);
        self.total_before = total;
        self.tokens = self.tokens.saturating_add(came_in).min(self.burst);
        let is_paid = cost <= self.tokens;
        self.tokens -= if is_paid { cost } else { 0 };
        is_paid
    }
}

/// One meter with its rates.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    config: MeterConfig,
    committed: Bucket,
    peak: Bucket,
}

impl Meter {
    pub(crate) fn new(config: MeterConfig) -> Self {
        Self {
            config,
            committed: Bucket::new(config.committed_rate, config.committed_burst),
            peak: Bucket::new(config.peak_rate, config.peak_burst),
        }
    }

    pub(crate) fn config(&self) -> MeterConfig {
        self.config
    }

    /// The colour of a packet of so many bytes.
    pub(crate) fn color(&mut self, kind: MeterKind, micros: u64, bytes: usize) -> u8 {
        let cost = match kind.unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => bytes as u64,
        };
        if kind.rates > 1 && !self.peak.pay(micros, cost) {
            return RED;
        }
        match self.committed.pay(micros, cost) {
            true => GREEN,
            false => YELLOW,
        }
    }
}

/// The meter arrays of a program.
#[derive(Debug)]
pub(crate) struct Meters {
    /// A meter without rates takes no room.
    arrays: Vec<(MeterKind, Vec<Option<Box<Meter>>>)>,
    /// When the program was loaded.
    origin: Nanos,
}

impl Meters {
    pub(crate) fn new(declared: &[MeterArray], origin: Nanos) -> Self {
        let cells = |array: &MeterArray| (array.kind, vec![None; array.cells]);
        Self {
            arrays: declared.iter().map(cells).collect(),
            origin,
        }
    }

    /// Microseconds since the program was loaded.
    pub(crate) fn micros(&self, now: Nanos) -> u64 {
        now.saturating_sub(self.origin) / 1_000
    }

    pub(crate) fn execute(
        &mut self,
        meter: MeterId,
        index: usize,
        now: Nanos,
        bytes: usize,
    ) -> Option<u8> {
        let micros = self.micros(now);
        let (kind, cells) = self.arrays.get_mut(meter.index())?;
        let cell = cells.get_mut(index)?;
        let meter = cell.as_mut();
        Some(meter.map_or(GREEN, |meter| meter.color(*kind, micros, bytes)))
    }

    pub(crate) fn get(&self, meter: MeterId, index: usize) -> Option<MeterConfig> {
        let (_, cells) = self.arrays.get(meter.index())?;
        cells.get(index)?.as_ref().map(|meter| meter.config())
    }

    pub(crate) fn set(&mut self, meter: MeterId, index: usize, config: Option<MeterConfig>) {
        let array = self.arrays.get_mut(meter.index());
        if let Some(cell) = array.and_then(|(_, cells)| cells.get_mut(index)) {
            *cell = config.map(|config| Box::new(Meter::new(config)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: MeterKind = MeterKind {
        unit: MeterUnit::Packets,
        rates: 2,
    };

    fn meter() -> Meter {
        Meter::new(MeterConfig {
            committed_rate: 1_000,
            committed_burst: 2,
            peak_rate: 2_000,
            peak_burst: 4,
        })
    }

    fn colors(meter: &mut Meter, kind: MeterKind, micros: u64, bytes: usize, n: usize) -> Vec<u8> {
        (0..n).map(|_| meter.color(kind, micros, bytes)).collect()
    }

    #[test]
    fn a_burst_is_green_then_yellow_then_red() {
        let mut meter = meter();
        let burst = colors(&mut meter, PACKETS, 0, 60, 6);
        assert_eq!(burst, [GREEN, GREEN, YELLOW, YELLOW, RED, RED]);
        // One millisecond later: one committed token, two peak tokens.
        let later = colors(&mut meter, PACKETS, 1_000, 60, 3);
        assert_eq!(later, [GREEN, YELLOW, RED]);
        // Long after, no more than the bursts.
        let refilled = colors(&mut meter, PACKETS, 60_000_000, 60, 5);
        assert_eq!(refilled, [GREEN, GREEN, YELLOW, YELLOW, RED]);
    }

    #[test]
    fn bytes_are_paid_by_the_packets_length() {
        let config = MeterConfig {
            committed_rate: 100,
            committed_burst: 100,
            peak_rate: 1_000,
            peak_burst: 250,
        };
        let kind = MeterKind {
            unit: MeterUnit::Bytes,
            rates: 2,
        };
        let mut meter = Meter::new(config);
        assert_eq!(colors(&mut meter, kind, 0, 100, 3), [GREEN, YELLOW, RED]);
        assert_eq!(
            meter.color(kind, 0, 50),
            YELLOW,
            "the peak bucket has 50 left"
        );
    }

    #[test]
    fn whole_tokens_are_counted_from_the_beginning_of_time() {
        let mut meter = meter();
        colors(&mut meter, PACKETS, 0, 60, 6);
        // 1,000 a second are 0.999 tokens after 999 microseconds, and the peak's 1.998.
        assert_eq!(meter.color(PACKETS, 999, 60), YELLOW);
        assert_eq!(meter.color(PACKETS, 1_000, 60), GREEN);
        assert_eq!(meter.color(PACKETS, 1_000, 60), RED);
    }

    #[test]
    fn with_one_rate_there_is_no_red() {
        let kind = MeterKind {
            unit: MeterUnit::Packets,
            rates: 1,
        };
        assert_eq!(colors(&mut meter(), kind, 0, 60, 6)[4], YELLOW);
    }
}
