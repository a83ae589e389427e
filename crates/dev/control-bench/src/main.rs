//! `reprise-control-bench`: measures writes and reads of the control plane while packets pass. Every packet is
//! accounted for.

mod measure;
mod output;
mod writer;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use control_bench::process::Kind;
use control_bench::secure::{self, Secure, Shows};
use control_bench::{Result, namespace};

use measure::{Effort, Figures, Row};

/// Loads a switch's control plane while packets pass, in a network namespace of its own.
///
/// A table is filled over P4Runtime. The table is then written at a steady rate while clients read single entries, and
/// afterwards while many clients read the whole table. Finally entries are added over Thrift, one per call. Each round
/// of each row starts a new switch. The results are medians over the rounds.
#[derive(Debug, Parser)]
#[command(name = "reprise-control-bench", version)]
#[command(after_help = "Examples:
  reprise-control-bench                            # a million entries, three rounds; ten minutes
  reprise-control-bench --quick                    # only a check that the program runs
  reprise-control-bench --bmv2 $(command -v simple_switch_grpc) --entries 100000")]
struct Options {
    /// Check in a few seconds that the program runs. The results are not meaningful
    #[arg(long)]
    quick: bool,
    /// Entries that the table gets
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(4_000..=1_900_000))]
    entries: u32,
    /// Updates per batch
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(4..=1_000))]
    batch: u32,
    /// Updates per second of the steady load
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    writes_per_s: u32,
    /// Length of the steady load, and of the reads of the whole table, in seconds
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Concurrent read streams
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=400))]
    readers: u32,
    /// Frames per second
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    frames_per_s: u32,
    /// Entries that are added over Thrift
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    thrift: u32,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Leave out the rows with a state file
    #[arg(long)]
    no_state: bool,
    /// Leave out the rows with P4Runtime over TLS
    #[arg(long)]
    no_tls: bool,
    /// The folder for the state file, whose disk is measured
    #[arg(long, value_name = "DIR", default_value = "target")]
    state_in: PathBuf,
    /// A simple_switch_grpc for comparison
    #[arg(long, value_name = "FILE")]
    bmv2: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Options {
    fn effort(&self) -> Effort {
        let whole = Effort {
            n_entries: self.entries,
            batch: self.batch,
            writes_per_s: self.writes_per_s,
            seconds: self.seconds,
            n_readers: self.readers,
            frames_per_s: self.frames_per_s,
            n_thrift: self.thrift,
        };
        if self.quick {
            Effort {
                n_entries: 20_000,
                writes_per_s: whole.writes_per_s.min(5_000),
                seconds: 1,
                frames_per_s: 1_000,
                n_thrift: 200,
                ..whole
            }
        } else {
            whole
        }
    }

    fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    fn rows(&self, secure: &Secure) -> Result<Vec<Row>> {
        let file = format!("reprise-control-bench-{}.state", std::process::id());
        let row = |name, kind| Row {
            name,
            kind,
            tls: None,
        };
        let reprise = |state, options| Kind::Reprise { state, options };
        let mut rows = vec![row("reprise-switch", reprise(None, Vec::new()))];
        if !self.no_tls {
            rows.push(Row {
                name: "reprise-switch, mutual TLS",
                kind: reprise(None, secure.switch_options()),
                tls: Some(secure.client(Shows::Good, &secure::VERSIONS)?),
            });
        }
        if !self.no_state {
            let state = Some(self.state_in.join(file));
            rows.push(row("reprise-switch --state", reprise(state, Vec::new())));
        }
        if let Some(program) = &self.bmv2 {
            rows.push(row("simple_switch_grpc", Kind::Bmv2(program.clone())));
        }
        Ok(rows)
    }
}

fn run(options: &Options) -> Result<String> {
    let secure = Secure::new()?;
    let (effort, rows) = (options.effort(), options.rows(&secure)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut all: Vec<(&'static str, Vec<Figures>)> =
        rows.iter().map(|row| (row.name, Vec::new())).collect();
    for round in 1..=options.rounds() {
        for (row, (name, figures)) in rows.iter().zip(&mut all) {
            print(&format!("round {round}: {name}"));
            figures.push(runtime.block_on(measure::measure(row, &effort))?);
        }
    }
    Ok(if options.json {
        output::json(&effort, &all)
    } else {
        output::text(&effort, &all)
    })
}

/// Prints a message. There is no other place to report an error, so errors are ignored.
fn print(message: &str) {
    let _ = writeln!(std::io::stderr(), "reprise-control-bench: {message}");
}

fn main() -> ExitCode {
    namespace::main("reprise-control-bench", run)
}
