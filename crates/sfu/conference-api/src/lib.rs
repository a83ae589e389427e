//! The conference service's HTTP interface as types. The service's answers and the requests of clients consist of these
//! types, and the schemas of the OpenAPI document are made from them.
//!
//! A *conference* has *participants*. A participant publishes *tracks*, each in one or more *qualities*, and subscribes
//! to tracks of others. Each of the participant's UDP sockets is a *leg*. A leg sends at most one quality of a track,
//! and receives any number of subscribed tracks.
#![warn(missing_docs)]

mod conferences;
mod counts;
mod events;
mod name;
mod problem;
mod service;
mod token;
mod why;

pub use conferences::{
    Conference, ConferenceSpec, JOIN_SUBSCRIPTIONS_MAX, Leg, Media, MediaAddress, MuteSpec,
    MutedBy, Participant, ParticipantSpec, Quality, QualitySpec, Route, Subscription,
    SubscriptionSpec, Track, TrackKind, TrackPath, TrackSpec, Transport,
};
pub use counts::{Delay, Drops, LegCounts, LegTraffic, PortCounts, SwitchCounts};
pub use events::{Event, EventKind, LeftReason, StreamAnswer, StreamMethod, StreamRequest};
pub use name::{BadName, NAME_LEN_MAX, Name};
pub use problem::Problem;
pub use service::Drain;
pub use token::{Claims, Grants};
pub use why::{Cause, Why};
