//! Links and signs, without I/O.

use std::time::Duration;

use aom::chain::{FIRST_LINK, NO_MESSAGE, hash_of, state_of, to_wire};
use aom::wire::{Authenticator, Packet, SIGNATURE_BYTES, Stamp};

use crate::chains::{Chain, Chains};
use crate::frame::{LINK, SIGNATURE, payload_of};
use crate::key::Key;
use crate::limits::{CHAINS_MAX, NONCE_WAIT};
use crate::nonces::Pool;
use crate::ratio::is_due;

/// Counts of frames. `received` is `linked` plus the drop reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came.
    pub received: u64,
    /// Packets that were sent on, signed or not.
    pub linked: u64,
    /// Of these, with a signature.
    pub signed: u64,
    /// Sent a second time, signed, since nothing came behind them.
    pub signed_late: u64,
    /// Linked as a number without a message, which receivers drop: the message is not the one of the digest.
    pub wrong_digest: u64,
    /// Dropped: not a stamped packet of AOM-PK.
    pub not_stamped: u64,
    /// Dropped: a number that was linked already, or one before it.
    pub repeated: u64,
    /// Dropped: of an epoch before the group's newest.
    pub old_epoch: u64,
    /// Chains that began anew: a number did not follow the last one.
    pub gaps: u64,
    /// Chains that ended without a signature: no receiver can verify their last packets.
    pub ended_unsigned: u64,
    /// Chains that were ended because another group needed their place.
    pub evicted: u64,
}

/// Where frames go.
pub type Out<'a> = &'a mut dyn FnMut(&[u8]);

/// The coprocessor. Time is a duration since any fixed moment, and never runs backwards.
pub struct Signer {
    key: Key,
    pool: Pool,
    chains: Chains,
    due: Option<Duration>,
    counters: Counters,
}

/// Why a frame is dropped.
enum Drop {
    NotStamped,
    Repeated,
    OldEpoch,
}

impl Signer {
    /// Without chains: each group's begins with the first packet that comes.
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

    /// A frame of the sequencer: it goes out linked, and signed if it is its turn.
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

    /// When a chain is to be signed, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.due
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Duration, out: Out<'_>) {
        for group in self.chains.due_by(now) {
            self.sign_last(now, group, out);
        }
        self.due = self.chains.due();
    }

    /// Signs unsigned packets, as far as there are nonces, because no more packets come.
    pub fn finish(&mut self, now: Duration, out: Out<'_>) {
        let groups: Vec<u16> = self.chains.0.keys().copied().collect();
        for group in groups {
            self.end(now, group, out);
        }
        self.due = None;
    }

    /// The counts of frames.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Nonces that are ready.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    fn link(&mut self, now: Duration, frame: &mut [u8], out: Out<'_>) -> Result<(), Drop> {
        let (stamp, hash) = stamped(frame).ok_or(Drop::NotStamped)?;
        self.begin(now, &stamp, out)?;
        let is_right = hash[..8] == stamp.digest;
        // A gap in the chain would make receivers wait for the number.
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
        let is_turn = is_due(level, self.pool.capacity(), chain.unsigned(now));
        let signature = match is_turn {
            true => signature_of(&self.key, &self.pool, chain),
            false => None,
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

    /// The chain for this packet: the group's current chain, or a new one.
    fn begin(&mut self, now: Duration, stamp: &Stamp, out: Out<'_>) -> Result<(), Drop> {
        let group = stamp.group;
        let Some(chain) = self.chains.0.get(&group) else {
            if self.chains.0.len() >= CHAINS_MAX
                && let Some(oldest) = self.chains.oldest()
            {
                self.end(now, oldest, out);
                self.counters.evicted += 1;
            }
            // It may have begun before this process did.
            self.counters.gaps += u64::from(stamp.sequence != 1);
            return Ok(());
        };
        if stamp.epoch != chain.epoch {
            // Epochs only grow, and have 32 bits: they end before they repeat.
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

    /// Ends a chain, signed if it can be.
    fn end(&mut self, now: Duration, group: u16, out: Out<'_>) {
        self.sign_last(now, group, out);
        let chain = self.chains.0.remove(&group);
        let is_unsigned = chain.is_some_and(|chain| chain.n_unsigned > 0);
        self.counters.ended_unsigned += u64::from(is_unsigned);
    }

    /// Sends the last packet again, signed, if it was not and there is a nonce.
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

/// Stamp and SHA-256 of the message.
fn stamped(frame: &[u8]) -> Option<(Stamp, aom::chain::Hash)> {
    let packet = Packet::read(payload_of(frame)?).ok()?;
    let is_chained = matches!(packet.authenticator, Authenticator::Chained { .. });
    let is_stamped = is_chained && packet.stamp.sequence != 0 && packet.stamp.shard == 0;
    is_stamped.then(|| (packet.stamp, hash_of(packet.message)))
}

/// Of the chain's last state, on the wire's order.
fn signature_of(key: &Key, pool: &Pool, chain: &Chain) -> Option<[u8; SIGNATURE_BYTES]> {
    let signature = pool.sign(key.signing_key(), &chain.state)?;
    Some(to_wire(&signature))
}

/// The link of a chain that begins is the same whatever its first number.
const _: () = assert!(FIRST_LINK.len() == LINK.end - LINK.start);
