//! Records which participants show that they are still there by other means than their sockets: those with an event
//! stream, and those whose tokens make requests. Also records which conferences have open event streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conference_api::Name;
use tokio::time::Instant;

type ByParticipant<T> = BTreeMap<Name, BTreeMap<Name, T>>;

/// Signs that participants are still there. All clones share the same signs.
#[derive(Clone, Debug, Default)]
pub struct Presence {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    /// When the last request came with each participant's token, since the last call of [`Presence::take_requests`].
    requests: ByParticipant<Instant>,
    streams: ByParticipant<usize>,
    /// How many event streams of each conference are open, including those of administrators.
    watched: BTreeMap<Name, usize>,
}

/// An event stream while it is open.
#[derive(Debug)]
pub struct Stream {
    presence: Presence,
    conference: Name,
    participant: Option<Name>,
}

impl Presence {
    /// Records that a request has come with a participant's token.
    pub fn request(&self, conference: &Name, participant: &Name, now: Instant) {
        let mut inside = self.lock();
        let of = inside.requests.entry(conference.clone()).or_default();
        of.insert(participant.clone(), now);
    }

    /// Records that an event stream begins. The stream counts as open until the result is dropped.
    #[must_use]
    pub fn stream(&self, conference: &Name, participant: Option<&Name>) -> Stream {
        let mut inside = self.lock();
        *inside.watched.entry(conference.clone()).or_default() += 1;
        if let Some(participant) = participant {
            let of = inside.streams.entry(conference.clone()).or_default();
            *of.entry(participant.clone()).or_default() += 1;
        }
        Stream {
            presence: self.clone(),
            conference: conference.clone(),
            participant: participant.cloned(),
        }
    }

    /// Returns the names of the conferences that have open event streams.
    #[must_use]
    pub fn watched(&self) -> Vec<Name> {
        self.lock().watched.keys().cloned().collect()
    }

    /// Whether a participant has an event stream.
    #[must_use]
    pub fn has_stream(&self, conference: &Name, participant: &Name) -> bool {
        let inside = self.lock();
        let of = inside.streams.get(conference);
        of.is_some_and(|it| it.contains_key(participant))
    }

    /// Returns the requests since the last call and forgets them, so that the token of somebody who never joins leaves
    /// nothing here.
    pub(crate) fn take_requests(&self) -> ByParticipant<Instant> {
        std::mem::take(&mut self.lock().requests)
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut inside = self.presence.lock();
        one_less(&mut inside.watched, &self.conference);
        if let Some(participant) = &self.participant
            && let Some(of) = inside.streams.get_mut(&self.conference)
        {
            one_less(of, participant);
            if of.is_empty() {
                inside.streams.remove(&self.conference);
            }
        }
    }
}

fn one_less(counts: &mut BTreeMap<Name, usize>, name: &Name) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_counts_while_it_is_open() {
        let [c, ann] = ["c", "ann"].map(|it| Name::new(it).expect("a name"));
        let presence = Presence::default();
        let one = presence.stream(&c, Some(&ann));
        let two = presence.stream(&c, Some(&ann));
        let administrator = presence.stream(&c, None);
        drop(one);
        assert!(presence.has_stream(&c, &ann));
        drop(two);
        assert!(!presence.has_stream(&c, &ann));
        assert_eq!(presence.watched(), [c]);
        drop(administrator);
        assert_eq!(presence.watched(), []);
    }
}
