//! Where things are in an image's maps.

use dataplane::{ActionId, CounterId, DropReason, PortId, Replica, TableId};

use super::MapRef;

/// The version of a slot that does not hold.
pub const NEVER: u64 = u64::MAX;

/// A slot's action: the entry is not there.
pub const ACTION_MISS: u32 = u32::MAX;
/// A slot's action: the packet is punted.
pub const ACTION_PUNT: u32 = u32::MAX - 1;
/// A slot's action: nothing runs.
pub const ACTION_NONE: u32 = u32::MAX - 2;

/// Offsets into the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heap {
    /// Bytes in all.
    pub bytes: u32,
    /// Where the version is that packets see, of 8 bytes.
    pub version: u32,
    /// Where the number is that is added to `CLOCK_MONOTONIC` for the switch's clock, in nanoseconds, of 8
    /// bytes.
    pub clock: u32,
    /// Where the first [`Interface`] is.
    pub interfaces: u32,
    /// How many interfaces there is room for.
    pub n_interfaces: u32,
    /// Where the first port's word is, of 4 bytes; see [`Heap::port`].
    pub ports: u32,
    /// Where the first processor's word is, of 8 bytes; see [`Heap::turns`].
    pub processors: u32,
    /// How many processors there is a word for.
    pub n_processors: u32,
}

impl Heap {
    /// Ports of v1model, the drop port included.
    pub const N_PORTS: u32 = 512;
    /// Bytes from one processor's word to the next, as a power of two. Some processors load lines by twos.
    pub const PROCESSOR_SHIFT: u32 = 7;

    /// Where an interface is; none where there is no room for its number.
    pub fn interface(&self, index: u32) -> Option<u32> {
        (index < self.n_interfaces).then(|| self.interfaces + index * Interface::BYTES)
    }

    /// Where it says of a port how long a frame may be that is forwarded to it, as it came; 0 where none is.
    pub fn port(&self, port: PortId) -> u32 {
        self.ports + 4 * u32::from(port.0)
    }

    /// Where each processor's word is, of 8 bytes: how often it has begun and ended a turn with packets of the program.
    /// It is odd within such a turn.
    pub fn turns(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.processors;
        (0..self.n_processors).map(move |processor| first + (processor << Self::PROCESSOR_SHIFT))
    }
}

/// What is known of an interface: two words of 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The port that it is; none where it is none of ours, and its frames go to the host.
    pub port: Option<PortId>,
    /// Where its first receive queue is among the sockets.
    pub sockets: u32,
}

impl Interface {
    /// Bytes in the heap.
    pub const BYTES: u32 = 8;

    /// As the heap has it: 1 more than the port, then the sockets.
    pub fn to_bytes(self) -> [u8; 8] {
        let port = self.port.map_or(0, |port| u32::from(port.0) + 1);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&port.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.sockets.to_ne_bytes());
        bytes
    }
}

/// Numbers of counters. Each has its packets and its bytes, 8 bytes each, for each processor. "First" is
/// the number of the first one of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// How many there are.
    pub n: u32,
    /// Frames that came by a port and were not punted, by port.
    pub received: u32,
    /// Frames that were sent by a port, by port.
    pub sent: u32,
    /// Drops, by position in [`DropReason::ALL`].
    pub dropped: u32,
    /// Digests that the ring had no room for.
    pub digests_lost: u32,
    /// Packets that were replicated, and in place of the bytes the copies made of them beyond one.
    pub replicated: u32,
    /// The bodies of a table, by [`TableId`].
    pub tables: Vec<u32>,
    /// The cells of a counter, by [`CounterId`]; none where the program's counting is left.
    pub cells: Vec<Option<u32>>,
}

impl Counters {
    /// Frames received by a port.
    pub fn received_by(&self, port: PortId) -> u32 {
        self.received + u32::from(port.0)
    }

    /// Frames sent by a port.
    pub fn sent_by(&self, port: PortId) -> u32 {
        self.sent + u32::from(port.0)
    }

    /// Packets dropped for a reason.
    pub fn dropped_for(&self, reason: DropReason) -> u32 {
        self.dropped + reason as u32
    }

    /// Packets that met a body of a table; body 0 has the misses.
    pub fn body(&self, table: TableId, body: u32) -> u32 {
        self.tables[table.index()] + body
    }

    /// A cell of a counter.
    pub fn cell(&self, counter: CounterId, cell: u32) -> Option<u32> {
        self.cells[counter.index()].map(|first| first + cell)
    }
}

/// Where an entry's body is, and what it holds. In this order, of 8 bytes each:
/// - the versions from which slot 0 and slot 1 hold,
/// - with an index of the kind [`Index::Ternary`], the rank: the greatest of those that match wins; it is
///   not 0 and never changed while the entry is there. With [`Index::Lpm`] the number of the body with the next
///   shorter prefix of this one, whether it holds now or not, or 0,
/// - slot 0: its action, then its arguments; slot 1 likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// Where body 0 is in the heap.
    pub first: u32,
    /// Bytes from one body to the next.
    pub stride: u32,
    /// How many there are.
    pub n: u32,
    /// Where the rank or the next shorter prefix is in a body.
    pub link: Option<u32>,
    /// Where each slot is in a body.
    pub slots: [u32; 2],
}

impl Body {
    /// Where the action is in a slot, of 8 bytes.
    pub const ACTION: u32 = 0;
    /// Where the arguments begin in a slot.
    pub const ARGS: u32 = 8;

    /// Where a body is in the heap.
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

/// A field of a key, as it is in a map's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPart {
    /// Bits.
    pub bits: u32,
    /// Where it begins in the key.
    pub at: u32,
    /// Bytes that it takes.
    pub bytes: u32,
}

/// In which order a key's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// Each part in host order, a part of more than 8 bytes as words of 8, the lowest first.
    Host,
    /// Each part in network order, padded in front with zeros; the last, whose prefix counts, behind.
    Network,
}

/// How a table's keys lead to bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Index {
    /// There is no key: body 0 always.
    None,
    /// The key's fields, the first one highest, are a position in an array of 4-byte numbers in the heap; 0 is
    /// no entry.
    Direct {
        /// Where the array is in the heap.
        at: u32,
        /// Bits of all fields.
        bits: u32,
    },
    /// A hash map from key to body.
    Hash {
        /// The map.
        map: MapRef,
        /// Where the fields are in the key.
        parts: Vec<KeyPart>,
        /// Bytes of the key; what no part takes is zero.
        key_bytes: u32,
    },
    /// A trie from prefix to body. The key is the prefix' length in bits, 4 bytes in host order, then the
    /// exact fields, then the field whose prefix counts.
    Lpm {
        /// The map.
        map: MapRef,
        /// Where the fields are in the key, by field of the table.
        parts: Vec<KeyPart>,
        /// Which field of the table has the prefix.
        prefix: usize,
        /// Bytes of the key, with the length.
        key_bytes: u32,
    },
    /// A hash map from mask and masked key to body. The key is the number of the mask, 4 bytes, then as
    /// [`Index::Hash`]. The masks stand in the heap, each as long as the key, with 4 bytes of zeros for the
    /// number. Entries of one mask and value but several priorities need a number each: a mask may stand there
    /// several times. Of all that match the best rank wins.
    Ternary {
        /// The map.
        map: MapRef,
        /// Where the fields are in the key.
        parts: Vec<KeyPart>,
        /// Bytes of the key, with the number; a multiple of 8.
        key_bytes: u32,
        /// Where the number of masks is in the heap, of 4 bytes. Masks are added before the entries
        /// that need them, and taken away from the end a grace period after those. One of which no entry is left may
        /// become another one: a grace period lies before that, and one behind it.
        n_masks: u32,
        /// Where the first mask is in the heap.
        masks: u32,
        /// How many masks there is room for.
        n_masks_max: u32,
    },
    /// Packets that come to the table are punted; nothing is to be written.
    Left,
}

/// How a table is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLayout {
    /// From key to body.
    pub index: Index,
    /// The width in bits of each field of the key.
    pub key_bits: Vec<u32>,
    /// From body to action.
    pub body: Body,
    /// The actions by their number in a slot.
    pub actions: Vec<ActionId>,
    /// By action number: the width in bits of each argument. Each takes whole words of 8 bytes, at least one,
    /// the lowest first.
    pub args: Vec<Vec<u32>>,
}

impl TableLayout {
    /// The number of an action in a slot. None is one that is to be written as [`ACTION_PUNT`].
    pub fn action_number(&self, action: ActionId) -> Option<u32> {
        let position = self.actions.iter().position(|other| *other == action)?;
        u32::try_from(position).ok()
    }

    /// Words of 8 bytes that a value of so many bits takes.
    pub fn words(bits: u32) -> u32 {
        bits.div_ceil(64).max(1)
    }
}

/// How multicast groups are written.
///
/// [`FanOut::groups`] is a table with the group's number as its key. Its only action has the arguments of
/// [`GroupArg`]. A group that is not there has no body, or a slot with [`ACTION_MISS`].
///
/// The fan-out is a number for one version of a group. The map [`FanOut::devices`] has for it a device map
/// whose values are of 8 bytes (`struct bpf_devmap_val`), one for each replica, in the group's order, with
/// [`super::Image::egress`] as program. [`FanOut::places`] has for each pair of fan-out and port, 4 bytes each, the
/// position of the first replica of the port, of 4 bytes, in the array of instances. There the instances
/// (`egress_rid`) of this port's replicas stand one after the other, in the group's order, 4 bytes each. All of
/// that is written before the group's body is, and taken away after a grace period.
///
/// A group of which a replica leaves by a port that is not forwarded to is to be written as [`ACTION_PUNT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FanOut {
    /// From group to fan-out.
    pub groups: TableLayout,
    /// From fan-out to its device map.
    pub devices: MapRef,
    /// From fan-out and port to the place of its first instance.
    pub places: MapRef,
    /// What is known of a processor's turn: [`Turns`].
    pub turns: MapRef,
    /// Where the array of instances is in the heap.
    pub instances: u32,
    /// How many there is room for; a power of two.
    pub n_instances: u32,
    /// Bytes of XDP metadata in front of each copy's frame. The driver's headroom is to have room for them, and
    /// what egress puts in front of the headers.
    pub note_bytes: u32,
    /// The tables that copies come to.
    pub tables: Vec<TableId>,
}

/// What stands in front of each frame that leaves: the first metadata of a copy, and the only ones of a packet
/// to one port, which may lack them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin;

impl Origin {
    /// Bytes in front of a packet to one port.
    pub const BYTES: u32 = 16;
    /// Where it says when the frame came, by `CLOCK_MONOTONIC` in nanoseconds, of 8 bytes.
    pub const ARRIVAL: i16 = 0;
    /// Where the group is whose copy it is, of 8 bytes; 0 of what is no copy.
    pub const STREAM: i16 = 8;
}

/// Where a processor's scratch memory says what became of its last packet. Each is of 8 bytes, the journal's
/// entries of 4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// How it ended: 0 dropped, 1 sent by a port, 2 replicated, 3 dropped before it was.
    pub end: u32,
    /// The position of the drop reason.
    pub reason: u32,
    /// The port it left by.
    pub out_port: u32,
    /// By program, ports' and copies': what it counted, see [`Noted`].
    pub journals: [Vec<Noted>; 2],
}

/// An entry of a packet's journal: where it is and, if it is not 0, which counter it counts: 1 less, behind the
/// first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Where it is in the scratch memory.
    pub at: u32,
    /// The first counter.
    pub first: u32,
}

/// The arguments of a group's action, by word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupArg {
    /// The fan-out.
    FanOut = 0,
    /// How many replicas; 0 drops the packet.
    Replicas = 1,
    /// 1 more than the port that all of them leave by; 0 where they leave by several.
    Port = 2,
    /// How long a packet may be of which copies are made, as it came: the least of the ports'.
    Longest = 3,
}

impl GroupArg {
    /// How many there are.
    pub const N: u32 = 4;

    /// [`GroupArg::Port`] of these replicas.
    pub fn port_of(replicas: &[Replica]) -> u32 {
        let mut ports = replicas.iter().map(|replica| replica.port);
        match ports.next() {
            Some(port) if ports.all(|other| other == port) => u32::from(port.0) + 1,
            _ => 0,
        }
    }
}

/// What a processor knows of the turn that it is in: one run of a driver's poll, after which what copies wait for is
/// told that they are there. The map [`super::MapRole::Turns`] has one value for each processor: at first the turn's
/// number, of 4 bytes, which the loader counts up behind each turn; then, from one port to the next with the
/// [`GroupArg::Port`] as position, what the program and the loader know of the port. All is zero in the beginning.
///
/// A device that has refused copies within a turn takes no more before its end, as nobody has been told to make room. So
/// the program drops a packet whose copies are beyond [`Turns::LIMIT`] before they are made: all of them are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns;

impl Turns {
    /// Bytes of a port, as a power of two.
    pub const SHIFT: u32 = 5;
    /// Bytes of the value.
    pub const BYTES: u32 = (Heap::N_PORTS + 1) << Self::SHIFT;
    /// Where the number of the turn is in the value.
    pub const NUMBER: i16 = 0;
    /// Where the number of the turn is, in which copies were made for the port last, of 4 bytes.
    pub const TURN: i16 = 0;
    /// Where it says how many copies were made in that turn, of 4 bytes: with [`Turns::FULL`] where no more are to be
    /// made, [`Turns::CLOSED`] where some were refused.
    pub const MADE: i16 = 4;
    /// Where it says how many of them are the last packet's, of 4 bytes.
    pub const LAST: i16 = 8;
    /// Where it says how many copies a turn may make, of 4 bytes: those of its first packet in any case. 0 says that
    /// none were refused.
    pub const LIMIT: i16 = 12;
    /// Since when a limit is known, by `CLOCK_MONOTONIC` in nanoseconds, of 8 bytes.
    pub const SINCE: i16 = 16;
    /// A limit that no turn comes to.
    pub const ANY: i32 = Self::FULL - 1;
    /// A bit that makes more of what was made than any limit.
    pub const FULL: i32 = 1 << 30;
    /// With all bits, [`Turns::FULL`] too.
    pub const CLOSED: i32 = i32::MAX;
}
