//! The P4Runtime gRPC service: `p4.v1.P4Runtime` and `reprise.v1.Switch`.
//!
//! Codec, arbitration and streams over [`control`], whose [`control::Device`] it may share with other protocols:
//! P4Info ids, byte strings and errors are translated here, and end here. Source: P4Runtime 1.5.0.
//!
//! Not here: externs of programs (the switch's packet generators are one of its own), which are refused by name.
//! Reading order: `server`, `device`, `p4runtime_service`, `pipeline`, `entity`, `read`, `reconcile`, `arbitration`,
//! `roles`, `stream`, `digests`.

mod answers;
mod arbitration;
mod authority;
mod bytes;
mod bytestring;
mod connections;
mod device;
mod digests;
mod entity;
mod error;
mod handshakes;
pub mod limits;
mod malformed;
mod p4runtime_service;
mod pace;
mod pipeline;
mod read;
mod reconcile;
mod requests;
mod roles;
mod secrets;
mod server;
mod stream;
mod switch_service;

pub use bytes::BytesMax;
pub use connections::{Caller, Connection, ConnectionLimits, Connections};
pub use device::{CONTROLLER_DROPS, ServerConfig, ServerLimits};
pub use error::{EntityError, WriteError};
pub use pace::PerSecond;
pub use pipeline::{ORIGIN_KIND, PipelineError, check_pipeline};
pub use server::{RestoreError, Server, SetPipelineError, Stored};
