//! Bounds of the receiver, each with its reason.

use std::time::Duration;

/// The greatest number of receivers in a group: 16 shards of four receivers. A tagged packet carries the tags of one
/// shard.
pub const RECEIVERS_MAX: u8 = 64;

/// The last epoch that a group can have, since packets carry only 32 bits of the epoch. Epochs are never reused, so a
/// group that has reached its last epoch must be removed and added again under another group number.
pub const EPOCH_LAST: u64 = u32::MAX as u64;

/// The most sequence numbers that are pending at once. At 100,000 messages a second that is 10 ms of traffic.
pub const WINDOW: u32 = 1024;

/// The most packets that a receiver keeps for one sequence number (in AOM-HM for one sequence number and shard) before
/// it knows which packet is genuine. A certificate also contains at most this many sets of one shard's tags. Only one
/// packet or set is genuine; without the bound a forger could fill the memory with forged ones.
pub const CANDIDATES_MAX: usize = 16;

/// The most bytes of messages that wait for their proof (AOM-PK). A genuine message waits for a signature for about a
/// millisecond, so at 100 MB a second about 100 KB wait.
pub const UNPROVED_BYTES_MAX: usize = 8 << 20;

/// AOM-HM: how long a message waits for the genuine packet of a higher shard if all received packets of that shard came
/// before the packet of this receiver's shard. The sequencer sends the shards' packets in ascending order, so such
/// early packets are forged or reordered. Without such packets the message does not wait. Reordered packets are seldom
/// further apart than this time.
pub const SETTLE: Duration = Duration::from_millis(5);

/// How long a receiver waits for a missing sequence number after a proof that the sequencer assigned it. Packets of one
/// switch overtake each other by microseconds only, but on a machine of two cores the switch may wait for a processor
/// between two packets.
pub const GAP_TIMEOUT: Duration = Duration::from_millis(20);

/// How long a message waits for the confirm messages of other members. A member signs its own confirm message and
/// verifies the confirm messages of the others, which takes about 100 us for each. These messages may queue behind
/// confirm messages about other sequence numbers.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_millis(500);

/// A member that joins in the middle of an epoch passes this value as its receiver's first sequence number: the
/// receiver then starts at the first sequence number that it can prove. No packet has the value as its sequence number,
/// since sequence numbers start at 1.
pub const FIRST_PROVED: u32 = 0;
