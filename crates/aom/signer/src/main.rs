//! The command `reprise-signer`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use reprise_signer::key::{Key, VARIABLE};

use run::RunOptions;

mod run;

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
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Link and sign, until SIGTERM
    Run(RunOptions),
    /// Make a key, or print its public half
    #[command(subcommand)]
    Key(KeyCommand),
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
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

fn main() -> ExitCode {
    let options = Options::try_parse().unwrap_or_else(|error| command_line::exit(&error));
    // Must happen before a key is in memory.
    if let Err(error) = secret_memory::no_core_dumps() {
        eprintln!("reprise-signer: core dumps cannot be forbidden: {error}");
        return ExitCode::FAILURE;
    }
    let result = match options.command {
        Command::Run(options) => run::run(&options).map_err(|error| error.to_string()),
        Command::Key(KeyCommand::New { file }) => Key::random()
            .write_new(&file)
            .map_err(|error| error.to_string()),
        Command::Key(KeyCommand::Public { file }) => {
            let key = Key::find(file.as_deref(), std::env::var(VARIABLE).ok());
            key.map(|key| println!("{}", key.public_hex()))
                .map_err(|error| error.to_string())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reprise-signer: {}", printable::line(&error));
            ExitCode::FAILURE
        }
    }
}
