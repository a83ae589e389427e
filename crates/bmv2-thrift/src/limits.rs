//! Every limit of the protocol: a name, a unit, a reason. A number exists in this place only.

/// Bytes of a call at most. The longest is `bm_load_new_config`, whose argument is a program's BMv2 JSON: of large
/// ones some megabytes.
pub const CALL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Values of a call's arguments: a value takes some forty bytes here, and as list of booleans one byte of the call.
pub const VALUES_MAX: usize = 256 * 1024;

/// Structures and containers within each other; BMv2's calls have four.
pub const DEPTH_MAX: usize = 16;

/// Bytes of an answer: a million entries of a table, of some hundred bytes each, twice.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Values of an answer: a million entries of a table, of some thirty values each.
pub const ANSWER_VALUES_MAX: usize = 32 * 1024 * 1024;
