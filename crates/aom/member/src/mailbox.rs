//! The bounded queue of events from a member's thread to the application. The application waits for an event; the
//! member's thread waits for room.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aom::event::Event;
use tokio::sync::Notify;

use crate::lock;

#[derive(Debug)]
pub(crate) struct Mailbox {
    events_max: usize,
    bytes_max: usize,
    inside: Mutex<Inside>,
    filled: Condvar,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Inside {
    events: VecDeque<Event>,
    /// How many bytes the queued events hold on the heap.
    n_bytes: usize,
    closed_because: Option<String>,
}

impl Mailbox {
    pub(crate) fn new(events_max: usize, bytes_max: usize) -> Mailbox {
        Mailbox {
            events_max,
            bytes_max,
            inside: Mutex::default(),
            filled: Condvar::new(),
            emptied: Notify::new(),
        }
    }

    /// Waits until there is room, or until the mailbox is closed.
    pub(crate) async fn room(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.has_room() {
                return;
            }
            emptied.await;
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        let inside = lock(&self.inside);
        let has_room = inside.events.len() < self.events_max && inside.n_bytes < self.bytes_max;
        has_room || inside.closed_because.is_some()
    }

    /// Queues an event, even if there is no room: one datagram may produce many events, for example if its signature
    /// proves a whole chain of messages. A drop that directly follows a queued drop is merged into the queued drop.
    pub(crate) fn put(&self, event: Event) {
        let mut inside = lock(&self.inside);
        inside.n_bytes += event.heap_bytes();
        event.queue(&mut inside.events);
        drop(inside);
        self.filled.notify_one();
    }

    /// Closes the mailbox: after the queued events the application gets the error `because`. Later calls do not change
    /// the error.
    pub(crate) fn close(&self, because: String) {
        lock(&self.inside).closed_because.get_or_insert(because);
        self.filled.notify_all();
        self.emptied.notify_one();
    }

    pub(crate) fn take(&self, timeout: Duration) -> Result<Option<Event>, String> {
        let until = Instant::now().checked_add(timeout);
        let mut inside = lock(&self.inside);
        loop {
            if let Some(event) = inside.events.pop_front() {
                inside.n_bytes -= event.heap_bytes();
                self.emptied.notify_one();
                return Ok(Some(event));
            }
            if let Some(because) = &inside.closed_because {
                return Err(because.clone());
            }
            let left = match until {
                None => Duration::MAX,
                Some(until) => until.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.filled.wait_timeout(inside, left);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aom::certificate::{Certificate, Proof};
    use aom::event::{DropNotification, Evidence, Message};

    use super::*;

    const BYTES_MAX: usize = 1000;

    fn with_room_for(events_max: usize) -> Mailbox {
        Mailbox::new(events_max, BYTES_MAX)
    }

    fn event(sequence: u32) -> Event {
        Event::Evidence(Evidence {
            epoch: 1,
            sequence,
            first: [1; 32],
            second: [2; 32],
        })
    }

    fn dropped(first: u32, last: u32) -> Event {
        let epoch = 1;
        Event::Drop(DropNotification { epoch, first, last })
    }

    fn message(sequence: u32, payload_bytes: usize) -> Event {
        Event::Message(Message {
            epoch: 1,
            sequence,
            payload: vec![0; payload_bytes],
            certificate: Certificate {
                group: 1,
                epoch: 1,
                sequence,
                proof: Proof::Tags(Vec::new()),
            },
        })
    }

    #[test]
    fn drops_that_follow_each_other_are_one_event_until_it_is_taken() {
        let mailbox = with_room_for(2);
        mailbox.put(dropped(1, 5));
        mailbox.put(dropped(6, 6));
        mailbox.put(dropped(7, u32::MAX - 1));
        assert!(mailbox.has_room());
        assert_eq!(
            mailbox.take(Duration::ZERO),
            Ok(Some(dropped(1, u32::MAX - 1)))
        );
        mailbox.put(dropped(u32::MAX, u32::MAX));
        assert_eq!(
            mailbox.take(Duration::ZERO),
            Ok(Some(dropped(u32::MAX, u32::MAX)))
        );
        assert_eq!(mailbox.take(Duration::ZERO), Ok(None));
    }

    #[test]
    fn large_messages_fill_it_before_there_are_many() {
        let mailbox = with_room_for(100);
        mailbox.put(message(1, BYTES_MAX - 1));
        assert!(mailbox.has_room());
        mailbox.put(message(2, 1));
        assert!(!mailbox.has_room());
        assert_eq!(
            mailbox.take(Duration::ZERO),
            Ok(Some(message(1, BYTES_MAX - 1)))
        );
        assert!(mailbox.has_room());
    }

    #[test]
    fn events_come_in_order_and_then_there_is_none() {
        let mailbox = with_room_for(2);
        mailbox.put(event(1));
        mailbox.put(event(2));
        assert!(!mailbox.has_room());
        assert_eq!(mailbox.take(Duration::ZERO), Ok(Some(event(1))));
        assert!(mailbox.has_room());
        assert_eq!(mailbox.take(Duration::ZERO), Ok(Some(event(2))));
        assert_eq!(mailbox.take(Duration::from_millis(1)), Ok(None));
    }

    #[test]
    fn what_is_inside_is_taken_after_it_was_closed() {
        let mailbox = with_room_for(2);
        mailbox.put(event(1));
        mailbox.close("first".to_owned());
        mailbox.close("second".to_owned());
        assert_eq!(mailbox.take(Duration::ZERO), Ok(Some(event(1))));
        assert_eq!(mailbox.take(Duration::MAX), Err("first".to_owned()));
    }

    #[test]
    fn who_waits_is_woken_on_either_side() {
        let mailbox = Arc::new(with_room_for(1));
        let taker = {
            let mailbox = Arc::clone(&mailbox);
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                while let Ok(Some(event)) = mailbox.take(Duration::MAX) {
                    taken.push(event);
                }
                taken
            })
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            for sequence in 1..=1000 {
                mailbox.room().await;
                mailbox.put(event(sequence));
            }
        });
        mailbox.close("done".to_owned());
        let expected: Vec<Event> = (1..=1000).map(event).collect();
        assert_eq!(taker.join().expect("no panic"), expected);
    }
}
