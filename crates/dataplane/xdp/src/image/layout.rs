//! The layout of the maps of a compiled program ([`super::Image`]): where the program finds what the loader writes.

use dataplane::{ActionId, CounterId, DropReason, PortId, Replica, TableId};

use super::MapRef;

/// The version that marks a slot as unused. A table entry has two slots ([`Body`]), each with an action that is valid
/// for some versions of the tables.
pub const NEVER: u64 = u64::MAX;

/// Stands in a slot in place of an action: there is no entry.
pub const ACTION_MISS: u32 = u32::MAX;
/// Stands in a slot in place of an action: punt the packet.
pub const ACTION_PUNT: u32 = u32::MAX - 1;
/// Stands in a slot in place of an action: do nothing.
pub const ACTION_NONE: u32 = u32::MAX - 2;

/// Offsets in bytes in the heap. The heap is the only value of the map [`super::MapRole::Heap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heap {
    pub bytes: u32,
    /// The version that packets see, 8 bytes.
    pub version: u32,
    /// The switch's clock minus `CLOCK_MONOTONIC` in nanoseconds, 8 bytes.
    pub clock: u32,
    /// The first [`Interface`].
    pub interfaces: u32,
    pub n_interfaces: u32,
    /// The first port's word, 4 bytes; see [`Heap::port`].
    pub ports: u32,
    /// The first processor's word, 8 bytes; see [`Heap::polls`].
    pub processors: u32,
    pub n_processors: u32,
}

impl Heap {
    /// The number of v1model's ports, including the drop port.
    pub const N_PORTS: u32 = 512;
    /// Log2 of the distance of processors' words, in bytes. The distance is two cache lines, because some processors
    /// fetch lines in pairs.
    pub const PROCESSOR_SHIFT: u32 = 7;

    /// Returns an interface's offset, or `None` if there is no room for its number.
    pub fn interface(&self, index: u32) -> Option<u32> {
        (index < self.n_interfaces).then(|| self.interfaces + index * Interface::BYTES)
    }

    /// Returns the offset of a port's word. The word is the length of the longest frame, as received, that may be
    /// forwarded to the port, or 0 if nothing may be forwarded to the port.
    pub fn port(&self, port: PortId) -> u32 {
        self.ports + 4 * u32::from(port.0)
    }

    /// Returns the offset of each processor's word, 8 bytes. The word counts the beginnings and ends of NAPI polls in
    /// which the program handles packets. It is odd during such a poll.
    pub fn polls(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.processors;
        (0..self.n_processors).map(move |processor| first + (processor << Self::PROCESSOR_SHIFT))
    }
}

/// The description of an interface for the program: two words of 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// `None` if the interface is not a port of the switch; its frames then go to the host.
    pub port: Option<PortId>,
    /// The position of the interface's first receive queue in the socket map.
    pub sockets: u32,
}

impl Interface {
    /// Size in the heap.
    pub const BYTES: u32 = 8;

    /// Encodes the description for the heap: the port plus 1, or 0 without a port; then the position of the sockets.
    pub fn to_bytes(self) -> [u8; 8] {
        let port = self.port.map_or(0, |port| u32::from(port.0) + 1);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&port.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.sockets.to_ne_bytes());
        bytes
    }
}

/// Numbers of the counters that the compiled program increments. For each processor, each counter has a number of
/// packets and a number of bytes, 8 bytes each. A field of this struct is the number of the first counter of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    pub n: u32,
    /// Received frames that were not punted, by port.
    pub received: u32,
    /// Sent frames, by port.
    pub sent: u32,
    /// Drops, by position in [`DropReason::ALL`].
    pub dropped: u32,
    /// Digests lost because the ring buffer was full.
    pub digests_lost: u32,
    /// Replicated packets. Instead of bytes, this counter counts the copies beyond the first.
    pub replicated: u32,
    /// The counter of misses (body 0) of each table, by [`TableId`].
    pub tables: Vec<u32>,
    /// For each counter of the P4 program, the number of its first cell's counter; `None` if the action that counts is
    /// punted.
    pub cells: Vec<Option<u32>>,
    /// The first counter of meters' colours ([`super::MeterLayout`]); only such counters follow it.
    pub colors: u32,
}

impl Counters {
    pub fn received_by(&self, port: PortId) -> u32 {
        self.received + u32::from(port.0)
    }

    pub fn dropped_for(&self, reason: DropReason) -> u32 {
        self.dropped + reason as u32
    }

    /// Returns the number of the counter of packets that hit a body of a table; the counter of body 0 counts the
    /// misses.
    pub fn body(&self, table: TableId, body: u32) -> u32 {
        self.tables[table.index()] + body
    }

    pub fn cell(&self, counter: CounterId, cell: u32) -> Option<u32> {
        self.cells[counter.index()].map(|first| first + cell)
    }
}

/// Layout of the bodies of table entries: a body is an entry's memory. It consists of the following, 8 bytes each:
/// - the version from which slot 0 is valid, and the version from which slot 1 is valid,
/// - a link. With [`Index::Ternary`] the link is the entry's rank, which is not 0 and is constant while the entry
///   exists. Of all matching entries, the entry with the greatest rank wins. With [`Index::Lpm`] the link is the number
///   of the body of the next shorter prefix, whether that prefix is visible or not, or 0 if there is none. With other
///   indices a body has no link,
/// - slot 0: its action, then its arguments; slot 1 likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// Offset of body 0 in the heap.
    pub first: u32,
    pub stride: u32,
    pub n: u32,
    /// Offset of the rank or the next shorter prefix in a body, if there is one.
    pub link: Option<u32>,
    /// Offsets of the slots in a body.
    pub slots: [u32; 2],
}

impl Body {
    /// Offset of the action in a slot, 8 bytes.
    pub const ACTION: u32 = 0;
    /// Offset of the arguments in a slot.
    pub const ARGS: u32 = 8;

    /// Returns a body's offset in the heap.
    pub fn at(&self, number: u32) -> u32 {
        self.first + number * self.stride
    }

    pub(crate) fn new(first: u32, n: u32, has_link: bool, arg_words: u32) -> Self {
        let head = 16 + if has_link { 8 } else { 0 };
        let slot = Self::ARGS + 8 * arg_words;
        Self {
            first,
            stride: head + 2 * slot,
            n,
            link: has_link.then_some(16),
            slots: [head, head + slot],
        }
    }
}

/// Layout of a field in a map's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPart {
    pub bits: u32,
    pub at: u32,
    pub bytes: u32,
}

/// Byte order of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// Each field in host byte order; a field of more than 8 bytes as 8-byte words, the least significant word first.
    Host,
    /// Each field in network byte order, zero-padded in front; the last field, the prefix, is zero-padded at its end.
    Network,
}

/// How a table's keys lead to bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Index {
    /// The table has no key: all packets find body 0.
    None,
    /// The fields are concatenated, the first field in the highest bits. The result is a position in an array in the
    /// heap. The array holds the numbers of bodies, 4 bytes each; 0 means that there is no entry.
    Direct {
        /// Offset of the array in the heap.
        at: u32,
        /// Bits of all fields together.
        bits: u32,
    },
    Hash {
        map: MapRef,
        parts: Vec<KeyPart>,
        /// Size of the key. Bytes outside all parts are zero.
        key_bytes: u32,
    },
    /// A trie that leads from prefixes to bodies. The key consists of the prefix length in bits (4 bytes in host
    /// order), the exact fields, and the `lpm` field, in this order.
    Lpm {
        map: MapRef,
        /// The fields in the key, in the table's order.
        parts: Vec<KeyPart>,
        /// Position of the `lpm` field in the table.
        prefix: usize,
        /// Size of the key, including the length.
        key_bytes: u32,
    },
    /// A hash map from mask number and masked key to body. The map's key is the mask's number, 4 bytes, followed by the
    /// masked fields as in [`Index::Hash`]. The masks are in the heap, each as long as the map's key, with 4 zero bytes
    /// in place of the number. Entries with equal mask and value but different priorities need different mask numbers,
    /// so the heap may hold one mask several times. The greatest rank ([`Body`]) of all matching entries wins.
    Ternary {
        map: MapRef,
        parts: Vec<KeyPart>,
        /// Size of the key, including the number; a multiple of 8.
        key_bytes: u32,
        /// Offset of the number of masks in the heap, 4 bytes. Masks are added before the entries that need them, and
        /// removed from the end of the list a grace period after these entries. A mask without entries may be replaced
        /// by another mask. This must happen at least a grace period after the old mask's entries are gone, and at
        /// least a grace period before the new mask's first entry is added.
        n_masks: u32,
        /// Offset of the first mask in the heap.
        masks: u32,
        n_masks_max: u32,
    },
    /// Packets that reach the table are punted; the loader writes nothing for the table.
    Left,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLayout {
    /// How keys lead to bodies.
    pub index: Index,
    /// Width in bits of each field of the key.
    pub key_bits: Vec<u32>,
    pub body: Body,
    /// The actions, by their number in a slot.
    pub actions: Vec<ActionId>,
    /// Width in bits of each argument, by action number. An argument takes whole words of 8 bytes, at least one,
    /// lowest first.
    pub args: Vec<Vec<u32>>,
}

impl TableLayout {
    /// Returns an action's number in a slot. An action without a number must be written as [`ACTION_PUNT`].
    pub fn action_number(&self, action: ActionId) -> Option<u32> {
        let position = self.actions.iter().position(|other| *other == action)?;
        u32::try_from(position).ok()
    }

    /// Returns how many words of 8 bytes a value of `bits` bits takes.
    pub fn words(bits: u32) -> u32 {
        bits.div_ceil(64).max(1)
    }
}

/// How a loader writes multicast groups into the maps.
///
/// [`FanOut::groups`] is a table whose key is the group's number. Its only action has the arguments of [`GroupArg`].
/// A group that does not exist has no body, or a slot with [`ACTION_MISS`].
///
/// A fan-out is a number for one version of a group. For each fan-out, the map [`FanOut::devices`] has a device map
/// with values of 8 bytes (`struct bpf_devmap_val`), one for each replica in the group's order, with
/// [`super::Image::egress`] as program. For each pair of fan-out and port, 4 bytes each, [`FanOut::places`] has the
/// position of the port's first replica in the array of instances, 4 bytes. In that array, the instances
/// (`egress_rid`) of this port's replicas follow each other in the group's order, 4 bytes each. All of this is
/// written before the group's body, and removed a grace period after the group has changed.
///
/// If a group has a replica at a port to which the program does not forward, the group must be written as
/// [`ACTION_PUNT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FanOut {
    pub groups: TableLayout,
    pub devices: MapRef,
    pub places: MapRef,
    /// What each processor knows of its current NAPI poll: [`Polls`].
    pub polls: MapRef,
    /// Offset of the array of instances in the heap.
    pub instances: u32,
    /// Room for instances; a power of two.
    pub n_instances: u32,
    /// Bytes of XDP metadata in front of each copy's frame. The driver's headroom must have room for these and for
    /// headers that egress adds.
    pub note_bytes: u32,
    /// Tables that egress applies to copies.
    pub tables: Vec<TableId>,
}

/// The layout of an origin. An origin says, as XDP metadata in front of a leaving frame, when the packet arrived and
/// which group it went to. A copy's metadata begins with an origin. A packet to one port has only an origin, or no
/// metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin;

impl Origin {
    /// Size in front of a packet to one port.
    pub const BYTES: u32 = 16;
    /// Offset of the arrival time, `CLOCK_MONOTONIC` in nanoseconds, 8 bytes.
    pub const ARRIVAL: i16 = 0;
    /// Offset of 8 bytes that hold the group if the frame is a copy, and 0 if it is not.
    pub const STREAM: i16 = 8;
}

/// Offsets in a processor's scratch memory: of words of 8 bytes that say what happened to the processor's last packet,
/// and of the journal's entries of 4 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// How the packet ended: 0 dropped, 1 sent by a port, 2 replicated, 3 dropped before replication.
    pub end: u32,
    /// Position of the drop reason in [`DropReason::ALL`].
    pub reason: u32,
    pub out_port: u32,
    /// The journal lists the counters that the packet increments. The first vector has the journal's entries for the
    /// program of the ports, the second vector has the entries for the program of the copies.
    pub journals: [Vec<Noted>; 2],
}

/// An entry of a packet's journal, the list of counters that it increments. A value n other than 0 stands for the
/// counter `first + n - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Offset in the scratch memory.
    pub at: u32,
    /// Number of the first counter.
    pub first: u32,
}

/// The arguments of a group's action, by word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupArg {
    FanOut = 0,
    /// Number of replicas; 0 drops the packet.
    Replicas = 1,
    /// 1 plus the port that all replicas leave by; 0 if they leave by several ports.
    Port = 2,
    /// Length of the longest packet, as received, of which copies may be made: the minimum over the ports.
    Longest = 3,
}

impl GroupArg {
    pub const N: u32 = 4;

    pub fn port_of(replicas: &[Replica]) -> u32 {
        let mut ports = replicas.iter().map(|replica| replica.port);
        match ports.next() {
            Some(port) if ports.all(|other| other == port) => u32::from(port.0) + 1,
            _ => 0,
        }
    }
}

/// What a processor knows of its current NAPI poll. A NAPI poll is one run of a driver's poll function; after it,
/// receivers are notified of the copies. The map [`super::MapRole::Polls`] has one value for each processor. The value
/// begins with the poll's number, 4 bytes, which the loader increments after each poll. Then follows what program and
/// loader know of each port, at the position that [`GroupArg::Port`] gives. All is zero at first.
///
/// A device that has refused copies within a poll takes no more copies before the poll ends, because the receivers are
/// notified only then and make no room before. So the program drops a packet if its copies would exceed
/// [`Polls::LIMIT`]. It drops the packet before it makes the copies, because the device would refuse them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polls;

impl Polls {
    /// Log2 of the size of a port's part.
    pub const SHIFT: u32 = 5;
    pub const BYTES: u32 = (Heap::N_PORTS + 1) << Self::SHIFT;
    /// Offset of the current poll's number in the value.
    pub const NUMBER: i16 = 0;
    /// Offset, in a port's part, of the number of the last poll in which copies for the port were made, 4 bytes.
    pub const POLL: i16 = 0;
    /// Offset of the number of copies made in that poll, 4 bytes. The number has bit [`Polls::FULL`] if no more copies
    /// may be made, and is [`Polls::CLOSED`] if some copies were refused.
    pub const MADE: i16 = 4;
    /// Offset of the number of copies of the last packet, 4 bytes.
    pub const LAST: i16 = 8;
    /// Offset of the limit of copies in one poll, 4 bytes. The first packet of a poll is exempt from the limit. The
    /// limit is 0 if no copies were refused.
    pub const LIMIT: i16 = 12;
    /// Offset of the time when the limit was learnt, `CLOCK_MONOTONIC` in nanoseconds, 8 bytes.
    pub const SINCE: i16 = 16;
    /// A limit that no poll reaches.
    pub const ANY: i32 = Self::FULL - 1;
    /// A bit that makes the number of copies exceed every limit.
    pub const FULL: i32 = 1 << 30;
    /// All bits except the sign, including [`Polls::FULL`].
    pub const CLOSED: i32 = i32::MAX;
}
