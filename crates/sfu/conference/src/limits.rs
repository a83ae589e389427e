//! Every limit of the control plane, with its unit and its reason.
//!
//! Sizes of tables, registers and counters are not here: they are read from the program's P4Info.

/// Viewers in one group. The multicast group of a full group (one replica per viewer, about ten
/// bytes each) fits gRPC's default message limit of 4 MiB many times over, and one packet's copies
/// fit an egress queue.
pub const GROUP_VIEWERS_MAX: usize = 4_096;

/// A switch's ports are numbered 1..=509: 0 is the port of a recirculated packet, 510 the CPU port,
/// 511 the port that means "drop" (v1model, 9 bits).
pub const PORT_MAX: u16 = 509;

/// The clone session with the output port of the recirculation program's copies.
pub const CLONE_SESSION: u32 = 100;

/// UDP port of a stream if none is given: the default port of RTP (RFC 3551, section 8).
pub const DEFAULT_UDP_PORT: u16 = 5004;

/// Default seconds to wait until no other controller is primary. The largest `apply` takes less.
pub const PRIMARY_WAIT_S: u64 = 60;

/// How many times at most the state is read again to find two equal readings, while another controller writes.
pub const STEADY_TRIES: usize = 10;

/// The most YAML parser events in one file. A file with 65,536 viewers and 65,535 groups, all with every key, has some
/// 1,400,000 events.
pub const FILE_EVENTS_MAX: usize = 4_000_000;

/// Milliseconds to wait for the ARP reply of an unknown host, and between two requests.
pub const NEIGHBOUR_TIMEOUT_MS: u64 = 2_000;
/// ARP requests before giving up.
pub const NEIGHBOUR_TRIES: usize = 3;
/// Milliseconds to wait for other hosts that claim an address, after one host has answered.
pub const NEIGHBOUR_SETTLE_MS: u64 = 500;
/// Milliseconds to wait for the ARP reply of a known host. Such a host gets two unicast requests
/// before any broadcast.
pub const NEIGHBOUR_POLL_MS: u64 = 1_000;
/// Hosts per batch of ARP requests. It is so small that the answers fit the switch's queue to the controller (4,096).
pub const NEIGHBOUR_BATCH: usize = 1_000;
/// Milliseconds between two reads of the ARP senders that the program recorded.
pub const HEARD_INTERVAL_MS: u64 = 1_000;
