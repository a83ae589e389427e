//! BMv2's Thrift services over [`control`]: Standard, SimplePreLAG and SimpleSwitch on one port, as `simple_switch`
//! serves them and `simple_switch_CLI` calls them.
//!
//! A neighbour of P4Runtime's server: both write through one [`control::Device`], so what one has written the other
//! reads. Calls, numbers of fields and codes are BMv2's; `docs/thrift.md` says of every call what differs. What BMv2
//! publishes by nanomsg is published here as well (`notifications`), since calls acknowledge it.
//! Not here: BMv2's event log and debugger.
//!
//! # The steps of a call
//!
//! | step | ended there |
//! |---|---|
//! | 1. It arrives, in pieces; a long one waits for room. | nothing was done |
//! | 2. It is read whole, and its arguments are looked at. | nothing was done |
//! | 3. It waits for its turn ([`control::Device::in_turn`]). | nothing was done |
//! | 4. It has its turn: what it names by a handle is looked up, then written. | it goes on to its end, unheard |
//! | 5. It is answered. | it was done; who called does not know |
//!
//! The protocol itself is `bmv2-thrift`. Reading order: `server`, `call`, `services`, `site`.

mod call;
mod connections;
mod key;
pub mod limits;
mod notifications;
mod server;
mod services;
mod site;
mod values;

pub use notifications::NotificationSocket;
pub use server::Server;
pub use site::ServerConfig;
