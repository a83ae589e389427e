//! What a load has counted.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// The longest time that is kept: ten minutes. Times are kept in microseconds, to three significant digits.
const TIME_US_MAX: u64 = 600_000_000;
const DIGITS: u8 = 3;

/// Times, from which any quantile can be computed.
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        let times = Histogram::new_with_bounds(1, TIME_US_MAX, DIGITS);
        // The histogram accepts these bounds, which are constants.
        Times(times.unwrap_or_else(|error| unreachable!("{error}")))
    }
}

impl Times {
    pub fn take(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // Zero is below the first bucket.
        self.0.saturating_record(us.max(1));
    }

    fn ms(&self, quantile: f64) -> Option<f64> {
        let us = (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile))?;
        Some(us as f64 / 1_000.0)
    }

    fn max_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1_000.0)
    }

    /// Returns how many times there are, and their quantiles and maximum in milliseconds. Quantiles and maximum are
    /// null if there are no times.
    fn to_json(&self) -> Value {
        json!({
            "n": self.0.len(),
            "p50": self.ms(0.5),
            "p99": self.ms(0.99),
            "p99.9": self.ms(0.999),
            "max": self.max_ms(),
        })
    }

    fn cells(&self) -> [String; 4] {
        [self.ms(0.5), self.ms(0.99), self.ms(0.999), self.max_ms()].map(|ms| match ms {
            Some(ms) if ms < 10.0 => format!("{ms:.2}"),
            Some(ms) => format!("{ms:.0}"),
            None => "-".to_owned(),
        })
    }
}

/// What a load has counted since its beginning, and in the last second.
#[derive(Default)]
pub struct Tally {
    /// Participants that are there with all subscriptions, and signed in.
    pub n_present: usize,
    /// Joins that were completed.
    pub n_joins: u64,
    pub n_leaves: u64,
    /// Joins that failed because the load ended before they were completed.
    pub n_unfinished: u64,
    /// Requests that were made again, because the service was away or busy, or because a publisher was not there yet.
    pub n_repeated: u64,
    pub n_packets: u64,
    pub n_lost: u64,
    pub n_again: u64,
    pub n_foreign: u64,
    /// RTCP packets, which the programs of other participants send to publishers.
    pub n_reports: u64,
    /// Packets that this machine's kernel has dropped, since this process did not read them in time. The load has lost
    /// them, not the switch.
    pub n_dropped_here: u64,
    pub n_send_errors: u64,
    /// The number of participants that could not join, and why the first of them could not.
    pub n_failed: u64,
    pub first_failure: Option<String>,
    pub first_packet: Times,
    pub delay: Times,
    second: Second,
}

/// What a load has counted in the last second.
#[derive(Default)]
struct Second {
    first_packet: Times,
    delay: Times,
    /// Totals at the beginning of this second.
    n_joins: u64,
    n_packets: u64,
}

impl Tally {
    pub fn first_packet_after(&mut self, time: Duration) {
        self.first_packet.take(time);
        self.second.first_packet.take(time);
    }

    pub fn packet_after(&mut self, delay: Duration) {
        self.n_packets += 1;
        self.delay.take(delay);
        self.second.delay.take(delay);
    }

    pub fn failed(&mut self, why: String) {
        self.n_failed += 1;
        self.first_failure.get_or_insert(why);
    }

    /// Returns a line about the last second, and begins to count for the next second.
    pub fn second(&mut self, number: u64) -> (Value, String) {
        let second = std::mem::take(&mut self.second);
        let n_joins = self.n_joins - second.n_joins;
        let n_packets = self.n_packets - second.n_packets;
        self.second.n_joins = self.n_joins;
        self.second.n_packets = self.n_packets;
        let json = json!({
            "second": number,
            "present": self.n_present,
            "joins": n_joins,
            "first_packet_ms": second.first_packet.to_json(),
            "packets": n_packets,
            "lost": self.n_lost,
            "duplicated": self.n_again,
            "foreign": self.n_foreign,
            "delay_ms": second.delay.to_json(),
        });
        let [first_p50, first_p99, _, first_max] = second.first_packet.cells();
        let [p50, p99, p999, _] = second.delay.cells();
        let text = format!(
            "{number:>4} s  present {:<5} joins/s {n_joins:<4} first packet {first_p50} {first_p99} {first_max} ms  \
             packets/s {n_packets:<7} delay {p50} {p99} {p999} ms  lost {} twice {} foreign {}",
            self.n_present, self.n_lost, self.n_again, self.n_foreign
        );
        (json, text)
    }

    /// Returns all counts and times as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "joins": self.n_joins,
            "leaves": self.n_leaves,
            "failed": self.n_failed,
            "unfinished": self.n_unfinished,
            "requests_repeated": self.n_repeated,
            "first_packet_ms": self.first_packet.to_json(),
            "packets": self.n_packets,
            "lost": self.n_lost,
            "dropped_by_this_machine": self.n_dropped_here,
            "duplicated": self.n_again,
            "foreign": self.n_foreign,
            "rtcp": self.n_reports,
            "send_errors": self.n_send_errors,
            "delay_ms": self.delay.to_json(),
        })
    }

    /// Returns all counts and times as the rows of a table for people.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let n = |what: &str, n: u64| vec![what.to_owned(), n.to_string()];
        let head = ["", "p50", "p99", "p99.9", "max"].map(str::to_owned);
        let times = |what: &str, times: &Times| {
            let mut row = vec![what.to_owned()];
            row.extend(times.cells());
            row
        };
        vec![
            n("joins", self.n_joins),
            n("joins that failed", self.n_failed),
            n("joins not complete at the end", self.n_unfinished),
            n("leaves", self.n_leaves),
            n("requests repeated", self.n_repeated),
            n("packets received", self.n_packets),
            n("packets lost", self.n_lost),
            n("packets dropped by this machine", self.n_dropped_here),
            n("packets received twice", self.n_again),
            n("foreign packets", self.n_foreign),
            n("packets not sent", self.n_send_errors),
            head.to_vec(),
            times("join to first packet, ms", &self.first_packet),
            times("one-way delay, ms", &self.delay),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_what_came_in_it_and_totals_stay() {
        let mut tally = Tally {
            n_joins: 2,
            ..Tally::default()
        };
        tally.first_packet_after(Duration::from_millis(8));
        for ms in 1..=100 {
            tally.packet_after(Duration::from_millis(ms));
        }
        let (json, text) = tally.second(1);
        assert_eq!(json["joins"], 2);
        assert_eq!(json["packets"], 100);
        let p50 = json["delay_ms"]["p50"].as_f64().expect("a number");
        assert!((49.5..50.5).contains(&p50), "{p50}");
        assert!(text.contains("packets/s 100"), "{text}");
        let (json, text) = tally.second(2);
        assert_eq!((&json["joins"], &json["packets"]), (&json!(0), &json!(0)));
        assert!(json["delay_ms"]["p50"].is_null());
        assert!(text.contains("delay - - - ms"), "{text}");
        assert_eq!(tally.to_json()["packets"], 100);
        assert_eq!(tally.to_json()["first_packet_ms"]["n"], 1);
    }
}
