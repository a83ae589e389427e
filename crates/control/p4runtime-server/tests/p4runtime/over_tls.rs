//! TLS: which clients the server accepts, which it refuses, and that refused clients delay no other client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{CapabilitiesRequest, Uint128, WriteRequest};
use p4runtime_server::limits::CONNECTIONS_MAX;
use tempfile::TempDir;
use testkit::certificates::{Authority, Files, Good, write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::harness::{Controller, DEVICE_ID, Harness, in_time, update};
use crate::registers::cell;

/// The server's timeout for a handshake: longer than a handshake takes on a busy machine.
const HANDSHAKE: Duration = Duration::from_secs(4);

const HERE: &[&str] = &["localhost", "127.0.0.1"];

/// A server with a certificate, and the authority that issued it. Makes clients of the server.
struct Secured {
    harness: Harness,
    folder: TempDir,
    authority: Authority,
    server: Files,
}

impl Secured {
    /// Starts a server that requires client certificates.
    async fn start() -> Secured {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("the one");
        let server = authority.issue(HERE, Good::Now);
        let server = server.write(folder.path(), "server");
        let tls = tls::Server::open(tls::ServerFiles {
            certificate: server.certificate.clone(),
            key: server.key.clone(),
            client_authorities: Some(authority.write(folder.path(), "ca.pem")),
        });
        Secured {
            harness: Harness::with_tls(tls.unwrap(), HANDSHAKE).await,
            folder,
            authority,
            server,
        }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Writes the files of a client certificate that `authority` issues.
    fn identity(&self, authority: &Authority, good: Good) -> Files {
        let issued = authority.issue(&[], good);
        issued.write(self.folder.path(), "client")
    }

    fn client(&self, identity: Option<&Files>) -> tls::Client {
        let identity = identity.map(|files| (files.certificate.clone(), files.key.clone()));
        let authorities = self.ca();
        tls::Client::open(&tls::ClientFiles {
            authorities,
            identity,
        })
        .unwrap()
    }

    async fn channel(&self, identity: Option<&Files>) -> Channel {
        channel(self.harness.address, self.client(identity)).await
    }

    async fn good_channel(&self) -> Channel {
        let identity = self.identity(&self.authority, Good::Now);
        self.channel(Some(&identity)).await
    }
}

/// A TLS connection that is made on first use.
async fn channel(address: SocketAddr, client: tls::Client) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect_with_connector_lazy(Connector { address, client })
}

struct Connector {
    address: SocketAddr,
    client: tls::Client,
}

type Connecting = Pin<Box<dyn Future<Output = std::io::Result<Io>> + Send>>;
type Io = hyper_util::rt::TokioIo<TlsStream<TcpStream>>;

impl tonic::codegen::Service<tonic::codegen::http::Uri> for Connector {
    type Response = Io;
    type Error = std::io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: tonic::codegen::http::Uri) -> Connecting {
        let (address, connecting) = (self.address, self.client.connecting());
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            let name = tls::server_name("localhost").unwrap();
            let stream = connecting.connector.connect(name, stream).await?;
            Ok(hyper_util::rt::TokioIo::new(stream))
        })
    }
}

async fn capabilities(channel: &Channel) -> Result<(), Status> {
    let mut client = P4RuntimeClient::new(channel.clone());
    let call = client.capabilities(CapabilitiesRequest::default());
    in_time(call).await.map(drop)
}

// spec: tls.mutual
#[tokio::test]
async fn only_those_with_a_certificate_of_the_authority_are_let_in() {
    let secured = Secured::start().await;
    capabilities(&secured.good_channel().await).await.unwrap();
    let stranger = Authority::new("another");
    let of_another = secured.identity(&stranger, Good::Now);
    let refused = capabilities(&secured.channel(Some(&of_another)).await).await;
    expect_no_connection(&refused.unwrap_err());
    let refused = capabilities(&secured.channel(None).await).await;
    expect_no_connection(&refused.unwrap_err());
    // The certificate was valid once. The client does not check it, the server does.
    let expired = secured.authority.issue(&[], Good::UntilLongAgo);
    let expired = raw_client(&secured, &expired);
    let refused = speak(secured.harness.address, expired).await;
    assert!(refused.is_err(), "{refused:?}");
    secured.harness.stop().await;
}

/// Checks that the client itself reports a failed connection: a server's status would have no source.
fn expect_no_connection(status: &Status) {
    let codes = [Code::Unavailable, Code::Unknown];
    assert!(codes.contains(&status.code()), "{status:?}");
    assert!(std::error::Error::source(status).is_some(), "{status:?}");
}

/// Makes a client that presents the given certificate, even if it is not valid.
fn raw_client(
    secured: &Secured,
    shown: &testkit::certificates::Issued,
) -> tokio_rustls::TlsConnector {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(secured.authority.pem().as_bytes());
    roots.add(authority.unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(shown.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = config
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    tokio_rustls::TlsConnector::from(Arc::new(config))
}

/// Connects with TLS, and returns the first byte that the server sends after the handshake.
async fn speak(address: SocketAddr, tls: tokio_rustls::TlsConnector) -> std::io::Result<u8> {
    let stream = TcpStream::connect(address).await?;
    let name = tls::server_name("localhost").unwrap();
    let mut stream = in_time(tls.connect(name, stream)).await?;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await?;
    in_time(stream.read_u8()).await
}

// spec: tls.only
#[tokio::test]
async fn whoever_speaks_plain_http_is_answered_and_let_in_nowhere() {
    let secured = Secured::start().await;
    let url = format!("http://{}", secured.harness.address);
    let channel = Endpoint::from_shared(url).unwrap().connect_lazy();
    capabilities(&channel).await.unwrap_err();
    let mut stream = TcpStream::connect(secured.harness.address).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    in_time(stream.read_to_end(&mut answer)).await.unwrap();
    // The server sends a TLS alert (RFC 8446, section 6) and closes the connection.
    assert_eq!(answer[..2], [21, 3], "{answer:?}");
    capabilities(&secured.good_channel().await).await.unwrap();
    secured.harness.stop().await;
}

// spec: tls.arbitration
#[tokio::test]
async fn nobody_without_a_certificate_becomes_primary_or_writes_beside_one_who_has() {
    let secured = Secured::start().await;
    let good = secured.good_channel().await;
    let mut primary = Harness::primary_over(&good).await;
    primary.modify(cell(3, &[1])).await;
    // Clients without a certificate of the authority write with the primary's own election id, and with a higher
    // election id.
    let stranger = Authority::new("another");
    let of_another = secured.identity(&stranger, Good::Now);
    for identity in [None, Some(&of_another)] {
        let channel = secured.channel(identity).await;
        for low in [1, 100] {
            let request = WriteRequest {
                device_id: DEVICE_ID,
                election_id: Some(Uint128 { high: 0, low }),
                updates: vec![update(Type::Modify, cell(3, &[66]))],
                ..Default::default()
            };
            let mut client = P4RuntimeClient::new(channel.clone());
            let written = in_time(client.write(request)).await;
            expect_no_connection(&written.unwrap_err());
            let opened = Controller::over(client).await.map(drop);
            expect_no_connection(&opened.unwrap_err());
        }
    }
    primary.modify(cell(4, &[2])).await;
    assert_eq!(crate::registers::read_cell(&mut primary, 3).await, [1]);
    drop((primary, good));
    secured.harness.stop().await;
}

// spec: tls.handshakes
#[tokio::test]
async fn handshakes_that_stop_anywhere_hold_up_nobody() {
    let secured = Secured::start().await;
    let address = secured.harness.address;
    let hello = client_hello(&secured).await;
    let good = secured.good_channel().await;
    let mut primary = Harness::primary_over(&good).await;
    let mut strangers = Vec::new();
    for n in 0..CONNECTIONS_MAX * 2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let n_bytes = n % (hello.len() + 1);
        // Fails for connections that were closed to make room.
        let _ = stream.write_all(&hello[..n_bytes]).await;
        if n % 3 == 0 {
            let _ = stream.shutdown().await;
        }
        strangers.push(stream);
        if n % 64 == 0 {
            let value = u8::try_from(n / 64 + 1).unwrap();
            primary.modify(cell(3, &[value])).await;
            capabilities(&secured.good_channel().await).await.unwrap();
        }
    }
    // The other connections are closed too, even if their clients only wait.
    let began = Instant::now();
    for mut stranger in strangers {
        let mut rest = Vec::new();
        let closed = stranger.read_to_end(&mut rest);
        let _ = in_time(closed).await;
    }
    assert!(began.elapsed() < HANDSHAKE + Duration::from_secs(120));
    capabilities(&good).await.unwrap();
    drop((primary, good));
    secured.harness.stop().await;
}

/// A complete ClientHello.
async fn client_hello(secured: &Secured) -> Vec<u8> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = secured.client(None).connecting();
    let connecting = tokio::spawn(async move {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = tls::server_name("localhost").unwrap();
        connecting.connector.connect(name, stream).await.map(drop)
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = [0; 5];
    stream.read_exact(&mut head).await.unwrap();
    let mut hello = head.to_vec();
    let n_bytes = u16::from_be_bytes([head[3], head[4]]);
    hello.resize(head.len() + usize::from(n_bytes), 0);
    stream.read_exact(&mut hello[head.len()..]).await.unwrap();
    drop(stream);
    connecting.await.unwrap().unwrap_err();
    hello
}

// spec: tls.renewal
#[tokio::test]
async fn a_certificate_is_renewed_without_a_call_that_is_lost() {
    let secured = Arc::new(Secured::start().await);
    let is_over = Arc::new(AtomicBool::new(false));
    let n_calls = Arc::new(AtomicUsize::new(0));
    let of_one = {
        let (over, n_calls) = (Arc::clone(&is_over), Arc::clone(&n_calls));
        let channel = secured.good_channel().await;
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                capabilities(&channel).await.unwrap();
                n_calls.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let of_new_ones = {
        let (over, secured) = (Arc::clone(&is_over), Arc::clone(&secured));
        let identity = secured.identity(&secured.authority, Good::Now);
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let channel = secured.channel(Some(&identity)).await;
                capabilities(&channel).await.unwrap();
            }
        })
    };
    let former = leaf(&secured).await;
    let before = n_calls.load(Ordering::Relaxed);
    // Writes one file and then the other, as renewal tools do.
    let next = secured.authority.issue(HERE, Good::Now);
    write(secured.server.certificate.clone(), &next.certificate);
    write(secured.server.key.clone(), &next.key);
    in_time(async {
        while leaf(&secured).await == former {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(n_calls.load(Ordering::Relaxed) > before);
    is_over.store(true, Ordering::Relaxed);
    of_one.await.unwrap();
    of_new_ones.await.unwrap();
}

/// Returns the certificate that the server presents.
async fn leaf(secured: &Secured) -> Vec<u8> {
    let connecting = secured.client(None).connecting();
    let stream = TcpStream::connect(secured.harness.address).await.unwrap();
    let name = tls::server_name("localhost").unwrap();
    let stream = in_time(connecting.connector.connect(name, stream)).await;
    let stream = stream.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap();
    shown[0].to_vec()
}
