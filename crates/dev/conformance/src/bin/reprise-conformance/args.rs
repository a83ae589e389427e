//! The command line.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use p4_compiler::Options;

use crate::sample::Kind;

/// Run p4c's own samples: what it accepts compiles, what it refuses is refused, packet tests pass.
/// Or every program of any folder, with random packets.
#[derive(Parser, Debug)]
#[command(
    name = "reprise-conformance",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  reprise-conformance --p4c ../p4c --only stf --filter arith\n  reprise-conformance --tree ../tutorials"
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub corpus: Corpus,
    /// One of these checks only.
    #[arg(long, requires = "p4c")]
    pub only: Option<Kind>,
    /// Only samples and programs whose path contains this.
    #[arg(long, value_name = "SUBSTRING")]
    pub filter: Option<String>,
    /// Processes; left out: as many as there are processors.
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
    /// How long one sample or program may take, in seconds.
    #[arg(long = "time-limit", value_name = "SECONDS", default_value_t = 60)]
    pub time_limit_s: u64,
    /// Compile with this level of optimisation: 1, or 0 for the JSON as the program is written.
    #[arg(short = 'O', value_name = "LEVEL", default_value = "1", value_parser = Options::parse_level, action = clap::ArgAction::Set)]
    pub optimise: bool,
    /// Address space of one process, in MiB.
    #[arg(long = "memory-limit", value_name = "MIB", default_value_t = 8_192, value_parser = clap::value_parser!(u64).range(256..))]
    pub memory_limit_mib: u64,
    /// A document with a table of known failures, in place of docs/conformance.md.
    #[arg(long, value_name = "FILE", requires = "p4c")]
    pub known: Option<PathBuf>,
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Print JSON in place of text: one document.
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a packet test on the native engine, with every choice of optimisations.
    Stf {
        /// The P4_16 program, for v1model, or BMv2 JSON (.json).
        program: PathBuf,
        /// The test; docs/conformance.md has the format.
        test: PathBuf,
    },
    /// Compare the native engine with the interpreter on this repository's programs: packet tests, random
    /// packets, conferences.
    Engines(Engines),
    /// Give random input to the compiler and the JSON loader; what they should not do goes to target/fuzz.
    Fuzz(Fuzz),
    /// Judge samples that come on standard input.
    #[command(hide = true)]
    Worker,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Engines {
    /// Packets that the interpreter is given.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub packets: u64,
    /// Where the random numbers begin.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    // Together they take about as long as the interpreter.
    /// Choices of optimisations that each packet is compared with, in turn.
    #[arg(long, value_name = "N", default_value = "8")]
    pub choices: NonZero<usize>,
    // Compiling the choices and reading all state at the end cost as much as hundreds of packets.
    /// Packets of one case.
    #[arg(long, value_name = "N", default_value = "2000")]
    pub frames: NonZero<usize>,
    /// Cases at the same time; left out: as many as there are processors.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
    /// This case alone, with every choice, as a difference names it.
    #[arg(long, value_name = "N")]
    pub case: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub struct Fuzz {
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub minutes: u64,
    /// Where the random numbers begin.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The first case.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// This case alone, in this process.
    #[arg(long, value_name = "N")]
    pub case: Option<u64>,
    /// Print this case.
    #[arg(long, value_name = "N")]
    pub show: Option<u64>,
}

/// What is run.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Corpus {
    /// A checkout of p4lang/p4c: its samples are run.
    #[arg(long, value_name = "PATH")]
    pub p4c: Option<PathBuf>,
    /// Any folder: every P4_16 program below it is compiled, loaded with its P4Info, filled with
    /// entries over P4Runtime, and given random packets on every engine.
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
}

/// What belongs to a tree of programs.
#[derive(clap::Args, Debug)]
pub struct TreeArgs {
    /// A folder for `#include`, before those that the tree's own Makefiles and scripts name.
    #[arg(long = "include-path", value_name = "DIR", requires = "tree")]
    pub include_dirs: Vec<PathBuf>,
    /// A macro, besides those that the tree's own Makefiles and scripts define.
    #[arg(long = "define", value_name = "NAME[=VALUE]", requires = "tree")]
    pub defines: Vec<String>,
    /// Random packets for each program.
    #[arg(long, value_name = "N", default_value_t = 2_000, requires = "tree")]
    pub packets: usize,
    /// Where the random numbers begin.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tree")]
    pub seed: u64,
}
