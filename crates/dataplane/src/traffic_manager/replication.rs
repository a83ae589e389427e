//! Multicast groups: what the packet replication engine copies a packet to. P4Runtime 1.4,
//! section 9.5.1.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use super::packet::Place;
use crate::{ControlError, ControlErrorKind, MulticastGroup, PortId, Replica, limits};

/// Every multicast group.
#[derive(Debug, Default)]
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

/// Things by small ids, found without a search.
#[derive(Debug)]
pub(super) struct ById<T> {
    /// By id, up to the highest that was ever there.
    places: Vec<Option<T>>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T> ById<T> {
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.places.get(id as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.places.get_mut(id as usize)?.as_mut()
    }

    pub(super) fn has(&self, id: u32) -> bool {
        matches!(self.places.get(id as usize), Some(Some(_)))
    }

    /// Takes one away; none where there is none.
    pub(super) fn take(&mut self, id: u32) -> Option<T> {
        self.places.get_mut(id as usize)?.take()
    }

    pub(super) fn put(&mut self, id: u32, thing: T) {
        let place = id as usize;
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(thing);
    }

    /// By id, from an id on.
    pub(super) fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let all = (first..).zip(self.places.iter().skip(first as usize));
        all.filter_map(|(id, thing)| Some((id, thing.as_ref()?)))
    }
}

/// Refuses replicas that the switch cannot make: too many, the same twice, or to no port.
pub(crate) fn check_replicas(what: &str, replicas: &[Replica]) -> Result<(), ControlError> {
    if replicas.len() > limits::REPLICAS_PER_GROUP_MAX {
        return Err(ControlError::new(
            ControlErrorKind::ResourceExhausted,
            format!(
                "{what}: {} replicas, the most is {}",
                replicas.len(),
                limits::REPLICAS_PER_GROUP_MAX
            ),
        ));
    }
    let invalid = |message: String| {
        Err(ControlError::new(
            ControlErrorKind::InvalidArgument,
            message,
        ))
    };
    let mut seen = HashSet::new();
    for replica in replicas {
        if replica.port.0 > limits::PORT_ID_MAX {
            return invalid(format!(
                "{what}: port {}, expected 0 to {}",
                replica.port,
                limits::PORT_ID_MAX
            ));
        }
        if !seen.insert(*replica) {
            return invalid(format!(
                "{what}: port {} and instance {} are there twice",
                replica.port, replica.instance
            ));
        }
    }
    Ok(())
}

impl MulticastGroups {
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

    fn check(group: &MulticastGroup) -> Result<(), ControlError> {
        if group.id == 0 || group.id > limits::MULTICAST_GROUP_ID_MAX {
            return Err(ControlError::new(
                ControlErrorKind::InvalidArgument,
                format!(
                    "multicast group {}: expected an id of 1 to {}",
                    group.id,
                    limits::MULTICAST_GROUP_ID_MAX
                ),
            ));
        }
        check_replicas(&format!("multicast group {}", group.id), &group.replicas)
    }

    pub(crate) fn insert(&mut self, group: MulticastGroup) -> Result<(), ControlError> {
        Self::check(&group)?;
        if self.groups.has(group.id) {
            let message = format!("multicast group {} is there already", group.id);
            return Err(ControlError::new(ControlErrorKind::AlreadyExists, message));
        }
        self.groups
            .put(group.id, Arc::new(Copies::new(group.replicas)));
        Ok(())
    }

    pub(crate) fn modify(&mut self, group: MulticastGroup) -> Result<(), ControlError> {
        Self::check(&group)?;
        match self.groups.get_mut(group.id) {
            Some(copies) => {
                *copies = Arc::new(Copies::new(group.replicas));
                Ok(())
            }
            None => Err(not_found(group.id)),
        }
    }

    pub(crate) fn delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.groups
            .take(id)
            .map(|_| ())
            .ok_or_else(|| not_found(id))
    }
}

fn not_found(id: u32) -> ControlError {
    ControlError::new(
        ControlErrorKind::NotFound,
        format!("no multicast group {id}"),
    )
}
