//! Measures the nanoseconds per packet on the switch, with this compiler's JSON and with p4c's.
//!
//! `cargo run --release -p stf --example speed -- SAMPLES P4C [NAME...]`: SAMPLES is a folder with NAME.p4 and
//! NAME.stf, P4C a folder with p4c's NAME.json for each. Without names, every program with all three files is measured.
//! Each program first runs its test once: the test inserts the entries, and must pass. Then the program gets the test's
//! packets repeatedly. Runs with the two compilers' JSON alternate, and each ratio is that of two adjacent runs, so a
//! machine that slows down favours neither. The time is the thread's processor time, so other load on the machine
//! counts little.

#![expect(unsafe_code, reason = "only libc gives the thread's processor time")]
#![allow(
    clippy::unwrap_used,
    reason = "a measurement stops at what it did not expect"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use dataplane::{Nanos, PortId, Switch};
use stf::Command;

/// The number of pairs of runs; odd, so that one of the measured ratios is the median.
const RUNS: usize = 21;
/// Target length of a run: much longer than the clock's resolution, and short compared with other
/// activity of the machine.
const RUN: Duration = Duration::from_millis(4);
/// Virtual time between two packets, long enough that no queue fills.
const GAP_NS: Nanos = 1_000;

/// A program with its entries, and the packets of its test.
struct Subject {
    switch: Switch,
    packets: Vec<(PortId, Vec<u8>)>,
    now: Nanos,
}

impl Subject {
    /// `None` if the test fails or has no packets.
    fn new(program: &Path, commands: &[(usize, Command)]) -> Option<Self> {
        let program = stf::load(program, &p4_compiler::Options::default()).ok()?;
        let (outcome, switch) = stf::run_and_keep(program, commands, None);
        let packets: Vec<(PortId, Vec<u8>)> = commands
            .iter()
            .filter_map(|(_, command)| match command {
                Command::Packet(port, frame) => Some((PortId(*port), frame.clone())),
                _ => None,
            })
            .collect();
        let fits = outcome.failures.is_empty() && !packets.is_empty();
        // This time is later than the end of any `wait` in the test.
        let now = 3_600_000_000_000;
        fits.then_some(Self {
            switch,
            packets,
            now,
        })
    }

    /// Returns the seconds that the switch takes for `rounds` rounds of all packets.
    fn seconds(&mut self, rounds: usize) -> f64 {
        let start = processor_time();
        for _ in 0..rounds {
            for (port, frame) in &self.packets {
                self.now += GAP_NS;
                self.switch.handle_frame(self.now, *port, frame);
                while self.switch.poll_transmit(self.now).is_some() {}
                while self.switch.poll_packet_in().is_some() {}
                while self.switch.poll_digest().is_some() {}
            }
        }
        (processor_time() - start).as_secs_f64()
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a `timespec` that the call may write.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "no clock for the thread");
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

struct Measured {
    ours_ns: f64,
    theirs_ns: f64,
    /// Our time divided by p4c's.
    ratio: f64,
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn measure(ours: &mut Subject, theirs: &mut Subject) -> Measured {
    let once = ours.seconds(1).max(1e-6);
    let rounds = (RUN.as_secs_f64() / once).ceil() as usize;
    let n_packets = (rounds * ours.packets.len()) as f64;
    // Warm-up.
    let _ = (ours.seconds(rounds), theirs.seconds(rounds));
    let pairs: Vec<(f64, f64)> = (0..RUNS)
        .map(|_| (ours.seconds(rounds), theirs.seconds(rounds)))
        .collect();
    let ns = |seconds: f64| 1e9 * seconds / n_packets;
    Measured {
        ours_ns: median(pairs.iter().map(|(ours, _)| ns(*ours)).collect()),
        theirs_ns: median(pairs.iter().map(|(_, theirs)| ns(*theirs)).collect()),
        ratio: median(pairs.iter().map(|(ours, theirs)| ours / theirs).collect()),
    }
}

/// The names of the tests in a folder, in order.
fn tests(samples: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(samples).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "stf"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(samples), Some(p4c)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: speed SAMPLES P4C [NAME...]");
        std::process::exit(2);
    };
    let (samples, p4c) = (PathBuf::from(samples), PathBuf::from(p4c));
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = tests(&samples);
    }
    let mut all: Vec<Measured> = Vec::new();
    println!("    ours     p4c  ratio");
    for name in &names {
        let json = p4c.join(format!("{name}.json"));
        if !json.exists() {
            continue;
        }
        let text = std::fs::read_to_string(samples.join(format!("{name}.stf"))).unwrap();
        let Ok(commands) = stf::parse(&text) else {
            continue;
        };
        let ours = Subject::new(&samples.join(format!("{name}.p4")), &commands);
        let theirs = Subject::new(&json, &commands);
        let (Some(mut ours), Some(mut theirs)) = (ours, theirs) else {
            println!("                       {name}: does not pass, or has no packets");
            continue;
        };
        let found = measure(&mut ours, &mut theirs);
        let Measured {
            ours_ns,
            theirs_ns,
            ratio,
        } = found;
        println!("{ours_ns:8.0}{theirs_ns:8.0}{ratio:7.2}  {name}");
        all.push(found);
    }
    if all.is_empty() {
        println!("nothing to measure");
        return;
    }
    let ratios: Vec<f64> = all.iter().map(|found| found.ratio).collect();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    println!(
        "{} programs; ns a packet, medians: ours {:.0}, p4c's {:.0}; ours by p4c's: median {:.2}, \
         greatest {worst:.2}",
        all.len(),
        median(all.iter().map(|found| found.ours_ns).collect()),
        median(all.iter().map(|found| found.theirs_ns).collect()),
        median(ratios),
    );
}
