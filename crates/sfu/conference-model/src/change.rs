//! What a request changes.

use conference_api::{EventKind, Name};

use crate::{Key, Record};

/// What a request changes: the service stores it, and tells others about it afterwards.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Change {
    /// Records to write; `None` deletes.
    pub writes: Vec<(Key, Option<Record>)>,
    /// What to tell, each with its conference.
    pub events: Vec<(Name, EventKind)>,
}

impl Change {
    /// Whether nothing changes, since everything is as the request wants it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}
