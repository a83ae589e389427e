//! `--takeover`: a new process replaces a running switch without losing a packet.
//!
//! The old process serves a Unix socket (`--takeover-socket`). The new process gets the old one's sockets as
//! descriptors, so frames that come while neither process receives wait in the kernel's rings and buffers.
//!
//! | step | who | if either process is killed after it |
//! |---|---|---|
//! | 1. [`Message::Hello`]: format, version, ports. The old one refuses another format, user or list of ports. | new | the old one is the switch |
//! | 2. From now on control calls that write wait. [`Message::Offer`]: contents of the state file, sockets of ports and listeners. | old | the old one is the switch, calls go on |
//! | 3. The new one restores the contents and compiles the program. [`Message::Prepared`]. | new | the same |
//! | 4. The old one stops between two packets, with its switch empty. [`Message::State`]: positions in the rings, cells of registers and counters. | old | the old one forwards again |
//! | 5. [`Message::Taken`]. | new | the new one is the switch |
//! | 6. The new one forwards. The old one closes the state file and ends; the new one opens the file. | both | the new one is the switch; control calls that write wait for the file |
//!
//! Step 5 is the commit. The old process reads the message, or it shuts its end of the connection and then checks once
//! more whether the message has come. If the message has not come by then, the new process can no longer send it
//! ([`wire`]). So there is no moment at which both processes forward. Each step has a deadline; if it passes, the old
//! process goes on as the switch.

mod new;
mod old;
mod wire;

use std::path::{Path, PathBuf};

use packet_io::PortState;
use serde::{Deserialize, Serialize};
use state_store::Contents;

use crate::event_loop::PacketState;
use crate::options::Options;

pub(crate) use new::TakingOver;
pub(crate) use old::{Serving, Switch, TakeoverSocket};

/// The messages between the two processes.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Hello(Hello),
    Offer(Box<Offer>),
    Prepared,
    /// What packets have changed, for each worker.
    State(Vec<PacketState>),
    Taken,
    Refused(String),
}

/// Describes the new process. The old process refuses a switch that differs from its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Hello {
    version: String,
    process: u32,
    switch: Description,
}

/// What two processes must have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    /// The ports as the command line gives them, in the order of the command line.
    ports: Vec<String>,
    workers: u16,
    state_file: PathBuf,
}

impl Description {
    fn of(options: &Options) -> Description {
        let state_file = options.state.clone().unwrap_or_default();
        Description {
            ports: options.ports.iter().map(ToString::to_string).collect(),
            workers: options.workers,
            state_file: state_file.canonicalize().unwrap_or(state_file),
        }
    }

    /// The difference that forbids a takeover, if there is one.
    fn difference(&self, new: &Description) -> Option<String> {
        let differ = |what: &str, ours: &str, theirs: &str| {
            Some(format!(
                "expected the running switch's {what} ({ours}), found {theirs}: give --takeover beside the options of the running switch"
            ))
        };
        if self.ports != new.ports {
            return differ("ports", &self.ports.join(" "), &new.ports.join(" "));
        }
        if self.workers != new.workers {
            let (ours, theirs) = (self.workers.to_string(), new.workers.to_string());
            return differ("--workers", &ours, &theirs);
        }
        if self.state_file != new.state_file {
            let shown = |path: &Path| path.display().to_string();
            return differ("--state", &shown(&self.state_file), &shown(&new.state_file));
        }
        None
    }
}

/// What the new process needs to prepare itself. The descriptors come in this order: first those of the ports, worker
/// by worker; then those of the listeners.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    process: u32,
    contents: Contents,
    workers: Vec<Vec<OfferedPort>>,
    listeners: Vec<OfferedListener>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfferedPort {
    id: u16,
    n_descriptors: usize,
    state: PortState,
}

/// A listening socket, with one descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfferedListener {
    /// The name of the service for which the socket listens.
    service: String,
    /// The socket's address, as [`stream_socket::Address`] prints it.
    address: String,
}

/// The name of the takeover socket among the listeners.
const TAKEOVER_SERVICE: &str = "takeover";

#[cfg(test)]
mod tests;
