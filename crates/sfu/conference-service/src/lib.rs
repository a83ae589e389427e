//! The conference service.
//!
//! * [`activity`] is what the switch has counted; [`mod@why`] decides by it why somebody receives a track or not, and
//!   [`why_watch`] tells changes of that. [`metrics`] is for Prometheus.
//! * [`core`](mod@core) makes changes: the store has them before anybody hears of them.
//! * [`sign_in`] answers hellos that the switch passes on.
//! * [`config`] is the configuration file, [`serve`](mod@serve) the whole.
//! * [`driver`] is the connection to a switch.
//! * [`http`] serves people's programs, whom [`tokens`] allow it.
//! * [`live`] is what changes meanwhile: by a reload, by a drain. [`limits`], [`webhooks`] and [`certificate`] follow it.
//! * [`backup`] writes and reads all records as text.
//! * [`rows`] is what the switch must have, and how to bring it there.
#![warn(missing_docs)]

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
