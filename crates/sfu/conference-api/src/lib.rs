//! The conference service's HTTP interface as types: what the service answers with, what clients send, and the OpenAPI
//! document's schemas are made from these.
//!
//! A *conference* has *participants*. A participant publishes *tracks*, each in one or more *qualities*, and subscribes
//! to tracks of others. Each of its sockets is a *leg*: it sends one quality of a track or nothing, and receives any
//! number of subscriptions or none.
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
