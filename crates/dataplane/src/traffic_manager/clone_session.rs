//! Clone sessions: where `clone` sends its copies. P4Runtime 1.4, section 9.5.2.

use std::{collections::BTreeMap, sync::Arc};

use super::replication::check_replicas;
use crate::{
    control::{CloneSession, ControlError, ControlErrorKind, Replica},
    limits,
};

/// A session as the traffic manager reads it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub replicas: Arc<[Replica]>,
    pub truncate_bytes: Option<usize>,
    pub queue: usize,
}

/// Every clone session, by its id.
#[derive(Debug, Default)]
pub(crate) struct CloneSessions {
    sessions: BTreeMap<u32, (Session, CloneSession)>,
}

impl CloneSessions {
    pub(crate) fn get(&self, id: u32) -> Option<Session> {
        self.sessions.get(&id).map(|(session, _)| session.clone())
    }

    pub(crate) fn all(&self) -> Vec<CloneSession> {
        self.sessions.values().map(|(_, session)| session.clone()).collect()
    }

    fn checked(session: CloneSession) -> Result<(Session, CloneSession), ControlError> {
        let what = format!("clone session {}", session.id);
        let invalid = |expected: String| {
            let message = format!("{what}: {expected}");
            Err(ControlError::new(ControlErrorKind::InvalidArgument, message))
        };
        if session.id == 0 || session.id > limits::CLONE_SESSION_ID_MAX {
            return invalid(format!("expected an id of 1 to {}", limits::CLONE_SESSION_ID_MAX));
        }
        if session.truncate_bytes == Some(0) {
            return invalid("a clone of no byte at all; leave the length out for whole ones".into());
        }
        let queue = session.class_of_service as usize;
        if queue >= limits::EGRESS_QUEUES_PER_PORT {
            return invalid(format!(
                "class of service {queue}, expected 0 to {}",
                limits::EGRESS_QUEUES_PER_PORT - 1
            ));
        }
        check_replicas(&what, &session.replicas)?;
        let inner = Session {
            replicas: session.replicas.as_slice().into(),
            truncate_bytes: session.truncate_bytes.map(|len| len as usize),
            queue,
        };
        Ok((inner, session))
    }

    pub(crate) fn insert(&mut self, session: CloneSession) -> Result<(), ControlError> {
        let id = session.id;
        let checked = Self::checked(session)?;
        if self.sessions.contains_key(&id) {
            let message = format!("clone session {id} is there already");
            return Err(ControlError::new(ControlErrorKind::AlreadyExists, message));
        }
        self.sessions.insert(id, checked);
        Ok(())
    }

    pub(crate) fn modify(&mut self, session: CloneSession) -> Result<(), ControlError> {
        let id = session.id;
        let checked = Self::checked(session)?;
        match self.sessions.get_mut(&id) {
            Some(slot) => {
                *slot = checked;
                Ok(())
            }
            None => Err(not_found(id)),
        }
    }

    pub(crate) fn delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.sessions.remove(&id).map(|_| ()).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: u32) -> ControlError {
    ControlError::new(ControlErrorKind::NotFound, format!("no clone session {id}"))
}
