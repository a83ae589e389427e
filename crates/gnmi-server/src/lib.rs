//! gNMI over the control plane: the ports of a switch as interfaces of OpenConfig's model, read, followed, enabled
//! and disabled. `docs/gnmi.md` says which paths there are.
//!
//! A [`Gnmi`] is a gRPC service; the listener, TLS and the bounds of connections are those of the P4Runtime server
//! beside it.
//!
//! - **Values** are looked at in the event loops, all ports of all workers at once (`interfaces`). Calls that come
//!   during a look share the next one.
//! - **A path** becomes nodes of the schema and the name of an interface, or all (`path`, `schema`).
//! - **A `Set`** is checked wholly, then carried out in one turn of the device (`set`).
//! - **A subscription** is one task (`subscribe`). A client that does not read stops its own task, which holds some
//!   messages and what it has sent last; then it goes on with the values of that time.
//!
//! Source: gNMI specification 0.10.0; sections are named where they decide something.

#![forbid(unsafe_code)]

mod get;
mod interfaces;
pub mod limits;
mod path;
mod schema;
mod service;
mod set;
mod subscribe;
mod value;

pub use service::Gnmi;
