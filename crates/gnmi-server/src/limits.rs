//! Every limit of the server: a name, a unit, a reason. A number exists in this place only.

/// Bytes of a request at most: as many paths as may be, of 200 bytes each.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// Paths of a request at most: one for each port, twice over.
pub const PATHS_MAX: usize = 1_024;

/// Elements of a path at most: the deepest leaf has five.
pub const PATH_ELEMS_MAX: usize = 32;

/// Bytes of the answer to a `Get` at most: gRPC clients take 4 MiB unless told otherwise, and the specification
/// has `Subscribe` for what is larger (3.3.3).
pub const GET_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024 - 64 * 1024;

/// `Subscribe` calls at once: some controllers and collectors, with their backups.
pub const SUBSCRIPTIONS_MAX: usize = 128;

/// Values that all subscriptions together look at in a second, each value at least once: a tenth of a control
/// thread, and 50 MB of what was sent last. A switch of 512 ports has 17,000 values; ten times a second that is a
/// sixth of it.
pub const VALUES_PER_SECOND_MAX: usize = 1_000_000;

/// How often a value is sampled at most, in milliseconds. Each sample visits the event loops.
pub const SAMPLE_INTERVAL_MIN_MS: u64 = 100;

/// How often counters are looked at for `ON_CHANGE`, in milliseconds: under traffic they change with each frame.
pub const COUNTERS_LOOK_INTERVAL_MS: u64 = 1_000;

/// How often counters are sampled for `TARGET_DEFINED`, in milliseconds, as Stratum does.
pub const TARGET_DEFINED_INTERVAL_MS: u64 = 10_000;

/// How old what is sampled may be, in milliseconds: subscriptions share their visits to the event loops.
pub const SAMPLE_AGE_MAX_MS: u64 = 50;

/// Messages that wait for a client that reads slowly; the transport takes some more. Then its subscription waits,
/// and goes on with the values of that time.
pub const MESSAGES_AHEAD_MAX: usize = 16;
