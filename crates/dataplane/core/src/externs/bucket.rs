//! A meter's bucket as three integers, of which only `gone` changes. It is for offloads whose processors share a bucket
//! and change this one word by compare-and-exchange. It gives the same colours as the interpreter's meter
//! ([`super::meter`]), with one exception: the interpreter computes totals in floating point, so that the two buckets
//! may differ by one token.
//!
//! The word `gone` counts the tokens that the rate has yielded since time 0 and that are not in the bucket: packets
//! took them, or the bucket overflowed. All totals wrap around: the difference of two totals is right while it is below
//! 2^63.

/// The highest rate in tokens per second. At this rate, an idle bucket's total needs four years to grow by 2^63; the
/// difference of two totals that far apart is computed wrongly.
pub const RATE_MAX: u64 = 1 << 36;
/// The largest burst. It is limited because the number of tokens in a bucket is computed as a signed 64-bit number.
pub const BURST_MAX: u64 = 1 << 62;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// Returns how many tokens the rate yields from time 0 until `micros` (in microseconds), rounded down. The result wraps
/// around.
pub fn total(rate_per_second: u64, micros: u64) -> u64 {
    let (seconds, rest) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    let of_rest = rest.wrapping_mul(rate_per_second) / MICROS_PER_SECOND;
    seconds.wrapping_mul(rate_per_second).wrapping_add(of_rest)
}

/// A bucket whose rate is at most [`RATE_MAX`] and whose burst is at most [`BURST_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens that the rate yields in a second.
    pub rate: u64,
    /// The most tokens that the bucket holds.
    pub burst: u64,
    /// Tokens that the rate has yielded since time 0 and that are not in the bucket.
    pub gone: u64,
}

impl Bucket {
    /// A bucket that is full at time `micros`; `None` if rate or burst are too large.
    pub fn full(rate: u64, burst: u64, micros: u64) -> Option<Self> {
        (rate <= RATE_MAX && burst <= BURST_MAX).then(|| Self {
            rate,
            burst,
            gone: total(rate, micros).wrapping_sub(burst),
        })
    }

    /// Takes a packet's tokens, or none if there are too few; returns whether it took them.
    pub fn pay(&mut self, micros: u64, cost: u64) -> bool {
        let total = total(self.rate, micros);
        let overflow = total.wrapping_sub(self.burst).wrapping_sub(self.gone);
        let overflow = overflow.cast_signed().max(0).cast_unsigned();
        let gone = self.gone.wrapping_add(overflow).wrapping_add(cost);
        let pays = total.wrapping_sub(gone).cast_signed() >= 0;
        if pays {
            self.gone = gone;
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::{
        MeterConfig,
        color::{GREEN, RED, YELLOW},
        externs::meter::Meter,
        program::{MeterUnit, ir::MeterKind},
    };

    /// Returns a random number below 2^`bits`; short and long bit lengths are equally likely.
    fn below_power(rng: &mut Rng, bits: u32) -> u64 {
        let bits = rng.u32(1..bits);
        rng.u64(..1 << bits)
    }

    struct Both {
        meter: Meter,
        kind: MeterKind,
        committed: Bucket,
        peak: Bucket,
    }

    impl Both {
        fn new(rng: &mut Rng, rate: impl Fn(&mut Rng) -> u64) -> Self {
            let unit = if rng.bool() {
                MeterUnit::Packets
            } else {
                MeterUnit::Bytes
            };
            let rates = rng.usize(1..=2);
            let committed_rate = rate(rng);
            let config = MeterConfig {
                committed_rate,
                committed_burst: below_power(rng, 16),
                peak_rate: committed_rate + rate(rng),
                peak_burst: below_power(rng, 16),
                excess_burst: 0,
            };
            let full = |rate, burst| Bucket::full(rate, burst, 0).expect("small numbers");
            Self {
                meter: Meter::new(Some(config)),
                kind: MeterKind { unit, rates },
                committed: full(config.committed_rate, config.committed_burst),
                peak: full(config.peak_rate, config.peak_burst),
            }
        }

        fn cost(&self, bytes: usize) -> u64 {
            match self.kind.unit {
                MeterUnit::Packets => 1,
                MeterUnit::Bytes => bytes as u64,
            }
        }

        /// Returns the colours that the interpreter and the buckets give to a packet.
        fn colors(&mut self, micros: u64, bytes: usize) -> (u8, u8) {
            let cost = self.cost(bytes);
            let color = if self.kind.rates > 1 && !self.peak.pay(micros, cost) {
                RED
            } else if self.committed.pay(micros, cost) {
                GREEN
            } else {
                YELLOW
            };
            (self.meter.color(self.kind, micros, bytes), color)
        }
    }

    const ROUNDS: u64 = 400;
    const PACKETS: usize = 400;
    const BYTES_MAX: usize = 1500;

    #[test]
    fn colors_are_the_interpreter_s_where_its_floating_point_is_exact() {
        for seed in 0..ROUNDS {
            let mut rng = Rng::with_seed(seed);
            // The rates are multiples of 2^-6 tokens a microsecond.
            let mut both = Both::new(&mut rng, |rng| 15_625 * below_power(rng, 12));
            let mut micros = 0;
            let gap_max = 1 << rng.u32(1..20);
            for packet in 0..PACKETS {
                micros += rng.u64(..gap_max);
                let (expected, found) = both.colors(micros, rng.usize(60..BYTES_MAX));
                assert_eq!(found, expected, "seed {seed}, packet {packet}");
            }
        }
    }

    #[test]
    fn of_any_rate_no_more_than_one_token_comes_earlier_or_later() {
        for seed in 0..ROUNDS {
            let mut rng = Rng::with_seed(seed);
            let mut both = Both::new(&mut rng, |rng| below_power(rng, 24));
            let mut micros = 0;
            let gap_max = 1 << rng.u32(1..20);
            let (mut green, mut served) = (0_i64, 0_i64);
            // The interpreter's meter and the buckets may differ by one token. If one of them refuses a packet because
            // it lacks this token, it falls behind by the tokens of the whole packet.
            let most = both.cost(BYTES_MAX).cast_signed() + 1;
            for packet in 0..PACKETS {
                micros += rng.u64(..gap_max);
                let bytes = rng.usize(60..BYTES_MAX);
                let (expected, found) = both.colors(micros, bytes);
                let cost = both.cost(bytes).cast_signed();
                let gain =
                    |is: fn(u8) -> bool| cost * (i64::from(is(found)) - i64::from(is(expected)));
                green += gain(|color| color == GREEN);
                served += gain(|color| color != RED);
                let what = format!("seed {seed}, packet {packet}: {green} and {served} of {most}");
                assert!(green.abs() <= 2 * most && served.abs() <= most, "{what}");
            }
        }
    }

    #[test]
    fn totals_wrap_and_stay_exact() {
        assert_eq!(total(3, 999_999), 2);
        assert_eq!(total(RATE_MAX, 1), RATE_MAX / 1_000_000);
        // After 70 years at the highest rate the total has wrapped several times.
        let late = 70 * 366 * 86_400 * 1_000_000;
        assert!(u128::from(RATE_MAX) * 70 * 366 * 86_400 > 4 << 64);
        let mut bucket = Bucket::full(RATE_MAX, 100, late).expect("at the limits");
        assert!(bucket.pay(late, 100) && !bucket.pay(late, 1));
        assert!(bucket.pay(late + 1, 100) && !bucket.pay(late + 1, 1));
        // A processor whose clock is behind gets no tokens from the empty bucket either.
        assert!(!bucket.pay(late, 1));
        assert_eq!(Bucket::full(RATE_MAX + 1, 0, 0), None);
        assert_eq!(Bucket::full(0, BURST_MAX + 1, 0), None);
    }
}
