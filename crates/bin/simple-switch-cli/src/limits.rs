//! Every limit of the command line, with its unit and reason. The protocol's limits are `bmv2_thrift::limits`.

use std::time::Duration;

/// Seconds to wait for a TCP or Unix connection.
pub const CONNECT_S: u64 = 10;

/// Seconds to wait for progress of a read or write: a large program takes a while to load.
pub const ANSWER_S: u64 = 120;

pub const CHUNK_BYTES: usize = 64 * 1024;

/// The numbers of a multicast node's ports and LAGs must be less than this: they are sent as a text with one character
/// for each number. A switch has 512 ports.
pub const MAP_BITS_MAX: usize = 65_536;

/// Width of the lines in which `help` lists names, as in BMv2's command line.
pub const COLUMNS: usize = 80;

/// How often the handler of SIGINT tries to lock the output before it gives up. A reader that has stopped reading may
/// block the output for ever.
pub const INTERRUPT_TRIES: u32 = 20;

/// Pause between two attempts of the handler of SIGINT to lock the output.
pub const INTERRUPT_RETRY: Duration = Duration::from_millis(10);
