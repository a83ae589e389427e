//! The state of all conferences as the service keeps it. Nothing in this crate waits, reads a clock or sends. The crate
//! only works out a [`Change`]. The service then stores the change, updates the switch, and sends the change's events.
//!
//! * A [`Record`] is the value that the store has under a [`Key`]. All state is in records.
//! * [`Model`] has the records of all conferences in memory, and finds which of them belong together.
//! * A [`Request`] becomes a [`Change`]: records to write, and events to send.
//! * [`Model::entries`] returns the table entries and multicast groups that the switch must have for a leg. A leg is
//!   a participant's connection to the service by one UDP socket; it has a number and a key.

mod change;
mod entries;
pub mod limits;
mod model;
mod plan;
mod record;
mod refusal;
mod request;

pub use change::Change;
pub use entries::{LegEntries, Receiver, Socket};
pub use model::{LegPlace, Model};
pub use plan::Outside;
pub use record::{
    BadRecord, BindingRecord, ConferenceRecord, Key, LegRecord, ParticipantRecord, QualityRecord,
    Record, SubscriptionRecord, TrackRecord,
};
pub use refusal::{Refusal, RefusalKind};
pub use request::Request;

#[cfg(test)]
mod tests;
