//! The command `reprise-signer`.

use std::process::ExitCode;

use clap::Parser;
use reprise_signer::args::{Command, KeyCommand, Options};
use reprise_signer::key::{Key, VARIABLE};

mod run;

fn main() -> ExitCode {
    let options = Options::try_parse().unwrap_or_else(|error| command_line::exit(&error));
    // Core dumps must be forbidden before a key is in memory.
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
