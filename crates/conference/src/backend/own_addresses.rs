//! The SFU's own addresses as they stand in the switch, whatever stopped halfway.
//!
//! An address changes in steps: the new one is put beside the old, both answer, the old one is
//! deleted. A later one carries a higher generation in its entry's metadata, so of two on one port
//! the later is in force and the other left over. An address that was put on only to ask for MAC
//! addresses says so, and is left over as soon as nobody asks any more.

use std::net::Ipv4Addr;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{Entity, TableEntry, Update};
use serde::{Deserialize, Serialize};

use super::ip;
use crate::address::{self, Mac};
use crate::entities::{self, ProgramError, Row, Table};
use crate::limits::PORT_MAX;
use crate::model::OwnAddress;

/// The table of own addresses.
#[derive(Clone, Debug)]
pub(super) struct OwnAddresses {
    table: Table,
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnEntry {
    pub(super) address: OwnAddress,
    mark: Mark,
}

/// What the controller keeps in an entry's metadata; nothing: the default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
struct Mark {
    /// The higher, the later.
    generation: u64,
    /// Only there to ask for MAC addresses.
    asking: bool,
}

/// Writes: first of all, and last of all.
#[derive(Default)]
pub(super) struct AddressUpdates {
    pub(super) before: Vec<Update>,
    pub(super) after: Vec<Update>,
}

impl OwnAddresses {
    pub(super) fn find(p4info: &P4Info) -> Result<OwnAddresses, ProgramError> {
        let table = Table::find(
            p4info,
            "own_addresses",
            &["ingress_port", "address"],
            ("set_own_mac", 1),
        )?;
        Ok(OwnAddresses { table })
    }

    pub(super) fn wildcard(&self) -> Entity {
        self.table.wildcard()
    }

    /// Every entry; what is none of this controller's is described in `foreign`.
    pub(super) fn entries(&self, entities: &[Entity], foreign: &mut Vec<String>) -> Vec<OwnEntry> {
        let mut entries = Vec::new();
        for row in entities.iter().filter_map(|e| self.table.row(e)) {
            match entry_of(&row) {
                Some(entry) => entries.push(entry),
                None => foreign.push(format!(
                    "an own address with key {:?} and MAC {}",
                    row.key,
                    Mac::from_u64(row.args[0])
                )),
            }
        }
        entries
    }

    /// The writes that leave the desired address and no other.
    pub(super) fn updates(
        &self,
        entries: &[OwnEntry],
        desired: Option<&OwnAddress>,
    ) -> AddressUpdates {
        let is_desired = |entry: &&OwnEntry| desired.is_some_and(|d| key(d) == key(&entry.address));
        let others = entries.iter().filter(|entry| !is_desired(entry));
        let after = others.map(|entry| {
            let key = self.table.key(&key(&entry.address));
            entities::delete(entities::of_table(key))
        });
        let before = desired.and_then(|desired| {
            let there = entries.iter().find(is_desired);
            if there.is_some_and(|there| Some(*desired) == in_force(entries) && !there.mark.asking)
            {
                return None;
            }
            let generation = entries.iter().map(|entry| entry.mark.generation + 1).max();
            let mark = Mark {
                generation: generation.unwrap_or(0),
                asking: false,
            };
            let entity = self.entity(desired, mark);
            Some(match there {
                Some(_) => entities::modify(entity),
                None => entities::insert(entity),
            })
        });
        AddressUpdates {
            before: before.into_iter().collect(),
            after: after.collect(),
        }
    }

    /// Puts an address on to ask from, beside those in force; `None`: it is there already.
    pub(super) fn ask_from(&self, entries: &[OwnEntry], own: &OwnAddress) -> Option<Update> {
        let there = entries.iter().any(|entry| key(&entry.address) == key(own));
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

/// The address that holds: the latest that was not put on for a question only.
pub(super) fn in_force(entries: &[OwnEntry]) -> Option<OwnAddress> {
    let candidates = entries.iter().filter(|entry| !entry.mark.asking);
    let latest = candidates.max_by_key(|entry| (entry.mark.generation, key(&entry.address)));
    latest.map(|entry| entry.address)
}

/// Those that the next change takes away, in words.
pub(super) fn left_over(entries: &[OwnEntry]) -> impl Iterator<Item = String> + '_ {
    let in_force = in_force(entries);
    let others = entries
        .iter()
        .filter(move |entry| Some(entry.address) != in_force);
    others.map(|entry| {
        let OwnAddress { port, ip, mac } = entry.address;
        format!("own address {ip} {mac} on port {port}")
    })
}

fn key(address: &OwnAddress) -> [u64; 2] {
    [address.port.into(), u32::from(address.ip).into()]
}

fn entry_of(row: &Row) -> Option<OwnEntry> {
    let port = u16::try_from(row.key[0]).ok()?;
    let ip: Ipv4Addr = ip(row.key[1])?;
    let mac = Mac::from_u64(row.args[0]);
    let fits = (1..=PORT_MAX).contains(&port)
        && address::unfit_for_host(ip).is_none()
        && mac.unfit_for_host().is_none();
    let mark = match row.metadata.as_slice() {
        [] => Some(Mark::default()),
        metadata => serde_json::from_slice(metadata).ok(),
    };
    fits.then_some(OwnEntry {
        address: OwnAddress { port, ip, mac },
        mark: mark?,
    })
}
