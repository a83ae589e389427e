//! The client over TLS: the error of each failure has its reason, and what the user can do about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use p4runtime_client::{Client, ClientError, SwitchAddress, TlsFiles};
use tempfile::TempDir;
use testkit::certificates::{Authority, Files, Good};
use testkit::p4runtime::{self, DEVICE_ID};
use testkit::text::assert_has;
use tokio::net::TcpListener;

/// Serves at an address of the loopback interface, and returns this address.
async fn serve(tls: Option<tls::Server>) -> String {
    let (_, server) = p4runtime::server(1);
    p4runtime::serve(server.with_tls(tls)).await
}

struct Certificates {
    folder: TempDir,
    authority: Authority,
    ca: PathBuf,
}

impl Certificates {
    fn new() -> Certificates {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("the one");
        let ca = authority.write(folder.path(), "ca.pem");
        Certificates {
            folder,
            authority,
            ca,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn server(&self, names: &[&str], client_authorities: Option<&Path>) -> tls::Server {
        let files = self.authority.issue(names, Good::Now);
        let files = files.write(self.path(), "server");
        tls::Server::open(tls::ServerFiles {
            certificate: files.certificate,
            key: files.key,
            client_authorities: client_authorities.map(Path::to_owned),
        })
        .expect("a server")
    }

    fn to(&self, address: &str, identity: Option<&Files>) -> SwitchAddress {
        let identity = identity.map(|files| (files.certificate.clone(), files.key.clone()));
        SwitchAddress {
            address: address.to_owned(),
            tls: Some(TlsFiles {
                authorities: self.ca.clone(),
                identity,
                server_name: None,
            }),
        }
    }
}

/// The result of a client's first call.
async fn called(switch: &SwitchAddress) -> Result<(), ClientError> {
    let mut client = Client::connect(switch, DEVICE_ID).await?;
    match client.p4info().await {
        // The switch reports that it has no program, so the call has reached the switch.
        Err(ClientError::NoPipeline) => Ok(()),
        other => other.map(drop),
    }
}

async fn said(switch: &SwitchAddress) -> String {
    called(switch).await.expect_err("refused").to_string()
}

#[tokio::test]
async fn a_client_and_a_switch_with_certificates_come_together() {
    let here = Certificates::new();
    let names = ["localhost", "127.0.0.1", "switch.example"];
    let address = serve(Some(here.server(&names, Some(&here.ca)))).await;
    let client = here.authority.issue(&[], Good::Now);
    let client = client.write(here.path(), "client");
    let by_address = here.to(&address, Some(&client));
    called(&by_address).await.expect("reached");
    let port = address.rsplit_once(':').expect("a port").1;
    let by_name = here.to(&format!("localhost:{port}"), Some(&client));
    called(&by_name).await.expect("reached");
    let mut by_another = by_address.clone();
    let tls = by_another.tls.as_mut().expect("TLS");
    tls.server_name = Some("switch.example".to_owned());
    called(&by_another).await.expect("reached");
    // The client becomes primary and writes, as without TLS.
    let mut client = Client::connect(&by_address, DEVICE_ID)
        .await
        .expect("a client");
    client.become_primary().await.expect("primary");
}

#[tokio::test]
async fn each_way_in_which_they_do_not_is_reported_with_the_next_step() {
    let here = Certificates::new();
    let names = ["localhost", "127.0.0.1"];
    let mutual = serve(Some(here.server(&names, Some(&here.ca)))).await;
    let one_sided = serve(Some(here.server(&names, None))).await;
    let elsewhere = serve(Some(here.server(&["switch.example"], None))).await;
    let plain = serve(None).await;
    called(&here.to(&one_sided, None)).await.expect("reached");
    let stranger = Authority::new("another");
    let of_another = stranger.issue(&[], Good::Now).write(here.path(), "other");
    let mut trusts_another = here.to(&one_sided, None);
    let tls = trusts_another.tls.as_mut().expect("TLS");
    tls.authorities = stranger.write(here.path(), "other-ca.pem");
    let mut by_a_wrong_name = here.to(&one_sided, None);
    let tls = by_a_wrong_name.tls.as_mut().expect("TLS");
    tls.server_name = Some("another.example".to_owned());
    let mut by_no_name = here.to(&one_sided, None);
    let tls = by_no_name.tls.as_mut().expect("TLS");
    tls.server_name = Some("not a name".to_owned());
    let mut without_a_file = here.to(&one_sided, None);
    let tls = without_a_file.tls.as_mut().expect("TLS");
    tls.authorities = here.path().join("missing.pem");
    for (switch, address, expected) in [
        (
            trusts_another,
            &one_sided,
            "of an authority that is not in --tls-ca",
        ),
        (
            here.to(&elsewhere, None),
            &elsewhere,
            "its certificate is of switch.example, not of 127.0.0.1: call the switch by a name of its certificate, or give one with --tls-server-name",
        ),
        (
            by_a_wrong_name,
            &one_sided,
            "its certificate is of localhost, 127.0.0.1, not of another.example",
        ),
        (
            here.to(&mutual, None),
            &mutual,
            "give one with --tls-cert and --tls-key",
        ),
        (
            here.to(&mutual, Some(&of_another)),
            &mutual,
            "refuses this client's certificate (of an authority that it does not know)",
        ),
        (
            here.to(&plain, None),
            &plain,
            "it does not speak TLS: leave --tls-ca out",
        ),
        (
            SwitchAddress::plain(&one_sided),
            &one_sided,
            "it speaks TLS only",
        ),
    ] {
        let said = said(&switch).await;
        assert!(said.contains(expected), "{switch:?}: {said}");
        assert!(said.contains(address), "{switch:?}: {said}");
    }
    let said_of_name = said(&by_no_name).await;
    assert_has(&said_of_name, "got \"not a name\"");
    let said_of_file = said(&without_a_file).await;
    assert_has(&said_of_file, "missing.pem: there is no such file");
}

#[tokio::test]
async fn a_switchs_certificate_that_has_expired_is_refused_with_the_day() {
    let here = Certificates::new();
    let expired = here.authority.issue(&["127.0.0.1"], Good::UntilLongAgo);
    let address = serve_raw(&expired).await;
    let said = said(&here.to(&address, None)).await;
    assert_has(&said, "expired on 2001-02-03 00:00:00 UTC");
    // A CA's certificate is not valid as the certificate of a server.
    let itself = testkit::certificates::Issued {
        certificate: here.authority.pem().to_owned(),
        key: here.authority.key(),
    };
    let address = serve_raw(&itself).await;
    let said = called(&here.to(&address, None)).await;
    let said = said.expect_err("refused").to_string();
    assert_has(&said, "an authority's (CA:TRUE)");
}

/// Serves one connection with a certificate that our own server would refuse to load.
async fn serve_raw(shown: &testkit::certificates::Issued) -> String {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};
    let certificate = CertificateDer::from_pem_slice(shown.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let chain = vec![certificate.expect("a certificate")];
    let config = config.with_single_cert(chain, key.expect("a key"));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.expect("a pair")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        // The client refuses the certificate.
        let _ = acceptor.accept(stream).await;
    });
    address
}
