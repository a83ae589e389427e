//! What a control plane reads and writes: the data that P4Runtime's entities become.
//!
//! Values are big endian byte strings of any length whose value fits the width; what the switch
//! gives back is canonical (no leading zero byte, at least one byte), as P4Runtime 1.4 asks in
//! section 8.4. Not here: protobuf messages, P4Info ids.

use serde::{Deserialize, Serialize};

use super::{ActionId, PortId, TableId};

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// One match a key field, in the key's order.
    pub key: Vec<MatchField>,
    /// The numerically higher wins; 0 where the table has no ternary, range or optional field.
    pub priority: i32,
    /// What a hit runs.
    pub action: TableAction,
    /// Fixed by the program; ignored on writing.
    pub is_const: bool,
    /// The direct counter; zero where the table has none.
    pub counter: CounterValue,
    /// The direct meter; none is green.
    pub meter: Option<MeterConfig>,
    /// What the direct meter has counted; ignored on writing.
    pub meter_counts: MeterCounts,
    /// Nanoseconds without a hit after which [`crate::Switch::poll_idle_timeout`] tells; 0 is never.
    pub idle_timeout_ns: u64,
    /// Nanoseconds since the last hit, or since the entry was made; ignored on writing.
    pub since_last_hit_ns: u64,
}

impl TableEntry {
    /// An entry without meter and idle timeout whose counter begins at zero.
    pub fn new(key: Vec<MatchField>, priority: i32, action: impl Into<TableAction>) -> Self {
        Self {
            key,
            priority,
            action: action.into(),
            is_const: false,
            counter: CounterValue::default(),
            meter: None,
            meter_counts: MeterCounts::default(),
            idle_timeout_ns: 0,
            since_last_hit_ns: 0,
        }
    }
}

/// BMv2's number of an entry in its table: the place, the lowest that was free when the entry was made, and
/// in the highest eight bits how many entries had the place before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryHandle(pub u32);

impl EntryHandle {
    const PLACE_BITS: u32 = 24;

    /// None where the place does not fit.
    pub(crate) fn new(place: usize, version: u8) -> Option<Self> {
        let place = u32::try_from(place).ok()?;
        let version = u32::from(version) << Self::PLACE_BITS;
        (place >> Self::PLACE_BITS == 0).then_some(Self(version | place))
    }

    /// Of the table's places, from 0.
    pub fn place(self) -> usize {
        (self.0 & ((1 << Self::PLACE_BITS) - 1)) as usize
    }
}

/// What an entry or a default action runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TableAction {
    /// An action; in a table with an action profile as default action only.
    Call(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's action selector.
    Group(u32),
    /// A group that belongs to this entry alone.
    OneShot(Vec<WeightedCall>),
}

impl From<ActionCall> for TableAction {
    fn from(call: ActionCall) -> Self {
        Self::Call(call)
    }
}

impl TableAction {
    /// The action, where it is one.
    pub fn call(&self) -> Option<&ActionCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }
}

/// An action and its share of a one-shot group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeightedCall {
    /// The action.
    pub call: ActionCall,
    /// From 1.
    pub weight: u32,
    /// It takes part only while this port is up.
    pub watch: Option<PortId>,
}

/// A member of an action profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileMember {
    /// Chosen by the control plane.
    pub id: u32,
    /// What it runs.
    pub action: ActionCall,
}

/// A group of an action selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileGroup {
    /// Chosen by the control plane.
    pub id: u32,
    /// The sum of the weights at most, or the number of members; 0 is any. It stays as long as the group.
    pub max_size: u32,
    /// `max_size` is of members, whatever their weights.
    pub counts_members: bool,
    /// Ids of members and their weights, from 1; read in the order in which the hash counts them.
    pub members: Vec<(u32, u32)>,
    /// Members that take part only while a port is up; read in the same order.
    pub watched: Vec<(u32, PortId)>,
}

/// Rates of a three-colour marker, in bytes or packets as the program says: of two rates (RFC 2698), or of one
/// (RFC 2697) where there is an excess burst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterConfig {
    /// Units a second that are green.
    pub committed_rate: u64,
    /// Units of the committed bucket.
    pub committed_burst: u64,
    /// Units a second that are not red; not below the committed rate.
    pub peak_rate: u64,
    /// Units of the peak bucket.
    pub peak_burst: u64,
    /// Units of the bucket that takes what the committed one has no room for; where there is one, the peak
    /// rate and burst mean nothing.
    pub excess_burst: u64,
}

/// What a meter has counted, by the colour that it gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterCounts {
    /// Within the committed rate, or without any.
    pub green: CounterValue,
    /// Between the rates.
    pub yellow: CounterValue,
    /// Beyond both.
    pub red: CounterValue,
}

/// An entry that was not hit for as long as its idle timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleTimeout {
    /// Its table.
    pub table: TableId,
    /// The entry as it is.
    pub entry: TableEntry,
}

/// What one field of an entry's key matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchField {
    /// This value.
    Exact(Vec<u8>),
    /// The leading `prefix_len` bits; 0 matches everything.
    Lpm {
        /// The prefix; bits after it are zero.
        value: Vec<u8>,
        /// How many leading bits count.
        prefix_len: u32,
    },
    /// A value under a mask; a zero mask matches everything.
    Ternary {
        /// The value; zero where the mask is.
        value: Vec<u8>,
        /// The bits that count.
        mask: Vec<u8>,
    },
    /// A closed interval.
    Range {
        /// The first value.
        low: Vec<u8>,
        /// The last value.
        high: Vec<u8>,
    },
    /// This value, or anything.
    Optional(Option<Vec<u8>>),
}

/// An action and its arguments, one byte string a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// The arguments in the parameters' order.
    pub args: Vec<Vec<u8>>,
}

/// A counter cell; packets and bytes are always both counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes, as the packet was when it entered the control.
    pub bytes: u64,
}

impl CounterValue {
    /// One packet of so many bytes.
    pub(crate) fn packet(bytes: usize) -> Self {
        Self {
            packets: 1,
            bytes: bytes as u64,
        }
    }

    /// Counts more, modulo 2^64.
    pub(crate) fn add(&mut self, counted: Self) {
        self.packets = self.packets.wrapping_add(counted.packets);
        self.bytes = self.bytes.wrapping_add(counted.bytes);
    }
}

/// One copy that a multicast group or clone session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replica {
    /// Where the copy goes.
    pub port: PortId,
    /// What the copy finds in `egress_rid`.
    pub instance: u16,
}

/// A multicast group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastGroup {
    /// What the program writes to `mcast_grp`; from 1.
    pub id: u32,
    /// The copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
    /// By the place of its replica: what stands in for it while its port is down, the first first; shorter where
    /// the last ones have none. Where all are down, the copy goes to the replica's own port.
    pub backups: Vec<Vec<Replica>>,
}

/// A clone session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneSession {
    /// What the program gives to `clone`.
    pub id: u32,
    /// The copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
    /// Clones are cut to so many bytes on leaving; none leaves them whole.
    pub truncate_bytes: Option<u32>,
    /// Queue of the clone at its port.
    pub class_of_service: u32,
}

/// Where BMv2's mirroring sessions go: to a port, to a multicast group as it is when a clone is made, to both,
/// or nowhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// An output port; the clone's instance is 0.
    pub port: Option<PortId>,
    /// A multicast group, which need not be there yet.
    pub group: Option<u32>,
}

/// A digest message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Name of the digest (the struct) in the BMv2 JSON.
    pub name: String,
    /// One value a member, canonical.
    pub members: Vec<Vec<u8>>,
}

/// The parameters of a CRC in the Rocksoft model, without its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrcParameters {
    /// The polynomial without its highest term.
    pub polynomial: u64,
    /// What the remainder is at the beginning.
    pub initial: u64,
    /// What the result is combined with by exclusive or.
    pub xor_out: u64,
    /// Each byte goes in with its lowest bit first.
    pub reflect_in: bool,
    /// The remainder's bits are turned around at the end.
    pub reflect_out: bool,
}
