//! The order of frames from several captures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Captures that are replayed together. The frame with the earliest timestamp is the next; among equal timestamps, the
/// frame of the capture that joined first.
#[derive(Clone, Default)]
pub struct ReplayOrder(Arc<Mutex<Vec<Option<u64>>>>);

impl ReplayOrder {
    /// Adds a capture, with the timestamp of its first frame.
    pub(super) fn join(&self, timestamp_ns: Option<u64>) -> ReplayPlace {
        let mut next = self.next();
        next.push(timestamp_ns);
        ReplayPlace {
            order: self.clone(),
            place: next.len() - 1,
        }
    }

    fn next(&self) -> MutexGuard<'_, Vec<Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one capture among the captures that are replayed together.
pub(super) struct ReplayPlace {
    order: ReplayOrder,
    place: usize,
}

impl ReplayPlace {
    pub(super) fn is_next(&self) -> bool {
        let next = self.order.next();
        let waiting = next.iter().enumerate();
        let waiting = waiting.filter_map(|(place, timestamp)| Some(((*timestamp)?, place)));
        waiting.min().is_some_and(|(_, place)| place == self.place)
    }

    /// Sets the timestamp of the capture's next frame; `None` after the last.
    pub(super) fn set(&self, timestamp_ns: Option<u64>) {
        self.order.next()[self.place] = timestamp_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_frame_is_the_next_and_a_capture_at_its_end_is_not_waited_for() {
        let order = ReplayOrder::default();
        let (a, b) = (order.join(Some(5)), order.join(Some(3)));
        assert!(!a.is_next() && b.is_next());
        b.set(Some(5));
        assert!(a.is_next() && !b.is_next());
        a.set(None);
        assert!(!a.is_next() && b.is_next());
        b.set(None);
        assert!(!a.is_next() && !b.is_next());
    }
}
