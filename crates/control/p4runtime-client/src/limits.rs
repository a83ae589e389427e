//! Every limit of the client, with its unit and its reason.

/// Maximum number of updates in one `WriteRequest`. They take some 100 KiB, far below gRPC's default limit of 4 MiB,
/// and are few enough that a progress bar moves.
pub const WRITE_BATCH_UPDATES: usize = 2_000;

/// Maximum number of updates in one atomic `WriteRequest`, of which the switch executes all updates or none. It is the
/// limit of Reprise's switch.
pub const WHOLE_BATCH_UPDATES: usize = 8_192;

/// Maximum number of entities in one `ReadRequest`, so that this request, too, is far below gRPC's limit.
pub const READ_BATCH_ENTITIES: usize = 4_000;

/// Maximum number of bytes in one message from the switch. One message holds a whole pipeline (BMv2 JSON and P4Info).
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Milliseconds that the switch may take to drain. Its queues are bounded, so a switch that takes longer is no longer
/// running.
pub const DRAIN_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds to wait for a connection, and for an answer to arbitration.
pub const CONNECT_TIMEOUT_MS: u64 = 3_000;

/// Milliseconds that one read or write may take. Thousands of entries take a while. If a call takes longer than this,
/// the switch does not run, or the connection is dead.
pub const CALL_TIMEOUT_MS: u64 = 30_000;

/// Milliseconds that the switch may take to load a program, since the switch may compile the program to machine code.
pub const PIPELINE_TIMEOUT_MS: u64 = 120_000;

/// Milliseconds that a client waits to become primary before it reports that it waits. Most commands are primary for
/// less time.
pub const QUIET_WAIT_MS: u64 = 1_000;

/// Longest pause, in milliseconds, before the next bid after another controller won.
pub const BID_PAUSE_MS: u64 = 50;

/// How many times a client bids to become primary while other controllers bid too.
pub const ARBITRATION_TRIES: usize = 5;
