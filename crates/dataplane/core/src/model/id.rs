//! Identifiers: times, ports, the objects of a program, streams.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Monotonic time in nanoseconds, which the caller reads from its clock.
pub type Nanos = u64;

/// A port number: 9 bits in v1model, so 0 to 510; 511 is the drop port.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
)]
pub struct PortId(pub u16);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct PortSet([u64; 8]);

impl PortSet {
    fn place(port: PortId) -> Option<(usize, u64)> {
        let place = usize::from(port.0 / 64);
        (place < 8).then_some((place, 1 << (port.0 % 64)))
    }

    pub(crate) fn contains(&self, port: PortId) -> bool {
        Self::place(port).is_some_and(|(place, bit)| self.0[place] & bit != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn union(mut self, other: Self) -> Self {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            *ours |= theirs;
        }
        self
    }

    /// Adds or removes a port; returns whether the set changed.
    pub(crate) fn set(&mut self, port: PortId, is_in: bool) -> bool {
        let before = *self;
        if let Some((place, bit)) = Self::place(port) {
            if is_in {
                self.0[place] |= bit;
            } else {
                self.0[place] &= !bit;
            }
        }
        *self != before
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The position among the program's objects of this kind, from 0 without gaps.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A table of the program.
    TableId;
    /// An action. p4c makes a copy of a P4 action for each table that uses it; each copy has its
    /// own id.
    ActionId;
    /// A counter array (not a direct counter).
    CounterId;
    /// A register array.
    RegisterId;
    /// A meter array (not a direct meter).
    MeterId;
    /// An action profile or selector.
    ActionProfileId;
    /// A parser value set.
    ValueSetId;
}

/// The group of packets to which a packet belongs in latency statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Packets that are not copies.
    Unicast,
    /// A replica of this multicast group, or a packet made from a replica.
    MulticastGroup(u32),
    /// A clone of this session, or a packet made from a clone.
    CloneSession(u32),
    /// Any stream beyond the first [`crate::limits::LATENCY_STREAMS_MAX`].
    Other,
}
