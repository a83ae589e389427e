//! The TLS of a server: its certificate, and the clients that it accepts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio_rustls::TlsAcceptor;

use crate::files::{File, FileError, Identity, Purpose};
use crate::{ALPN_HTTP1, ALPN_HTTP2, provider};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The file with the authorities that may have issued a client's certificate; `None` accepts every client.
    pub client_authorities: Option<PathBuf>,
}

/// TLS of a server whose files may be replaced while it serves.
#[derive(Debug)]
pub struct Server {
    files: ServerFiles,
    /// The name in TLS (ALPN) of the protocol that is spoken over TLS.
    protocol: &'static [u8],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    not_after: Duration,
    /// The files that were last tried, usable or not.
    tried: Vec<File>,
    /// When `tried` becomes usable, since the Unix epoch, if its certificate is not valid yet.
    good_from: Option<Duration>,
    /// The files as last read.
    seen: Vec<File>,
}

/// The result of reading the files again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// The files have not changed, or are still being written.
    None,
    /// New connections use the new files. The text is the time when the new certificate expires.
    Done(String),
    /// The new files cannot be used; new connections use the old files.
    Broken(FileError),
}

impl Server {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn open(files: ServerFiles) -> Result<Server, FileError> {
        Server::of(files, ALPN_HTTP2)
    }

    /// As [`open`](Self::open), for a server of HTTP/1.1 instead of gRPC.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    pub fn open_http(files: ServerFiles) -> Result<Server, FileError> {
        Server::of(files, ALPN_HTTP1)
    }

    fn of(files: ServerFiles, protocol: &'static [u8]) -> Result<Server, FileError> {
        let read = files.read();
        let (config, not_after) = config(&read, protocol, now())?;
        let state = Mutex::new(State {
            config,
            not_after,
            seen: read.clone(),
            tried: read,
            good_from: None,
        });
        Ok(Server {
            files,
            protocol,
            state,
        })
    }

    /// Makes the TLS acceptor for a connection, with the current certificate.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.state().config))
    }

    pub fn certificate(&self) -> &Path {
        &self.files.certificate
    }

    pub fn key(&self) -> &Path {
        &self.files.key
    }

    /// When the certificate in use expires, since 1970.
    pub fn expiry(&self) -> Duration {
        self.state().not_after
    }

    /// Whether the certificate in use has expired.
    pub fn is_expired(&self) -> bool {
        now() > self.state().not_after
    }

    /// Reads the files again, and uses them if they have changed. New files are used only after two calls in a row have
    /// read the same content, so that a new certificate is not used without its key. May block, since it reads files.
    pub fn renew(&self) -> Renewal {
        let found = self.files.read();
        let mut state = self.state();
        let is_settled = found == state.seen;
        state.seen.clone_from(&found);
        let now = now();
        let is_good_now = state.good_from.is_some_and(|from| now >= from);
        if !is_settled || (found == state.tried && !is_good_now) {
            return Renewal::None;
        }
        let renewed = config(&found, self.protocol, now);
        state.tried = found;
        state.good_from = renewed.as_ref().err().and_then(|error| error.good_from);
        match renewed {
            Ok((config, not_after)) => {
                (state.config, state.not_after) = (config, not_after);
                Renewal::Done(crate::date::utc(not_after))
            }
            Err(error) => Renewal::Broken(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerFiles {
    fn read(&self) -> Vec<File> {
        let authorities = self.client_authorities.as_deref();
        let mut files = vec![
            File::read(Purpose::Certificate, &self.certificate),
            File::read(Purpose::Key, &self.key),
        ];
        files.extend(authorities.map(|path| File::read(Purpose::Authorities, path)));
        files
    }
}

pub(crate) fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 counts as 1970, when no certificate is valid.
    now.unwrap_or_default()
}

/// Makes the configuration from these files. Also returns when the certificate expires.
fn config(
    files: &[File],
    protocol: &[u8],
    now: Duration,
) -> Result<(Arc<ServerConfig>, Duration), FileError> {
    let [certificate, key, authorities @ ..] = files else {
        unreachable!("a certificate and a key are always read");
    };
    let identity = Identity::of(certificate, key, now)?;
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("ring has ciphers of each version");
    let builder = match authorities {
        [authorities, ..] => {
            let roots = Arc::new(authorities.authorities()?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(verifier.expect("there is an authority"))
        }
        [] => builder.with_no_client_auth(),
    };
    let certificate = SingleCertAndKey::from(identity.certified);
    let mut config = builder.with_cert_resolver(Arc::new(certificate));
    config.alpn_protocols = vec![protocol.to_vec()];
    // Without resumption, a client that reconnects presents its certificate again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok((Arc::new(config), identity.not_after))
}
