//! The errors of opening and using a port; each message makes the next step clear.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error(
        "interface \"{interface}\" does not exist in this network namespace: expected the name of an Ethernet interface (\"ip -br link\" lists them){hint}", hint = other_end_hint(interface)
    )]
    InterfaceMissing { interface: String },
    #[error(
        "UDP address {address}: no interface of this network namespace has it: expected one that \"ip -br address\" lists"
    )]
    AddressMissing { address: SocketAddr },
    #[error(
        "interface name \"{interface}\" has {len} bytes: Linux allows 1 to {max}{hint}", len = interface.len(), max = libc::IFNAMSIZ - 1, hint = other_end_hint(interface)
    )]
    NameLength { interface: String },
    #[error(
        "interface \"{interface}\": no permission to open a packet socket, CAP_NET_RAW is needed: run as root, or in a user and network namespace of your own (\"unshare -Urn\")"
    )]
    NoPrivileges { interface: String },
    #[error(
        "interface \"{interface}\" is down: bring it up first (\"ip link set dev {interface} up\")"
    )]
    InterfaceDown { interface: String },
    #[error(
        "interface \"{interface}\" is in use by another reprise-switch or reprise-signer: stop that one, or choose another interface (one program an interface, else every frame would be handled twice)"
    )]
    InUse { interface: String },
    #[error(
        "interface \"{interface}\" carries no Ethernet frames: its hardware type is {hardware_type}, expected 1 (ARPHRD_ETHER)"
    )]
    NotEthernet {
        interface: String,
        /// The interface's hardware type, one of the numbers in `if_arp.h`.
        hardware_type: u16,
    },
    #[error(
        "interface \"{interface}\": no permission to {operation}; AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF outside any user namespace: run as root, or use packet sockets (PORT@{interface})"
    )]
    NoXdpPrivileges {
        interface: String,
        /// The attempted action, as a verb phrase.
        operation: &'static str,
    },
    #[error(
        "interface \"{interface}\": AF_XDP may not lock memory for its frames, some 20 MiB a queue: give the switch CAP_IPC_LOCK, or raise the limit (\"ulimit -l unlimited\")"
    )]
    XdpMemory { interface: String },
    #[error(
        "interface \"{interface}\" carries another XDP program: stop whoever put it there, or detach it (\"ip link set dev {interface} xdp off\")"
    )]
    XdpInUse { interface: String },
    #[error(
        "interface \"{interface}\" carries an XDP program that no reprise-switch has kept there: a switch would have pinned it at {path}, by its network namespace and interface: stop whoever put the program there, or remove the file that pins it", path = path.display()
    )]
    XdpNotKept {
        interface: String,
        /// The path at which the switch would keep its program.
        path: PathBuf,
    },
    #[error(
        "interface \"{interface}\": {found} destinations for one XDP program, expected at most {max}", max = crate::limits::XDP_DESTINATIONS
    )]
    XdpDestinations { interface: String, found: usize },
    #[error(
        "interface \"{interface}\" has {n_rx} receive and {n_tx} transmit queues, expected {n_ports} of each, one a worker: \"ethtool -L {interface} rx {n_ports} tx {n_ports}\" (\"combined {n_ports}\" for a card)"
    )]
    QueuesTooFew {
        interface: String,
        n_rx: u32,
        n_tx: u32,
        /// Ports that were to share the interface.
        n_ports: usize,
    },
    #[error("UDP address {address}: cannot {operation}: {source}")]
    Socket {
        address: SocketAddr,
        /// The attempted action, as a verb phrase.
        operation: &'static str,
        source: io::Error,
    },
    #[error("interface \"{interface}\": cannot {operation}: {source}")]
    System {
        /// The name of the interface, or of whatever else the operation concerns.
        interface: String,
        /// The attempted action, as a verb phrase.
        operation: &'static str,
        source: io::Error,
    },
    #[error("capture file {path}: cannot {operation}: {source}", path = path.display())]
    CaptureFile {
        path: PathBuf,
        /// The attempted action, as a verb phrase.
        operation: &'static str,
        source: io::Error,
    },
    #[error("capture file {path}: {message}", path = path.display())]
    CaptureFormat {
        path: PathBuf,
        /// A message that says what was expected, what was found, and where.
        message: String,
    },
}

impl PortError {
    /// Returns the error for a system call that failed on an interface that existed a moment ago.
    pub(crate) fn on_interface(
        name: &str,
        operation: &'static str,
        source: io::Error,
    ) -> PortError {
        let interface = name.to_owned();
        match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => PortError::InterfaceMissing { interface },
            Some(libc::ENETDOWN) => PortError::InterfaceDown { interface },
            _ => PortError::System {
                interface,
                operation,
                source,
            },
        }
    }
}

/// Returns a hint for a name as `ip link` prints it: for veth1, whose other end is veth0, `ip` prints "veth1@veth0".
fn other_end_hint(interface: &str) -> String {
    match interface.split_once('@') {
        Some((name, other)) if !name.is_empty() => {
            format!(
                "; its name is \"{name}\", \"ip link\" adds the other end, leave \"@{other}\" out"
            )
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::PortError;

    #[test]
    fn a_name_with_its_other_end_is_told_from_one_without() {
        let missing = |interface: &str| {
            let interface = interface.to_owned();
            PortError::InterfaceMissing { interface }.to_string()
        };
        assert!(
            missing("veth1").ends_with("lists them)"),
            "{}",
            missing("veth1")
        );
        let hint = "; its name is \"veth1\", \"ip link\" adds the other end, leave \"@veth0\" out";
        assert!(
            missing("veth1@veth0").ends_with(hint),
            "{}",
            missing("veth1@veth0")
        );
        let interface = "long-veth1@long-veth0".to_owned();
        let long = PortError::NameLength { interface }.to_string();
        assert!(long.ends_with("leave \"@long-veth0\" out"), "{long}");
    }
}
