//! BMv2's Thrift services over [`control`]: Standard, SimplePreLAG and SimpleSwitch on one port, as `simple_switch`
//! serves them and `simple_switch_CLI` calls them.
//!
//! This server and the P4Runtime server write through one [`control::Device`], so each of them reads what the other has
//! written. Calls, field numbers and codes are BMv2's; `docs/thrift.md` lists the differences of every call. The
//! notifications that BMv2 publishes by nanomsg are here too (`notifications`), since some calls acknowledge them.
//!
//! BMv2's event log and debugger are not implemented.
//!
//! # The steps of a call
//!
//! | step | if the connection ends there |
//! |---|---|
//! | 1. The call arrives in pieces; a long call waits for room. | nothing was done |
//! | 2. The call is complete, and its arguments are checked. | nothing was done |
//! | 3. The call waits for exclusive access to the device ([`control::Device::exclusively`]). | nothing was done |
//! | 4. Under exclusive access, the call looks up the handle's entity, then writes. | the call is done, unanswered |
//! | 5. The call is answered. | the call was done, but the caller does not know |
//!
//! The protocol itself is `bmv2-thrift`. Reading order: `server`, `call`, `services`, `context`.

mod call;
mod context;
mod key;
pub mod limits;
mod notifications;
mod server;
mod services;
mod values;

pub use context::ServerConfig;
pub use notifications::NotificationSocket;
pub use server::Server;
