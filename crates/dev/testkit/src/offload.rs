//! An offload in memory: it gets frames before the switch and punts to the switch the frames that it does not take. It
//! works for one program, [`program`]. The program has a table with an exact key, two registers, and a
//! counter. An entry of the table forwards to one port, multicasts to a group (floods) or drops. The offload gets its
//! state only from the changes that the switch reports.

use std::{
    collections::{HashMap, VecDeque},
    io::{PipeReader, PipeWriter, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard},
};

use dataplane::{
    CounterId, CounterValue, Digest, DropReason, Nanos, Offload, OffloadNotice, OwnedTransmit,
    PortId, Program, RegisterId, Replica, Stream, TableCounters, TableId,
    engine::{Change, EntryAction, EntryIndex, Interpreted, TableChange, ir},
    offload::{Accounts, Unable, Written},
};
use serde_json::json;

use crate::builder::*;

pub const CELLS: u64 = 16;

/// Number of digests that are delivered at once if the supply of digests is endless (`is_flooding`).
const FLOOD: usize = 1000;

/// Makes the program. Ingress applies the table `l2` with the key `pkt.kind`. The action `forward` counts in `seen` and
/// writes `stamp[0]` to `pkt.value`. Egress writes the copy's instance to `pkt.left`. With `with_last`, `forward`
/// stores the frame's original value in the register `last`, in the cell of the output port.
pub fn program(with_last: bool) -> Builder {
    let mut b = Builder::default();
    for (id, name) in [(0, "stamp"), (1, "last")] {
        let array = json!({"name": name, "id": id, "size": CELLS, "bitwidth": 16});
        b.push("register_arrays", array);
    }
    let seen = json!({"name": "seen", "id": 0, "size": CELLS, "is_direct": false});
    b.push("counter_arrays", seen);
    let register = |name| json!({"type": "register_array", "value": name});
    let mut forward = vec![
        prim(
            "register_read",
            &[field("pkt.value"), register("stamp"), hex(0)],
        ),
        assign("standard_metadata.egress_spec", param(0)),
        prim(
            "count",
            &[json!({"type": "counter_array", "value": "seen"}), param(0)],
        ),
    ];
    if with_last {
        let write = prim(
            "register_write",
            &[register("last"), param(0), field("pkt.value")],
        );
        forward.insert(0, write);
    }
    let flood = [assign("standard_metadata.mcast_grp", param(0))];
    let actions = [
        ("forward", b.action("forward", &[("port", 9)], &forward)),
        ("flood", b.action("flood", &[("group", 16)], &flood)),
        ("drop", b.action("drop", &[], &[mark_to_drop()])),
    ];
    let table = b.table(INGRESS, "l2", &[("exact", "pkt.kind")], &actions, None);
    table["support_timeout"] = json!(true);
    table["max_size"] = json!(256);
    table["default_entry"] = json!({"action_id": actions[2].1, "action_const": false,
        "action_data": [], "action_entry_const": false});
    b.start(INGRESS, "l2");
    let instance = field("standard_metadata.egress_rid");
    b.run(EGRESS, "out", &[assign("pkt.left", instance)]);
    b
}

/// The frames that the offload takes. All other frames are punted to the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    All,
    /// About half of the frames, selected by a hash of the frame.
    Half,
    /// Frames from ports with even numbers.
    EvenPorts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Forward(u16),
    Flood(u32),
    Drop,
}

/// An entry with a serial number. No two entries ever get the same serial number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    serial: u64,
    act: Act,
}

/// The state that packets use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct View {
    entries: HashMap<u64, Entry>,
    default: Act,
    groups: HashMap<u32, Vec<Replica>>,
    ports: Vec<PortId>,
    stamp: u16,
}

/// Counts since the switch last collected the offload's counts.
#[derive(Default)]
struct Counts {
    received: HashMap<PortId, (u64, u64)>,
    sent: HashMap<PortId, (u64, u64)>,
    latencies: Vec<(PortId, Stream, Nanos)>,
    replicated: u64,
    drops: Vec<DropReason>,
    table: TableCounters,
    /// Hits of entries, by serial number, with the time of the last hit.
    hits: HashMap<u64, (CounterValue, Nanos)>,
    seen: HashMap<u16, CounterValue>,
    last: HashMap<u16, u16>,
}

struct Waiting {
    arrived: Nanos,
    epoch: u64,
    frame: Vec<u8>,
}

/// A copy of a packet on its way to a port.
struct Leaving {
    /// When the packet arrived.
    arrived: Nanos,
    port: PortId,
    instance: u16,
    stream: Stream,
    frame: Vec<u8>,
}

/// The part of the offload that a test controls and reads.
pub struct Core {
    takes: Takes,
    /// Whether packets see a commit only after a call of [`Core::show`].
    pub is_slow: bool,
    /// The error with which the next commit fails; `None` if the next commit succeeds.
    pub fails: Option<&'static str>,
    /// Whether the next commit asks the switch to load the program anew.
    pub is_full: bool,
    /// The number of further calls of `withdraw` that return false.
    pub n_withdrawals_left: usize,
    /// Whether `collect` and `check` fail.
    pub is_gone: bool,
    /// Notices that are not delivered yet.
    pub notices: VecDeque<OffloadNotice>,
    /// Whether the supply of digests is endless.
    pub is_flooding: bool,
    digests: VecDeque<Digest>,
    /// One byte is written per digest.
    wakes: PipeWriter,
    /// The number of calls of `forget_program`.
    pub n_forgotten: u64,
    /// Every change and commit, in order.
    pub log: Vec<String>,
    program: Option<(Program, Ids)>,
    /// The state according to the reported changes. In contrast, `shown` is the state that packets use.
    reported: View,
    shown: View,
    /// The state at the last commit.
    committed: View,
    /// The current entries, by index, with serial number and key.
    indices: HashMap<usize, (EntryIndex, u64, u64)>,
    n_serials: u64,
    queue: VecDeque<Waiting>,
    epoch: u64,
    counts: Counts,
}

pub struct Double {
    core: Arc<Mutex<Core>>,
    /// The read end of the pipe to which [`Core::digest`] writes.
    woken: PipeReader,
}

impl Double {
    /// Makes an offload. Also returns the part of the offload that the test keeps.
    pub fn new(takes: Takes) -> (Box<Self>, Arc<Mutex<Core>>) {
        let (woken, wakes) = std::io::pipe().unwrap();
        let view = View {
            entries: HashMap::new(),
            default: Act::Drop,
            groups: HashMap::new(),
            ports: Vec::new(),
            stamp: 0,
        };
        let core = Core {
            takes,
            is_slow: false,
            fails: None,
            is_full: false,
            n_withdrawals_left: 0,
            is_gone: false,
            notices: VecDeque::new(),
            is_flooding: false,
            digests: VecDeque::new(),
            wakes,
            n_forgotten: 0,
            log: Vec::new(),
            program: None,
            reported: view.clone(),
            shown: view.clone(),
            committed: view,
            indices: HashMap::new(),
            n_serials: 0,
            queue: VecDeque::new(),
            epoch: 0,
            counts: Counts::default(),
        };
        let core = Arc::new(Mutex::new(core));
        let double = Self {
            core: core.clone(),
            woken,
        };
        (Box::new(double), core)
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap()
    }
}

fn number(value: &ir::Int) -> u64 {
    u64::try_from(value).unwrap()
}

fn count(cell: &mut CounterValue, n_bytes: u64) {
    cell.packets += 1;
    cell.bytes += n_bytes;
}

/// The ids of the objects in the program.
#[derive(Debug, Clone, Copy)]
struct Ids {
    table: TableId,
    seen: CounterId,
    stamp: RegisterId,
    last: RegisterId,
}

impl Ids {
    fn of(program: &Program) -> Option<Self> {
        Some(Self {
            table: program.table("l2")?,
            seen: program.counter("seen")?,
            stamp: program.register("stamp")?,
            last: program.register("last")?,
        })
    }
}

impl Core {
    fn ids(&self) -> Ids {
        self.program.as_ref().unwrap().1
    }

    /// Gives the offload a frame. Returns whether the offload took the frame. If it did not, the caller must give the
    /// frame to the switch (a punt).
    pub fn receive(&mut self, now: Nanos, port: PortId, frame: &[u8]) -> bool {
        let is_taken = match self.takes {
            Takes::All => true,
            Takes::Half => {
                frame
                    .iter()
                    .fold(7, |hash: u8, byte| hash.wrapping_mul(31) ^ byte)
                    & 4
                    == 0
            }
            Takes::EvenPorts => port.0.is_multiple_of(2),
        };
        let is_served = self.program.is_some() && self.shown.ports.contains(&port);
        // Frames that are too short for the parser go to the engine.
        if !is_taken || !is_served || frame.len() < 4 {
            return false;
        }
        let (packets, bytes) = self.counts.received.entry(port).or_default();
        *packets += 1;
        *bytes += frame.len() as u64;
        self.queue.push_back(Waiting {
            arrived: now,
            epoch: self.epoch,
            frame: frame.to_vec(),
        });
        true
    }

    /// Adds a digest, as if a packet had made it.
    pub fn digest(&mut self, digest: Digest) {
        self.digests.push_back(digest);
        self.wakes.write_all(&[0]).unwrap();
    }

    /// Forwards the packets inside the offload, and returns the frames that leave.
    pub fn run(&mut self, now: Nanos) -> Vec<OwnedTransmit> {
        let mut sent = Vec::new();
        while let Some(waiting) = self.queue.pop_front() {
            self.forward(now, &waiting, &mut sent);
        }
        sent
    }

    fn forward(&mut self, now: Nanos, waiting: &Waiting, sent: &mut Vec<OwnedTransmit>) {
        let n_bytes = waiting.frame.len() as u64;
        let entry = self
            .shown
            .entries
            .get(&u64::from(waiting.frame[0]))
            .copied();
        match entry {
            Some(entry) => {
                self.counts.table.hits += 1;
                let (hits, last) = self.counts.hits.entry(entry.serial).or_default();
                count(hits, n_bytes);
                *last = now;
            }
            None => self.counts.table.misses += 1,
        }
        match entry.map_or(self.shown.default, |entry| entry.act) {
            Act::Drop => self.counts.drops.push(DropReason::IngressDrop),
            Act::Forward(port) => {
                if u64::from(port) < CELLS {
                    count(self.counts.seen.entry(port).or_default(), n_bytes);
                    let value = u16::from_be_bytes([waiting.frame[2], waiting.frame[3]]);
                    self.counts.last.insert(port, value);
                }
                let mut frame = waiting.frame.clone();
                frame[2..4].copy_from_slice(&self.shown.stamp.to_be_bytes());
                let leaving = Leaving {
                    arrived: waiting.arrived,
                    port: PortId(port),
                    instance: 0,
                    stream: Stream::Unicast,
                    frame,
                };
                self.send(now, leaving, sent);
            }
            Act::Flood(0) => self.send_flooded_nowhere(now, waiting, sent),
            Act::Flood(group) => self.flood(now, waiting, group, sent),
        }
    }

    /// Sends a frame whose group is 0. Group 0 means no multicast, so the frame leaves at port 0, the default output
    /// port.
    fn send_flooded_nowhere(
        &mut self,
        now: Nanos,
        waiting: &Waiting,
        sent: &mut Vec<OwnedTransmit>,
    ) {
        let leaving = Leaving {
            arrived: waiting.arrived,
            port: PortId(0),
            instance: 0,
            stream: Stream::Unicast,
            frame: waiting.frame.clone(),
        };
        self.send(now, leaving, sent);
    }

    fn flood(&mut self, now: Nanos, waiting: &Waiting, group: u32, sent: &mut Vec<OwnedTransmit>) {
        let Some(replicas) = self.shown.groups.get(&group).cloned() else {
            return self.counts.drops.push(DropReason::MulticastGroupUnknown);
        };
        let Some(n_more) = replicas.len().checked_sub(1) else {
            return self.counts.drops.push(DropReason::MulticastGroupEmpty);
        };
        self.counts.replicated += n_more as u64;
        let stream = Stream::MulticastGroup(group);
        for Replica { port, instance } in replicas {
            let leaving = Leaving {
                arrived: waiting.arrived,
                port,
                instance,
                stream,
                frame: waiting.frame.clone(),
            };
            self.send(now, leaving, sent);
        }
    }

    fn send(&mut self, now: Nanos, leaving: Leaving, sent: &mut Vec<OwnedTransmit>) {
        let Leaving {
            arrived,
            port,
            instance,
            stream,
            mut frame,
        } = leaving;
        if port == PortId(511) && stream == Stream::Unicast {
            return self.counts.drops.push(DropReason::IngressDrop);
        }
        if !self.shown.ports.contains(&port) {
            return self.counts.drops.push(DropReason::EgressPortUnknown);
        }
        frame[1] = instance.to_be_bytes()[1];
        let (packets, bytes) = self.counts.sent.entry(port).or_default();
        *packets += 1;
        *bytes += frame.len() as u64;
        let latency_ns = now - arrived;
        self.counts.latencies.push((port, stream, latency_ns));
        sent.push(OwnedTransmit { port, frame });
    }

    /// Makes packets use the state of the last commit.
    pub fn show(&mut self) {
        self.shown = self.committed.clone();
    }

    pub fn n_inside(&self) -> usize {
        self.queue.len()
    }

    fn act(&self, action: &EntryAction) -> Act {
        let (program, _) = self.program.as_ref().unwrap();
        let EntryAction::Call(call) = action else {
            panic!("the table has no profile")
        };
        let name = &program.action_info(call.action).unwrap().name;
        let argument = call.args.first().map_or(0, number);
        match name.as_str() {
            "forward" => Act::Forward(u16::try_from(argument).unwrap()),
            "flood" => Act::Flood(u32::try_from(argument).unwrap()),
            _ => Act::Drop,
        }
    }

    fn insert(&mut self, written: &Written<'_>, index: EntryIndex, is_new: bool) {
        let view = written.state().entry(self.ids().table, index).unwrap();
        let ir::Matcher::Exact(key) = &view.key[0] else {
            panic!("the key is exact")
        };
        let key = number(key);
        if is_new {
            self.n_serials += 1;
            let serial = self.n_serials;
            self.indices.insert(index.index(), (index, serial, key));
        }
        let (_, serial, _) = self.indices[&index.index()];
        let act = self.act(view.action);
        self.reported.entries.insert(key, Entry { serial, act });
    }

    fn default(&mut self, written: &Written<'_>) {
        let default = written.state().default_action(self.ids().table);
        self.reported.default = default.map_or(Act::Drop, |action| self.act(action));
    }

    fn group(&mut self, written: &Written<'_>, id: u32) {
        match written.multicast_group(id) {
            Some(replicas) => self.reported.groups.insert(id, replicas),
            None => self.reported.groups.remove(&id),
        };
    }

    fn stamp(&mut self, written: &Written<'_>) {
        let stamp = written.state().register(self.ids().stamp, 0).unwrap();
        self.reported.stamp = u16::try_from(number(&stamp)).unwrap();
    }

    fn table(&mut self, written: &Written<'_>, change: &TableChange<'_>) {
        match change {
            TableChange::Inserted(entry) => self.insert(written, *entry, true),
            TableChange::Modified(entry) | TableChange::Metered(entry) => {
                self.insert(written, *entry, false);
            }
            TableChange::Removed { entry, .. } => {
                let (_, _, key) = self.indices.remove(&entry.index()).unwrap();
                self.reported.entries.remove(&key);
            }
            TableChange::Default => self.default(written),
        }
    }

    fn report(&mut self, accounts: &mut Accounts<'_>) {
        let counts = std::mem::take(&mut self.counts);
        for (port, (packets, bytes)) in counts.received {
            accounts.received(port, packets, bytes);
        }
        for (port, (packets, bytes)) in counts.sent {
            accounts.sent(port, packets, bytes);
        }
        for (port, stream, latency_ns) in counts.latencies {
            accounts.latency(port, stream, latency_ns, 1);
        }
        accounts.replicated(counts.replicated);
        for reason in counts.drops {
            accounts.dropped(reason, 1);
        }
        accounts.table(self.ids().table, counts.table);
        for (index, serial, _) in self.indices.values() {
            if let Some((hits, last)) = counts.hits.get(serial) {
                accounts.entry(self.ids().table, *index, *hits, *last);
            }
        }
        for (index, counted) in counts.seen {
            accounts.counter(self.ids().seen, index.into(), counted);
        }
        if self.takes == Takes::All {
            for (index, value) in counts.last {
                accounts.register(self.ids().last, index.into(), value.into());
            }
        }
        accounts.inside(self.queue.len() as u64);
    }

    fn give_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        if self.is_flooding {
            let n = n_max.min(FLOOD);
            (0..n).for_each(|_| accounts.digest(a_digest(0)));
            return n;
        }
        let n = self.digests.len().min(n_max);
        self.digests
            .drain(..n)
            .for_each(|digest| accounts.digest(digest));
        n
    }
}

/// Makes a digest of the type `seen_t`. The program itself makes no digests.
pub fn a_digest(number: u8) -> Digest {
    Digest {
        name: "seen_t".to_owned(),
        members: vec![vec![number]],
    }
}

impl Offload for Double {
    fn load(&mut self, written: &Written<'_>) -> Result<Vec<Interpreted>, Unable> {
        let mut core = self.core();
        let core = &mut *core;
        let program = written.state().program();
        let Some(ids) = Ids::of(program) else {
            return Err("no table \"l2\"".to_owned().into());
        };
        let writes = program
            .ir()
            .actions
            .iter()
            .flat_map(|action| &action.primitives);
        let mut writes = writes.filter(|it| matches!(it, ir::Primitive::RegisterWrite { .. }));
        if core.takes != Takes::All && writes.next().is_some() {
            let reason = "register \"last\": offload and engine would both write it".to_owned();
            return Err(reason.into());
        }
        core.program = Some((program.clone(), ids));
        core.reported.entries.clear();
        core.indices.clear();
        let entries = written.state().entries(ids.table);
        entries.for_each(|(index, _)| core.insert(written, index, true));
        core.default(written);
        core.reported.groups.clear();
        written
            .multicast_groups()
            .for_each(|id| core.group(written, id));
        core.reported.ports = written.ports().collect();
        core.stamp(written);
        core.committed = core.reported.clone();
        core.show();
        core.log.push("load".to_owned());
        Ok(vec![Interpreted {
            place: "parser".to_owned(),
            reason: "frames shorter than 4 bytes".to_owned(),
        }])
    }

    fn withdraw(&mut self) -> bool {
        let mut core = self.core();
        let n_left = core.n_withdrawals_left.checked_sub(1);
        if n_left.is_some() {
            core.log.push("withdraw".to_owned());
        }
        core.n_withdrawals_left = n_left.unwrap_or(0);
        n_left.is_none()
    }

    fn forget_program(&mut self) {
        self.core().n_forgotten += 1;
    }

    fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        let mut core = self.core();
        core.log.push(brief(change));
        match change {
            Change::Table(_, change) => core.table(written, change),
            Change::MulticastGroup(id) => core.group(written, *id),
            Change::Register(register, _) if *register == core.ids().stamp => core.stamp(written),
            // The control plane overwrites values that packets wrote before.
            Change::Register(_, cells) => {
                let is_over = |cell: &u16| cells.contains(&usize::from(*cell));
                core.counts.last.retain(|cell, _| !is_over(cell));
            }
            Change::Port(port) => core.reported.ports.push(*port),
            _ => {}
        }
    }

    fn commit(&mut self, _: &Written<'_>) -> Result<(), Unable> {
        let mut core = self.core();
        core.log.push("commit".to_owned());
        if std::mem::take(&mut core.is_full) {
            return Err(Unable::Anew);
        }
        if let Some(reason) = core.fails.take() {
            return Err(reason.to_owned().into());
        }
        core.committed = core.reported.clone();
        if !core.is_slow {
            core.show();
        }
        Ok(())
    }

    fn collect(&mut self, accounts: &mut Accounts<'_>) -> Result<(), Unable> {
        let mut core = self.core();
        if core.is_gone {
            return Err("port 1: the interface is gone".to_owned().into());
        }
        core.report(accounts);
        Ok(())
    }

    fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        let (n, is_flooding) = {
            let mut core = self.core();
            (core.give_digests(n_max, accounts), core.is_flooding)
        };
        if !is_flooding {
            self.woken.read_exact(&mut vec![0; n]).unwrap();
        }
        n
    }

    fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.woken.as_fd())
    }

    fn check(&mut self) -> Result<(), Unable> {
        if self.core().is_gone {
            Err("port 1: the interface is gone".to_owned().into())
        } else {
            Ok(())
        }
    }

    fn begin_drain(&mut self, epoch: u64) {
        self.core().epoch = epoch + 1;
    }

    fn is_drained(&self, epoch: u64) -> bool {
        let core = self.core();
        core.shown == core.committed && core.queue.iter().all(|waiting| waiting.epoch > epoch)
    }

    fn poll_notice(&mut self) -> Option<OffloadNotice> {
        self.core().notices.pop_front()
    }

    fn stop(&mut self, reason: DropReason, accounts: &mut Accounts<'_>) -> Result<(), String> {
        let mut core = self.core();
        // There is no program, because `load` has refused it.
        if core.program.is_none() {
            return Ok(());
        }
        let n_inside = core.queue.len();
        core.queue.clear();
        core.counts.drops.extend(vec![reason; n_inside]);
        core.report(accounts);
        core.program = None;
        core.log.push("stop".to_owned());
        drop(core);
        self.take_digests(usize::MAX, accounts);
        Ok(())
    }
}

/// Returns a short description of a change.
pub fn brief(change: &Change<'_>) -> String {
    match change {
        Change::Table(_, TableChange::Inserted(_)) => "insert entry".to_owned(),
        Change::Table(_, TableChange::Modified(_)) => "modify entry".to_owned(),
        Change::Table(_, TableChange::Metered(_)) => "meter entry".to_owned(),
        Change::Table(_, TableChange::Removed { .. }) => "remove entry".to_owned(),
        Change::Table(_, TableChange::Default) => "default".to_owned(),
        Change::MulticastGroup(id) => format!("group {id}"),
        Change::CloneSession(id) => format!("session {id}"),
        Change::Register(register, cells) => format!("register {} {cells:?}", register.index()),
        Change::Port(port) => format!("port {port}"),
        other => format!("{other:?}"),
    }
}
