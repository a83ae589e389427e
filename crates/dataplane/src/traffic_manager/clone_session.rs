//! Clone sessions: where `clone` sends its copies. P4Runtime 1.4, section 9.5.2.

use std::sync::Arc;

use super::replication::{ById, Copies, check_replicas};
use crate::{CloneSession, ControlError, ControlErrorKind, limits};

/// A session as the traffic manager reads it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub copies: Arc<Copies>,
    pub truncate_bytes: Option<u32>,
    /// 0 is the queue of the clone's priority.
    pub queue: u32,
}

/// Every clone session.
#[derive(Debug, Default)]
pub(crate) struct CloneSessions {
    sessions: ById<Session>,
}

impl CloneSessions {
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

    fn checked(session: CloneSession) -> Result<Session, ControlError> {
        let what = format!("clone session {}", session.id);
        let invalid = |expected: String| {
            let message = format!("{what}: {expected}");
            Err(ControlError::new(
                ControlErrorKind::InvalidArgument,
                message,
            ))
        };
        if session.id == 0 || session.id > limits::CLONE_SESSION_ID_MAX {
            return invalid(format!(
                "expected an id of 1 to {}",
                limits::CLONE_SESSION_ID_MAX
            ));
        }
        if session.truncate_bytes == Some(0) {
            return invalid(
                "a clone of no byte at all; leave the length out for whole ones".into(),
            );
        }
        let queue = session.class_of_service as usize;
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return invalid(format!(
                "class of service {queue}, expected 0 to {}",
                limits::EGRESS_QUEUES_PER_PORT - 1
            ));
        }
        check_replicas(&what, &session.replicas)?;
        Ok(Session {
            copies: Arc::new(Copies::new(session.replicas)),
            truncate_bytes: session.truncate_bytes,
            queue: session.class_of_service,
        })
    }

    pub(crate) fn insert(&mut self, session: CloneSession) -> Result<(), ControlError> {
        let id = session.id;
        let checked = Self::checked(session)?;
        if self.sessions.has(id) {
            let message = format!("clone session {id} is there already");
            return Err(ControlError::new(ControlErrorKind::AlreadyExists, message));
        }
        self.sessions.put(id, checked);
        Ok(())
    }

    pub(crate) fn modify(&mut self, session: CloneSession) -> Result<(), ControlError> {
        let id = session.id;
        let checked = Self::checked(session)?;
        match self.sessions.get_mut(id) {
            Some(slot) => {
                *slot = checked;
                Ok(())
            }
            None => Err(not_found(id)),
        }
    }

    pub(crate) fn delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.sessions
            .take(id)
            .map(|_| ())
            .ok_or_else(|| not_found(id))
    }
}

fn not_found(id: u32) -> ControlError {
    ControlError::new(ControlErrorKind::NotFound, format!("no clone session {id}"))
}
