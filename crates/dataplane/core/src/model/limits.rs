//! The limits of the data plane, each with its unit and reason.

/// Maximum length of a frame in bytes: the longest IPv4 packet, with room for link headers.
pub const FRAME_BYTES_MAX: usize = 65_536 + 256;

/// How many packets may wait for ingress: enough for several bursts of a receive ring (1,024 frames each).
pub const INGRESS_QUEUE_PACKETS: usize = 4_096;

/// How many packets may wait to run ingress again. They run before new packets. If each replica of the largest group
/// makes a clone that recirculates, the queue has room for all of these clones.
pub const RECIRCULATION_QUEUE_PACKETS: usize = 8_192;

/// How many packets may wait in one queue of an output port. An empty queue has room for all replicas of the largest
/// group. A port has one queue per priority.
pub const EGRESS_QUEUE_PACKETS: usize = 8_192;

/// Queues of an output port: `priority` is `bit<3>` in v1model.
pub const EGRESS_QUEUES_PER_PORT: usize = 8;

/// How many copies of one packet an extern gets in one call, to change their payloads: enough to make up for the setup
/// of a fast cipher, and few enough that the results (80 KB at 1,200 bytes each) stay in the cache.
pub const PAYLOAD_BATCH_MAX: usize = 64;

/// Arguments of a payload extern: a key, a sequence number, and two more.
pub const PAYLOAD_ARGS_MAX: usize = 4;

/// Bytes that an extern may add to a payload: a header and an authentication tag.
pub const PAYLOAD_GROWTH_BYTES_MAX: usize = 256;

/// How often one packet may recirculate. `sfu_recirculation.p4` recirculates a packet once per viewer, and a group has
/// up to 4,096 viewers: a packet may serve sixteen such groups one after the other.
pub const RECIRCULATIONS_PER_PACKET_MAX: u32 = 65_536;

/// How often one packet may be resubmitted: as often as it may recirculate, since a program may use either to build a
/// loop whose rounds it counts in metadata.
pub const RESUBMITS_PER_PACKET_MAX: u32 = RECIRCULATIONS_PER_PACKET_MAX;

/// Maximum length of a chain of packets in which each is a clone of the previous packet. The limit equals that of
/// recirculations, because a program may build a loop in which each pass makes the clone that runs the next pass.
pub const CLONE_GENERATIONS_MAX: u32 = 65_536;

/// A call of `transmit` ends after `max_frames` + this many scheduler steps (`Run::step`), even if fewer frames have
/// left. The steps are enough to drop all frames of a receive batch (64 frames). A program whose packets recirculate up
/// to the limit must not keep the caller from its other work.
pub const STEPS_IN_VAIN_MAX: usize = 64;

/// Packet generators of a switch: enough for several flows, each with its own rate.
pub const GENERATORS_MAX: usize = 16;

/// Frames that a late generator makes at once: as many as a receive batch has, so that the switch treats the generator
/// like a port.
pub const GENERATOR_BURST_FRAMES: usize = 64;

/// Total bytes of a generator's frames: some ten thousand short frames. As base64 they still fit the 4 MiB that gRPC
/// clients accept in a message by default.
pub const GENERATOR_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Minimum bytes of a generator's frame: an Ethernet header, as at a port.
pub const GENERATOR_FRAME_BYTES_MIN: usize = 14;

/// Maximum bytes of a generator's name, which is a label of the metrics.
pub const GENERATOR_NAME_BYTES_MAX: usize = 64;

/// Parser states entered for one packet: more than any header stack needs. Without a limit, a cycle of states that
/// extract nothing would never end. At the limit the parser stops with the error `ParserTimeout`.
pub const PARSER_STEPS_MAX: u32 = 4_096;

/// Rounds of the loops in one run of an action: about one for each byte of the longest frame, more than a program
/// needs. A loop that does not end must not stop the switch.
pub const LOOP_ROUNDS_MAX: u32 = 65_536;

/// Replicas of a multicast group: twice the viewers of the largest conference group (4,096).
pub const REPLICAS_PER_GROUP_MAX: usize = 8_192;

/// Multicast groups: `mcast_grp` is `bit<16>`, and 0 means none.
pub const MULTICAST_GROUP_ID_MAX: u32 = 65_535;

/// Clone session ids: BMv2 keeps 15 bits of the argument and uses the 16th to record that a clone was made.
pub const CLONE_SESSION_ID_MAX: u32 = 32_767;

/// Port numbers of v1model: `bit<9>`, and 511 is the drop port.
pub const PORT_ID_MAX: u16 = 510;

/// The drop port of v1model.
pub const DROP_PORT: u16 = 511;

/// The default port of packet-in and packet-out: the highest number.
pub const CPU_PORT: u16 = 510;

/// Digests waiting for the control plane; further ones are counted as lost.
pub const DIGEST_QUEUE_MAX: usize = 4_096;

/// Idle timeouts waiting for the control plane; further ones are counted as lost.
pub const IDLE_TIMEOUT_QUEUE_MAX: usize = 65_536;

/// Minimum time between two searches of a table for idle entries, in nanoseconds for each slot of the table. Looking at
/// an entry takes about 2 ns, so searches take at most a few percent of the time, and an idle entry of the largest
/// tables is reported up to a tenth of a second late. Without this bound, each of a million timeouts could cause a
/// search.
pub const IDLE_SWEEP_NS_PER_ENTRY: u64 = 100;

/// Packet-ins waiting for the control plane; further ones are dropped and counted.
pub const PACKET_IN_QUEUE_MAX: usize = 4_096;

// The compiler, too, enforces these bounds on what a program declares.
pub use bmv2_json::limits::{ARRAY_CELLS_MAX, EXPRESSION_DEPTH_MAX, FIELD_BITS_MAX};

/// Number of shards (small maps) that make up a hash map of entries. At 65,536 entries, a shard that grows moves 256
/// entries, which takes tens of microseconds; moving all of them would delay packets for milliseconds.
pub const MAP_SHARDS: usize = 256;

/// Egress passes between two look-aheads, if the program sets priorities. A look-ahead runs the ingress pass of a frame
/// early (`traffic_manager/look_ahead.rs`). The number is so low that all priorities of a receive batch (64 frames) are
/// known before the copies of its first four packets have left, and so high that copies leave in between.
pub const COPIES_PER_LOOK: u32 = 4;

/// How many egress passes must run for each look-ahead whose packet is dropped. Such look-aheads thus cost at most five
/// percent of the passes.
pub const COPIES_PER_LOOK_IN_VAIN: u32 = 20;

/// How many look-aheads whose packets are dropped may run in a row, after enough egress passes without such a
/// look-ahead.
pub const LOOKS_IN_VAIN_BURST: u32 = 8;

/// How many frames to keep available for look-aheads, if the caller delivers frames after every sixteen copies.
pub const LOOK_AHEAD_FRAMES: usize = 4;

/// How many streams (groups of packets in latency statistics, such as the replicas of one multicast group) have a
/// latency histogram of their own. A histogram takes 30 KB.
pub const LATENCY_STREAMS_MAX: usize = 256;

/// The upper end of the latency histogram, in nanoseconds: a minute.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Header vectors and frame buffers that the interpreter keeps for reuse: a burst of a receive ring (1,024 frames). The
/// interpreter frees further ones.
pub const SPARE_PACKETS_MAX: usize = 1_024;

/// Maximum total bytes of the header vectors kept for reuse. This limit matters if a program's vectors are large.
pub const SPARE_VECTOR_BYTES_MAX: usize = 256 << 20;

/// Largest buffer kept for reuse: a jumbo frame. Longer frames are rare, and a thousand of them would take 64 MiB.
pub const SPARE_BUFFER_BYTES_MAX: usize = 10_240;
