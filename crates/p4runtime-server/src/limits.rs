//! Every limit of the server: a name, a unit, a reason. A number exists in this place only.

/// Bytes of a request at most. P4Runtime asks for room for any device config; the BMv2 JSON of a
/// large program is some megabytes.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes of requests that are being sent, or carried out, together: two of the largest.
pub const REQUESTS_BYTES_MAX: usize = 2 * REQUEST_BYTES_MAX;

/// How long nothing may come of a request that has begun and is not whole, or of a stream before its first
/// message. Seconds.
pub const REQUEST_STALL_S: u64 = 30;

/// Bytes of a message of a `StreamChannel` at most: a packet-out of the longest frame, several times.
pub const STREAM_MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of answers to Reads that wait for whoever asked, together: the whole state of a switch of
/// 65,536 viewers takes some 10 MiB.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The same for one connection.
pub const ANSWERS_BYTES_PER_CONNECTION_MAX: usize = 64 * 1024 * 1024;

/// How long nothing may be taken of the answer to a Read before it is thrown away; after three times as
/// long the connection is cut. Seconds.
pub const ANSWER_STALL_S: u64 = 10;

/// How long a Read shuts writes out before it lets those in that wait, between two of its requests: milliseconds. The
/// whole state of a switch of 65,536 viewers is read within half of it.
pub const READ_ALONE_MS: u64 = 1_000;

/// Bytes of a batch's errors at most: as base64, in the headers of an answer, of which gRPC clients take
/// 8 KiB without complaint ("gRPC Metadata Maximum Size").
pub const ERROR_DETAILS_BYTES_MAX: usize = 4_800;

/// Bytes of the message beside them, of which a character may take three as percent-encoded.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 400;

/// Bytes of one `ReadResponse`, about. gRPC clients take 4 MiB unless told otherwise; the largest
/// single entity (a multicast group of 8,192 replicas) has about 100 KiB.
pub const READ_RESPONSE_BYTES: usize = 64 * 1024;

/// Bytes that each Read holds from its beginning to its end: the transport takes three answers ahead, and
/// one waits.
pub const ANSWER_RESERVE_BYTES: usize = 512 * 1024;

/// Bytes of a string that stands for a number of the data plane (`@p4runtime_translation`): PINS' are
/// some tens.
pub const NAME_BYTES_MAX: usize = 1_024;

/// Types within types of a register's cell or a digest: more is a type that refers to itself.
pub const DATA_TYPE_DEPTH_MAX: usize = 32;

/// Open `StreamChannel` streams, live controllers at most: a few controllers and their backups.
pub const STREAMS_MAX: usize = 256;

/// Names of roles, from the beginning on: each keeps its highest election id.
pub const ROLES_MAX: usize = 256;

/// Digests of one list at most, whatever its configuration: some hundred kilobytes.
pub const DIGESTS_PER_LIST_MAX: usize = 4_096;

/// Digests of a kind that were told and wait for their acknowledgement; beyond, the oldest may be told again.
pub const DIGESTS_UNACKNOWLEDGED_MAX: usize = 65_536;

/// Digests on the way from the switch's thread.
pub const DIGEST_QUEUE_MAX: usize = 16_384;

/// Lists of digests that wait for a controller that reads slowly.
pub const DIGEST_LISTS_QUEUE_MAX: usize = 256;

/// Packet-ins waiting for one controller that reads too slowly; further ones are counted as
/// dropped. As many as the data plane itself keeps.
pub const PACKET_IN_QUEUE_MAX: usize = 4_096;

/// Answers and errors that a controller may leave unread before no more requests are read of its stream:
/// an error has the packet-out in it.
pub const UNREAD_MESSAGES_MAX: usize = 64;

/// Packet-outs that wait for the switch; the stream that sends them is not read on meanwhile.
pub const PACKET_OUTS_WAITING_MAX: usize = 1_024;

/// Open gRPC connections: every live controller one, as many strangers, and half of a thousand
/// descriptors, the usual limit of a process, left for the switch.
pub const CONNECTIONS_MAX: usize = 2 * STREAMS_MAX;

/// Connections of a kind that are always let in, however few descriptors the process may have.
pub const CONNECTIONS_MIN: usize = 8;

/// How long a connection may be silent before it has called anything. Seconds.
pub const FIRST_CALL_S: u64 = 30;

/// How long the TLS handshake of a connection may take: some round trips, with a server that is busy. Seconds.
pub const HANDSHAKE_S: u64 = 10;

/// How long a client that was refused has time to read why, and how much of what it sends meanwhile is
/// read: its first calls. Milliseconds, bytes.
pub const REFUSED_LINGER_MS: u64 = 1_000;
/// See there.
pub const REFUSED_LINGER_BYTES: u64 = 64 * 1024;

/// Seconds between two looks at the files of certificates.
pub const TLS_FILES_INTERVAL_S: u64 = 1;

/// Calls and streams of one connection at once.
pub const CALLS_PER_CONNECTION_MAX: u32 = 1_024;

/// Seconds' worth of messages that a connection which was silent may send at once, where their rate is limited: a
/// controller that sets up a switch does so in bursts.
pub const RATE_BURST_S: u64 = 1;

/// How long until the next try to accept a connection after one that failed: without a descriptor
/// left the kernel would refuse at once, again and again. Milliseconds.
pub const ACCEPT_RETRY_MS: u64 = 100;

/// Seconds between two lines of the log on connections that were closed.
pub const CONNECTIONS_TOLD_S: u64 = 60;

/// How much earlier than the client's deadline a drain gives up, so that the answer still
/// arrives: milliseconds.
pub const DRAIN_ANSWER_MARGIN_MS: u64 = 20;

/// Silence on a connection after which the client is asked whether it is still there: a primary
/// whose machine has died must not stay primary. Seconds.
pub const KEEPALIVE_INTERVAL_S: u64 = 10;

/// How long the answer may take. Seconds.
pub const KEEPALIVE_TIMEOUT_S: u64 = 10;

/// Idle timeouts that wait for a controller that reads slowly, and on the way from the switch's thread:
/// the entries of a large table that become idle together.
pub(crate) const IDLE_TIMEOUT_QUEUE_MAX: usize = 65_536;
