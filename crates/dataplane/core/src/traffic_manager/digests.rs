//! The digests that wait for the control plane.

use std::collections::VecDeque;

use crate::{Digest, SwitchCounters, limits};

/// A queue of at most [`limits::DIGEST_QUEUE_MAX`] digests; further digests are lost.
#[derive(Debug, Default)]
pub(crate) struct DigestQueue {
    waiting: VecDeque<Digest>,
}

impl DigestQueue {
    /// Counts a new digest, and keeps it if there is room.
    pub(crate) fn push(&mut self, digest: Digest, counters: &mut SwitchCounters) {
        counters.digests += 1;
        match self.room() {
            0 => counters.digests_lost += 1,
            _ => self.waiting.push_back(digest),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Digest> {
        self.waiting.pop_front()
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn room(&self) -> usize {
        limits::DIGEST_QUEUE_MAX.saturating_sub(self.waiting.len())
    }
}
