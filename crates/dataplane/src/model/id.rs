//! What things are called: times, ports, the objects of a program, streams.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Monotonic nanoseconds, given by the caller.
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

/// A set of ports.
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

    /// The ports that are in one of the two.
    pub(crate) fn union(mut self, other: Self) -> Self {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            *ours |= theirs;
        }
        self
    }

    /// Whether that changes it.
    pub(crate) fn set(&mut self, port: PortId, is_in: bool) -> bool {
        let before = *self;
        if let Some((place, bit)) = Self::place(port) {
            match is_in {
                true => self.0[place] |= bit,
                false => self.0[place] &= !bit,
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
            /// The position among its kind, from 0 without gaps.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A table.
    TableId;
    /// An action; one P4 action has an id for each table that p4c gives a copy to.
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

/// What a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// It is no copy.
    Unicast,
    /// It is a replica of this multicast group, or was made of one.
    MulticastGroup(u32),
    /// It is a clone of this session, or was made of one.
    CloneSession(u32),
    /// It belongs to one of those that are more than [`crate::limits::LATENCY_STREAMS_MAX`].
    Other,
}
