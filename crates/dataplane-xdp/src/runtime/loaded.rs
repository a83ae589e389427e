//! A program that forwards: its image's maps, its programs, what was told and counted.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bpf::{Program, ProgramConfig, ProgramKind};
use dataplane::engine::{Change, Interpreted};
use dataplane::offload::{Accounts, Written};
use dataplane::{DropReason, Nanos, OffloadNotice, PortId};

use super::begun::finishing;
use super::counts::{Counts, Sources};
use super::digests::Digests;
use super::grace::{Graces, Wait};
use super::groups::FanOuts;
use super::maps::Maps;
use super::messages::{Message, Progress, TableRef};
use super::offload::KernelPort;
use super::table::Table;
use super::told::{Told, Unsaid};
use super::tracepoints::Tracepoints;
use super::transmit::Transmit;
use super::writer::Writer;
use crate::compile::compile;
use crate::image::{Image, Interface, MapRef, MapRole, Room, TableLayout};

/// Why it cannot go on.
type Reason = String;

/// Tables whose packets are the engine's, by position, and why.
pub(super) type Left = BTreeMap<usize, Reason>;

/// A program that the kernel did not take, and what forwarded until that was clear.
pub(super) struct Refused {
    pub(super) half: Option<Box<Loaded>>,
    pub(super) why: Unsaid,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Refused {
        let why = Unsaid::Failed(reason);
        Refused { half: None, why }
    }
}

/// A program in the kernel. Frames of its ports meet it until it is dropped.
pub(super) struct Loaded {
    ports: Vec<KernelPort>,
    image: Image,
    maps: Arc<Maps>,
    counters: MapRef,
    tracepoints: Tracepoints,
    /// First of each port's sockets.
    sockets: HashMap<PortId, u32>,
    told: Told,
    counts: Counts,
    digests: Digests,
    /// What could not be said in the kernel, for the next commit to tell.
    unsaid: Option<Unsaid>,
    messages: Sender<Message>,
    graces: Arc<Graces>,
    /// The writer, and what waits for grace periods.
    threads: Vec<JoinHandle<()>>,
    progress: Arc<Progress>,
    /// Commits that the writer was told.
    n_commits: u64,
    /// Epochs from here on it was not told of.
    next_epoch: u64,
    /// Epochs below it were drained when that was asked.
    drained: u64,
    egress: Egress,
    /// What became of a port that did not take its own program back.
    undetached: Option<Reason>,
    /// The ports run the program, or one of them does.
    is_attached: bool,
    /// The programs are not to end with this.
    is_left: bool,
}

/// How long a stop waits at most until what was committed is shown, where the programs run on.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// A thread that should not have ended.
const ENDED: &str = "its thread has ended";

/// Programs of device maps' entries.
struct Egress {
    /// Over the copies of groups.
    copies: Arc<Program>,
    /// Over what leaves as ingress has made it.
    unicast: Program,
}

impl Egress {
    fn load(image: &Image, maps: &Maps, transmit: &Transmit) -> Result<Egress, Reason> {
        let copies = image.egress.as_ref().map(|code| maps.link(code));
        let copies = transmit.load_egress("reprise_copies", copies.as_deref());
        let unicast = transmit.load_egress("reprise_unicast", None);
        Ok(Egress {
            copies: Arc::new(copies.map_err(kernel("load the program of copies"))?),
            unicast: unicast.map_err(kernel("load the program of what leaves"))?,
        })
    }
}

/// The tables, and the groups where the kernel makes copies, as the writer has them.
fn written_to(
    program: &dataplane::Program,
    image: &Image,
    maps: &Maps,
    ports: &[KernelPort],
    copies: &Arc<Program>,
) -> (HashMap<TableRef, Table>, Option<(TableLayout, FanOuts)>) {
    let mut tables = HashMap::new();
    for ((table, _), layout) in program.tables().zip(&image.tables) {
        let made = Table::new(layout.clone(), maps);
        tables.insert(TableRef::Program(table.index()), made);
    }
    let groups = image.fan_out.clone().map(|fan_out| {
        let layout = fan_out.groups.clone();
        let table = Table::new(layout.clone(), maps);
        tables.insert(TableRef::Groups, table);
        let interfaces = ports.iter().map(|port| (port.id, port.interface.index()));
        let spec = image.maps.get(fan_out.devices.index());
        let n_fan_outs = spec.map_or(0, |spec| spec.n_entries_max);
        let copies = Arc::clone(copies);
        let fan_outs = FanOuts::new(fan_out, n_fan_outs, copies, interfaces.collect());
        (layout, fan_outs)
    });
    (tables, groups)
}

impl Loaded {
    /// Compiles what is written and has it forward.
    ///
    /// # Errors
    /// Why nothing of the program is taken, or which table more is to be left to the engine.
    pub(super) fn new(
        ports: &[KernelPort],
        left: &Left,
        clock_offset_ns: u64,
        wait: Wait,
        written: &Written<'_>,
    ) -> Result<Loaded, Refused> {
        check(ports)?;
        let program = written.state().program();
        let room = room(ports, left)?;
        let image = compile(program, &room).map_err(|refused| refused.to_string())?;
        let n_sockets = ports.iter().map(|port| port.interface.n_queues()).sum();
        let maps = Maps::create(&image, n_sockets).map_err(kernel("make maps"))?;
        let tracepoints = Tracepoints::new(ports, &image, &maps);
        let tracepoints = tracepoints.map_err(kernel("count what devices take"))?;
        let maps = Arc::new(maps);
        let digests = Digests::new(program, &image, &maps).map_err(kernel("read digests"))?;
        let egress = Egress::load(&image, &maps, &tracepoints.transmit)?;
        let (freed_to, freed) = mpsc::channel();
        let (messages, of_writer) = mpsc::channel();
        let told = Told::new(&image, freed, messages.clone());
        let graces = Arc::new(Graces::new(wait, tracepoints.turns(&maps)));
        let first = graces.during(bpf::wait_for_programs);
        first.map_err(kernel("wait for a grace period (membarrier)"))?;
        let (tables, groups) = written_to(program, &image, &maps, ports, &egress.copies);
        let writer = Writer::new(
            Arc::clone(&maps),
            image.heap.version,
            tables,
            groups,
            Arc::clone(&graces),
            freed_to,
        );
        let counters = image.map(MapRole::Counters);
        let counters = counters.ok_or_else(|| "the image has no counters".to_owned())?;
        let indices = ports.iter().map(|port| (port.id, port.interface.index()));
        let mut loaded = Loaded {
            counts: Counts::new(program, &image, indices),
            digests,
            ports: ports.to_vec(),
            image,
            maps,
            counters,
            tracepoints,
            sockets: HashMap::new(),
            told,
            unsaid: None,
            messages,
            graces,
            threads: Vec::new(),
            progress: Arc::default(),
            n_commits: 0,
            next_epoch: 0,
            drained: 0,
            egress,
            undetached: None,
            is_attached: false,
            is_left: false,
        };
        if let Some(notice) = loaded.tracepoints.notice() {
            loaded.progress.notice(notice);
        }
        let begun = loaded.begin(writer, of_writer, clock_offset_ns, written);
        match begun {
            Ok(()) => Ok(loaded),
            Err(why) => {
                loaded.detach();
                let half = Some(Box::new(loaded));
                Err(Refused { half, why })
            }
        }
    }

    /// What it leaves to the engine.
    pub(super) fn left(&self) -> Vec<Interpreted> {
        self.image.left.clone()
    }

    /// Writes all that is written, then has the programs run.
    fn begin(
        &mut self,
        mut writer: Writer,
        messages: Receiver<Message>,
        clock_offset_ns: u64,
        written: &Written<'_>,
    ) -> Result<(), Unsaid> {
        self.maps.store_u64(self.image.heap.clock, clock_offset_ns);
        let failed = |what| move |error| Unsaid::Failed(kernel(what)(error));
        self.put_sockets()
            .map_err(failed("give it the ports' sockets"))?;
        let known: Vec<PortId> = written.ports().collect();
        for port in known {
            self.add_port(port).map_err(failed("make a port known"))?;
        }
        self.told.all(written)?;
        self.told.take_taken();
        let messages_to = self.messages.clone();
        // The writer is not there any more where it is not listened to.
        let tell = move || drop(messages_to.send(Message::Look));
        let thread = self.graces.start(tell);
        self.threads.push(thread.map_err(failed("start a thread"))?);
        let first = self.told.take();
        writer.commit(&first).map_err(Unsaid::from)?;
        let progress = Arc::clone(&self.progress);
        let thread = thread::Builder::new().name("reprise-kernel".into());
        let thread = thread.spawn(move || writer.run(&messages, &progress));
        self.threads.push(thread.map_err(failed("start a thread"))?);
        self.is_attached = true;
        self.attach().map_err(Unsaid::Failed)?;
        for port in &self.ports {
            let kept = port.interface.keep();
            kept.map_err(failed("keep the program beyond the process"))?;
        }
        Ok(())
    }

    fn put_sockets(&mut self) -> io::Result<()> {
        let Some(map) = self.image.map(MapRole::Sockets) else {
            return Ok(());
        };
        let mut first = 0;
        for port in &self.ports {
            port.interface.put_sockets(self.maps.get(map)?, first)?;
            self.sockets.insert(port.id, first);
            first += port.interface.n_queues();
        }
        Ok(())
    }

    /// A port of the switch: its frames are the program's, and packets may leave by it.
    fn add_port(&mut self, port: PortId) -> io::Result<()> {
        let Some(served) = self.ports.iter().find(|it| it.id == port) else {
            return Ok(());
        };
        let index = served.interface.index();
        if let Some(devices) = self.image.map(MapRole::Devices) {
            let devices = self.maps.get(devices)?;
            devices.set_device(port.0.into(), index, Some(&self.egress.unicast))?;
            self.maps.store_u32(self.image.heap.port(port), 1);
        }
        if let Some(at) = self.image.heap.interface(index) {
            let interface = Interface {
                port: Some(port),
                sockets: self.sockets.get(&port).copied().unwrap_or(0),
            };
            self.maps.store_bytes(at, &interface.to_bytes());
        }
        self.told.add_port(port);
        Ok(())
    }

    /// Loads the program once for each way to tell which frames are the switch's, and runs it on the ports.
    fn attach(&self) -> Result<(), Reason> {
        let mut loaded: BTreeMap<Vec<[u8; 8]>, Program> = BTreeMap::new();
        for port in &self.ports {
            let mut code = port.interface.filter();
            if port.interface.is_virtual() {
                code.extend(finishing().map_err(kernel("finish checksums"))?);
            }
            let filter = code.iter().map(|it| {
                let [low, high] = it.offset.to_ne_bytes();
                let [a, b, c, d] = it.immediate.to_ne_bytes();
                [it.code, it.registers, low, high, a, b, c, d]
            });
            let filter: Vec<[u8; 8]> = filter.collect();
            if !loaded.contains_key(&filter) {
                code.extend(self.maps.link(&self.image.ingress));
                let program = Program::load(&ProgramConfig {
                    name: "reprise_p4",
                    kind: ProgramKind::Xdp,
                    has_fragments: false,
                    instructions: &code,
                });
                let program = program.map_err(kernel("load the program"))?;
                loaded.insert(filter.clone(), program);
            }
            if let Some(program) = loaded.get(&filter) {
                let run = port.interface.run(program);
                run.map_err(|error| format!("port {}: {error}", port.id))?;
            }
        }
        Ok(())
    }

    pub(super) fn changed(&mut self, written: &Written<'_>, change: &Change<'_>) {
        // The next commit fails. To wait for room once more would hold up the event loop.
        if self.unsaid.is_some() {
            return;
        }
        let result = match change {
            Change::Port(port) => match self.add_port(*port) {
                Ok(()) => self.told.resolve_groups(written),
                Err(error) => Err(Unsaid::Failed(format!("port {port}: {error}"))),
            },
            change => self.told.changed(written, change),
        };
        let result = result.and_then(|()| self.change_owners().map_err(Unsaid::Failed));
        if let Err(reason) = result {
            self.unsaid.get_or_insert(reason);
        }
    }

    /// Bodies that were given out begin with what others have counted there.
    fn change_owners(&mut self) -> Result<(), Reason> {
        let counters = self
            .maps
            .get(self.counters)
            .map_err(kernel("read counters"))?;
        for taken in self.told.take_taken() {
            if let TableRef::Program(table) = taken.table {
                let changed = self.counts.change_owner(counters, table, taken.body);
                changed.map_err(kernel("read a counter"))?;
            }
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), Unsaid> {
        self.check()?;
        let ops = self.told.take();
        if ops.is_empty() {
            return Ok(());
        }
        self.n_commits += 1;
        let sent = self.messages.send(Message::Commit(ops));
        sent.map_err(|_| Unsaid::Failed(ENDED.to_owned()))
    }

    pub(super) fn collect(
        &mut self,
        now: Nanos,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), Unsaid> {
        self.count(now, accounts).map_err(Unsaid::Failed)?;
        self.check()
    }

    fn count(&mut self, now: Nanos, accounts: &mut Accounts<'_>) -> Result<(), Reason> {
        let counters = self
            .maps
            .get(self.counters)
            .map_err(kernel("read counters"))?;
        let counts = &mut self.counts;
        let from = Sources {
            counters,
            transmit: &self.tracepoints.transmit,
            told: &self.told,
            graces: &self.graces,
        };
        let collected = counts.collect(&from, now, accounts);
        collected.map_err(kernel("read counters"))
    }

    /// Gives digests, so many at most; how many.
    pub(super) fn take_digests(&mut self, n_max: usize, accounts: &mut Accounts<'_>) -> usize {
        self.digests.take(n_max, accounts)
    }

    /// Readable while there are digests.
    pub(super) fn digests_fd(&self) -> Option<BorrowedFd<'_>> {
        self.digests.fd()
    }

    /// What has happened while it goes on.
    pub(super) fn poll_notice(&self) -> Option<OffloadNotice> {
        self.progress.poll_notice()
    }

    pub(super) fn begin_drain(&mut self, epoch: u64) {
        self.next_epoch = epoch + 1;
        if self.is_clear() {
            self.drained = epoch + 1;
            return;
        }
        // Where the thread has ended, the next commit or look at the accounts says so, and ends the drain.
        let _ = self.messages.send(Message::Drain(epoch));
    }

    pub(super) fn is_drained(&self, epoch: u64) -> bool {
        let drained = self.progress.drained.load(Ordering::Acquire);
        epoch >= self.next_epoch || epoch < drained.max(self.drained)
    }

    /// Whether all packets see what was committed last, and none is inside of those that are counted. Whoever
    /// drains before he changes something, as for a viewer that joins, waits for no grace period then.
    fn is_clear(&self) -> bool {
        let n_seen = self.progress.n_seen.load(Ordering::Acquire);
        let Ok(counters) = self.maps.get(self.counters) else {
            return false;
        };
        let transmit = &self.tracepoints.transmit;
        let n_inside = || self.counts.n_inside_now(counters, transmit);
        n_seen == self.n_commits && n_inside().is_ok_and(|n_inside| n_inside == 0)
    }

    pub(super) fn check(&mut self) -> Result<(), Unsaid> {
        // What has befallen the thread is the reason for what could not be said.
        let failed = self.progress.failure().map(Unsaid::from);
        let failed = failed.or_else(|| {
            let error = self.graces.check().err()?;
            Some(Unsaid::Failed(error.to_string()))
        });
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        let ended = has_ended.then(|| Unsaid::Failed(ENDED.to_owned()));
        match failed.or_else(|| self.unsaid.take()).or(ended) {
            Some(unsaid) => Err(unsaid),
            None => Ok(()),
        }
    }

    /// The programs run on without this process; what they forward from now on is counted by nobody.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Leaves all frames to the ports, and gives what was counted.
    ///
    /// # Errors
    /// A port gets no frames any more, which are the host's.
    pub(super) fn stop(
        mut self,
        now: Nanos,
        reason: DropReason,
        accounts: &mut Accounts<'_>,
    ) -> Result<(), Reason> {
        self.detach();
        // A failed one gives the accounts as far as it can.
        let _ = bpf::wait_for_programs();
        let _ = self.count(now, accounts);
        self.digests.take(usize::MAX, accounts);
        // What is inside of programs that run on is still sent.
        if !self.is_left {
            self.counts.give_up(reason, accounts);
        }
        self.undetached.take().map_or(Ok(()), Err)
    }

    /// Nothing runs afterwards, at the latest a grace period from now.
    fn detach(&mut self) {
        match self.is_left {
            true => self.await_shown(),
            false => self.give_back(),
        }
        self.graces.stop();
        // Where it does not listen it has ended.
        let _ = self.messages.send(Message::Look);
        for thread in self.threads.drain(..) {
            // Whatever became of it, it writes no more.
            let _ = thread.join();
        }
    }

    /// Waits until all packets see what was committed, unless the writer has failed.
    fn await_shown(&self) {
        let end = Instant::now() + SHOWN_WITHIN;
        let is_shown = || self.progress.n_seen.load(Ordering::Acquire) == self.n_commits;
        let is_served = || !self.threads.iter().any(JoinHandle::is_finished);
        while !is_shown() && is_served() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The ports' own programs run. What an earlier process has left there forwards on while this one's has not begun.
    fn give_back(&mut self) {
        if !std::mem::take(&mut self.is_attached) {
            return;
        }
        for port in &self.ports {
            let Err(error) = port.interface.run_own() else {
                continue;
            };
            // Its frames are not to be forwarded by what nobody counts.
            let index = port.interface.index();
            if let Some(at) = self.image.heap.interface(index) {
                let (none, sockets) = (None, 0);
                let unknown = Interface {
                    port: none,
                    sockets,
                };
                self.maps.store_bytes(at, &unknown.to_bytes());
            }
            let (id, name) = (port.id, port.interface.name());
            self.undetached.get_or_insert(format!(
                "port {id}: interface \"{name}\" is the host's now, since the port's own program does not run \
                 there: {error}"
            ));
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Whether the ports can be served.
fn check(ports: &[KernelPort]) -> Result<(), Reason> {
    // A packet loads the version, then slots. Nothing but x86's memory model keeps that order.
    if !cfg!(target_arch = "x86_64") {
        let here = std::env::consts::ARCH;
        return Err(format!(
            "programs rest on x86-64's order of loads, this is {here}"
        ));
    }
    for KernelPort { id, interface, .. } in ports {
        let name = interface.name();
        if interface.mode() != bpf::AttachMode::Native {
            return Err(format!(
                "port {id}: the driver of interface \"{name}\" runs no XDP programs (generic mode)"
            ));
        }
        if interface.has_fragments() {
            return Err(format!(
                "port {id}: interface \"{name}\" has frames in several pieces: set its MTU to 3,000 or less"
            ));
        }
        if interface.takes_redirected() == Some(false) {
            return Err(format!(
                "port {id}: interface \"{name}\" would lose all that the program sends: on veth turn GRO on at \
                 the other end (\"ethtool -K PEER gro on\"), or have an XDP program there"
            ));
        }
    }
    Ok(())
}

fn room(ports: &[KernelPort], left: &Left) -> Result<Room, Reason> {
    let processors = bpf::n_possible_processors().map_err(kernel("count processors"))?;
    let mut room = Room {
        left: left.clone(),
        processors: u32::try_from(processors).map_err(|error| error.to_string())?,
        ..Room::default()
    };
    for port in ports {
        room.interfaces = room.interfaces.max(port.interface.index() + 1);
    }
    Ok(room)
}

fn kernel(what: &'static str) -> impl Fn(io::Error) -> Reason {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_some() => {
            format!("no permission to {what}: run as root outside any user namespace")
        }
        _ => format!("the kernel does not let it {what}: {error}"),
    }
}
