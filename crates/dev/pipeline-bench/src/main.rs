//! `reprise-pipeline-bench`: measures the cost of a packet in each part of a pipeline, for each engine and for each
//! optimisation, in memory and without ports.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic if the output is closed, and hours of measuring are lost"
)]

mod clock;
mod frames;
mod growth;
mod measure;
mod output;
mod probe;
mod variant;
mod workload;

use std::io::{Write as _, stderr, stdout};
use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use measure::{Contest, Effort};
use variant::Variant;
use workload::{Pipeline, Workload};

/// Maximum number of packets in the check that all variants (engines with a choice of optimisations) send the same
/// frames.
const CHECKED_PACKETS: usize = 10_000;
/// The default length of frames in pipelines that forward. `VIDEO_FRAME_BYTES` is the default in pipelines that copy
/// video.
const FRAME_BYTES: usize = 64;
const VIDEO_FRAME_BYTES: usize = 1_400;

/// Measure the cost of a packet in a pipeline without ports, for each engine and each optimisation.
///
/// Every variant must send the same frames as the interpreter. Otherwise the run ends with an error. Each round
/// measures every variant. The results are medians over the rounds.
#[derive(Parser)]
#[command(after_help = "Examples:
  reprise-pipeline-bench parts --cpu 1 --output results/pipeline
  reprise-pipeline-bench parts --pipelines l2l3-acl --flows 1 10000
  reprise-pipeline-bench growth --cpu 1")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure each pipeline and its parts with each choice of optimisations, for pipeline.csv
    Parts(PartsArgs),
    /// Measure how the cost grows with entries, groups, viewers and packet size, for growth.csv
    Growth(Shared),
}

#[derive(Args)]
struct PartsArgs {
    /// The pipelines to measure
    #[arg(long, num_args = 1.., value_enum, value_name = "NAME", default_values_t = Pipeline::ALL)]
    pipelines: Vec<Pipeline>,
    /// Numbers of flows. An SFU has one flow, which comes from its presenter
    #[arg(long, num_args = 1.., value_name = "N", default_values_t = [1, 10_000])]
    flows: Vec<usize>,
    /// Measure only the interpreter and the variants with these roles, for example `naive`, `all` or `step 1
    /// action-specialisation`
    #[arg(long, num_args = 1.., value_name = "ROLE")]
    roles: Vec<String>,
    /// Length of the frames without FCS. The default is 64, and 1400 for an SFU
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(60..=9000))]
    frame_bytes: Option<u16>,
    /// Viewers of an SFU
    #[arg(long, value_name = "N", default_value_t = 64)]
    viewers: usize,
    #[command(flatten)]
    shared: Shared,
}

#[derive(Args)]
struct Shared {
    /// Check in a few seconds that the program runs and that all variants agree. The results are not meaningful
    #[arg(long)]
    quick: bool,
    /// Number of rounds, which is odd so that there is a middle round
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
    /// How long each variant runs in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 8)]
    round_ms: u32,
    /// Run on this processor. The thread that samples the parts runs on another processor
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Write CSV and JSON to this folder
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Shared {
    fn effort(&self) -> Effort {
        if self.quick {
            Effort {
                rounds: 1,
                round_ms: 0.2,
                checked_packets: 64,
            }
        } else {
            Effort {
                rounds: self.rounds.max(1),
                round_ms: f64::from(self.round_ms.max(1)),
                checked_packets: CHECKED_PACKETS,
            }
        }
    }
}

impl PartsArgs {
    fn variants(&self) -> Result<Vec<Variant>, String> {
        let all = Variant::all();
        if self.roles.is_empty() {
            return Ok(all);
        }
        let unknown = self
            .roles
            .iter()
            .find(|role| !all.iter().any(|variant| variant.is(role)));
        if let Some(role) = unknown {
            let known: Vec<&str> = all
                .iter()
                .flat_map(|it| &it.roles)
                .map(|it| &**it)
                .collect();
            let known = known.join(", ");
            return Err(format!("--roles: expected one of {known}; found {role:?}"));
        }
        let takes_part = |variant: &Variant| {
            variant.is("reference") || self.roles.iter().any(|role| variant.is(role))
        };
        Ok(all.into_iter().filter(takes_part).collect())
    }

    fn workloads(&self) -> Vec<Workload> {
        let mut workloads = Vec::new();
        for &pipeline in &self.pipelines {
            let flows = if pipeline.is_sfu() {
                &[1][..]
            } else {
                &self.flows
            };
            let n_flows = if self.shared.quick { 1 } else { flows.len() };
            for &flows in flows.iter().take(n_flows) {
                let usual = if pipeline.is_sfu() {
                    VIDEO_FRAME_BYTES
                } else {
                    FRAME_BYTES
                };
                workloads.push(Workload {
                    pipeline,
                    flows,
                    frame_bytes: self.frame_bytes.map_or(usual, usize::from),
                    entries: pipeline.default_entries(),
                    groups: 1,
                    viewers: self.viewers,
                });
            }
        }
        workloads
    }
}

/// A workload, the name and the value of the size that grows in it, and the variants to measure.
struct Task {
    workload: Workload,
    growth: Option<(&'static str, usize)>,
    variants: Vec<Variant>,
}

fn run(tasks: &[Task], shared: &Shared, name: &str) -> Result<(), String> {
    clock::start();
    let mut lookers = clock::processors();
    if let Some(cpu) = shared.cpu {
        clock::pin([cpu])?;
        lookers.retain(|looker| *looker != cpu);
    }
    let effort = shared.effort();
    let bar = ProgressBar::new((tasks.len() * (effort.rounds + 1)) as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} rounds, {eta} left {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut results = Vec::new();
    for task in tasks {
        let name = task.workload.pipeline.name();
        bar.set_message(name);
        let with_parts = task.growth.is_none();
        let contest = Contest::new(
            &task.workload,
            &task.variants,
            effort,
            with_parts.then(|| lookers.clone()),
        );
        let mut contest = contest.map_err(|error| format!("{name}: {error}"))?;
        bar.inc(1);
        contest.run(|| bar.inc(1));
        let result = output::Result {
            workload: task.workload,
            growth: task.growth,
            measured: contest.finish(),
            rounds: effort.rounds,
        };
        if !shared.json {
            bar.suspend(|| say(&result.table()));
        }
        results.push(result);
    }
    bar.finish_and_clear();
    if shared.json {
        say(&format!("{:#}", output::json(&results, shared.cpu)));
    } else if let Some(hz) = clock::tsc_hz() {
        say(&format!(
            "time stamp counter: {:.1} MHz, measured with the monotonic clock",
            hz / 1e6
        ));
    }
    match &shared.output {
        Some(folder) => output::write(folder, name, &results, shared.cpu),
        None => Ok(()),
    }
}

/// Prints lines on standard output. Errors are ignored, so the files are written even if standard output is closed.
fn say(lines: &str) {
    let _ = writeln!(stdout(), "{lines}");
}

fn run_parts(args: &PartsArgs) -> Result<(), String> {
    let variants = args.variants()?;
    let workloads = args.workloads().into_iter();
    let tasks: Vec<Task> = workloads
        .map(|workload| Task {
            workload,
            growth: None,
            variants: variants.clone(),
        })
        .collect();
    run(&tasks, &args.shared, "pipeline")
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Parts(args) => run_parts(&args),
        Command::Growth(shared) => run(&growth::tasks(shared.quick), &shared, "growth"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, so errors are ignored.
            let _ = writeln!(stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
