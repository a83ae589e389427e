//! The presenters of groups: the table of presenters or streams, and the journal of a change of
//! both a group's presenter and its viewers.
//!
//! A presenter's packets must reach the old or the new viewers of its group, never those of another
//! group. So a presenter that leaves a group whose viewers change is *off* during the change: its
//! entry stays, but requires a source MAC that no packet has, so the switch drops its packets. An
//! interrupted change must not lose the group. Hence the metadata of the table's own entries holds
//! a journal. A change takes these steps:
//!
//! 1. Every presenter that leaves its group gets a *record* in its entry: its successor, a
//!    fingerprint of the group's new viewers, and the old viewers.
//! 2. The *head*, an entry that no packet matches, is inserted. It states that all records are
//!    written. Only then are presenters switched off.
//! 3. The viewers change, and the new presenters are switched on.
//! 4. The head is deleted, then the records and the entries that hold them.
//!
//! A command that finds a head compares the records with the groups. If all groups with a record
//! have their new viewers, the command completes the change. Otherwise it undoes the change, and
//! first writes this decision into the head, so that another interruption does not reverse the
//! decision. Records without a head are ignored.

use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;

use p4runtime_client::entities;
use p4runtime_client::objects::{Count, ObjectError, Row, Table};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{Entity, TableEntry, Update};
use serde::{Deserialize, Serialize};

use super::{ip, mac_or_any};
use crate::address::Mac;
use crate::model::{Conference, Group, GroupId, Presenter, Viewer};

/// The head's address, in "this network": no packet comes from it (RFC 1122, section 3.2.1.3).
const HEAD: Key = (Ipv4Addr::new(0, 0, 0, 1), None);

/// The MAC of a presenter that is off: no frame has the broadcast address as its source.
const OFF: Mac = Mac([0xff; 6]);

/// The identity of a stream: the presenter's address, and the UDP port if the program has UDP
/// ports.
type Key = (Ipv4Addr, Option<u16>);

#[derive(Clone, Debug)]
pub(super) struct Presenters {
    table: Table,
    udp_ports: bool,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Entries {
    entries: BTreeMap<Key, Entry>,
    head: Option<Head>,
    /// Whether the current change must be undone, because [`Entries::meaning`] found it incomplete.
    taken_back: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    group: GroupId,
    /// `Some(OFF)`: the presenter is off.
    mac: Option<Mac>,
    record: Option<Record>,
    count: Count,
}

/// The group that gets a presenter's packets, and the MAC that they must have.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    group: GroupId,
    mac: Option<Mac>,
}

/// One group's part in an interrupted or running change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    group: GroupId,
    /// The MAC that the presenter's entry requires when the presenter is on.
    mac: Option<Mac>,
    /// The group's presenter after the change.
    next: (Ipv4Addr, Option<u16>, Option<Mac>),
    /// Fingerprint of the group's viewers after the change.
    viewers: u64,
    /// The group's viewers before the change; `None` if they do not change.
    before: Option<Vec<RecordedViewer>>,
}

/// IP, MAC, whether the MAC was looked up, UDP port, port of the switch. It is a tuple because the JSON of a tuple is
/// short, and a record may have thousands of viewers.
type RecordedViewer = (Ipv4Addr, Mac, bool, Option<u16>, Option<u16>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Head {
    Change,
    TakeBack,
}

/// The state that the entries and the groups' viewers show together, after the decision about an interrupted change.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub(super) presenters: BTreeMap<GroupId, (Presenter, Count)>,
    /// Viewers that a group gets back, because the change is undone.
    pub(super) viewers: BTreeMap<GroupId, Vec<Viewer>>,
    /// Description of a change to complete or undo.
    pub(super) unfinished: Option<&'static str>,
}

#[derive(Default)]
pub(super) struct Steps {
    pub(super) records: Vec<Update>,
    pub(super) head: Vec<Update>,
    pub(super) unlink: Vec<Update>,
    pub(super) link: Vec<Update>,
    pub(super) end: Vec<Update>,
    pub(super) cleanup: Vec<Update>,
    /// Groups that packets may reach until the change is complete.
    pub(super) in_use: HashSet<GroupId>,
}

/// A change between two conferences, as far as presenters are concerned.
pub(super) struct Transition<'a> {
    pub(super) current: &'a Conference,
    pub(super) desired: &'a Conference,
    /// Whether a deleted group loses its presenter first, even if the presenter moves to another
    /// group.
    pub(super) early: bool,
}

impl Entry {
    fn link(&self) -> Link {
        Link {
            group: self.group,
            mac: self.mac,
        }
    }
}

impl Presenters {
    pub(super) fn find(
        p4info: &P4Info,
        table: &str,
        key: &[&str],
    ) -> Result<Presenters, ObjectError> {
        Ok(Presenters {
            table: Table::find(p4info, table, key, ("set_group", 2))?,
            udp_ports: key.len() > 1,
        })
    }

    /// Returns the maximum number of groups. Half of the table is reserved for presenters that replace others, and one
    /// entry is reserved for the head.
    pub(super) fn groups_max(&self) -> usize {
        self.table.size.saturating_sub(1) / 2
    }

    pub(super) fn wildcard(&self) -> Entity {
        self.table.wildcard()
    }

    pub(super) fn entries(&self, entities: &[Entity], foreign: &mut Vec<String>) -> Entries {
        let mut entries = Entries::default();
        for row in entities.iter().filter_map(|e| self.table.row(e)) {
            match self.entry(&row) {
                Some(Found::Head(head)) => entries.head = Some(head),
                Some(Found::Entry(key, entry)) => {
                    entries.entries.insert(key, entry);
                }
                None => foreign.push(format!(
                    "an entry of the presenters' table with key {:?}, arguments {:?} and metadata \"{}\"",
                    row.key,
                    row.args,
                    String::from_utf8_lossy(&row.metadata)
                )),
            }
        }
        entries
    }

    fn entry(&self, row: &Row) -> Option<Found> {
        let udp_port = match row.key.get(1) {
            Some(port) => Some(u16::try_from(*port).ok()?),
            None => None,
        };
        let address = ip(row.key[0])?;
        if address == HEAD.0 {
            return serde_json::from_slice(&row.metadata).ok().map(Found::Head);
        }
        let record = match row.metadata.as_slice() {
            [] => None,
            metadata => Some(serde_json::from_slice(metadata).ok()?),
        };
        let entry = Entry {
            group: GroupId(u16::try_from(row.args[0]).ok()?),
            mac: mac_or_any(row.args[1]),
            record,
            count: row.counter,
        };
        let complete = entry.mac != Some(OFF) || entry.record.is_some();
        complete.then_some(Found::Entry((address, udp_port), entry))
    }

    /// Returns the updates that lead from the entries to the desired presenters.
    pub(super) fn steps(&self, entries: &Entries, change: &Transition<'_>) -> Steps {
        let groups = change.desired.groups().iter();
        let desired: BTreeMap<Key, Link> = groups
            .map(|(id, Group { presenter, .. })| {
                let (group, mac) = (*id, presenter.mac);
                (key_of(presenter), Link { group, mac })
            })
            .collect();
        let mut steps = Steps::default();
        // This change's records, by the key of the entry that holds them.
        let mut records: BTreeMap<Key, Record> = BTreeMap::new();
        let mut unlinked: HashSet<Key> = HashSet::new();
        for (key, entry) in &entries.entries {
            let way = self.way_of(entries, *key, entry, &desired, change);
            if !matches!(way, Way::Unlink) && entry.mac != Some(OFF) {
                steps.in_use.insert(entry.group);
            }
            match way {
                Way::Stays => {}
                Way::Unlink => {
                    unlinked.insert(*key);
                    steps.unlink.push(self.delete(*key));
                }
                Way::Late => steps.cleanup.push(self.delete(*key)),
                Way::Record { record, off } => {
                    let mut link = entry.link();
                    let entity = self.entity(*key, link, Some(&record));
                    steps.records.push(entities::modify(entity));
                    if off {
                        link.mac = Some(OFF);
                        let entity = self.entity(*key, link, Some(&record));
                        steps.unlink.push(entities::modify(entity));
                    }
                    if !desired.contains_key(key) {
                        steps.cleanup.push(self.delete(*key));
                    }
                    records.insert(*key, record);
                }
            }
        }
        self.head_steps(entries, &records, &mut steps);
        for (key, link) in &desired {
            let there = entries.entries.get(key).filter(|_| !unlinked.contains(key));
            self.link(there, *key, *link, records.get(key), &mut steps);
        }
        steps
    }

    fn head_steps(&self, entries: &Entries, records: &BTreeMap<Key, Record>, steps: &mut Steps) {
        match entries.head {
            Some(Head::Change) if entries.taken_back => {
                steps
                    .head
                    .push(entities::modify(self.head_entity(Head::TakeBack)));
            }
            None if !records.is_empty() => {
                steps
                    .head
                    .push(entities::insert(self.head_entity(Head::Change)));
            }
            _ => {}
        }
        if entries.head.is_some() || !records.is_empty() {
            steps.end.push(self.delete(HEAD));
        }
    }

    fn way_of(
        &self,
        entries: &Entries,
        key: Key,
        entry: &Entry,
        desired: &BTreeMap<Key, Link>,
        change: &Transition<'_>,
    ) -> Way {
        let to = desired.get(&key).copied();
        let current = change.current.groups().get(&entry.group);
        let in_force = current.is_some_and(|group| key_of(&group.presenter) == key);
        let after = change.desired.groups().get(&entry.group);
        match (to, after) {
            // An interrupted change left the entry. Its record is needed as long as there is a head.
            (None, _) if !in_force && entries.head.is_some() => Way::Late,
            (None, _) if !in_force => Way::Unlink,
            _ if entries.head.is_some() || !in_force => Way::Stays,
            (None, None) => Way::Unlink,
            (Some(_), None) if change.early => Way::Unlink,
            (Some(_), None) => Way::Stays,
            (to, Some(after)) => {
                let viewers_change = current.is_some_and(|group| group.viewers != after.viewers);
                let stays = to.is_some_and(|link| link.group == entry.group);
                let same_mac = to.is_some_and(|link| link.mac == entry.mac);
                if stays && (same_mac || !viewers_change) {
                    return Way::Stays;
                }
                let before = current.filter(|_| viewers_change);
                Way::Record {
                    record: record(entry, before, after),
                    off: viewers_change && !stays,
                }
            }
        }
    }

    /// Switches a presenter on, and clears the record in its entry.
    fn link(
        &self,
        there: Option<&Entry>,
        key: Key,
        link: Link,
        record: Option<&Record>,
        steps: &mut Steps,
    ) {
        let Some(there) = there else {
            let entity = self.entity(key, link, None);
            return steps.link.push(entities::insert(entity));
        };
        let record = record.or(there.record.as_ref());
        // The record of the group that the presenter left is needed until the head is deleted.
        let kept = record.filter(|record| record.group != link.group);
        let is_linked = there.link() == link;
        if !is_linked {
            let entity = self.entity(key, link, kept);
            steps.link.push(entities::modify(entity));
        }
        if kept.is_some() || is_linked && record.is_some() {
            let entity = self.entity(key, link, None);
            steps.cleanup.push(entities::modify(entity));
        }
    }

    fn entity(&self, key: Key, link: Link, record: Option<&Record>) -> Entity {
        let args = [link.group.0.into(), link.mac.map_or(0, Mac::to_u64)];
        let metadata = record.map_or(Vec::new(), to_json);
        entities::of_table(TableEntry {
            metadata,
            ..self.table.entry(&self.key(key), &args)
        })
    }

    fn head_entity(&self, head: Head) -> Entity {
        entities::of_table(TableEntry {
            metadata: to_json(&head),
            ..self.table.entry(&self.key(HEAD), &[0, OFF.to_u64()])
        })
    }

    fn delete(&self, key: Key) -> Update {
        entities::delete(entities::of_table(self.table.key(&self.key(key))))
    }

    fn key(&self, (ip, udp_port): Key) -> Vec<u64> {
        let mut key = vec![u32::from(ip).into()];
        if self.udp_ports {
            key.push(udp_port.unwrap_or(0).into());
        }
        key
    }
}

enum Found {
    Head(Head),
    Entry(Key, Entry),
}

/// What happens to an entry before the groups change.
enum Way {
    /// The entry stays. It may be rewritten when presenters are switched on.
    Stays,
    /// The entry is deleted before the groups change.
    Unlink,
    /// The entry is deleted after the head.
    Late,
    /// The entry gets a record. If `off`, the presenter is off while the groups change.
    Record { record: Record, off: bool },
}

impl Entries {
    /// Whether a change is running or was interrupted.
    pub(super) fn is_journal(&self) -> bool {
        self.head.is_some()
    }

    /// Every group that an entry or its record refers to. The viewers of these groups must be read.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.entries.values().flat_map(|entry| {
            let recorded = entry.record.as_ref().map(|record| record.group);
            [Some(entry.group), recorded].into_iter().flatten()
        })
    }

    /// Decides which presenters are in force, by the viewers that each group has in the switch.
    pub(super) fn meaning(
        &mut self,
        viewers: &BTreeMap<GroupId, Vec<Viewer>>,
        foreign: &mut Vec<String>,
    ) -> Meaning {
        let mut meaning = Meaning::default();
        if let Some(head) = self.head {
            let finish = head == Head::Change && self.has_new_viewers(viewers);
            self.taken_back = !finish;
            meaning.unfinished = Some(if finish {
                "presenters that are not switched on yet"
            } else {
                "new presenters, and viewers of groups whose presenter was to change"
            });
            self.journal(finish, &mut meaning);
        }
        let mut claimed: HashSet<Key> = meaning
            .presenters
            .values()
            .map(|(p, _)| key_of(p))
            .collect();
        // If two entries have the same group, the entry with the group's record is the older one.
        let mut rest: Vec<(&Key, &Entry)> = self.entries.iter().collect();
        rest.sort_by_key(|(_, entry)| entry.has_own_record());
        for (key, entry) in rest {
            if let Some((holds, _)) = meaning.presenters.get(&entry.group) {
                if !entry.has_own_record() && self.head.is_none() {
                    foreign.push(format!(
                        "group {} has two presenters, {} and {}",
                        entry.group, holds.ip, key.0
                    ));
                }
                continue;
            }
            if claimed.contains(key) {
                continue;
            }
            let off = entry.record.as_ref().filter(|_| entry.mac == Some(OFF));
            let mac = off.map_or(entry.mac, |record| record.mac);
            claimed.insert(*key);
            let presenter = presenter(*key, mac);
            meaning
                .presenters
                .insert(entry.group, (presenter, entry.count));
        }
        let stale = self.entries.iter().any(|(key, entry)| {
            let holds = meaning.presenters.get(&entry.group);
            entry.record.is_some() || holds.is_none_or(|(p, _)| key_of(p) != *key)
        });
        if stale && meaning.unfinished.is_none() {
            meaning.unfinished = Some("entries of presenters that were replaced");
        }
        meaning
    }

    fn journal(&self, finish: bool, meaning: &mut Meaning) {
        for (key, entry) in &self.entries {
            let Some(record) = &entry.record else {
                continue;
            };
            let (ip, udp_port, mac) = record.next;
            let holds = if finish {
                presenter((ip, udp_port), mac)
            } else {
                presenter(*key, record.mac)
            };
            let count = self.entries.get(&key_of(&holds)).map(|entry| entry.count);
            meaning
                .presenters
                .insert(record.group, (holds, count.unwrap_or_default()));
            if let Some(before) = record.before.as_ref().filter(|_| !finish) {
                let viewer = |(ip, mac, looked_up, udp_port, port): &RecordedViewer| Viewer {
                    ip: *ip,
                    mac: *mac,
                    looked_up: *looked_up,
                    udp_port: *udp_port,
                    port: *port,
                };
                let before = before.iter().map(viewer).collect();
                meaning.viewers.insert(record.group, before);
            }
        }
    }

    fn has_new_viewers(&self, viewers: &BTreeMap<GroupId, Vec<Viewer>>) -> bool {
        let mut records = self.entries.values().filter_map(|e| e.record.as_ref());
        records.all(|record| {
            let now = viewers.get(&record.group).map_or(&[][..], Vec::as_slice);
            fingerprint(now) == record.viewers
        })
    }
}

impl Entry {
    /// Whether the entry holds the record of its own group, not of a group that the presenter left.
    fn has_own_record(&self) -> bool {
        let record = self.record.as_ref();
        record.is_some_and(|record| record.group == self.group)
    }
}

fn record(entry: &Entry, before: Option<&Group>, after: &Group) -> Record {
    let next = &after.presenter;
    Record {
        group: entry.group,
        mac: entry.mac,
        next: (next.ip, next.udp_port, next.mac),
        viewers: fingerprint(&after.viewers),
        before: before.map(|group| {
            let viewers = group.viewers.iter();
            let recorded = viewers.map(|v| (v.ip, v.mac, v.looked_up, v.udp_port, v.port));
            recorded.collect()
        }),
    }
}

fn presenter((ip, udp_port): Key, mac: Option<Mac>) -> Presenter {
    Presenter { ip, mac, udp_port }
}

fn key_of(presenter: &Presenter) -> Key {
    (presenter.ip, presenter.udp_port)
}

/// The fingerprint of a group's viewers: FNV-1a with 64 bits. Another version of the controller may
/// compare the value, so the algorithm must not change.
fn fingerprint(viewers: &[Viewer]) -> u64 {
    let bytes = viewers.iter().flat_map(|viewer| {
        let [udp_port, port] =
            [viewer.udp_port, viewer.port].map(|it| it.unwrap_or(0).to_be_bytes());
        viewer
            .ip
            .octets()
            .into_iter()
            .chain(viewer.mac.0)
            .chain(udp_port)
            .chain(port)
            .chain([u8::from(viewer.looked_up)])
    });
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    // This cannot fail: maps with string keys and numbers always have a JSON form.
    serde_json::to_vec(value).unwrap_or_default()
}
