//! The reasons why the switch cannot start or cannot continue, each with a message.

use std::io;
use std::path::PathBuf;

use dataplane::ControlError;
use packet_io::PortError;
use stream_socket::Address;

use crate::event_loop::LoopError;
use crate::options::UsageError;

/// The error that ends the switch, printed after "error: ".
#[derive(Debug, thiserror::Error)]
pub(crate) enum SwitchError {
    #[error("{0} (see --help)")]
    Usage(#[from] UsageError),
    #[error("cannot {operation} {path}: {source}", path = path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("program {path}: expected a name that ends in .p4 or .json", path = path.display())]
    ProgramKind { path: PathBuf },
    /// The diagnostics are printed after the message.
    #[error("program {path}: {n_errors} error{plural}", path = path.display(), plural = if *n_errors == 1 { "" } else { "s" })]
    Compile {
        path: PathBuf,
        n_errors: usize,
        rendered: String,
    },
    #[error("program {path}: {message}", path = path.display())]
    Program { path: PathBuf, message: String },
    #[error("P4Info {path}: {message}", path = path.display())]
    P4Info { path: PathBuf, message: String },
    #[error("entries {path}: {message}", path = path.display())]
    Entries {
        path: PathBuf,
        message: String,
        /// One line for each failed update.
        details: String,
    },
    #[error("state file {path}: {message}", path = path.display())]
    State { path: PathBuf, message: String },
    #[error("cannot take over at {path}: {message}", path = path.display())]
    Takeover { path: PathBuf, message: String },
    #[error("--generate {text}: {message}")]
    Generator { text: String, message: String },
    /// The [`Parts`](crate::Parts) of this switch do not fit: a name is taken, or an extern exceeds a limit.
    #[error("this switch cannot be built: {0}")]
    Parts(#[from] ControlError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Tls(#[from] tls::FileError),
    #[error("cannot serve {service} on {address}: {source}{hint}")]
    Listen {
        service: &'static str,
        address: Address,
        source: io::Error,
        /// Advice to the user; begins with a semicolon.
        hint: String,
    },
    #[error(
        "the process may have {found} files open, expected {expected} at least for so many ports and workers: raise the limit (\"ulimit -n 1024\")"
    )]
    Descriptors { found: u64, expected: u64 },
    #[error("port {port}: its interface was removed (--exit-on-port-loss)")]
    PortLost { port: String },
    #[error("cannot {operation}: {source}")]
    System {
        operation: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Loop(#[from] LoopError),
}

impl SwitchError {
    pub(crate) fn details(&self) -> Option<String> {
        match self {
            SwitchError::Compile { rendered, .. } => Some(format!("\n{rendered}")),
            SwitchError::Entries { details, .. } => {
                Some(details.clone()).filter(|it| !it.is_empty())
            }
            _ => None,
        }
    }

    /// Whether another process holds a port or an address that the switch needs; that process may be about to exit.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            SwitchError::Port(error) => is_held_port(error),
            SwitchError::Listen { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            _ => false,
        }
    }

    /// Returns 2 for a wrong command line, as is usual; 3 after the loss of a port, for a supervisor that then waits
    /// for the interface; 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            SwitchError::Usage(_) => 2,
            SwitchError::PortLost { .. } => 3,
            _ => 1,
        }
    }
}

pub(crate) fn is_held_port(error: &PortError) -> bool {
    match error {
        PortError::InUse { .. } => true,
        PortError::Socket { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
        _ => false,
    }
}
