//! Clone sessions: where `clone` sends its copies. P4Runtime 1.4, section 9.5.2.

use std::sync::Arc;

use super::{
    by_id::ById,
    replication::{Copies, check_id, check_replicas},
};
use crate::{CloneSession, ControlErrorKind, Controlled, limits, refuse};

/// A session as the traffic manager reads it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub copies: Arc<Copies>,
    pub truncate_bytes: Option<u32>,
    /// 0 is the queue of the clone's priority.
    pub queue: u32,
}

/// Every clone session.
#[derive(Debug)]
pub(crate) struct CloneSessions {
    sessions: ById<Session>,
}

impl CloneSessions {
    pub(crate) fn new() -> Self {
        Self {
            sessions: ById::new("clone session"),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// By id, from an id on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = CloneSession> {
        let sessions = self.sessions.iter_from(first);
        sessions.map(|(id, session)| CloneSession {
            id,
            replicas: session.copies.replicas.to_vec(),
            truncate_bytes: session.truncate_bytes,
            class_of_service: session.queue,
        })
    }

    fn checked(session: CloneSession) -> Controlled<Session> {
        let what = format!("clone session {}", session.id);
        check_id(&what, session.id, limits::CLONE_SESSION_ID_MAX)?;
        let invalid = |message: String| {
            let message = format!("{what}: {message}");
            refuse(ControlErrorKind::InvalidArgument, message)
        };
        if session.truncate_bytes == Some(0) {
            return invalid(
                "a clone of no byte at all; leave the length out for whole ones".into(),
            );
        }
        let (queue, max) = (session.class_of_service, limits::EGRESS_QUEUES_PER_PORT - 1);
        if queue as usize > max {
            return invalid(format!("class of service {queue}, expected 0 to {max}"));
        }
        check_replicas(&what, &session.replicas)?;
        Ok(Session {
            copies: Arc::new(Copies::new(session.replicas)),
            truncate_bytes: session.truncate_bytes,
            queue,
        })
    }

    pub(crate) fn insert(&mut self, session: CloneSession) -> Controlled {
        self.sessions.insert(session.id, Self::checked(session)?)
    }

    pub(crate) fn modify(&mut self, session: CloneSession) -> Controlled {
        self.sessions.modify(session.id, Self::checked(session)?)
    }

    pub(crate) fn delete(&mut self, id: u32) -> Controlled {
        self.sessions.delete(id)
    }
}
