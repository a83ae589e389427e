//! Every limit of the server, with its unit and its reason. The limits of the protocol itself are in
//! `bmv2_thrift::limits`.

/// The largest call, in bytes, that needs no permit. A longer call waits until it gets one of [`LONG_CALLS_MAX`]
/// permits.
pub const SHORT_CALL_BYTES_MAX: usize = 64 * 1024;

/// How many calls longer than [`SHORT_CALL_BYTES_MAX`] and calls with a possibly long answer (all entries of a table,
/// for example) may be in progress together.
pub const LONG_CALLS_MAX: usize = 2;

/// The largest number of open connections. Scripts open one connection per run, and forget to close some.
pub const CONNECTIONS_MAX: usize = 128;

/// The longest time from a call's first byte to its last byte. For a long call, the time begins anew when the call gets
/// its permit, because other long calls may delay the permit. Between calls a connection may be silent forever, since
/// the client may be a person. Seconds.
pub const ARRIVAL_S: u64 = 60;

/// The longest time for which a client may read nothing of an answer. Seconds.
pub const STALL_S: u64 = 30;

/// Silence after which the kernel probes whether the peer is alive. Seconds.
pub const KEEPALIVE_S: u64 = 60;

/// The most bytes that the server writes to a connection at once, and the least space that it reserves for a read.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The most subscribers to notifications.
pub const SUBSCRIBERS_MAX: usize = 64;

/// The most connections that have not yet identified themselves as subscribers.
pub const HANDSHAKES_MAX: usize = 64;

/// The shortest interval between two log lines about refused subscribers. Seconds.
pub const REFUSALS_LOG_INTERVAL_S: u64 = 60;

/// How long a subscriber's handshake may take. Seconds.
pub const HANDSHAKE_S: u64 = 10;

/// The most messages that wait for one subscriber. If there are more, the subscriber misses the oldest.
pub const MESSAGES_WAITING_MAX: usize = 256;

/// Bytes of samples (digests) at which a message is sent, whatever buffer size a client has set. With
/// [`MESSAGES_WAITING_MAX`] this bounds the memory of all subscribers' messages.
pub const LEARN_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The largest number of samples of a learn list that wait for their acknowledgement. If there are more, the oldest may
/// be sent again.
pub const SAMPLES_UNACKNOWLEDGED_MAX: usize = 65_536;

/// The most digests, and the most idle entries, that wait for this server in the two queues from the switch.
pub const NOTICES_WAITING_MAX: usize = 4_096;

/// The most nodes of the replication engine that Thrift clients create, as in BMv2.
pub const NODES_MAX: usize = 4_096;

/// The most bits of BMv2's port maps and LAG maps.
pub const MAP_BITS_MAX: usize = 512;
