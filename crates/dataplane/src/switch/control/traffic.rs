//! Multicast groups and clone sessions.

use crate::{
    CloneSession, Controlled, MulticastGroup, engine::Change, switch::Switch,
    traffic_manager::TrafficManager,
};

/// Each call is atomic and takes effect between two passes.
impl Switch {
    fn write_traffic(
        &mut self,
        change: &Change<'_>,
        write: impl FnOnce(&mut TrafficManager) -> Controlled,
    ) -> Controlled {
        self.loaded()?;
        write(&mut self.model.traffic)?;
        self.done(change)
    }

    /// Adds a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_clone_session(&mut self, session: CloneSession) -> Controlled {
        let change = Change::CloneSession(session.id);
        self.write_traffic(&change, |traffic| traffic.sessions.insert(session))
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_clone_session(&mut self, session: CloneSession) -> Controlled {
        let change = Change::CloneSession(session.id);
        self.write_traffic(&change, |traffic| traffic.sessions.modify(session))
    }

    /// Takes a clone session away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_clone_session(&mut self, id: u32) -> Controlled {
        let change = Change::CloneSession(id);
        self.write_traffic(&change, |traffic| traffic.sessions.delete(id))
    }

    /// Clone sessions by id, from an id on: as many as have so many replicas, or one that has more; none
    /// where there are no more. For whoever reads many piece by piece.
    pub fn clone_sessions_from(&self, first: u32, n_replicas: usize) -> Vec<CloneSession> {
        some(self.model.traffic.sessions.from(first), n_replicas)
    }

    /// Every clone session, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        self.model.traffic.sessions.from(0).collect()
    }

    /// Adds a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        let change = Change::MulticastGroup(group.id);
        self.write_traffic(&change, |traffic| traffic.groups.insert(group))
    }

    /// Replaces the replicas of a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        let change = Change::MulticastGroup(group.id);
        self.write_traffic(&change, |traffic| traffic.groups.modify(group))
    }

    /// Takes a multicast group away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Controlled {
        let change = Change::MulticastGroup(id);
        self.write_traffic(&change, |traffic| traffic.groups.delete(id))
    }

    /// Multicast groups, as [`Switch::clone_sessions_from`].
    pub fn multicast_groups_from(&self, first: u32, n_replicas: usize) -> Vec<MulticastGroup> {
        let groups = some(self.model.traffic.groups.from(first), n_replicas);
        groups.into_iter().map(group).collect()
    }

    /// Every multicast group, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        self.model.traffic.groups.from(0).map(group).collect()
    }
}

fn group(entry: CloneSession) -> MulticastGroup {
    let CloneSession { id, replicas, .. } = entry;
    MulticastGroup { id, replicas }
}

/// The first ones, until they have so many replicas; one counts for itself too.
fn some(all: impl Iterator<Item = CloneSession>, mut n_left: usize) -> Vec<CloneSession> {
    let mut found = Vec::new();
    for one in all {
        n_left = n_left.saturating_sub(1 + one.replicas.len());
        found.push(one);
        if n_left == 0 {
            break;
        }
    }
    found
}
