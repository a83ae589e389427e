//! Makes a switch's files for TLS, and clients that the switch accepts or refuses. TLS sessions are never resumed, so
//! each connection makes a full handshake.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use rustls::client::{ClientConnection, Resumption};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use testkit::certificates::{Authority, Files, Good, Issued};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::Result;
use crate::process::Place;

const SWITCH_NAMES: &[&str] = &["localhost", "127.0.0.1"];
/// The name of HTTP/2 in ALPN.
const ALPN_HTTP2: &[u8] = b"h2";
/// The versions of TLS that a switch supports.
pub const VERSIONS: [&SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

/// A switch's certificate authority and files, and another authority, which the switch does not trust.
pub struct Secure {
    /// The folder is removed when the value is dropped.
    _folder: TempDir,
    authority: Authority,
    other: Authority,
    files: Files,
    client_authorities: PathBuf,
}

/// The certificate that a client shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// A valid certificate from the switch's authority.
    Good,
    Nothing,
    /// A certificate from an authority that the switch does not trust.
    Strangers,
    Expired,
    /// A certificate that is not valid yet.
    Early,
}

impl Shows {
    /// The certificates that a switch with mutual TLS refuses.
    pub const WRONG: [Self; 4] = [Self::Nothing, Self::Strangers, Self::Expired, Self::Early];
}

#[derive(Debug, Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Secure {
    /// Writes the files to a temporary folder.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("control-bench");
        let issued = authority.issue(SWITCH_NAMES, Good::Now);
        Ok(Self {
            files: issued.write(folder.path(), "switch"),
            client_authorities: authority.write(folder.path(), "authorities.pem"),
            other: Authority::new("a stranger"),
            authority,
            _folder: folder,
        })
    }

    /// Returns the switch's command-line options for mutual TLS.
    pub fn switch_options(&self) -> Vec<String> {
        let options = [
            ("--tls-cert", &self.files.certificate),
            ("--tls-key", &self.files.key),
            ("--tls-client-ca", &self.client_authorities),
        ];
        let words = options
            .into_iter()
            .flat_map(|(name, file)| [name.to_owned(), file.display().to_string()]);
        words.collect()
    }

    /// Makes a client that trusts the switch.
    ///
    /// # Errors
    /// The TLS library does not support a version.
    pub fn client(
        &self,
        shows: Shows,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Client> {
        client(&self.authority, self.shown(shows).as_ref(), versions)
    }

    /// Makes a client that has a valid certificate but does not trust the switch.
    ///
    /// # Errors
    /// The TLS library does not support a version.
    pub fn distrusting(&self, versions: &[&'static SupportedProtocolVersion]) -> Result<Client> {
        client(&self.other, self.shown(Shows::Good).as_ref(), versions)
    }

    fn shown(&self, shows: Shows) -> Option<Issued> {
        Some(match shows {
            Shows::Good => self.authority.issue(&[], Good::Now),
            Shows::Nothing => return None,
            Shows::Strangers => self.other.issue(&[], Good::Now),
            Shows::Expired => self.authority.issue(&[], Good::UntilLongAgo),
            Shows::Early => self.authority.issue(&[], Good::FromFarAhead),
        })
    }
}

fn client(
    trusts: &Authority,
    shown: Option<&Issued>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Client> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusts.pem().as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions)?;
    let builder = builder.with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())?;
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
            builder.with_client_auth_cert(vec![certificate], key)?
        }
    };
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Client {
        config: Arc::new(config),
    })
}

impl Client {
    /// Returns the client's ClientHello, without a connection.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn hello(&self, place: Place) -> Result<Vec<u8>> {
        let name = ServerName::from(place.grpc().ip());
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name)?;
        let mut hello = Vec::new();
        connection.write_tls(&mut hello)?;
        Ok(hello)
    }

    /// Makes a handshake. In TLS 1.3 the switch may still refuse the client afterwards, since the switch verifies the
    /// client's certificate last.
    ///
    /// # Errors
    /// The switch refuses the client, or the client does not trust the switch.
    pub async fn shake_hands(&self, place: Place) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(place.grpc()).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector
            .connect(ServerName::from(place.grpc().ip()), stream)
            .await
    }

    /// Opens a connection for calls.
    ///
    /// # Errors
    /// The switch does not accept the connection, or refuses the client.
    pub async fn connect(&self, place: Place) -> Result<Channel> {
        // The connector adds TLS, so tonic must not add TLS.
        let endpoint = Endpoint::from_shared(format!("http://{}", place.grpc()))?;
        let endpoint = endpoint.origin(format!("https://{}", place.grpc()).parse()?);
        let (client, place) = (self.clone(), place);
        Ok(endpoint
            .connect_with_connector(Connector { client, place })
            .await?)
    }
}

#[derive(Clone)]
struct Connector {
    client: Client,
    place: Place,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { client, place } = self.clone();
        Box::pin(async move { client.shake_hands(place).await.map(TokioIo::new) })
    }
}
