//! `conference.yaml`: the whole of what an SFU is told, as a file. docs/controller.md has the
//! schema. Unknown keys, wrong types and doubles are errors with their line.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Deserializer};

use crate::address::Mac;
use crate::limits::FILE_EVENTS_MAX;
use crate::model::{Capabilities, Conference, GroupId, ModelError, OwnAddress, Presenter, Viewer};

/// The file as it stands.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    sfu: Sfu,
    #[serde(default)]
    groups: Vec<FileGroup>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sfu {
    #[serde(deserialize_with = "number")]
    port: u16,
    ip: Ipv4Addr,
    mac: Mac,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGroup {
    #[serde(deserialize_with = "number")]
    group: u16,
    ip: Ipv4Addr,
    mac: Option<Mac>,
    #[serde(default, deserialize_with = "number_if_any")]
    udp_port: Option<u16>,
    #[serde(default)]
    viewers: Vec<FileViewer>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileViewer {
    ip: Ipv4Addr,
    mac: Option<Mac>,
    #[serde(default, deserialize_with = "number_if_any")]
    udp_port: Option<u16>,
}

/// Why a file is no conference.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not the schema; the message has line and column.
    #[error("{0}")]
    Yaml(String),
    /// The schema, but not what the program can do.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// A MAC that nobody knows.
    #[error(
        "viewer {ip} of group {group} has no `mac:`, and without a switch it cannot be looked up"
    )]
    NoMac {
        /// Whose.
        ip: Ipv4Addr,
        /// Where.
        group: GroupId,
    },
}

impl File {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is not the schema.
    pub fn parse(text: &str) -> Result<File, FileError> {
        // The parser's own bounds are below the largest file that a program has room for.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_events: FILE_EVENTS_MAX,
                max_nodes: FILE_EVENTS_MAX,
            },
        };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.without_snippet().to_string();
            FileError::Yaml(line.trim_start_matches("error: ").to_owned())
        })
    }

    /// The SFU's own address.
    pub fn address(&self) -> OwnAddress {
        OwnAddress {
            port: self.sfu.port,
            ip: self.sfu.ip,
            mac: self.sfu.mac,
        }
    }

    /// Viewers whose MAC neither the file nor the switch knows.
    pub fn unknown_macs(&self, current: &Conference) -> BTreeSet<Ipv4Addr> {
        let known = macs(current);
        let viewers = self.groups.iter().flat_map(|group| &group.viewers);
        let unknown = viewers.filter(|v| v.mac.is_none() && !known.contains_key(&v.ip));
        unknown.map(|viewer| viewer.ip).collect()
    }

    /// The conference that the file describes. A MAC left out is the one that the switch has for
    /// that IP already, or the one that was looked up.
    ///
    /// # Errors
    /// A rule of the model is broken, or a MAC is unknown.
    pub fn conference(
        &self,
        capabilities: Capabilities,
        current: &Conference,
        looked_up: &BTreeMap<Ipv4Addr, Mac>,
    ) -> Result<Conference, FileError> {
        let known = macs(current);
        let mut conference = Conference::new(capabilities);
        conference.set_address(self.address())?;
        for group in &self.groups {
            let id = GroupId(group.group);
            let presenter = Presenter {
                ip: group.ip,
                mac: group.mac,
                udp_port: group.udp_port,
            };
            conference.add_group(id, presenter)?;
            for viewer in &group.viewers {
                let known = || {
                    known
                        .get(&viewer.ip)
                        .or_else(|| looked_up.get(&viewer.ip))
                        .copied()
                };
                let mac = viewer.mac.or_else(known);
                let mac = mac.ok_or(FileError::NoMac {
                    ip: viewer.ip,
                    group: id,
                })?;
                let viewer = Viewer {
                    ip: viewer.ip,
                    mac,
                    udp_port: viewer.udp_port,
                };
                conference.add_viewer(id, viewer)?;
            }
        }
        Ok(conference)
    }
}

/// serde's own message names a Rust type and not the value.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let text = String::deserialize(deserializer)?;
    let error = || format!("expected a number from 0 to 65535, got \"{text}\"");
    text.parse().map_err(|_| serde::de::Error::custom(error()))
}

fn number_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    number(deserializer).map(Some)
}

fn macs(conference: &Conference) -> BTreeMap<Ipv4Addr, Mac> {
    let viewers = conference
        .groups()
        .values()
        .flat_map(|group| &group.viewers);
    viewers.map(|viewer| (viewer.ip, viewer.mac)).collect()
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
