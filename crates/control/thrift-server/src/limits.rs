//! Every limit of the server, with its unit and its reason. The limits of the protocol itself are in
//! `bmv2_thrift::limits`.

/// The largest call that needs no permit. Longer calls wait until there is room.
pub const SHORT_CALL_BYTES_MAX: usize = 64 * 1024;

/// How many longer calls and possibly long answers (all entries of a table, for example) may be in progress together.
pub const LONG_CALLS_MAX: usize = 2;

/// The largest number of open connections. Scripts open one connection per run, and forget to close some.
pub const CONNECTIONS_MAX: usize = 128;

/// How long a started call may take to arrive. The time counts only from when there is room for the call, because other
/// long calls may keep it waiting for room. Between calls a connection may be silent forever, since the client may be a
/// person. Seconds.
pub const ARRIVAL_S: u64 = 60;

/// The longest time for which a client may take nothing of an answer. Seconds.
pub const STALL_S: u64 = 30;

/// Silence after which the kernel probes whether the peer is alive. Seconds.
pub const KEEPALIVE_S: u64 = 60;

/// Bytes that one read or write moves.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Subscribers to notifications.
pub const SUBSCRIBERS_MAX: usize = 64;

/// Connections that have not yet identified themselves as subscribers.
pub const HANDSHAKES_MAX: usize = 64;

/// The shortest interval between two log lines about refused subscribers. Seconds.
pub const REFUSALS_LOG_INTERVAL_S: u64 = 60;

/// How long a subscriber's handshake may take. Seconds.
pub const HANDSHAKE_S: u64 = 10;

/// Messages that wait for one subscriber. If there are more, the subscriber misses the oldest.
pub const MESSAGES_WAITING_MAX: usize = 256;

/// Bytes of samples (digests) at which a message is sent, whatever buffer size a client has set. With
/// [`MESSAGES_WAITING_MAX`] this bounds the memory of all subscribers' messages.
pub const LEARN_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The largest number of samples of a learn list that wait for their acknowledgement. If there are more, the oldest may
/// be sent again.
pub const SAMPLES_UNACKNOWLEDGED_MAX: usize = 65_536;

/// Digests and idle entries in the queues from the switch.
pub const NOTICES_WAITING_MAX: usize = 4_096;

/// Nodes of the replication engine that Thrift clients create, as in BMv2.
pub const NODES_MAX: usize = 4_096;

/// Bits of BMv2's port maps and LAG maps.
pub const MAP_BITS_MAX: usize = 512;
