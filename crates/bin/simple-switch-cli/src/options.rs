//! The options of the command line.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

/// The packet replication engine of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pre {
    /// There is none.
    #[value(name = "None")]
    None,
    /// The nodes of a multicast group have ports.
    #[value(name = "SimplePre")]
    Simple,
    /// The nodes of a multicast group have ports and link aggregation groups (LAGs).
    #[value(name = "SimplePreLAG")]
    SimpleLag,
}

/// Commands to a switch that serves BMv2's Thrift protocol: reprise-switch, simple_switch.
///
/// Commands are read from standard input; `help` lists them.
#[derive(Debug, Parser)]
#[command(
    version,
    infer_long_args = true,
    after_help = "\
Examples:
  simple_switch_CLI < commands.txt
  echo 'table_dump ipv4_lpm' | simple_switch_CLI --thrift-port 9091

Exit code: 0, as BMv2's, even if commands were refused (standard error has their lines); 1 if there is no switch \
or the connection to it was lost; 2 for a wrong option."
)]
struct Arguments {
    /// Port of the switch's Thrift server
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    thrift_port: u16,
    /// Address of the switch's Thrift server; unix:PATH is its Unix socket, which has no port
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    thrift_ip: String,
    /// The program as BMv2 JSON; if left out, the program is read from the switch
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replication engine of the switch. simple_switch_CLI always uses SimplePreLAG, and ignores this option; the
    /// default of runtime_CLI is SimplePre
    #[arg(long, value_name = "PRE")]
    pre: Option<Pre>,
}

#[derive(Debug)]
pub struct Options {
    /// `runtime_CLI` or `simple_switch_CLI`, by the name of the executable.
    pub program: &'static str,
    pub host: String,
    pub port: u16,
    pub json: Option<PathBuf>,
    pub pre: Pre,
}

impl Options {
    /// Parses the command line; exits the process if it is invalid.
    pub fn from_command_line() -> Self {
        let started_as = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&started_as).file_name().unwrap_or_default();
        let arguments = Arguments::try_parse();
        let arguments = arguments.unwrap_or_else(|error| command_line::exit(&error));
        let (program, pre) = match name.to_str() {
            Some("runtime_CLI") => ("runtime_CLI", arguments.pre.unwrap_or(Pre::Simple)),
            _ => ("simple_switch_CLI", Pre::SimpleLag),
        };
        Self {
            program,
            host: arguments.thrift_ip,
            port: arguments.thrift_port,
            json: arguments.json,
            pre,
        }
    }
}
