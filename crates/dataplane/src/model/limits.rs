//! Every limit of the data plane: a name, a unit, a reason. A number exists in this place only.

/// Bytes of a frame at most: the longest an IPv4 packet can be, with room for link headers.
pub const FRAME_BYTES_MAX: usize = 65_536 + 256;

/// Packets waiting for ingress. One burst of a receive ring (1,024 frames), several times.
pub const INGRESS_QUEUE_PACKETS: usize = 4_096;

/// Packets waiting to run ingress again. Each packet inside makes one at most, since recirculated
/// packets go before new ones; a clone of each replica of the largest group may stand here.
pub const RECIRCULATION_QUEUE_PACKETS: usize = 8_192;

/// Packets waiting in one queue of an output port, of which there is one a priority: the replicas
/// of the largest group, so that one that finds the queue empty loses none.
pub const EGRESS_QUEUE_PACKETS: usize = 8_192;

/// Queues of an output port: `priority` is `bit<3>` in v1model.
pub const EGRESS_QUEUES_PER_PORT: usize = 8;

/// Copies of one packet whose payloads an extern changes in one call: as many as a fast cipher is worth
/// setting up for, and few enough that their results (80 KB of 1,200 bytes each) stay in the cache.
pub const PAYLOAD_BATCH_MAX: usize = 64;

/// Arguments of an extern that changes payloads: a key, a sequence number, and as many again.
pub const PAYLOAD_ARGS_MAX: usize = 4;

/// Bytes that an extern makes a payload longer at most: a header and an authentication tag.
pub const PAYLOAD_GROWTH_BYTES_MAX: usize = 256;

/// Recirculations of one packet. A group may have 4,096 viewers, each costing one pass; sixteen
/// such walks in a row are allowed.
pub const RECIRCULATIONS_PER_PACKET_MAX: u32 = 65_536;

/// Resubmissions of one packet: as many as recirculations, since a program may go either way for the
/// rounds that it counts in its metadata.
pub const RESUBMITS_PER_PACKET_MAX: u32 = RECIRCULATIONS_PER_PACKET_MAX;

/// Clones of clones of clones: how deep the ancestry of a packet may grow without leaving. As
/// deep as a packet may recirculate, since each pass may leave a clone that carries on.
pub const CLONE_GENERATIONS_MAX: u32 = 65_536;

/// Turns of the switch of which no frame comes, in one call of `transmit`: the drops of a receive
/// batch (64 frames). A program whose packets recirculate until the limit must not keep the caller
/// from its other work.
pub const STEPS_IN_VAIN_MAX: usize = 64;

/// Packet generators of a switch: some flows, each with a pace of its own.
pub const GENERATORS_MAX: usize = 16;

/// Frames that a generator makes at once when it is behind: a receive batch, so that it is to the switch
/// what a port is.
pub const GENERATOR_BURST_FRAMES: usize = 64;

/// Bytes of a generator's frames together: some ten thousand short ones, and as base64 still less than
/// the 4 MiB that gRPC clients take in a message unless told otherwise.
pub const GENERATOR_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of a generator's frame at least: an Ethernet header, as at a port.
pub const GENERATOR_FRAME_BYTES_MIN: usize = 14;

/// Bytes of a generator's name: a label of the metrics.
pub const GENERATOR_NAME_BYTES_MAX: usize = 64;

/// States that the parser enters for one packet. Longer than any header stack; a cycle that
/// consumes nothing would otherwise never end. Beyond it the error is `ParserTimeout`.
pub const PARSER_STEPS_MAX: u32 = 4_096;

/// Rounds of the loops in one run of an action: a few for each byte of the longest frame would be
/// more than a program needs, and one that does not end must not stop the switch.
pub const LOOP_ROUNDS_MAX: u32 = 65_536;

/// Replicas of a multicast group: two groups of 4,096 viewers joined.
pub const REPLICAS_PER_GROUP_MAX: usize = 8_192;

/// Multicast groups: `mcast_grp` is `bit<16>`, and 0 means none.
pub const MULTICAST_GROUP_ID_MAX: u32 = 65_535;

/// Clone session ids: BMv2 keeps 15 bits of the argument, the 16th says that a clone was made.
pub const CLONE_SESSION_ID_MAX: u32 = 32_767;

/// Port numbers of v1model: `bit<9>`, and 511 is the drop port.
pub const PORT_ID_MAX: u16 = 510;

/// The drop port of v1model.
pub const DROP_PORT: u16 = 511;

/// Port of packet-in and packet-out where nothing else is configured: the highest there is.
pub const CPU_PORT: u16 = 510;

/// Digests waiting for the control plane; further ones are counted as lost.
pub const DIGEST_QUEUE_MAX: usize = 4_096;

/// Idle timeouts waiting for the control plane; further ones are counted as lost.
pub const IDLE_TIMEOUT_QUEUE_MAX: usize = 65_536;

/// Nanoseconds between two searches of a table for idle entries, for each of its entries. A look at
/// an entry takes about 2 ns, so searches take a few percent of the time at most. An idle entry of
/// the largest tables is reported up to a tenth of a second late. Without this, each of a million
/// timeouts could cause a search.
pub const IDLE_SWEEP_NS_PER_ENTRY: u64 = 100;

/// Packet-ins waiting for the control plane; further ones are dropped and counted.
pub const PACKET_IN_QUEUE_MAX: usize = 4_096;

// What a program may ask for by its declarations is bounded where the compiler sees it too.
pub use bmv2_json::limits::{ARRAY_CELLS_MAX, EXPRESSION_DEPTH_MAX, FIELD_BITS_MAX};

/// Small maps that make a map of entries: of 65,536 entries 256 are moved when one grows, which takes some
/// tens of microseconds, where all of them would hold packets up for milliseconds.
pub const MAP_SHARDS: usize = 256;

/// Egress passes between two looks at a frame before its turn, where the program gives priorities:
/// so few that a burst of a receive batch (64 frames) is known before the copies of its first four
/// packets have left, and enough to let copies leave in between.
pub const COPIES_PER_LOOK: u32 = 4;

/// Egress passes that pay for a look at a frame of which nothing comes: five in a hundred.
pub const COPIES_PER_LOOK_IN_VAIN: u32 = 20;

/// Looks in vain that may be saved up.
pub const LOOKS_IN_VAIN_BURST: u32 = 8;

/// Frames to have at hand for looks, for a caller that gives some after every sixteen copies.
pub const LOOK_AHEAD_FRAMES: usize = 4;

/// Streams whose latency is kept apart: a histogram takes 30 KB.
pub const LATENCY_STREAMS_MAX: usize = 256;

/// The longest time in the switch that is told from longer ones: a minute, in nanoseconds.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Header vectors and buffers of frames that the interpreter keeps for reuse: what a burst of a
/// receive ring (1,024 frames) needs, beyond it they are freed.
pub const SPARE_PACKETS_MAX: usize = 1_024;

/// Bytes of header vectors that the interpreter keeps for reuse, where those of a program are large.
pub const SPARE_VECTOR_BYTES_MAX: usize = 256 << 20;

/// Bytes of a buffer that is kept for reuse: a frame of an Ethernet with large frames; longer ones
/// are rare, and a thousand of them would be 64 MiB.
pub const SPARE_BUFFER_BYTES_MAX: usize = 10_240;
