//! gNMI over the control plane: a switch's ports as interfaces of OpenConfig's model, which clients read, subscribe
//! to, enable and disable. `docs/gnmi.md` lists the paths.
//!
//! A [`Gnmi`] is a gRPC service. The P4Runtime server beside it provides the listener, TLS and the limits of
//! connections.
//!
//! - **Values** are read in the event loops, all ports of all workers at once (`interfaces`). Calls that arrive during
//!   a reading share the next reading.
//! - **A path** selects nodes of the schema and one interface or all (`path`, `schema`).
//! - **A `Set`** is checked completely, then carried out under one exclusive access to the device (`set`).
//! - **A subscription** is one task (`subscribe`). A client that does not read blocks only its own task, which holds
//!   some messages and the values sent last. When the client reads again, the task continues with current values.
//!
//! Source: gNMI specification 0.10.0; comments name the sections on which the code relies.

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
