//! Messages between a member's connection and the service. The connection reports joins and installed epochs;
//! the service sends the current membership.
//!
//! A member that reads slowly gets only the newest membership: a later epoch replaces an earlier one.

use aom_config::keys::PublicKey;
use aom_config::message::Membership;
use tokio::sync::{mpsc, oneshot, watch};

/// Joins and acknowledgements that wait for the service at most; then connections wait.
pub const WAITING_MAX: usize = 256;

/// SHA-256 of a certificate's DER: by it a member is known.
pub type Fingerprint = [u8; 32];

/// The service's message to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Nothing yet: the group has no epoch, or its next one is being made.
    Nothing,
    /// The current membership.
    Membership(Box<Membership>),
    /// The connection ends: why, with the next step.
    Refused(String),
}

/// A connection's message to the service.
#[derive(Debug)]
pub enum FromMember {
    /// A member joins. A second connection of the same member replaces the first, which is told so.
    Join {
        /// The group's name.
        group: String,
        /// The member's.
        member: String,
        /// Of the certificate that its TLS client showed.
        fingerprint: Fingerprint,
        /// The key that verifies its confirms.
        confirm_key: Option<PublicKey>,
        /// Gives the messages to it from now on; or the reason why it is no member, with the next step.
        answer: oneshot::Sender<Result<watch::Receiver<Told>, String>>,
    },
    /// Its receiver has advanced to that epoch.
    Installed {
        /// The group's name.
        group: String,
        /// The member's.
        member: String,
        /// The epoch.
        epoch: u64,
    },
}

/// The service, as connections reach it.
#[derive(Debug, Clone)]
pub struct Members(mpsc::Sender<FromMember>);

impl Members {
    /// And where the service hears them.
    #[must_use]
    pub fn channel() -> (Members, mpsc::Receiver<FromMember>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Members(sender), receiver)
    }

    /// # Errors
    /// It is no member, or the service ends.
    pub async fn join(
        &self,
        (group, member): (&str, &str),
        fingerprint: Fingerprint,
        confirm_key: Option<PublicKey>,
    ) -> Result<watch::Receiver<Told>, NotJoined> {
        let (answer, answered) = oneshot::channel();
        self.say(FromMember::Join {
            group: group.to_owned(),
            member: member.to_owned(),
            fingerprint,
            confirm_key,
            answer,
        })
        .await?;
        let joined = answered.await.map_err(|_| Ending)?;
        joined.map_err(NotJoined::Refused)
    }

    /// # Errors
    /// If the service ends.
    pub async fn installed(&self, (group, member): (&str, &str), epoch: u64) -> Result<(), Ending> {
        self.say(FromMember::Installed {
            group: group.to_owned(),
            member: member.to_owned(),
            epoch,
        })
        .await
    }

    async fn say(&self, what: FromMember) -> Result<(), Ending> {
        self.0.send(what).await.map_err(|_| Ending)
    }
}

/// The service ends: the next one may be there soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the configuration service is ending")]
pub struct Ending;

/// The reason why a connection gets no membership.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotJoined {
    /// In words for the member, with the next step.
    #[error("{0}")]
    Refused(String),
    /// It may try again.
    #[error(transparent)]
    Ending(#[from] Ending),
}
