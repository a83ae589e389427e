//! Multicast groups and clone sessions.

use crate::{CloneSession, Controlled, MulticastGroup, engine::Change, switch::Switch};

/// Each call is atomic and takes effect between two passes.
impl Switch {
    /// Adds a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_clone_session(&mut self, session: CloneSession) -> Controlled {
        self.loaded()?;
        let id = session.id;
        self.model.traffic.sessions.insert(session)?;
        self.tell(&Change::CloneSession(id));
        Ok(())
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_clone_session(&mut self, session: CloneSession) -> Controlled {
        self.loaded()?;
        let id = session.id;
        self.model.traffic.sessions.modify(session)?;
        self.tell(&Change::CloneSession(id));
        Ok(())
    }

    /// Takes a clone session away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_clone_session(&mut self, id: u32) -> Controlled {
        self.loaded()?;
        self.model.traffic.sessions.delete(id)?;
        self.tell(&Change::CloneSession(id));
        Ok(())
    }

    /// Clone sessions by id, from an id on: as many as have so many replicas, or one that has more; none
    /// where there are no more. For whoever reads many piece by piece.
    pub fn clone_sessions_from(&self, first: u32, n_replicas: usize) -> Vec<CloneSession> {
        let sessions = self.model.traffic.sessions.from(first);
        some(sessions, n_replicas, |session| session.replicas.len())
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
        self.loaded()?;
        let id = group.id;
        self.model.traffic.groups.insert(group)?;
        self.tell(&Change::MulticastGroup(id));
        Ok(())
    }

    /// Replaces the replicas of a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.loaded()?;
        let id = group.id;
        self.model.traffic.groups.modify(group)?;
        self.tell(&Change::MulticastGroup(id));
        Ok(())
    }

    /// Takes a multicast group away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Controlled {
        self.loaded()?;
        self.model.traffic.groups.delete(id)?;
        self.tell(&Change::MulticastGroup(id));
        Ok(())
    }

    /// Multicast groups, as [`Switch::clone_sessions_from`].
    pub fn multicast_groups_from(&self, first: u32, n_replicas: usize) -> Vec<MulticastGroup> {
        let groups = self.model.traffic.groups.from(first);
        some(groups, n_replicas, |group| group.replicas.len())
    }

    /// Every multicast group, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        self.model.traffic.groups.from(0).collect()
    }
}

/// The first ones, until they have so many replicas; one counts for itself too.
fn some<T>(all: impl Iterator<Item = T>, mut n_left: usize, size: impl Fn(&T) -> usize) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        n_left = n_left.saturating_sub(1 + size(&one));
        found.push(one);
        if n_left == 0 {
            break;
        }
    }
    found
}
