//! Commands that another program has: `reprise` lists them, and runs the program.

use std::ffi::OsString;

use clap::Subcommand;

/// Conferences that people join by themselves.
#[derive(Subcommand, Debug)]
pub enum Service {
    /// Run a conference service, until SIGTERM or Ctrl-C.
    #[command(disable_help_flag = true)]
    Serve(Words),
    /// Join a conference with programs of this machine that speak plain RTP.
    #[command(disable_help_flag = true)]
    Join(Words),
    /// Let a conference service take nobody new; everything else goes on.
    #[command(disable_help_flag = true)]
    Drain(Words),
    /// Save all records of a conference service while it runs.
    #[command(disable_help_flag = true)]
    Backup(Words),
    /// Write a backup into the store of a conference service that is stopped.
    #[command(disable_help_flag = true)]
    Restore(Words),
}

/// What follows the command. Only the other program knows what it means.
#[derive(clap::Args, Debug)]
pub struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}
