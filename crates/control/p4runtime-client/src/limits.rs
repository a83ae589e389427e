//! Every limit of the client, with its unit and its reason.

/// Updates in one `WriteRequest`: some 100 KiB, far below gRPC's default limit of 4 MiB, and few
/// enough that a progress bar moves.
pub const WRITE_BATCH_UPDATES: usize = 2_000;

/// Entities in one `ReadRequest`, so that it, too, is far below gRPC's limit.
pub const READ_BATCH_ENTITIES: usize = 4_000;

/// Bytes of one message from the switch: one message holds a whole pipeline (BMv2 JSON and P4Info).
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Milliseconds that the switch may take to drain. Its queues are bounded, so if it takes longer, the switch is no
/// longer running.
pub const DRAIN_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds to wait for a connection, and for an answer to arbitration.
pub const CONNECT_TIMEOUT_MS: u64 = 3_000;

/// Milliseconds that one read or write may take. Thousands of entries take a while; after this time
/// the switch does not run, or the connection is dead.
pub const CALL_TIMEOUT_MS: u64 = 30_000;

/// Milliseconds that the switch may take to load a program; it may compile it to machine code.
pub const PIPELINE_TIMEOUT_MS: u64 = 120_000;

/// Milliseconds that a client waits to become primary before it reports that it waits. Most commands are primary for
/// less time.
pub const QUIET_WAIT_MS: u64 = 1_000;

/// Longest pause, in milliseconds, before the next bid after another controller won.
pub const BID_PAUSE_MS: u64 = 50;

/// How many times a client bids to become primary while other controllers bid too.
pub const ARBITRATION_TRIES: usize = 5;
