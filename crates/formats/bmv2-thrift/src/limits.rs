//! Every limit of the protocol, with its unit and its reason.

/// The largest size of a call. The longest call is `bm_load_new_config`, whose argument is a program's BMv2 JSON: some
/// megabytes for a large program.
pub const CALL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The highest number of values in a call's arguments. The limit on the call's length does not bound the memory enough:
/// a value takes some forty bytes of memory, but a boolean in a list takes only one byte of the call.
pub const VALUES_MAX: usize = 256 * 1024;

/// How deeply structures and containers may nest; BMv2's calls need four levels.
pub const DEPTH_MAX: usize = 16;

/// The largest answer: twice what a million table entries of some hundred bytes take.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The highest number of values in an answer: enough for a million table entries of some thirty values each.
pub const ANSWER_VALUES_MAX: usize = 32 * 1024 * 1024;
