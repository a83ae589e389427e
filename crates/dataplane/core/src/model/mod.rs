//! The data types that all other modules use: ids, control-plane values, counters, errors, limits,
//! drop reasons. The module uses no other module of the crate.

pub(crate) mod bits;
pub mod color;
mod config;
mod control;
mod counters;
mod drop_reason;
mod error;
mod frame;
mod generator;
mod id;
pub mod limits;
mod sharded;
pub(crate) mod value;

pub use config::SwitchConfig;
pub use control::{
    ActionCall, CloneSession, CounterValue, CrcParameters, Digest, EntryHandle, IdleTimeout,
    MatchField, MeterConfig, MeterCounts, Mirror, MulticastGroup, ProfileGroup, ProfileMember,
    Replica, TableAction, TableEntry, WeightedCall,
};
pub use counters::{PortCounters, SwitchCounters, TableCounters};
pub use drop_reason::DropReason;
pub use error::{ControlError, ControlErrorKind};
pub(crate) use error::{Controlled, invalid, missing, refuse};
pub use frame::{Frame, OwnedTransmit, Transmit, Transmitted};
pub use generator::{
    GeneratorChange, GeneratorConfig, GeneratorCounters, GeneratorState, GeneratorStatus, Pace,
};
pub(crate) use id::PortSet;
pub use id::{
    ActionId, ActionProfileId, CounterId, MeterId, Nanos, PortId, RegisterId, Stream, TableId,
    ValueSetId,
};
pub use sharded::ShardedMap;
