//! A compiled program with no kernel in it: instructions, the maps that they need, and how what is
//! written for the program is laid out in these maps. The compiler makes an [`Image`]; a loader makes
//! its maps, writes them, and loads its code.
//!
//! # What a loader must keep to
//!
//! 1. *Maps.* It makes every map of [`Image::maps`], puts their descriptors into the code by
//!    [`Code::link`] and loads [`Image::ingress`] as an XDP program for the ports, [`Image::egress`] as
//!    one with the attach type `BPF_XDP_DEVMAP`. Both have the same maps. Without `BPF_F_XDP_HAS_FRAGS`:
//!    the code takes a frame for one piece of memory. The code is for little-endian machines.
//! 2. *Heap.* The map [`MapRole::Heap`] has one value, which the loader writes through `mmap`. All that
//!    [`Heap`] and the tables' layouts call an offset is one into it. Numbers in it are in host order. It
//!    begins as zeros, which means: version 0, no interface known, no port forwarded to, every table
//!    empty and without a default action. So first it writes all, [`Image::constants`] included, then it
//!    attaches.
//! 3. *Versions.* The word at [`Heap::version`] is the version that packets see. A packet reads it once, in
//!    ingress; its copies have it too. An entry's [`Body`] has two slots, each with the version from which it
//!    holds. A packet takes the slot with the greatest version that is not above its own. A slot that is not
//!    used has [`NEVER`]. So a commit writes any number of slots with the next version, then stores that
//!    version with release order. A slot may be written anew when no packet is left that could read it: after
//!    a grace period (`synchronize_rcu`, which updating an outer map waits for) since the version of the
//!    *other* slot became visible. All of a packet, its copies' egress included, runs in one such period. Turns
//!    of drivers make shorter ones, if the loader says when they end: see 10.
//! 4. *Keys.* An index map leads from a key to the number of a body, which is written before the key is.
//!    Body 0 of each table is the default action; a key that is not there leads to it, and so does a body
//!    whose slot has [`ACTION_MISS`] or of which no slot holds. A removed entry gets a slot with
//!    [`ACTION_MISS`]; its key is taken out of the map after the grace period. In maps of the kind hash, a
//!    key that was taken out and one that is put in may be the same memory: so between taking keys out and
//!    putting others in there is to be a grace period too. A body's number is used for another entry after
//!    the one before it has been taken out, and its counters were collected.
//! 5. *Counters.* [`MapRole::Counters`] has the packets and bytes of everything, an array for each
//!    processor, see [`Counters`]. They only ever go up. A table's misses are the packets of body 0, its hits
//!    the sum over all others. Entries that are removed are to be collected before their number is used again,
//!    their hits being the table's in any case. What is punted is counted nowhere.
//! 6. *Punts.* A frame that the program leaves goes to the socket map [`MapRole::Sockets`], at the number that
//!    [`Interface`] has plus the receive queue. If there is no socket, the verdict is `XDP_ABORTED`. Before a frame
//!    is punted nothing of it was changed.
//! 7. *Ports.* [`MapRole::Devices`] is a device map from port number to interface. A port is forwarded to when
//!    the word at [`Heap::port`] is not 0, and takes frames that came no longer than that; packets to all others are
//!    punted, so to the CPU port, to those that another process serves, and to those that are disabled.
//! 8. *Groups.* See [`FanOut`]. Without it packets of groups are punted. Copies cannot be punted. So as long as a
//!    table that egress applies has a slot with [`ACTION_PUNT`] ([`FanOut::tables`]), every group is to be written
//!    as [`ACTION_PUNT`].
//! 9. *Turns.* Behind each run of a driver's poll it adds 1 to the processor's [`Turns::NUMBER`]. When a port's device has
//!    refused copies, it sets the port's [`Turns::LIMIT`], [`Turns::SINCE`] if there was no limit, and [`Turns::MADE`] to
//!    [`Turns::CLOSED`], if [`Turns::TURN`] is this turn. A loader that does none of that has every packet copied.
//! 10. *Ends of turns.* Each processor has a word ([`Heap::turns`]). Where it is even, a packet adds 1 before it reads the
//!     version, and what the version guards; interfaces are read before. A loader that wants shorter grace periods adds 1 behind each run of a
//!     driver's poll on the processor where the word is odd. Both additions are full barriers. It stores what is new,
//!     has a full barrier, then reads all words: when each has been even once, or has changed, no packet is left that
//!     came before.
//! 11. *Digests.* It reads the ring [`MapRole::Digests`], which a program has that makes some. A message that finds no
//!     room is counted, [`Counters::digests_lost`], and its packet goes on.

mod digest;
mod encode;
mod layout;

pub use crate::asm::{Code, Symbol};
pub use encode::{EncodeError, EncodedKey};
pub use layout::{
    ACTION_MISS, ACTION_NONE, ACTION_PUNT, Body, Counters, FanOut, GroupArg, Heap, Index,
    Interface, KeyPart, KeyPlace, NEVER, Noted, Origin, Scratch, TableLayout, Turns,
};

pub use digest::DigestRecord;

use std::collections::BTreeMap;

pub use bpf::{Instruction, MapKind};
use dataplane::engine::Interpreted;

/// A map of an image: its position in [`Image::maps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapRef(pub u32);

impl MapRef {
    /// The position.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a map is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRole {
    /// What is written for the program; one value, mapped into the loader's memory.
    Heap,
    /// A packet's state while it is worked on; the program's own.
    Scratch,
    /// Packets and bytes.
    Counters,
    /// From port to interface.
    Devices,
    /// The sockets that take punted frames.
    Sockets,
    /// From a key to the number of an entry's body.
    Index,
    /// From fan-out to the device map of its copies.
    FanOuts,
    /// From fan-out and port to the place of the port's first copy.
    Places,
    /// What is known of a processor's turn.
    Turns,
    /// The ring of what is sent to the control plane: [`DigestRecord`].
    Digests,
}

/// A map to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSpec {
    /// What it is for.
    pub role: MapRole,
    /// For people; the kernel takes 15 bytes of it.
    pub name: String,
    /// Its type.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Entries at most, of a ring its bytes. Of device and socket maps the loader may make it more.
    pub n_entries_max: u32,
    /// `map_flags`, of those that [`bpf::MapConfig`] names.
    pub flags: u32,
}

/// How much room an image has for what the loader writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Interface numbers are below it.
    pub interfaces: u32,
    /// Multicast groups at most, those included of which packets still see a version that is gone.
    pub groups: u32,
    /// Replicas of all groups at most, in the same way.
    pub replicas: u32,
    /// Bits of mask and value at which ternary entries of one table may differ: masks at most.
    pub masks: u32,
    /// Processors that the machine may ever have: their numbers are below it.
    pub processors: u32,
    /// States of the parser at positions in the frame at most; what comes beyond is punted.
    pub parser_visits: usize,
    /// Tables that are left to the engine, by position, and why: they have entries that do not fit.
    pub left: BTreeMap<usize, String>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            interfaces: 4096,
            groups: 4096,
            replicas: 1 << 17,
            masks: 16,
            processors: 256,
            parser_visits: 1024,
            left: BTreeMap::new(),
        }
    }
}

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Image {
    /// The program of the ports.
    pub ingress: Code,
    /// The program of a group's copies, run by the device maps of [`FanOut`].
    pub egress: Option<Code>,
    /// The maps.
    pub maps: Vec<MapSpec>,
    /// Where things are in the heap.
    pub heap: Heap,
    /// What the heap holds from the beginning and for ever: bytes, in whole words of 8, by where they are.
    pub constants: Vec<(u32, Vec<u8>)>,
    /// Where the counters are.
    pub counters: Counters,
    /// Where a processor's last packet has left what became of it.
    pub scratch: Scratch,
    /// By [`dataplane::TableId`].
    pub tables: Vec<TableLayout>,
    /// How groups are written; none where packets of groups are punted.
    pub fan_out: Option<FanOut>,
    /// What is left to the engine, by place and reason: packets that come there are punted.
    pub left: Vec<Interpreted>,
}

impl Image {
    /// The only map of a role that one map has.
    pub fn map(&self, role: MapRole) -> Option<MapRef> {
        let position = self.maps.iter().position(|map| map.role == role)?;
        u32::try_from(position).ok().map(MapRef)
    }
}
