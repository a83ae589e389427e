//! The switch core: loader, tables, reference interpreter, traffic manager.
//!
//! The crate is a pure state machine from (program, state, time, frame) to frames, without sockets,
//! clocks, threads or randomness. Callers use [`Switch`]: they give it frames with
//! [`Switch::handle_frame`] and call [`Switch::poll_transmit`] until it returns `None`. The
//! semantics are those of BMv2's `simple_switch` (v1model); where BMv2 drops silently, this crate
//! has a [`DropReason`] and a counter.
#![warn(missing_docs)]

pub mod engine;
mod externs;
mod interpreter;
mod match_action;
mod model;
pub mod offload;
pub mod program;
mod switch;
pub mod trace;
mod traffic_manager;
mod v1model;

pub use externs::meter::MeterSnapshot;
pub use externs::payload::{PayloadBatch, PayloadCopy, PayloadExtern};
pub use interpreter::parts as interpret;
pub use match_action::{EntrySnapshot, ProfileSnapshot};
pub use model::color;
pub use model::{
    ActionCall, ActionId, ActionProfileId, CloneSession, ControlError, ControlErrorKind, CounterId,
    CounterValue, CrcParameters, Digest, DropReason, EntryHandle, GeneratorChange, GeneratorConfig,
    GeneratorCounters, GeneratorState, GeneratorStatus, IdleTimeout, MatchField, MeterConfig,
    MeterCounts, MeterId, Mirror, MulticastGroup, Nanos, OwnedTransmit, Pace, PortCounters, PortId,
    ProfileGroup, ProfileMember, RegisterId, Replica, ShardedMap, Stream, SwitchConfig,
    SwitchCounters, TableAction, TableCounters, TableEntry, TableId, Transmit, Transmitted,
    ValueSetId, WeightedCall, limits,
};
pub(crate) use model::{Controlled, Frame, bits, invalid, missing, refuse, value};
pub use offload::{Offload, OffloadNotice, OffloadStatus};
pub use program::{
    ActionInfo, KeyField, LoadError, MatchKind, MeterUnit, ParamInfo, PayloadSignature, Program,
    TableInfo, ir::SourceLine,
};
pub use switch::ready::{ProgramLoader, ReadyProgram};
pub use switch::{DrainToken, Switch};
pub use trace::{
    Bmv2Line, Bmv2Renderer, Severity, TraceEvent, TraceIndex, TraceKind, TraceRenderer, TraceSink,
};
pub use traffic_manager::latency::{Latencies, LatencyReport, LatencySummary, RecentMaxima};
pub use traffic_manager::queue::Queues;
