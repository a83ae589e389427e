//! The configuration service of authenticated ordered multicast. It owns the groups, members, keys and epochs of one
//! sequencer switch, writes them to the switch over P4Runtime, and sends each member its membership over TLS.
//!
//! Read the modules in this order:
//!
//! - [`operator`]: requests of operators and the answers, over [`operator_socket`];
//! - [`members`]: messages between a member's connection and the service;
//! - [`state`]: the service's state, which [`store`] saves;
//! - [`sequencer`]: the switch's entries and registers;
//! - [`service`]: the task that owns state, switch and sessions, with [`requests`] and [`sessions`];
//! - [`advance`]: the steps of an epoch change; [`epochs`] chooses the epochs' numbers, and [`rejoins`] limits how
//!   often members cause an epoch change;
//! - [`authority`]: signs members' certificates;
//! - [`listener`]: accepts members' connections; [`strangers`] bounds the number of connections that have not joined.

mod advance;
pub mod authority;
mod epochs;
pub mod listener;
pub mod members;
pub mod operator;
pub mod operator_socket;
pub mod rejoins;
mod requests;
pub mod sequencer;
pub mod service;
mod sessions;
mod state;
pub mod store;
mod strangers;
