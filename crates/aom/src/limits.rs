//! Every bound of the receiver, with its reason.

use std::time::Duration;

/// The most receivers of a group: tags of 16 shards.
pub const RECEIVERS_MAX: u8 = 64;

/// The last epoch that a group can have: packets have 32 bits of it. Epochs are never used again, so a group that has
/// reached it is removed and added anew under another number.
pub const EPOCH_LAST: u64 = u32::MAX as u64;

/// The most numbers that are open at once. At 100,000 messages a second they pass in 10 ms.
pub const WINDOW: u32 = 1024;

/// The most different contents that are kept of one shard of one number, and the most variants of a shard's tags in a
/// certificate. The sequencer sends one; others are forged, and without a bound forgers would fill the memory.
pub const CANDIDATES_MAX: usize = 16;

/// The most bytes of messages that wait for their proof (AOM-PK). Honest ones wait for a signature for a millisecond,
/// and at 100 MB a second that is 100 KB.
pub const UNPROVED_BYTES_MAX: usize = 8 << 20;

/// How long a message waits for a higher shard's packet whose candidates all came before the own packet (AOM-HM). A
/// network that keeps the order needs none of it; one that does not seldom needs more.
pub const SETTLE: Duration = Duration::from_millis(5);

/// The longest time to wait for a number that is known to be given. Packets of one switch overtake each other
/// by microseconds; but on a machine of two cores the switch may wait for the processor between two packets.
pub const PATIENCE: Duration = Duration::from_millis(20);

/// The longest time that a message waits for the confirms of others. Each member signs and verifies them,
/// about 100 us each, and they may be queued behind those of other messages.
pub const CONFIRM_PATIENCE: Duration = Duration::from_millis(500);

/// In place of a receiver's first number: begin with the first number that the receiver can prove. It serves
/// a member that joins an epoch after its beginning. No number is 0.
pub const FIRST_PROVED: u32 = 0;
