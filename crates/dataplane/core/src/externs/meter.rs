//! Meters: the colour-blind two-rate three-colour marker of RFC 2698, as BMv2 computes it. A meter with an excess burst
//! is the single-rate marker of RFC 2697, which BMv2 lacks.
//!
//! For each packet, a bucket computes the total of tokens since time 0, rounded down to whole tokens, and gains the
//! difference from the total at the previous packet. So rounding errors do not accumulate. If the peak bucket has too
//! few tokens for a packet, the packet is red and takes no tokens; if only the committed bucket has too few, the packet
//! is yellow. Time is the switch's time, in microseconds since the program was loaded. A meter without rates colours
//! every packet green. An index beyond the end of the array gives no colour.

use crate::{
    CounterValue, MeterConfig, MeterCounts, MeterId, Nanos,
    color::{GREEN, RED, YELLOW},
    program::{
        MeterUnit,
        ir::{MeterArray, MeterKind},
    },
};

#[derive(Debug, Clone, Default)]
struct Bucket {
    /// A floating-point number as in BMv2, because the rounding is observable.
    tokens_per_micro: f64,
    burst: u64,
    tokens: u64,
    /// The total of tokens since time 0, as computed for the last packet.
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

    /// Adds the tokens that the rate has yielded since the last packet; returns how many did not fit.
    fn fill(&mut self, micros: u64) -> u64 {
        let total = (micros as f64 * self.tokens_per_micro) as u64;
        let came_in = total.saturating_sub(self.total_before);
        self.total_before = total;
        self.add(came_in)
    }

    fn add(&mut self, came_in: u64) -> u64 {
        let tokens = self.tokens.saturating_add(came_in);
        self.tokens = tokens.min(self.burst);
        tokens - self.tokens
    }

    /// Takes a packet's tokens, or none if there are too few; returns whether it took them.
    fn pay(&mut self, cost: u64) -> bool {
        match self.tokens.checked_sub(cost) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

#[derive(Debug, Clone)]
struct Rates {
    config: MeterConfig,
    committed: Bucket,
    peak: Bucket,
    /// Filled by the overflow of the committed bucket.
    excess: Bucket,
}

impl Rates {
    fn new(config: MeterConfig) -> Self {
        Self {
            config,
            committed: Bucket::new(config.committed_rate, config.committed_burst),
            peak: Bucket::new(config.peak_rate, config.peak_burst),
            excess: Bucket::new(0, config.excess_burst),
        }
    }

    fn color(&mut self, rates: usize, micros: u64, cost: u64) -> u8 {
        if self.config.excess_burst > 0 {
            return self.color_of_one_rate(micros, cost);
        }
        if rates > 1 {
            self.peak.fill(micros);
            if !self.peak.pay(cost) {
                return RED;
            }
        }
        self.committed.fill(micros);
        if self.committed.pay(cost) {
            GREEN
        } else {
            YELLOW
        }
    }

    /// Colours a packet by RFC 2697 in colour-blind mode.
    fn color_of_one_rate(&mut self, micros: u64, cost: u64) -> u8 {
        let excess = self.committed.fill(micros);
        self.excess.add(excess);
        if self.committed.pay(cost) {
            return GREEN;
        }
        if self.excess.pay(cost) { YELLOW } else { RED }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    rates: Option<Box<Rates>>,
    pub(crate) counts: MeterCounts,
}

impl Meter {
    pub(crate) fn new(config: Option<MeterConfig>) -> Self {
        let mut meter = Self::default();
        meter.set(config);
        meter
    }

    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.rates.as_ref().map(|rates| rates.config)
    }

    /// Sets rates and fills the buckets; keeps the counts.
    pub(crate) fn set(&mut self, config: Option<MeterConfig>) {
        self.rates = config.map(|config| Box::new(Rates::new(config)));
    }

    /// Colours a packet and counts it.
    pub(crate) fn color(&mut self, kind: MeterKind, micros: u64, bytes: usize) -> u8 {
        let cost = match kind.unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => bytes as u64,
        };
        let rates = self.rates.as_mut();
        let color = rates.map_or(GREEN, |rates| rates.color(kind.rates, micros, cost));
        let count = match color {
            GREEN => &mut self.counts.green,
            YELLOW => &mut self.counts.yellow,
            _ => &mut self.counts.red,
        };
        count.add(CounterValue::packet(bytes));
        color
    }
}

/// Saved cells of a meter array: array, first index, cells.
#[derive(Debug, Clone)]
pub struct MeterSnapshot(pub(crate) MeterId, pub(crate) u64, pub(crate) Vec<Meter>);

#[derive(Debug)]
pub(crate) struct Meters {
    arrays: Vec<(MeterKind, Vec<Meter>)>,
    origin: Nanos,
}

impl Meters {
    pub(crate) fn new(declared: &[MeterArray], origin: Nanos) -> Self {
        let cells = |array: &MeterArray| (array.kind, vec![Meter::default(); array.cells]);
        Self {
            arrays: declared.iter().map(cells).collect(),
            origin,
        }
    }

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
        let kind = *kind;
        Some(cells.get_mut(index)?.color(kind, micros, bytes))
    }

    pub(crate) fn get(&self, meter: MeterId, index: usize) -> Option<&Meter> {
        let (_, cells) = self.arrays.get(meter.index())?;
        cells.get(index)
    }

    pub(crate) fn get_mut(&mut self, meter: MeterId, index: usize) -> Option<&mut Meter> {
        let (_, cells) = self.arrays.get_mut(meter.index())?;
        cells.get_mut(index)
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
        Meter::new(Some(MeterConfig {
            committed_rate: 1_000,
            committed_burst: 2,
            peak_rate: 2_000,
            peak_burst: 4,
            ..MeterConfig::default()
        }))
    }

    fn colors(meter: &mut Meter, kind: MeterKind, micros: u64, bytes: usize, n: usize) -> Vec<u8> {
        (0..n).map(|_| meter.color(kind, micros, bytes)).collect()
    }

    #[test]
    fn a_burst_is_green_then_yellow_then_red() {
        let mut meter = meter();
        let burst = colors(&mut meter, PACKETS, 0, 60, 6);
        assert_eq!(burst, [GREEN, GREEN, YELLOW, YELLOW, RED, RED]);
        // One millisecond later, the buckets have gained one committed token and two peak tokens.
        let later = colors(&mut meter, PACKETS, 1_000, 60, 3);
        assert_eq!(later, [GREEN, YELLOW, RED]);
        // Much later, the buckets hold no more than their bursts.
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
            ..MeterConfig::default()
        };
        let kind = MeterKind {
            unit: MeterUnit::Bytes,
            rates: 2,
        };
        let mut meter = Meter::new(Some(config));
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
        // At 999 microseconds the rates have yielded 0.999 committed and 1.998 peak tokens, which count as 0 and 1.
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

    #[test]
    fn with_an_excess_burst_what_the_committed_bucket_has_no_room_for_is_yellow() {
        let mut meter = Meter::new(Some(MeterConfig {
            committed_rate: 1_000,
            committed_burst: 2,
            peak_rate: 1_000,
            peak_burst: 2,
            excess_burst: 1,
        }));
        let burst = colors(&mut meter, PACKETS, 0, 60, 4);
        assert_eq!(burst, [GREEN, GREEN, YELLOW, RED]);
        // The committed bucket is filled first: it takes both tokens that come in 2 ms. The excess bucket gets only
        // what the committed bucket has no room for.
        let later = colors(&mut meter, PACKETS, 2_000, 60, 3);
        assert_eq!(later, [GREEN, GREEN, RED]);
        let later = colors(&mut meter, PACKETS, 5_000, 60, 4);
        assert_eq!(later, [GREEN, GREEN, YELLOW, RED]);
        let counted = meter.counts;
        let packets = [counted.green, counted.yellow, counted.red].map(|count| count.packets);
        assert_eq!(packets, [6, 2, 3]);
        assert_eq!(counted.red.bytes, 180);
    }

    #[test]
    fn a_meter_without_rates_counts_green() {
        let mut meter = Meter::default();
        assert_eq!(colors(&mut meter, PACKETS, 0, 60, 2), [GREEN, GREEN]);
        meter.set(None);
        let green = CounterValue {
            packets: 2,
            bytes: 120,
        };
        assert_eq!(meter.counts.green, green);
    }
}
