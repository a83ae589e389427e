//! Every bound of the protocol, with its reason.

use std::time::Duration;

/// The protocol's version; a join names it.
pub const VERSION: u32 = 1;

/// Bytes of one message. A membership of 64 receivers, each with a name of 64 bytes and a key, has about 14,000.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a group's or member's name. It becomes a label of a host name in a certificate.
pub const NAME_BYTES_MAX: usize = 63;

/// The interval at which the service says that it is alive.
pub const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// The longest silence of the service: four of five alive messages may be late.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The version of member files.
pub const MEMBER_FILE_VERSION: u32 = 1;

/// Bytes of a member file; a usual one has some 2,000.
pub const MEMBER_FILE_BYTES_MAX: usize = 64 * 1024;
