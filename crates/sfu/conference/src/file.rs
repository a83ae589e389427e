//! Reads `conference.yaml`: the whole configuration of an SFU as a file. docs/controller.md has the schema. Unknown
//! keys, wrong types and duplicates are errors, which state the line ([`value`]).

mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::Deserialize;

use crate::address::Mac;
use crate::limits::{DEFAULT_UDP_PORT, FILE_EVENTS_MAX};
use crate::model::{Capabilities, Conference, GroupId, ModelError, OwnAddress, Presenter, Viewer};
use crate::neighbour::{Place, Question};

/// The parsed file, before MACs are looked up and the model's rules are checked.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(deserialize_with = "value::one_or_several")]
    sfu: Vec<Sfu>,
    #[serde(default, deserialize_with = "value::list")]
    groups: Vec<FileGroup>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sfu {
    #[serde(deserialize_with = "value::word")]
    port: u16,
    #[serde(deserialize_with = "value::word")]
    ip: Ipv4Addr,
    #[serde(deserialize_with = "value::word")]
    mac: Mac,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGroup {
    #[serde(deserialize_with = "value::word")]
    group: u16,
    #[serde(deserialize_with = "value::word")]
    ip: Ipv4Addr,
    #[serde(default, deserialize_with = "value::word_if_any")]
    mac: Option<Mac>,
    #[serde(default, deserialize_with = "value::word_if_any")]
    udp_port: Option<u16>,
    #[serde(default, deserialize_with = "value::list")]
    viewers: Vec<FileViewer>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileViewer {
    #[serde(deserialize_with = "value::word")]
    ip: Ipv4Addr,
    #[serde(default, deserialize_with = "value::word_if_any")]
    mac: Option<Mac>,
    #[serde(default, deserialize_with = "value::word")]
    looked_up: bool,
    #[serde(default, deserialize_with = "value::word_if_any")]
    udp_port: Option<u16>,
    #[serde(default, deserialize_with = "value::word_if_any")]
    port: Option<u16>,
}

/// Why a file is not a valid conference.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The text violates the schema; the message states the line and the column.
    #[error("{0}")]
    Yaml(String),
    /// The program cannot do what the file asks for.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// A viewer's MAC is unknown.
    #[error("viewer {ip} of group {group} has no `mac:`, and only a switch can look it up")]
    NoMac {
        /// IP of the viewer.
        ip: Ipv4Addr,
        /// Group of the viewer.
        group: GroupId,
    },
}

impl File {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The text violates the schema.
    pub fn parse(text: &str) -> Result<File, FileError> {
        // serde-saphyr's default limits are too low for the largest file that a program has room for.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_events: FILE_EVENTS_MAX,
                max_nodes: FILE_EVENTS_MAX,
            },
        };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let error = error.without_snippet();
            let line = error.render_with_formatter(&value::Words);
            FileError::Yaml(line.trim_start_matches("error: ").to_owned())
        })
    }

    /// The SFU's own addresses, by port.
    ///
    /// # Errors
    /// A port has two addresses.
    pub fn addresses(&self) -> Result<BTreeMap<u16, OwnAddress>, FileError> {
        let mut addresses = BTreeMap::new();
        for Sfu { port, ip, mac } in &self.sfu {
            let own = OwnAddress {
                port: *port,
                ip: *ip,
                mac: *mac,
            };
            if let Some(first) = addresses.insert(*port, own) {
                return Err(FileError::Model(ModelError::DuplicateAddress {
                    port: *port,
                    first: first.ip,
                    second: *ip,
                }));
            }
        }
        Ok(addresses)
    }

    /// Returns the viewers whose MAC is neither in the file nor in the switch.
    pub fn unknown_macs(&self, current: &Conference) -> BTreeSet<Question> {
        let known = Known::of(current);
        let of_group = |group: &'_ FileGroup| {
            let unknown = |v: &&FileViewer| v.mac.is_none() && known.viewer(group, v).is_none();
            let unknown = group.viewers.iter().filter(unknown);
            unknown.map(FileViewer::question).collect::<Vec<_>>()
        };
        self.groups.iter().flat_map(of_group).collect()
    }

    /// Returns the conference that the file describes. If the file gives no MAC, a viewer gets the MAC that the switch
    /// has for this viewer, else the MAC that the switch looked up for the same IP in another group, else the MAC in
    /// `looked_up`.
    ///
    /// # Errors
    /// The file breaks a rule of the model, or a MAC is unknown.
    pub fn conference(
        &self,
        capabilities: Capabilities,
        current: &Conference,
        looked_up: &BTreeMap<Question, Place>,
    ) -> Result<Conference, FileError> {
        let known = Known::of(current);
        let several_ports = capabilities.several_ports;
        let mut conference = Conference::new(capabilities);
        let addresses = self.addresses()?;
        if addresses.len() > 1 && !several_ports {
            return Err(FileError::Model(ModelError::OneAddress));
        }
        for own in addresses.values() {
            conference.set_address(*own)?;
        }
        for group in &self.groups {
            let id = GroupId(group.group);
            let presenter = Presenter {
                ip: group.ip,
                mac: group.mac,
                udp_port: group.udp_port,
            };
            conference.add_group(id, presenter)?;
            for viewer in &group.viewers {
                let known = known.viewer(group, viewer);
                let found = looked_up.get(&viewer.question());
                let mac = viewer.mac.or_else(|| known.map(|known| known.mac));
                let mac = mac.or_else(|| found.map(|found| found.mac));
                // If the file gives no port, the viewer stays on its port in the switch, or gets the port where it was
                // found.
                let port = known.and_then(|known| known.port);
                let port = port.or_else(|| found.map(|found| found.port));
                let port = port.filter(|port| several_ports && addresses.contains_key(port));
                let by_hand = viewer.mac.is_some() || known.is_some_and(|known| !known.looked_up);
                let viewer = Viewer {
                    ip: viewer.ip,
                    mac: mac.ok_or(FileError::NoMac {
                        ip: viewer.ip,
                        group: id,
                    })?,
                    looked_up: viewer.looked_up || !by_hand,
                    udp_port: viewer.udp_port,
                    port: viewer.port.or(port),
                };
                conference.add_viewer(id, viewer)?;
            }
        }
        Ok(conference)
    }
}

impl FileViewer {
    fn question(&self) -> Question {
        Question {
            ip: self.ip,
            port: self.port,
        }
    }
}

/// The switch's viewers, by address.
struct Known(BTreeMap<Ipv4Addr, Vec<(GroupId, Viewer)>>);

impl Known {
    fn of(conference: &Conference) -> Known {
        let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (id, group) in conference.groups() {
            for viewer in &group.viewers {
                known.entry(viewer.ip).or_default().push((*id, *viewer));
            }
        }
        Known(known)
    }

    /// Finds this viewer in the switch. If the file gives a port, searches only on this port. A viewer of another group
    /// with the same IP counts as the same host if its MAC was looked up. A MAC given by hand is valid for one viewer
    /// only.
    fn viewer(&self, group: &FileGroup, viewer: &FileViewer) -> Option<&Viewer> {
        let stream_port = group.udp_port.unwrap_or(DEFAULT_UDP_PORT);
        let udp_port = viewer.udp_port.unwrap_or(stream_port);
        let is_same = |(id, known): &&(GroupId, Viewer)| {
            id.0 == group.group && known.udp_port.is_none_or(|port| port == udp_port)
        };
        let on_port = |(_, known): &&(GroupId, Viewer)| {
            viewer.port.is_none() || known.port.is_none() || known.port == viewer.port
        };
        let known = self.0.get(&viewer.ip)?.iter().filter(on_port);
        let same = known.clone().find(is_same);
        let same = same.or_else(|| known.clone().find(|(_, known)| known.looked_up));
        same.map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests;
