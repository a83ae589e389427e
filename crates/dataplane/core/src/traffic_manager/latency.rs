//! Records the time that packets spend in the switch, from the arrival of their root frame (the received frame that a
//! packet comes from) until they leave: one histogram per output port and one per stream. The recording is always on.
//!
//! The switch does not parse RTP. Instead, the replicas of a multicast group are one stream, the clones of a session
//! are one stream, and all other packets are one stream. So the switch need not look into packets, and the controller
//! knows the ids of the streams.
//!
//! Copies of a packet, and packets of a batch, mostly leave at the same reading of the caller's clock. So packets with
//! equal times are counted as long as they follow each other, and then recorded in one step. A packet with the same
//! time as the previous packet thus costs two comparisons.

use hdrhistogram::Histogram;

use crate::{Nanos, PortId, Stream, limits};

/// Summary of a histogram; percentiles in nanoseconds, with two significant digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Number of packets.
    pub packets: u64,
    /// Sum of the times in nanoseconds, modulo 2^64.
    pub sum_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Longest time.
    pub max_ns: u64,
}

/// Summaries of all histograms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatencyReport {
    /// One summary for each output port by which packets left.
    pub ports: Vec<(PortId, LatencySummary)>,
    /// One summary for each stream of which packets left.
    pub streams: Vec<(Stream, LatencySummary)>,
}

/// The longest times and deepest queues since the last reading. Lists only ports and streams with packets since then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentMaxima {
    /// Longest time by output port, in nanoseconds.
    pub ports: Vec<(PortId, Nanos)>,
    /// Longest time by stream, in nanoseconds.
    pub streams: Vec<(Stream, Nanos)>,
    /// Deepest queue by output port, in packets.
    pub queues: Vec<(PortId, usize)>,
}

impl RecentMaxima {
    /// Raises each value to that of `other`, if the latter is larger.
    pub fn add(&mut self, other: &RecentMaxima) {
        largest(&mut self.ports, &other.ports);
        largest(&mut self.streams, &other.streams);
        largest(&mut self.queues, &other.queues);
    }
}

fn largest<T: Copy + PartialEq, V: Copy + Ord>(ours: &mut Vec<(T, V)>, theirs: &[(T, V)]) {
    for (of, theirs) in theirs {
        match ours.iter_mut().find(|(other, _)| other == of) {
            Some((_, ours)) => *ours = (*ours).max(*theirs),
            None => ours.push((*of, *theirs)),
        }
    }
}

#[derive(Debug, Clone)]
struct Times {
    histogram: Histogram<u64>,
    sum_ns: u64,
    last_ns: Nanos,
    /// Packets with `last_ns`, not yet in the histogram.
    n_last: u64,
    /// The longest time since the last reading; `None` if no packet left since then.
    recent_max_ns: Option<Nanos>,
}

impl Times {
    /// Never returns `None`, because the bounds are valid constants.
    fn new() -> Option<Self> {
        let bounds = Histogram::new_with_bounds(1, limits::LATENCY_NS_MAX, 2);
        Some(Self {
            histogram: bounds.ok()?,
            sum_ns: 0,
            last_ns: 0,
            n_last: 0,
            recent_max_ns: None,
        })
    }

    #[inline]
    fn record(&mut self, latency_ns: Nanos, n_packets: u64) {
        if latency_ns != self.last_ns {
            self.settle();
            self.last_ns = latency_ns;
        }
        self.n_last += n_packets;
        let sum_ns = latency_ns.wrapping_mul(n_packets);
        self.sum_ns = self.sum_ns.wrapping_add(sum_ns);
    }

    /// Records the packets that `n_last` counts in the histogram, and restarts the count.
    fn settle(&mut self) {
        if self.n_last > 0 {
            let n_last = std::mem::take(&mut self.n_last);
            self.histogram.saturating_record_n(self.last_ns, n_last);
            self.recent_max_ns = self.recent_max_ns.max(Some(self.last_ns));
        }
    }

    fn take_recent_max(&mut self) -> Option<Nanos> {
        self.settle();
        self.recent_max_ns.take()
    }

    fn add(&mut self, other: &Times) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        // Fails only if the bounds differ, but all histograms have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        if other.n_last > 0 {
            self.histogram
                .saturating_record_n(other.last_ns, other.n_last);
        }
    }

    fn summary(&mut self) -> LatencySummary {
        self.settle();
        let quantile = |quantile| self.histogram.value_at_quantile(quantile);
        LatencySummary {
            packets: self.histogram.len(),
            sum_ns: self.sum_ns,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.histogram.max(),
        }
    }
}

/// All latency histograms.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Indexed by port number.
    ports: Vec<Option<Times>>,
    /// In the order in which each stream's first packet left.
    streams: Vec<(Stream, Times)>,
    /// Index of the stream recorded last.
    last_stream: usize,
}

impl Latencies {
    /// Records packets that leave now; each was in the switch for `latency_ns`.
    #[inline]
    pub(crate) fn record(
        &mut self,
        port: PortId,
        stream: Stream,
        latency_ns: Nanos,
        n_packets: u64,
    ) {
        if let Some(times) = self.port_mut(port) {
            times.record(latency_ns, n_packets);
        }
        if let Some(times) = self.stream_mut(stream) {
            times.record(latency_ns, n_packets);
        }
    }

    #[inline]
    fn stream_mut(&mut self, stream: Stream) -> Option<&mut Times> {
        let last = self.streams.get(self.last_stream);
        if last.is_none_or(|(last, _)| *last != stream) {
            self.find_stream(stream);
        }
        let (_, times) = self.streams.get_mut(self.last_stream)?;
        Some(times)
    }

    #[cold]
    fn find_stream(&mut self, stream: Stream) {
        let place = |streams: &[(Stream, Times)], stream| {
            streams.iter().position(|(other, _)| *other == stream)
        };
        let mut found = place(&self.streams, stream);
        if found.is_none() {
            let is_room = self.streams.len() < limits::LATENCY_STREAMS_MAX;
            let stream = if is_room { stream } else { Stream::Other };
            found = place(&self.streams, stream);
            if found.is_none() {
                self.streams
                    .extend(Times::new().map(|times| (stream, times)));
            }
        }
        self.last_stream = found.unwrap_or(self.streams.len().saturating_sub(1));
    }

    /// Forgets all streams; called when the program's groups and sessions are cleared.
    pub(crate) fn clear_streams(&mut self) {
        self.streams.clear();
    }

    #[inline]
    fn port_mut(&mut self, port: PortId) -> Option<&mut Times> {
        let place = usize::from(port.0);
        if self.ports.get(place).is_none_or(Option::is_none) {
            self.add_port(place);
        }
        self.ports[place].as_mut()
    }

    #[cold]
    fn add_port(&mut self, place: usize) {
        if place >= self.ports.len() {
            self.ports.resize_with(place + 1, || None);
        }
        self.ports[place] = Times::new();
    }

    /// Adds another switch's histograms.
    pub fn add(&mut self, other: &Latencies) {
        for (port, theirs) in (0..).map(PortId).zip(&other.ports) {
            if let Some(theirs) = theirs
                && let Some(ours) = self.port_mut(port)
            {
                ours.add(theirs);
            }
        }
        for (stream, theirs) in &other.streams {
            if let Some(ours) = self.stream_mut(*stream) {
                ours.add(theirs);
            }
        }
    }

    pub(crate) fn take_recent(&mut self) -> RecentMaxima {
        let ports = (0..).map(PortId).zip(&mut self.ports);
        let ports =
            ports.filter_map(|(port, times)| Some((port, times.as_mut()?.take_recent_max()?)));
        let streams = self.streams.iter_mut();
        let streams =
            streams.filter_map(|(stream, times)| Some((*stream, times.take_recent_max()?)));
        RecentMaxima {
            ports: ports.collect(),
            streams: streams.collect(),
            ..RecentMaxima::default()
        }
    }

    /// Summaries of everything recorded so far.
    pub fn report(&mut self) -> LatencyReport {
        let ports = (0..).map(PortId).zip(&mut self.ports);
        let ports = ports.filter_map(|(port, times)| Some((port, times.as_mut()?.summary())));
        let ports = ports.collect();
        let streams = self.streams.iter_mut();
        let mut streams: Vec<_> = streams
            .map(|(stream, times)| (*stream, times.summary()))
            .collect();
        streams.sort_by_key(|(stream, _)| *stream);
        LatencyReport { ports, streams }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_two_digits() {
        let mut latencies = Latencies::default();
        for time in 1..=1_000 {
            latencies.record(PortId(3), Stream::MulticastGroup(7), time * 1_000, 1);
        }
        let report = latencies.report();
        let (port, summary) = report.ports[0];
        assert_eq!((port, summary.packets), (PortId(3), 1_000));
        assert_eq!(report.streams, [(Stream::MulticastGroup(7), summary)]);
        assert_eq!(summary.sum_ns, 500_500_000);
        for (found, expected) in [
            (summary.p50_ns, 500_000),
            (summary.p99_ns, 990_000),
            (summary.p999_ns, 999_000),
            (summary.max_ns, 1_000_000),
        ] {
            assert!(
                found.abs_diff(expected) <= expected / 100,
                "{found}, expected {expected}"
            );
        }
    }

    #[test]
    fn equal_times_in_a_row_are_all_counted() {
        let mut latencies = Latencies::default();
        for n_packets in [1, 20, 43] {
            latencies.record(PortId(1), Stream::CloneSession(100), 5_000, n_packets);
        }
        latencies.record(PortId(2), Stream::Unicast, 5_000, 1);
        let report = latencies.report();
        let packets: Vec<u64> = report.ports.iter().map(|(_, it)| it.packets).collect();
        assert_eq!(packets, [64, 1]);
        assert_eq!(report, latencies.report(), "reading takes nothing away");
        latencies.clear_streams();
        assert!(latencies.report().streams.is_empty());
        assert_eq!(latencies.report().ports, report.ports);
    }

    #[test]
    fn those_of_two_switches_add_up() {
        let (mut all, mut parts) = (Latencies::default(), [const { None }; 2]);
        for (part, latencies) in (0..).zip(&mut parts) {
            let one = latencies.insert(Latencies::default());
            for time in 1..=500 {
                let (port, stream) = (PortId(time % 3), Stream::MulticastGroup(part));
                let latency_ns = u64::from(time) * 997 + u64::from(part) * 1_000_000;
                one.record(port, stream, latency_ns, 1);
                all.record(port, stream, latency_ns, 1);
            }
        }
        let mut sum = Latencies::default();
        for part in parts.iter().flatten() {
            sum.add(part);
        }
        assert_eq!(sum.report(), all.report());
    }

    #[test]
    fn streams_too_many_are_counted_together() {
        let mut latencies = Latencies::default();
        let most = u32::try_from(limits::LATENCY_STREAMS_MAX).expect("a few hundred streams");
        for group in 1..=most + 10 {
            latencies.record(PortId(1), Stream::MulticastGroup(group), 1, 1);
        }
        let report = latencies.report();
        assert_eq!(report.streams.len(), limits::LATENCY_STREAMS_MAX + 1);
        let (stream, summary) = report.streams[limits::LATENCY_STREAMS_MAX];
        assert_eq!((stream, summary.packets), (Stream::Other, 10));
    }
}
