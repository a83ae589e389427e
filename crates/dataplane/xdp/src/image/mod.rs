//! A compiled program, independent of a kernel. It consists of instructions, of the maps that the instructions need,
//! and of the layout of everything that is written into these maps for the program. The compiler makes an [`Image`]; a
//! loader creates the image's maps, writes them, and loads the image's code.
//!
//! # Rules for a loader
//!
//! 1. *Maps.* The loader creates every map of [`Image::maps`] and puts the descriptors into the code with
//!    [`Code::link`]. It loads [`Image::ingress`] as an XDP program for the ports, and [`Image::egress`] with attach
//!    type `BPF_XDP_DEVMAP`; both share the maps. It must not set `BPF_F_XDP_HAS_FRAGS`: the code expects a frame in
//!    one buffer. The code is for little-endian machines.
//! 2. *Heap.* The map [`MapRole::Heap`] has one value, which the loader writes through `mmap`. All offsets in
//!    [`Heap`] and the tables' layouts are into this value. Numbers in it are in host order. The value starts as zeros,
//!    which mean: the version is 0, no interface is known, no packet is forwarded to any port, and every table is empty
//!    and without a default action. So the loader first writes everything, including [`Image::constants`], then
//!    attaches the program.
//! 3. *Versions.* The word at [`Heap::version`] is the version that packets see. A packet reads it once, in ingress;
//!    its copies use the same version. An entry's [`Body`] has two slots, each with the version from which the slot is
//!    valid. A packet takes the slot with the greatest version not above its own. An unused slot has [`NEVER`]. So a
//!    commit writes any number of slots with the next version, then stores that version with release order. A slot may
//!    be overwritten when no packet can still read it: a grace period (`synchronize_rcu`, which updating an outer map
//!    waits for) after the version of the *other* slot became visible. A packet, including its copies' egress, is
//!    handled in one RCU read-side critical section. If the loader reports ends of NAPI polls, as rule 10 says, it can
//!    wait for a shorter grace period.
//! 4. *Keys.* An index map leads from a key to the number of a body; the body is written before the key. Body 0 of
//!    each table is the default action. A packet gets body 0 if its key is missing, if the slot that it finds has
//!    [`ACTION_MISS`], or if neither slot of the body is valid for its version. A removed entry gets a slot with
//!    [`ACTION_MISS`]; its key is deleted after the grace period. In hash maps an inserted key may reuse the memory of
//!    a deleted one, so a grace period must also separate deletions from insertions. A body's number is reused after
//!    the previous entry's key was deleted and its counters were collected.
//! 5. *Counters.* [`MapRole::Counters`] holds all counts of packets and bytes, as an array for each processor; see
//!    [`Counters`]. The counts never decrease. A table's misses are the packets of body 0, and its hits are the sum of
//!    the packets of all its other bodies. The counters of a removed entry must be collected before its body's number
//!    is reused; its hits remain part of the table's hits. Punted packets are not counted.
//! 6. *Punts.* The program passes a punted frame, unchanged, to the socket map [`MapRole::Sockets`], at the position in
//!    [`Interface`] plus the receive queue. Without a socket there, the verdict is `XDP_ABORTED`.
//! 7. *Ports.* [`MapRole::Devices`] is a device map from port number to interface. A port is forwarded to if the word
//!    at [`Heap::port`] is not 0; that word is the length of the longest packet, as received, that the port takes.
//!    Packets to other ports are punted: to the CPU port, to ports of another process, and to disabled ones.
//! 8. *Groups.* [`FanOut`] says how multicast groups are written. If an image has no `FanOut`, packets to groups are
//!    punted. Copies cannot be punted. So while a table that egress applies ([`FanOut::tables`]) has a slot with
//!    [`ACTION_PUNT`], every group must be written as [`ACTION_PUNT`].
//! 9. *NAPI polls.* After each run of a driver's poll the loader adds 1 to the processor's [`Polls::NUMBER`]. When a
//!    port's device has refused copies and [`Polls::POLL`] is the number of this poll, the loader sets the port's
//!    [`Polls::LIMIT`], sets [`Polls::SINCE`] if there was no limit, and sets [`Polls::MADE`] to [`Polls::CLOSED`].
//!    With a loader that does none of this, every packet is copied.
//! 10. *Ends of polls.* Each processor has a word ([`Heap::polls`]). If the word is even, the program adds 1 before
//!     it reads the version and the data to which the version applies. It reads only the interface's description before
//!     this addition. For shorter grace periods, the loader adds 1 after each run of a driver's poll on a processor
//!     whose word is odd. Both additions are full barriers. To wait for a grace period, the loader stores the new data,
//!     issues a full barrier, then reads the words of all processors. Once each word has been even or has changed, no
//!     packet that may have read the old data is still being handled.
//! 11. *Digests.* If the program has the ring buffer [`MapRole::Digests`], the loader reads it. If the ring buffer
//!     is full, a message is counted in [`Counters::digests_lost`] and dropped; the packet that requested the digest is
//!     handled as usual.
//! 12. *Meters.* A cell of a meter ([`MeterLayout`]) is a body without a key. Its slots are written like those of
//!     tables, under the same versions; an entry's cell is written with the entry. A packet that is punted after it ran
//!     a meter has taken tokens.

mod digest;
mod encode;
mod layout;
mod meter;

pub use crate::asm::{Code, MapRef, Symbol};
pub use encode::{EncodeError, EncodedKey};
pub use layout::{
    ACTION_MISS, ACTION_NONE, ACTION_PUNT, Body, Counters, FanOut, GroupArg, Heap, Index,
    Interface, KeyPart, KeyPlace, NEVER, Noted, Origin, Polls, Scratch, TableLayout,
};

pub use digest::DigestRecord;
pub use meter::MeterLayout;

use std::collections::BTreeMap;

pub use bpf::{Instruction, MapKind};
use dataplane::engine::Interpreted;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRole {
    /// Everything that the loader writes for the program; one value, mapped into the loader's memory.
    Heap,
    /// A packet's state while the program handles it. Only the program uses it.
    Scratch,
    Counters,
    /// A device map from port to interface.
    Devices,
    /// The sockets that receive punted frames.
    Sockets,
    /// A map from a key to the number of an entry's body.
    Index,
    /// A map from a fan-out (a number for one version of a multicast group) to the device map of the group's copies.
    FanOuts,
    /// A map from fan-out and port to the position of the port's first replica in the array of instances; see `FanOut`.
    Places,
    /// What each processor knows of its current NAPI poll; see `Polls`.
    Polls,
    /// The ring buffer of digests to the control plane; see [`DigestRecord`].
    Digests,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSpec {
    pub role: MapRole,
    /// A name for people; the kernel keeps 15 bytes.
    pub name: String,
    pub kind: MapKind,
    pub key_bytes: u32,
    pub value_bytes: u32,
    /// The most entries, or the size of a ring buffer in bytes. The loader may enlarge device and socket maps.
    pub n_entries_max: u32,
    /// The map's `map_flags`: a combination of the flags that [`bpf::MapConfig`] names.
    pub flags: u32,
}

/// How much an image has room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Interface numbers are below this.
    pub interfaces: u32,
    /// The most multicast groups, including old versions that packets can still see.
    pub groups: u32,
    /// The most replicas of all groups, including old versions that packets can still see.
    pub replicas: u32,
    /// The most masks of one ternary table.
    pub masks: u32,
    /// Processors that the machine may ever have; their numbers are below this.
    pub processors: u32,
    /// The most cells of all meters.
    pub meter_cells: u32,
    /// The most visits. A visit is a state of the parser at one position in the frame. Packets that need other visits
    /// are punted.
    pub parser_visits: usize,
    /// The tables at which packets are punted because the kernel cannot hold some of the tables' entries. The key is a
    /// table's position, and the value is the reason.
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
            meter_cells: 1 << 20,
            parser_visits: 1024,
            left: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Image {
    /// The program for frames that the ports receive.
    pub ingress: Code,
    /// The program for copies to multicast groups, which the device maps of [`FanOut`] run.
    pub egress: Option<Code>,
    pub maps: Vec<MapSpec>,
    pub heap: Heap,
    /// Constant contents of the heap, by offset: bytes in whole words of 8.
    pub constants: Vec<(u32, Vec<u8>)>,
    pub counters: Counters,
    /// Where the program records what happened to a processor's last packet.
    pub scratch: Scratch,
    /// The tables' layouts, by [`dataplane::TableId`].
    pub tables: Vec<TableLayout>,
    /// The meter arrays, by [`dataplane::MeterId`]; `None` for an array at which packets are punted.
    pub meters: Vec<Option<MeterLayout>>,
    /// The meters of tables' entries, by [`dataplane::TableId`].
    pub direct_meters: Vec<Option<MeterLayout>>,
    /// How groups are written; `None` if packets to groups are punted.
    pub fan_out: Option<FanOut>,
    /// Constructs at which packets are punted, with the reasons.
    pub left: Vec<Interpreted>,
}

impl Image {
    /// Returns the map that has this role. Call this only for a role that no two maps of an image have.
    pub fn map(&self, role: MapRole) -> Option<MapRef> {
        let position = self.maps.iter().position(|map| map.role == role)?;
        u32::try_from(position).ok().map(MapRef)
    }
}
