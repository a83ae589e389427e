//! The offload interface: an offload forwards on its own ports, beside the engine. Examples: the program as XDP in the
//! kernel's receive path, or on a network card.
//!
//! An offload takes the frames of its ports before the switch sees them. It forwards the frames that it can, and punts
//! the others, that is, leaves them to the engine. The switch's state remains the only authoritative copy of what the
//! control plane wrote; an offload keeps only derived data. If an offload cannot apply a change, the switch stops the
//! offload and the engine forwards everything. So a control call never fails because of an offload.
//!
//! The contract. An offload must
//! a. *Agree.* It forwards as the engine would: bytes, ports, table, counter and register state, drop reasons. It has
//!    no queues, so order and timing may differ from the engine's: the packets of one port that the offload forwards
//!    and those that it punts may overtake each other.
//! b. *Punt whole frames.* [`Switch::handle_frame`] receives a punted frame unchanged, with its ingress port; the
//!    offload counts nothing for it. Punting is always correct. Frames of packet generators, packet-outs and the
//!    engine's output never pass through an offload.
//! c. *Refuse, or list what it leaves.* [`Offload::load`] gets the program and everything that the control plane has
//!    written for it. It returns what it leaves to the engine, with reasons, or refuses the program with one reason and
//!    then punts everything until the next program. What the offload learns about a program holds until
//!    [`Offload::forget_program`], even if the program is loaded again. An offload whose preparation is slow prepares
//!    in the background before the load ([`Offload::prepare`]), while the engine forwards everything.
//! d. *Receive every write in order.* [`Offload::changed`] is called after each change to the state and the engine. The
//!    argument says what the offload must read again, not which control call was made. Refused calls are not reported.
//! e. *Show writes together.* The changes since the last [`Offload::commit`] become visible at once: a packet sees all
//!    of them or none. The switch commits at the end of each control call, or at the end of a batch
//!    ([`Switch::begin_batch`], [`Switch::end_batch`]); a program set in a batch is loaded at the batch's end. The
//!    engine sees the changes of each control call immediately. An offload may show commits late, but in order.
//! f. *Count up.* [`Offload::collect`] adds what the offload counted since the last collection to the switch's
//!    counters, so that each counter of the switch is the sum over engine and offload. The additions are consistent:
//!    every received or replicated packet is sent, dropped or reported as inside. Counters in an offload are never
//!    reset: a control call that writes a counter collects first.
//! g. *Count hits for the entry that was hit.* Hits that the offload has not added before an entry is removed are lost;
//!    they must not count for the next entry with that index.
//! h. *Own a register or leave it alone.* Either only the engine or only the offload may write a register. If the
//!    program needs the register in both, the offload punts the packets that use it, or refuses the program. For a
//!    register of its own, the offload reports the cells that packets wrote, except cells with an uncommitted
//!    control-plane write. For each meter, engine and offload have separate buckets. Both are full when the control
//!    plane sets the rates; the offload's buckets are also full when the offload begins to forward. A packet that runs
//!    a meter in the offload and is punted later has taken tokens from the offload's buckets, and then takes tokens
//!    from the engine's buckets too. The engine alone counts the packet.
//! i. *Drain.* [`Offload::begin_drain`] gives a number, the epoch, to the packets that are inside.
//!    [`Offload::is_drained`] returns true for the epoch once no packet from before the call is inside and every new
//!    packet sees all commits from before the call. An epoch that was never passed to `begin_drain` counts as drained.
//! j. *Fail once.* [`Offload::commit`], [`Offload::collect`] and [`Offload::check`] may fail with a reason. The switch
//!    then stops the offload, keeps the reason ([`Switch::offload_status`]) and does not load it before the next
//!    program. The control call succeeds, because the engine takes over. An offload that only lacks room for the state
//!    may ask to be loaded again instead ([`Unable::Anew`]). The packet loop calls [`Switch::check_offload`]
//!    periodically, so that failures are noticed without a control call.
//! k. *Hold digests until asked.* Digests of forwarded packets wait in the offload until [`Offload::take_digests`],
//!    with the values and order that the engine would give. The switch asks for as many as its queue has room for, also
//!    after [`Offload::collect`]; [`Offload::stop`] delivers all of them. While digests wait, [`Offload::digests_fd`]
//!    is readable. A digest for which the offload has no room is lost and counted; the offload still forwards its
//!    packet. The offload makes no digest for a packet that it punts.
//! l. *Stop wholly.* After [`Offload::stop`] all frames are punted, no packet is inside, and everything is counted.
//!    Packets inside leave first or are dropped for the given reason. The switch stops an offload before it replaces
//!    the program, while a trace is on or a port is disabled, after a failure, and before it removes the offload. A
//!    failed offload reports its counts as far as it can.
//!
//! A caller calls [`Switch::collect`] before it reads counters. Without an offload that call does nothing, and packets
//! have no extra cost.
//!
//! [`Switch::handle_frame`]: crate::Switch::handle_frame
//! [`Switch::begin_batch`]: crate::Switch::begin_batch
//! [`Switch::end_batch`]: crate::Switch::end_batch
//! [`Switch::offload_status`]: crate::Switch::offload_status
//! [`Switch::collect`]: crate::Switch::collect
//! [`Switch::check_offload`]: crate::Switch::check_offload

use std::os::fd::BorrowedFd;

use crate::{
    CloneSession, CounterId, CounterValue, Digest, DropReason, Latencies, MeterConfig, MeterCounts,
    MeterId, Nanos, PortId, Program, RegisterId, Replica, Stream, TableCounters, TableId,
    color::{GREEN, YELLOW},
    engine::{Change, EntryIndex, Interpreted, State, ir::Int},
    traffic_manager::{TrafficManager, digests::DigestQueue},
};

pub use crate::externs::bucket::Bucket;

/// Forwards beside the engine; see the module for the contract.
pub trait Offload: Send {
    /// Returns whether the program can be loaded now. If not, prepares in the background and wakes the caller, which
    /// asks again. Most offloads are always ready.
    fn prepare(&mut self, program: &Program) -> bool {
        let _ = program;
        true
    }

    /// Loads a program and everything written for it. Returns what the offload leaves to the engine, with reasons. From
    /// now on the offload receives changes. It forwards as soon as [`Offload::has_begun`] returns true.
    ///
    /// # Errors
    /// The program is refused, or must be prepared again. The switch then stops the offload, to collect what it counted
    /// so far; the offload punts everything and receives no changes.
    fn load(&mut self, written: &Written<'_>) -> Result<Vec<Interpreted>, Unable>;

    /// Whether the offload forwards frames with the loaded program. Most offloads forward as soon as the program is
    /// loaded.
    fn has_begun(&self) -> bool {
        true
    }

    /// Checks which ports the offload can serve, after interfaces were replaced or the offload woke the caller. Returns
    /// true if this check changed something; the switch then commits the change.
    fn look_at_ports(&mut self, written: &Written<'_>) -> bool {
        let _ = written;
        false
    }

    /// Prepares for [`Offload::stop`]. Returns true once no packet reaches the offload, so that stopping is quick. An
    /// offload that needs long for this works in its own thread and returns false; the caller asks again, and the
    /// engine meanwhile forwards with the same program.
    fn withdraw(&mut self) -> bool {
        true
    }

    /// Discards what the offload learnt about the program, which is about to be replaced. The program need not be
    /// loaded. Most offloads learn nothing.
    fn forget_program(&mut self) {}

    /// Reports a change by a control call; packets must not see it before [`Offload::commit`].
    fn changed(&mut self, written: &Written<'_>, change: &Change<'_>);

    /// Makes the changes so far visible, all at once.
    ///
    /// # Errors
    /// The offload cannot apply the changes.
    fn commit(&mut self, written: &Written<'_>) -> Result<(), Unable>;

    /// Adds to the switch's counts what the offload counted since the last call of this method.
    ///
    /// # Errors
    /// The offload cannot continue.
    fn collect(&mut self, accounts: &mut Accounts<'_>) -> Result<(), Unable>;

    /// Delivers up to `n_max` digests and returns their number. Most offloads have none.
    fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        let _ = (n_max, accounts);
        0
    }

    /// A descriptor that poll(2) finds readable while digests wait; `None` if the offload makes no digests. Valid until
    /// the offload is loaded, stopped or dropped.
    fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Checks whether the offload can continue, as far as this is known without extra cost.
    ///
    /// # Errors
    /// The offload cannot continue.
    fn check(&mut self) -> Result<(), Unable>;

    /// Marks the packets that are inside now as packets of this epoch or an older epoch; epochs count up.
    fn begin_drain(&mut self, epoch: u64);

    /// Whether no packet of this epoch or an older epoch is inside, and every new packet sees all commits from before
    /// [`Offload::begin_drain`] of this epoch.
    fn is_drained(&self, epoch: u64) -> bool;

    /// Returns the next event that no earlier call has returned, if any.
    fn poll_notice(&mut self) -> Option<OffloadNotice> {
        None
    }

    /// Punts everything from now on. Packets inside leave or are dropped for `reason`.
    ///
    /// # Errors
    /// The offload could not give a port back, for the returned reason; the port's frames reach neither offload nor
    /// switch.
    fn stop(&mut self, reason: DropReason, accounts: &mut Accounts<'_>) -> Result<(), String>;
}

/// Why an offload cannot continue. The switch stops it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unable {
    /// The offload failed for this reason. The switch does not load the offload again before the next program.
    Failed(String),
    /// The written state no longer fits in the offload. The switch loads the offload again at once with everything
    /// written; the engine forwards meanwhile.
    Anew,
}

impl From<String> for Unable {
    fn from(reason: String) -> Unable {
        Unable::Failed(reason)
    }
}

/// What an offload does at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadStatus {
    /// Punts everything: no program is loaded, a trace is on, or a port is disabled.
    Waiting,
    /// Prepares the program, and punts everything until then.
    Loading,
    /// Forwards, and leaves these parts of the program to the engine.
    Forwarding(Vec<Interpreted>),
    /// Refused the program for this reason.
    Refused(String),
    /// Failed for this reason.
    Failed(String),
}

/// An event of a running offload, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadNotice {
    /// The program was loaded again: a table was full because old entries were still visible to packets.
    LoadedAnew {
        /// The table's name in the program.
        table: String,
        /// Entries in the table.
        n_entries: usize,
        /// Entries that the table holds at most, including old ones that packets may still see.
        n_entries_max: usize,
        /// Time from the moment when the table was full until the offload forwarded again.
        taken_ns: Nanos,
    },
    /// The engine serves this port; the offload will check the port again.
    LeavesPort {
        /// The port's number.
        port: PortId,
        /// Why the offload does not serve the port.
        reason: String,
    },
    /// The offload serves a port that it did not serve before.
    ServesPort {
        /// The port's number.
        port: PortId,
    },
    /// An optimisation is not available.
    DoesWithout {
        /// The optimisation, in words.
        what: String,
        /// Why it is not available.
        reason: String,
    },
}

/// Everything written for a program: the state, and the groups and sessions of the traffic manager.
pub struct Written<'a> {
    pub(crate) state: &'a State,
    pub(crate) traffic: &'a TrafficManager,
}

impl<'a> Written<'a> {
    /// Returns the state: the program, tables, value sets, registers, and the time.
    pub fn state(&self) -> &'a State {
        self.state
    }

    /// Every port that was added.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        self.state.counters.ports().map(|(port, _)| port)
    }

    /// The replicas of a multicast group; `None` if it does not exist.
    pub fn multicast_group(&self, id: u32) -> Option<Vec<Replica>> {
        let group = self.traffic.groups.get(id)?;
        Some(group.copies.replicas.to_vec())
    }

    /// The ids of all multicast groups.
    pub fn multicast_groups(&self) -> impl Iterator<Item = u32> {
        self.traffic.groups.ids()
    }

    /// A clone session; `None` if it does not exist. Its replicas include those of the multicast group to which the
    /// session clones, if any.
    pub fn clone_session(&self, id: u32) -> Option<CloneSession> {
        let mut from = self.traffic.sessions.with_groups(&self.traffic.groups, id);
        let session = from.next()?.into_session();
        (session.id == id).then_some(session)
    }

    /// The ids of all clone sessions.
    pub fn clone_sessions(&self) -> impl Iterator<Item = u32> {
        self.traffic.sessions.ids()
    }

    /// The rates of a meter cell; `None` if the meter has no rates, so that it colours every packet green.
    pub fn meter(&self, meter: MeterId, index: usize) -> Option<MeterConfig> {
        self.state.meter_config(meter, index)
    }

    /// The rates of an entry's direct meter; `None` if the meter has no rates, so that it colours every packet green.
    pub fn direct_meter(&self, table: TableId, entry: EntryIndex) -> Option<MeterConfig> {
        self.state.direct_meter_config(table, entry)
    }
}

/// Adds an offload's counts to the switch's. All methods but [`Accounts::inside`] and [`Accounts::register`] take the
/// increase since the last call.
pub struct Accounts<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) latencies: &'a mut Latencies,
    pub(crate) digests: &'a mut DigestQueue,
    pub(crate) n_inside: &'a mut u64,
}

impl Accounts<'_> {
    /// Adds frames that were received on a port and not punted.
    pub fn received(&mut self, port: PortId, n_packets: u64, n_bytes: u64) {
        self.state.counters.received += n_packets;
        if let Some(counters) = self.state.counters.port_mut(port) {
            counters.rx_packets += n_packets;
            counters.rx_bytes += n_bytes;
        }
    }

    /// Adds replicas that were made, except those that original packets become.
    pub fn replicated(&mut self, n_packets: u64) {
        self.state.counters.created_by_replication += n_packets;
    }

    /// Adds clones that were made.
    pub fn cloned(&mut self, n_packets: u64) {
        self.state.counters.created_by_clone += n_packets;
    }

    /// Adds frames that were sent on a port.
    pub fn sent(&mut self, port: PortId, n_packets: u64, n_bytes: u64) {
        self.state.counters.transmitted += n_packets;
        if let Some(counters) = self.state.counters.port_mut(port) {
            counters.tx_packets += n_packets;
            counters.tx_bytes += n_bytes;
        }
    }

    /// Records how long `n_packets` of the sent frames were in the switch; all of them took equally long. All calls
    /// together must cover as many packets as were sent.
    pub fn latency(&mut self, port: PortId, stream: Stream, latency_ns: Nanos, n_packets: u64) {
        self.latencies.record(port, stream, latency_ns, n_packets);
    }

    /// Adds packets that were dropped.
    pub fn dropped(&mut self, reason: DropReason, n_packets: u64) {
        self.state.counters.count_drops(reason, n_packets);
    }

    /// Sets the number of packets that are inside the offload now.
    pub fn inside(&mut self, n_packets: u64) {
        *self.n_inside = n_packets;
    }

    /// Adds hits and misses of a table.
    pub fn table(&mut self, table: TableId, lookups: TableCounters) {
        if let Some(counters) = self.state.counters.tables.get_mut(table.index()) {
            counters.hits += lookups.hits;
            counters.misses += lookups.misses;
        }
    }

    /// Adds hits of an entry, and updates the time of the last hit on the switch's clock; ignored if the entry was
    /// removed.
    pub fn entry(
        &mut self,
        table: TableId,
        entry: EntryIndex,
        hits: CounterValue,
        last_hit: Nanos,
    ) {
        if let Some((table, _)) = self.state.tables.table_mut(table, None) {
            table.count_hits(entry, hits, last_hit);
        }
    }

    /// Adds packets and bytes to a counter cell; ignored beyond the end.
    pub fn counter(&mut self, counter: CounterId, index: usize, counted: CounterValue) {
        let cells = self.state.externs.counters.cells_mut(counter);
        if let Some(cell) = cells.get_mut(index) {
            cell.add(counted);
        }
    }

    /// Adds packets and bytes to which a meter cell gave this colour; ignored beyond the end.
    pub fn meter(&mut self, meter: MeterId, index: usize, color: u8, counted: CounterValue) {
        if let Some(cell) = self.state.externs.meters.get_mut(meter, index) {
            add_colored(&mut cell.counts, color, counted);
        }
    }

    /// Adds packets and bytes to which an entry's meter gave this colour; ignored if the entry was removed.
    pub fn direct_meter(
        &mut self,
        table: TableId,
        entry: EntryIndex,
        color: u8,
        counted: CounterValue,
    ) {
        let table = self.state.tables.table_mut(table, None);
        if let Some(meter) = table.and_then(|(table, _)| table.meter_mut(entry)) {
            add_colored(&mut meter.counts, color, counted);
        }
    }

    /// Puts a digest into the control plane's queue; the digest is lost if the queue is full.
    pub fn digest(&mut self, digest: Digest) {
        self.digests.push(digest, &mut self.state.counters);
    }

    /// Adds digests that were made but lost inside the offload.
    pub fn digests_lost(&mut self, n_digests: u64) {
        self.state.counters.digests += n_digests;
        self.state.counters.digests_lost += n_digests;
    }

    /// Writes the current value of a cell of a register that the offload owns into the switch's register; ignored
    /// beyond the end.
    pub fn register(&mut self, register: RegisterId, index: usize, value: Int) {
        self.state.set_register(register, index, value);
    }
}

fn add_colored(counts: &mut MeterCounts, color: u8, counted: CounterValue) {
    let of_color = match color {
        GREEN => &mut counts.green,
        YELLOW => &mut counts.yellow,
        _ => &mut counts.red,
    };
    of_color.add(counted);
}
