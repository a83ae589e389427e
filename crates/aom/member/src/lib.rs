//! A member of a group of authenticated ordered multicast: the receiver of crate `aom` with a socket and a thread. A
//! membership describes the group, its receivers and the keys for one epoch. A [`Joined`] member joins with a member
//! file, and gets its memberships from the configuration service. For a [`Member`] the caller supplies the membership.
//!
//! The member queues events until the application takes them. When [`EVENTS_MAX`] events or [`EVENT_BYTES_MAX`] bytes
//! of messages and certificates are queued, the member stops reading its socket, and the kernel's buffer fills. A
//! datagram that the kernel then discards is reported as a drop, like any other loss.
#![warn(missing_docs)]

mod joined;
mod mailbox;
mod receiving;
mod sender;
mod session;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aom::certificate::{Certificate, CertificateError};
use aom::event::Event;
use aom::membership::{Membership, MembershipError};
use k256::ecdsa::SigningKey;
use tokio::sync::{mpsc, oneshot};

use mailbox::Mailbox;
use receiving::Task;

pub use joined::{JoinError, Joined};
pub use receiving::Counters;
pub use sender::{SendError, Sender};

/// The number of queued events at which the member stops reading.
pub const EVENTS_MAX: usize = 4096;
/// The bytes of queued messages and certificates at which the member stops reading.
pub const EVENT_BYTES_MAX: usize = 16 << 20;
/// The size of the socket's receive buffer, which the kernel fills while the member does not read.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// The reason why a member cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The membership is invalid.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The kernel refused a socket or a thread.
    #[error("the member's socket or thread: {0}")]
    Io(#[from] io::Error),
    /// The member cannot receive at its address.
    #[error(
        "cannot bind {address}, the member's receive address ({source}): give this host that address, stop the process that uses it, or add the member with another address"
    )]
    Bind {
        /// The receive address that the configuration service assigned.
        address: SocketAddr,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The member has ended: its socket failed, it was removed, or the service refused it.
    #[error("the member has ended: {0}")]
    Ended(String),
}

enum Command {
    Advance {
        membership: Box<Membership>,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
        done: oneshot::Sender<Result<(), MembershipError>>,
    },
    /// Requests a delivered message's certificate, including the tags that came after the message's delivery.
    Certificate {
        epoch: u64,
        sequence: u32,
        done: oneshot::Sender<Option<Certificate>>,
    },
    /// Ends the member. The application gets the reason after the queued events.
    Leave { because: String },
}

/// A running member. Dropping the value stops it.
#[derive(Debug)]
pub struct Member {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    mailbox: Mailbox,
    /// The memberships of the previous and the current epoch. Certificates of the previous epoch can still be verified.
    memberships: Mutex<Vec<Membership>>,
    counters: Mutex<Counters>,
}

impl Member {
    /// Starts a member that receives on `socket` from sequence number `first` on. In a Byzantine group, `confirms` has
    /// the key that signs this member's confirm messages and the addresses of the other members.
    ///
    /// # Errors
    /// If the membership is invalid, or the thread cannot be started.
    pub fn start(
        socket: UdpSocket,
        membership: Membership,
        first: u32,
        confirms: Option<(SigningKey, Vec<SocketAddr>)>,
    ) -> Result<Member, MemberError> {
        let shared = Arc::new(Shared {
            mailbox: Mailbox::new(EVENTS_MAX, EVENT_BYTES_MAX),
            memberships: Mutex::new(vec![membership.clone()]),
            counters: Mutex::new(Counters::default()),
        });
        let (commands, receiver) = mpsc::unbounded_channel();
        let task = Task::new(socket, membership, first, confirms, Arc::clone(&shared))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("aom-member".to_owned())
            .spawn(move || runtime.block_on(task.run(receiver)))?;
        Ok(Member {
            shared,
            commands,
            thread: Some(thread),
        })
    }

    /// Returns the next event, or `None` after the timeout.
    ///
    /// # Errors
    /// If the member has ended and the caller has taken all of its events.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, MemberError> {
        let mailbox = &self.shared.mailbox;
        mailbox.take(timeout).map_err(MemberError::Ended)
    }

    /// Starts the next epoch. When this returns, the member receives nothing of the old epoch any more, and has queued
    /// the old epoch's complete messages. `last` is the old epoch's last sequence number, if it is known.
    ///
    /// # Errors
    /// If the membership is invalid, or the member has ended. After an error the old membership stays.
    pub fn advance(
        &self,
        membership: Membership,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
    ) -> Result<(), MemberError> {
        let answer = self.advance_later(membership, last, peers)?.blocking_recv();
        Ok(answer.map_err(|_| MemberError::Ended("its thread is gone".to_owned()))??)
    }

    /// Requests the start of the next epoch, as `advance` does, but returns a channel for the result instead of
    /// waiting.
    fn advance_later(
        &self,
        membership: Membership,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
    ) -> Result<oneshot::Receiver<Result<(), MembershipError>>, MemberError> {
        let (done, answer) = oneshot::channel();
        let command = Command::Advance {
            membership: Box::new(membership),
            last,
            peers,
            done,
        };
        let sent = self.commands.send(command);
        sent.map_err(|_| MemberError::Ended("its thread is gone".to_owned()))?;
        Ok(answer)
    }

    /// Ends the member. The application gets the reason after the queued events.
    fn end(&self, because: String) {
        // Sending fails only if the thread has ended already, and it has then reported its own reason.
        let _ = self.commands.send(Command::Leave { because });
    }

    /// Verifies another member's certificate with this member's own tag, the sequencer's public key or the members'
    /// confirm keys.
    ///
    /// # Errors
    /// If the bytes are not a certificate.
    pub fn verify(&self, certificate: &[u8], message: &[u8]) -> Result<bool, CertificateError> {
        let certificate = Certificate::from_bytes(certificate)?;
        let memberships = lock(&self.shared.memberships).clone();
        let mut memberships = memberships.iter();
        Ok(memberships.any(|membership| certificate.verify(membership, message)))
    }

    /// Returns the certificate of a message of the current epoch, including the tags that came after the message's
    /// delivery. Returns `None` if the member has no certificate other than the one in the message's event. See
    /// [`Receiver::certificate`](aom::receiver::Receiver::certificate).
    ///
    /// # Errors
    /// If the member has ended.
    pub fn certificate(
        &self,
        epoch: u64,
        sequence: u32,
    ) -> Result<Option<Certificate>, MemberError> {
        let (done, answer) = oneshot::channel();
        let command = Command::Certificate {
            epoch,
            sequence,
            done,
        };
        let gone = || MemberError::Ended("its thread is gone".to_owned());
        self.commands.send(command).map_err(|_| gone())?;
        answer.blocking_recv().map_err(|_| gone())
    }

    /// Returns the membership of the current epoch.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        lock(&self.shared.memberships).last().cloned()
    }

    /// Returns the counts of received and refused datagrams.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *lock(&self.shared.counters)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end("it left".to_owned());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already printed a panic of the thread.
            let _ = thread.join();
        }
    }
}

/// Locks the mutex, and ignores poisoning: no code panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
