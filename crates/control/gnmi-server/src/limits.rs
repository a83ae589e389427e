//! Every limit of the server, with its unit and its reason.

/// The largest request: `PATHS_MAX` paths of 200 bytes each.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// The most paths in a request: twice as many as the switch has ports.
pub const PATHS_MAX: usize = 1_024;

/// The most elements in a path; the path of the deepest leaf has five.
pub const PATH_ELEMS_MAX: usize = 32;

/// The largest answer to a `Get`: gRPC clients accept 4 MiB by default, and the gNMI specification (3.3.3) offers
/// `Subscribe` for larger answers.
pub const GET_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024 - 64 * 1024;

/// The most concurrent `Subscribe` calls: enough for some controllers and collectors, with their backups.
pub const SUBSCRIPTIONS_MAX: usize = 128;

/// The maximum number of values that all subscriptions together read per second. Each value of a subscription counts at
/// least once a second. At this limit the subscriptions take a tenth of a control thread's time, and 50 MB of memory
/// for the values sent last. A switch of 512 ports has 17,000 values; reading them ten times a second uses a sixth of
/// the limit.
pub const VALUES_PER_SECOND_MAX: usize = 1_000_000;

/// The shortest sample interval in milliseconds. Each sample interrupts the event loops, which forward frames.
pub const SAMPLE_INTERVAL_MIN_MS: u64 = 100;

/// The interval in milliseconds at which counters are read for `ON_CHANGE`. Under traffic counters change with each
/// frame, so not every change is sent.
pub const COUNTERS_LOOK_INTERVAL_MS: u64 = 1_000;

/// The interval in milliseconds at which counters are sampled for `TARGET_DEFINED`. Stratum uses the same interval.
pub const TARGET_DEFINED_INTERVAL_MS: u64 = 10_000;

/// How old a sample's values may be, in milliseconds. Subscriptions whose samples are due within this time share one
/// reading.
pub const SAMPLE_AGE_MAX_MS: u64 = 50;

/// The most messages that wait for a slow client; the transport holds some more. If this many wait, the subscription
/// waits too, and later continues with current values.
pub const MESSAGES_AHEAD_MAX: usize = 16;
