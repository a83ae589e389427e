//! The current chains: one for each group, of its newest epoch.

use std::collections::HashMap;
use std::time::Duration;

use aom::chain::Hash;

use crate::ratio::Unsigned;

/// The end of a chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub epoch: u32,
    /// The last packet's number.
    pub sequence: u32,
    /// The last packet's state.
    pub state: Hash,
    /// When the last packet came.
    pub at: Duration,
    /// Packets since the last signature, and when the first of them came.
    pub n_unsigned: u32,
    pub unsigned_from: Duration,
    /// The last packet in the form in which it was sent, if it was not signed.
    pub frame: Vec<u8>,
    /// Its signature was tried and there was no nonce: not before this time again.
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

    /// The parts since the last signature, if the next packet came now.
    pub(crate) fn unsigned(&self, now: Duration) -> Unsigned {
        Unsigned {
            n_packets: self.n_unsigned,
            since: now.saturating_sub(self.unsigned_from),
        }
    }

    /// When the last packet is sent again, signed.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = (self.at + crate::limits::IDLE).max(self.retry_at);
        (self.n_unsigned > 0).then_some(due)
    }
}

/// By group.
#[derive(Debug, Default)]
pub(crate) struct Chains(pub HashMap<u16, Chain>);

impl Chains {
    /// The group that has been quiet for longest.
    pub(crate) fn oldest(&self) -> Option<u16> {
        let oldest = self
            .0
            .iter()
            .min_by_key(|(group, chain)| (chain.at, **group));
        oldest.map(|(group, _)| *group)
    }

    /// When the first of them is due.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.0.values().filter_map(Chain::due).min()
    }

    /// Those that are due.
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
