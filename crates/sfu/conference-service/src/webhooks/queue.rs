//! The events that wait for a hook. This module does no I/O.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use conference_api::{Event, Name};
use tokio::time::Instant;

use super::lost;
use crate::core::now_ms;

/// Events in their order, and the conferences of which some events are missing.
pub(super) struct Queue {
    events: VecDeque<(Arc<Event>, Instant)>,
    lost: BTreeSet<Name>,
    n_max: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) event: Arc<Event>,
    /// When the event came. `None` if the event says that other events are missing. The service tries to deliver such
    /// an event for ever, since no later event may be sent before it.
    pub(super) queued: Option<Instant>,
}

impl Queue {
    pub(super) fn new(n_max: usize) -> Queue {
        Queue {
            events: VecDeque::new(),
            lost: BTreeSet::new(),
            n_max,
        }
    }

    /// Adds an event. If the queue is full, drops the oldest event first and returns true.
    pub(super) fn push(&mut self, event: Arc<Event>, now: Instant) -> bool {
        let is_full = self.events.len() >= self.n_max;
        if is_full && let Some((oldest, _)) = self.events.pop_front() {
            self.lost.insert(oldest.conference.clone());
        }
        self.events.push_back((event, now));
        is_full
    }

    /// Records that events of these conferences are missing.
    pub(super) fn lose(&mut self, conferences: impl IntoIterator<Item = Name>) {
        self.lost.extend(conferences);
    }

    /// Takes what is sent next: first an event for each conference of which events are missing, then the oldest event.
    pub(super) fn next(&mut self) -> Option<Next> {
        if let Some(conference) = self.lost.pop_first() {
            return Some(Next {
                event: lost(conference, now_ms()),
                queued: None,
            });
        }
        let (event, queued) = self.events.pop_front()?;
        Some(Next {
            event,
            queued: Some(queued),
        })
    }
}

#[cfg(test)]
mod tests {
    use conference_api::EventKind;

    use super::*;

    fn event(number: u64, conference: &str) -> Arc<Event> {
        Arc::new(Event {
            number,
            time_ms: 0,
            conference: Name::new(conference).expect("a name"),
            kind: EventKind::ConferenceCreated,
        })
    }

    fn taken(queue: &mut Queue) -> Vec<(u64, String)> {
        let next = std::iter::from_fn(|| queue.next());
        next.map(|it| (it.event.number, it.event.conference.to_string()))
            .collect()
    }

    #[test]
    fn a_full_queue_loses_the_oldest_and_says_so_first() {
        let mut queue = Queue::new(2);
        let now = Instant::now();
        for (number, conference) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            let is_full = queue.push(event(number, conference), now);
            assert_eq!(is_full, number > 2);
        }
        let first = queue.next().expect("what is lost");
        assert_eq!((first.event.kind.name(), first.queued), ("lost", None));
        assert_eq!(first.event.conference.as_str(), "a");
        let rest = [(0, "b"), (3, "c"), (4, "d")].map(|(n, c)| (n, c.to_owned()));
        assert_eq!(taken(&mut queue), rest);
    }

    #[test]
    fn a_loss_is_told_before_what_is_younger_and_once() {
        let mut queue = Queue::new(9);
        let now = Instant::now();
        queue.push(event(1, "a"), now);
        let first = queue.next().expect("an event");
        assert_eq!(first.queued, Some(now));
        queue.push(event(2, "a"), now);
        queue.lose([first.event.conference.clone()]);
        queue.lose([first.event.conference.clone()]);
        let expected = [(0, "a"), (2, "a")].map(|(n, c)| (n, c.to_owned()));
        assert_eq!(taken(&mut queue), expected);
        assert_eq!(queue.next(), None);
    }
}
