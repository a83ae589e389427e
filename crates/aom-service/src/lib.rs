//! The configuration service of authenticated ordered multicast: it owns the groups, members, keys and epochs of
//! one sequencer switch, writes them there over P4Runtime, and tells each member its part over TLS.
//!
//! In reading order: [`operator`] what is asked of it and answered, over [`operator_socket`]; [`members`] what a member's connection says to it;
//! [`state`] what is written down and [`store`] where; [`sequencer`] what the switch is
//! told; [`service`] the task that owns all of it, with [`requests`], [`sessions`] and [`advance`], the steps of an
//! epoch change. [`authority`] is who is believed to be a member, and [`listener`] where members connect.

mod advance;
pub mod authority;
pub mod listener;
pub mod members;
pub mod operator;
pub mod operator_socket;
mod requests;
pub mod sequencer;
pub mod service;
mod sessions;
mod state;
pub mod store;
