//! `sfu.p4`: a group is a multicast group, a viewer one replica of it, and the replica's instance
//! (rid) the key of the viewer's entry.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{CounterData, MulticastGroupEntry, TableEntry, Update};

use super::{AddressUpdates, ReadError, foreign, ip, mac_or_any, multicast_entry, read};
use crate::address::Mac;
use crate::entities::{self, Count, ProgramError, Row, Table};
use crate::limits::GROUP_VIEWERS_MAX;
use crate::model::{Capabilities, Conference, Group, GroupId, Presenter, Viewer, ViewerKey};
use crate::plan::{Plan, Stage, Target};

/// What the program is made of.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    streams: Table,
    viewers: Table,
}

/// Where everything is.
#[derive(Clone, Default, Debug)]
pub(super) struct Layout {
    groups: BTreeMap<GroupId, Copies>,
    /// Entries of `viewers` that no replica uses.
    stale: Vec<(u16, u16)>,
    /// Multicast groups that no stream uses.
    orphans: Vec<u16>,
}

/// The replicas of a group, one a viewer, in order.
#[derive(Clone, Default, Debug)]
struct Copies {
    /// Is there a multicast group? A stream can wait for it after an interrupted change.
    exists: bool,
    /// The one port of all replicas; `None` where they have several, or there are none.
    port: Option<u16>,
    rids: Vec<u16>,
    counts: Vec<Count>,
}

type Entries = HashMap<(u16, u16), (Viewer, Count)>;

impl Objects {
    pub(super) fn find(p4info: &P4Info) -> Result<Objects, ProgramError> {
        Ok(Objects {
            streams: Table::find(
                p4info,
                "streams",
                &["src_addr", "udp_dst_port"],
                ("set_group", 2),
            )?,
            viewers: Table::find(p4info, "viewers", &["group", "rid"], ("send_to", 3))?,
        })
    }

    /// Half of the viewers' table is for new entries while the old ones are in use.
    pub(super) fn capabilities(&self) -> Capabilities {
        let viewers_max = self.viewers.size / 2;
        Capabilities {
            udp_ports: true,
            group_ids: 1..=u16::MAX,
            groups_max: self.streams.size.min(usize::from(u16::MAX)),
            group_viewers_max: GROUP_VIEWERS_MAX.min(viewers_max),
            viewers_max,
        }
    }

    pub(super) async fn read<T: Target>(
        &self,
        target: &mut T,
        conference: &mut Conference,
        received: &mut BTreeMap<GroupId, Count>,
        layout: &mut Layout,
    ) -> Result<(), ReadError<T::Error>> {
        let wanted = vec![
            self.streams.wildcard(),
            self.viewers.wildcard(),
            entities::any_multicast_group(),
        ];
        let entities = read(target, wanted).await?;
        for row in entities
            .iter()
            .filter_map(|entity| self.streams.row(entity))
        {
            let (group, presenter) = stream_of(&row).map_err(ReadError::Foreign)?;
            conference.add_group(group, presenter).map_err(foreign)?;
            received.insert(group, row.counter);
            layout.groups.insert(group, Copies::default());
        }
        let mut entries = Entries::new();
        for row in entities
            .iter()
            .filter_map(|entity| self.viewers.row(entity))
        {
            let (key, viewer) = viewer_of(&row).map_err(ReadError::Foreign)?;
            entries.insert(key, (viewer, row.counter));
        }
        for group in entities.iter().filter_map(multicast_entry) {
            let id = GroupId(u16::try_from(group.multicast_group_id).unwrap_or(0));
            match layout.groups.get_mut(&id) {
                Some(copies) => {
                    *copies = copies_of(conference, id, group, &mut entries)?;
                }
                None => layout.orphans.push(id.0),
            }
        }
        layout.stale = entries.into_keys().collect();
        layout.stale.sort_unstable();
        Ok(())
    }

    pub(super) fn plan(
        &self,
        current: &Conference,
        layout: &Layout,
        desired: &Conference,
        address: AddressUpdates,
    ) -> Plan {
        let mut plan = Plan::default();
        plan.write(Stage::Address, address.before);
        plan.write(Stage::Unlink, self.unlinks(current, desired));
        plan.drain();
        plan.write(Stage::Cleanup, self.leftovers(layout, desired));
        let mut change = Change::default();
        let port = desired.address().map_or(0, |address| address.port);
        for (id, group) in desired.groups() {
            let before = layout.groups.get(id);
            self.change_group(
                &mut change,
                *id,
                current.groups().get(id).zip(before),
                group,
                port,
            );
        }
        plan.write(Stage::Prepare, change.inserts);
        plan.write(Stage::Flip, change.flips);
        plan.write(Stage::Link, self.links(current, desired));
        plan.write(Stage::Address, address.after);
        plan.drain();
        plan.write(Stage::Cleanup, change.deletes);
        plan
    }

    /// Everything that no packet can see after the first drain: remains of an interrupted change,
    /// and groups whose stream was just taken off for good.
    fn leftovers(&self, layout: &Layout, desired: &Conference) -> Vec<Update> {
        let gone = || {
            layout
                .groups
                .iter()
                .filter(|(id, _)| !desired.groups().contains_key(id))
        };
        let gone_groups = gone()
            .filter(|(_, copies)| copies.exists)
            .map(|(id, _)| id.0);
        let groups = layout.orphans.iter().copied().chain(gone_groups);
        let group = |id| entities::delete(entities::multicast_group(id, 0, []));
        let gone_entries = gone().flat_map(|(id, c)| c.rids.iter().map(|rid| (id.0, *rid)));
        let entries = layout.stale.iter().copied().chain(gone_entries);
        groups
            .map(group)
            .chain(entries.map(|key| self.delete_entry(key)))
            .collect()
    }

    fn change_group(
        &self,
        change: &mut Change,
        id: GroupId,
        before: Option<(&Group, &Copies)>,
        group: &Group,
        port: u16,
    ) {
        let none = Copies::default();
        let (old_viewers, copies) = before.map_or((&[][..], &none), |(group, copies)| {
            (group.viewers.as_slice(), copies)
        });
        let has_port = copies.port == Some(port) || copies.rids.is_empty();
        if copies.exists && old_viewers == group.viewers && has_port {
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
                Some(idx) if old_viewers[idx] == *viewer => rids.push(copies.rids[idx]),
                _ => {
                    // At most 4,096 viewers, twice: 65,535 instances are always enough.
                    let rid = free.next().unwrap_or(0);
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
        let entry = entities::multicast_group(id.0, port, rids);
        change.flips.push(if copies.exists {
            entities::modify(entry)
        } else {
            entities::insert(entry)
        });
    }

    /// A viewer whose MAC changes gets a new entry, which goes on counting where the old one was
    /// when it was read.
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
        entities::insert(entities::of_table(TableEntry {
            counter_data,
            ..entry
        }))
    }

    fn delete_entry(&self, (group, rid): (u16, u16)) -> Update {
        entities::delete(entities::of_table(
            self.viewers.key(&[group.into(), rid.into()]),
        ))
    }

    fn unlinks(&self, current: &Conference, desired: &Conference) -> Vec<Update> {
        let stays = |id: &GroupId, presenter: &Presenter| {
            let after = desired.groups().get(id).map(|group| group.presenter);
            after.is_some_and(|after| stream_key(&after) == stream_key(presenter))
        };
        let leaving = current
            .groups()
            .iter()
            .filter(|(id, group)| !stays(id, &group.presenter));
        let key = |presenter| entities::of_table(self.streams.key(&stream_key(presenter)));
        leaving
            .map(|(_, group)| entities::delete(key(&group.presenter)))
            .collect()
    }

    fn links(&self, current: &Conference, desired: &Conference) -> Vec<Update> {
        let entry = |id: &GroupId, presenter: &Presenter| {
            let args = [id.0.into(), presenter.mac.map_or(0, Mac::to_u64)];
            entities::of_table(self.streams.entry(&stream_key(presenter), &args))
        };
        let links = desired.groups().iter().filter_map(|(id, group)| {
            let presenter = &group.presenter;
            match current.groups().get(id).map(|before| before.presenter) {
                Some(before) if before == *presenter => None,
                Some(before) if stream_key(&before) == stream_key(presenter) => {
                    Some(entities::modify(entry(id, presenter)))
                }
                _ => Some(entities::insert(entry(id, presenter))),
            }
        });
        links.collect()
    }
}

impl Layout {
    pub(super) fn counts(&self) -> BTreeMap<GroupId, Vec<Count>> {
        self.groups
            .iter()
            .map(|(id, copies)| (*id, copies.counts.clone()))
            .collect()
    }
}

/// Writes of all groups, by stage.
#[derive(Default)]
struct Change {
    inserts: Vec<Update>,
    flips: Vec<Update>,
    deletes: Vec<Update>,
}

fn stream_key(presenter: &Presenter) -> [u64; 2] {
    [
        u32::from(presenter.ip).into(),
        presenter.udp_port.unwrap_or(0).into(),
    ]
}

fn stream_of(row: &Row) -> Result<(GroupId, Presenter), String> {
    let bad = || format!("stream {row:?}");
    let group = u16::try_from(row.args[0]).map_err(|_| bad())?;
    let presenter = Presenter {
        ip: ip(row.key[0]).ok_or_else(bad)?,
        mac: mac_or_any(row.args[1]),
        udp_port: Some(u16::try_from(row.key[1]).map_err(|_| bad())?),
    };
    Ok((GroupId(group), presenter))
}

fn viewer_of(row: &Row) -> Result<((u16, u16), Viewer), String> {
    let bad = || format!("viewer {row:?}");
    let narrow = |value: u64| u16::try_from(value).map_err(|_| bad());
    let viewer = Viewer {
        mac: Mac::from_u64(row.args[0]),
        ip: ip(row.args[1]).ok_or_else(bad)?,
        udp_port: Some(narrow(row.args[2])?),
    };
    Ok(((narrow(row.key[0])?, narrow(row.key[1])?), viewer))
}

/// Finds the viewer of every replica, adds it to the group, and takes its entry out of `entries`.
fn copies_of<E: std::error::Error>(
    conference: &mut Conference,
    id: GroupId,
    group: &MulticastGroupEntry,
    entries: &mut Entries,
) -> Result<Copies, ReadError<E>> {
    let mut copies = Copies {
        exists: true,
        ..Copies::default()
    };
    let ports: BTreeSet<Option<u16>> = group.replicas.iter().map(entities::replica_port).collect();
    if let [Some(port)] = ports.into_iter().collect::<Vec<_>>()[..] {
        copies.port = Some(port);
    }
    for replica in &group.replicas {
        let rid = u16::try_from(replica.instance).unwrap_or(0);
        let Some((viewer, count)) = entries.remove(&(id.0, rid)) else {
            let text = format!("group {id}: no entry of its own in \"viewers\" for replica {rid}");
            return Err(ReadError::Foreign(text));
        };
        conference.add_viewer(id, viewer).map_err(foreign)?;
        copies.rids.push(rid);
        copies.counts.push(count);
    }
    Ok(copies)
}
