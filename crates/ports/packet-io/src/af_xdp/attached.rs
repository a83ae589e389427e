//! An interface with the XDP program that runs there: the port's own program, or a program that forwards in the kernel
//! and gives the remaining frames to the port.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bpf::{
    AttachMode, Instruction, Link, Map, MapConfig, MapKind, Program, ProgramConfig, ProgramKind,
};

use super::{AfXdpConfig, Destination, is_occupied, program, queue, socket_error};
use crate::PortError;
use crate::af_packet::socket as packet_socket;
use crate::interface::Interface;
use crate::interface::lock::InterfaceLock;
use crate::limits::XDP_DESTINATIONS;
use crate::offload::VLAN_TAG_BYTES;
use crate::socket;

/// The interface with its program, shared by the ports on its queues.
pub(super) struct Attached {
    // The link is closed first, because fields drop in order. This detaches the program, unless the link is pinned.
    link: Link,
    sockets: Map,
    /// The queues' numbers, each with a duplicate of the queue's socket, for the maps of other programs.
    opened: Mutex<Vec<(u32, OwnedFd)>>,
    own: Program,
    pub(super) mode: AttachMode,
    /// In generic mode: why the driver does not run the program.
    why_generic: Option<String>,
    has_fragments: bool,
    name: String,
    index: u32,
    n_queues: u32,
    frame_bytes_max: usize,
    is_virtual: bool,
    destinations: Vec<Destination>,
    /// The path in the BPF file system at which the link is pinned to keep its program; `None` if the configuration
    /// names no folder ([`AfXdpConfig::kept`]).
    kept: Option<PathBuf>,
    /// Whether this process has pinned the link at `kept`. Another program may have removed the pin since.
    is_kept: AtomicBool,
    /// A packet socket, held open because its membership makes the interface promiscuous.
    _promiscuous: OwnedFd,
    _lock: InterfaceLock,
}

/// The interface of an AF_XDP port, for a caller that runs an XDP program of its own on the interface. This value may
/// outlive the port.
#[derive(Clone)]
pub struct XdpInterface {
    attached: Weak<Attached>,
    name: String,
    index: u32,
    mode: AttachMode,
    why_generic: Option<String>,
    has_fragments: bool,
    n_queues: u32,
    frame_bytes_max: usize,
    is_virtual: bool,
    destinations: Vec<Destination>,
}

impl Attached {
    /// Reserves the interface and attaches the program. Tries native mode, native mode with frames in several pieces
    /// (which some drivers demand for an MTU above a page), then generic mode.
    pub(super) fn new(
        interface: &Interface,
        config: &AfXdpConfig,
        n_queues: u32,
    ) -> Result<Attached, PortError> {
        let name = interface.name.as_str();
        let fail = |operation| move |error| socket_error(name, operation, error);
        expect_few(name, &config.destinations)?;
        let lock = interface.reserve()?;
        let promiscuous = packet_socket::open().map_err(fail("open a packet socket"))?;
        let sockets = socket_map(n_queues).map_err(fail("make the XDP program's map"))?;
        let mut attempts = [
            (AttachMode::Native, false),
            (AttachMode::Native, true),
            (AttachMode::Generic, true),
            (AttachMode::Generic, false),
        ]
        .into_iter();
        let kept = config.kept.as_ref();
        let kept = kept.map(|folder| kept_path(folder, interface.index));
        let kept = kept.transpose().map_err(fail("name what is kept"))?;
        let mut why_generic = None;
        let (link, own, mode, has_fragments) = loop {
            let Some((mode, has_fragments)) = attempts.next() else {
                return Err(fail("attach the XDP program")(
                    io::ErrorKind::Unsupported.into(),
                ));
            };
            let own = load(&sockets, config, has_fragments);
            let own = own.map_err(fail("load the XDP program"))?;
            let index = interface.index.cast_unsigned();
            let link = queue::retry_while_busy(|| Link::attach_xdp(&own, index, mode));
            match link {
                Ok(link) => break (link, own, mode, has_fragments),
                Err(error) if is_occupied(&error) => {
                    // An earlier process of the switch may have left its pinned program on the interface. That program
                    // forwards until this process's program runs.
                    if let Some(link) = kept.as_deref().and_then(|path| kept_at(path, index)) {
                        break (link, own, mode, has_fragments);
                    }
                    let interface = name.to_owned();
                    return Err(match kept {
                        Some(path) => PortError::XdpNotKept { interface, path },
                        None => PortError::XdpInUse { interface },
                    });
                }
                // Reports the error of the last attempt, in generic mode, which does not depend on a driver.
                Err(error) if attempts.len() == 0 => {
                    return Err(fail("attach the XDP program")(error));
                }
                Err(error) if mode == AttachMode::Native && why_generic.is_none() => {
                    why_generic = Some(why_not_native(interface, &error));
                }
                Err(_) => {}
            }
        };
        packet_socket::set_promiscuous(promiscuous.as_fd(), interface.index)
            .map_err(fail("make the interface promiscuous"))?;
        Ok(Attached {
            link,
            sockets,
            opened: Mutex::default(),
            own,
            mode,
            why_generic: why_generic.filter(|_| mode == AttachMode::Generic),
            has_fragments,
            name: interface.name.clone(),
            index: interface.index.cast_unsigned(),
            n_queues,
            frame_bytes_max: interface.frame_bytes_max(),
            is_virtual: interface.is_virtual(),
            destinations: config.destinations.clone(),
            kept,
            is_kept: AtomicBool::new(false),
            _promiscuous: promiscuous,
            _lock: lock,
        })
    }

    /// Directs the queue's frames to this socket from now on.
    pub(super) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.set_socket(queue, socket)?;
        let once_more = socket.try_clone_to_owned()?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.push((queue, once_more));
        Ok(())
    }

    /// Removes the pinned link of an interface that is gone.
    pub(super) fn forget_kept(&self) {
        self.is_kept.store(false, Ordering::Relaxed);
        if let Some(path) = &self.kept {
            // If removing fails, the link stays pinned, but its program runs nowhere.
            let _ = remove(path);
        }
    }

    pub(super) fn interface(self: &Arc<Self>) -> XdpInterface {
        XdpInterface {
            attached: Arc::downgrade(self),
            name: self.name.clone(),
            index: self.index,
            mode: self.mode,
            why_generic: self.why_generic.clone(),
            has_fragments: self.has_fragments,
            n_queues: self.n_queues,
            frame_bytes_max: self.frame_bytes_max,
            is_virtual: self.is_virtual,
            destinations: self.destinations.clone(),
        }
    }
}

impl XdpInterface {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Why the driver runs no program, if programs run in generic mode.
    pub fn why_generic(&self) -> Option<&str> {
        self.why_generic.as_deref()
    }

    /// Whether a program must handle frames in several pieces.
    pub fn has_fragments(&self) -> bool {
        self.has_fragments
    }

    /// Returns the number of receive queues; each queue has a socket.
    pub fn n_queues(&self) -> u32 {
        self.n_queues
    }

    /// Returns how many bytes a frame may have that another interface's program sends by this interface. The kernel has
    /// room for a VLAN tag, whether the frame has a tag or not.
    pub fn redirected_bytes_max(&self) -> u32 {
        (self.frame_bytes_max + VLAN_TAG_BYTES) as u32
    }

    /// Whether the interface is only software, so that a sender on this machine may leave checksums unfinished.
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// Returns the first instructions for a program on this interface. The instructions pass frames to other
    /// destinations than the switch's to the kernel. For the switch's frames they fall through, with R1 unchanged. They
    /// write registers R6 to R9.
    pub fn filter(&self) -> Vec<Instruction> {
        program::filter(&self.destinations)
    }

    /// Puts the sockets of the port's queues into a map; the socket of queue 0 goes to position `first`.
    ///
    /// # Errors
    /// The port is closed; the kernel's error.
    pub fn put_sockets(&self, map: &Map, first: u32) -> io::Result<()> {
        let attached = self.attached()?;
        let opened = attached.opened.lock();
        let opened = opened.unwrap_or_else(PoisonError::into_inner);
        let mut opened = opened.iter();
        opened.try_for_each(|(queue, socket)| map.set_socket(first + queue, socket.as_fd()))
    }

    /// Whether `self` and `other` belong to the same open port. A port that was closed and opened again is another
    /// port.
    pub fn is_same(&self, other: &XdpInterface) -> bool {
        Weak::ptr_eq(&self.attached, &other.attached)
    }

    /// Whether the port is closed, or has lost its interface.
    pub fn is_gone(&self) -> bool {
        let attached = self.attached.upgrade();
        attached.is_none_or(|it| matches!(it.link.interface_index(), Ok(None)))
    }

    /// Whether another program has detached the port's program or removed the interface. If so, frames bypass the port.
    pub fn is_detached(&self) -> bool {
        let attached = self.attached.upgrade();
        attached.is_some_and(|it| matches!(it.link.interface_index(), Ok(None)))
    }

    /// Replaces the running program. Either the old or the new program handles a frame.
    ///
    /// # Errors
    /// The port is closed, or its interface is gone; the kernel's error.
    pub fn run(&self, program: &Program) -> io::Result<()> {
        self.attached()?.link.replace(program)
    }

    /// Makes the port's own program run again, so that all frames come to the port. This program ends with the process.
    /// Does nothing if the port is closed or its interface is gone.
    ///
    /// # Errors
    /// The kernel's error; the previous program runs on.
    pub fn run_own(&self) -> io::Result<()> {
        let Some(attached) = self.attached.upgrade() else {
            return Ok(());
        };
        attached.is_kept.store(false, Ordering::Relaxed);
        if let Some(path) = &attached.kept {
            // If removing fails, the pin keeps the port's own program running.
            let _ = remove(path);
        }
        let replaced = attached.link.replace(&attached.own);
        replaced.or_else(|error| match error.raw_os_error() {
            Some(libc::ENOLINK | libc::ENODEV) => Ok(()),
            _ => Err(error),
        })
    }

    /// Keeps the running program: pins its link in the folder of [`AfXdpConfig::kept`], so that the program outlives
    /// this process, however the process ends. Does nothing without such a folder.
    ///
    /// # Errors
    /// The port is closed; the kernel's error.
    pub fn keep(&self) -> io::Result<()> {
        let attached = self.attached()?;
        let Some(path) = &attached.kept else {
            return Ok(());
        };
        // A link that is already pinned at this path is this link, or the link of an interface that is gone.
        remove(path)?;
        attached.link.pin(path)?;
        attached.is_kept.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the path at which this process pinned the link, if another program has removed the pin. The running
    /// program then ends with this process. Reports each removal once: later calls return `None`.
    pub fn take_removed_name(&self) -> Option<PathBuf> {
        let attached = self.attached.upgrade()?;
        let path = attached.kept.as_ref()?;
        let is_removed = attached.is_kept.load(Ordering::Relaxed)
            && matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
        (is_removed && attached.is_kept.swap(false, Ordering::Relaxed)).then(|| path.clone())
    }

    /// Whether the interface sends frames that other interfaces' programs redirect to it, as the kernel reports since
    /// Linux 6.3; `None` if the kernel does not report it. A veth interface loses such frames as long as its peer has
    /// neither an XDP program nor GRO.
    pub fn takes_redirected(&self) -> Option<bool> {
        let bits = crate::netlink::xdp_features(self.index.cast_signed()).ok()?;
        Some(bits & crate::probe::XDP_TRANSMIT != 0)
    }

    fn attached(&self) -> io::Result<Arc<Attached>> {
        self.attached.upgrade().ok_or_else(|| {
            let message = format!("port \"{}\" is closed", self.name);
            io::Error::new(io::ErrorKind::NotFound, message)
        })
    }
}

/// Makes a folder for [`AfXdpConfig::kept`].
///
/// # Errors
/// The folder cannot be made, or is in no BPF file system.
pub fn make_kept_folder(folder: &Path) -> io::Result<()> {
    let shown = folder.display();
    let hint = "\"mount -t bpf bpf /sys/fs/bpf\" mounts one";
    let made = fs::create_dir_all(folder).and_then(|()| bpf::is_bpf_folder(folder));
    match made {
        Ok(true) => Ok(()),
        Ok(false) => Err(io::Error::other(format!(
            "\"{shown}\" is in no BPF file system ({hint})"
        ))),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!(
                "cannot make the folder \"{shown}\": {error}; expected one in a BPF file system ({hint})"
            ),
        )),
    }
}

/// Checks that there are few destinations, because the program compares every frame with all of them.
fn expect_few(interface: &str, destinations: &[Destination]) -> Result<(), PortError> {
    match destinations.len() {
        0..=XDP_DESTINATIONS => Ok(()),
        found => Err(PortError::XdpDestinations {
            interface: interface.to_owned(),
            found,
        }),
    }
}

/// Returns where a port's program is kept. The file's name has the network namespace and the interface's index in this
/// namespace, so that two switches with the same folder never use one name for different interfaces.
///
/// # Errors
/// The kernel does not report the namespace.
pub fn kept_path(folder: &Path, interface_index: i32) -> io::Result<PathBuf> {
    let namespace = socket::namespace_cookie()?;
    Ok(folder.join(format!("ns{namespace}-if{interface_index}")))
}

/// Returns a message that says why the driver does not run a program.
fn why_not_native(interface: &Interface, error: &io::Error) -> String {
    let (n_rx, _) = interface.n_queues();
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "the driver has no XDP".to_owned(),
        // The error of veth's driver.
        Some(libc::ENOSPC) => format!(
            "it has {n_rx} receive queues, fewer than its other end has transmit queues: make the pair with as many (\"ip \
             link add ... numrxqueues N\"), or take some away there (\"ethtool -L PEER tx {n_rx}\")"
        ),
        _ => format!("the driver refuses it: {error}"),
    }
}

/// Returns the link that is pinned at `path` if it is attached to this interface. A link of a removed interface is
/// attached to no interface, and a link on another interface may belong to another program.
fn kept_at(path: &Path, interface_index: u32) -> Option<Link> {
    let link = Link::pinned(path).ok()?;
    (link.interface_index().ok()? == Some(interface_index)).then_some(link)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn socket_map(n_queues: u32) -> io::Result<Map> {
    Map::create(&MapConfig {
        name: "reprise_sockets",
        kind: MapKind::SocketMap,
        key_bytes: 4,
        value_bytes: 4,
        n_entries_max: n_queues,
        flags: 0,
        inner: None,
    })
}

fn load(sockets: &Map, config: &AfXdpConfig, has_fragments: bool) -> io::Result<Program> {
    Program::load(&ProgramConfig {
        name: "reprise_xdp",
        kind: ProgramKind::Xdp,
        has_fragments,
        instructions: &program::assemble(&config.destinations, sockets),
    })
}

/// Checks whether this process may load the program. Does not attach the program anywhere.
///
/// # Errors
/// The kernel's reason why not.
pub(crate) fn try_load() -> io::Result<()> {
    let sockets = socket_map(1)?;
    load(&sockets, &AfXdpConfig::default(), true).map(drop)
}
