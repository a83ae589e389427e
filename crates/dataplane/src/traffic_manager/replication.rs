//! Multicast groups: what the packet replication engine copies a packet to. P4Runtime 1.4,
//! section 9.5.1.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use crate::{
    control::{ControlError, ControlErrorKind, MulticastGroup, Replica},
    limits,
};

/// Every multicast group, by its id.
#[derive(Debug, Default)]
pub(crate) struct MulticastGroups {
    groups: BTreeMap<u32, Arc<[Replica]>>,
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
    let invalid =
        |message: String| Err(ControlError::new(ControlErrorKind::InvalidArgument, message));
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
    pub(crate) fn get(&self, id: u32) -> Option<Arc<[Replica]>> {
        self.groups.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<MulticastGroup> {
        let groups = self.groups.iter();
        groups.map(|(id, replicas)| MulticastGroup { id: *id, replicas: replicas.to_vec() }).collect()
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
        if self.groups.contains_key(&group.id) {
            let message = format!("multicast group {} is there already", group.id);
            return Err(ControlError::new(ControlErrorKind::AlreadyExists, message));
        }
        self.groups.insert(group.id, group.replicas.into());
        Ok(())
    }

    pub(crate) fn modify(&mut self, group: MulticastGroup) -> Result<(), ControlError> {
        Self::check(&group)?;
        match self.groups.get_mut(&group.id) {
            Some(replicas) => {
                *replicas = group.replicas.into();
                Ok(())
            }
            None => Err(not_found(group.id)),
        }
    }

    pub(crate) fn delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.groups.remove(&id).map(|_| ()).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: u32) -> ControlError {
    ControlError::new(ControlErrorKind::NotFound, format!("no multicast group {id}"))
}
