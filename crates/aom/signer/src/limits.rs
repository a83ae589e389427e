//! Bounds of the signer, each with its reason.

use std::time::Duration;

/// The default capacity of the pool of nonces, which takes 4 MiB. If each of 100,000 packets a second is signed and no
/// nonce is made meanwhile, the nonces last for about 0.6 s.
pub const POOL_NONCES: u32 = 65_536;

/// The default number of nonces that are made before the first packet, if the pool has room for them.
pub const FILL_NONCES: u32 = 1024;

/// The most threads that make nonces: more of them only wait for the pool's lock.
pub const THREADS_MAX: u32 = 256;

/// Only some packets are signed while the pool is less than 1/`LOW_WATER_PART` full.
pub const LOW_WATER_PART: usize = 4;

/// While there are nonces, at least one of this many consecutive packets of a chain is signed.
pub const UNSIGNED_MAX: u32 = 64;

/// While there are nonces, a packet is signed if the first unsigned packet of its chain came this long ago. This time
/// is a twentieth of the time that a receiver waits for a missing sequence number.
pub const UNSIGNED_FOR: Duration = Duration::from_millis(1);

/// If a chain's last packet is unsigned and no packet follows for this time, the signer sends that packet again,
/// signed.
pub const IDLE: Duration = Duration::from_micros(200);

/// The pause after an attempt to sign that failed because there was no nonce. To make a nonce takes about this time.
pub const NONCE_WAIT: Duration = Duration::from_micros(100);

/// The most groups with a chain at once, which is the number of groups of the sequencer.
pub const CHAINS_MAX: usize = 1024;
