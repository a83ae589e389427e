//! Every limit of control calls, with its unit and its reason.

/// Updates that a worker executes as one piece of a batch, without a frame in between. A replica of a multicast group
/// or of a clone session counts as an update. An event-loop iteration executes a few pieces, in some 0.1 ms, and then
/// lets frames pass.
pub const UPDATES_PER_PIECE: usize = 64;

/// The maximum number of updates in an undivided batch (a batch that a worker executes in one piece). So many updates
/// take some 10 ms, in which frames wait in the kernel. A replica counts as an update, and [`CELLS_PER_UPDATE`] cells
/// together count as an update.
pub const UNDIVIDED_UPDATES_MAX: usize = 8_192;

/// How many times a worker checks, before it executes a batch with `Atomicity::WholeForPackets`, that no packet is
/// between two passes through ingress and egress. The worker checks about once in an event-loop iteration; all these
/// iterations take some 100 ms. If every check finds a packet between two passes, the batch is refused.
pub const WAITS_FOR_PACKETS_MAX: usize = 1_000;

/// How many times a worker waits, before it replaces a program, for the queued packets to leave. Each wait is at most
/// one event-loop iteration. An event loop that still has packets to process receives no new frames. Packets that a
/// queue's rate limit holds longer are dropped and counted.
pub const WAITS_BEFORE_EXCHANGE_MAX: usize = 100;

/// Array cells that count as one update, so that writing all cells of a large array takes many pieces.
pub const CELLS_PER_UPDATE: u64 = 64;

/// Array cells read in one visit to the switch's thread. A visit takes 0.1 ms, which is how long frames wait for it,
/// and counts as [`UPDATES_PER_PIECE`] updates.
pub const CELLS_PER_VISIT: u64 = 1_024;

/// Places of a table (each holds an entry or is empty), or replicas of groups or sessions, that one visit to the
/// switch's thread reads. A visit takes 0.1 ms and counts as this many updates.
pub const ENTRIES_PER_VISIT: usize = 256;

/// How many successful updates to a saved pipeline are kept until the pipeline's commit replays them. An SFU with as
/// many viewers as it can have needs a fraction of this number for its viewers and all its register cells.
pub const SAVED_UPDATES_MAX: usize = 1 << 20;

/// How many updates are kept as changes for slow followers; they take some 10 MB. A follower that is further behind
/// gets an error and must read all state again. A replica counts as an update.
pub const CHANGED_UPDATES_KEPT_MAX: usize = 65_536;
