//! The kernel's data about a network interface: netdevice(7) and ethtool's requests.
//!
//! The requests concern the network namespace of the calling thread. sysfs may show another namespace.

#![expect(
    unsafe_code,
    reason = "the requests have no safe form in the standard library"
)]

pub(crate) mod lock;

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use crate::PortError;
use crate::socket::check;

/// ARPHRD_ETHER, and the loopback interface's type, which has an Ethernet header too.
const ETHERNET_TYPES: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// Drivers whose "card" is the host of this virtual machine. The host may deliver frames from other virtual machines
/// unchanged, with unfinished checksums.
const PARAVIRTUAL_DRIVERS: [&str; 4] = ["virtio_net", "vmxnet3", "vif", "hv_netvsc"];

pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: i32,
    pub(crate) is_up: bool,
    pub(crate) mtu_bytes: usize,
    pub(crate) hardware_type: u16,
}

impl Interface {
    /// Looks an interface up.
    ///
    /// # Errors
    /// [`PortError::NameLength`], [`PortError::InterfaceMissing`], [`PortError::System`].
    pub(crate) fn find(name: &str) -> Result<Interface, PortError> {
        let interface = || name.to_owned();
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(PortError::NameLength {
                interface: interface(),
            });
        }
        let Ok(index) = interface_index(name) else {
            return Err(PortError::InterfaceMissing {
                interface: interface(),
            });
        };
        read_interface(name, index).map_err(|source| PortError::System {
            interface: interface(),
            operation: "read the interface",
            source,
        })
    }

    pub(crate) fn is_ethernet(&self) -> bool {
        ETHERNET_TYPES.contains(&self.hardware_type)
    }

    pub(crate) fn has_ipv4_address(&self) -> bool {
        let socket = crate::socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let ask =
            |socket: OwnedFd| interface_request(socket.as_fd(), &self.name, libc::SIOCGIFADDR);
        socket.and_then(ask).is_ok()
    }

    /// Checks that the interface can be a port now: that it is Ethernet, and up.
    ///
    /// # Errors
    /// [`PortError::NotEthernet`], [`PortError::InterfaceDown`].
    pub(crate) fn check_usable(&self) -> Result<(), PortError> {
        let interface = self.name.clone();
        if !self.is_ethernet() {
            let hardware_type = self.hardware_type;
            return Err(PortError::NotEthernet {
                interface,
                hardware_type,
            });
        }
        if !self.is_up {
            return Err(PortError::InterfaceDown { interface });
        }
        Ok(())
    }

    /// Locks the interface for this process.
    ///
    /// # Errors
    /// [`PortError::InUse`], [`PortError::System`].
    pub(crate) fn reserve(&self) -> Result<lock::InterfaceLock, PortError> {
        let interface = || self.name.clone();
        let lock = lock::InterfaceLock::acquire(self.index);
        let lock = lock.map_err(|source| PortError::System {
            interface: interface(),
            operation: "reserve the interface",
            source,
        })?;
        lock.ok_or_else(|| PortError::InUse {
            interface: interface(),
        })
    }

    /// Returns the length in bytes, without tags, of the longest frame that the interface's MTU allows.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.mtu_bytes + crate::limits::MIN_FRAME_BYTES
    }

    /// Returns the driver's name and the device's bus address, which is empty for a software device.
    pub(crate) fn driver(&self) -> io::Result<(String, String)> {
        let mut info = DriverInfo::new();
        self.ethtool(&mut info)?;
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0);
            String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
        };
        let bus = text(&info.bus_info);
        // Some drivers of software devices report their own kind as the bus.
        let has_bus = bus.contains([':', '.']) || bus.starts_with("virtio");
        Ok((
            text(&info.driver),
            if has_bus { bus } else { String::new() },
        ))
    }

    /// Whether frames may come directly from a sender on this machine, or on the host of this virtual
    /// machine. Such a sender leaves checksums to a card that does not exist.
    pub(crate) fn is_virtual(&self) -> bool {
        self.driver().map_or(true, |(driver, bus)| {
            bus.is_empty() || PARAVIRTUAL_DRIVERS.contains(&driver.as_str())
        })
    }

    /// Returns the number of receive queues; 1 if the driver does not report it.
    pub(crate) fn n_rx_queues(&self) -> u32 {
        self.n_queues().0
    }

    /// Returns the numbers of receive and transmit queues; 1 each if the driver does not report them.
    pub(crate) fn n_queues(&self) -> (u32, u32) {
        let mut channels = Channels {
            command: ETHTOOL_GCHANNELS,
            ..Channels::default()
        };
        match self.ethtool(&mut channels) {
            Ok(()) => (
                (channels.rx_count + channels.combined_count).max(1),
                (channels.tx_count + channels.combined_count).max(1),
            ),
            Err(_) => (1, 1),
        }
    }

    /// Returns the current and maximum numbers of slots of the card's receive and transmit rings.
    pub(crate) fn ring_slots(&self) -> io::Result<RingSlots> {
        let mut rings = RingParameters {
            command: ETHTOOL_GRINGPARAM,
            ..RingParameters::default()
        };
        self.ethtool(&mut rings)?;
        Ok(RingSlots {
            rx: rings.rx_pending,
            rx_max: rings.rx_max_pending,
            tx: rings.tx_pending,
            tx_max: rings.tx_max_pending,
        })
    }

    /// Returns the setting that a request (`ETHTOOL_G*`) reads: on or off, or a word of flags.
    pub(crate) fn setting(&self, request: u32) -> io::Result<u32> {
        let mut setting = Setting {
            command: request,
            value: 0,
        };
        self.ethtool(&mut setting)?;
        Ok(setting.value)
    }

    fn ethtool<T: EthtoolRequest>(&self, request: &mut T) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        let mut ifreq = named_request(&self.name)?;
        ifreq.ifr_ifru.ifru_data = std::ptr::from_mut(request).cast();
        // SAFETY: the request's structure is the one that its command is defined with; it and the
        // `ifreq` that points to it live through the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut ifreq) })?;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSlots {
    pub(crate) rx: u32,
    pub(crate) rx_max: u32,
    pub(crate) tx: u32,
    pub(crate) tx_max: u32,
}

// `linux/sockios.h` and `linux/ethtool.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Plain data that begins with its command, as ethtool's ioctl wants it.
trait EthtoolRequest {}

#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware_version: [u8; 32],
    bus_info: [u8; 32],
    rom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

impl DriverInfo {
    fn new() -> DriverInfo {
        DriverInfo {
            command: ETHTOOL_GDRVINFO,
            driver: [0; 32],
            version: [0; 32],
            firmware_version: [0; 32],
            bus_info: [0; 32],
            rom_version: [0; 32],
            reserved: [0; 12],
            counts: [0; 5],
        }
    }
}

#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx_count: u32,
    tx_count: u32,
    other_count: u32,
    combined_count: u32,
}

#[repr(C)]
#[derive(Default)]
struct RingParameters {
    command: u32,
    rx_max_pending: u32,
    rx_special_max: [u32; 2],
    tx_max_pending: u32,
    rx_pending: u32,
    rx_special: [u32; 2],
    tx_pending: u32,
}

#[repr(C)]
struct Setting {
    command: u32,
    value: u32,
}

impl EthtoolRequest for DriverInfo {}
impl EthtoolRequest for Channels {}
impl EthtoolRequest for RingParameters {}
impl EthtoolRequest for Setting {}

/// Returns the number of receive queues of the interface with this index; `None` if there is no such interface.
pub fn receive_queues(index: i32) -> Option<u32> {
    let socket = UnixDatagram::unbound().ok()?;
    let mut ifreq = numbered_request(index);
    // SAFETY: the request reads the number and writes the name; the `ifreq` lives through the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut ifreq) })
        .ok()?;
    let name = ifreq.ifr_name.iter().map(|c| c.to_ne_bytes()[0]);
    let name: Vec<u8> = name.take_while(|byte| *byte != 0).collect();
    let interface = Interface::find(std::str::from_utf8(&name).ok()?).ok()?;
    (interface.index == index).then(|| interface.n_rx_queues())
}

/// Makes a request about the interface with this index. An interface's name may change, its index does not.
fn numbered_request(index: i32) -> libc::ifreq {
    // SAFETY: `ifreq` is plain data; with all bytes zero it is a valid value.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    ifreq.ifr_ifru.ifru_ifindex = index;
    ifreq
}

/// Whether the interface with this index exists, is up, and has a carrier.
pub(crate) fn is_running(index: i32) -> bool {
    let flags = UnixDatagram::unbound().and_then(|socket| {
        let mut ifreq = numbered_request(index);
        for request in [libc::SIOCGIFNAME, libc::SIOCGIFFLAGS] {
            // SAFETY: the first request reads the number and writes the name, the second reads the
            // name and writes the flags; the `ifreq` lives through the calls.
            check(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut ifreq) })?;
        }
        // SAFETY: the second request has filled this member.
        Ok(libc::c_int::from(unsafe { ifreq.ifr_ifru.ifru_flags }))
    });
    let running = libc::IFF_UP | libc::IFF_RUNNING;
    flags.is_ok_and(|flags| flags & running == running)
}

fn interface_index(name: &str) -> io::Result<i32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a string that ends in NUL and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => i32::try_from(index).map_err(io::Error::other),
    }
}

/// Reads state, MTU and hardware type of an interface.
fn read_interface(name: &str, index: i32) -> io::Result<Interface> {
    let socket = UnixDatagram::unbound()?;
    let request = |request| interface_request(socket.as_fd(), name, request);
    let flags = request(libc::SIOCGIFFLAGS)?;
    let mtu = request(libc::SIOCGIFMTU)?;
    let address = request(libc::SIOCGIFHWADDR)?;
    // SAFETY: each request has filled the member of the union that is its answer, see netdevice(7).
    let (flags, mtu, hardware_type) = unsafe {
        (
            flags.ifr_ifru.ifru_flags,
            mtu.ifr_ifru.ifru_mtu,
            address.ifr_ifru.ifru_hwaddr.sa_family,
        )
    };
    Ok(Interface {
        name: name.to_owned(),
        index,
        is_up: libc::c_int::from(flags) & libc::IFF_UP != 0,
        mtu_bytes: usize::try_from(mtu).map_err(io::Error::other)?,
        hardware_type,
    })
}

fn interface_request(
    fd: BorrowedFd<'_>,
    name: &str,
    request: libc::c_ulong,
) -> io::Result<libc::ifreq> {
    let mut ifreq = named_request(name)?;
    // SAFETY: the four requests used read the name, which ends in NUL as the length was checked,
    // and write into the `ifreq`, which lives through the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut ifreq) })?;
    Ok(ifreq)
}

fn named_request(name: &str) -> io::Result<libc::ifreq> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `ifreq` is plain data; with all bytes zero it is a valid value.
    let mut ifreq: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    Ok(ifreq)
}
