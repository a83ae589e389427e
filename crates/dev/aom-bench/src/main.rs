//! `reprise-aom-bench`: the capacity and the delay of authenticated ordered multicast. The lab's study `neobft` runs
//! it; `docs/aom.md` has the figures.

mod frames;
mod load;
mod passes;
mod signatures;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures a sequencer from outside, and its signer without a network. Each command prints one JSON document.
#[derive(Debug, Parser)]
#[command(name = "reprise-aom-bench", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send requests at a rate, take every copy, time those of the first receiver
    Load(load::Load),
    /// What a request costs inside the switch, engine by engine
    Passes(passes::Passes),
    /// Signatures a second: with nonces of a full pool, and with a fresh one for each
    Signatures(signatures::Signatures),
}

fn main() -> ExitCode {
    let document = match Options::parse().command {
        Command::Load(load) => load.run().map_err(|error| error.to_string()),
        Command::Passes(passes) => Ok(passes.run()),
        Command::Signatures(signatures) => signatures.run().map_err(|error| error.to_string()),
    };
    let mut out = std::io::stdout().lock();
    let printed = document.and_then(|document| {
        writeln!(out, "{document}").map_err(|error| format!("standard output: {error}"))
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error cannot be written, there is nowhere to report it.
            let _ = writeln!(std::io::stderr(), "reprise-aom-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
