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
    /// Record every track of a conference, until Ctrl-C or the conference's end.
    #[command(disable_help_flag = true)]
    Record(Words),
    /// Put load on a conference: participants who join, send and receive, and measure what they get.
    #[command(disable_help_flag = true)]
    Load(Words),
}

/// What follows the command. Only the other program knows what it means.
#[derive(clap::Args, Debug)]
pub struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}
