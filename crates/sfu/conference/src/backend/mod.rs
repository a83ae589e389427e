//! The two SFU programs from a controller's view: reads a conference from tables, registers and
//! multicast groups of the switch, and writes it to them.
//!
//! The controller keeps nothing between two commands: only the switch keeps the state.
//!
//! Each packet sees one version of a group. State that a packet may read never changes: a new version is written to
//! places (slots of the registers, or table entries) to which no group refers. Then one value per group (a register
//! cell, a multicast group) changes from the old places to the new ones. The old places are reused only after a drain,
//! a wait after which no packet reads them any more. Every plan begins with a drain, because the controller does not
//! know which places an earlier command unlinked. [`presenters`] describes how a presenter changes.
//!
//! After every step, [`SfuProgram::read`] can find out which version is in force and what an interrupted change has
//! left in the switch. [`SfuProgram::settle`] completes or undoes an interrupted change; every change begins with it.

mod own_addresses;
mod presenters;
mod recirculation;
mod replication;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use p4runtime_client::entities;
use p4runtime_client::objects::{self, Array, Count, ObjectError};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{CloneSessionEntry, Entity, MulticastGroupEntry, entity};

use crate::address::Mac;
use crate::limits::STEADY_TRIES;
use crate::model::{Capabilities, Conference, GroupId, OwnAddress, Viewer, ViewerKey};
use crate::plan::{self, Plan, RunError, Stage, Target};
use own_addresses::{AddressUpdates, OwnAddresses};
use presenters::{Entries, Presenters, Steps, Transition};

/// An SFU program, recognised by its P4Info.
#[derive(Clone, Debug)]
pub struct SfuProgram {
    own_addresses: OwnAddresses,
    presenters: Presenters,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Recirculation(recirculation::Objects),
    Replication(replication::Objects),
}

/// The state of a switch: the conference, and where the switch stores it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The SFU's configuration as it will be once an interrupted change is completed or undone.
    pub conference: Conference,
    /// Descriptions of what an interrupted change left and the next change completes or deletes.
    pub left_over: Vec<String>,
    /// Descriptions of state that this controller did not write and `conference` omits.
    pub foreign: Vec<String>,
    addresses: own_addresses::Entries,
    presenters: Entries,
    received: BTreeMap<GroupId, Count>,
    layout: Layout,
}

#[derive(Clone, Debug)]
enum Layout {
    Recirculation(recirculation::Layout),
    Replication(replication::Layout),
}

/// Why the program in the switch is not an SFU that the controller knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The program lacks an object, or its object of that name has another shape.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The program is the conference service's.
    #[error(
        "the program in the switch is the conference service's, whose state `reprise serve` keeps: \
         its API and its page show who is there (docs/join.md); `reprise group`, `viewer`, `show` \
         and `apply` are for p4/sfu.p4 and p4/sfu_recirculation.p4"
    )]
    OfConferenceService,
    /// The program is neither of the two SFU programs.
    #[error(
        "the program in the switch is no SFU that this controller knows: it has neither table \
         \"presenters\" and register \"groups\" nor tables \"streams\" and \"viewers\""
    )]
    NotAnSfu,
}

/// A group's received and transmitted counts.
#[derive(Clone, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct GroupTotals {
    /// What was received from the presenter.
    pub received: Count,
    /// What was sent to each viewer, in the group's order.
    pub viewers: Vec<Count>,
}

/// Why a change cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SettleError<E: std::error::Error + Send + Sync + 'static> {
    /// A read failed.
    #[error(transparent)]
    Read(E),
    /// The switch holds state that this controller did not write.
    #[error(
        "the switch holds state that this controller did not write: {}; delete it with the controller that wrote it, or set the pipeline anew and keep this controller's entries: `reprise export -o conference.yaml`, `reprise pipeline set PROGRAM`, `reprise apply conference.yaml`",
        few(.0)
    )]
    Foreign(Vec<String>),
    /// An interrupted change cannot be completed or undone.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A write failed while an interrupted change was being completed or undone.
    #[error(transparent)]
    Run(#[from] RunError<E>),
}

/// Why a conference cannot be written to the switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The conference has viewers, but the SFU has no own address.
    #[error(
        "the SFU has no own address yet, so copies have no output port: set the address with `reprise address set --port 1 --ip IP --mac MAC`"
    )]
    NoAddress,
    /// The conference has viewers on a port without an own address.
    #[error(
        "{n_viewers} {} on port {port}, where the SFU has no own address to serve them from: set one with `reprise address set --port {port} --ip IP --mac MAC`, or remove {} first",
        if *.n_viewers == 1 { "viewer is" } else { "viewers are" },
        if *.n_viewers == 1 { "it" } else { "them" },
    )]
    NoAddressOnPort {
        /// Port without an own address.
        port: u16,
        /// Number of viewers on the port.
        n_viewers: usize,
    },
    /// The pool has enough free slots, but they cannot be made consecutive.
    #[error(
        "no {len} consecutive slots can be freed in the viewer pool: delete some groups and add them again"
    )]
    Fragmented {
        /// Number of slots needed.
        len: u32,
    },
    /// A change was interrupted, and the caller did not call [`SfuProgram::settle`] first.
    #[error("an interrupted change must be completed or undone before another one")]
    Unsettled,
    /// There are not enough counters for the new viewers.
    #[error("no counter is left for a new viewer: remove viewers first")]
    NoCounter,
}

impl SfuProgram {
    /// Recognises the SFU program that a P4Info describes.
    ///
    /// # Errors
    /// The program is neither of the two SFU programs, or its objects have other shapes.
    pub fn detect(p4info: &P4Info) -> Result<SfuProgram, ProgramError> {
        let has_table = |name| objects::table_info(p4info, name).is_ok();
        let has_groups = Array::register(p4info, "groups").is_ok();
        let (presenters, kind) = if has_groups && has_table("presenters") {
            let presenters = Presenters::find(p4info, "presenters", &["src_addr"])?;
            let objects = recirculation::Objects::find(p4info)?;
            (presenters, Kind::Recirculation(objects))
        } else if has_table("streams") && has_table("viewers") {
            let presenters = Presenters::find(p4info, "streams", &["src_addr", "udp_dst_port"])?;
            let objects = replication::Objects::find(p4info)?;
            (presenters, Kind::Replication(objects))
        } else if has_table("sockets") && has_table("receivers") {
            return Err(ProgramError::OfConferenceService);
        } else {
            return Err(ProgramError::NotAnSfu);
        };
        Ok(SfuProgram {
            own_addresses: OwnAddresses::find(p4info, matches!(kind, Kind::Replication(_)))?,
            presenters,
            kind,
        })
    }

    /// Returns the name of the way in which the program copies a presenter's packets for the viewers.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Recirculation(_) => "recirculation",
            Kind::Replication(_) => "replication",
        }
    }

    /// The sizes and features of the loaded program.
    pub fn capabilities(&self) -> Capabilities {
        match &self.kind {
            Kind::Recirculation(objects) => objects.capabilities(self.presenters.groups_max()),
            Kind::Replication(objects) => objects.capabilities(self.presenters.groups_max()),
        }
    }

    /// Returns the state of a switch into which this program has just been loaded.
    pub fn empty(&self) -> Snapshot {
        let layout = match &self.kind {
            Kind::Recirculation(_) => Layout::Recirculation(recirculation::Layout::default()),
            Kind::Replication(_) => Layout::Replication(replication::Layout::default()),
        };
        Snapshot {
            conference: Conference::new(self.capabilities()),
            left_over: Vec::new(),
            foreign: Vec::new(),
            addresses: own_addresses::Entries::default(),
            presenters: Entries::default(),
            received: BTreeMap::new(),
            layout,
        }
    }

    /// Reads the whole state: the version in force, what an interrupted change left, and foreign state.
    ///
    /// # Errors
    /// A read failed.
    pub async fn read<T: Target>(&self, target: &mut T) -> Result<Snapshot, T::Error> {
        let mut wanted = self.own_addresses.wildcards();
        wanted.push(self.presenters.wildcard());
        wanted.extend(match &self.kind {
            Kind::Recirculation(_) => vec![entities::any_clone_session()],
            Kind::Replication(objects) => objects.wildcards(),
        });
        let entities = target.read(wanted).await?;
        let mut snapshot = self.empty();
        let foreign = &mut snapshot.foreign;
        snapshot.addresses = self.own_addresses.entries(&entities, foreign);
        snapshot.presenters = self.presenters.entries(&entities, foreign);
        let groups: BTreeSet<GroupId> = snapshot.presenters.groups().collect();
        snapshot.layout = match &self.kind {
            Kind::Recirculation(objects) => {
                let layout = objects.read(target, &entities, &groups, foreign);
                Layout::Recirculation(layout.await?)
            }
            Kind::Replication(objects) => {
                Layout::Replication(objects.read(&entities, &groups, foreign))
            }
        };
        snapshot.understand();
        Ok(snapshot)
    }

    /// Reads until two successive readings are equal, because one reading takes several requests
    /// and another controller may write between them. Returns `None` if no two are equal, because
    /// another controller writes without a pause.
    ///
    /// # Errors
    /// A read failed.
    pub async fn read_steady<T: Target>(
        &self,
        target: &mut T,
    ) -> Result<Option<Snapshot>, T::Error> {
        let mut before = self.read(target).await?;
        for _ in 0..STEADY_TRIES {
            let now = self.read(target).await?;
            if now.says_the_same_as(&before) {
                return Ok(Some(now));
            }
            before = now;
        }
        Ok(None)
    }

    /// Completes or undoes an interrupted change, and deletes what it left. Every change must begin with this call.
    ///
    /// # Errors
    /// A call failed, or the switch holds state that this controller did not write.
    pub async fn settle<T: Target>(
        &self,
        target: &mut T,
    ) -> Result<Snapshot, SettleError<T::Error>> {
        let snapshot = self.read(target).await.map_err(SettleError::Read)?;
        if !snapshot.foreign.is_empty() {
            return Err(SettleError::Foreign(snapshot.foreign));
        }
        let plan = match self.plan(&snapshot, &snapshot.conference) {
            Ok(plan) if plan.is_empty() => return Ok(snapshot),
            // Not an error here: the next change sets an address or removes the viewers.
            Err(PlanError::NoAddress) => return Ok(snapshot),
            plan => plan?,
        };
        plan::run(plan, target, |_| {}).await?;
        let settled = self.read(target).await.map_err(SettleError::Read)?;
        Ok(Snapshot {
            left_over: snapshot.left_over,
            ..settled
        })
    }

    /// Returns the received and transmitted counts of every group of the snapshot. The snapshot has the received
    /// counts; the transmitted counts may have to be read from the switch.
    ///
    /// # Errors
    /// A read failed.
    pub async fn totals<T: Target>(
        &self,
        target: &mut T,
        snapshot: &Snapshot,
    ) -> Result<BTreeMap<GroupId, GroupTotals>, T::Error> {
        let counts = match (&self.kind, &snapshot.layout) {
            (Kind::Recirculation(objects), Layout::Recirculation(layout)) => {
                objects.counts(target, layout).await?
            }
            (_, Layout::Replication(layout)) => layout.counts(),
            _ => BTreeMap::new(),
        };
        let totals = snapshot.conference.groups().iter().map(|(id, group)| {
            let of_group = counts.get(id);
            let of_viewer = |viewer: &Viewer| of_group?.get(&viewer.key()).copied();
            let totals = GroupTotals {
                received: snapshot.received.get(id).copied().unwrap_or_default(),
                viewers: group
                    .viewers
                    .iter()
                    .map(|viewer| of_viewer(viewer).unwrap_or_default())
                    .collect(),
            };
            (*id, totals)
        });
        Ok(totals.collect())
    }

    /// Returns the steps that change the switch from the snapshot to the desired conference. There are none if the
    /// switch already has the desired conference and an interrupted change left nothing over.
    ///
    /// # Errors
    /// Viewers are on a port on which the switch has no IP address, the program's tables or counters are too small for
    /// the viewers, or an interrupted change must be completed or undone first.
    pub fn plan(&self, snapshot: &Snapshot, desired: &Conference) -> Result<Plan, PlanError> {
        check_addresses(&snapshot.conference, desired)?;
        if snapshot.presenters.is_journal() && *desired != snapshot.conference {
            return Err(PlanError::Unsettled);
        }
        let plan = match (&self.kind, &snapshot.layout) {
            (Kind::Recirculation(objects), Layout::Recirculation(layout)) => {
                // If a presenter of a deleted group moves to another group, the deleted group
                // normally keeps its slots until the presenter has moved. If the pool has no room
                // for this, deleted groups are deleted first.
                let late = objects.plan(layout, desired, self.changes(snapshot, desired, false));
                match late {
                    Ok(plan) => plan,
                    Err(_) => {
                        objects.plan(layout, desired, self.changes(snapshot, desired, true))?
                    }
                }
            }
            (Kind::Replication(objects), Layout::Replication(layout)) => {
                objects.plan(layout, desired, self.changes(snapshot, desired, false))
            }
            _ => Plan::default(),
        };
        Ok(if plan.is_empty() {
            Plan::default()
        } else {
            plan
        })
    }

    /// Returns the step that adds an address as the source of ARP requests, beside the addresses in force. The next
    /// change deletes the added address or makes it an own address.
    pub fn ask_from(&self, snapshot: &Snapshot, own: &OwnAddress) -> Plan {
        let mut plan = Plan::default();
        let update = self.own_addresses.ask_from(&snapshot.addresses, own);
        plan.write(Stage::Address, update.into_iter().collect());
        plan
    }

    fn changes(&self, snapshot: &Snapshot, desired: &Conference, early: bool) -> Changes {
        let transition = Transition {
            current: &snapshot.conference,
            desired,
            early,
        };
        Changes {
            address: self
                .own_addresses
                .updates(&snapshot.addresses, desired.addresses()),
            presenters: self.presenters.steps(&snapshot.presenters, &transition),
        }
    }
}

impl Snapshot {
    fn says_the_same_as(&self, other: &Snapshot) -> bool {
        self.conference == other.conference
            && self.foreign == other.foreign
            && self.left_over == other.left_over
    }

    /// Derives the conference from what was read.
    fn understand(&mut self) {
        let conference = &mut self.conference;
        for address in self.addresses.in_force().into_values() {
            // This cannot fail: the read checked the address, and the conference has no group yet.
            conference.set_address(address).unwrap_or_default();
        }
        self.left_over.extend(self.addresses.left_over());
        let viewers = match &self.layout {
            Layout::Recirculation(layout) => layout.viewers(),
            Layout::Replication(layout) => layout.viewers(),
        };
        let mut meaning = self.presenters.meaning(&viewers, &mut self.foreign);
        self.left_over
            .extend(meaning.unfinished.map(ToOwned::to_owned));
        for (id, (presenter, count)) in meaning.presenters {
            if let Err(error) = conference.add_group(id, presenter) {
                self.foreign.push(error.to_string());
                continue;
            }
            self.received.insert(id, count);
            let now = viewers.get(&id).cloned().unwrap_or_default();
            for viewer in meaning.viewers.remove(&id).unwrap_or(now) {
                if let Err(error) = conference.add_viewer(id, viewer) {
                    self.foreign.push(error.to_string());
                }
            }
        }
        match &self.layout {
            Layout::Recirculation(layout) => self.left_over.extend(layout.left_over(conference)),
            Layout::Replication(layout) => self.left_over.extend(layout.left_over(conference)),
        }
    }
}

/// Refuses viewers on a port without an own address, if the desired conference has more such viewers than the current
/// one. So a command may remove some of these viewers and leave the rest to the next command.
fn check_addresses(current: &Conference, desired: &Conference) -> Result<(), PlanError> {
    let now = unserved(current);
    for (port, n_viewers) in unserved(desired) {
        if now.get(&port).is_some_and(|n_now| n_viewers <= *n_now) {
            continue;
        }
        return Err(match port {
            Some(port) => PlanError::NoAddressOnPort { port, n_viewers },
            None => PlanError::NoAddress,
        });
    }
    Ok(())
}

/// Returns the number of viewers on each port without an own address. The key `None` means that the SFU has no own
/// address at all.
fn unserved(conference: &Conference) -> BTreeMap<Option<u16>, usize> {
    let own = conference.addresses();
    let mut unserved = BTreeMap::new();
    let groups = conference.groups().values();
    for viewer in groups.flat_map(|group| &group.viewers) {
        let is_served = match viewer.port {
            Some(port) => own.contains_key(&port),
            None => !own.is_empty(),
        };
        if !is_served {
            let port = viewer.port.filter(|_| !own.is_empty());
            *unserved.entry(port).or_insert(0) += 1;
        }
    }
    unserved
}

type Counts = BTreeMap<GroupId, HashMap<ViewerKey, Count>>;

struct Changes {
    address: AddressUpdates,
    presenters: Steps,
}

impl Changes {
    /// Appends the steps that come before the groups change. After these steps no packet of a presenter that leaves its
    /// group is in the switch.
    fn begin(&mut self, plan: &mut Plan) {
        plan.write(Stage::Address, std::mem::take(&mut self.address.before));
        let steps = &mut self.presenters;
        plan.write(Stage::Journal, std::mem::take(&mut steps.records));
        plan.write(Stage::Journal, std::mem::take(&mut steps.head));
        plan.write(Stage::Unlink, std::mem::take(&mut steps.unlink));
        plan.drain();
    }

    /// Appends the steps that come after the groups have changed. After these steps no packet sees the old version.
    fn end(self, plan: &mut Plan) {
        plan.write(Stage::Link, self.presenters.link);
        plan.write(Stage::Address, self.address.after);
        plan.write(Stage::End, self.presenters.end);
        plan.write(Stage::Cleanup, self.presenters.cleanup);
        plan.drain();
        plan.write(Stage::Cleanup, self.address.cleanup);
    }
}

/// Joins the first few texts, and says how many others there are.
fn few(texts: &[String]) -> String {
    const SHOWN_MAX: usize = 3;
    let mut text = texts[..texts.len().min(SHOWN_MAX)].join("; ");
    if texts.len() > SHOWN_MAX {
        text.push_str(&format!("; and {} others", texts.len() - SHOWN_MAX));
    }
    text
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
