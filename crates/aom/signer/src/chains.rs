//! The current chains. A chain is the sequence of a group's packets of one epoch, in which each packet is linked to the
//! packet before it. The signer keeps one chain for each group, of the group's newest epoch.

use std::collections::HashMap;
use std::time::Duration;

use aom::chain::Hash;

use crate::ratio::Unsigned;

/// What the signer keeps of a chain: its last packet, and the number and age of the packets since the last signature.
#[derive(Debug)]
pub(crate) struct Chain {
    pub epoch: u32,
    /// The last packet's sequence number.
    pub sequence: u32,
    pub state: Hash,
    /// The time at which the last packet came.
    pub at: Duration,
    /// The number of packets since the last signature. The first of them came at `unsigned_from`.
    pub n_unsigned: u32,
    pub unsigned_from: Duration,
    /// The last packet as it was sent, if it was not signed.
    pub frame: Vec<u8>,
    /// The earliest time of another attempt to sign the last packet, if the pool of nonces was empty at the
    /// previous one.
    pub retry_at: Duration,
}

impl Chain {
    pub(crate) fn new(epoch: u32) -> Chain {
        Chain {
            epoch,
            sequence: 0,
            state: aom::chain::FIRST_LINK,
            at: Duration::ZERO,
            n_unsigned: 0,
            unsigned_from: Duration::ZERO,
            frame: Vec::new(),
            retry_at: Duration::ZERO,
        }
    }

    /// Returns how many packets came since the last signature, and how long ago the first of them came. These numbers
    /// decide whether the last packet is signed.
    pub(crate) fn unsigned(&self, now: Duration) -> Unsigned {
        Unsigned {
            n_packets: self.n_unsigned,
            since: now.saturating_sub(self.unsigned_from),
        }
    }

    /// Returns the time at which the signer sends the last packet again, with a signature; `None` if the last packet is
    /// signed already.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = (self.at + crate::limits::IDLE).max(self.retry_at);
        (self.n_unsigned > 0).then_some(due)
    }
}

/// The chains by group number.
#[derive(Debug, Default)]
pub(crate) struct Chains(pub HashMap<u16, Chain>);

impl Chains {
    /// Returns the group that has been quiet for the longest time.
    pub(crate) fn oldest(&self) -> Option<u16> {
        let oldest = self
            .0
            .iter()
            .min_by_key(|(group, chain)| (chain.at, **group));
        oldest.map(|(group, _)| *group)
    }

    /// Returns the earliest time at which a chain is due: the signer then sends the chain's last packet again, with a
    /// signature.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.0.values().filter_map(Chain::due).min()
    }

    /// Returns the groups whose chains are due, in ascending order.
    pub(crate) fn due_by(&self, now: Duration) -> Vec<u16> {
        let due = |chain: &Chain| chain.due().is_some_and(|due| due <= now);
        let mut groups: Vec<u16> = self
            .0
            .iter()
            .filter(|(_, it)| due(it))
            .map(|(it, _)| *it)
            .collect();
        groups.sort_unstable();
        groups
    }
}
