//! Multicast groups and clone sessions.

use super::{CloneSession, Controlled, MulticastGroup};
use crate::switch::Switch;

/// Each call is atomic and takes effect between two passes.
impl Switch {
    /// Adds a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_clone_session(&mut self, session: CloneSession) -> Controlled {
        self.loaded()?;
        self.traffic.sessions.insert(session)
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_clone_session(&mut self, session: CloneSession) -> Controlled {
        self.loaded()?;
        self.traffic.sessions.modify(session)
    }

    /// Takes a clone session away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_clone_session(&mut self, id: u32) -> Controlled {
        self.loaded()?;
        self.traffic.sessions.delete(id)
    }

    /// Every clone session, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        self.traffic.sessions.all()
    }

    /// Adds a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.loaded()?;
        self.traffic.groups.insert(group)
    }

    /// Replaces the replicas of a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.loaded()?;
        self.traffic.groups.modify(group)
    }

    /// Takes a multicast group away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Controlled {
        self.loaded()?;
        self.traffic.groups.delete(id)
    }

    /// Every multicast group, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        self.traffic.groups.all()
    }
}
