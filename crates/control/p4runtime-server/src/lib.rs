//! The P4Runtime gRPC service: `p4.v1.P4Runtime` and `reprise.v1.Switch`.
//!
//! This crate converts messages, decides which controllers may write, and serves their streams; the crate [`control`]
//! does everything else. Other protocols may share the same [`control::Device`]. P4Info ids and byte strings do not
//! leave this crate. Source: P4Runtime 1.5.0.
//!
//! Controllers read and write one extern, the switch's packet generators. An `ExternEntry` of a program's extern is
//! refused, and the error names the extern's type. Reading order: `server`, `device`, `p4runtime_service`, `pipeline`,
//! `entity`, `read`, `reconcile`, `arbitration`, `roles`, `stream`, `digests`.

mod answers;
mod arbitration;
mod authority;
mod bytes;
mod bytestring;
mod caller;
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
pub use device::{CONTROLLER_DROPS, ServerConfig, ServerLimits};
pub use error::{EntityError, WriteError};
pub use pace::PerSecond;
pub use pipeline::{ORIGIN_KIND, PipelineError, check_pipeline};
pub use server::{RestoreError, Server, SetPipelineError, Stored};
