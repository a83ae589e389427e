//! Serves ports: attaches the program to their interfaces, and lets packets leave through these interfaces.
//!
//! The program is independent of which ports exist. For a port there are entries in the program's maps (its interface,
//! its sockets, its device) and the link by which the program runs on the interface. So a new or removed port needs no
//! program to be verified, and the other ports keep forwarding. A separate thread attaches new ports
//! ([`Serving::run`]), because attaching waits for a lock of the kernel that the removal of an interface holds for some
//! time.
//!
//! A port that the kernel cannot serve well is left to the engine in user space, and checked again every second.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bpf::{Program, ProgramConfig, ProgramKind};
use dataplane::{OffloadNotice, PortId};
use packet_io::XdpInterface;

use super::loaded::{Reason, kernel};
use super::maps::Maps;
use super::messages::Progress;
use super::partial_checksum::finishing;
use crate::image::{Heap, Image, Interface, MapRole};

/// How often a port that could not be served is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct KernelPort {
    pub id: PortId,
    pub interface: XdpInterface,
}

impl KernelPort {
    /// Whether `self` and `other` are the same port on the same interface, and the interface was not opened again in
    /// between.
    pub(super) fn is(&self, other: &KernelPort) -> bool {
        self.id == other.id && self.interface.is_same(&other.interface)
    }
}

/// A shared handle to the ports. It holds the ports that should be served, which their owner changes, and the ports
/// that are served.
#[derive(Clone, Default)]
pub struct KernelPorts(Arc<Mutex<Ports>>);

#[derive(Default)]
struct Ports {
    /// `None` while a port's interface is away.
    wanted: BTreeMap<PortId, Option<XdpInterface>>,
    served: HashMap<PortId, XdpInterface>,
}

impl KernelPorts {
    pub(super) fn new(ports: Vec<KernelPort>) -> KernelPorts {
        let wanted = ports.into_iter().map(|it| (it.id, Some(it.interface)));
        KernelPorts(Arc::new(Mutex::new(Ports {
            wanted: wanted.collect(),
            served: HashMap::new(),
        })))
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a port's interface. Call [`dataplane::Switch::look_at_offload`] afterwards.
    pub fn set(&self, id: PortId, interface: Option<XdpInterface>) {
        let mut ports = self.ports();
        // A port that never had an interface is left to the engine, and so are groups with copies for it.
        if interface.is_some() || ports.wanted.contains_key(&id) {
            ports.wanted.insert(id, interface);
        }
    }

    pub fn is_served(&self, id: PortId) -> bool {
        let ports = self.ports();
        let wanted = ports.wanted.get(&id).and_then(Option::as_ref);
        let served = ports.served.get(&id);
        wanted
            .zip(served)
            .is_some_and(|(wanted, served)| wanted.is_same(served))
    }

    /// Returns the ports that have an interface.
    pub(super) fn there(&self) -> Vec<KernelPort> {
        let ports = self.ports();
        let there = ports.wanted.iter().filter_map(|(id, interface)| {
            let interface = interface.clone()?;
            Some(KernelPort { id: *id, interface })
        });
        there.collect()
    }

    /// Returns all ports, including those whose interface is away.
    pub(super) fn known(&self) -> Vec<PortId> {
        self.ports().wanted.keys().copied().collect()
    }

    fn set_served(&self, port: &KernelPort, is_served: bool) {
        let mut ports = self.ports();
        if is_served {
            drop(ports.served.insert(port.id, port.interface.clone()))
        } else {
            drop(ports.served.remove(&port.id))
        }
    }
}

/// Code that runs before the compiled program: it selects the switch's frames and finishes their checksums.
type Beginning = Vec<[u8; 8]>;

pub(super) struct Serving {
    maps: Arc<Maps>,
    image: Arc<Image>,
    /// The program that runs at the output device for packets to one port. These packets are complete already, as
    /// egress has run.
    unicast: Program,
    programs: Mutex<BTreeMap<Beginning, Arc<Program>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether serving has ended, so that no further port gets the program.
    is_over: bool,
    entered: Vec<Entered>,
    /// Ports that started to be served since the last `take_news`.
    news: VecDeque<KernelPort>,
    ports: KernelPorts,
}

/// A port that should be served.
struct Entered {
    port: KernelPort,
    first_socket: u32,
    is_attached: bool,
}

enum Served {
    Yes,
    /// The interface is gone, or the port is not wanted any more.
    Gone,
}

impl Serving {
    /// Loads the program for the given ports. Loading is slow.
    pub(super) fn new(
        maps: &Arc<Maps>,
        image: &Arc<Image>,
        unicast: Program,
        ports: &[KernelPort],
    ) -> Result<Serving, Reason> {
        let serving = Serving {
            maps: Arc::clone(maps),
            image: Arc::clone(image),
            unicast,
            programs: Mutex::default(),
            state: Mutex::default(),
        };
        for port in ports {
            serving.program_of(port)?;
        }
        Ok(serving)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heap(&self) -> Heap {
        self.image.heap
    }

    /// Sets the handle that shows which ports are served.
    pub(super) fn set_ports(&self, ports: &KernelPorts) {
        self.state().ports = ports.clone();
    }

    /// Returns the program for a port; ports with the same `Beginning` share one program.
    fn program_of(&self, port: &KernelPort) -> Result<Arc<Program>, Reason> {
        let mut code = port.interface.filter();
        if port.interface.is_virtual() {
            code.extend(finishing().map_err(kernel("finish checksums"))?);
        }
        let beginning = code.iter().map(|it| {
            let [low, high] = it.offset.to_ne_bytes();
            let [a, b, c, d] = it.immediate.to_ne_bytes();
            [it.code, it.registers, low, high, a, b, c, d]
        });
        let beginning: Beginning = beginning.collect();
        let programs = self.programs.lock();
        let mut programs = programs.unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&beginning) {
            return Ok(Arc::clone(program));
        }
        code.extend(self.maps.link(&self.image.ingress));
        let program = Program::load(&ProgramConfig {
            name: "reprise_p4",
            kind: ProgramKind::Xdp,
            has_fragments: false,
            instructions: &code,
        });
        let program = Arc::new(program.map_err(kernel("load the program"))?);
        programs.insert(beginning, Arc::clone(&program));
        Ok(program)
    }

    /// Adds a port to serve; its sockets start at `first_socket`.
    pub(super) fn enter(&self, port: &KernelPort, first_socket: u32) {
        self.state().entered.push(Entered {
            port: port.clone(),
            first_socket,
            is_attached: false,
        });
    }

    /// Writes what the program must know of a port before the program runs on the port's interface.
    pub(super) fn write(&self, port: &KernelPort) -> io::Result<()> {
        let state = self.state();
        match state.entered.iter().find(|it| it.port.is(port)) {
            Some(entered) => self.write_entered(entered),
            None => Ok(()),
        }
    }

    fn write_entered(&self, entered: &Entered) -> io::Result<()> {
        let KernelPort { id, interface } = &entered.port;
        if let Some(sockets) = self.image.map(MapRole::Sockets) {
            interface.put_sockets(self.maps.get(sockets)?, entered.first_socket)?;
        }
        let index = interface.index();
        if let Some(at) = self.heap().interface(index) {
            let interface = Interface {
                port: Some(*id),
                sockets: entered.first_socket,
            };
            self.maps.store_bytes(at, &interface.to_bytes());
        }
        if let Some(devices) = self.image.map(MapRole::Devices) {
            let devices = self.maps.get(devices)?;
            devices.set_device(id.0.into(), index, Some(&self.unicast))?;
            let longest = interface.redirected_bytes_max();
            self.maps.store_u32(self.heap().port(*id), longest);
        }
        Ok(())
    }

    /// Attaches the program to all entered ports. Skips a port whose interface is gone; the port's owner will report
    /// that soon.
    pub(super) fn attach_all(&self) -> Result<(), Reason> {
        let entered = self.state();
        let ports: Vec<KernelPort> = entered.entered.iter().map(|it| it.port.clone()).collect();
        drop(entered);
        for port in ports {
            self.attach(&port, false)
                .map_err(|error| format!("port {}: {error}", port.id))?;
        }
        // `take_news` must not report these ports, since the state that was written before already includes them.
        self.state().news.clear();
        Ok(())
    }

    fn attach(&self, port: &KernelPort, is_to_write: bool) -> Result<Served, Reason> {
        let program = self.program_of(port)?;
        // Holds the lock until the program runs, so that a thread that ends serving detaches the program afterwards.
        let mut state = self.state();
        let State {
            is_over,
            entered,
            news,
            ports,
        } = &mut *state;
        let entered = entered.iter_mut().find(|it| it.port.is(port));
        let Some(entered) = entered.filter(|_| !*is_over) else {
            return Ok(Served::Gone);
        };
        let served = if is_to_write {
            self.write_entered(entered)
        } else {
            Ok(())
        };
        let served = served.and_then(|()| port.interface.run(&program));
        match served {
            Ok(()) => entered.is_attached = true,
            Err(_) if port.interface.is_gone() => return Ok(Served::Gone),
            Err(error) => {
                self.take_out(port);
                return Err(error.to_string());
            }
        }
        let kept = port.interface.keep();
        kept.map_err(kernel("keep the program beyond the process"))?;
        ports.set_served(port, true);
        news.push_back(port.clone());
        Ok(Served::Yes)
    }

    /// Attaches the program to each port that arrives by the channel, one after the other, until the channel has no
    /// senders any more. Calls `wake` for each port to which the program was attached, and for each notice.
    pub(super) fn run(&self, ports: &Receiver<KernelPort>, progress: &Progress, wake: &dyn Fn()) {
        // Each refused port with the reason last reported.
        let mut refused: Vec<(KernelPort, Reason)> = Vec::new();
        loop {
            let port = if refused.is_empty() {
                ports.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                ports.recv_timeout(LOOK_AGAIN)
            };
            let due: Vec<(KernelPort, Reason)> = match port {
                Ok(port) => vec![(port, Reason::new())],
                Err(RecvTimeoutError::Timeout) => std::mem::take(&mut refused),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for (port, said) in due {
                if !self.has(&port) {
                    continue;
                }
                let served = check(&port).and_then(|()| self.attach(&port, true));
                match served {
                    Ok(Served::Yes) => {
                        if !said.is_empty() {
                            progress.notice(OffloadNotice::ServesPort { port: port.id });
                        }
                        wake();
                    }
                    Ok(Served::Gone) => {}
                    Err(reason) => {
                        if reason != said {
                            progress.notice(OffloadNotice::LeavesPort {
                                port: port.id,
                                reason: reason.clone(),
                            });
                            wake();
                        }
                        refused.push((port, reason));
                    }
                }
            }
        }
    }

    /// Returns the ports that started to be served since the last call.
    pub(super) fn take_news(&self) -> Vec<KernelPort> {
        self.state().news.drain(..).collect()
    }

    /// Removes ports that are not in `wanted`, and returns each with the position of its first socket in the socket
    /// map.
    pub(super) fn leave_others(&self, wanted: &[KernelPort]) -> Vec<(KernelPort, u32)> {
        let mut state = self.state();
        let is_wanted = |it: &Entered| wanted.iter().any(|port| it.port.is(port));
        let (stay, go): (Vec<_>, Vec<_>) = state.entered.drain(..).partition(is_wanted);
        state.entered = stay;
        for Entered { port, .. } in &go {
            self.take_out(port);
            state.ports.set_served(port, false);
            state.news.retain(|it| !it.is(port));
        }
        go.into_iter()
            .map(|it| (it.port, it.first_socket))
            .collect()
    }

    /// Leaves the port's frames, and packets to the port, to the engine.
    fn take_out(&self, port: &KernelPort) {
        self.maps.store_u32(self.heap().port(port.id), 0);
        self.forget_interface(port);
        if let Some(devices) = self.image.map(MapRole::Devices)
            && let Ok(devices) = self.maps.get(devices)
        {
            // Fails if the interface is gone; then the kernel has deleted the entry.
            let _ = devices.delete(&u32::from(port.id.0).to_ne_bytes());
        }
    }

    pub(super) fn has(&self, port: &KernelPort) -> bool {
        self.state().entered.iter().any(|it| it.port.is(port))
    }

    fn forget_interface(&self, port: &KernelPort) {
        if let Some(at) = self.heap().interface(port.interface.index()) {
            let (none, sockets) = (None, 0);
            let unknown = Interface {
                port: none,
                sockets,
            };
            self.maps.store_bytes(at, &unknown.to_bytes());
        }
    }

    /// Attaches no further port; attached ports keep the program.
    pub(super) fn end(&self) {
        self.state().is_over = true;
    }

    /// Makes each port run the program that hands all frames to the engine in user space, in place of the program that
    /// forwards in the kernel. Where this process has not attached its program yet, a program left by an earlier
    /// process keeps forwarding. Returns the first port for which this failed, with the reason.
    pub(super) fn give_back(&self) -> Option<Reason> {
        let mut undetached = None;
        let mut state = self.state();
        state.is_over = true;
        let State { entered, ports, .. } = &mut *state;
        for entered in entered.iter_mut() {
            if !std::mem::take(&mut entered.is_attached) {
                continue;
            }
            let port = &entered.port;
            ports.set_served(port, false);
            let Err(error) = port.interface.run_own() else {
                continue;
            };
            // Nobody would count the packets that the program forwards from this interface, so stop the program from
            // forwarding.
            self.forget_interface(port);
            let (id, name) = (port.id, port.interface.name());
            undetached.get_or_insert(format!(
                "port {id}: interface \"{name}\" is the host's now, since the port's own program does not run \
                 there: {error}"
            ));
        }
        undetached
    }
}

/// Checks whether the kernel would serve a port well. The error says why it would not.
pub(super) fn check(port: &KernelPort) -> Result<(), Reason> {
    let KernelPort { id, interface } = port;
    let name = interface.name();
    if interface.mode() != bpf::AttachMode::Native {
        let why = interface.why_generic().unwrap_or("the driver has no XDP");
        return Err(format!(
            "port {id}: the driver of interface \"{name}\" runs no XDP program (generic mode): {why}"
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
    Ok(())
}
