//! Conferences as the service keeps them. Nothing here waits, reads a clock or sends: the service stores a [`Change`]
//! first, and tells others about it afterwards.
//!
//! * A [`Record`] is what the store has under a [`Key`]. All state is records.
//! * [`Model`] has the records of all conferences in memory, and finds what belongs together.
//! * A [`Request`] becomes a [`Change`]: records to write, and events to send.
//! * [`Model::entries`] is what the switch must have for a leg.
#![warn(missing_docs)]

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
