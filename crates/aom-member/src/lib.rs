//! A member of a group of authenticated ordered multicast: the receiver of crate `aom` with sockets
//! and a thread of its own. [`Joined`] is one by its file, kept by the configuration service; [`Member`] is one whose
//! membership the caller knows.
//!
//! What the application does not take in time waits, [`EVENTS_MAX`] events at most; then the member
//! stops reading, the kernel's buffer fills, and what it loses is a drop-notification like any other
//! loss. Nothing is dropped in silence.

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

/// Events that wait for the application at most.
pub const EVENTS_MAX: usize = 4096;
/// Bytes that the kernel is asked to hold while the member is not read.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Why a member cannot be, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The membership contradicts itself.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// A socket or a thread could not be had.
    #[error("the member's socket or thread: {0}")]
    Io(#[from] io::Error),
    /// Where it is to receive, it cannot.
    #[error(
        "{address}, where this member receives, cannot be listened at ({source}): give this host that address, end who listens there, or add the member with another"
    )]
    Bind {
        /// As the service says it.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The member has ended: its socket failed, or it was removed.
    #[error("the member has ended: {0}")]
    Ended(String),
}

/// What a member is told to do.
enum Command {
    Advance {
        membership: Box<Membership>,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
        done: oneshot::Sender<Result<(), MembershipError>>,
    },
    Leave,
}

/// A member: joined while it is there.
#[derive(Debug)]
pub struct Member {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// What application and thread both know.
#[derive(Debug)]
struct Shared {
    mailbox: Mailbox,
    /// Of the epoch that is received, and of the one before: certificates of it still travel.
    memberships: Mutex<Vec<Membership>>,
    counters: Mutex<Counters>,
}

impl Member {
    /// Receives on `socket` from number `first` on. `peers` are the other members, where they confirm
    /// to each other, and `confirm_key` then signs this one's word.
    ///
    /// # Errors
    /// If the membership cannot be, or there is no thread to be had.
    pub fn start(
        socket: UdpSocket,
        membership: Membership,
        first: u32,
        confirms: Option<(SigningKey, Vec<SocketAddr>)>,
    ) -> Result<Member, MemberError> {
        let shared = Arc::new(Shared {
            mailbox: Mailbox::new(EVENTS_MAX),
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

    /// The next event, waited for at most so long.
    ///
    /// # Errors
    /// If the member has ended and all of its events are taken.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, MemberError> {
        let mailbox = &self.shared.mailbox;
        mailbox.take(timeout).map_err(MemberError::Ended)
    }

    /// The next epoch: once this returns, nothing of the old one is received, and what was whole of
    /// it is among the events. `last` is the old one's last number, where it is known.
    ///
    /// # Errors
    /// If the membership cannot be; then the old one stays. If the member has ended.
    pub fn advance(
        &self,
        membership: Membership,
        last: Option<u32>,
        peers: Vec<SocketAddr>,
    ) -> Result<(), MemberError> {
        let answer = self.advance_later(membership, last, peers)?.blocking_recv();
        Ok(answer.map_err(|_| MemberError::Ended("its thread is gone".to_owned()))??)
    }

    /// The same, and the answer when it is there.
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

    /// It is no member any more: once its events are taken, that is what it says.
    fn end(&self, because: String) {
        let _ = self.commands.send(Command::Leave);
        self.shared.mailbox.close(because);
    }

    /// Whether this member, by what it knows itself, can believe what another shows it.
    ///
    /// # Errors
    /// If the bytes are no certificate.
    pub fn verify(&self, certificate: &[u8], message: &[u8]) -> Result<bool, CertificateError> {
        let certificate = Certificate::from_bytes(certificate)?;
        let memberships = lock(&self.shared.memberships).clone();
        let mut memberships = memberships.iter();
        Ok(memberships.any(|membership| certificate.verify(membership, message)))
    }

    /// What it was told last.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        lock(&self.shared.memberships).last().cloned()
    }

    /// What it has received, and what it has refused.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *lock(&self.shared.counters)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It has ended already if nobody listens.
        let _ = self.commands.send(Command::Leave);
        self.shared.mailbox.close("it left".to_owned());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was printed there.
            let _ = thread.join();
        }
    }
}

/// What a lock holds is whole whenever it is released: nobody panics while holding one.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
