//! A member by its file: the configuration service sends it its membership, at first and at every change.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use aom::certificate::{Certificate, CertificateError};
use aom::event::Event;
use aom::wire::{UDP_PORT, Variant};
use aom_config::member_file::{MemberFile, MemberFileError};
use aom_config::message::{Membership, Sequencer};
use tokio::sync::oneshot;

use crate::session::{self, Ended, Keeper};
use crate::{Counters, Member, MemberError, SendError, Sender, lock};

/// The reason why joining failed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The member's file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Other users may read the file.
    #[error("{}: expected a file that only its owner can read, for it holds a secret; found mode {mode:03o}: chmod 600 it", path.display())]
    Mode {
        /// The member's file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no member file.
    #[error("{}: {source}", path.display())]
    File {
        /// The member's file.
        path: PathBuf,
        /// What was expected, and where.
        source: MemberFileError,
    },
    /// TLS refuses its keys or certificates.
    #[error("{}: expected valid certificates and a private key ({reason}): make a new file with `reprise aom member file`", path.display())]
    Keys {
        /// The member's file.
        path: PathBuf,
        /// TLS's message.
        reason: String,
    },
    /// The service refuses the member.
    #[error("the configuration service refuses: {0}")]
    Refused(String),
    /// The service cannot be reached, or sends no membership.
    #[error("no membership from the configuration service at {service} within {} ms ({because})", waited.as_millis())]
    Late {
        /// Its address.
        service: SocketAddr,
        /// The time waited.
        waited: Duration,
        /// The last event.
        because: String,
    },
    /// A thread or a socket could not be had.
    #[error(transparent)]
    Member(#[from] MemberError),
}

/// A member. It stays joined until it is dropped.
#[derive(Debug)]
pub struct Joined {
    member: Arc<Member>,
    about: Arc<Mutex<About>>,
    keeper: Keeping,
}

/// State that session and application share.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) membership: Option<Membership>,
    /// The reason why there is no connection to the service at the moment.
    pub(crate) because: String,
}

/// The session's thread; it ends when this is dropped.
#[derive(Debug)]
struct Keeping {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Joined {
    /// Joins with this member file, and waits at most this long for the membership.
    ///
    /// # Errors
    /// If the file is wrong, the service refuses the member, or nothing answers.
    pub fn join(path: &Path, timeout: Duration) -> Result<Joined, JoinError> {
        let file = read(path)?;
        let tls = session::tls(&file).map_err(|reason| JoinError::Keys {
            path: path.to_owned(),
            reason,
        })?;
        let service = file.service;
        let about = Arc::new(Mutex::new(About {
            membership: None,
            because: "it was not tried yet".to_owned(),
        }));
        let (told, first) = mpsc::channel();
        let keeper = Keeper::new(file, tls, Arc::clone(&about), told)?;
        let keeper = Keeping::start(keeper)?;
        match first.recv_timeout(timeout) {
            Ok(Ok(member)) => Ok(Joined {
                member,
                about,
                keeper,
            }),
            Ok(Err(Ended::Refused(reason))) => Err(JoinError::Refused(reason)),
            Ok(Err(Ended::Member(error))) => Err(error.into()),
            Ok(Err(Ended::Again(_))) | Err(_) => Err(JoinError::Late {
                service,
                waited: timeout,
                because: lock(&about).because.clone(),
            }),
        }
    }

    /// Sends a message to the group. [`Joined::next`] gives it back when it is ordered, as to every member.
    ///
    /// # Errors
    /// If it is too long, the kernel does not take it, or the group has no address.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let membership = lock(&self.about).membership.clone();
        let membership = membership.ok_or(SendError::NoAddress)?;
        let address = membership.address.ok_or(SendError::NoAddress)?;
        let receivers = &membership.receivers;
        let own = receivers.get(usize::from(membership.receiver));
        let own = own.ok_or(SendError::NoAddress)?.ip;
        let socket = UdpSocket::bind((own, 0))?;
        if address.is_multicast() {
            // A host with several interfaces sends by the one on which it receives.
            socket2::SockRef::from(&socket).set_multicast_if_v4(&own)?;
        }
        let variant = match membership.sequencer {
            Sequencer::Tagged { .. } => Variant::Tagged,
            Sequencer::Signed { .. } => Variant::Signed,
        };
        let group = SocketAddr::from((address, UDP_PORT));
        Sender::new(socket, group, membership.number, variant).send(message)
    }

    /// Waits at most this long for the next event.
    ///
    /// # Errors
    /// If the member was removed or its socket failed, once all of its events are taken.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, MemberError> {
        self.member.next(timeout)
    }

    /// Verifies another member's certificate with this member's own tag, the public key or the members' keys.
    ///
    /// # Errors
    /// If the bytes are no certificate.
    pub fn verify(&self, certificate: &[u8], message: &[u8]) -> Result<bool, CertificateError> {
        self.member.verify(certificate, message)
    }

    /// The certificate of a message of the current epoch, with what has come since its delivery; `None` if there is no
    /// other than the message's own. To be asked for when the message is shown to another member.
    ///
    /// # Errors
    /// If the member has ended.
    pub fn certificate(
        &self,
        epoch: u64,
        sequence: u32,
    ) -> Result<Option<Certificate>, MemberError> {
        self.member.certificate(epoch, sequence)
    }

    /// The last membership.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        lock(&self.about).membership.clone()
    }

    /// The counts of received and refused datagrams.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.member.counters()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.keeper.end();
    }
}

impl Keeping {
    fn start(keeper: Keeper) -> Result<Keeping, MemberError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("aom-session".to_owned())
            .spawn(move || runtime.block_on(keeper.run(stopped)))?;
        Ok(Keeping {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // If there is no receiver, the thread has already ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(path: &Path) -> Result<MemberFile, JoinError> {
    let unreadable = |source| JoinError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mode = fs::metadata(path).map_err(unreadable)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(JoinError::Mode { path, mode });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    MemberFile::parse(&text).map_err(|source| JoinError::File {
        path: path.to_owned(),
        source,
    })
}
