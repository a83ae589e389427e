//! What a request changes.

use conference_api::{EventKind, Name};

use crate::{Key, Record};

/// What a request changes. The service first stores the change, and then updates the switch and sends the events.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Change {
    /// The records to write; `None` deletes the record with this key.
    pub writes: Vec<(Key, Option<Record>)>,
    /// The events to send, each with its conference.
    pub events: Vec<(Name, EventKind)>,
}

impl Change {
    /// Whether nothing changes, since everything already is as the request wants it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}
