//! Multicast groups and clone sessions.

use crate::{
    CloneSession, Controlled, MulticastGroup,
    engine::Change,
    switch::Switch,
    traffic_manager::{TrafficManager, replication::Written},
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
        let sessions = some(self.model.traffic.sessions.from(first), n_replicas);
        sessions.into_iter().map(Written::into_session).collect()
    }

    /// Every clone session, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        let sessions = self.model.traffic.sessions.from(0);
        sessions.map(Written::into_session).collect()
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
        groups.into_iter().map(Written::into_group).collect()
    }

    /// Every multicast group, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        let groups = self.model.traffic.groups.from(0);
        groups.map(Written::into_group).collect()
    }
}

/// The first ones, until they have so many replicas; one counts for itself too.
fn some(all: impl Iterator<Item = Written>, mut n_left: usize) -> Vec<Written> {
    let mut found = Vec::new();
    for one in all {
        n_left = n_left.saturating_sub(1 + one.n_replicas());
        found.push(one);
        if n_left == 0 {
            break;
        }
    }
    found
}
