//! `reprise-pipeline-bench`: the cost of a packet in each part of a pipeline, engine by engine and
//! optimisation by optimisation, in memory and without ports.

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

/// Maximum packets of the check.
const CHECKED_PACKETS: usize = 10_000;
/// Frames of the pipelines that forward, and of those that copy video.
const FRAME_BYTES: usize = 64;
const VIDEO_FRAME_BYTES: usize = 1_400;

/// What a packet costs in a pipeline, without ports: engine by engine, optimisation by optimisation.
///
/// Every variant must give the same frames as the interpreter, or the run ends with an error.
/// Variants take turns; figures are medians over the rounds.
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
    /// Each pipeline, whole and by its parts, with each choice of optimisations: pipeline.csv
    Parts(PartsArgs),
    /// Cost against entries, groups, viewers and packet size: growth.csv
    Growth(Shared),
}

#[derive(Args)]
struct PartsArgs {
    /// The pipelines
    #[arg(long, num_args = 1.., value_enum, value_name = "NAME", default_values_t = Pipeline::ALL)]
    pipelines: Vec<Pipeline>,
    /// Flows that the packets belong to; an SFU has one, its presenter's
    #[arg(long, num_args = 1.., value_name = "N", default_values_t = [1, 10_000])]
    flows: Vec<usize>,
    /// Only the variants of these roles, as `naive`, `all` or `step 1 action-specialisation`, and
    /// the interpreter
    #[arg(long, num_args = 1.., value_name = "ROLE")]
    roles: Vec<String>,
    /// Length of the frames without FCS, in place of 64, and 1400 for an SFU
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
    /// A few seconds in all: that it runs, and that all variants agree; its figures say nothing
    #[arg(long)]
    quick: bool,
    /// Rounds; an odd number, so that there is a middle one
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
    /// How long each variant runs in a round
    #[arg(long, value_name = "MS", default_value_t = 8)]
    round_ms: u32,
    /// Run on this processor; the parts are looked at from another
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Write CSV and JSON into this folder
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print JSON in place of a table
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

/// A workload, the size that grows in it, and the variants.
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
            "time stamp counter: {:.1} MHz, against the clock",
            hz / 1e6
        ));
    }
    match &shared.output {
        Some(folder) => output::write(folder, name, &results, shared.cpu),
        None => Ok(()),
    }
}

/// Lines on standard output; the files are written even if standard output is closed.
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
            // Standard error may be closed too.
            let _ = writeln!(stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
