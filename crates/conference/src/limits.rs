//! Every limit of the control plane, with its unit and its reason.
//!
//! Sizes of tables, registers and counters are not here: they are read from the program's P4Info.

/// Viewers in one group. A full group's multicast group (one replica a viewer, about ten bytes
/// each) still fits one message of gRPC's default 4 MiB many times over, and one packet's copies
/// fit an egress queue.
pub const GROUP_VIEWERS_MAX: usize = 4_096;

/// A switch's ports are numbered 1..=509: 0 is the port of a recirculated packet, 510 the CPU port,
/// 511 the port that means "drop" (v1model, 9 bits).
pub const PORT_MAX: u16 = 509;

/// The clone session with the output port of the recirculation program's copies.
pub const CLONE_SESSION: u32 = 100;

/// UDP port of a stream where none is given: RTP's, RFC 3551 section 8.
pub const DEFAULT_UDP_PORT: u16 = 5004;

/// Updates in one `WriteRequest`: some 100 KiB, below gRPC's default limit of 4 MiB by far, and
/// short enough that a progress bar moves.
pub const WRITE_BATCH_UPDATES: usize = 2_000;

/// Cells asked for in one `ReadRequest`, for the same reason.
pub const READ_BATCH_ENTITIES: usize = 4_000;

/// Bytes of one message from the switch: a whole pipeline (BMv2 JSON and P4Info) comes in one.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Milliseconds that the switch may take to drain: its queues are bounded, so anything longer
/// means that it does not run.
pub const DRAIN_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds to wait for a connection, and for an answer to arbitration.
pub const CONNECT_TIMEOUT_MS: u64 = 3_000;

/// Milliseconds that one read or write may take: thousands of entries take some, so anything longer
/// means that the switch does not run, or that the connection is dead.
pub const CALL_TIMEOUT_MS: u64 = 30_000;

/// Milliseconds that the switch may take to load a program; it may compile it to machine code.
pub const PIPELINE_TIMEOUT_MS: u64 = 120_000;

/// Default seconds to wait for other controllers to end before giving up. The largest `apply` takes
/// less.
pub const TURN_WAIT_S: u64 = 60;

/// Milliseconds to wait for the role without a message: most commands take less.
pub const QUIET_WAIT_MS: u64 = 1_000;

/// Readings to compare before giving up, while another controller writes without a pause.
pub const STEADY_TRIES: usize = 10;

/// Longest pause, in milliseconds, before bidding again after another was first.
pub const TURN_PAUSE_MS: u64 = 50;

/// Parser events in a file: 65,536 viewers and 65,535 groups with every key are some 1,400,000.
pub const FILE_EVENTS_MAX: usize = 4_000_000;

/// Tries to become primary when other controllers bid at the same time.
pub const ARBITRATION_TRIES: usize = 5;

/// Milliseconds to wait for the ARP reply of a host that is looked for, and how often to ask.
pub const NEIGHBOUR_TIMEOUT_MS: u64 = 2_000;
/// ARP requests before giving up.
pub const NEIGHBOUR_TRIES: usize = 3;
/// Milliseconds in which other hosts can claim an address after one has answered.
pub const NEIGHBOUR_SETTLE_MS: u64 = 500;
/// Milliseconds to wait for the ARP reply of a host that is known. It is asked twice before anybody
/// else is.
pub const NEIGHBOUR_POLL_MS: u64 = 1_000;
/// Hosts asked for at a time: the answers fit the switch's queue to the controller (4,096).
pub const NEIGHBOUR_BATCH: usize = 1_000;
/// Milliseconds between two readings of the ARP senders.
pub const HEARD_INTERVAL_MS: u64 = 1_000;
