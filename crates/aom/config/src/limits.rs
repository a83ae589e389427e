//! Bounds of the protocol, each with its reason.

use std::time::Duration;

/// The protocol's version, which every join message carries.
pub const VERSION: u32 = 1;

/// The longest message. A membership of 64 receivers, each with a name of 63 bytes and a key, has about 14,000 bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The longest name of a group or member. Names are labels of host names in certificates, which have this bound.
pub const NAME_BYTES_MAX: usize = 63;

/// The interval at which the service sends an alive message.
pub const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// A member reconnects if it has received nothing from the service for this time. So four of five alive messages may be
/// late.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

pub const MEMBER_FILE_VERSION: u32 = 1;

/// The longest member file. A usual one has about 2,000 bytes.
pub const MEMBER_FILE_BYTES_MAX: usize = 64 * 1024;
