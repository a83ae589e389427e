//! Bounds of the protocol, each with its reason.

use std::time::Duration;

/// The protocol's version, which every join message carries.
pub const VERSION: u32 = 1;

/// The greatest length of a message. A membership of 64 receivers, each with a name of 63 bytes and a key, has about
/// 14,000 bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The greatest length of the name of a group or member. A name is a label of a host name in a certificate, and such
/// labels have at most this length.
pub const NAME_BYTES_MAX: usize = 63;

/// The interval at which the service sends an alive message.
pub const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// A member reconnects if it has received nothing from the service for this time. At one alive message every two
/// seconds, four alive messages in a row may be late.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

pub const MEMBER_FILE_VERSION: u32 = 1;

/// The greatest length of a member file. A usual member file has about 2,000 bytes.
pub const MEMBER_FILE_BYTES_MAX: usize = 64 * 1024;
