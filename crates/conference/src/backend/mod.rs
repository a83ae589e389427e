//! The two SFU programs as a controller sees them: what a conference is in tables, registers and
//! groups, read from the switch and written to it.
//!
//! Nothing is remembered between two commands: the switch is the only home of the state.
//!
//! One version per packet. What a packet may read never changes: a new version is written where
//! no group refers to, then one value per group (a register cell, a multicast group) is changed,
//! and what that unlinked is written again only after a drain. Every plan begins with a drain,
//! because what was unlinked before is not known. A presenter that changes its group is taken off
//! first and put on last, so that its packets never reach another presenter's viewers.

mod recirculation;
mod replication;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{CloneSessionEntry, Entity, MulticastGroupEntry, Update, entity};

use crate::address::Mac;
use crate::entities::{self, Count, ProgramError, Row, Table};
use crate::model::{Capabilities, Conference, GroupId, ModelError, OwnAddress};
use crate::plan::{Plan, Target};

/// An SFU program, found by its P4Info.
#[derive(Clone, Debug)]
pub struct SfuProgram {
    own_addresses: Table,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Recirculation(recirculation::Objects),
    Replication(replication::Objects),
}

/// The state of a switch: the conference, and where in the switch it is.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What the SFU is told.
    pub conference: Conference,
    received: BTreeMap<GroupId, Count>,
    layout: Layout,
}

#[derive(Clone, Debug)]
enum Layout {
    Recirculation(recirculation::Layout),
    Replication(replication::Layout),
}

/// What one group has got and given since its counters began.
#[derive(Clone, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct GroupTotals {
    /// From the presenter.
    pub received: Count,
    /// To each viewer, in the group's order.
    pub viewers: Vec<Count>,
}

/// The switch's state cannot be read, or is none that this controller makes.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E: std::error::Error + 'static> {
    /// A read failed.
    #[error(transparent)]
    Target(E),
    /// State that means nothing here.
    #[error(
        "the switch holds what this controller did not write: {0}; `reprise pipeline set` clears it"
    )]
    Foreign(String),
}

/// A conference that cannot be brought into the switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Viewers, but no port to send copies by.
    #[error(
        "the SFU has no own address yet, so copies have no port to leave by: `reprise address set --port 1 --ip IP --mac MAC`"
    )]
    NoAddress,
    /// No room for a block, though enough slots are free.
    #[error(
        "no {len} consecutive slots can be freed in the viewer pool: delete some groups and add them again"
    )]
    Fragmented {
        /// Slots that were looked for.
        len: u32,
    },
    /// More new viewers at a time than counters.
    #[error("no counter is left for a new viewer: remove viewers first")]
    NoCounter,
}

impl SfuProgram {
    /// Finds out which SFU program a P4Info describes.
    ///
    /// # Errors
    /// Neither, or one whose objects are of other shapes.
    pub fn detect(p4info: &P4Info) -> Result<SfuProgram, ProgramError> {
        let has_table = |name| entities::table_info(p4info, name).is_ok();
        let has_groups = p4info
            .registers
            .iter()
            .any(|r| entities::is_named(r.preamble.as_ref(), "groups"));
        let kind = if has_groups && has_table("presenters") {
            Kind::Recirculation(recirculation::Objects::find(p4info)?)
        } else if has_table("streams") && has_table("viewers") {
            Kind::Replication(replication::Objects::find(p4info)?)
        } else {
            return Err(ProgramError::NotAnSfu);
        };
        let own_addresses = Table::find(
            p4info,
            "own_addresses",
            &["ingress_port", "address"],
            ("set_own_mac", 1),
        )?;
        Ok(SfuProgram {
            own_addresses,
            kind,
        })
    }

    /// How the program makes copies.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Recirculation(_) => "recirculation",
            Kind::Replication(_) => "replication",
        }
    }

    /// What it has room and a place for.
    pub fn capabilities(&self) -> Capabilities {
        match &self.kind {
            Kind::Recirculation(objects) => objects.capabilities(),
            Kind::Replication(objects) => objects.capabilities(),
        }
    }

    /// The state of a switch that this program was just loaded into.
    pub fn empty(&self) -> Snapshot {
        let layout = match &self.kind {
            Kind::Recirculation(_) => Layout::Recirculation(recirculation::Layout::default()),
            Kind::Replication(_) => Layout::Replication(replication::Layout::default()),
        };
        let conference = Conference::new(self.capabilities());
        Snapshot {
            conference,
            received: BTreeMap::new(),
            layout,
        }
    }

    /// Reads the whole state.
    ///
    /// # Errors
    /// A read failed, or the state is none that this controller makes.
    pub async fn read<T: Target>(&self, target: &mut T) -> Result<Snapshot, ReadError<T::Error>> {
        let rows = read(target, vec![self.own_addresses.wildcard()]).await?;
        let mut snapshot = self.empty();
        if let Some(address) = self.own_address(&rows).map_err(ReadError::Foreign)? {
            snapshot.conference.set_address(address).map_err(foreign)?;
        }
        match (&self.kind, &mut snapshot.layout) {
            (Kind::Recirculation(objects), Layout::Recirculation(layout)) => {
                objects
                    .read(
                        target,
                        &mut snapshot.conference,
                        &mut snapshot.received,
                        layout,
                    )
                    .await?;
            }
            (Kind::Replication(objects), Layout::Replication(layout)) => {
                objects
                    .read(
                        target,
                        &mut snapshot.conference,
                        &mut snapshot.received,
                        layout,
                    )
                    .await?;
            }
            _ => {}
        }
        Ok(snapshot)
    }

    /// What every group of the snapshot has got and given. The presenters' counts are the
    /// snapshot's own.
    ///
    /// # Errors
    /// A read failed.
    pub async fn totals<T: Target>(
        &self,
        target: &mut T,
        snapshot: &Snapshot,
    ) -> Result<BTreeMap<GroupId, GroupTotals>, ReadError<T::Error>> {
        let mut viewers = match (&self.kind, &snapshot.layout) {
            (Kind::Recirculation(objects), Layout::Recirculation(layout)) => {
                objects.counts(target, layout).await?
            }
            (_, Layout::Replication(layout)) => layout.counts(),
            _ => BTreeMap::new(),
        };
        let totals = snapshot.conference.groups().keys().map(|id| {
            let received = snapshot.received.get(id).copied().unwrap_or_default();
            (
                *id,
                GroupTotals {
                    received,
                    viewers: viewers.remove(id).unwrap_or_default(),
                },
            )
        });
        Ok(totals.collect())
    }

    /// The steps from the snapshot to the desired conference; empty if the switch is there
    /// already and nothing is left over from an interrupted change.
    ///
    /// # Errors
    /// There are viewers and no own address, or no room for a block.
    pub fn plan(&self, snapshot: &Snapshot, desired: &Conference) -> Result<Plan, PlanError> {
        if desired.address().is_none() && desired.n_viewers() > 0 {
            return Err(PlanError::NoAddress);
        }
        let (before, after) =
            self.address_updates(snapshot.conference.address(), desired.address());
        let address = AddressUpdates { before, after };
        let plan = match (&self.kind, &snapshot.layout) {
            (Kind::Recirculation(objects), Layout::Recirculation(layout)) => {
                objects.plan(&snapshot.conference, layout, desired, address)?
            }
            (Kind::Replication(objects), Layout::Replication(layout)) => {
                objects.plan(&snapshot.conference, layout, desired, address)
            }
            _ => Plan::default(),
        };
        Ok(if plan.is_empty() {
            Plan::default()
        } else {
            plan
        })
    }

    fn own_address(&self, entities: &[Entity]) -> Result<Option<OwnAddress>, String> {
        let rows: Vec<Row> = entities
            .iter()
            .filter_map(|e| self.own_addresses.row(e))
            .collect();
        let address = |row: &Row| {
            let port = u16::try_from(row.key[0]).ok()?;
            Some(OwnAddress {
                port,
                ip: ip(row.key[1])?,
                mac: Mac::from_u64(row.args[0]),
            })
        };
        match rows.as_slice() {
            [] => Ok(None),
            [row] => address(row)
                .map(Some)
                .ok_or_else(|| format!("own address {row:?}")),
            rows => Err(format!("{} own addresses, expected one", rows.len())),
        }
    }

    /// The new own address comes before everything else, the old one goes after.
    fn address_updates(
        &self,
        before: Option<&OwnAddress>,
        after: Option<&OwnAddress>,
    ) -> (Vec<Update>, Vec<Update>) {
        let table = &self.own_addresses;
        let key = |address: &OwnAddress| [address.port.into(), u32::from(address.ip).into()];
        let entry = |a: &OwnAddress| entities::of_table(table.entry(&key(a), &[a.mac.to_u64()]));
        match (before, after) {
            (Some(before), Some(after)) if before == after => (Vec::new(), Vec::new()),
            (Some(before), Some(after)) if key(before) == key(after) => {
                (vec![entities::modify(entry(after))], Vec::new())
            }
            (before, after) => (
                after
                    .map(|a| entities::insert(entry(a)))
                    .into_iter()
                    .collect(),
                before
                    .map(|a| entities::delete(entities::of_table(table.key(&key(a)))))
                    .into_iter()
                    .collect(),
            ),
        }
    }
}

/// Writes to the table of own addresses: first of all, and last of all.
struct AddressUpdates {
    before: Vec<Update>,
    after: Vec<Update>,
}

async fn read<T: Target>(
    target: &mut T,
    entities: Vec<Entity>,
) -> Result<Vec<Entity>, ReadError<T::Error>> {
    target.read(entities).await.map_err(ReadError::Target)
}

fn foreign<E: std::error::Error>(error: ModelError) -> ReadError<E> {
    ReadError::Foreign(error.to_string())
}

fn ip(value: u64) -> Option<Ipv4Addr> {
    u32::try_from(value).ok().map(Ipv4Addr::from)
}

fn mac_or_any(value: u64) -> Option<Mac> {
    (value != 0).then(|| Mac::from_u64(value))
}

fn multicast_entry(entity: &Entity) -> Option<&MulticastGroupEntry> {
    match &entity.entity {
        Some(entity::Entity::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(PreType::MulticastGroupEntry(group)) => Some(group),
            _ => None,
        },
        _ => None,
    }
}

fn clone_entry(entity: &Entity) -> Option<&CloneSessionEntry> {
    match &entity.entity {
        Some(entity::Entity::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(PreType::CloneSessionEntry(session)) => Some(session),
            _ => None,
        },
        _ => None,
    }
}
