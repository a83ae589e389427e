//! The SFU's own addresses in the switch, also after an interrupted change.
//!
//! An address changes in steps: the controller adds the new entry, the SFU then answers for both addresses, and the
//! controller deletes the old entry. The metadata of an entry has a generation, which is higher for a later address. If
//! a port has two addresses, the later one is in force, and an interrupted change left the other one. (If the program
//! serves one port only, only the latest of all addresses is in force.) An address that serves only as the source of
//! ARP requests has a mark in its metadata. The next change deletes it, or makes it an own address.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use p4runtime_client::entities;
use p4runtime_client::objects::{ObjectError, Row, Table};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{Entity, TableEntry, Update};
use serde::{Deserialize, Serialize};

use super::ip;
use crate::address::{self, Mac};
use crate::limits::PORT_MAX;
use crate::model::OwnAddress;

#[derive(Clone, Debug)]
pub(super) struct OwnAddresses {
    /// The table of the addresses for which the SFU answers, by ingress port.
    table: Table,
    /// The table of the source addresses of copies, by egress port. `None` if the program serves one port only.
    ports: Option<Table>,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Entries {
    own: Vec<OwnEntry>,
    ports: BTreeMap<u16, OwnAddress>,
    several_ports: bool,
}

#[derive(Clone, Copy, Debug)]
struct OwnEntry {
    address: OwnAddress,
    mark: Mark,
}

/// The metadata that the controller gives an entry. The default is stored as empty metadata.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
struct Mark {
    /// A later address has a higher generation.
    generation: u64,
    /// The address is only a source of ARP requests.
    asking: bool,
}

/// Updates to make before the groups change, after they have changed, and when no packet sees the old version any more.
#[derive(Default)]
pub(super) struct AddressUpdates {
    pub(super) before: Vec<Update>,
    pub(super) after: Vec<Update>,
    pub(super) cleanup: Vec<Update>,
}

impl OwnAddresses {
    pub(super) fn find(p4info: &P4Info, several_ports: bool) -> Result<OwnAddresses, ObjectError> {
        let table = Table::find(
            p4info,
            "own_addresses",
            &["ingress_port", "address"],
            ("set_own_mac", 1),
        )?;
        let ports = || Table::find(p4info, "port_addresses", &["egress_port"], ("send_from", 2));
        Ok(OwnAddresses {
            table,
            ports: several_ports.then(ports).transpose()?,
        })
    }

    pub(super) fn wildcards(&self) -> Vec<Entity> {
        let tables = std::iter::once(&self.table).chain(&self.ports);
        tables.map(Table::wildcard).collect()
    }

    /// Parses every entry. Adds to `foreign` a description of each entry that another controller wrote.
    pub(super) fn entries(&self, entities: &[Entity], foreign: &mut Vec<String>) -> Entries {
        let mut entries = Entries {
            several_ports: self.ports.is_some(),
            ..Entries::default()
        };
        for row in entities.iter().filter_map(|e| self.table.row(e)) {
            match entry_of(&row) {
                Some(entry) => entries.own.push(entry),
                None => foreign.push(format!(
                    "an own address with key {:?} and MAC {}",
                    row.key,
                    Mac::from_u64(row.args[0])
                )),
            }
        }
        let of_port = |e| self.ports.as_ref().and_then(|table| table.row(e));
        for row in entities.iter().filter_map(of_port) {
            match port_address_of(&row) {
                Some(address) => {
                    entries.ports.insert(address.port, address);
                }
                None => foreign.push(format!(
                    "an entry of \"port_addresses\" with key {:?} and arguments {:?}",
                    row.key, row.args
                )),
            }
        }
        entries
    }

    /// Returns the updates after which the switch has exactly the desired addresses.
    pub(super) fn updates(
        &self,
        entries: &Entries,
        desired: &BTreeMap<u16, OwnAddress>,
    ) -> AddressUpdates {
        let is_desired = |entry: &&OwnEntry| {
            let desired = desired.get(&entry.address.port);
            desired.is_some_and(|desired| key(desired) == key(&entry.address))
        };
        let others = entries.own.iter().filter(|entry| !is_desired(entry));
        let after = others.map(|entry| {
            let key = self.table.key(&key(&entry.address));
            entities::delete(entities::of_table(key))
        });
        let in_force = entries.in_force();
        let generations = entries.own.iter().map(|entry| entry.mark.generation + 1);
        let mark = Mark {
            generation: generations.max().unwrap_or(0),
            asking: false,
        };
        let before = desired.values().filter_map(|desired| {
            let there = entries.own.iter().find(|e| key(&e.address) == key(desired));
            if there.is_some_and(|there| !there.mark.asking)
                && in_force.get(&desired.port) == Some(desired)
            {
                return None;
            }
            let entity = self.entity(desired, mark);
            Some(match there {
                Some(_) => entities::modify(entity),
                None => entities::insert(entity),
            })
        });
        let mut updates = AddressUpdates {
            before: before.collect(),
            after: after.collect(),
            cleanup: Vec::new(),
        };
        if let Some(table) = &self.ports {
            port_updates(table, &entries.ports, desired, &mut updates);
        }
        updates
    }

    /// Returns the update that adds an address as the source of ARP requests, beside the addresses in force; `None` if
    /// the switch already has the address.
    pub(super) fn ask_from(&self, entries: &Entries, own: &OwnAddress) -> Option<Update> {
        let mut entries = entries.own.iter();
        let there = entries.any(|entry| key(&entry.address) == key(own));
        let mark = Mark {
            generation: 0,
            asking: true,
        };
        (!there).then(|| entities::insert(self.entity(own, mark)))
    }

    fn entity(&self, address: &OwnAddress, mark: Mark) -> Entity {
        let metadata = if mark == Mark::default() {
            Vec::new()
        } else {
            serde_json::to_vec(&mark).unwrap_or_default()
        };
        entities::of_table(TableEntry {
            metadata,
            ..self.table.entry(&key(address), &[address.mac.to_u64()])
        })
    }
}

/// Adds the updates of the table of source addresses. A port's address is deleted last: copies of packets that saw the
/// old groups may still leave by that port.
fn port_updates(
    table: &Table,
    ports: &BTreeMap<u16, OwnAddress>,
    desired: &BTreeMap<u16, OwnAddress>,
    updates: &mut AddressUpdates,
) {
    for (port, address) in desired {
        let args = [address.mac.to_u64(), u32::from(address.ip).into()];
        let entity = || entities::of_table(table.entry(&[u64::from(*port)], &args));
        match ports.get(port) {
            Some(there) if there == address => {}
            Some(_) => updates.before.push(entities::modify(entity())),
            None => updates.before.push(entities::insert(entity())),
        }
    }
    let gone = ports.keys().filter(|port| !desired.contains_key(port));
    let key = |port: &u16| entities::of_table(table.key(&[u64::from(*port)]));
    updates
        .cleanup
        .extend(gone.map(|port| entities::delete(key(port))));
}

impl Entries {
    /// Returns the addresses in force: for each port, the latest address that is not only a source of ARP requests. If
    /// the program serves one port only, returns at most one address.
    pub(super) fn in_force(&self) -> BTreeMap<u16, OwnAddress> {
        let mut latest: BTreeMap<u16, OwnEntry> = BTreeMap::new();
        for entry in self.own.iter().filter(|entry| !entry.mark.asking) {
            let place = if self.several_ports {
                entry.address.port
            } else {
                0
            };
            let age = |entry: &OwnEntry| (entry.mark.generation, key(&entry.address));
            let held = latest.entry(place).or_insert(*entry);
            if age(held) < age(entry) {
                *held = *entry;
            }
        }
        let addresses = latest.into_values().map(|entry| entry.address);
        addresses.map(|own| (own.port, own)).collect()
    }

    /// Describes what an interrupted change left; the next change deletes or completes it.
    pub(super) fn left_over(&self) -> Vec<String> {
        let in_force = self.in_force();
        let holds = |address: &OwnAddress| in_force.get(&address.port) == Some(address);
        let others = self.own.iter().map(|entry| entry.address);
        let mut texts: Vec<String> = others.filter(|own| !holds(own)).map(text).collect();
        if self.several_ports {
            let copies = self.ports.values().filter(|own| !holds(own)).copied();
            texts.extend(copies.map(|own| format!("copies from {}", text(own))));
            let missing = in_force
                .keys()
                .filter(|port| !self.ports.contains_key(port));
            texts.extend(
                missing.map(|port| {
                    format!("no source address yet for copies that leave by port {port}")
                }),
            );
        }
        texts
    }
}

fn text(OwnAddress { port, ip, mac }: OwnAddress) -> String {
    format!("own address {ip} {mac} on port {port}")
}

fn key(address: &OwnAddress) -> [u64; 2] {
    [address.port.into(), u32::from(address.ip).into()]
}

fn entry_of(row: &Row) -> Option<OwnEntry> {
    let mark = match row.metadata.as_slice() {
        [] => Some(Mark::default()),
        metadata => serde_json::from_slice(metadata).ok(),
    };
    Some(OwnEntry {
        address: address_of(row.key[0], row.key[1], row.args[0])?,
        mark: mark?,
    })
}

fn port_address_of(row: &Row) -> Option<OwnAddress> {
    address_of(row.key[0], row.args[1], row.args[0])
}

fn address_of(port: u64, address: u64, mac: u64) -> Option<OwnAddress> {
    let port = u16::try_from(port).ok()?;
    let ip: Ipv4Addr = ip(address)?;
    let mac = Mac::from_u64(mac);
    let fits = (1..=PORT_MAX).contains(&port)
        && address::unfit_for_host(ip).is_none()
        && mac.unfit_for_host().is_none();
    fits.then_some(OwnAddress { port, ip, mac })
}
