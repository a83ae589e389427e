//! Every bound of the receiver, with its reason.

use std::time::Duration;

/// Receivers of a group: tags of 16 shards.
pub const RECEIVERS_MAX: u8 = 64;

/// Numbers that are waited for at once. At 100,000 messages a second they pass in 10 ms.
pub const WINDOW: u32 = 1024;

/// Different contents that are kept of one shard of one number. The sequencer sends one; others are
/// forged, and without a bound forgers would fill the memory.
pub const CANDIDATES_MAX: usize = 4;

/// How long a number that is known to be given may be on its way. Packets of one switch overtake each other by
/// microseconds; on a machine of two cores the switch, between two of them, may wait for the processor.
pub const PATIENCE: Duration = Duration::from_millis(20);

/// How long a message waits for the confirms of others. They are signed and verified by each member, about
/// 100 us each, and may be behind those of other messages.
pub const CONFIRM_PATIENCE: Duration = Duration::from_millis(500);

/// In place of the first number that a receiver is to tell of: the first that it can prove. For who joins an epoch
/// that has begun. No number is 0.
pub const FIRST_PROVED: u32 = 0;
