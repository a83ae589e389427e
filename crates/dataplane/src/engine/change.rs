//! What control calls change, as whoever has derived something from it is told of it: the engine,
//! and an offload beside it ([`crate::offload`]).

use std::ops::Range;

use crate::{
    ActionProfileId, MeterId, PortId, RegisterId, TableId, ValueSetId,
    match_action::EntryIndex,
    program::ir::{CalculationId, Matcher},
};

/// What a control call has changed of what packets can see. Told after it is done, each change by
/// itself, in the order in which they are made. Counters are not told: no packet reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// A table; the accounts of its entries may have moved.
    Table(TableId, TableChange<'a>),
    /// Members or groups of an action profile.
    Profile(ActionProfileId),
    /// The members of a parser value set.
    ValueSet(ValueSetId),
    /// The parameters of a custom CRC.
    Calculation(CalculationId),
    /// Cells of a register.
    Register(RegisterId, Range<usize>),
    /// The rates of a cell of a meter, whose buckets are full.
    Meter(MeterId, usize),
    /// The replicas of a multicast group, or that it is gone.
    MulticastGroup(u32),
    /// What a clone session makes, or that it is gone.
    CloneSession(u32),
    /// There is a new port. None is ever taken away.
    Port(PortId),
}

/// What happened to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableChange<'a> {
    /// There is a new entry: [`State::entry`](super::State::entry).
    Inserted(EntryIndex),
    /// The entry runs something else, or has another meter or idle timeout.
    Modified(EntryIndex),
    /// The entry is gone; its index may be given again.
    Removed {
        /// Where it was.
        entry: EntryIndex,
        /// Its key.
        key: &'a [Matcher],
        /// Its priority.
        priority: i32,
    },
    /// A miss runs something else: [`State::default_action`](super::State::default_action).
    Default,
}
