//! Multicast groups and clone sessions.

use crate::{
    CloneSession, Controlled, Mirror, MulticastGroup, PortId, Queues,
    engine::Change,
    invalid, limits,
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

    /// Writes a multicast group. The clone sessions that go to the group make other copies then, so
    /// they are told as changed, too.
    fn write_group(
        &mut self,
        id: u32,
        write: impl FnOnce(&mut TrafficManager) -> Controlled,
    ) -> Controlled {
        self.write_traffic(&Change::MulticastGroup(id), write)?;
        let sessions: Vec<u32> = self.model.traffic.sessions.to_group(id).collect();
        for session in sessions {
            self.done(&Change::CloneSession(session))?;
        }
        Ok(())
    }

    /// How many packets may wait in output queues, with whatever program.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn set_egress_queue_depth(&mut self, queues: Queues, n_packets: usize) -> Controlled {
        check_queues(queues)?;
        self.model.traffic.egress.set_capacity(queues, n_packets);
        Ok(())
    }

    /// How many packets a second leave output queues, each by itself, with whatever program; none is as fast as
    /// it goes.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn set_egress_queue_rate(&mut self, queues: Queues, rate_pps: Option<u64>) -> Controlled {
        check_queues(queues)?;
        self.model.traffic.egress.set_rate(queues, rate_pps);
        Ok(())
    }

    /// Holds what is for a port in its queues, or lets it go again: its interface takes no more just now. What is
    /// held counts in the queues' depths, and is dropped where it finds them full.
    pub fn hold_port(&mut self, port: PortId, is_held: bool) {
        self.model.traffic.egress.hold(port, is_held);
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

    /// Makes a clone session what BMv2 calls a mirroring session, whether there is one or not.
    ///
    /// # Errors
    /// `InvalidArgument`, `FailedPrecondition`.
    pub fn mirror(&mut self, session: u32, mirror: Mirror) -> Controlled {
        let change = Change::CloneSession(session);
        self.write_traffic(&change, |traffic| traffic.sessions.mirror(session, mirror))
    }

    /// A clone session as BMv2 would say it: of several replicas the first one's port.
    pub fn mirrored(&self, session: u32) -> Option<Mirror> {
        let session = self.model.traffic.sessions.get(session)?;
        let first = session.copies.replicas.first();
        Some(Mirror {
            port: first.map(|replica| replica.port),
            group: session.group,
        })
    }

    /// Takes a clone session away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_clone_session(&mut self, id: u32) -> Controlled {
        let change = Change::CloneSession(id);
        self.write_traffic(&change, |traffic| traffic.sessions.delete(id))
    }

    /// Clone sessions by id, from id `first` on, until they have `n_replicas` replicas together;
    /// each session counts as one more. At least one session, unless there are no more. For whoever
    /// reads many piece by piece.
    pub fn clone_sessions_from(&self, first: u32, n_replicas: usize) -> Vec<CloneSession> {
        let traffic = &self.model.traffic;
        let sessions = some(
            traffic.sessions.with_groups(&traffic.groups, first),
            n_replicas,
        );
        sessions.into_iter().map(Written::into_session).collect()
    }

    /// Every clone session, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        let traffic = &self.model.traffic;
        let sessions = traffic.sessions.with_groups(&traffic.groups, 0);
        sessions.map(Written::into_session).collect()
    }

    /// Adds a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.write_group(group.id, |traffic| traffic.groups.insert(group))
    }

    /// Replaces the replicas of a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.write_group(group.id, |traffic| traffic.groups.modify(group))
    }

    /// Takes a multicast group away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Controlled {
        self.write_group(id, |traffic| traffic.groups.delete(id))
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

/// Queues that there are.
fn check_queues(queues: Queues) -> Controlled {
    let (max_port, n_queues) = (limits::PORT_ID_MAX, limits::EGRESS_QUEUES_PER_PORT);
    match queues {
        Queues {
            port: Some(port), ..
        } if port.0 > max_port => invalid(format!("port {port}, expected 0 to {max_port}")),
        Queues {
            queue: Some(queue), ..
        } if queue >= n_queues => {
            let max = n_queues - 1;
            invalid(format!(
                "the queue of priority {queue}, expected 0 to {max}"
            ))
        }
        _ => Ok(()),
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
