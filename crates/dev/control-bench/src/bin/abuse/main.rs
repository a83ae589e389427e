//! `reprise-control-abuse`: loads a switch's control plane with faulty, malicious and cancelling clients, all at once,
//! while frames pass. Meanwhile [`guard`] and [`racers`] check the required conditions.

mod cancelled;
mod connections;
mod guard;
mod messages;
mod racers;
mod thrift_calls;
mod tls;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use control_bench::grammar::Grammar;
use control_bench::process::{Kind, Looked, Place, Process};
use control_bench::program::Program;
use control_bench::traffic::{Traffic, Way};
use control_bench::{Result, namespace};
use fastrand::Rng;
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};

use racers::Race;

const PLACE: Place = Place::FIRST;
/// Number of controllers that compete to be primary.
const N_RACERS: u64 = 20;
/// Number of senders of random and mutated messages over P4Runtime. `N_THRIFT` is the number over Thrift.
const N_MUTATORS: u64 = 4;
const N_THRIFT: u64 = 2;
const FRAMES_PER_S: u64 = 1_000;
const N_FLOWS: u16 = 4;
/// The programs that replace each other.
const PROGRAMS: [&str; 2] = [
    "testdata/compiler/ok/every_entity.p4",
    "crates/dev/control-bench/programs/other.p4",
];
/// How many more descriptors may be open at the end than at the beginning.
const DESCRIPTORS_MORE_MAX: usize = 16;
/// How long the switch may take to close the connections of clients that have left.
const FORGET_MAX: Duration = Duration::from_secs(60);
/// How much more memory the switch may use in the last quarter of the run than in the second quarter (factor, bytes).
/// The margin covers fluctuations of the heap and the different sizes of the programs.
const MEMORY_MORE_MAX: (f64, u64) = (1.25, 64 << 20);

/// Abuses a switch's control plane while frames pass, in a network namespace of its own.
#[derive(Debug, Parser)]
#[command(name = "reprise-control-abuse", version)]
#[command(
    after_help = "The run ends with exit code 1 at the first violation: a crash, a good client's call that is not \
answered in time, a write by a controller that was not primary, an entry in a program's table that was written for \
another program's table, a client that is accepted over TLS without a good certificate, growing memory or \
descriptors, or a frame that is not accounted for."
)]
struct Options {
    /// How long the run takes, in minutes
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
    /// How long the run takes, in seconds instead of minutes
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Seed of the random messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Connections that are open during the calls
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    connections: usize,
}

struct Shared {
    programs: Vec<Program>,
    grammars: Vec<Grammar>,
    race: Race,
    ends: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
    /// The first violation.
    broken: Mutex<Option<String>>,
}

impl Shared {
    fn new() -> Result<Self> {
        let programs = PROGRAMS.map(Program::compile);
        let programs: Vec<Program> = programs.into_iter().collect::<Result<_>>()?;
        let grammars = programs.iter().map(|it| Grammar::new(it.p4info.clone()));
        Ok(Self {
            grammars: grammars.collect(),
            race: Race::new(&programs)?,
            programs,
            ends: AtomicBool::new(false),
            counts: Mutex::default(),
            broken: Mutex::default(),
        })
    }

    fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn count(&self, what: impl Into<String>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.into()).or_default() += 1;
    }

    /// Records a violation and ends the run.
    fn broken(&self, what: String) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert(what);
        self.ends.store(true, Ordering::Relaxed);
    }

    fn expect_whole(&self) -> Result<()> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.clone().map_or(Ok(()), |what| Err(what.into()))
    }
}

/// Returns a random number generator for one task.
fn rng(seed: u64, of: &str, n: u64) -> Rng {
    let of = of.bytes().fold(0, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    Rng::with_seed(
        seed.wrapping_mul(1_000_003)
            .wrapping_add(of)
            .wrapping_add(n),
    )
}

struct Memory(Vec<u64>);

impl Memory {
    /// Returns the median of a quarter of the run's readings, in bytes. The quarters are counted from 0.
    fn of_quarter(&self, quarter: usize) -> u64 {
        let quarter = self.0.chunks(self.0.len().div_ceil(4).max(1)).nth(quarter);
        let mut values = quarter.unwrap_or_default().to_vec();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    }

    fn expect_flat(&self) -> Result<()> {
        let (before, after) = (self.of_quarter(1), self.of_quarter(3));
        let (factor, more) = MEMORY_MORE_MAX;
        if after as f64 <= before as f64 * factor + more as f64 {
            Ok(())
        } else {
            Err(format!("memory grew from {before} to {after} bytes").into())
        }
    }
}

/// A switch under abuse, and its measurements.
struct Abused {
    process: Process,
    looked: Looked,
    n_descriptors: usize,
    memory: Memory,
}

impl Abused {
    fn start(kind: &Kind, place: Place) -> Result<Self> {
        let process = Process::start(kind, place)?;
        let looked = process.looked_at();
        Ok(Self {
            process,
            looked,
            n_descriptors: looked.n_descriptors(),
            memory: Memory(Vec::new()),
        })
    }

    fn summary(&self) -> String {
        let mib = |bytes: u64| bytes >> 20;
        let [one, two, three, four] = [0, 1, 2, 3].map(|n| mib(self.memory.of_quarter(n)));
        format!(
            "memory by quarters: {one} {two} {three} {four} MiB, at most {} MiB; descriptors {} to {}",
            mib(self.looked.memory_bytes_max()),
            self.n_descriptors,
            self.looked.n_descriptors()
        )
    }
}

async fn run(options: &Options) -> Result<String> {
    let time = options.seconds.map_or(
        Duration::from_secs(60 * options.minutes),
        Duration::from_secs,
    );
    let shared = Arc::new(Shared::new()?);
    let party = Arc::new(tls::Party::new()?);
    let kind = Kind::Reprise {
        state: None,
        options: Vec::new(),
    };
    let mut switches = [
        Abused::start(&kind, PLACE)?,
        Abused::start(&party.switch(), tls::PLACE)?,
    ];
    let abused = abuse(&shared, &party, &mut switches, options, time).await;
    let (text, passed) = abused.map_err(|error| {
        let said = switches.each_ref().map(|it| it.process.said());
        format!("{error}\nthe switches said: {}", said.join("\n"))
    })?;
    let [switch, over_tls] = switches;
    over_tls.process.stop()?;
    let totals = switch
        .process
        .stop()?
        .ok_or("the switch printed no totals")?;
    let accounts = expect_accounted(&totals, &passed)?;
    Ok(format!("{text}\n{accounts}"))
}

/// Starts all abusers, and a good client for each switch.
fn start_all(
    shared: &Arc<Shared>,
    party: &Arc<tls::Party>,
    options: &Options,
) -> (JoinSet<()>, [JoinHandle<String>; 2]) {
    let mut all = JoinSet::new();
    let (seed, n_connections) = (options.seed, options.connections);
    let shared = || Arc::clone(shared);
    for n in 1..=N_RACERS {
        all.spawn(racers::race(shared(), n, rng(seed, "racer", n)));
    }
    for n in 0..N_MUTATORS {
        all.spawn(messages::send(shared(), rng(seed, "messages", n)));
    }
    for n in 0..N_THRIFT {
        all.spawn(thrift_calls::send(shared(), rng(seed, "thrift", n)));
    }
    all.spawn(messages::keep_role(shared()));
    all.spawn(messages::oversize(shared(), rng(seed, "oversize", 0)));
    all.spawn(cancelled::sweep(shared(), rng(seed, "cancelled", 0)));
    let of_connections = rng(seed, "connections", 0);
    all.spawn(connections::open(shared(), n_connections, of_connections));
    all.spawn(tls::abuse(shared(), Arc::clone(party), rng(seed, "tls", 0)));
    let good = [
        tokio::spawn(guard::watch(shared())),
        tokio::spawn(tls::watch(shared(), Arc::clone(party))),
    ];
    (all, good)
}

async fn abuse(
    shared: &Arc<Shared>,
    party: &Arc<tls::Party>,
    switches: &mut [Abused; 2],
    options: &Options,
    time: Duration,
) -> Result<(String, control_bench::traffic::Passed)> {
    racers::set_first_pipeline(shared).await?;
    let began = Instant::now();
    let traffic = Traffic::start(FRAMES_PER_S, N_FLOWS, Way::SecondToFirst)?;
    let (mut all, good) = start_all(shared, party, options);
    wait(shared, switches, time).await;
    while let Some(ended) = all.join_next().await {
        ended?;
    }
    let mut watched = Vec::new();
    for good in good {
        watched.push(good.await?);
    }
    shared.expect_whole()?;
    for switch in &*switches {
        if options.seconds.is_none() {
            switch.memory.expect_flat()?;
        }
        forgotten(switch.looked, switch.n_descriptors).await?;
    }
    guard::drain().await?;
    let passed = tokio::task::spawn_blocking(move || traffic.end(began)).await??;
    let mut text = format!("seed {}, {} s\n", options.seed, time.as_secs());
    let counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
    for (what, n) in counts.iter() {
        text.push_str(&format!("{n:>10} {what}\n"));
    }
    let ends = watched.iter().zip(&*switches);
    let ends = ends.map(|(watched, switch)| format!("{watched}\n{}", switch.summary()));
    text.push_str(&ends.collect::<Vec<_>>().join("\n"));
    Ok((text, passed))
}

/// Waits until the time is over or a violation is found.
async fn wait(shared: &Shared, switches: &mut [Abused], time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time && !shared.is_over() {
        tokio::time::sleep(Duration::from_millis(200)).await;
        for switch in &mut *switches {
            if !switch.process.is_alive() {
                shared.broken("a switch has ended".to_owned());
            }
            switch.memory.0.push(switch.looked.memory_bytes());
        }
    }
    shared.ends.store(true, Ordering::Relaxed);
}

/// Waits until the switch has closed the descriptors of clients that have left.
async fn forgotten(looked: Looked, n_descriptors: usize) -> Result<()> {
    let (began, at_most) = (Instant::now(), n_descriptors + DESCRIPTORS_MORE_MAX);
    while looked.n_descriptors() > at_most {
        if began.elapsed() > FORGET_MAX {
            let n_open = looked.n_descriptors();
            return Err(
                format!("{n_open} descriptors are open, of {n_descriptors} at first").into(),
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Checks that every frame is counted somewhere.
fn expect_accounted(totals: &Value, passed: &control_bench::traffic::Passed) -> Result<String> {
    let count = |name: &str| totals["packets"][name].as_u64();
    let sum = |names: &[&str]| names.iter().map(|name| count(name)).sum::<Option<u64>>();
    let came = sum(&["received", "cloned", "replicated"]).ok_or("no totals")?;
    let went = sum(&["transmitted", "to_cpu", "dropped", "inside"]).ok_or("no totals")?;
    let text = format!(
        "frames: {} sent, {came} in (with copies), {went} out: {}",
        passed.n_sent, totals["packets"]
    );
    if came == went && came >= passed.n_sent {
        Ok(text)
    } else {
        Err(format!(
            "{text}; drops {}; ports {}",
            totals["drops"], totals["ports"]
        )
        .into())
    }
}

fn main() -> ExitCode {
    namespace::main("reprise-control-abuse", |options| {
        tokio::runtime::Runtime::new()?
            .block_on(async { Ok(format!("{}\nnothing was found", run(options).await?)) })
    })
}
