//! Every limit of control calls: a name, a unit, a reason. A number exists in this place only.

/// Updates of a batch between which no frame passes; a replica counts as one. A worker runs some such
/// pieces in a turn, a tenth of a millisecond or so, before its frames have theirs.
pub const UPDATES_PER_PIECE: usize = 64;

/// Updates of a batch that is done in one piece, at most: ten milliseconds or so, in which frames wait in the
/// kernel. A replica counts as one, and so do [`CELLS_PER_UPDATE`] cells.
pub const UNDIVIDED_UPDATES_MAX: usize = 8_192;

/// Times that a worker waits for a moment without a packet between two passes; each is a turn of its loop or
/// so, all together some hundred milliseconds.
pub const WAITS_FOR_PACKETS_MAX: usize = 1_000;

/// Times that a worker lets the packets that are inside go before a program is replaced; each is a turn of its loop or
/// less. A loop that has much to do takes no more frames in meanwhile. What rates hold longer is dropped and counted.
pub const TURNS_BEFORE_EXCHANGE_MAX: usize = 100;

/// Array cells that are written in the time of an update, at most: an update of all cells of a large array
/// is many pieces.
pub const CELLS_PER_UPDATE: u64 = 64;

/// Array cells read in one visit to the switch's thread, which counts as [`UPDATES_PER_PIECE`] updates:
/// a tenth of a millisecond, so that frames wait no longer than that.
pub const CELLS_PER_VISIT: u64 = 1_024;

/// Places of a table, or replicas of groups and sessions, read in one visit, which counts as many updates:
/// a tenth of a millisecond.
pub const ENTRIES_PER_VISIT: usize = 256;

/// Successful updates kept for replay between the saving of a pipeline and its commit: every register cell
/// and viewer of a full SFU, several times.
pub const SAVED_UPDATES_MAX: usize = 1 << 20;

/// Updates of changes that are kept for who follows them slowly, some ten megabytes; who is further behind
/// is told so, and reads anew. A replica counts as one.
pub const CHANGED_UPDATES_KEPT_MAX: usize = 65_536;
