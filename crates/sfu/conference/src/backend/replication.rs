//! `sfu.p4`: a group is a multicast group, and a viewer is one of the group's replicas. The key of a viewer's entry
//! consists of the group and the replica's instance (rid).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use p4runtime_client::entities;
use p4runtime_client::objects::{Count, ObjectError, Row, Table};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{CounterData, Entity, MulticastGroupEntry, TableEntry, Update};

use super::{Changes, Counts, ip, multicast_entry};
use crate::address::Mac;
use crate::limits::GROUP_VIEWERS_MAX;
use crate::model::{Capabilities, Conference, Group, GroupId, Viewer, ViewerKey};
use crate::plan::{Plan, Stage};

#[derive(Clone, Debug)]
pub(super) struct Objects {
    viewers: Table,
}

/// Where the switch stores each group.
#[derive(Clone, Default, Debug)]
pub(super) struct Layout {
    groups: BTreeMap<GroupId, Copies>,
    /// Keys of `viewers` entries that no replica uses.
    stale: Vec<(u16, u16)>,
    /// Multicast groups that no stream uses.
    orphans: Vec<u16>,
}

/// The replicas of a group, one per viewer, in the group's order.
#[derive(Clone, Default, Debug)]
struct Copies {
    /// Whether the multicast group exists. After an interrupted change a stream may lack its group.
    exists: bool,
    viewers: Vec<Viewer>,
    rids: Vec<u16>,
    counts: Vec<Count>,
}

/// Metadata of a viewer's entry whose MAC was looked up.
const LOOKED_UP: &[u8] = b"looked up";

type Entries = HashMap<(u16, u16), (Viewer, Count)>;

impl Objects {
    pub(super) fn find(p4info: &P4Info) -> Result<Objects, ObjectError> {
        Ok(Objects {
            viewers: Table::find(p4info, "viewers", &["group", "rid"], ("send_to", 3))?,
        })
    }

    /// The limits of the program. Half of the viewers' table is reserved for new entries while the
    /// old ones are in use.
    pub(super) fn capabilities(&self, groups_max: usize) -> Capabilities {
        let viewers_max = self.viewers.size / 2;
        Capabilities {
            udp_ports: true,
            several_ports: true,
            group_ids: 1..=u16::MAX,
            groups_max: groups_max.min(usize::from(u16::MAX)),
            group_viewers_max: GROUP_VIEWERS_MAX.min(viewers_max),
            viewers_max,
        }
    }

    /// Returns the wildcards that read what [`Objects::read`] parses.
    pub(super) fn wildcards(&self) -> Vec<Entity> {
        vec![self.viewers.wildcard(), entities::any_multicast_group()]
    }

    pub(super) fn read(
        &self,
        entities: &[Entity],
        groups: &BTreeSet<GroupId>,
        foreign: &mut Vec<String>,
    ) -> Layout {
        let mut layout = Layout {
            groups: groups.iter().map(|id| (*id, Copies::default())).collect(),
            ..Layout::default()
        };
        let mut entries = Entries::new();
        for row in entities
            .iter()
            .filter_map(|entity| self.viewers.row(entity))
        {
            match viewer_of(&row) {
                Some((key, viewer)) => {
                    entries.insert(key, (viewer, row.counter));
                }
                None => foreign.push(format!(
                    "an entry of \"viewers\" with key {:?} and arguments {:?}",
                    row.key, row.args
                )),
            }
        }
        for group in entities.iter().filter_map(multicast_entry) {
            let Ok(id) = u16::try_from(group.multicast_group_id).map(GroupId) else {
                foreign.push(format!("multicast group {}", group.multicast_group_id));
                continue;
            };
            match layout.groups.get_mut(&id) {
                Some(copies) => *copies = copies_of(id, group, &mut entries, foreign),
                None => layout.orphans.push(id.0),
            }
        }
        layout.stale = entries.into_keys().collect();
        layout.stale.sort_unstable();
        layout
    }

    pub(super) fn plan(&self, layout: &Layout, desired: &Conference, mut changes: Changes) -> Plan {
        let mut plan = Plan::default();
        changes.begin(&mut plan);
        let in_use = |id: &GroupId| changes.presenters.in_use.contains(id);
        let gone = || {
            let groups = layout.groups.iter();
            groups.filter(|(id, _)| !desired.groups().contains_key(id))
        };
        let (late, early): (Vec<_>, Vec<_>) = gone().partition(|(id, _)| in_use(id));
        plan.write(Stage::Cleanup, self.leftovers(layout, &early));
        let mut change = Change::default();
        for (id, group) in desired.groups() {
            self.change_group(&mut change, *id, layout.groups.get(id), group);
        }
        plan.write(Stage::Prepare, change.inserts);
        plan.write(Stage::Flip, change.flips);
        changes.end(&mut plan);
        change.deletes.extend(self.gone(&late));
        plan.write(Stage::Cleanup, change.deletes);
        plan
    }

    /// Returns the updates that delete everything that no packet can see after the first drain: what an interrupted
    /// change left, and groups whose stream was just removed.
    fn leftovers(&self, layout: &Layout, gone: &[(&GroupId, &Copies)]) -> Vec<Update> {
        let orphans = layout.orphans.iter().map(|id| delete_group(*id));
        let stale = layout.stale.iter().map(|key| self.delete_entry(*key));
        orphans.chain(stale).chain(self.gone(gone)).collect()
    }

    fn gone(&self, groups: &[(&GroupId, &Copies)]) -> Vec<Update> {
        let there = groups.iter().filter(|(_, copies)| copies.exists);
        let entries = groups
            .iter()
            .flat_map(|(id, copies)| copies.rids.iter().map(|rid| (id.0, *rid)));
        there
            .map(|(id, _)| delete_group(id.0))
            .chain(entries.map(|key| self.delete_entry(key)))
            .collect()
    }

    fn change_group(
        &self,
        change: &mut Change,
        id: GroupId,
        before: Option<&Copies>,
        group: &Group,
    ) {
        let none = Copies::default();
        let copies = before.unwrap_or(&none);
        let old_viewers = &copies.viewers;
        if copies.exists && *old_viewers == group.viewers {
            return;
        }
        let old: HashMap<ViewerKey, usize> = old_viewers
            .iter()
            .enumerate()
            .map(|(idx, viewer)| (viewer.key(), idx))
            .collect();
        let taken: HashSet<u16> = copies.rids.iter().copied().collect();
        let mut free = (1..=u16::MAX).filter(|rid| !taken.contains(rid));
        let mut rids = Vec::with_capacity(group.viewers.len());
        for viewer in &group.viewers {
            let known = old.get(&viewer.key()).copied();
            match known {
                Some(idx) if is_one_entry(&old_viewers[idx], viewer) => {
                    rids.push(copies.rids[idx]);
                }
                _ => {
                    // The old and new viewers are at most 4,096 each, so 65,535 instances suffice.
                    let rid = free.next().expect("as many as that are free");
                    let count = known.map(|idx| copies.counts[idx]);
                    change
                        .inserts
                        .push(self.insert_entry((id.0, rid), viewer, count));
                    rids.push(rid);
                }
            }
        }
        let listed: BTreeSet<u16> = rids.iter().copied().collect();
        let unlisted = copies.rids.iter().filter(|rid| !listed.contains(rid));
        change
            .deletes
            .extend(unlisted.map(|rid| self.delete_entry((id.0, *rid))));
        // `plan` has refused viewers without a port.
        let ports = group.viewers.iter().map(|viewer| viewer.port.unwrap_or(0));
        let entry = entities::multicast_group(id.0, ports.zip(rids));
        change.flips.push(if copies.exists {
            entities::modify(entry)
        } else {
            entities::insert(entry)
        });
    }

    /// Returns the update that inserts a viewer's entry. If the viewer had an entry before, the new entry starts with
    /// the count that was last read from the old entry.
    fn insert_entry(
        &self,
        (group, rid): (u16, u16),
        viewer: &Viewer,
        count: Option<Count>,
    ) -> Update {
        let args = [
            viewer.mac.to_u64(),
            u32::from(viewer.ip).into(),
            viewer.udp_port.unwrap_or(0).into(),
        ];
        let counter_data = count
            .filter(|count| *count != Count::default())
            .map(|count| CounterData {
                byte_count: i64::try_from(count.bytes).unwrap_or(i64::MAX),
                packet_count: i64::try_from(count.packets).unwrap_or(i64::MAX),
            });
        let entry = self.viewers.entry(&[group.into(), rid.into()], &args);
        let metadata = if viewer.looked_up { LOOKED_UP } else { &[] };
        entities::insert(entities::of_table(TableEntry {
            counter_data,
            metadata: metadata.to_vec(),
            ..entry
        }))
    }

    fn delete_entry(&self, (group, rid): (u16, u16)) -> Update {
        entities::delete(entities::of_table(
            self.viewers.key(&[group.into(), rid.into()]),
        ))
    }
}

impl Layout {
    /// Returns the viewers of each group, in the order of the copies.
    pub(super) fn viewers(&self) -> BTreeMap<GroupId, Vec<Viewer>> {
        let groups = self.groups.iter();
        groups
            .map(|(id, copies)| (*id, copies.viewers.clone()))
            .collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let of_group = |copies: &Copies| {
            let viewers = copies.viewers.iter().map(Viewer::key);
            viewers.zip(copies.counts.iter().copied()).collect()
        };
        let groups = self.groups.iter();
        groups.map(|(id, copies)| (*id, of_group(copies))).collect()
    }

    /// Describes what an interrupted change left and the next change deletes.
    pub(super) fn left_over(&self, conference: &Conference) -> Vec<String> {
        let mut texts = Vec::new();
        if !self.stale.is_empty() {
            texts.push(format!(
                "{} entries of \"viewers\" that no group lists",
                self.stale.len()
            ));
        }
        let unused = self
            .groups
            .iter()
            .filter(|(id, copies)| copies.exists && !conference.groups().contains_key(id));
        let n_unused = self.orphans.len() + unused.count();
        if n_unused > 0 {
            texts.push(format!("{n_unused} multicast groups without a presenter"));
        }
        texts
    }
}

#[derive(Default)]
struct Change {
    inserts: Vec<Update>,
    flips: Vec<Update>,
    deletes: Vec<Update>,
}

fn delete_group(id: u16) -> Update {
    entities::delete(entities::multicast_group(id, []))
}

/// Whether both viewers have the same entry of `viewers`. Their ports may differ: the port is stored in the multicast
/// group, not in the entry.
fn is_one_entry(one: &Viewer, other: &Viewer) -> bool {
    let port = other.port;
    Viewer { port, ..*one } == *other
}

fn viewer_of(row: &Row) -> Option<((u16, u16), Viewer)> {
    let narrow = |value: u64| u16::try_from(value).ok();
    let viewer = Viewer {
        mac: Mac::from_u64(row.args[0]),
        ip: ip(row.args[1])?,
        udp_port: Some(narrow(row.args[2])?),
        looked_up: match row.metadata.as_slice() {
            [] => false,
            LOOKED_UP => true,
            _ => return None,
        },
        // `copies_of` sets the port to the replica's port.
        port: None,
    };
    Some(((narrow(row.key[0])?, narrow(row.key[1])?), viewer))
}

/// Finds the viewer of every replica, and removes the viewer's entry from `entries`.
fn copies_of(
    id: GroupId,
    group: &MulticastGroupEntry,
    entries: &mut Entries,
    foreign: &mut Vec<String>,
) -> Copies {
    let mut copies = Copies {
        exists: true,
        ..Copies::default()
    };
    for replica in &group.replicas {
        let rid = u16::try_from(replica.instance).ok();
        let entry = rid.and_then(|rid| Some((rid, entries.remove(&(id.0, rid))?)));
        let Some((rid, (viewer, count))) = entry else {
            foreign.push(format!(
                "group {id}: no entry of its own in \"viewers\" for replica {}",
                replica.instance
            ));
            continue;
        };
        copies.viewers.push(Viewer {
            port: entities::replica_port(replica),
            ..viewer
        });
        copies.rids.push(rid);
        copies.counts.push(count);
    }
    copies
}
