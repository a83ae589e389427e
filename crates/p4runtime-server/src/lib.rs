//! The P4Runtime gRPC service over the data plane: `p4.v1.P4Runtime` and `reprise.v1.Switch`.
//!
//! The switch belongs to another thread, reached through [`SwitchHandle`]; a `WriteRequest` runs there
//! in pieces, in order, with frames between them. Engines never see a P4Runtime
//! type: ids, byte strings and errors are translated here. Source: P4Runtime 1.5.0.
//!
//! Not here: named roles, action profiles, meters, value sets, digests, externs of programs (the switch's
//! packet generators are one of its own); each is refused by name. Reading order: `server`, `device`, `p4runtime_service`, `pipeline`,
//! `entity`, `read`, `arbitration`, `stream`.

mod answers;
mod arbitration;
mod batch;
mod bytes;
mod bytestring;
mod connections;
mod controller_data;
mod counted;
mod device;
mod entity;
mod error;
mod lent;
pub mod limits;
mod malformed;
mod p4runtime_service;
mod pipeline;
mod read;
mod requests;
mod server;
mod stream;
mod switch_handle;
mod switch_service;
mod workers;

pub use bytes::BytesMax;
pub use connections::{Caller, Connection, ConnectionLimits, Connections};
pub use counted::{Counted, TableCounted};
pub use device::{CONTROLLER_DROPS, ServerConfig, ServerLimits};
pub use error::{EntityError, WriteError};
pub use lent::Lent;
pub use pipeline::{PipelineError, check_pipeline};
pub use server::{Server, SetPipelineError};
pub use switch_handle::{
    DrainWaiters, IdleTimeoutNotice, IdleTimeoutSender, LinkState, NoticeSender, PacketInFrame,
    PacketInSender, PortStatus, SwitchContext, SwitchHandle, Work,
};
pub use workers::{Registers, expect_one_for_all};
