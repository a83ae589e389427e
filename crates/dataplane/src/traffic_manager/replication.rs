//! Multicast groups: what the packet replication engine copies a packet to. P4Runtime 1.4,
//! section 9.5.1.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::{by_id::ById, packet::Place};
use crate::{ControlErrorKind, Controlled, MulticastGroup, PortId, Replica, limits, refuse};

/// Every multicast group.
#[derive(Debug)]
pub(crate) struct MulticastGroups {
    groups: ById<Arc<Copies>>,
}

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
pub(crate) fn check_replicas(what: &str, replicas: &[Replica]) -> Controlled {
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
            let message = format!("{what}: port {port}, expected 0 to {max}");
            return refuse(ControlErrorKind::InvalidArgument, message);
        }
        if !seen.insert(*replica) {
            let message = format!("{what}: port {port} and instance {instance} are there twice");
            return refuse(ControlErrorKind::InvalidArgument, message);
        }
    }
    Ok(())
}

/// Refuses an id beyond a kind's.
pub(super) fn check_id(what: &str, id: u32, max: u32) -> Controlled {
    match id {
        1.. if id <= max => Ok(()),
        _ => refuse(
            ControlErrorKind::InvalidArgument,
            format!("{what}: expected an id of 1 to {max}"),
        ),
    }
}

impl MulticastGroups {
    pub(crate) fn new() -> Self {
        Self {
            groups: ById::new("multicast group"),
        }
    }

    /// The replicas of a group as they are now.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Copies>> {
        self.groups.get(id).cloned()
    }

    /// By id, from an id on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = MulticastGroup> {
        let groups = self.groups.iter_from(first);
        groups.map(|(id, copies)| MulticastGroup {
            id,
            replicas: copies.replicas.to_vec(),
        })
    }

    fn checked(group: MulticastGroup) -> Controlled<Arc<Copies>> {
        let what = format!("multicast group {}", group.id);
        check_id(&what, group.id, limits::MULTICAST_GROUP_ID_MAX)?;
        check_replicas(&what, &group.replicas)?;
        Ok(Arc::new(Copies::new(group.replicas)))
    }

    pub(crate) fn insert(&mut self, group: MulticastGroup) -> Controlled {
        self.groups.insert(group.id, Self::checked(group)?)
    }

    pub(crate) fn modify(&mut self, group: MulticastGroup) -> Controlled {
        self.groups.modify(group.id, Self::checked(group)?)
    }

    pub(crate) fn delete(&mut self, id: u32) -> Controlled {
        self.groups.delete(id)
    }
}
