//! Changes by control calls, as reported to the engine and to an offload ([`crate::offload`]),
//! which derive state from them.

use std::ops::Range;

use crate::{
    ActionProfileId, MeterId, PortId, RegisterId, TableId, ValueSetId,
    match_action::EntryIndex,
    program::ir::{CalculationId, Matcher},
};

/// A change by a control call that packets can observe. The switch makes a change, then reports it; it reports one
/// change at a time, in order. Writes to counters are not reported: no packet reads a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// A table changed. The slice that [`State::accounts`](super::State::accounts) returns may have moved in memory.
    Table(TableId, TableChange<'a>),
    /// Members or groups of an action profile changed.
    Profile(ActionProfileId),
    /// The members of a parser value set changed.
    ValueSet(ValueSetId),
    /// The parameters of a custom CRC changed.
    Calculation(CalculationId),
    /// Cells of a register changed.
    Register(RegisterId, Range<usize>),
    /// The rates of a meter cell changed; its buckets are full again.
    Meter(MeterId, usize),
    /// The replicas of a multicast group changed, or the group was deleted.
    MulticastGroup(u32),
    /// A clone session changed or was deleted.
    CloneSession(u32),
    /// A port was added. Ports are never removed.
    Port(PortId),
}

/// The kind of a table change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableChange<'a> {
    /// An entry was added; [`State::entry`](super::State::entry) returns it.
    Inserted(EntryIndex),
    /// The action or idle timeout of an entry changed.
    Modified(EntryIndex),
    /// The rates of an entry's meter were set; its buckets are full again.
    Metered(EntryIndex),
    /// An entry was removed; its index may be reused.
    Removed {
        /// Its former index.
        entry: EntryIndex,
        /// Its former key.
        key: &'a [Matcher],
        /// Its former priority.
        priority: i32,
    },
    /// The default action changed; [`State::default_action`](super::State::default_action) returns it.
    Default,
}
