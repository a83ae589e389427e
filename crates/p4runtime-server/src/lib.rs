//! The P4Runtime gRPC service over the data plane.

mod switch_handle;

pub use switch_handle::{DrainWaiters, PortStatus, SwitchContext, SwitchHandle, Work};
