//! The TLS of a client: the authorities that it trusts, and the certificate that it may present.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::files::{File, FileError, Identity, Purpose};
use crate::server::now;
use crate::{ALPN_HTTP1, ALPN_HTTP2, provider};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The file with the certificates of the authorities that may have issued a server's certificate.
    pub authorities: PathBuf,
    /// The file with the client's certificate, for servers that request one, and the file with its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    own: Option<Arc<CertifiedKey>>,
}

/// The client's certificate, if there is one, and whether the server has requested it.
#[derive(Debug)]
struct Own {
    certificate: Option<Arc<CertifiedKey>>,
    was_asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.certificate.clone()
    }

    fn has_certs(&self) -> bool {
        self.certificate.is_some()
    }
}

/// The TLS connector for one connection.
pub struct Connecting {
    pub connector: TlsConnector,
    was_asked: Arc<AtomicBool>,
    has_certificate: bool,
}

impl Connecting {
    /// Whether the server has requested a certificate and the client has none.
    pub fn lacks_certificate(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed) && !self.has_certificate
    }
}

impl Client {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is missing or cannot be used.
    ///
    /// # Panics
    /// Never: ring has ciphers of each version of TLS.
    pub fn open(files: &ClientFiles) -> Result<Client, FileError> {
        let authorities = File::read(Purpose::Authorities, &files.authorities).authorities()?;
        let own = files.identity.as_ref().map(|(certificate, key)| {
            let certificate = File::read(Purpose::Certificate, certificate);
            let key = File::read(Purpose::Key, key);
            Identity::of(&certificate, &key, now()).map(|identity| Arc::new(identity.certified))
        });
        let own = own.transpose()?;
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.expect("ring has ciphers of each version");
        let mut config = builder
            .with_root_certificates(authorities)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        config.resumption = Resumption::disabled();
        let config = Arc::new(config);
        Ok(Client { config, own })
    }

    /// Makes the TLS connector for the next connection.
    pub fn connecting(&self) -> Connecting {
        let was_asked = Arc::new(AtomicBool::new(false));
        let mut config = ClientConfig::clone(&self.config);
        config.client_auth_cert_resolver = Arc::new(Own {
            certificate: self.own.clone(),
            was_asked: Arc::clone(&was_asked),
        });
        Connecting {
            connector: TlsConnector::from(Arc::new(config)),
            was_asked,
            has_certificate: self.own.is_some(),
        }
    }
}

/// Parses a name or an IP address that a server's certificate can have.
pub fn server_name(name: &str) -> Option<ServerName<'static>> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(name.to_owned()).ok()
}

/// Authorities that may have issued a server's certificate: the certificates of a file, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is missing, or contains something that is no authority's certificate.
    pub fn read(file: &Path) -> Result<Authorities, FileError> {
        let file = File::read(Purpose::Authorities, file);
        file.authorities()?;
        file.certificates().map(Authorities)
    }

    /// Returns the authorities as rustls takes them.
    pub fn store(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        // `read` has checked each certificate, so none is refused here.
        store.add_parsable_certificates(self.0.iter().cloned());
        store
    }
}

/// Returns the authorities that browsers trust.
pub fn public_authorities() -> RootCertStore {
    webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()
}

/// Returns the TLS of a client of HTTP/1.1 that trusts only these authorities; with `None`, those that browsers trust.
pub fn http_client(authorities: Option<&Authorities>) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.unwrap_or_else(|_| unreachable!("ring has ciphers of each version"));
    let mut config = builder
        .with_root_certificates(authorities.map_or_else(public_authorities, Authorities::store))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    Arc::new(config)
}
