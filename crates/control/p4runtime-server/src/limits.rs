//! Every limit of the server, with its unit and its reason.

/// The largest request. P4Runtime allows device configs of any size; the BMv2 JSON of a large program has some
/// megabytes.
pub const REQUEST_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The most bytes of all requests that are being received or carried out: enough for two of the largest requests.
pub const REQUESTS_BYTES_MAX: usize = 2 * REQUEST_BYTES_MAX;

/// The longest pause within a request, and the longest time from the start of a stream to its first message, in
/// seconds.
pub const REQUEST_STALL_S: u64 = 30;

/// The largest message of a `StreamChannel`: several times the size of a packet-out with the longest frame.
pub const STREAM_MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// The most bytes of answers to Reads that clients have not taken yet, for all clients together. The whole state of a
/// switch of 65,536 viewers takes some 10 MiB.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The most bytes of answers to Reads that the client of one connection has not taken yet.
pub const ANSWERS_BYTES_PER_CONNECTION_MAX: usize = 64 * 1024 * 1024;

/// If the client takes nothing of a Read's answer for this many seconds, the server discards the answer. After three
/// times as long the server closes the connection.
pub const ANSWER_STALL_S: u64 = 10;

/// For how many milliseconds a Read blocks writes. After this time the Read lets waiting writes in before it handles
/// the next filter (an entity in its request). Reading the whole state of a switch of 65,536 viewers takes less than
/// half of this time.
pub const READ_ALONE_MS: u64 = 1_000;

/// The most bytes that the errors of a batch may take. As base64 they take up to 6,400 bytes of the response headers,
/// of which gRPC clients accept 8 KiB by default ("gRPC Metadata Maximum Size").
pub const ERROR_DETAILS_BYTES_MAX: usize = 4_800;

/// The most bytes of the error message that is sent together with the errors of a batch. Percent-encoding may triple
/// this length to 1,200 bytes.
pub const ERROR_MESSAGE_BYTES_MAX: usize = 400;

/// The approximate size of one `ReadResponse`. gRPC clients accept 4 MiB by default; the largest single entity (a
/// multicast group of 8,192 replicas) has about 100 KiB.
pub const READ_RESPONSE_BYTES: usize = 64 * 1024;

/// The bytes that each Read reserves from beginning to end: the transport takes three answers in advance, and one
/// answer waits.
pub const ANSWER_RESERVE_BYTES: usize = 512 * 1024;

/// The longest string that stands for a number of the data plane (`@p4runtime_translation`). The strings of PINS have
/// some tens of bytes.
pub const NAME_BYTES_MAX: usize = 1_024;

/// How deeply the types of a register's cell or of a digest may nest. Only a type that refers to itself nests deeper.
pub const DATA_TYPE_DEPTH_MAX: usize = 32;

/// The most open `StreamChannel` streams, and therefore live controllers: enough for a few controllers and their
/// backups.
pub const STREAMS_MAX: usize = 256;

/// The most role names that may be used from the start of the process on. The server keeps the highest election id of
/// each role.
pub const ROLES_MAX: usize = 256;

/// The most digests in one list, even if a controller configures a larger list size. They take some hundred kilobytes.
pub const DIGESTS_PER_LIST_MAX: usize = 4_096;

/// The most digests with one id that were sent and not yet acknowledged. Above this limit, the oldest may be sent
/// again.
pub const DIGESTS_UNACKNOWLEDGED_MAX: usize = 65_536;

/// The most digests in the queue from the switch's thread.
pub const DIGEST_QUEUE_MAX: usize = 16_384;

/// The most digest lists that wait for a controller that reads slowly.
pub const DIGEST_LISTS_QUEUE_MAX: usize = 256;

/// The most packet-ins that wait for a controller that reads slowly. Further packet-ins are counted as dropped. The
/// data plane's own queue holds as many.
pub const PACKET_IN_QUEUE_MAX: usize = 4_096;

/// How many answers and errors a controller may leave unread before the server stops reading its stream. An error
/// contains the refused packet-out, so it may be long.
pub const UNREAD_MESSAGES_MAX: usize = 64;

/// The most packet-outs that wait for the switch. While so many wait, the server stops reading each stream that sends
/// another packet-out.
pub const PACKET_OUTS_WAITING_MAX: usize = 1_024;

/// The most open gRPC connections: one for every live controller, and as many for clients that have called nothing yet.
/// They use half of the thousand file descriptors that a process may usually have; the other half is left for the
/// switch.
pub const CONNECTIONS_MAX: usize = 2 * STREAMS_MAX;

/// For how many seconds a connection may be silent before its first call.
pub const FIRST_CALL_S: u64 = 30;

/// How many seconds a TLS handshake may take: enough for some round trips with a busy server.
pub const HANDSHAKE_S: u64 = 10;

/// For how many milliseconds the server keeps a refused connection open so that the client can read the reason.
pub const REFUSED_LINGER_MS: u64 = 1_000;
/// How many bytes the server reads from a refused client before it closes the connection: the client's first calls.
pub const REFUSED_LINGER_BYTES: u64 = 64 * 1024;

/// The interval in seconds at which the server looks for renewed certificate files.
pub const TLS_FILES_INTERVAL_S: u64 = 1;

/// The most concurrent calls and streams of one connection.
pub const CALLS_PER_CONNECTION_MAX: u32 = 1_024;

/// If the message rate is limited, a connection may send, after a pause, the messages of this many seconds at once. A
/// controller that sets up a switch sends in bursts.
pub const RATE_BURST_S: u64 = 1;

/// How many milliseconds before the client's deadline a drain gives up, so that the answer still arrives in time.
pub const DRAIN_ANSWER_MARGIN_MS: u64 = 20;

/// After this many seconds of silence on a connection the server sends an HTTP/2 ping, because a primary whose machine
/// has died must not stay primary.
pub const KEEPALIVE_INTERVAL_S: u64 = 10;

/// How many seconds the client may take to answer the ping.
pub const KEEPALIVE_TIMEOUT_S: u64 = 10;

/// The most idle timeouts in the queue from the switch's thread, and the most that wait for a controller that reads
/// slowly. All entries of a large table may become idle together.
pub(crate) const IDLE_TIMEOUT_QUEUE_MAX: usize = 65_536;
