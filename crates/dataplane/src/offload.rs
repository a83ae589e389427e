//! What an offload supplies: forwarding beside the engine, on ports that it serves by itself. The
//! program as XDP in the kernel's receive path would be one, a card another.
//!
//! An offload takes the frames of its ports before the switch sees them. It forwards what it can and
//! punts the rest. The switch's state stays the only home of what the control plane has written; an
//! offload holds what it has derived of it, and whenever it cannot follow it is taken out, and the
//! engine forwards all. So a control call never fails because of an offload.
//!
//! The contract in words. An offload must
//! a. *Agree.* What it forwards, it forwards as the engine would: bytes, ports, table, counter and
//!    register state, drop reasons. It has no queues, so order and times are its own: packets of one
//!    port that it forwards and packets that it punts may overtake each other.
//! b. *Punt whole.* A punted frame comes to [`Switch::handle_frame`] by the port it came in by, as it
//!    came, and is in none of the offload's accounts. To punt is always right. Frames of generators,
//!    packet-outs, and whatever the engine sends never pass an offload.
//! c. *Refuse, or say what it leaves.* [`Offload::load`] gets the program with all that is written for
//!    it, and either gives what it leaves to the engine, with the reasons, or refuses the program with
//!    one reason. Refused, it punts all until the next program. What it has learnt of a program holds until
//!    [`Offload::forget_program`], however often it is loaded. What takes long comes before, beside the caller
//!    ([`Offload::prepare`]): the engine forwards all until then.
//! d. *Hear every write in order.* [`Offload::changed`] is called after each change, when the state and
//!    the engine have it; what the call was is not told, only what is to be read again. A refused call
//!    is not told.
//! e. *Show writes together.* What was changed since the last [`Offload::commit`] becomes visible to
//!    packets as one: a packet sees all of it or nothing. A control call is committed when it ends, and
//!    calls between [`Switch::begin_batch`] and [`Switch::end_batch`] when the batch ends; a program
//!    that was set among them is loaded then. The engine sees each call at once. An offload may show a
//!    commit somewhat later, in the order of the commits.
//! f. *Count up.* [`Offload::collect`] adds what it has counted since the last time to the switch's own
//!    accounts, so that each number that the switch gives is the sum of both. What it adds is
//!    consistent: received and replicated packets are sent, dropped, or said to be inside. Nothing is
//!    ever set back in an offload: a control call that writes a counter collects first, then writes.
//! g. *Hit entries by what packets hit.* A hit is added to the entry that the packet hit. What was not
//!    added when the entry was removed is nobody's, and least of all the next one's of that index.
//! h. *Own a register or leave it alone.* Packets of one side only write a register, or run a meter: a
//!    program that needs it on both sides is punted there, or refused. Of a register of its own the
//!    offload gives the cells that packets have written, but no cell with a write not yet committed.
//! i. *Drain.* After [`Offload::begin_drain`], [`Offload::is_drained`] holds once no packet is inside
//!    that came before, and every packet that comes sees what was committed before. An epoch that it
//!    was not told of is drained.
//! j. *Fail once.* [`Offload::commit`], [`Offload::collect`] and [`Offload::check`] may fail, with a reason. The switch then
//!    stops the offload, keeps the reason ([`Switch::offload_status`]), and does not load it again
//!    before the next program. The control call succeeds: the engine, which forwards now, has it. Where an offload
//!    has no room for what is written, it may ask to be loaded anew instead ([`Unable::Anew`]). Whoever serves packets
//!    calls [`Switch::check_offload`] from time to time, so that it is not the next control call that notices.
//! k. *Give digests when asked.* The digests of packets that it forwards wait in it until [`Offload::take_digests`],
//!    with the values and the order that the engine's would have; the switch asks for no more than its queue has room
//!    for, also after [`Offload::collect`]. [`Offload::stop`] gives all of them. While some wait, [`Offload::digests_fd`] is readable. One that it has no room for is lost and counted,
//!    and the packet goes on. A packet that it punts has made none.
//! l. *Stop wholly.* After [`Offload::stop`] all frames are punted, nothing is inside, and all that was
//!    counted is in the accounts. Packets inside leave first, or are dropped for the reason that is
//!    given. So it is stopped before its program is replaced, as long as somebody listens to a trace
//!    or a port is disabled, when it has failed, and when it is taken away; a failed one gives the accounts as far as it can.
//!
//! Whoever reads numbers calls [`Switch::collect`] first. Without an offload that does nothing, and a
//! packet pays nothing for that there could be one.
//!
//! [`Switch::handle_frame`]: crate::Switch::handle_frame
//! [`Switch::begin_batch`]: crate::Switch::begin_batch
//! [`Switch::end_batch`]: crate::Switch::end_batch
//! [`Switch::offload_status`]: crate::Switch::offload_status
//! [`Switch::collect`]: crate::Switch::collect
//! [`Switch::check_offload`]: crate::Switch::check_offload

use std::os::fd::BorrowedFd;

use crate::{
    CloneSession, CounterId, CounterValue, CrcParameters, Digest, DropReason, Latencies,
    MeterConfig, MeterId, Nanos, PortId, Program, RegisterId, Replica, Stream, TableCounters,
    TableId,
    engine::{
        Change, EntryIndex, Interpreted, State,
        ir::{CalculationId, Int},
    },
    traffic_manager::{TrafficManager, digests::DigestQueue},
};

/// Forwards beside the engine. See the module for what it must keep to.
pub trait Offload: Send {
    /// Whether it can take this program over at once. Where it cannot, it gets ready beside the caller, who asks
    /// again when it is woken. Most are always ready.
    fn prepare(&mut self, program: &Program) -> bool {
        let _ = program;
        true
    }

    /// Takes a program over, with what is written for it: what it leaves to the engine, by place and
    /// reason. It hears of changes from now on, and forwards as soon as [`Offload::has_begun`].
    ///
    /// # Errors
    /// Why it takes nothing of the program: it is stopped at once, so that what it has forwarded until then is
    /// counted; it punts all, and hears of no change. Or that it has to be prepared anew.
    fn load(&mut self, written: &Written<'_>) -> Result<Vec<Interpreted>, Unable>;

    /// Whether it forwards what was loaded. Most do when they are loaded.
    fn has_begun(&self) -> bool {
        true
    }

    /// The owner of the ports has put others in the place of some, or was woken: it looks which ports it can serve
    /// now. True where that changes something, which is committed then.
    fn look_at_ports(&mut self, written: &Written<'_>) -> bool {
        let _ = written;
        false
    }

    /// Asked before [`Offload::stop`]: true when no packet meets the offload any more, so that stopping takes no time. An
    /// offload that needs long for it works in a thread of its own and says false; the caller asks again, and the engine
    /// forwards meanwhile, with the same program.
    fn withdraw(&mut self) -> bool {
        true
    }

    /// The program is replaced, whether it is loaded or not: what was learnt of it is over. Most learn nothing.
    fn forget_program(&mut self) {}

    /// A control call has changed something, which packets are to see after [`Offload::commit`].
    fn changed(&mut self, written: &Written<'_>, change: &Change<'_>);

    /// The changes so far belong together and are whole.
    ///
    /// # Errors
    /// It cannot follow.
    fn commit(&mut self, written: &Written<'_>) -> Result<(), Unable>;

    /// Adds what it has counted since the last time.
    ///
    /// # Errors
    /// It cannot go on.
    fn collect(&mut self, accounts: &mut Accounts<'_>) -> Result<(), Unable>;

    /// Adds digests that packets have made, so many at most; how many. Most make none.
    fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        let _ = (n_max, accounts);
        0
    }

    /// What poll(2) finds readable while digests wait; none where nobody is to be woken for them. It lives until the
    /// offload is loaded, stopped, or gone.
    fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether it can go on, as far as that costs nothing to tell.
    ///
    /// # Errors
    /// It cannot.
    fn check(&mut self) -> Result<(), Unable>;

    /// The packets that are inside are of this epoch or older; epochs are numbered upwards.
    fn begin_drain(&mut self, epoch: u64);

    /// Whether no packet of an epoch or an older one is inside, nor one that sees what was before.
    fn is_drained(&self, epoch: u64) -> bool;

    /// What has happened since it was last asked; none is all.
    fn poll_notice(&mut self) -> Option<OffloadNotice> {
        None
    }

    /// Punts all from now on. Packets inside leave, or are dropped for this reason.
    ///
    /// # Errors
    /// Frames of a port come to nobody any more, for this reason.
    fn stop(&mut self, reason: DropReason, accounts: &mut Accounts<'_>) -> Result<(), String>;
}

/// Why an offload cannot go on as it is. It is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unable {
    /// It has failed, for this reason, and is not loaded again before the next program.
    Failed(String),
    /// What is written does not fit into what it has made of the program: it is loaded again at once, with all that
    /// is written, and the engine forwards meanwhile.
    Anew,
}

impl From<String> for Unable {
    fn from(reason: String) -> Unable {
        Unable::Failed(reason)
    }
}

/// How an offload stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadStatus {
    /// It punts all: there is no program, somebody listens to a trace, or a port is disabled.
    Waiting,
    /// It gets ready for the program, and punts all until then.
    Loading,
    /// It forwards, and leaves this to the engine.
    Forwarding(Vec<Interpreted>),
    /// It takes nothing of the program, for this reason.
    Refused(String),
    /// It could not go on, for this reason.
    Failed(String),
}

/// What an operator may want to know of an offload that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadNotice {
    /// A table had no room for what was written beside what packets might still see, so the program was loaded anew.
    LoadedAnew {
        /// Which table, in the program's words.
        table: String,
        /// Its entries.
        n_entries: usize,
        /// Entries that it has room for, those included that packets may still see.
        n_entries_max: usize,
        /// From when it had no room until the program forwarded again.
        taken_ns: Nanos,
    },
    /// The engine forwards what comes by a port and what leaves there; the offload looks again.
    LeavesPort {
        /// The port.
        port: PortId,
        /// Why it does not serve it.
        reason: String,
    },
    /// It serves a port that it did not serve before.
    ServesPort {
        /// The port.
        port: PortId,
    },
    /// It does without something that saves time.
    DoesWithout {
        /// What that is.
        what: String,
        /// Why it cannot have it.
        reason: String,
    },
}

/// What is written for a program: the state, and what the traffic manager makes copies by.
pub struct Written<'a> {
    pub(crate) state: &'a State,
    pub(crate) traffic: &'a TrafficManager,
}

impl<'a> Written<'a> {
    /// The program, tables, value sets, registers, and the time.
    pub fn state(&self) -> &'a State {
        self.state
    }

    /// Every port that was added.
    pub fn ports(&self) -> impl Iterator<Item = PortId> {
        self.state.counters.ports().map(|(port, _)| port)
    }

    /// The replicas of a multicast group; none where there is no such group.
    pub fn multicast_group(&self, id: u32) -> Option<Vec<Replica>> {
        let group = self.traffic.groups.get(id)?;
        Some(group.copies.replicas.to_vec())
    }

    /// The ids of all multicast groups.
    pub fn multicast_groups(&self) -> impl Iterator<Item = u32> {
        self.traffic.groups.ids()
    }

    /// A clone session.
    pub fn clone_session(&self, id: u32) -> Option<CloneSession> {
        let mut from = self.traffic.sessions.with_groups(&self.traffic.groups, id);
        let session = from.next()?.into_session();
        (session.id == id).then_some(session)
    }

    /// The ids of all clone sessions.
    pub fn clone_sessions(&self) -> impl Iterator<Item = u32> {
        self.traffic.sessions.ids()
    }

    /// The rates of a cell of a meter; none is green.
    pub fn meter(&self, meter: MeterId, index: usize) -> Option<MeterConfig> {
        self.state.externs.meters.get(meter, index)?.config()
    }

    /// The rates of an entry's meter; none is green.
    pub fn direct_meter(&self, table: TableId, entry: EntryIndex) -> Option<MeterConfig> {
        self.state.tables.table(table)?.meter(entry)
    }

    /// The parameters that a control call has chosen for a custom CRC.
    pub fn crc_parameters(&self, calculation: CalculationId) -> Option<CrcParameters> {
        let crc = self.state.externs.crcs.get(calculation)?;
        Some(crc.parameters)
    }
}

/// The switch's accounts, as an offload adds to them. All but [`Accounts::inside`] and
/// [`Accounts::register`] are what came since it last did.
pub struct Accounts<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) latencies: &'a mut Latencies,
    pub(crate) digests: &'a mut DigestQueue,
    pub(crate) n_inside: &'a mut u64,
}

impl Accounts<'_> {
    /// Frames that came by a port and were not punted.
    pub fn received(&mut self, port: PortId, n_packets: u64, n_bytes: u64) {
        self.state.counters.received += n_packets;
        if let Some(counters) = self.state.counters.port_mut(port) {
            counters.rx_packets += n_packets;
            counters.rx_bytes += n_bytes;
        }
    }

    /// Replicas made beyond the packets that were replicated.
    pub fn replicated(&mut self, n_packets: u64) {
        self.state.counters.created_by_replication += n_packets;
    }

    /// Clones made.
    pub fn cloned(&mut self, n_packets: u64) {
        self.state.counters.created_by_clone += n_packets;
    }

    /// Frames that have left by a port.
    pub fn sent(&mut self, port: PortId, n_packets: u64, n_bytes: u64) {
        self.state.counters.transmitted += n_packets;
        if let Some(counters) = self.state.counters.port_mut(port) {
            counters.tx_packets += n_packets;
            counters.tx_bytes += n_bytes;
        }
    }

    /// How long some of the frames that have left were inside, all equally long. Together they are to
    /// be as many as were sent.
    pub fn latency(&mut self, port: PortId, stream: Stream, latency_ns: Nanos, n_packets: u64) {
        self.latencies.record(port, stream, latency_ns, n_packets);
    }

    /// Packets that were dropped.
    pub fn dropped(&mut self, reason: DropReason, n_packets: u64) {
        self.state.counters.count_drops(reason, n_packets);
    }

    /// Packets that are inside now.
    pub fn inside(&mut self, n_packets: u64) {
        *self.n_inside = n_packets;
    }

    /// Lookups in a table.
    pub fn table(&mut self, table: TableId, lookups: TableCounters) {
        if let Some(counters) = self.state.counters.tables.get_mut(table.index()) {
            counters.hits += lookups.hits;
            counters.misses += lookups.misses;
        }
    }

    /// Hits of an entry, the last one at a time of the switch's clock; nothing where it is gone.
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

    /// What was counted in a cell of a counter; beyond the end nothing.
    pub fn counter(&mut self, counter: CounterId, index: usize, counted: CounterValue) {
        let cells = self.state.externs.counters.cells_mut(counter);
        if let Some(cell) = cells.get_mut(index) {
            cell.add(counted);
        }
    }

    /// A digest that a packet has made; lost where the control plane has not taken those before it.
    pub fn digest(&mut self, digest: Digest) {
        self.digests.push(digest, &mut self.state.counters);
    }

    /// Digests that packets have made and that were lost on the way here.
    pub fn digests_lost(&mut self, n_digests: u64) {
        self.state.counters.digests += n_digests;
        self.state.counters.digests_lost += n_digests;
    }

    /// What a cell of a register of the offload's own holds now; beyond the end nothing.
    pub fn register(&mut self, register: RegisterId, index: usize, value: Int) {
        self.state.set_register(register, index, value);
    }
}
