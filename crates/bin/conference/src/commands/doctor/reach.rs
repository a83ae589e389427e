//! Checks the way to the service: the service's name, TCP, TLS, and the service's certificate.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use command_line::findings::Finding;
use http::Uri;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use tls::{Authorities, Trouble, Validity, utc};

use super::{duration, now_s};
use crate::failure::Failure;
use crate::files;

/// How long a connection, and each step of a handshake, may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A certificate that ends within this time should be renewed now: programs that renew certificates automatically do so
/// a month before the end.
const CERTIFICATE_LEFT_S: u64 = 14 * 86_400;

/// Where the service is.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) url: String,
    pub(super) is_https: bool,
    host: String,
    port: u16,
}

impl Target {
    pub(super) fn of(url: &str) -> Result<Target, Failure> {
        let bad = || {
            Failure::new(format!(
                "--service {url}: expected http://HOST:PORT or https://HOST:PORT"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let (is_https, usual_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(bad()),
        };
        let host = uri.host().filter(|it| !it.is_empty()).ok_or_else(bad)?;
        Ok(Target {
            url: url.trim_end_matches('/').to_owned(),
            is_https,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(usual_port),
        })
    }
}

/// Connects to the first address that accepts a connection.
pub(super) fn connect(target: &Target, findings: &mut Vec<Finding>) -> Option<TcpStream> {
    let Target { host, port, .. } = target;
    let addresses: Vec<SocketAddr> = match (host.as_str(), *port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            let found = format!("{host} has no address: {}", files::why(&error));
            let advice = "mend the name, or ask who runs the name server (/etc/resolv.conf)";
            findings.push(Finding::unusable("name", found, advice));
            return None;
        }
    };
    let mut refused = Vec::new();
    for address in addresses {
        let began = Instant::now();
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                // Another address works, so the addresses that refuse only cost time.
                let others = refused.into_iter();
                findings
                    .extend(others.map(|(found, advice)| Finding::advice("TCP", found, advice)));
                let took_ms = began.elapsed().as_secs_f64() * 1e3;
                findings.push(Finding::ok("TCP", format!("{address} in {took_ms:.1} ms")));
                return Some(stream);
            }
            Err(error) => refused.push((
                format!("{address}: {}", files::why(&error)),
                advice_for(&error),
            )),
        }
    }
    let all = refused.into_iter();
    findings.extend(all.map(|(found, advice)| Finding::unusable("TCP", found, advice)));
    None
}

fn advice_for(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there, or a firewall refuses: is the service running, and does its `listen` name an address that this machine reaches?"
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "nobody answers: the host is away, or a firewall on the way drops what is sent there"
        }
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "there is no way: `ip route get ADDRESS` says which one this machine knows"
        }
        io::ErrorKind::PermissionDenied => "this machine's own firewall forbids it",
        _ => "look at this machine's network",
    }
}

/// Verifies a certificate as usual, and remembers it whether it is valid or not.
#[derive(Debug)]
struct Remembering {
    verifier: Arc<WebPkiServerVerifier>,
    certificate: Mutex<Option<CertificateDer<'static>>>,
}

impl ServerCertVerifier for Remembering {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let remembered = self.certificate.lock();
        *remembered.unwrap_or_else(PoisonError::into_inner) = Some(end_entity.clone().into_owned());
        let verifier = &self.verifier;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.verifier;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.verifier;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Checks by a TLS handshake whether the service proves who it is. Reports when the service's certificate ends, even if
/// the handshake fails.
pub(super) fn handshake(
    mut stream: TcpStream,
    target: &Target,
    authorities: Option<&Authorities>,
    findings: &mut Vec<Finding>,
) -> bool {
    let (certificate, shaken) = match shake(&mut stream, target, authorities) {
        Ok(done) => done,
        Err(what) => {
            let advice = "give a file with the authority that signed the service's certificate";
            findings.push(Finding::unusable("TLS", what, advice));
            return false;
        }
    };
    if let Err(error) = &shaken {
        let (found, advice) = explained(error);
        findings.push(Finding::unusable("TLS", found, advice));
    } else {
        findings.push(Finding::ok(
            "TLS",
            format!("it proves to be {}", target.host),
        ));
    }
    if let Some(certificate) = certificate {
        findings.push(match Validity::of(&certificate) {
            Ok(validity) => end_of(validity, now_s()),
            Err(what) => Finding::unusable("certificate", format!("it {what}"), "make another one"),
        });
    }
    shaken.is_ok()
}

type Shaken = (Option<CertificateDer<'static>>, io::Result<()>);

/// Makes a TLS handshake. Returns the certificate, if the service has sent it, and how the handshake ended. If the
/// handshake could not begin, returns why.
fn shake(
    stream: &mut TcpStream,
    target: &Target,
    authorities: Option<&Authorities>,
) -> Result<Shaken, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let name = tls::server_name(&target.host)
        .ok_or_else(|| format!("{} is no name that a certificate can have", target.host))?;
    let store = Arc::new(authorities.map_or_else(tls::public_authorities, Authorities::store));
    let verifier = WebPkiServerVerifier::builder_with_provider(store, Arc::clone(&provider))
        .build()
        .map_err(|error| format!("the authorities cannot be used: {error}"))?;
    let remembering = Arc::new(Remembering {
        verifier,
        certificate: Mutex::new(None),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::<Remembering>::clone(&remembering))
        .with_no_client_auth();
    let mut connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let mut shaken = stream
        .set_read_timeout(Some(TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
    while shaken.is_ok() && connection.is_handshaking() {
        shaken = connection.complete_io(stream).map(drop);
    }
    let remembered = remembering.certificate.lock();
    let certificate = remembered.unwrap_or_else(PoisonError::into_inner).take();
    Ok((certificate, shaken))
}

fn explained(error: &io::Error) -> (String, &'static str) {
    let found = |what: &str| what.to_owned();
    match Trouble::of(error) {
        Some(Trouble::UnknownIssuer) => (
            found("no authority that programs trust by themselves has signed its certificate"),
            "--ca FILE with the authority, as for `reprise join`; or a certificate of a public authority",
        ),
        Some(Trouble::OtherName { found, expected }) => {
            let names = if found.is_empty() {
                "no name at all".to_owned()
            } else {
                found.join(", ")
            };
            (
                format!("its certificate is of {names}, not of {expected}"),
                "use a name of the certificate in the URL",
            )
        }
        Some(Trouble::OutOfTime(what)) => (
            format!("its certificate {what}"),
            "renew the certificate, or mend this machine's clock",
        ),
        Some(Trouble::Plaintext) => (
            found("it does not speak TLS"),
            "http:// in place of https://, or [tls] in the service's file",
        ),
        Some(other) => (other.to_string(), "look at the service's log"),
        None => (
            format!("the handshake broke off: {}", files::why(error)),
            "a proxy or firewall in between, or another program on this port",
        ),
    }
}

/// The finding about the end of a certificate. `now_s` is the time now, in seconds since 1970.
fn end_of(validity: Validity, now_s: i64) -> Finding {
    let what = "certificate";
    let end_s = validity.not_after.as_secs();
    let now_s = u64::try_from(now_s).unwrap_or(0);
    let at = utc(validity.not_after);
    if end_s < now_s {
        let found = format!("ended {} ago, on {at}", duration(now_s - end_s));
        return Finding::unusable(what, found, "renew it");
    }
    let found = format!("ends in {}, on {at}", duration(end_s - now_s));
    if end_s - now_s < CERTIFICATE_LEFT_S {
        return Finding::advice(what, found, "renew it: hosts cannot join afterwards");
    }
    Finding::ok(what, found)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use command_line::findings::Level;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{ServerConfig, ServerConnection};
    use testkit::certificates::{Authority, Good, Issued};

    use super::*;

    #[test]
    fn an_address_has_scheme_host_and_port() {
        let target = Target::of("https://sfu.example.org/").expect("an address");
        assert_eq!(
            (target.host.as_str(), target.port),
            ("sfu.example.org", 443)
        );
        let target = Target::of("http://[::1]:8080").expect("an address");
        assert_eq!((target.host.as_str(), target.port), ("::1", 8080));
        for wrong in ["sfu.example.org", "ftp://a", "http://", "a b"] {
            let failure = Target::of(wrong).expect_err(wrong);
            assert!(failure.to_string().contains("http://HOST:PORT"));
        }
    }

    #[test]
    fn a_certificate_that_ends_soon_is_to_be_renewed() {
        let at = |end_s| {
            let validity = Validity {
                not_before: Duration::ZERO,
                not_after: Duration::from_secs(end_s),
            };
            end_of(validity, 1_000_000)
        };
        assert_eq!(at(999_000).level, Level::Unusable);
        assert_eq!(at(1_000_000 + 86_400).level, Level::Advice);
        let later = at(1_000_000 + 40 * 86_400);
        assert_eq!(later.level, Level::Ok);
        assert!(later.found.starts_with("ends in 40 days, on 1970-02-"));
    }

    /// Starts a server with this certificate, which takes part in one TLS handshake. Returns the server's port.
    fn serve_once(issued: &Issued) -> u16 {
        let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut connection = ServerConnection::new(Arc::new(config)).expect("a connection");
            // The client may refuse the certificate.
            let _ = connection.complete_io(&mut stream);
        });
        port
    }

    fn looked_at(issued: &Issued, authorities: Option<&Authorities>) -> Vec<Finding> {
        let port = serve_once(issued);
        let target = Target::of(&format!("https://localhost:{port}")).expect("an address");
        let mut findings = Vec::new();
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        handshake(stream, &target, authorities, &mut findings);
        findings
    }

    #[test]
    fn the_end_of_a_certificate_is_found_also_if_nobody_trusts_it() {
        let authority = Authority::new("test");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(authority.pem().as_bytes()).expect("written");
        let of_file = Authorities::read(file.path()).expect("authorities");
        let issued = authority.issue(&["localhost"], Good::Now);
        let levels = |authorities: Option<&Authorities>| {
            let findings = looked_at(&issued, authorities);
            findings
                .iter()
                .map(|it| (it.what, it.level))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            levels(Some(&of_file)),
            [("TLS", Level::Ok), ("certificate", Level::Ok)]
        );
        assert_eq!(
            levels(None),
            [("TLS", Level::Unusable), ("certificate", Level::Ok)]
        );
        let other = looked_at(&authority.issue(&["other"], Good::Now), Some(&of_file));
        assert_eq!(
            other[0].found,
            "its certificate is of other, not of localhost"
        );
    }
}
