//! The configuration of an SFU: its own addresses, and groups of one presenter and its viewers.
//!
//! This module has only data, with the rules that hold in every program. An operation returns a conference that keeps
//! every rule, or it returns an error and leaves the conference unchanged. [`crate::backend`] decides where the data go
//! in a switch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::address::{self, Mac};
use crate::limits::{DEFAULT_UDP_PORT, GROUP_VIEWERS_MAX, PORT_MAX};

/// Number of a group: register index or multicast group id in the switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct GroupId(pub u16);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The sizes and features of the program in the switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Whether the program distinguishes streams by UDP port and sets the UDP port of copies.
    pub udp_ports: bool,
    /// Whether the program supports own addresses on several ports, and viewers on each of them.
    pub several_ports: bool,
    /// Group numbers that the program accepts.
    pub group_ids: RangeInclusive<u16>,
    /// Maximum number of groups.
    pub groups_max: usize,
    /// Maximum number of viewers in one group.
    pub group_viewers_max: usize,
    /// Maximum number of viewers in all groups together.
    pub viewers_max: usize,
}

impl Capabilities {
    /// The limits of the model itself, without a program.
    pub fn of_model(udp_ports: bool) -> Capabilities {
        Capabilities {
            udp_ports,
            several_ports: udp_ports,
            group_ids: 0..=u16::MAX,
            groups_max: 65_536,
            group_viewers_max: GROUP_VIEWERS_MAX,
            viewers_max: 65_536,
        }
    }
}

/// The SFU's own address on a port: presenters send their packets to it, and the copies for viewers come from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OwnAddress {
    /// Port of the switch.
    pub port: u16,
    /// The SFU answers ARP and ICMP echo for this address.
    pub ip: Ipv4Addr,
    /// Ethernet source of every copy that leaves by this port.
    pub mac: Mac,
}

/// A group's sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Presenter {
    /// Source address of its stream.
    pub ip: Ipv4Addr,
    /// Required Ethernet source of its packets; `None`: any.
    pub mac: Option<Mac>,
    /// Destination UDP port of its stream; `None` if the program ignores UDP ports.
    pub udp_port: Option<u16>,
}

/// A receiver of copies of a presenter's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Viewer {
    /// Destination address of its copies.
    pub ip: Ipv4Addr,
    /// Ethernet destination of its copies.
    pub mac: Mac,
    /// Whether the MAC was looked up by ARP. Such a MAC is updated when the host's MAC changes; a MAC given by hand is
    /// not.
    pub looked_up: bool,
    /// Destination UDP port of its copies; `None` if the program ignores UDP ports.
    pub udp_port: Option<u16>,
    /// Port of the switch that the viewer is on; `None` if the program serves one port.
    pub port: Option<u16>,
}

impl Viewer {
    /// The identity of a viewer in its group: the destination of its copies.
    pub fn key(&self) -> ViewerKey {
        (self.ip, self.udp_port)
    }
}

/// The identity of a viewer in its group: IP and UDP port ([`Viewer::key`]).
pub type ViewerKey = (Ipv4Addr, Option<u16>);

/// One presenter and its viewers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Group {
    /// The sender of the group's stream.
    pub presenter: Presenter,
    /// The viewers, in the order of the copies.
    pub viewers: Vec<Viewer>,
}

/// The whole configuration of an SFU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conference {
    capabilities: Capabilities,
    addresses: BTreeMap<u16, OwnAddress>,
    groups: BTreeMap<GroupId, Group>,
    presenters: BTreeMap<(Ipv4Addr, Option<u16>), GroupId>,
    /// The viewers of all groups.
    viewer_keys: BTreeSet<(GroupId, ViewerKey)>,
}

/// Why an operation was refused. The conference is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the messages say it, the fields are their parts"
)]
pub enum ModelError {
    #[error("there is no group {group}")]
    UnknownGroup { group: GroupId },
    #[error("group {group} exists already, its presenter is {presenter}")]
    DuplicateGroup { group: GroupId, presenter: Ipv4Addr },
    #[error("{ip} is the presenter of group {group} already")]
    DuplicatePresenter { ip: Ipv4Addr, group: GroupId },
    #[error("the stream from {ip} to UDP port {udp_port} is group {group} already")]
    DuplicateStream {
        ip: Ipv4Addr,
        udp_port: u16,
        group: GroupId,
    },
    #[error("{} is a viewer of group {group} already", show_key(viewer))]
    DuplicateViewer { group: GroupId, viewer: ViewerKey },
    #[error("group {group} has no viewer {}", show_key(viewer))]
    UnknownViewer { group: GroupId, viewer: ViewerKey },
    #[error(
        "group {group} has {ip} as a viewer on several UDP ports ({}): say which",
        show_ports(udp_ports)
    )]
    AmbiguousViewer {
        group: GroupId,
        ip: Ipv4Addr,
        udp_ports: Vec<u16>,
    },
    #[error("group {group} is full: a group has {max} viewers at most")]
    GroupFull { group: GroupId, max: usize },
    #[error("the viewer pool is full: {max} viewers in all groups together at most")]
    PoolFull { max: usize },
    #[error("no more groups: the program has room for {max}")]
    TooManyGroups { max: usize },
    #[error("group number {group} is out of range, expected {min} to {max} in this program")]
    GroupOutOfRange { group: GroupId, min: u16, max: u16 },
    #[error(
        "this program does not distinguish UDP ports (copies keep the presenter's): leave UDP port {udp_port} of {ip} out, or load the replication program"
    )]
    NoUdpPorts { ip: Ipv4Addr, udp_port: u16 },
    #[error("UDP port 0 of {ip} is no port, expected 1 to 65535")]
    UdpPortZero { ip: Ipv4Addr },
    #[error("{ip} is {why}, expected the address of a host")]
    BadIp { ip: Ipv4Addr, why: &'static str },
    #[error("{mac} is {why}, expected the Ethernet address of a host")]
    BadMac { mac: Mac, why: &'static str },
    #[error("port {port} is out of range, expected 1 to {PORT_MAX}")]
    BadPort { port: u16 },
    #[error("{ip} is the SFU's own address")]
    OwnAddressUsed { ip: Ipv4Addr },
    #[error("{ip} cannot be the SFU's own address: it is in group {group}")]
    AddressInGroup { ip: Ipv4Addr, group: GroupId },
    #[error("the SFU has no own address on port {port}")]
    UnknownAddress { port: u16 },
    #[error("port {port} has two own addresses, {first} and {second}: a port has one")]
    DuplicateAddress {
        port: u16,
        first: Ipv4Addr,
        second: Ipv4Addr,
    },
    #[error(
        "this program serves one port{}, so viewer {ip} cannot be on port {port}: load the replication program (p4/sfu.p4) for viewers on several ports",
        own.map_or_else(String::new, |own| format!(", {own}"))
    )]
    OnePort {
        ip: Ipv4Addr,
        port: u16,
        own: Option<u16>,
    },
    #[error(
        "this program serves one port: leave all own addresses but one out, or load the replication program (p4/sfu.p4)"
    )]
    OneAddress,
    #[error(
        "the SFU has own addresses on several ports ({}): say which one viewer {ip} is on, with --port or `port:` in the file",
        show_ports(ports)
    )]
    WhichPort { ip: Ipv4Addr, ports: Vec<u16> },
}

impl Conference {
    /// Makes a conference without addresses and groups.
    pub fn new(capabilities: Capabilities) -> Conference {
        Conference {
            capabilities,
            addresses: BTreeMap::new(),
            groups: BTreeMap::new(),
            presenters: BTreeMap::new(),
            viewer_keys: BTreeSet::new(),
        }
    }

    /// The limits of the program.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The SFU's own addresses, by port.
    pub fn addresses(&self) -> &BTreeMap<u16, OwnAddress> {
        &self.addresses
    }

    /// The only own address, if the program serves one port only; else the own address on the lowest port.
    pub fn address(&self) -> Option<&OwnAddress> {
        self.addresses.values().next()
    }

    /// All groups, by number.
    pub fn groups(&self) -> &BTreeMap<GroupId, Group> {
        &self.groups
    }

    /// The number of viewers in all groups together.
    pub fn n_viewers(&self) -> usize {
        self.viewer_keys.len()
    }

    /// Sets the SFU's own address on a port and replaces the previous one. If the program serves one port only, the new
    /// address also replaces an address on another port.
    ///
    /// # Errors
    /// The port, IP or MAC is not valid for an SFU, or the IP belongs to a presenter or viewer.
    pub fn set_address(&mut self, address: OwnAddress) -> Result<(), ModelError> {
        if address.port == 0 || address.port > PORT_MAX {
            return Err(ModelError::BadPort { port: address.port });
        }
        check_ip(address.ip)?;
        check_mac(address.mac)?;
        let used = |group: &Group| {
            group.presenter.ip == address.ip || group.viewers.iter().any(|v| v.ip == address.ip)
        };
        if let Some((id, _)) = self.groups.iter().find(|(_, group)| used(group)) {
            return Err(ModelError::AddressInGroup {
                ip: address.ip,
                group: *id,
            });
        }
        if !self.capabilities.several_ports {
            self.addresses.clear();
        }
        self.addresses.insert(address.port, address);
        Ok(())
    }

    /// Deletes the SFU's own address on a port and leaves the viewers on that port. [`crate::backend`] refuses to write
    /// viewers without an address to a switch.
    ///
    /// # Errors
    /// The SFU has no own address on that port.
    pub fn delete_address(&mut self, port: u16) -> Result<OwnAddress, ModelError> {
        let unknown = ModelError::UnknownAddress { port };
        self.addresses.remove(&port).ok_or(unknown)
    }

    /// Adds a group without viewers. If the program has UDP ports, a missing UDP port becomes the default port of RTP.
    ///
    /// # Errors
    /// The number is taken or out of range, the stream already belongs to a group, there are too many groups, or an
    /// address is not valid for a host.
    pub fn add_group(&mut self, id: GroupId, presenter: Presenter) -> Result<(), ModelError> {
        let range = &self.capabilities.group_ids;
        if !range.contains(&id.0) {
            return Err(ModelError::GroupOutOfRange {
                group: id,
                min: *range.start(),
                max: *range.end(),
            });
        }
        if let Some(group) = self.groups.get(&id) {
            return Err(ModelError::DuplicateGroup {
                group: id,
                presenter: group.presenter.ip,
            });
        }
        self.check_host(presenter.ip, presenter.mac)?;
        let udp_port = self.udp_port(presenter.ip, presenter.udp_port, DEFAULT_UDP_PORT)?;
        if let Some(group) = self.presenters.get(&(presenter.ip, udp_port)) {
            return Err(duplicate_presenter(presenter.ip, udp_port, *group));
        }
        if self.groups.len() >= self.capabilities.groups_max {
            return Err(ModelError::TooManyGroups {
                max: self.capabilities.groups_max,
            });
        }
        self.presenters.insert((presenter.ip, udp_port), id);
        let presenter = Presenter {
            udp_port,
            ..presenter
        };
        self.groups.insert(
            id,
            Group {
                presenter,
                viewers: Vec::new(),
            },
        );
        Ok(())
    }

    /// Adds a viewer at the end of the group's order. If the program has UDP ports, a missing UDP port becomes the
    /// stream's UDP port. A missing port of the switch becomes the only port with an own address.
    ///
    /// # Errors
    /// The group is unknown or full, the pool is full, the group already has the viewer, or an address is not valid for
    /// a host.
    pub fn add_viewer(&mut self, id: GroupId, viewer: Viewer) -> Result<(), ModelError> {
        let group = self.group(id)?;
        self.check_host(viewer.ip, Some(viewer.mac))?;
        let stream_port = group.presenter.udp_port.unwrap_or(DEFAULT_UDP_PORT);
        let udp_port = self.udp_port(viewer.ip, viewer.udp_port, stream_port)?;
        let port = self.viewer_port(viewer.ip, viewer.port)?;
        let viewer = Viewer {
            udp_port,
            port,
            ..viewer
        };
        // The lookup in a set replaces a search in the group, which may have thousands of viewers.
        if self.viewer_keys.contains(&(id, viewer.key())) {
            return Err(ModelError::DuplicateViewer {
                group: id,
                viewer: viewer.key(),
            });
        }
        if group.viewers.len() >= self.capabilities.group_viewers_max {
            return Err(ModelError::GroupFull {
                group: id,
                max: self.capabilities.group_viewers_max,
            });
        }
        if self.n_viewers() >= self.capabilities.viewers_max {
            return Err(ModelError::PoolFull {
                max: self.capabilities.viewers_max,
            });
        }
        if let Some(group) = self.groups.get_mut(&id) {
            group.viewers.push(viewer);
            self.viewer_keys.insert((id, viewer.key()));
        }
        Ok(())
    }

    /// Removes a viewer; the others keep their order. The UDP port is optional if only one viewer of the group has this
    /// IP.
    ///
    /// # Errors
    /// The group or the viewer is unknown, or several viewers match.
    pub fn remove_viewer(
        &mut self,
        id: GroupId,
        ip: Ipv4Addr,
        udp_port: Option<u16>,
    ) -> Result<Viewer, ModelError> {
        if let (Some(udp_port), false) = (udp_port, self.capabilities.udp_ports) {
            return Err(ModelError::NoUdpPorts { ip, udp_port });
        }
        let group = self.group(id)?;
        let meant = |v: &Viewer| v.ip == ip && (udp_port.is_none() || v.udp_port == udp_port);
        let udp_ports: Vec<u16> = group
            .viewers
            .iter()
            .filter(|v| meant(v))
            .filter_map(|v| v.udp_port)
            .collect();
        if udp_ports.len() > 1 {
            return Err(ModelError::AmbiguousViewer {
                group: id,
                ip,
                udp_ports,
            });
        }
        let unknown = ModelError::UnknownViewer {
            group: id,
            viewer: (ip, udp_port),
        };
        let Some(idx) = group.viewers.iter().position(meant) else {
            return Err(unknown);
        };
        let group = self.groups.get_mut(&id).ok_or(unknown)?;
        let removed = group.viewers.remove(idx);
        self.viewer_keys.remove(&(id, removed.key()));
        Ok(removed)
    }

    /// Sets the MAC of all viewers with this IP on this port whose MAC was looked up. `port` is `None` if the program
    /// serves one port only.
    ///
    /// # Errors
    /// The MAC is not valid for a host.
    pub fn move_viewers(
        &mut self,
        ip: Ipv4Addr,
        port: Option<u16>,
        mac: Mac,
    ) -> Result<(), ModelError> {
        check_mac(mac)?;
        let viewers = self
            .groups
            .values_mut()
            .flat_map(|group| &mut group.viewers);
        for viewer in viewers.filter(|v| v.looked_up && (v.ip, v.port) == (ip, port)) {
            viewer.mac = mac;
        }
        Ok(())
    }

    /// Deletes a group with its viewers.
    ///
    /// # Errors
    /// The group is unknown.
    pub fn delete_group(&mut self, id: GroupId) -> Result<Group, ModelError> {
        let group = self
            .groups
            .remove(&id)
            .ok_or(ModelError::UnknownGroup { group: id })?;
        self.presenters
            .remove(&(group.presenter.ip, group.presenter.udp_port));
        for viewer in &group.viewers {
            self.viewer_keys.remove(&(id, viewer.key()));
        }
        Ok(group)
    }

    /// Looks up a group.
    ///
    /// # Errors
    /// No group has this number.
    pub fn group(&self, id: GroupId) -> Result<&Group, ModelError> {
        self.groups
            .get(&id)
            .ok_or(ModelError::UnknownGroup { group: id })
    }

    fn check_host(&self, ip: Ipv4Addr, mac: Option<Mac>) -> Result<(), ModelError> {
        check_ip(ip)?;
        mac.map_or(Ok(()), check_mac)?;
        if self.addresses.values().any(|own| own.ip == ip) {
            return Err(ModelError::OwnAddressUsed { ip });
        }
        Ok(())
    }

    /// Returns the port of the switch that a viewer is on. This port may lack an own address, which [`crate::backend`]
    /// checks in each plan.
    fn viewer_port(&self, ip: Ipv4Addr, given: Option<u16>) -> Result<Option<u16>, ModelError> {
        if let Some(port) = given.filter(|port| !(1..=PORT_MAX).contains(port)) {
            return Err(ModelError::BadPort { port });
        }
        let own = self.address().map(|own| own.port);
        match (given, self.capabilities.several_ports) {
            (Some(port), false) if own != Some(port) => Err(ModelError::OnePort { ip, port, own }),
            (_, false) => Ok(None),
            (Some(port), true) => Ok(Some(port)),
            (None, true) if self.addresses.len() > 1 => Err(ModelError::WhichPort {
                ip,
                ports: self.addresses.keys().copied().collect(),
            }),
            (None, true) => Ok(own),
        }
    }

    fn udp_port(
        &self,
        ip: Ipv4Addr,
        given: Option<u16>,
        left_out: u16,
    ) -> Result<Option<u16>, ModelError> {
        match (given, self.capabilities.udp_ports) {
            (Some(0), _) => Err(ModelError::UdpPortZero { ip }),
            (Some(udp_port), false) => Err(ModelError::NoUdpPorts { ip, udp_port }),
            (None, false) => Ok(None),
            (given, true) => Ok(Some(given.unwrap_or(left_out))),
        }
    }
}

fn check_ip(ip: Ipv4Addr) -> Result<(), ModelError> {
    match address::unfit_for_host(ip) {
        Some(why) => Err(ModelError::BadIp { ip, why }),
        None => Ok(()),
    }
}

fn check_mac(mac: Mac) -> Result<(), ModelError> {
    match mac.unfit_for_host() {
        Some(why) => Err(ModelError::BadMac { mac, why }),
        None => Ok(()),
    }
}

fn duplicate_presenter(ip: Ipv4Addr, udp_port: Option<u16>, group: GroupId) -> ModelError {
    match udp_port {
        Some(udp_port) => ModelError::DuplicateStream {
            ip,
            udp_port,
            group,
        },
        None => ModelError::DuplicatePresenter { ip, group },
    }
}

fn show_key((ip, udp_port): &ViewerKey) -> String {
    match udp_port {
        Some(udp_port) => format!("{ip}:{udp_port}"),
        None => ip.to_string(),
    }
}

fn show_ports(udp_ports: &[u16]) -> String {
    udp_ports
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
