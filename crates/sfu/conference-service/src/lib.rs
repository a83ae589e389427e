//! The conference service.
//!
//! * [`activity`] has what the switch has counted; [`mod@why`] finds from these counts why a participant receives no
//!   track, and [`why_watch`] sends an event when the reasons change. [`metrics`] is for Prometheus.
//! * [`core`](mod@core) makes changes: a change is in the store before the switch or a reader of events gets it.
//! * [`sign_in`] answers hellos, which the switch passes on. A hello is a datagram with which a host signs a socket in.
//! * [`config`] is the configuration file, and [`serve`](mod@serve) runs the whole service.
//! * [`driver`] is the connection to a switch.
//! * [`http`] serves requests from people's programs, as far as their [`tokens`] allow.
//! * [`live`] has what changes while the service runs: by a reload or by a drain. [`limits`], [`webhooks`] and
//!   [`certificate`] follow these changes.
//! * [`backup`] writes and reads all records as text.
//! * [`rows`] has the entries that the switch must have, and finds the writes that bring these entries into the switch.

pub mod absence;
pub mod activity;
pub mod backup;
pub mod certificate;
pub mod config;
pub mod core;
pub mod counts;
pub mod driver;
mod event_log;
mod frame;
pub mod housekeeping;
pub mod http;
pub mod limits;
pub mod live;
pub mod metrics;
pub mod presence;
pub mod rows;
pub mod serve;
pub mod sign_in;
pub mod tokens;
pub mod webhooks;
pub mod why;
pub mod why_watch;

pub use frame::{HelloFrame, NoHelloFrame};
