//! Watches the interfaces beneath the ports, on a thread of its own.
//!
//! Sockets of an interface that is removed, or moves to another network namespace, lose their binding for good. So the
//! port of such an interface is lost: a [`LostPort`] replaces it in every event loop and counts what cannot be sent,
//! until an interface of the same name can be opened with the same checks as at the start. The states of a lost port,
//! one after the other:
//!
//! - The interface is gone. The port counts what it cannot send.
//! - A [`LostPort`] has replaced the port in every loop, and the old sockets are closed.
//! - An interface of that name exists, and the port is opened.
//! - Every loop has the new port.
//!
//! If an interface is removed while its port is being opened, opening fails. If the interface is removed later, the
//! kernel reports that to the monitor, which has listened since before the opening. A bound port follows its
//! interface's index even if the interface is renamed; a lost port waits for an interface with the name from the
//! command line.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use control::{LinkState, SwitchHandle};
use dataplane::PortId;
use packet_io::{
    Link, LinkEvent, LinkMonitor, LostPort, Port, PortError, Waiter, Waker, XdpInterface,
};

use crate::error::SwitchError;
use crate::handle::LoopHandle;
use crate::ports::{Opening, since_1970_ns};

/// How often to retry opening a lost port even if no event comes. An interface may exist and still be impossible to
/// open: too few queues, too little memory, or another switch that uses it. When such a reason ends, the kernel sends
/// no event. At the same interval the interfaces' queues are counted, and a kernel that refused to report the
/// interfaces is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// State and history of a port's interface, which the event loops read.
#[derive(Debug, Default)]
pub(crate) struct LinkStatus {
    /// A [`LinkState`] as a number.
    state: AtomicU8,
    down_events: AtomicU64,
    up_events: AtomicU64,
    lost_events: AtomicU64,
    unserved_queues: AtomicU32,
    /// Time of the last transition, or of the first look at the interface, in nanoseconds since the Unix epoch; 0
    /// before the first look.
    changed_ns: AtomicU64,
    /// How often the link has gone down or come up.
    transitions: AtomicU64,
    /// In bytes; 0 if unknown.
    mtu: AtomicU32,
    /// The interface's current name; empty while it has none.
    interface: Mutex<String>,
}

impl LinkStatus {
    pub(crate) fn state(&self) -> LinkState {
        match self.state.load(Ordering::Relaxed) {
            1 => LinkState::Up,
            2 => LinkState::Down,
            3 => LinkState::Lost,
            _ => LinkState::None,
        }
    }

    fn set(&self, state: LinkState) {
        let number = match state {
            LinkState::None => 0,
            LinkState::Up => 1,
            LinkState::Down => 2,
            LinkState::Lost => 3,
        };
        let was_up = self.state() == LinkState::Up;
        let is_first = self.changed_ns() == 0;
        self.state.store(number, Ordering::Relaxed);
        let is_other = was_up != (state == LinkState::Up);
        if is_other && !is_first {
            count(&self.transitions);
        }
        if is_other || is_first {
            let now_ns = since_1970_ns();
            self.changed_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn changed_ns(&self) -> u64 {
        self.changed_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn transitions(&self) -> u64 {
        self.transitions.load(Ordering::Relaxed)
    }

    pub(crate) fn mtu(&self) -> Option<u32> {
        Some(self.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu > 0)
    }

    pub(crate) fn down_events(&self) -> u64 {
        self.down_events.load(Ordering::Relaxed)
    }

    pub(crate) fn up_events(&self) -> u64 {
        self.up_events.load(Ordering::Relaxed)
    }

    pub(crate) fn lost_events(&self) -> u64 {
        self.lost_events.load(Ordering::Relaxed)
    }

    pub(crate) fn unserved_queues(&self) -> u32 {
        self.unserved_queues.load(Ordering::Relaxed)
    }

    pub(crate) fn interface(&self) -> String {
        self.name().clone()
    }

    fn name(&self) -> MutexGuard<'_, String> {
        self.interface
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds one and returns the new number.
fn count(events: &AtomicU64) -> u64 {
    events.fetch_add(1, Ordering::Relaxed) + 1
}

pub(crate) struct Watched {
    pub(crate) id: PortId,
    /// The interface's name on the command line.
    pub(crate) interface: String,
    /// The interface's index; `None` while the port is lost.
    pub(crate) bound: Option<i32>,
    /// The number of receive queues that are served, as in [`OpenPort::served_queues`](crate::ports::OpenPort).
    pub(crate) served_queues: Option<usize>,
    /// The interface with the port's XDP program, if there is one.
    pub(crate) program: Option<XdpInterface>,
    pub(crate) opening: Opening,
    pub(crate) status: Arc<LinkStatus>,
}

pub(crate) struct Interfaces {
    thread: JoinHandle<()>,
    stop: Arc<Stop>,
}

struct Stop {
    waker: Waker,
    is_stopped: AtomicBool,
    /// The port whose loss stopped the switch.
    lost: Mutex<Option<String>>,
}

impl Interfaces {
    /// Reads the state of all interfaces and starts to watch them. `monitor` must have been made before the ports were
    /// opened.
    pub(crate) fn watch(
        monitor: LinkMonitor,
        ports: Vec<Watched>,
        handle: LoopHandle,
        exits_on_loss: bool,
    ) -> Result<Interfaces, SwitchError> {
        let system = |operation| move |source| SwitchError::System { operation, source };
        let stop = Arc::new(Stop {
            waker: Waker::new().map_err(system("watch the interfaces"))?,
            is_stopped: AtomicBool::new(false),
            lost: Mutex::new(None),
        });
        let ports = ports.into_iter().map(Place::new).collect();
        let mut watch = Watch {
            monitor,
            ports,
            handle,
            exits_on_loss,
            stop: Arc::clone(&stop),
            is_to_look: true,
            is_unwatched: false,
        };
        // Earlier events are already part of the current state. Problems of existing interfaces are logged before the
        // switch is up. Interfaces that are already lost are handled when the event loops run.
        let past = watch.monitor.receive();
        past.map_err(system("ask for the interfaces"))?;
        let now = packet_io::links().map_err(system("ask for the interfaces"))?;
        now.iter().for_each(|event| watch.take(event));
        let thread = thread::Builder::new().name("interfaces".to_owned());
        let thread = thread.spawn(move || watch.run());
        let thread = thread.map_err(system("start the thread that watches the interfaces"))?;
        Ok(Interfaces { thread, stop })
    }

    /// Ends the thread. The event loops must have ended before, so that the thread waits for none of them. Returns the
    /// port whose loss stopped the switch, if any.
    pub(crate) fn stop(self) -> Option<String> {
        self.stop.is_stopped.store(true, Ordering::Release);
        self.stop.waker.wake();
        // A panic of the thread has been reported; the switch ends anyway.
        let _ = self.thread.join();
        let mut lost = self
            .stop
            .lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lost.take()
    }
}

/// A port, and what was already logged about it.
struct Place {
    port: Watched,
    /// Why the port could not be opened again, as last logged.
    refusal: Option<String>,
    addresses: BTreeSet<IpAddr>,
    n_queues: Option<usize>,
}

impl Place {
    fn new(port: Watched) -> Place {
        Place {
            n_queues: port.served_queues,
            port,
            refusal: None,
            addresses: BTreeSet::new(),
        }
    }

    /// Returns the interface's current name, or its name on the command line if the interface has no name now.
    fn interface(&self) -> String {
        let now = self.port.status.interface();
        if now.is_empty() {
            self.port.interface.clone()
        } else {
            now
        }
    }

    fn is_lost(&self) -> bool {
        self.port.bound.is_none()
    }
}

struct Watch {
    monitor: LinkMonitor,
    ports: Vec<Place>,
    handle: LoopHandle,
    exits_on_loss: bool,
    stop: Arc<Stop>,
    /// Whether the whole state of the interfaces must be read, because the events do not contain it.
    is_to_look: bool,
    /// Whether the kernel has refused to report the interfaces.
    is_unwatched: bool,
}

impl Watch {
    fn run(mut self) {
        let mut waiter = Waiter::default();
        let mut retry_at = Instant::now() + RETRY_INTERVAL;
        while !self.stop.is_stopped.load(Ordering::Acquire) {
            let needs_looks = |it: &Place| it.is_lost() || it.port.served_queues.is_some();
            let has_timer = self.is_unwatched || self.ports.iter().any(needs_looks);
            let timeout = if self.is_to_look && !self.is_unwatched {
                Some(Duration::ZERO)
            } else {
                has_timer.then(|| retry_at.saturating_duration_since(Instant::now()))
            };
            let descriptors = [self.stop.waker.as_fd(), self.monitor.as_fd()];
            // While the kernel refuses to let the monitor's socket be read, the events that wait there must not wake
            // this thread at once.
            let n_descriptors = if self.is_unwatched { 1 } else { 2 };
            let descriptors = descriptors.into_iter().take(n_descriptors);
            if let Err(error) = waiter.wait(descriptors, timeout) {
                return self.log_unwatched(&error);
            }
            self.stop.waker.clear();
            let is_due = Instant::now() >= retry_at;
            if is_due || !self.is_unwatched {
                self.read_events();
            }
            if is_due {
                retry_at = Instant::now() + RETRY_INTERVAL;
                self.retry();
                self.look_at_programs();
                self.count_queues();
            }
        }
    }

    /// Takes the events; if that fails, the switch goes on forwarding.
    fn read_events(&mut self) {
        let taken = self.take_events();
        // Any event is a reason to notify, since the receivers of the notification read the links themselves. Right
        // after a port was opened again nobody is notified, because the state of its link is not known yet.
        if !self.is_to_look {
            self.handle.notify_links();
        }
        match taken {
            Ok(()) if std::mem::take(&mut self.is_unwatched) => tracing::warn!(
                event = "interfaces_watched",
                "the interfaces are watched again"
            ),
            Ok(()) => {}
            Err(error) => {
                self.is_to_look = true;
                self.log_unwatched(&error);
            }
        }
    }

    /// Logs the failure once for as long as it lasts.
    fn log_unwatched(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.is_unwatched, true) {
            tracing::error!(
                event = "interfaces_unwatched",
                %error,
                "the kernel does not report the state of the interfaces, so lost ports stay lost: {error}"
            );
        }
    }

    fn take_events(&mut self) -> std::io::Result<()> {
        match self.monitor.receive()? {
            Some(events) => events.iter().for_each(|event| self.take(event)),
            None => self.is_to_look = true,
        }
        // The state is read only after the queued events are taken: an older event would otherwise count as new.
        if std::mem::take(&mut self.is_to_look) {
            self.look_at_all()
        } else {
            Ok(())
        }
    }

    fn look_at_all(&mut self) -> std::io::Result<()> {
        let events = packet_io::links()?;
        let is_there = |index: i32| {
            let mut links = events.iter();
            links.any(|event| matches!(event, LinkEvent::Present(link) if link.index == index))
        };
        for place in 0..self.ports.len() {
            if self.ports[place]
                .port
                .bound
                .is_some_and(|index| !is_there(index))
            {
                self.lose(place);
            }
        }
        events.iter().for_each(|event| self.take(event));
        Ok(())
    }

    fn take(&mut self, event: &LinkEvent) {
        for place in 0..self.ports.len() {
            let port = &self.ports[place].port;
            let bound = port.bound;
            match event {
                LinkEvent::Present(link) if bound == Some(link.index) => self.set_up(place, link),
                LinkEvent::Present(link) if bound.is_none() && link.name == port.interface => {
                    // The error is ignored: the next event may bring what the interface lacks, and `retry` logs the
                    // error.
                    let _ = self.rebind(place);
                }
                LinkEvent::Removed { index } if bound == Some(*index) => self.lose(place),
                LinkEvent::Address { index, address } if bound == Some(*index) => {
                    self.warn_of_address(place, *address);
                }
                _ => {}
            }
        }
    }

    fn set_up(&mut self, place: usize, link: &Link) {
        self.set_name(place, &link.name);
        let interface = &link.name;
        let Watched { id, status, .. } = &self.ports[place].port;
        let before = status.state();
        let now = if link.is_up {
            LinkState::Up
        } else {
            LinkState::Down
        };
        status.set(now);
        status.mtu.store(link.mtu.unwrap_or(0), Ordering::Relaxed);
        let port = id.0;
        match (before, now) {
            (LinkState::Up, LinkState::Down) => {
                let link_down_events = count(&status.down_events);
                tracing::warn!(
                    event = "port_down",
                    port,
                    interface,
                    link_down_events,
                    "port {port}: interface \"{interface}\" is down"
                );
            }
            (LinkState::None | LinkState::Lost, LinkState::Down) => tracing::warn!(
                event = "port_down",
                port,
                interface,
                link_down_events = status.down_events(),
                "port {port}: interface \"{interface}\" has no carrier yet"
            ),
            (LinkState::Down, LinkState::Up) => {
                let link_up_events = count(&status.up_events);
                tracing::warn!(
                    event = "port_up",
                    port,
                    interface,
                    link_up_events,
                    "port {port}: interface \"{interface}\" is up again"
                );
            }
            _ => {}
        }
    }

    /// Stores the current name of a port's interface. The kernel's first name may differ from the one on the command
    /// line, which may be an alternative name (`ip link property add`).
    fn set_name(&self, place: usize, name: &str) {
        let Watched { id, status, .. } = &self.ports[place].port;
        let before = std::mem::replace(&mut *status.name(), name.to_owned());
        if before.is_empty() || before == name {
            return;
        }
        let (port, given) = (id.0, &self.ports[place].port.interface);
        tracing::warn!(
            event = "port_renamed",
            port,
            interface = name,
            before,
            "port {port}: interface \"{before}\" is called \"{name}\" now; the port stays on it; if it is removed, the port waits for an interface called \"{given}\""
        );
    }

    /// Opens a port again if somebody has detached its XDP program, since frames then go past the port. Warns if
    /// somebody has removed the pin of a program that is to go on without the switch (`--keep-forwarding`).
    fn look_at_programs(&mut self) {
        for place in 0..self.ports.len() {
            self.warn_of_removed_name(place);
            let Watched {
                id, bound, program, ..
            } = &self.ports[place].port;
            let is_detached = program.as_ref().is_some_and(XdpInterface::is_detached);
            // If the interface is gone, the port is replaced when the kernel's event for the removal is handled, not
            // here.
            let is_there = bound.is_some_and(|it| packet_io::receive_queues(it).is_some());
            if !is_detached || !is_there {
                continue;
            }
            let (port, interface) = (id.0, self.ports[place].interface());
            tracing::warn!(
                event = "port_detached",
                port,
                interface,
                "port {port}: somebody has detached the port's XDP program from interface \"{interface}\", so no \
                 frames came to it; the port is opened anew"
            );
            self.put_lost(place);
            self.try_to_rebind(place);
        }
    }

    fn warn_of_removed_name(&self, place: usize) {
        let Watched { id, program, .. } = &self.ports[place].port;
        let removed = program.as_ref().and_then(XdpInterface::take_removed_name);
        let Some(path) = removed else { return };
        let (port, path) = (id.0, path.display());
        tracing::warn!(
            event = "port_not_kept",
            port,
            %path,
            "port {port}: somebody has removed {path}, so what forwards in the kernel ends with the switch: start the switch anew to have it kept again"
        );
    }

    /// Counts the receive queues that an interface got after its port was opened; the switch does not get the frames of
    /// these queues.
    fn count_queues(&mut self) {
        for place in &mut self.ports {
            let Watched {
                id,
                bound,
                served_queues,
                status,
                ..
            } = &place.port;
            let (Some(index), Some(served)) = (*bound, *served_queues) else {
                continue;
            };
            let Some(n_queues) = packet_io::receive_queues(index) else {
                continue;
            };
            let queues = n_queues as usize;
            if place.n_queues.replace(queues) == Some(queues) {
                continue;
            }
            let unserved = queues.saturating_sub(served);
            status.unserved_queues.store(
                u32::try_from(unserved).unwrap_or(u32::MAX),
                Ordering::Relaxed,
            );
            let (port, interface) = (id.0, place.interface());
            let meaning = match unserved {
                0 => "all are served".to_owned(),
                n => format!(
                    "what comes by {n} of them goes past the switch: set as many as before (\"ethtool -L {interface}\"), or start the switch anew"
                ),
            };
            tracing::warn!(
                event = "port_queues",
                port,
                interface,
                queues,
                served,
                "port {port}: interface \"{interface}\" has {queues} receive queues now, the port was opened with {served}: {meaning}"
            );
        }
    }

    /// Replaces a port with a lost one, which has no interface.
    fn put_lost(&mut self, place: usize) {
        let Place {
            port: watched,
            addresses,
            ..
        } = &mut self.ports[place];
        watched.bound = None;
        watched.program = None;
        addresses.clear();
        watched.status.set(LinkState::Lost);
        watched.status.name().clear();
        watched.status.unserved_queues.store(0, Ordering::Relaxed);
        watched.status.mtu.store(0, Ordering::Relaxed);
        count(&watched.status.lost_events);
        let lost = (0..self.handle.n_workers()).map(|_| {
            let port: Box<dyn Port> = Box::new(LostPort::new(&watched.interface));
            port
        });
        // Closes the old ports on this thread, which may take milliseconds, so that no event loop waits for that.
        drop(self.handle.replace_port(watched.id, lost.collect()));
    }

    fn lose(&mut self, place: usize) {
        let watched = &self.ports[place].port;
        let (port, interface) = (watched.id.0, watched.interface.clone());
        let lost_events = watched.status.lost_events() + 1;
        tracing::warn!(
            event = "port_lost",
            port,
            interface,
            lost_events,
            "port {port}: interface \"{interface}\" was removed or moved to another network namespace; the port waits for one of that name"
        );
        self.put_lost(place);
        if self.exits_on_loss {
            let mut lost = self
                .stop
                .lost
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert_with(|| format!("{port}@{interface}"));
            self.handle.stop();
        }
    }

    /// Opens a port whose interface exists again.
    fn rebind(&mut self, place: usize) -> Result<(), PortError> {
        let port = &mut self.ports[place].port;
        let opened = port.opening.open()?;
        let bound = opened.first().and_then(|port| port.port.interface_index());
        let described = opened.first().map(|port| port.described.clone());
        let described = described.unwrap_or_default();
        port.served_queues = opened.first().and_then(|port| port.served_queues);
        port.program = opened.first().and_then(|port| port.port.xdp_interface());
        let ports = opened.into_iter().map(|port| port.port).collect();
        drop(self.handle.replace_port(port.id, ports));
        port.bound = bound;
        port.status.set(LinkState::None);
        let (port, interface) = (port.id.0, &port.interface);
        tracing::warn!(
            event = "port_rebound",
            port,
            interface,
            "port {port}: interface \"{interface}\" is there again: {described}"
        );
        self.ports[place].refusal = None;
        self.ports[place].n_queues = self.ports[place].port.served_queues;
        // Makes the thread read the state of all interfaces next, which has this interface's carrier and addresses.
        self.is_to_look = true;
        Ok(())
    }

    fn retry(&mut self) {
        for place in 0..self.ports.len() {
            if self.ports[place].is_lost() {
                self.try_to_rebind(place);
            }
        }
    }

    /// Opens a lost port if possible, and logs once why it is not.
    fn try_to_rebind(&mut self, place: usize) {
        let refusal = match self.rebind(place) {
            Ok(()) | Err(PortError::InterfaceMissing { .. }) => None,
            Err(error) => Some(error.to_string()),
        };
        if refusal == self.ports[place].refusal {
            return;
        }
        let Watched { id, interface, .. } = &self.ports[place].port;
        if let Some(reason) = &refusal {
            tracing::warn!(
                event = "port_unusable",
                port = id.0,
                interface,
                reason,
                "port {id} stays lost: {reason}"
            );
        }
        self.ports[place].refusal = refusal;
    }

    fn warn_of_address(&mut self, place: usize, address: IpAddr) {
        let interface = self.ports[place].interface();
        let Place {
            port, addresses, ..
        } = &mut self.ports[place];
        // The kernel gives a link-local address to every interface that is up; nobody sends to it.
        let is_link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if is_link_local || port.opening.leaves_addresses() || !addresses.insert(address) {
            return;
        }
        let port = port.id.0;
        tracing::warn!(
            event = "interface_has_address",
            port,
            interface,
            %address,
            "port {port}: interface \"{interface}\" has the IP address {address}: the kernel sees every frame too, and answers what comes to that address beside the switch; take it away (\"ip address flush dev {interface}\")"
        );
    }
}
