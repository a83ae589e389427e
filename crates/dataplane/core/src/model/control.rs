//! The objects that a control plane reads and writes, modelled on P4Runtime's entities.
//!
//! Values are big-endian byte strings. A byte string that the control plane writes may have any length, if its value
//! fits the width. The switch returns values in canonical form (no leading zero byte, at least one byte), as section
//! 8.4 of P4Runtime 1.4 requires. Protobuf messages and P4Info ids are not part of this module.

use serde::{Deserialize, Serialize};

use super::{ActionId, PortId, TableId};

/// An entry of a match-action table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// One match per key field, in the key's order.
    pub key: Vec<MatchField>,
    /// The numerically higher priority wins; 0 if the table has no ternary, range or optional field.
    pub priority: i32,
    /// The action that a hit runs.
    pub action: TableAction,
    /// Whether the program declares the entry as constant; ignored on writing.
    pub is_const: bool,
    /// The direct counter; zero if the table has none.
    pub counter: CounterValue,
    /// The direct meter; `None` colours every packet green.
    pub meter: Option<MeterConfig>,
    /// Packets and bytes of the direct meter by colour; ignored on writing.
    pub meter_counts: MeterCounts,
    /// [`crate::Switch::poll_idle_timeout`] reports the entry after this many nanoseconds without a hit; with 0, it
    /// never reports the entry.
    pub idle_timeout_ns: u64,
    /// Nanoseconds since the last hit, or since the entry was made; ignored on writing.
    pub since_last_hit_ns: u64,
}

impl TableEntry {
    /// An entry without meter and idle timeout, with its counter at zero.
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

/// BMv2's number for a table entry. The low 24 bits are the entry's slot in its table: the lowest slot that was free
/// when the entry was made. The high 8 bits count the earlier entries of this slot, modulo 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryHandle(pub u32);

impl EntryHandle {
    const PLACE_BITS: u32 = 24;

    /// Returns `None` if the slot does not fit into 24 bits.
    pub(crate) fn new(place: usize, version: u8) -> Option<Self> {
        let place = u32::try_from(place).ok()?;
        let version = u32::from(version) << Self::PLACE_BITS;
        (place >> Self::PLACE_BITS == 0).then_some(Self(version | place))
    }

    /// The slot in the table, from 0.
    pub fn place(self) -> usize {
        (self.0 & ((1 << Self::PLACE_BITS) - 1)) as usize
    }
}

/// The action, member or group that an entry or a default action selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TableAction {
    /// An action. A table with an action profile allows it only as default action.
    Call(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's action selector.
    Group(u32),
    /// A group that belongs to this entry alone (P4Runtime's one-shot programming).
    OneShot(Vec<WeightedCall>),
}

impl From<ActionCall> for TableAction {
    fn from(call: ActionCall) -> Self {
        Self::Call(call)
    }
}

impl TableAction {
    /// The action call; `None` if a member or a group is selected.
    pub fn call(&self) -> Option<&ActionCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }
}

/// An action and its weight in a one-shot group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeightedCall {
    /// The action with its arguments.
    pub call: ActionCall,
    /// At least 1.
    pub weight: u32,
    /// If set, the group selects the action only while this port is up.
    pub watch: Option<PortId>,
}

/// A member of an action profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileMember {
    /// Chosen by the control plane.
    pub id: u32,
    /// The action that the member runs.
    pub action: ActionCall,
}

/// A group of an action selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileGroup {
    /// Chosen by the control plane.
    pub id: u32,
    /// Upper bound of the sum of weights, or of the number of members; 0 is no bound. Fixed while the group exists.
    pub max_size: u32,
    /// Whether `max_size` counts members instead of weights.
    pub counts_members: bool,
    /// Ids of members, each with a weight of at least 1. The switch returns the members in the order of the positions
    /// that the hash selects from.
    pub members: Vec<(u32, u32)>,
    /// Ids of members that watch a port, each with this port. The group selects such a member only while its port is
    /// up. The switch returns these members in the order of `members`.
    pub watched: Vec<(u32, PortId)>,
}

/// Configuration of a three-colour marker: two rates (RFC 2698), or one rate (RFC 2697) if `excess_burst` is set. The
/// program decides whether a unit is a byte or a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterConfig {
    /// Units per second that are green.
    pub committed_rate: u64,
    /// Units in the committed bucket.
    pub committed_burst: u64,
    /// Units per second that are not red; at least the committed rate.
    pub peak_rate: u64,
    /// Units in the peak bucket.
    pub peak_burst: u64,
    /// Units in the excess bucket, which fills once the committed bucket is full. If not 0, peak rate and burst are
    /// ignored.
    pub excess_burst: u64,
}

/// Packets and bytes that a meter has seen, by resulting colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterCounts {
    /// Packets within the committed rate, and all packets while the meter has no configuration.
    pub green: CounterValue,
    /// Packets above the committed rate, within the peak rate or the excess burst.
    pub yellow: CounterValue,
    /// Packets above the peak rate or beyond the excess burst.
    pub red: CounterValue,
}

/// A report that an entry had no hit for its idle timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleTimeout {
    /// The table of the entry.
    pub table: TableId,
    /// The entry at the time of the report.
    pub entry: TableEntry,
}

/// The match of one key field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchField {
    /// Equals this value.
    Exact(Vec<u8>),
    /// Has the same leading `prefix_len` bits.
    Lpm {
        /// The prefix; bits after it are zero.
        value: Vec<u8>,
        /// Number of bits that are compared; 0 matches everything.
        prefix_len: u32,
    },
    /// Equals `value` in the bits of `mask`; a zero mask matches everything.
    Ternary {
        /// Zero in every bit where the mask is zero.
        value: Vec<u8>,
        /// The bits that are compared.
        mask: Vec<u8>,
    },
    /// Lies in a closed interval.
    Range {
        /// The lowest match.
        low: Vec<u8>,
        /// The highest match.
        high: Vec<u8>,
    },
    /// Equals this value; `None` matches everything.
    Optional(Option<Vec<u8>>),
}

/// An action and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActionCall {
    /// The action to run.
    pub action: ActionId,
    /// One byte string per parameter, in the parameters' order.
    pub args: Vec<Vec<u8>>,
}

/// A counter cell. It counts both packets and bytes, whatever the program declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct CounterValue {
    /// Packets counted.
    pub packets: u64,
    /// Bytes counted, by the packet's length when it entered the control.
    pub bytes: u64,
}

impl CounterValue {
    pub(crate) fn packet(bytes: usize) -> Self {
        Self {
            packets: 1,
            bytes: bytes as u64,
        }
    }

    /// Adds modulo 2^64.
    pub(crate) fn add(&mut self, counted: Self) {
        self.packets = self.packets.wrapping_add(counted.packets);
        self.bytes = self.bytes.wrapping_add(counted.bytes);
    }
}

/// One copy that a multicast group or clone session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replica {
    /// The copy's output port.
    pub port: PortId,
    /// The copy's `egress_rid`.
    pub instance: u16,
}

/// A set of replicas that `mcast_grp` selects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastGroup {
    /// The value of `mcast_grp`; at least 1.
    pub id: u32,
    /// The replicas, in the order in which the switch makes the copies.
    pub replicas: Vec<Replica>,
    /// The backups of the replica with the same index in `replicas`; may be shorter than `replicas`. While a replica's
    /// port is down, the replica's first backup with a port that is up replaces it. If the ports of all backups are
    /// down too, the copy goes to the replica's own port.
    pub backups: Vec<Vec<Replica>>,
}

/// A set of replicas that `clone` selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneSession {
    /// The session argument of `clone`.
    pub id: u32,
    /// The replicas, in the order in which the switch makes the copies.
    pub replicas: Vec<Replica>,
    /// Clones are truncated to this length when they leave; `None` is no truncation.
    pub truncate_bytes: Option<u32>,
    /// The output queue for the clones; 0 means the queue that the packet's priority selects.
    pub class_of_service: u32,
}

/// The destination of a BMv2 mirroring session: a port, a multicast group with its replicas at the time of the clone,
/// both, or neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Output port of a clone with `egress_rid` 0.
    pub port: Option<PortId>,
    /// A multicast group, which need not exist yet.
    pub group: Option<u32>,
}

/// A message that the program sends to the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Name of the digest (the struct) in the BMv2 JSON.
    pub name: String,
    /// One canonical value per member.
    pub members: Vec<Vec<u8>>,
}

/// CRC parameters in the Rocksoft model, without the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrcParameters {
    /// The polynomial without its highest term.
    pub polynomial: u64,
    /// The remainder's initial value.
    pub initial: u64,
    /// The value XORed with the result.
    pub xor_out: u64,
    /// Whether each byte is processed lowest bit first.
    pub reflect_in: bool,
    /// Whether the bits of the final remainder are reversed.
    pub reflect_out: bool,
}
