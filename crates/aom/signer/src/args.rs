//! The command line of `reprise-signer`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::limits::{POOL_NONCES, THREADS_MAX};

const EXAMPLES: &str = "\
Examples:
  Make a key, and print what the configuration service needs of it:
    reprise-signer key new signer.key
    reprise-signer key public signer.key

  Sign what the switch sends to veth7:
    reprise-signer run -i afxdp:veth7 --key signer.key

SIGTERM or SIGINT ends the signer; before it ends, it signs the last packet of each chain. docs/aom-signer.md lists
its guarantees.";

/// The coprocessor of authenticated ordered multicast with signatures (AOM-PK): on a port of the switch that
/// runs p4/aom_pk.p4, it links each stamped packet to the one before it, and signs it or a later one
#[derive(Debug, Parser)]
#[command(name = "reprise-signer", version, after_help = EXAMPLES)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Link and sign, until SIGTERM
    Run(RunOptions),
    /// Make a key, or print its public half
    #[command(subcommand)]
    Key(KeyCommand),
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Write a new key to a new file that only its owner can read
    New {
        /// The file to create
        file: PathBuf,
    },
    /// Print the public key: 33 bytes in hexadecimal
    Public {
        /// The key's file; without it the key is taken from the environment
        file: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub struct RunOptions {
    /// The interface at the other end of the switch's port: NAME or afpacket:NAME, or afxdp:NAME
    #[arg(short = 'i', long = "interface", value_name = "INTERFACE")]
    pub interface: String,
    /// The key's file, of mode 0600; without it the key is taken from the environment
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Nonces that are kept ready
    #[arg(long, value_name = "N", default_value_t = POOL_NONCES, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub pool: u32,
    /// Threads that make nonces; with 0 no nonces are made after those of --fill
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=i64::from(THREADS_MAX)))]
    pub threads: u32,
    /// Nonces that are made before the first packet is taken, no more than --pool [default: 1024, or all that --pool has
    /// room for]
    #[arg(long, value_name = "N")]
    pub fill: Option<u32>,
    /// Keep no nonces: make each for its signature, which takes many times as long. For machines that are copied or
    /// restored while the signer runs: with the same nonces the copies would give the key away
    #[arg(long, conflicts_with_all = ["pool", "threads", "fill"])]
    pub fresh_nonces: bool,
    /// Poll for packets all the time instead of sleeping. This uses up a processor, and saves a few microseconds
    #[arg(long)]
    pub spin: bool,
    /// At the end, print the counters as JSON
    #[arg(long)]
    pub json: bool,
}
