//! The switch core: loader, tables, reference interpreter, traffic manager.
//!
//! A pure state machine, (program, state, time, frame) to frames: no sockets, clocks, threads or
//! randomness. [`Switch`] is the door: give frames with [`Switch::handle_frame`], take what leaves
//! with [`Switch::poll_transmit`] until it gives none. The semantics are those of BMv2's
//! `simple_switch` (v1model); what BMv2 does silently has a [`DropReason`] and a counter here.

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
pub use model::{
    ActionCall, ActionId, ActionProfileId, CloneSession, ControlError, ControlErrorKind, CounterId,
    CounterValue, CrcParameters, Digest, DropReason, EntryHandle, GeneratorChange, GeneratorConfig,
    GeneratorCounters, GeneratorState, GeneratorStatus, IdleTimeout, MatchField, MeterConfig,
    MeterCounts, MeterId, Mirror, MulticastGroup, Nanos, OwnedTransmit, Pace, PortCounters, PortId,
    ProfileGroup, ProfileMember, RegisterId, Replica, ShardedMap, Stream, SwitchConfig,
    SwitchCounters, TableAction, TableCounters, TableEntry, TableId, Transmit, Transmitted,
    ValueSetId, WeightedCall, limits,
};
pub(crate) use model::{Controlled, Frame, bits, color, invalid, missing, refuse, value};
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
