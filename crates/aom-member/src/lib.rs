//! A member of a group of authenticated ordered multicast: the receiver of crate `aom` with sockets and a
//! thread of its own. The configuration service keeps a [`Joined`] member, which has a member file, in its
//! group. For a [`Member`] the caller gives the membership.
//!
//! Events that the application does not take in time wait, at most [`EVENTS_MAX`] and some more than
//! [`EVENT_BYTES_MAX`]. Then the member stops reading and the kernel's buffer fills. A datagram that the kernel loses becomes a drop-notification, as
//! after any other loss. Every loss is reported.

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

/// The most events that wait for the application.
pub const EVENTS_MAX: usize = 4096;
/// The bytes of their messages and certificates at which the member stops reading.
pub const EVENT_BYTES_MAX: usize = 16 << 20;
/// Bytes of the socket's receive buffer, which the kernel fills while the member does not read.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// The reason why a member cannot be made, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The membership contradicts itself.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// A socket or a thread could not be had.
    #[error("the member's socket or thread: {0}")]
    Io(#[from] io::Error),
    /// The member cannot receive at its address.
    #[error(
        "cannot bind {address}, the member's receive address ({source}): give this host that address, stop the process that uses it, or add the member with another address"
    )]
    Bind {
        /// The address that the service gave.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The member has ended: its socket failed, or it was removed.
    #[error("the member has ended: {0}")]
    Ended(String),
}

/// A command to a member's thread.
enum Command {
    Advance {
        membership: Box<Membership>,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
        done: oneshot::Sender<Result<(), MembershipError>>,
    },
    /// The certificate of a delivered message, with what has come since.
    Certificate {
        epoch: u64,
        sequence: u32,
        done: oneshot::Sender<Option<Certificate>>,
    },
    /// Ends the membership; the application is told why behind the remaining events.
    Leave { because: String },
}

/// A member. It stays joined until it is dropped.
#[derive(Debug)]
pub struct Member {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// State that application and thread share.
#[derive(Debug)]
struct Shared {
    mailbox: Mailbox,
    /// Of the current epoch and of the previous one, whose certificates may still be in use.
    memberships: Mutex<Vec<Membership>>,
    counters: Mutex<Counters>,
}

impl Member {
    /// Receives on `socket` from number `first` on. In a Byzantine group `peers` are the other members, and
    /// `confirm_key` signs this member's confirms.
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

    /// Waits at most this long for the next event.
    ///
    /// # Errors
    /// If the member has ended and all of its events are taken.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, MemberError> {
        let mailbox = &self.shared.mailbox;
        mailbox.take(timeout).map_err(MemberError::Ended)
    }

    /// Begins the next epoch. Once this returns, nothing of the old epoch is received, and its complete
    /// messages are among the events. `last` is the old epoch's last number, if it is known.
    ///
    /// # Errors
    /// If the membership is invalid; then the old one stays. If the member has ended.
    pub fn advance(
        &self,
        membership: Membership,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
    ) -> Result<(), MemberError> {
        let answer = self.advance_later(membership, last, peers)?.blocking_recv();
        Ok(answer.map_err(|_| MemberError::Ended("its thread is gone".to_owned()))??)
    }

    /// The same without waiting; the channel gives the answer.
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

    /// Ends the membership: after the remaining events, the member reports its removal.
    fn end(&self, because: String) {
        // If there is no receiver, the thread has already ended and told why.
        let _ = self.commands.send(Command::Leave { because });
    }

    /// Verifies another member's certificate with this member's own tag, the public key or the members' keys.
    ///
    /// # Errors
    /// If the bytes are no certificate.
    pub fn verify(&self, certificate: &[u8], message: &[u8]) -> Result<bool, CertificateError> {
        let certificate = Certificate::from_bytes(certificate)?;
        let memberships = lock(&self.shared.memberships).clone();
        let mut memberships = memberships.iter();
        Ok(memberships.any(|membership| certificate.verify(membership, message)))
    }

    /// The certificate of a message of the current epoch, with what has come since its delivery; `None` if there is no
    /// other than the message's own. [`Receiver::certificate`](aom::receiver::Receiver::certificate) says more.
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

    /// The last membership.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        lock(&self.shared.memberships).last().cloned()
    }

    /// The counts of received and refused datagrams.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *lock(&self.shared.counters)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end("it left".to_owned());
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

/// A lock's content is always consistent when the lock is released: no code panics while it holds one.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
