//! Messages between a member's connection and the service. The connection reports joins and installed epochs; the
//! service sends the current membership.
//!
//! A member that reads slowly gets only the newest membership: a later epoch replaces an earlier one.

use aom_config::keys::PublicKey;
use aom_config::message::Membership;
use tokio::sync::{mpsc, oneshot, watch};

/// The most joins and acknowledgements in the queue to the service. When it is full, connections wait.
pub const WAITING_MAX: usize = 256;

/// SHA-256 of a certificate's DER. It identifies a member.
pub type Fingerprint = [u8; 32];

/// The service's message to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// No membership yet: the group has no epoch, or its next one is in preparation.
    Nothing,
    Membership(Box<Membership>),
    /// The reason why the service ends the connection, and what the operator should do next.
    Refused(String),
}

/// A connection's message to the service.
#[derive(Debug)]
pub enum FromMember {
    /// A member joins. A second connection of the same member replaces the first, which gets a refusal.
    Join {
        group: String,
        member: String,
        /// The fingerprint of the certificate that the TLS client showed.
        fingerprint: Fingerprint,
        confirm_key: Option<PublicKey>,
        /// Gets a channel with the service's messages to this connection. If the service refuses the member, gets the
        /// reason and what the operator should do next.
        answer: oneshot::Sender<Result<watch::Receiver<Notice>, String>>,
    },
    /// The member's receiver has advanced to this epoch.
    Installed {
        group: String,
        member: String,
        epoch: u64,
    },
}

/// A handle with which connections reach the service.
#[derive(Debug, Clone)]
pub struct Members(mpsc::Sender<FromMember>);

impl Members {
    /// Returns the handle for connections, and the channel from which the service receives.
    #[must_use]
    pub fn channel() -> (Members, mpsc::Receiver<FromMember>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Members(sender), receiver)
    }

    /// # Errors
    /// If the service refuses the member, or is ending.
    pub async fn join(
        &self,
        (group, member): (&str, &str),
        fingerprint: Fingerprint,
        confirm_key: Option<PublicKey>,
    ) -> Result<watch::Receiver<Notice>, NotJoined> {
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
    /// If the service is ending.
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

/// The service is ending. Its successor may start soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the configuration service is ending")]
pub struct Ending;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotJoined {
    /// The reason for the refusal, in words for the member, and what the operator should do next.
    #[error("{0}")]
    Refused(String),
    /// The member may try again.
    #[error(transparent)]
    Ending(#[from] Ending),
}
