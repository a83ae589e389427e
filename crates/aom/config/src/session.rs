//! A member's connection to the configuration service, without I/O.
//!
//! The member joins, receives its current and every later membership, and acknowledges each when its receiver has
//! installed it. If the service repeats an installed membership, the session only acknowledges it again. An older
//! membership is an error: since epochs only increase, it shows that the service has lost its state.

use std::collections::VecDeque;
use std::time::Duration;

use crate::frame::{FrameError, Frames, frame};
use crate::limits::SILENCE_MAX;
use crate::message::{Join, Membership, ToMember, ToService};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A new membership. The caller must install it in the receiver, then acknowledge it with [`Session::installed`].
    Membership(Membership),
    /// The service ends the connection, and refuses further connections.
    Refused {
        /// The reason in words, with the operator's next step.
        reason: String,
    },
}

/// The reason why the connection must be closed. The next connection may succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("the configuration service does not speak this protocol: {0}")]
    Frame(#[from] FrameError),
    #[error("expected a membership of group \"{expected}\", found one of \"{found}\"")]
    OtherGroup { expected: String, found: String },
    #[error(
        "the configuration service announced epoch {found} after epoch {installed}, expected a later epoch: its state was lost or restored from an older copy; remove the group there and add it under a new name"
    )]
    Older { installed: u64, found: u64 },
    #[error("no message from the configuration service for {} s", SILENCE_MAX.as_secs())]
    Silent,
}

/// The member's side of one connection. Times are durations since any fixed moment.
#[derive(Debug)]
pub struct Session {
    group: String,
    installed: Option<u64>,
    received_at: Duration,
    frames: Frames,
    to_send: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

impl Session {
    /// Starts a connection. `installed` is the epoch that the member has installed, if any.
    ///
    /// # Errors
    ///
    /// If the join is longer than a message may be.
    pub fn new(now: Duration, join: Join, installed: Option<u64>) -> Result<Session, SessionError> {
        let group = join.group.clone();
        let first = frame(&ToService::Join(join))?;
        Ok(Session {
            group,
            installed,
            received_at: now,
            frames: Frames::default(),
            to_send: VecDeque::from([first]),
            events: VecDeque::new(),
        })
    }

    /// Handles bytes from the service.
    ///
    /// # Errors
    ///
    /// If the connection must be closed.
    pub fn handle_bytes(&mut self, now: Duration, bytes: &[u8]) -> Result<(), SessionError> {
        self.frames.push(bytes);
        while let Some(message) = self.frames.poll()? {
            self.received_at = now;
            self.take(message)?;
        }
        Ok(())
    }

    fn take(&mut self, message: ToMember) -> Result<(), SessionError> {
        match message {
            ToMember::Alive => Ok(()),
            ToMember::Refused { reason } => {
                self.events.push_back(Event::Refused { reason });
                Ok(())
            }
            ToMember::Membership(membership) => self.take_membership(membership),
        }
    }

    fn take_membership(&mut self, membership: Membership) -> Result<(), SessionError> {
        if membership.group != self.group {
            return Err(SessionError::OtherGroup {
                expected: self.group.clone(),
                found: membership.group,
            });
        }
        let found = membership.epoch;
        match self.installed {
            Some(installed) if found < installed => Err(SessionError::Older { installed, found }),
            Some(installed) if found == installed => self.acknowledge(found),
            _ => {
                self.events.push_back(Event::Membership(membership));
                Ok(())
            }
        }
    }

    /// Acknowledges that the receiver has advanced to this epoch.
    ///
    /// # Errors
    ///
    /// If the message cannot be serialized.
    pub fn installed(&mut self, epoch: u64) -> Result<(), SessionError> {
        self.installed = self.installed.max(Some(epoch));
        self.acknowledge(epoch)
    }

    fn acknowledge(&mut self, epoch: u64) -> Result<(), SessionError> {
        self.to_send
            .push_back(frame(&ToService::Installed { epoch })?);
        Ok(())
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout), unless bytes from the service come
    /// earlier.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        self.received_at + SILENCE_MAX
    }

    /// # Errors
    ///
    /// If the service was silent for too long.
    pub fn handle_timeout(&self, now: Duration) -> Result<(), SessionError> {
        if now < self.poll_timeout() {
            Ok(())
        } else {
            Err(SessionError::Silent)
        }
    }

    /// Returns the next bytes to send. After each call of another method, call this method until it returns `None`.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.to_send.pop_front()
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Sequencer;

    fn membership(group: &str, epoch: u64) -> Membership {
        Membership {
            group: group.to_owned(),
            number: 7,
            epoch,
            address: None,
            has_begun: false,
            receiver: 0,
            receivers: Vec::new(),
            sequencer: Sequencer::Tagged {
                key: "0011223344556677".parse().expect("a key"),
            },
            byzantine: false,
            ended: None,
        }
    }

    fn session(installed: Option<u64>) -> Session {
        let join = Join::new("g", "a", None);
        Session::new(Duration::ZERO, join, installed).expect("short")
    }

    fn receives(session: &mut Session, message: ToMember) -> Result<(), SessionError> {
        let bytes = frame(&message).expect("short");
        session.handle_bytes(Duration::from_secs(1), &bytes)
    }

    fn said(session: &mut Session) -> Vec<ToService> {
        let mut frames = Frames::default();
        while let Some(bytes) = session.poll_transmit() {
            frames.push(&bytes);
        }
        std::iter::from_fn(|| frames.poll().expect("messages")).collect()
    }

    #[test]
    fn a_member_joins_and_acknowledges_each_membership_when_it_has_it() {
        let mut session = session(None);
        assert_eq!(
            said(&mut session),
            [ToService::Join(Join::new("g", "a", None))]
        );
        for epoch in [1, 2, 256] {
            let sent = membership("g", epoch);
            receives(&mut session, ToMember::Membership(sent.clone())).expect("newer");
            assert_eq!(session.poll_event(), Some(Event::Membership(sent)));
            assert_eq!(said(&mut session), [], "not installed yet");
            session.installed(epoch).expect("short");
            assert_eq!(said(&mut session), [ToService::Installed { epoch }]);
        }
    }

    #[test]
    fn a_membership_that_is_installed_is_acknowledged_again_and_reported_no_more() {
        let mut session = session(Some(5));
        said(&mut session);
        receives(&mut session, ToMember::Membership(membership("g", 5))).expect("the same");
        assert_eq!(session.poll_event(), None);
        assert_eq!(said(&mut session), [ToService::Installed { epoch: 5 }]);
    }

    #[test]
    fn an_epoch_never_comes_back_and_a_group_is_never_another() {
        let mut session = session(Some(5));
        let older = receives(&mut session, ToMember::Membership(membership("g", 4)));
        let (installed, found) = (5, 4);
        assert_eq!(older, Err(SessionError::Older { installed, found }));
        let other = receives(&mut session, ToMember::Membership(membership("h", 6)));
        assert!(
            matches!(other, Err(SessionError::OtherGroup { .. })),
            "{other:?}"
        );
        assert_eq!(session.poll_event(), None);
    }

    #[test]
    fn a_refusal_is_reported() {
        let mut session = session(None);
        let reason = "member \"a\" was removed".to_owned();
        receives(
            &mut session,
            ToMember::Refused {
                reason: reason.clone(),
            },
        )
        .expect("a message");
        assert_eq!(session.poll_event(), Some(Event::Refused { reason }));
    }

    #[test]
    fn a_service_that_is_silent_is_given_up_and_one_that_is_alive_is_not() {
        let mut session = session(None);
        let before = SILENCE_MAX - Duration::from_nanos(1);
        assert_eq!(session.handle_timeout(before), Ok(()));
        assert_eq!(
            session.handle_timeout(SILENCE_MAX),
            Err(SessionError::Silent)
        );
        receives(&mut session, ToMember::Alive).expect("a message");
        assert_eq!(session.handle_timeout(SILENCE_MAX), Ok(()));
        assert_eq!(session.poll_timeout(), SILENCE_MAX + Duration::from_secs(1));
    }
}
