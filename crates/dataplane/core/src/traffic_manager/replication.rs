//! The packet replication engine's objects: multicast groups and clone sessions. See section 9.5 of the P4Runtime
//! specification 1.4.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::packet::Place;
use crate::{
    CloneSession, ControlErrorKind, Controlled, Mirror, MulticastGroup, PortId, Replica, invalid,
    limits, missing, model::PortSet, refuse,
};

#[derive(Debug)]
pub(crate) struct Copies {
    pub replicas: Box<[Replica]>,
    /// Each port, and how many replicas go there.
    pub ports: Box<[(PortId, usize)]>,
    /// Each replica's destination. `enq_depth` is the number of earlier replicas to the same port, which is the depth
    /// that the replica finds in its queue if the queue was empty before.
    pub places: Box<[Place]>,
}

impl Copies {
    pub(super) fn new(replicas: Vec<Replica>) -> Self {
        let mut ports = BTreeMap::new();
        let places = replicas.iter().map(|replica| {
            let n_copies: &mut usize = ports.entry(replica.port).or_default();
            *n_copies += 1;
            Place {
                port: replica.port,
                instance: Some(replica.instance),
                enq_depth: *n_copies - 1,
            }
        });
        Self {
            places: places.collect(),
            replicas: replicas.into(),
            ports: ports.into_iter().collect(),
        }
    }
}

/// Refuses too many replicas, duplicates, and invalid ports.
fn check_replicas(what: &str, replicas: &[Replica]) -> Controlled {
    let (max, found) = (limits::REPLICAS_PER_GROUP_MAX, replicas.len());
    if found > max {
        let message = format!("{what}: expected at most {max} replicas and backups, found {found}");
        return refuse(ControlErrorKind::ResourceExhausted, message);
    }
    let mut seen = HashSet::new();
    for replica in replicas {
        let Replica { port, instance } = *replica;
        if port.0 > limits::PORT_ID_MAX {
            let max = limits::PORT_ID_MAX;
            return invalid(format!("{what}: port {port}, expected 0 to {max}"));
        }
        if !seen.insert(*replica) {
            return invalid(format!(
                "{what}: port {port} and instance {instance} are given twice: \
                 another copy to the port needs another instance"
            ));
        }
    }
    Ok(())
}

/// Refuses backups without a replica or on their replica's port, and checks all replicas and backups together by
/// [`check_replicas`].
fn check_backups(what: &str, replicas: &[Replica], backups: &[Vec<Replica>]) -> Controlled {
    if backups.len() > replicas.len() {
        return invalid(format!(
            "{what}: found lists of backups for more replicas than it has"
        ));
    }
    let mut pairs = replicas.iter().zip(backups);
    let is_own = |(replica, backups): &(&Replica, &Vec<Replica>)| {
        backups.iter().any(|backup| backup.port == replica.port)
    };
    if let Some((replica, _)) = pairs.find(is_own) {
        return invalid(format!("{what}: port {} is its own backup", replica.port));
    }
    let all = replicas.iter().chain(backups.iter().flatten());
    check_replicas(what, &all.copied().collect::<Vec<_>>())
}

/// A clone session or a multicast group. A group is stored as a session without truncation and queue.
#[derive(Debug, Clone)]
pub(crate) struct ReplicationEntry {
    pub copies: Arc<Copies>,
    pub truncate_bytes: Option<u32>,
    /// 0 means the queue of the copies' priority.
    pub queue: u32,
    /// Set if replicas have backups. A backup replaces its replica while the replica's port is down.
    pub with_backups: Option<Arc<WithBackups>>,
    /// A multicast group to which clones also go, with its replicas at the time of the clone.
    pub group: Option<u32>,
}

impl ReplicationEntry {
    /// The copies that a clone to this session makes now.
    pub(crate) fn copies(&self, groups: &ReplicationEntries) -> Arc<Copies> {
        let group = self.group.and_then(|group| groups.get(group));
        match group {
            None => Arc::clone(&self.copies),
            Some(group) if self.copies.replicas.is_empty() => Arc::clone(&group.copies),
            Some(group) => {
                let all = [&self.copies.replicas[..], &group.copies.replicas].concat();
                Arc::new(Copies::new(all))
            }
        }
    }
}

/// Replicas as the control plane wrote them, and their backups.
#[derive(Debug)]
pub(crate) struct WithBackups {
    replicas: Vec<Replica>,
    /// The backups of each replica, by the replica's index.
    backups: Vec<Vec<Replica>>,
}

impl WithBackups {
    /// Returns the effective replicas while these ports are down. If the port of a replica and the ports of all its
    /// backups are down, the replica itself is used.
    fn standing(&self, down: &PortSet) -> Vec<Replica> {
        let backups = self.backups.iter().map(Vec::as_slice);
        let backups = backups.chain(std::iter::repeat(&[][..]));
        let standing = self.replicas.iter().zip(backups).map(|(first, backups)| {
            let mut all = [first].into_iter().chain(backups);
            let up = all.find(|replica| !down.contains(replica.port));
            *up.unwrap_or(first)
        });
        standing.collect()
    }
}

/// A group or session as the control plane writes it.
pub(crate) struct Written {
    session: CloneSession,
    backups: Vec<Vec<Replica>>,
}

impl Written {
    pub(crate) fn into_group(self) -> MulticastGroup {
        MulticastGroup {
            id: self.session.id,
            replicas: self.session.replicas,
            backups: self.backups,
        }
    }

    pub(crate) fn into_session(self) -> CloneSession {
        self.session
    }

    pub(crate) fn n_replicas(&self) -> usize {
        let backups = self.backups.iter().map(Vec::len);
        self.session.replicas.len() + backups.sum::<usize>()
    }
}

impl From<CloneSession> for Written {
    fn from(session: CloneSession) -> Self {
        Self {
            session,
            backups: Vec::new(),
        }
    }
}

impl From<MulticastGroup> for Written {
    fn from(group: MulticastGroup) -> Self {
        Self {
            session: CloneSession {
                id: group.id,
                replicas: group.replicas,
                truncate_bytes: None,
                class_of_service: 0,
            },
            backups: group.backups,
        }
    }
}

/// Every multicast group, or every clone session. Ids are small, so the vector is indexed by id.
#[derive(Debug)]
pub(crate) struct ReplicationEntries {
    kind: &'static str,
    id_max: u32,
    /// Indexed by id, up to the highest id ever used.
    places: Vec<Option<ReplicationEntry>>,
    down: PortSet,
    /// Number of clone sessions whose clones also go to a multicast group.
    n_to_groups: usize,
}

impl ReplicationEntries {
    pub(crate) fn new(kind: &'static str, id_max: u32) -> Self {
        Self {
            kind,
            id_max,
            places: Vec::new(),
            down: PortSet::default(),
            n_to_groups: 0,
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&ReplicationEntry> {
        self.places.get(id as usize)?.as_ref()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        let all = (0..).zip(&self.places);
        all.filter_map(|(id, entry)| entry.as_ref().map(|_| id))
    }

    /// The stored entries, by id, from id `first` on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = Written> {
        // The counter is the second operand of `zip`: when no entries are left, `zip` does not advance the counter, so
        // it cannot overflow.
        let all = self.places.iter().skip(first as usize).zip(first..);
        all.filter_map(|(entry, id)| {
            let entry = entry.as_ref()?;
            let (replicas, backups) = match &entry.with_backups {
                Some(written) => (written.replicas.clone(), written.backups.clone()),
                None => (entry.copies.replicas.to_vec(), Vec::new()),
            };
            let session = CloneSession {
                id,
                replicas,
                truncate_bytes: entry.truncate_bytes,
                class_of_service: entry.queue,
            };
            Some(Written { session, backups })
        })
    }

    /// Clone sessions by id; a session that clones to a multicast group includes the group's replicas.
    pub(crate) fn with_groups(&self, groups: &Self, first: u32) -> impl Iterator<Item = Written> {
        self.from(first).map(move |mut written| {
            let session = &mut written.session;
            let entry = self.get(session.id);
            if let Some(entry) = entry.filter(|entry| entry.group.is_some()) {
                session.replicas = entry.copies(groups).replicas.to_vec();
            }
            written
        })
    }

    /// Ids of the sessions that clone to this multicast group.
    pub(crate) fn to_group(&self, group: u32) -> impl Iterator<Item = u32> {
        let n_looked_at = match self.n_to_groups {
            0 => 0,
            _ => self.places.len(),
        };
        let places = (0..).zip(self.places.iter().take(n_looked_at));
        places.filter_map(move |(id, entry)| (entry.as_ref()?.group == Some(group)).then_some(id))
    }

    /// Checks what the control plane wrote; returns its id and stored form.
    fn checked(&self, written: Written) -> Controlled<(u32, ReplicationEntry)> {
        let Written {
            session: entry,
            backups,
        } = written;
        let what = format!("{} {}", self.kind, entry.id);
        if entry.id == 0 || entry.id > self.id_max {
            return invalid(format!("{what}: expected an id of 1 to {}", self.id_max));
        }
        if entry.truncate_bytes == Some(0) {
            let found = "expected a length of at least 1 byte, or none for whole clones";
            return invalid(format!("{what}: {found}"));
        }
        let (queue, max) = (entry.class_of_service, limits::EGRESS_QUEUES_PER_PORT - 1);
        if queue as usize > max {
            return invalid(format!(
                "{what}: class of service {queue}, expected 0 to {max}"
            ));
        }
        check_backups(&what, &entry.replicas, &backups)?;
        let with_backups = backups.iter().any(|backups| !backups.is_empty());
        let with_backups = with_backups.then(|| {
            let replicas = entry.replicas.clone();
            Arc::new(WithBackups { replicas, backups })
        });
        let standing = with_backups.as_ref();
        let standing = standing.map(|written| written.standing(&self.down));
        let kept = ReplicationEntry {
            copies: Arc::new(Copies::new(standing.unwrap_or(entry.replicas))),
            truncate_bytes: entry.truncate_bytes,
            queue,
            with_backups,
            group: None,
        };
        Ok((entry.id, kept))
    }

    pub(crate) fn insert(&mut self, entry: impl Into<Written>) -> Controlled {
        let (id, checked) = self.checked(entry.into())?;
        if self.get(id).is_some() {
            let message = format!("{} {id} is there already", self.kind);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        self.set(id, Some(checked));
        Ok(())
    }

    /// Adds or replaces a clone session that goes to a port, to a group, or to both. 0 is a valid id here, as in BMv2.
    pub(crate) fn mirror(&mut self, id: u32, mirror: Mirror) -> Controlled {
        let what = format!("{} {id}", self.kind);
        let most = [
            (id, self.id_max),
            (mirror.group.unwrap_or(0), limits::MULTICAST_GROUP_ID_MAX),
        ];
        for (found, max) in most {
            if found > max {
                return invalid(format!(
                    "{what}: expected an id of 0 to {max}, found {found}"
                ));
            }
        }
        let replica = |port| Replica { port, instance: 0 };
        let replicas = Vec::from_iter(mirror.port.map(replica));
        check_replicas(&what, &replicas)?;
        let entry = ReplicationEntry {
            copies: Arc::new(Copies::new(replicas)),
            truncate_bytes: None,
            queue: 0,
            with_backups: None,
            group: mirror.group,
        };
        self.set(id, Some(entry));
        Ok(())
    }

    fn set(&mut self, id: u32, entry: Option<ReplicationEntry>) {
        let place = id as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, None);
        }
        let is_to_group = |entry: &Option<ReplicationEntry>| {
            usize::from(entry.as_ref().is_some_and(|entry| entry.group.is_some()))
        };
        self.n_to_groups += is_to_group(&entry);
        let before = std::mem::replace(&mut self.places[place], entry);
        self.n_to_groups -= is_to_group(&before);
    }

    pub(crate) fn modify(&mut self, entry: impl Into<Written>) -> Controlled {
        let (id, checked) = self.checked(entry.into())?;
        self.expect_there(id)?;
        self.set(id, Some(checked));
        Ok(())
    }

    /// Applies backups for ports that are down; returns the ids of all entries with backups.
    pub(crate) fn set_ports_down(&mut self, down: PortSet) -> Vec<u32> {
        self.down = down;
        let mut changed = Vec::new();
        for (id, entry) in (0..).zip(&mut self.places) {
            let Some(entry) = entry else { continue };
            if let Some(written) = &entry.with_backups {
                entry.copies = Arc::new(Copies::new(written.standing(&down)));
                changed.push(id);
            }
        }
        changed
    }

    pub(crate) fn delete(&mut self, id: u32) -> Controlled {
        self.expect_there(id)?;
        self.set(id, None);
        Ok(())
    }

    fn expect_there(&self, id: u32) -> Controlled {
        let is_there = self.get(id).is_some();
        is_there
            .then_some(())
            .ok_or_else(|| missing(self.kind, id as usize))
    }
}
