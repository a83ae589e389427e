//! Commands that another program carries out: `reprise` lists them in its help, and runs that program for them.

use std::ffi::OsString;
use std::path::PathBuf;

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
    /// Show what stands between a publisher and a receiver: why somebody gets no picture.
    #[command(disable_help_flag = true)]
    Why(Words),
    /// Record every track of a conference, until Ctrl-C or the conference's end.
    #[command(disable_help_flag = true)]
    Record(Words),
    /// Put load on a conference: participants who join, send and receive, and measure what they get.
    #[command(disable_help_flag = true)]
    Load(Words),
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

/// The options of `doctor` with which the other program carries it out. A test of `manual` compares the two.
#[derive(clap::Args, Debug)]
pub struct OfAService {
    /// In place of this machine's interfaces, look at what is between this machine and the conference service at
    /// http://HOST:PORT or https://HOST:PORT. Exit code 1 if it cannot be used.
    #[arg(long, value_name = "URL", conflicts_with = "interfaces")]
    pub service: Option<String>,
    /// With --service: look at this token, too, and at the way of the media of its participant, who must have joined.
    #[arg(long, env = "REPRISE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// With --service: an authority in this PEM file has signed the service's certificate.
    #[arg(long, value_name = "FILE", requires = "service")]
    pub ca: Option<PathBuf>,
}
