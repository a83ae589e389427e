//! A member by its file: told by the configuration service what it is, now and whenever that changes.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use aom::certificate::CertificateError;
use aom::event::Event;
use aom::wire::{UDP_PORT, Variant};
use aom_config::member_file::{MemberFile, MemberFileError};
use aom_config::message::{Membership, Sequencer};
use tokio::sync::oneshot;

use crate::session::{self, Ended, Keeper};
use crate::{Counters, Member, MemberError, SendError, Sender, lock};

/// Why there is no member.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The member's file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others may read it.
    #[error("{}: others than its owner may read this file (mode {mode:03o}), and it is a secret: chmod 600 it", path.display())]
    Mode {
        /// The member's file.
        path: PathBuf,
        /// Of it.
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
    /// TLS does not take what is in it.
    #[error("{}: its certificates or its key are none ({reason}): have a new file made with `reprise aom member file`", path.display())]
    Keys {
        /// The member's file.
        path: PathBuf,
        /// In TLS's words.
        reason: String,
    },
    /// The service does not take it as a member.
    #[error("the configuration service refuses: {0}")]
    Refused(String),
    /// There is no service, or it tells nothing.
    #[error("no membership from the configuration service at {service} within {} ms ({because})", waited.as_millis())]
    Late {
        /// Where.
        service: SocketAddr,
        /// How long.
        waited: Duration,
        /// What happened last.
        because: String,
    },
    /// A thread or a socket could not be had.
    #[error(transparent)]
    Member(#[from] MemberError),
}

/// A member: joined while it is there.
#[derive(Debug)]
pub struct Joined {
    member: Arc<Member>,
    about: Arc<Mutex<About>>,
    keeper: Keeping,
}

/// What session and application both know.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) membership: Option<Membership>,
    /// Why there is no connection to the service at the moment.
    pub(crate) because: String,
}

/// The session's thread; it ends when this is dropped.
#[derive(Debug)]
struct Keeping {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Joined {
    /// Joins as the member whose file this is, and waits for its membership at most so long.
    ///
    /// # Errors
    /// The file, the service's refusal, or that nobody answers.
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
        let keeper = Keeper::new(file, tls, Arc::clone(&about), told);
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

    /// Sends a message to the group. Whether it is ordered is told by [`Joined::next`], as to every member.
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
            // A host with several interfaces sends by the one that it receives at.
            socket2::SockRef::from(&socket).set_multicast_if_v4(&own)?;
        }
        let variant = match membership.sequencer {
            Sequencer::Tagged { .. } => Variant::Tagged,
            Sequencer::Signed { .. } => Variant::Signed,
        };
        let group = SocketAddr::from((address, UDP_PORT));
        Sender::new(socket, group, membership.number, variant).send(message)
    }

    /// The next event, waited for at most so long.
    ///
    /// # Errors
    /// If the member was removed or its socket failed, once all of its events are taken.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, MemberError> {
        self.member.next(timeout)
    }

    /// Whether this member, by what it knows itself, can believe what another shows it.
    ///
    /// # Errors
    /// If the bytes are no certificate.
    pub fn verify(&self, certificate: &[u8], message: &[u8]) -> Result<bool, CertificateError> {
        self.member.verify(certificate, message)
    }

    /// What it was told last.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        lock(&self.about).membership.clone()
    }

    /// What it has received, and what it has refused.
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
            // It has ended already if nobody listens.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was printed there.
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
