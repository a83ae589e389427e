//! Keeps the connection to the configuration service: reconnects until the member ends.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use aom::limits::{FIRST_PROVED, GAP_TIMEOUT};
use aom_config::keys::PublicKey;
use aom_config::limits::SILENCE_MAX;
use aom_config::member_file::{MemberFile, SERVICE_NAME};
use aom_config::message::{Join, Membership};
use aom_config::session::{Event, Session};
use k256::ecdsa::SigningKey;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::joined::About;
use crate::{Member, MemberError, lock};

/// The first and the longest pause before the next attempt to connect.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// How long to wait for the last messages of an epoch that has ended. A lost message becomes a drop after the
/// receiver's timeout. Packets of the next epoch wait in the socket meanwhile.
const STRAGGLERS: Duration = GAP_TIMEOUT.saturating_add(Duration::from_millis(5));
/// Why there may be no membership although the service is connected.
const CONNECTED: &str = "it is connected, but this process is in no epoch of the group yet: `reprise aom group show` says why";
/// The polling interval while the member waits for the last messages ([`STRAGGLERS`]).
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(crate) enum Ended {
    /// The service refuses this and all further connections.
    Refused(String),
    /// The member could not be started, or has ended.
    Member(MemberError),
    /// The next connection may succeed.
    Again(String),
}

/// Makes the TLS configuration with the keys and certificates of a member file.
pub(crate) fn tls(file: &MemberFile) -> Result<rustls::ClientConfig, String> {
    let certificate = |pem: &str| {
        let read = CertificateDer::from_pem_slice(pem.as_bytes());
        read.map_err(|error| error.to_string())
    };
    let key = PrivateKeyDer::from_pem_slice(file.key.as_bytes());
    // The error must not quote the text, since it may be a key.
    let key = key.map_err(|_| "the private key is no PEM".to_owned())?;
    let mut roots = RootCertStore::empty();
    let added = roots.add(certificate(&file.authority)?);
    added.map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&file.certificate)?], key);
    config.map_err(|error| error.to_string())
}

/// Installs in a member each membership that the service sends.
pub(crate) struct Keeper {
    file: MemberFile,
    /// The key that signs confirm messages. Each process makes a new key and never stores it. A restarted process does
    /// not know what its predecessor has confirmed, so it must not be able to confirm something else with the same key.
    confirm_key: SigningKey,
    connector: TlsConnector,
    about: Arc<Mutex<About>>,
    /// Reports the first membership, or the reason why there is none, to the caller of `join`.
    first: Option<mpsc::Sender<Result<Arc<Member>, Ended>>>,
    member: Option<Arc<Member>>,
    began: Instant,
}

impl Keeper {
    pub(crate) fn new(
        file: MemberFile,
        tls: rustls::ClientConfig,
        about: Arc<Mutex<About>>,
        first: mpsc::Sender<Result<Arc<Member>, Ended>>,
    ) -> Result<Keeper, MemberError> {
        Ok(Keeper {
            confirm_key: confirm_key()?,
            file,
            connector: TlsConnector::from(Arc::new(tls)),
            about,
            first: Some(first),
            member: None,
            began: Instant::now(),
        })
    }

    /// Runs until it is stopped or the service refuses the member.
    pub(crate) async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut retry_after = RETRY_AFTER[0];
        loop {
            let connected_at = Instant::now();
            let ended = tokio::select! {
                _ = &mut stopped => return,
                ended = self.connection() => ended,
            };
            let because = match ended {
                Ended::Again(because) => because,
                ended => return self.end(ended),
            };
            lock(&self.about).because = because;
            if connected_at.elapsed() > SILENCE_MAX {
                retry_after = RETRY_AFTER[0];
            }
            tokio::select! {
                _ = &mut stopped => return,
                () = tokio::time::sleep(retry_after) => {}
            }
            retry_after = (2 * retry_after).min(RETRY_AFTER[1]);
        }
    }

    /// Ends the member. If there is no member yet, reports the reason to the waiting caller of `join`.
    fn end(self, ended: Ended) {
        match (&self.member, &self.first) {
            (Some(member), _) => {
                let because = match ended {
                    Ended::Refused(reason) | Ended::Again(reason) => reason,
                    Ended::Member(error) => error.to_string(),
                };
                member.end(because);
            }
            (None, Some(first)) => {
                // Sending fails if the caller of `join` has stopped waiting.
                let _ = first.send(Err(ended));
            }
            (None, None) => {}
        }
    }

    async fn connection(&mut self) -> Ended {
        let stream = match timeout(SILENCE_MAX, self.connect()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Ended::Again(error.to_string()),
            Err(_) => return Ended::Again("it takes too long to connect".to_owned()),
        };
        let public = self.confirm_key.verifying_key();
        let join = Join::new(
            &self.file.group,
            &self.file.member,
            Some(PublicKey::from(*public)),
        );
        let installed = lock(&self.about).membership.as_ref().map(|it| it.epoch);
        CONNECTED.clone_into(&mut lock(&self.about).because);
        match Session::new(self.began.elapsed(), join, installed) {
            Ok(session) => self.attend(stream, session).await,
            Err(error) => Ended::Again(error.to_string()),
        }
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.file.service).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(SERVICE_NAME).map_err(std::io::Error::other)?;
        self.connector.connect(name, stream).await
    }

    async fn attend(&mut self, mut stream: TlsStream<TcpStream>, mut session: Session) -> Ended {
        let mut bytes = [0; 4096];
        loop {
            while let Some(event) = session.poll_event() {
                let membership = match event {
                    Event::Membership(membership) => membership,
                    Event::Refused { reason } => return Ended::Refused(reason),
                };
                let epoch = membership.epoch;
                if let Err(error) = self.install(membership).await {
                    return Ended::Member(error);
                }
                if let Err(error) = session.installed(epoch) {
                    return Ended::Again(error.to_string());
                }
            }
            while let Some(message) = session.poll_transmit() {
                let sent = timeout(SILENCE_MAX, stream.write_all(&message)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return Ended::Again("the connection broke".to_owned());
                }
            }
            if timeout(SILENCE_MAX, stream.flush()).await.is_err() {
                return Ended::Again("the connection broke".to_owned());
            }
            let due = (self.began + session.poll_timeout()).into();
            let read = match tokio::time::timeout_at(due, stream.read(&mut bytes)).await {
                Ok(Ok(0)) => return Ended::Again("the service closed the connection".to_owned()),
                Ok(Ok(n_bytes)) => session.handle_bytes(self.began.elapsed(), &bytes[..n_bytes]),
                Ok(Err(error)) => return Ended::Again(error.to_string()),
                Err(_) => session.handle_timeout(self.began.elapsed()),
            };
            if let Err(error) = read {
                return Ended::Again(error.to_string());
            }
        }
    }

    async fn install(&mut self, announced: Membership) -> Result<(), MemberError> {
        let membership = announced.to_receiver()?;
        let peers = peers(&announced);
        match &self.member {
            Some(member) => {
                let old = lock(&self.about).membership.as_ref().map(|it| it.epoch);
                let ended = announced.ended.filter(|ended| Some(ended.epoch) == old);
                if let Some(ended) = ended {
                    stragglers(member, (ended.epoch, ended.sequence)).await;
                }
                member
                    .advance_later(membership, ended.map(|it| it.sequence), peers)?
                    .await
                    .map_err(|_| MemberError::Ended("its thread is gone".to_owned()))??;
                lock(&self.about).membership = Some(announced);
            }
            None => {
                let own = announced.receivers.get(usize::from(announced.receiver));
                let address = own.map(|it| SocketAddr::from((it.ip, it.udp_port)));
                let address =
                    address.ok_or_else(|| MemberError::Ended("it has no address".to_owned()))?;
                let socket = UdpSocket::bind(address)
                    .map_err(|source| MemberError::Bind { address, source })?;
                let first = if announced.has_begun { FIRST_PROVED } else { 1 };
                let key = self.confirm_key.clone();
                let confirms = announced.byzantine.then_some((key, peers));
                let member = Arc::new(Member::start(socket, membership, first, confirms)?);
                lock(&self.about).membership = Some(announced);
                self.member = Some(Arc::clone(&member));
                if let Some(first) = self.first.take() {
                    // Sending fails if the caller of `join` has stopped waiting. The caller then stops this thread.
                    let _ = first.send(Ok(member));
                }
            }
        }
        Ok(())
    }
}

fn confirm_key() -> Result<SigningKey, MemberError> {
    loop {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
        // About one in 2^128 random values is not a valid key.
        if let Ok(key) = SigningKey::from_slice(&bytes) {
            return Ok(key);
        }
    }
}

/// Returns the addresses of all other members, to which this member sends its confirm messages.
fn peers(announced: &Membership) -> Vec<SocketAddr> {
    let others = (0..)
        .zip(&announced.receivers)
        .filter(|(place, _)| *place != announced.receiver);
    let others = others.map(|(_, peer)| SocketAddr::from((peer.ip, peer.udp_port)));
    others.collect()
}

/// Waits until the member has delivered or dropped an epoch's last sequence number, but at most for `STRAGGLERS`.
async fn stragglers(member: &Member, last: (u64, u32)) {
    let until = Instant::now() + STRAGGLERS;
    while member.counters().queued < Some(last) && Instant::now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
