//! Sends packets through switches and measures the cost of one packet. A variant is an engine with a choice of
//! optimisations. Each round measures all variants, so that other load on the machine affects all variants. The result
//! is the median over the rounds.

use std::hash::Hasher;

use dataplane::{Nanos, Switch, SwitchCounters};

use crate::{
    clock::{Span, Stamp},
    frames::Frames,
    probe::{Part, Watch},
    variant::Variant,
    workload::Workload,
};

/// Number of frames that a switch gets before its output is taken. An event loop takes at most this many frames from a
/// port at once.
const BATCH_FRAMES: usize = 32;
/// Virtual time between two batches.
const BATCH_NS: Nanos = 3_000;

/// The length of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// The number of rounds, which must be odd.
    pub rounds: usize,
    pub round_ms: f64,
    /// Number of packets for which all variants must send the same output.
    pub checked_packets: usize,
}

/// Minimum, median and maximum of a measured value over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        Some(Self {
            median: *figures.get(figures.len() / 2)?,
            min: *figures.first()?,
            max: *figures.last()?,
        })
    }
}

#[derive(Debug, Clone)]
pub struct Measured {
    pub variant: Variant,
    /// Nanoseconds per packet.
    pub ns: Spread,
    /// Ticks of the time stamp counter per packet.
    pub ticks: Spread,
    /// Number of copies that leave per packet.
    pub copies: f64,
    /// Nanoseconds per packet in each part of the switch ([`Part`]). They include the cost of recording which part
    /// runs.
    pub parts: Vec<(Part, Spread)>,
    /// A hash of every frame that left in the check, and of the switch's counters.
    pub checksum: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Run {
    packets: usize,
    copies: usize,
    span: Span,
}

/// A switch that gets a workload's frames.
struct Fed {
    switch: Switch,
    now: Nanos,
    next: usize,
}

impl Fed {
    fn new(switch: Switch) -> Self {
        Self {
            switch,
            now: 0,
            next: 0,
        }
    }

    /// Gives the switch this many packets, batch by batch. `take` gets the output.
    fn run(
        &mut self,
        frames: &Frames,
        packets: usize,
        mut take: impl FnMut(u16, [&[u8]; 2]),
    ) -> Run {
        let start = Stamp::now();
        let mut copies = 0;
        let mut left = packets;
        while left > 0 {
            let batch = left.min(BATCH_FRAMES);
            left -= batch;
            self.now += BATCH_NS;
            for _ in 0..batch {
                let (port, frame) = frames.get(self.next);
                self.next += 1;
                if self.next == frames.len() {
                    self.next = 0;
                }
                self.switch.handle_frame(self.now, port, frame);
            }
            let transmitted = self.switch.transmit(self.now, usize::MAX, &mut |transmit| {
                take(
                    transmit.port.0,
                    [transmit.frame.head, transmit.frame.payload],
                );
            });
            copies += transmitted.n_frames;
        }
        Run {
            packets,
            copies,
            span: start.elapsed(),
        }
    }

    /// Runs this many packets and ignores the output.
    fn time(&mut self, frames: &Frames, packets: usize) -> Run {
        self.run(frames, packets, |_, pieces| {
            std::hint::black_box(pieces);
        })
    }

    /// Returns the number of packets that take approximately this time.
    fn packets_in(&mut self, frames: &Frames, ms: f64) -> usize {
        let mut packets = BATCH_FRAMES;
        loop {
            let run = self.time(frames, packets);
            if run.span.ns >= ms * 1e5 || packets > 1 << 26 {
                let wanted = packets as f64 * ms * 1e6 / run.span.ns.max(1.0);
                return (wanted as usize).max(BATCH_FRAMES);
            }
            packets *= 2;
        }
    }
}

struct Contender {
    variant: Variant,
    plain: Fed,
    /// If the parts are measured: a switch with the same engine in a wrapper that records which part runs.
    probed: Option<Fed>,
    packets: usize,
    checksum: u64,
    runs: Vec<Run>,
    /// For each round, the parts' nanoseconds per packet.
    parts: Vec<[f64; Part::ALL.len()]>,
}

/// A workload with all variants that are measured.
pub struct Contest {
    frames: Frames,
    watch: Watch,
    effort: Effort,
    contenders: Vec<Contender>,
    /// The processors for the sampling thread, if the parts are measured.
    lookers: Option<Vec<usize>>,
}

impl Contest {
    /// Sets everything up, warms up every variant, and checks that the variant's output equals the interpreter's
    /// output.
    ///
    /// # Errors
    /// A switch refuses its entries, a packet is lost, or a variant's output differs.
    pub fn new(
        workload: &Workload,
        variants: &[Variant],
        effort: Effort,
        lookers: Option<Vec<usize>>,
    ) -> Result<Self, String> {
        let (frames, watch) = (workload.frames(), Watch::new());
        let mut contenders: Vec<Contender> = Vec::new();
        for variant in variants {
            let mut plain = Fed::new(workload.switch(variant.factory())?);
            let checked = effort.checked_packets.min(frames.len());
            let checksum = check(&mut plain, &frames, checked)?;
            let name = format!("{} {}", variant.engine(), variant.optimisations());
            let mut probed = None;
            if lookers.is_some() {
                let mut fed = Fed::new(workload.switch(watch.probe(variant.factory()))?);
                if check(&mut fed, &frames, checked)? != checksum {
                    return Err(format!(
                        "{name}: the output or the counters differ when the parts are measured"
                    ));
                }
                probed = Some(fed);
            }
            if let Some(first) = contenders.first()
                && first.checksum != checksum
            {
                let expected = first.checksum;
                return Err(format!(
                    "{name}: expected the checksum {expected:016x} of output and counters, \
                     found {checksum:016x}"
                ));
            }
            let packets = plain.packets_in(&frames, effort.round_ms);
            contenders.push(Contender {
                variant: variant.clone(),
                plain,
                probed,
                packets,
                checksum,
                runs: Vec::new(),
                parts: Vec::new(),
            });
        }
        Ok(Self {
            frames,
            watch,
            effort,
            contenders,
            lookers,
        })
    }

    /// Measures all variants once. Each round begins with another variant.
    pub fn round(&mut self, number: usize) {
        let n_contenders = self.contenders.len();
        for place in 0..n_contenders {
            let contender = &mut self.contenders[(place + number) % n_contenders];
            let frames = &self.frames;
            // The variant has to warm up, since the caches contain another variant's data.
            contender.plain.time(frames, contender.packets.div_ceil(4));
            let run = contender.plain.time(frames, contender.packets);
            contender.runs.push(run);
            let (Some(probed), Some(lookers)) = (&mut contender.probed, &self.lookers) else {
                continue;
            };
            probed.time(frames, contender.packets.div_ceil(8));
            let looking = self.watch.look(lookers.clone());
            let run = probed.time(frames, contender.packets);
            if let Some(shares) = looking.shares() {
                let ns = run.span.ns / run.packets as f64;
                contender.parts.push(shares.map(|share| share * ns));
            }
        }
    }

    /// Runs all rounds. Calls `progress` after each round.
    pub fn run(&mut self, mut progress: impl FnMut()) {
        for number in 0..self.effort.rounds {
            self.round(number);
            progress();
        }
    }

    pub fn finish(self) -> Vec<Measured> {
        self.contenders
            .into_iter()
            .filter_map(Contender::finish)
            .collect()
    }
}

impl Contender {
    fn finish(self) -> Option<Measured> {
        let each = |figure: fn(&Run) -> f64| self.runs.iter().map(figure);
        let parts = Part::ALL
            .into_iter()
            .enumerate()
            .filter_map(|(place, part)| {
                let figures = self.parts.iter().map(|parts| parts[place]);
                Some((part, Spread::of(figures)?))
            });
        Some(Measured {
            ns: Spread::of(each(|run| run.span.ns / run.packets as f64))?,
            ticks: Spread::of(each(|run| run.span.ticks / run.packets as f64))?,
            copies: Spread::of(each(|run| run.copies as f64 / run.packets as f64))?.median,
            parts: parts.collect(),
            checksum: self.checksum,
            variant: self.variant,
        })
    }
}

/// Gives the switch the first packets, and hashes the output and the switch's counters. Every packet must leave.
fn check(fed: &mut Fed, frames: &Frames, packets: usize) -> Result<u64, String> {
    let mut hasher = std::hash::DefaultHasher::new();
    let run = fed.run(frames, packets, |port, [head, payload]| {
        hasher.write_u16(port);
        hasher.write_usize(head.len() + payload.len());
        hasher.write(head);
        hasher.write(payload);
    });
    let counters: &SwitchCounters = fed.switch.counters();
    if run.copies < packets || counters.dropped_total() > 0 || counters.digests > 0 {
        let lost: Vec<_> = counters.drops().filter(|(_, count)| *count > 0).collect();
        return Err(format!(
            "{packets} packets came and {} left, dropped {lost:?}, {} digests",
            run.copies, counters.digests
        ));
    }
    hasher.write(format!("{counters:?}").as_bytes());
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_of_an_odd_number() {
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 5.0));
        assert_eq!(Spread::of([]), None);
    }
}
