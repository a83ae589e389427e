//! Checks the limit of open files at the start; otherwise some later operation would fail.

use crate::error::SwitchError;
use crate::options::Options;

/// Descriptors that belong to no port: wakers, listeners, signals, polls of the control threads, and connections of a
/// few controllers. Each of these has one or two.
const BASE: u64 = 48;

/// Descriptors of a port in each worker: two sockets, the interface's lock, an XDP program's map and link.
const PER_PORT: u64 = 5;

/// Duplicates of a port's descriptors during a takeover, in each worker: two sockets, and the interface's lock.
const PER_PORT_TAKEOVER: u64 = 3;

/// Checks the limit (proc(5)). If the limit cannot be read, the check passes; an operation that fails later because of
/// the limit reports that itself.
pub(crate) fn expect_enough(options: &Options) -> Result<(), SwitchError> {
    let n_ports = options.ports.len() as u64 * u64::from(options.workers);
    let takeover = options.takeover_socket.as_ref();
    let per_port = PER_PORT + takeover.map_or(0, |_| PER_PORT_TAKEOVER);
    let expected = BASE + per_port * n_ports;
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
    // The word "unlimited" does not parse as a number; the result is then `None`, which means no limit.
    line.split_whitespace().next()?.parse().ok()
}
