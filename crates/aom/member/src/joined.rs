//! A member that joins its group with a member file, which holds the address of the configuration service and the
//! member's private key. The service sends the member the membership after the join and at every change.

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
    /// The member file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The member file.
        path: PathBuf,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// Other users may read the member file.
    #[error("{}: expected a file that only its owner can read, for it holds a secret; found mode {mode:03o}: chmod 600 it", path.display())]
    Mode {
        /// The member file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The file's content is not a member file.
    #[error("{}: {source}", path.display())]
    File {
        /// The member file.
        path: PathBuf,
        /// What was expected, and at which place of the file.
        source: MemberFileError,
    },
    /// TLS refuses the file's keys or certificates.
    #[error("{}: expected valid certificates and a private key ({reason}): make a new file with `reprise aom member file`", path.display())]
    Keys {
        /// The member file.
        path: PathBuf,
        /// The error that TLS returned.
        reason: String,
    },
    /// The service refuses the member, for the reason given.
    #[error("the configuration service refuses: {0}")]
    Refused(String),
    /// The service cannot be reached, or sent no membership in time.
    #[error("no membership from the configuration service at {service} within {} ms ({because})", waited.as_millis())]
    Late {
        /// The service's address.
        service: SocketAddr,
        /// How long the caller waited.
        waited: Duration,
        /// The latest reason why there is no membership.
        because: String,
    },
    /// The member could not be started.
    #[error(transparent)]
    Member(#[from] MemberError),
}

/// A member that joined with a member file. The configuration service sends it each new membership. Dropping the value
/// stops the member.
#[derive(Debug)]
pub struct Joined {
    member: Arc<Member>,
    about: Arc<Mutex<About>>,
    keeper: Keeping,
}

#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) membership: Option<Membership>,
    /// The latest reason why there is no membership yet.
    pub(crate) because: String,
}

/// The thread that keeps the connection to the configuration service. Dropping this value stops the thread.
#[derive(Debug)]
struct Keeping {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Joined {
    /// Joins with this member file, and waits at most `timeout` for the membership.
    ///
    /// # Errors
    /// If the file is invalid, the service refuses the member, or no membership comes in time.
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
        let (notify, first) = mpsc::channel();
        let keeper = Keeper::new(file, tls, Arc::clone(&about), notify)?;
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

    /// Sends a message to the group. When the sequencer has ordered the message, [`Joined::next`] returns it to every
    /// member, this member included.
    ///
    /// # Errors
    /// If the message is too long, the kernel refuses it, or the group has no address.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let membership = lock(&self.about).membership.clone();
        let membership = membership.ok_or(SendError::NoAddress)?;
        let address = membership.address.ok_or(SendError::NoAddress)?;
        let receivers = &membership.receivers;
        let own = receivers.get(usize::from(membership.receiver));
        let own = own.ok_or(SendError::NoAddress)?.ip;
        let socket = UdpSocket::bind((own, 0))?;
        if address.is_multicast() {
            // A host with several interfaces must send from the interface on which it receives.
            socket2::SockRef::from(&socket).set_multicast_if_v4(&own)?;
        }
        let variant = match membership.sequencer {
            Sequencer::Tagged { .. } => Variant::Tagged,
            Sequencer::Signed { .. } => Variant::Signed,
        };
        let group = SocketAddr::from((address, UDP_PORT));
        Sender::new(socket, group, membership.number, variant).send(message)
    }

    /// Returns the next event, or `None` after the timeout.
    ///
    /// # Errors
    /// If the member was removed or its socket failed, and the caller has taken all events.
    pub fn next(&self, timeout: Duration) -> Result<Option<Event>, MemberError> {
        self.member.next(timeout)
    }

    /// Verifies another member's certificate with this member's own tag, the sequencer's public key or the members'
    /// confirm keys.
    ///
    /// # Errors
    /// If the bytes are not a certificate.
    pub fn verify(&self, certificate: &[u8], message: &[u8]) -> Result<bool, CertificateError> {
        self.member.verify(certificate, message)
    }

    /// Returns the certificate of a message of the current epoch, including the tags that came after the message's
    /// delivery. Returns `None` if the member has no certificate other than the one in the message's event. Call this
    /// just before you show the message to another member.
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

    /// Returns the latest membership that this member has installed.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        lock(&self.about).membership.clone()
    }

    /// Returns the counts of received and refused datagrams.
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
            // Sending fails only if the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // The panic hook has already printed a panic of the thread.
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
