//! Raises the limit of files, sockets included, that a process may have open. The limit is often 1,024, and a process
//! may raise its own.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Number of files that this process may have open in addition to the sockets.
const OTHERS: u64 = 64;

/// Raises the limit so that this process can open `n_sockets` sockets.
///
/// # Errors
/// The system allows fewer.
pub fn allow(n_sockets: u64) -> Result<(), Failure> {
    let needed = n_sockets + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|it| it >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        Failure::new(format!(
            "{n_sockets} sockets need {needed} open files, and the system allows {}: {error}; \
             raise the hard limit (`ulimit -Hn`), or take fewer participants",
            limit.current.unwrap_or(0)
        ))
    })
}

/// Raises the limit to the maximum that the system allows.
pub fn allow_most() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If this fails, the process goes on with the lower limit.
    let _ = setrlimit(Resource::Nofile, raised);
}
