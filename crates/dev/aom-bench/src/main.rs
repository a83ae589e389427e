//! `reprise-aom-bench` measures the capacity and the delay of authenticated ordered multicast. The lab's study `neobft`
//! runs this program, and `docs/aom.md` contains the results.

mod frames;
mod load;
mod passes;
mod signatures;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures a sequencer over its ports, and its signer without a network. Each command prints one JSON document.
#[derive(Debug, Parser)]
#[command(name = "reprise-aom-bench", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send requests at a given rate, receive every copy, and measure the delay of the first receiver's copies
    Load(load::Load),
    /// Measure the cost of a request inside the switch, for each engine
    Passes(passes::Passes),
    /// Measure signatures per second: with nonces from a full pool, and with a new nonce for each signature
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
