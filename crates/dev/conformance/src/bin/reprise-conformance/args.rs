//! The command line.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use p4_compiler::Options;

use crate::sample::Kind;

/// Run p4c's own samples, or every program of any folder. Samples that p4c accepts must compile, samples that p4c
/// refuses must be refused, and packet tests must pass. The programs of a folder get random packets.
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
    /// Run only this check.
    #[arg(long, requires = "p4c")]
    pub only: Option<Kind>,
    /// Run only samples and programs whose path contains this text.
    #[arg(long, value_name = "SUBSTRING")]
    pub filter: Option<String>,
    /// Number of processes. The default is the number of processors.
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
    /// Maximum time for one sample or program, in seconds.
    #[arg(long = "time-limit", value_name = "SECONDS", default_value_t = 60)]
    pub time_limit_s: u64,
    /// Compile with this level of optimisation: 1, or 0 for JSON without optimisation.
    #[arg(short = 'O', value_name = "LEVEL", default_value = "1", value_parser = Options::parse_level, action = clap::ArgAction::Set)]
    pub optimise: bool,
    /// Maximum address space of one process, in MiB.
    #[arg(long = "memory-limit", value_name = "MIB", default_value_t = 8_192, value_parser = clap::value_parser!(u64).range(256..))]
    pub memory_limit_mib: u64,
    /// A document with a table of known failures, instead of docs/conformance.md.
    #[arg(long, value_name = "FILE", requires = "p4c")]
    pub known: Option<PathBuf>,
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Print one JSON document instead of text.
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a packet test on the native engine, with every choice of optimisations.
    Stf {
        /// The P4_16 program, for v1model, or BMv2 JSON (.json).
        program: PathBuf,
        /// The test. docs/conformance.md describes the format.
        test: PathBuf,
    },
    /// Compare the native engine with the interpreter on this repository's programs, with packet tests, random packets
    /// and conferences.
    Engines(Engines),
    /// Give random input to the compiler and the JSON loader. Inputs that cause a fault are written to target/fuzz.
    Fuzz(Fuzz),
    /// Judge samples that arrive on standard input.
    #[command(hide = true)]
    Worker,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Engines {
    /// Number of packets for the interpreter.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub packets: u64,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    // Eight native engines together need about as much time as the interpreter.
    /// Number of choices of optimisations with which each packet is compared. The choices change each round.
    #[arg(long, value_name = "N", default_value = "8")]
    pub choices: NonZero<usize>,
    // Compiling the choices and reading all state at the end take as much time as hundreds of packets.
    /// Number of packets in one case.
    #[arg(long, value_name = "N", default_value = "2000")]
    pub frames: NonZero<usize>,
    /// Number of cases that run at the same time. The default is the number of processors.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
    /// Run only the case with this number, with every choice. The report of a difference contains the number.
    #[arg(long, value_name = "N")]
    pub case: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub struct Fuzz {
    /// How long the run takes, in minutes.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub minutes: u64,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The number of the first case.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Run only the case with this number, in this process.
    #[arg(long, value_name = "N")]
    pub case: Option<u64>,
    /// Print the case with this number.
    #[arg(long, value_name = "N")]
    pub show: Option<u64>,
}

/// The options that choose the programs to run.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Corpus {
    /// A checkout of p4lang/p4c, whose samples are run.
    #[arg(long, value_name = "PATH")]
    pub p4c: Option<PathBuf>,
    /// Any folder. Every P4_16 program below the folder is compiled and loaded with its P4Info. The tables are filled
    /// over P4Runtime, and every engine gets random packets.
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
}

/// The options for a tree of programs.
#[derive(clap::Args, Debug)]
pub struct TreeArgs {
    /// A folder for `#include`, searched before the folders in the tree's own Makefiles and scripts.
    #[arg(long = "include-path", value_name = "DIR", requires = "tree")]
    pub include_dirs: Vec<PathBuf>,
    /// A macro, in addition to the macros in the tree's own Makefiles and scripts.
    #[arg(long = "define", value_name = "NAME[=VALUE]", requires = "tree")]
    pub defines: Vec<String>,
    /// Number of random packets for each program.
    #[arg(long, value_name = "N", default_value_t = 2_000, requires = "tree")]
    pub packets: usize,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tree")]
    pub seed: u64,
}
