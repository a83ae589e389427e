//! What a request changes.

use std::collections::BTreeSet;

use conference_api::{EventKind, Name};

use crate::{Key, Record};

/// What a request changes. The service first stores the change, and then tells others about it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Change {
    /// The records to write; `None` deletes the record with this key.
    pub writes: Vec<(Key, Option<Record>)>,
    /// The events to send, each with its conference.
    pub events: Vec<(Name, EventKind)>,
}

impl Change {
    /// Whether nothing changes, since everything is as the request wants it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// What was there before a change.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Undo {
    /// The records as they were before the change, in the order of the change's writes.
    pub(crate) records: Vec<(Key, Option<Record>)>,
    /// The legs for which the switch may need other entries now.
    pub legs: BTreeSet<u16>,
}
