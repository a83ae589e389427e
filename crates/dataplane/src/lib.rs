//! The switch core: loader, tables, reference interpreter, traffic manager.
//!
//! A pure state machine, (program, state, time, frame) to frames: no sockets, clocks, threads or
//! randomness. [`Switch`] is the door: give frames with [`Switch::handle_frame`], take what leaves
//! with [`Switch::poll_transmit`] until it gives none. The semantics are those of BMv2's
//! `simple_switch` (v1model); what BMv2 does silently has a [`DropReason`] and a counter here.

mod bits;
pub mod control;
mod drop_reason;
pub mod engine;
mod externs;
mod generator;
mod interpreter;
mod latency;
pub mod limits;
mod match_action;
pub mod program;
mod sharded;
mod switch;
pub mod trace;
mod traffic_manager;
mod v1model;
mod value;

pub use control::{
    ActionCall, CloneSession, ControlError, ControlErrorKind, CounterValue, IdleTimeout,
    MatchField, MeterConfig, MulticastGroup, ProfileGroup, ProfileMember, Replica, TableAction,
    TableEntry, WeightedCall,
};
pub use drop_reason::DropReason;
pub use externs::{digest::Digest, hash::CrcParameters};
pub use generator::{
    GeneratorChange, GeneratorConfig, GeneratorCounters, GeneratorState, GeneratorStatus, Pace,
};
pub use latency::{Latencies, LatencyReport, LatencySummary, RecentMaxima, Stream};
pub use program::{
    ActionId, ActionInfo, ActionProfileId, ActionProfileInfo, CounterId, KeyField, LoadError,
    MatchKind, MeterId, MeterUnit, ParamInfo, Program, RegisterId, TableId, TableInfo, ValueSetId,
};
pub use sharded::ShardedMap;
pub use switch::{
    DrainToken, OwnedTransmit, PortCounters, Switch, SwitchConfig, SwitchCounters, TableCounters,
    Transmit, Transmitted,
};
pub use trace::{SourceLine, TraceEvent, TraceKind, TraceRenderer, TraceSink};

/// Monotonic nanoseconds, given by the caller.
pub type Nanos = u64;

/// A port number: 9 bits in v1model, so 0 to 510; 511 is the drop port.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u16);

impl std::fmt::Display for PortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
