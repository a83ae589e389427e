//! What the packet replication engine copies a packet to: multicast groups and clone sessions.
//! P4Runtime 1.4, section 9.5.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::packet::Place;
use crate::{
    CloneSession, ControlErrorKind, Controlled, MulticastGroup, PortId, Replica, invalid, limits,
    missing, refuse,
};

/// The copies that a group or session makes.
#[derive(Debug)]
pub(crate) struct Copies {
    pub replicas: Box<[Replica]>,
    /// Each port and how many of the replicas go there.
    pub ports: Box<[(PortId, usize)]>,
    /// Each replica's place in an empty queue: those before it that go to the same port wait there.
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

/// Refuses replicas that the switch cannot make: too many, the same twice, or to no port.
fn check_replicas(what: &str, replicas: &[Replica]) -> Controlled {
    let max = limits::REPLICAS_PER_GROUP_MAX;
    if replicas.len() > max {
        let message = format!("{what}: {} replicas, the most is {max}", replicas.len());
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
            let message = format!("{what}: port {port} and instance {instance} are there twice");
            return invalid(message);
        }
    }
    Ok(())
}

/// What makes copies, as the traffic manager reads it: a clone session, or a multicast group, which
/// is like a session that truncates nothing and has no queue of its own.
#[derive(Debug, Clone)]
pub(crate) struct ReplicationEntry {
    pub copies: Arc<Copies>,
    pub truncate_bytes: Option<u32>,
    /// 0 is the queue of the copies' priority.
    pub queue: u32,
}

impl From<MulticastGroup> for CloneSession {
    fn from(group: MulticastGroup) -> Self {
        Self {
            id: group.id,
            replicas: group.replicas,
            truncate_bytes: None,
            class_of_service: 0,
        }
    }
}

/// Every multicast group, or every clone session. Ids are small, so one is found without a search.
#[derive(Debug)]
pub(crate) struct ReplicationEntries {
    /// As messages name one.
    kind: &'static str,
    id_max: u32,
    /// By id, up to the highest that was ever there.
    places: Vec<Option<ReplicationEntry>>,
}

impl ReplicationEntries {
    pub(crate) fn new(kind: &'static str, id_max: u32) -> Self {
        Self {
            kind,
            id_max,
            places: Vec::new(),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&ReplicationEntry> {
        self.places.get(id as usize)?.as_ref()
    }

    /// By id, from an id on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = CloneSession> {
        let all = (first..).zip(self.places.iter().skip(first as usize));
        all.filter_map(|(id, entry)| {
            let entry = entry.as_ref()?;
            Some(CloneSession {
                id,
                replicas: entry.copies.replicas.to_vec(),
                truncate_bytes: entry.truncate_bytes,
                class_of_service: entry.queue,
            })
        })
    }

    /// What is kept under which id.
    fn checked(&self, entry: CloneSession) -> Controlled<(u32, ReplicationEntry)> {
        let what = format!("{} {}", self.kind, entry.id);
        if entry.id == 0 || entry.id > self.id_max {
            return invalid(format!("{what}: expected an id of 1 to {}", self.id_max));
        }
        if entry.truncate_bytes == Some(0) {
            let found = "a clone of no byte at all; leave the length out for whole ones";
            return invalid(format!("{what}: {found}"));
        }
        let (queue, max) = (entry.class_of_service, limits::EGRESS_QUEUES_PER_PORT - 1);
        if queue as usize > max {
            return invalid(format!(
                "{what}: class of service {queue}, expected 0 to {max}"
            ));
        }
        check_replicas(&what, &entry.replicas)?;
        let kept = ReplicationEntry {
            copies: Arc::new(Copies::new(entry.replicas)),
            truncate_bytes: entry.truncate_bytes,
            queue,
        };
        Ok((entry.id, kept))
    }

    pub(crate) fn insert(&mut self, entry: impl Into<CloneSession>) -> Controlled {
        let (id, checked) = self.checked(entry.into())?;
        if self.get(id).is_some() {
            let message = format!("{} {id} is there already", self.kind);
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        let place = id as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, None);
        }
        self.places[place] = Some(checked);
        Ok(())
    }

    pub(crate) fn modify(&mut self, entry: impl Into<CloneSession>) -> Controlled {
        let (id, checked) = self.checked(entry.into())?;
        *self.found(id)? = Some(checked);
        Ok(())
    }

    pub(crate) fn delete(&mut self, id: u32) -> Controlled {
        *self.found(id)? = None;
        Ok(())
    }

    /// The place of one that is there.
    fn found(&mut self, id: u32) -> Controlled<&mut Option<ReplicationEntry>> {
        let place = self.places.get_mut(id as usize);
        let place = place.filter(|place| place.is_some());
        place.ok_or_else(|| missing(self.kind, id as usize))
    }
}
