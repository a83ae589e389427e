//! Multicast groups and clone sessions.

use crate::{
    CloneSession, Controlled, Mirror, MulticastGroup, PortId, Queues,
    engine::Change,
    invalid, limits,
    switch::Switch,
    traffic_manager::{TrafficManager, replication::Written},
};

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

    /// Writes a multicast group. A clone session that clones to the group changes with the group, so the change of the
    /// session is reported, too.
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

    /// Sets the capacity of output queues; survives a change of program.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn set_egress_queue_depth(&mut self, queues: Queues, n_packets: usize) -> Controlled {
        check_queues(queues)?;
        self.model.traffic.egress.set_capacity(queues, n_packets);
        Ok(())
    }

    /// Sets the packet rate of each of these output queues; `None` is unlimited. Survives a change of program.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn set_egress_queue_rate(&mut self, queues: Queues, rate_pps: Option<u64>) -> Controlled {
        check_queues(queues)?;
        self.model.traffic.egress.set_rate(queues, rate_pps);
        Ok(())
    }

    /// If `is_held`, keeps a port's packets in its queues, as the caller wants while the port's interface accepts no
    /// more. If not, releases them. Held packets count in the queue depths; packets that find a queue full are dropped.
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

    /// Sets the destination of a clone session, and makes the session if there is none. BMv2 calls a clone session a
    /// mirroring session.
    ///
    /// # Errors
    /// `InvalidArgument`, `FailedPrecondition`.
    pub fn mirror(&mut self, session: u32, mirror: Mirror) -> Controlled {
        let change = Change::CloneSession(session);
        self.write_traffic(&change, |traffic| traffic.sessions.mirror(session, mirror))
    }

    /// Returns the destination of a clone session in the form of a mirroring session: the port of the first replica,
    /// and the group. Further replicas are left out.
    pub fn mirrored(&self, session: u32) -> Option<Mirror> {
        let session = self.model.traffic.sessions.get(session)?;
        let first = session.copies.replicas.first();
        Some(Mirror {
            port: first.map(|replica| replica.port),
            group: session.group,
        })
    }

    /// Removes a clone session.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_clone_session(&mut self, id: u32) -> Controlled {
        let change = Change::CloneSession(id);
        self.write_traffic(&change, |traffic| traffic.sessions.delete(id))
    }

    /// Returns the clone sessions with ids from `first` on, in the order of ids, until the number of replicas plus the
    /// number of sessions reaches `n_replicas`. So a caller can read the sessions in pieces. The result is empty only
    /// if no session is left.
    pub fn clone_sessions_from(&self, first: u32, n_replicas: usize) -> Vec<CloneSession> {
        let traffic = &self.model.traffic;
        let sessions = some(
            traffic.sessions.with_groups(&traffic.groups, first),
            n_replicas,
        );
        sessions.into_iter().map(Written::into_session).collect()
    }

    /// Every clone session, sorted by id.
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

    /// Removes a multicast group.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Controlled {
        self.write_group(id, |traffic| traffic.groups.delete(id))
    }

    /// Returns multicast groups with ids from `first` on, in the order of ids; `n_replicas` limits them as in
    /// [`Switch::clone_sessions_from`].
    pub fn multicast_groups_from(&self, first: u32, n_replicas: usize) -> Vec<MulticastGroup> {
        let groups = some(self.model.traffic.groups.from(first), n_replicas);
        groups.into_iter().map(Written::into_group).collect()
    }

    /// Every multicast group, sorted by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        let groups = self.model.traffic.groups.from(0);
        groups.map(Written::into_group).collect()
    }
}

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

/// Takes multicast groups or clone sessions until the number of their replicas, plus one for each group or session,
/// reaches `n_left`.
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
