//! Every limit of the command line: a name, a unit, a reason. A number exists in this place only; those of the
//! protocol are `bmv2_thrift::limits`.

use std::time::Duration;

/// Seconds until a switch must have taken a connection.
pub const CONNECT_S: u64 = 10;

/// Seconds in which something must come of an answer, or be taken of a call: a large program takes some to load.
pub const ANSWER_S: u64 = 120;

/// Bytes that are read at once.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Ports and LAGs of a node are a text of one character each; a switch knows 512.
pub const MAP_BITS_MAX: usize = 65_536;

/// Characters of a line of names, as BMv2's command line lists them.
pub const COLUMNS: usize = 80;

/// How often an interrupt tries to have the output for itself, which a reader that has stopped may hold up for ever.
pub const INTERRUPT_TRIES: u32 = 20;

/// How long it waits in between.
pub const INTERRUPT_RETRY: Duration = Duration::from_millis(10);
