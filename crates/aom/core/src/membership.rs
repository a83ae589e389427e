//! What the configuration service sends to a member for one epoch.

use k256::ecdsa::VerifyingKey;

use crate::chain::ChainId;
use crate::half_siphash::Key;
use crate::limits::{EPOCH_LAST, RECEIVERS_MAX};
use crate::wire::LANES;

/// A member's number in its group, and the keys that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The group's number.
    pub group: u16,
    /// The epoch, at most [`EPOCH_LAST`].
    pub epoch: u64,
    /// The number of receivers, from 1 to 64.
    pub n_receivers: u8,
    /// This receiver's number, from 0 on.
    pub receiver: u8,
    /// The key that verifies the sequencer's stamp.
    pub sequencer: Sequencer,
    /// The public keys that verify the members' confirm messages, by receiver number; empty if the network is trusted.
    pub confirm_keys: Vec<VerifyingKey>,
}

/// The key with which a member verifies the sequencer's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequencer {
    /// AOM-HM: the key that only the sequencer and this member have.
    Tagging(Key),
    /// AOM-PK: the coprocessor's public key.
    Signing(VerifyingKey),
}

/// The reason why a membership is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// The group has no receivers, or more than a group may have.
    #[error("expected 1 to {RECEIVERS_MAX} receivers, found {0}")]
    Receivers(u8),
    /// The receiver's number is not below the number of receivers.
    #[error("expected a receiver below {n_receivers}, found {receiver}")]
    Receiver {
        /// The number of receivers in the group.
        n_receivers: u8,
        /// The invalid receiver number.
        receiver: u8,
    },
    /// The epoch does not fit into a packet.
    #[error("expected an epoch of at most {EPOCH_LAST}, found {0}")]
    Epoch(u64),
    /// Some members have confirm keys and others do not.
    #[error("expected no confirm keys, or one for each of {n_receivers} receivers, found {found}")]
    ConfirmKeys {
        /// The number of receivers in the group.
        n_receivers: u8,
        /// The number of confirm keys.
        found: usize,
    },
    /// The member's signing key does not match its confirm key.
    #[error("expected the signing key that belongs to receiver {0}'s confirm key, found another")]
    OtherConfirmKey(u8),
}

impl Membership {
    /// The number of shards, each of four receivers.
    #[must_use]
    pub fn n_shards(&self) -> u8 {
        self.n_receivers.div_ceil(LANES as u8)
    }

    /// The number of members that must confirm a content before it is delivered. Fewer than a third of the members may
    /// lie, and any two quorums have more members in common than may lie. A group of 3f+1 members has a quorum of 2f+1.
    #[must_use]
    pub fn quorum(&self) -> usize {
        let n_members = usize::from(self.n_receivers);
        let n_liars = (n_members - 1) / 3;
        (n_members + n_liars) / 2 + 1
    }

    /// Returns the epoch as packets carry it. In a [checked](Self::check) membership this loses no bits.
    #[must_use]
    pub fn epoch_on_the_wire(&self) -> u32 {
        self.epoch as u32
    }

    pub(crate) fn chain(&self) -> ChainId {
        ChainId {
            group: self.group,
            epoch: self.epoch_on_the_wire(),
        }
    }

    /// Checks that the fields are within their bounds and consistent with each other.
    ///
    /// # Errors
    ///
    /// If a field is out of its bounds, or if fields contradict each other.
    pub fn check(&self) -> Result<(), MembershipError> {
        let Membership {
            epoch,
            n_receivers,
            receiver,
            ..
        } = *self;
        if epoch > EPOCH_LAST {
            return Err(MembershipError::Epoch(epoch));
        }
        if n_receivers == 0 || n_receivers > RECEIVERS_MAX {
            return Err(MembershipError::Receivers(n_receivers));
        }
        if receiver >= n_receivers {
            return Err(MembershipError::Receiver {
                n_receivers,
                receiver,
            });
        }
        let found = self.confirm_keys.len();
        if found != 0 && found != usize::from(n_receivers) {
            return Err(MembershipError::ConfirmKeys { n_receivers, found });
        }
        Ok(())
    }
}
