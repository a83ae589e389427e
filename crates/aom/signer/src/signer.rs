//! Links and signs packets, without I/O.

use std::time::Duration;

use aom::chain::{FIRST_LINK, NO_MESSAGE, hash_of, state_of, to_wire};
use aom::wire::{Authenticator, Packet, SIGNATURE_BYTES, Stamp};

use crate::chains::{Chain, Chains};
use crate::frame::{LINK, SIGNATURE, payload_of};
use crate::key::Key;
use crate::limits::{CHAINS_MAX, NONCE_WAIT};
use crate::nonces::Pool;
use crate::ratio::is_due;

/// Counts frames. `received` is the sum of `linked` and the dropped frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub received: u64,
    /// Packets that were sent on, signed or not.
    pub linked: u64,
    /// The part of `linked` that was signed.
    pub signed: u64,
    /// Packets that were sent a second time, signed, because no packet followed them.
    pub signed_late: u64,
    /// Packets whose message does not match the digest. The signer links such a packet as a sequence number without a
    /// message, and receivers drop that number.
    pub wrong_digest: u64,
    /// Frames that were dropped because they are not stamped packets of AOM-PK.
    pub not_stamped: u64,
    /// Packets that were dropped because their sequence number is not above the chain's last number.
    pub repeated: u64,
    /// Packets that were dropped because their epoch is below the group's newest epoch.
    pub old_epoch: u64,
    /// Chains that started anew because a sequence number did not follow the previous one.
    pub gaps: u64,
    /// Chains that ended while their last packet was unsigned. No receiver can verify the packets after the chain's
    /// last signature.
    pub ended_unsigned: u64,
    /// Chains that were ended to make room for another group.
    pub evicted: u64,
}

/// Called with each outgoing frame.
pub type Out<'a> = &'a mut dyn FnMut(&[u8]);

/// The coprocessor. Times are durations since any fixed moment, and must never decrease.
pub struct Signer {
    key: Key,
    pool: Pool,
    chains: Chains,
    due: Option<Duration>,
    counters: Counters,
}

enum Drop {
    NotStamped,
    Repeated,
    OldEpoch,
}

impl Signer {
    /// Makes a signer without chains: each group's chain starts with the group's first packet that comes.
    #[must_use]
    pub fn new(key: Key, pool: Pool) -> Signer {
        Signer {
            key,
            pool,
            chains: Chains::default(),
            due: None,
            counters: Counters::default(),
        }
    }

    /// Links a frame from the sequencer, signs it if a signature is due, and sends it on.
    pub fn handle_frame(&mut self, now: Duration, frame: &mut [u8], out: Out<'_>) {
        self.counters.received += 1;
        let dropped = match self.link(now, frame, out) {
            Ok(()) => return,
            Err(dropped) => dropped,
        };
        *match dropped {
            Drop::NotStamped => &mut self.counters.not_stamped,
            Drop::Repeated => &mut self.counters.repeated,
            Drop::OldEpoch => &mut self.counters.old_epoch,
        } += 1;
    }

    /// Returns the time at which a chain's last packet must be signed, unless another packet comes earlier.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.due
    }

    /// Must be called at the time that [`poll_timeout`](Self::poll_timeout) returned.
    pub fn handle_timeout(&mut self, now: Duration, out: Out<'_>) {
        for group in self.chains.due_by(now) {
            self.sign_last(now, group, out);
        }
        self.due = self.chains.due();
    }

    /// Ends all chains because no more packets come. Signs their last packets as far as there are nonces.
    pub fn finish(&mut self, now: Duration, out: Out<'_>) {
        let groups: Vec<u16> = self.chains.0.keys().copied().collect();
        for group in groups {
            self.end(now, group, out);
        }
        self.due = None;
    }

    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    fn link(&mut self, now: Duration, frame: &mut [u8], out: Out<'_>) -> Result<(), Drop> {
        let (stamp, hash) = stamped(frame).ok_or(Drop::NotStamped)?;
        self.begin(now, &stamp, out)?;
        let is_right = hash[..8] == stamp.digest;
        // A packet with a wrong digest is linked too. If the signer dropped the packet, the chain would have a gap, and
        // receivers would wait for the missing sequence number.
        let hash = if is_right { hash } else { NO_MESSAGE };
        self.counters.wrong_digest += u64::from(!is_right);
        let chain = self.chains.0.entry(stamp.group);
        let chain = chain.or_insert_with(|| Chain::new(stamp.epoch));
        let link = chain.state;
        chain.state = state_of(stamp.chain(), &link, &hash, stamp.sequence);
        chain.sequence = stamp.sequence;
        chain.at = now;
        if chain.n_unsigned == 0 {
            chain.unsigned_from = now;
        }
        chain.n_unsigned += 1;
        frame[LINK].copy_from_slice(&link);
        let level = self.pool.level();
        let is_due_now = is_due(level, self.pool.capacity(), chain.unsigned(now));
        let signature = if is_due_now {
            signature_of(&self.key, &self.pool, chain)
        } else {
            None
        };
        frame[SIGNATURE].copy_from_slice(&signature.unwrap_or([0; SIGNATURE_BYTES]));
        chain.frame.clear();
        self.counters.linked += 1;
        if signature.is_some() {
            chain.n_unsigned = 0;
            self.counters.signed += 1;
        } else {
            chain.frame.extend_from_slice(frame);
            self.due = self.due.into_iter().chain(chain.due()).min();
        }
        out(frame);
        Ok(())
    }

    /// Checks the packet against its group's chain, and ends that chain if the packet starts a new one.
    fn begin(&mut self, now: Duration, stamp: &Stamp, out: Out<'_>) -> Result<(), Drop> {
        let group = stamp.group;
        let Some(chain) = self.chains.0.get(&group) else {
            if self.chains.0.len() >= CHAINS_MAX
                && let Some(oldest) = self.chains.oldest()
            {
                self.end(now, oldest, out);
                self.counters.evicted += 1;
            }
            // Earlier packets of the group may have come before this process started. That counts as a gap.
            self.counters.gaps += u64::from(stamp.sequence != 1);
            return Ok(());
        };
        if stamp.epoch != chain.epoch {
            // Epochs only increase: they have 32 bits and end before they repeat.
            if stamp.epoch < chain.epoch {
                return Err(Drop::OldEpoch);
            }
            self.end(now, group, out);
            self.counters.gaps += u64::from(stamp.sequence != 1);
        } else if stamp.sequence <= chain.sequence {
            return Err(Drop::Repeated);
        } else if stamp.sequence != chain.sequence + 1 {
            self.end(now, group, out);
            self.counters.gaps += 1;
        }
        Ok(())
    }

    /// Ends a chain. Signs its last packet if there is a nonce.
    fn end(&mut self, now: Duration, group: u16, out: Out<'_>) {
        self.sign_last(now, group, out);
        let chain = self.chains.0.remove(&group);
        let is_unsigned = chain.is_some_and(|chain| chain.n_unsigned > 0);
        self.counters.ended_unsigned += u64::from(is_unsigned);
    }

    /// Sends the last packet again, signed, if it is unsigned and there is a nonce.
    fn sign_last(&mut self, now: Duration, group: u16, out: Out<'_>) {
        let Some(chain) = self.chains.0.get_mut(&group) else {
            return;
        };
        if chain.n_unsigned == 0 {
            return;
        }
        let Some(signature) = signature_of(&self.key, &self.pool, chain) else {
            chain.retry_at = now + NONCE_WAIT;
            return;
        };
        chain.frame[SIGNATURE].copy_from_slice(&signature);
        chain.n_unsigned = 0;
        self.counters.signed_late += 1;
        out(&chain.frame);
    }
}

/// Returns a frame's stamp and the SHA-256 of its message; `None` if the frame is not a stamped packet of AOM-PK.
fn stamped(frame: &[u8]) -> Option<(Stamp, aom::chain::Hash)> {
    let packet = Packet::read(payload_of(frame)?).ok()?;
    let is_chained = matches!(packet.authenticator, Authenticator::Chained { .. });
    let is_stamped = is_chained && packet.stamp.sequence != 0 && packet.stamp.shard == 0;
    is_stamped.then(|| (packet.stamp, hash_of(packet.message)))
}

/// Signs the chain's last state, and returns the signature in the wire's byte order.
fn signature_of(key: &Key, pool: &Pool, chain: &Chain) -> Option<[u8; SIGNATURE_BYTES]> {
    let signature = pool.sign(key.signing_key(), &chain.state)?;
    Some(to_wire(&signature))
}

/// A link in a frame is as long as a state.
const _: () = assert!(FIRST_LINK.len() == LINK.end - LINK.start);
