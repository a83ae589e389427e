//! BMv2's Thrift protocol, which `thrift-server` serves and `simple-switch-cli` calls: the encoding of values
//! ([`wire`]), the structures of the services ([`message`]), the codes of their exceptions ([`exception`]).
//!
//! The numbers of fields and codes are BMv2's. A call's arguments are numbered from 1 in order: the server reads them
//! by number ([`Args`]), the client writes them one after the other ([`Call`]). This crate opens no sockets.
//!
//! Reading order: `wire`, `args`, `call`, `message`, `exception`.

mod args;
mod call;
pub mod exception;
pub mod limits;
pub mod message;
pub mod wire;

pub use args::{Args, ArgsError};
pub use call::Call;

pub mod service {
    /// Tables, action profiles, counters, meters, registers, value sets, programs, ports.
    pub const STANDARD: &str = "standard";
    /// Multicast without LAGs.
    pub const SIMPLE_PRE: &str = "simple_pre";
    /// Multicast with LAGs.
    pub const SIMPLE_PRE_LAG: &str = "simple_pre_lag";
    /// Mirroring, queues, clocks.
    pub const SIMPLE_SWITCH: &str = "simple_switch";
}
