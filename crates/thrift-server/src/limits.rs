//! Every limit of the server: a name, a unit, a reason. A number exists in this place only;
//! those of the protocol itself are `bmv2_thrift::limits`.

/// Bytes of a call that anybody may send at any time; longer ones wait until there is room for them.
pub const SHORT_CALL_BYTES_MAX: usize = 64 * 1024;

/// Calls beyond that, and answers that may become long (all entries of a table, say), at one time.
pub const LONG_CALLS_MAX: usize = 2;

/// Connections that are open: scripts open one a run, and forget to close some.
pub const CONNECTIONS_MAX: usize = 128;

/// Seconds in which a call that has begun must arrive whole, from when there is room for it: a long one may hold
/// others up. Between calls a connection may be silent for ever, since a person may sit at the other end.
pub const ARRIVAL_S: u64 = 60;

/// Seconds in which something must be taken of an answer.
pub const STALL_S: u64 = 30;

/// Seconds of silence after which the kernel asks whether there is another end still.
pub const KEEPALIVE_S: u64 = 60;

/// How long until the next try to accept a connection after one that failed, for want of descriptors mostly.
/// Milliseconds.
pub const ACCEPT_RETRY_MS: u64 = 100;

/// Bytes that are read, or written, at once.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Subscribers to notifications.
pub const SUBSCRIBERS_MAX: usize = 64;

/// Connections that have not said yet whether they are subscribers.
pub const HANDSHAKES_MAX: usize = 64;

/// Seconds between two lines of the log about subscribers that were turned away.
pub const TURNED_AWAY_TOLD_S: u64 = 60;

/// Seconds in which a subscriber must say what it is.
pub const HANDSHAKE_S: u64 = 10;

/// Messages that a subscriber may be behind; it misses older ones.
pub const MESSAGES_WAITING_MAX: usize = 256;

/// Bytes of samples in a message, from which on it is sent, however many a client wants together: with
/// [`MESSAGES_WAITING_MAX`] the memory of all subscribers' messages.
pub const LEARN_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Samples of a learn list that nobody has acknowledged; then the oldest may be told again.
pub const SAMPLES_UNACKNOWLEDGED_MAX: usize = 65_536;

/// Digests, and idle entries, that wait to be made messages of.
pub const NOTICES_WAITING_MAX: usize = 4_096;

/// Nodes of the replication engine that Thrift clients make, as BMv2's.
pub const NODES_MAX: usize = 4_096;

/// Ports of a node, and LAGs, as BMv2's maps have bits.
pub const MAP_BITS_MAX: usize = 512;
