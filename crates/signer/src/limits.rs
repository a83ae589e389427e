//! Every bound of the signer, with its reason.

use std::time::Duration;

/// Nonces that are kept. A signature a packet at 100,000 packets a second uses them up in some 0.6 s,
/// if none is made meanwhile; they take 4 MiB.
pub const POOL_NONCES: u32 = 65_536;

/// Nonces that are made before the first packet is taken, if nothing else is asked for and the pool has room for them.
pub const FILL_NONCES: u32 = 1024;

/// Threads that make nonces: more than that wait for each other's lock.
pub const THREADS_MAX: u32 = 256;

/// With fewer nonces than this part of the pool, only some packets are signed.
pub const LOW_WATER_PART: usize = 4;

/// Packets of a chain that stay without a signature one after the other, while there are nonces.
pub const UNSIGNED_MAX: u32 = 64;

/// How long the first packet without a signature waits for one of a later packet, while packets come
/// and there are nonces. A twentieth of a receiver's patience.
pub const UNSIGNED_FOR: Duration = Duration::from_millis(1);

/// How long a chain is quiet before its last packet, if it was not signed, is sent again, signed.
pub const IDLE: Duration = Duration::from_micros(200);

/// Without a nonce at that time, it is looked for again after about as long as making one takes.
pub const NONCE_WAIT: Duration = Duration::from_micros(100);

/// Groups whose chains are kept at once; as many as the sequencer has.
pub const CHAINS_MAX: usize = 1024;
