//! How many files the process may have open: too few are said at the start, not by whatever is the
//! first to find none.

use crate::error::SwitchError;
use crate::options::Options;

/// What the switch itself takes, and some controllers: wakers, listeners, signals, the control threads'
/// polls, each a descriptor or two.
const BASE: u64 = 48;

/// What a port takes of each worker: two sockets, the interface's lock, an XDP program's map and link.
const PER_PORT: u64 = 5;

/// Looks at the limit (proc(5)); where it is not to be found, what fails says so itself.
pub(crate) fn expect_enough(options: &Options) -> Result<(), SwitchError> {
    let n_ports = options.ports.len() as u64 * u64::from(options.workers);
    let expected = BASE + PER_PORT * n_ports;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match soft_limit(&limits) {
        Some(found) if found < expected => Err(SwitchError::Descriptors { found, expected }),
        _ => Ok(()),
    }
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    // "unlimited" is none either.
    line.split_whitespace().next()?.parse().ok()
}
