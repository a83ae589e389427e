//! Reads PEM files with certificates, keys and authorities, and reports what is wrong with them.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};

use crate::date::utc;
use crate::provider;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The process's own certificate, followed by the intermediate certificates.
    Certificate,
    /// The private key of the certificate.
    Key,
    /// The authorities that may have issued the peer's certificate.
    Authorities,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Certificate => "certificate",
            Purpose::Key => "private key",
            Purpose::Authorities => "certificate authorities",
        })
    }
}

/// What is wrong with a file, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{purpose} {path}: {what}", path = path.display())]
pub struct FileError {
    purpose: Purpose,
    path: PathBuf,
    what: String,
    /// When the certificate becomes valid, since the Unix epoch; set if it is not valid yet.
    pub(crate) good_from: Option<Duration>,
}

/// A file's bytes, or why it could not be read. The server compares this with the previous reading.
pub(crate) type Content = Result<Vec<u8>, String>;

/// A file of the configuration, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) purpose: Purpose,
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) certified: CertifiedKey,
    /// When the certificate expires, since the Unix epoch.
    pub(crate) not_after: Duration,
}

impl File {
    pub(crate) fn read(purpose: Purpose, path: &Path) -> File {
        let content = std::fs::read(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            _ => format!("cannot be read: {error}"),
        });
        let path = path.to_owned();
        File {
            purpose,
            path,
            content,
        }
    }

    fn error(&self, what: impl Into<String>) -> FileError {
        FileError {
            purpose: self.purpose,
            path: self.path.clone(),
            what: what.into(),
            good_from: None,
        }
    }

    fn bytes(&self) -> Result<&[u8], FileError> {
        let content = self.content.as_deref();
        content.map_err(|what| self.error(what.clone()))
    }

    /// Returns all certificates of the file; at least one.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, FileError> {
        let bytes = self.bytes()?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
        let certificates =
            certificates.map_err(|error| self.error(format!("is damaged as PEM: {error}")))?;
        if certificates.is_empty() {
            let expected = "expected PEM with \"-----BEGIN CERTIFICATE-----\"";
            let advice = if has_pem(bytes) || bytes.is_empty() {
                ""
            } else {
                "; `openssl x509 -inform der -in FILE` turns a binary one into PEM"
            };
            let found = found(bytes);
            return Err(self.error(format!("{expected}, found {found}{advice}")));
        }
        Ok(certificates)
    }

    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, FileError> {
        let bytes = self.bytes()?;
        if is_encrypted(bytes) {
            return Err(self.error(
                "is encrypted with a password, which nobody could give: `openssl pkey -in FILE -out PLAIN` writes one without",
            ));
        }
        PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => self.error(format!(
                "expected PEM with \"-----BEGIN PRIVATE KEY-----\", found {}",
                found(bytes)
            )),
            error => self.error(format!("is damaged as PEM: {error}")),
        })
    }

    /// Returns the authorities of the file; at least one.
    pub(crate) fn authorities(&self) -> Result<RootCertStore, FileError> {
        let mut authorities = RootCertStore::empty();
        for (place, certificate) in self.certificates()?.into_iter().enumerate() {
            authorities.add(certificate).map_err(|error| {
                let n = place + 1;
                self.error(format!(
                    "certificate {n} of the file cannot be used: {error}"
                ))
            })?;
        }
        Ok(authorities)
    }
}

/// Returns a warning if users other than the owner and the group of a key's file can read or write it. `None` if they
/// cannot, or if there is no file.
pub fn key_open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let path = path.display();
    (mode & OTHERS != 0).then(|| {
        format!(
            "{} {path}: has mode {mode:03o}, so every user of this machine can take it: chmod 600 it, and make a new one if anybody may have read it",
            Purpose::Key
        )
    })
}

/// Read or write permission for all users.
const OTHERS: u32 = 0o006;

impl Identity {
    /// Checks a certificate and its key at a time since the Unix epoch.
    pub(crate) fn of(certificate: &File, key: &File, now: Duration) -> Result<Self, FileError> {
        let chain = certificate.certificates()?;
        let private = key.key()?;
        let Validity {
            not_before,
            not_after,
        } = Validity::of(&chain[0]).map_err(|what| certificate.error(what))?;
        if now > not_after {
            let what = format!("expired on {}: renew it", utc(not_after));
            return Err(certificate.error(what));
        }
        if now < not_before {
            let what = format!(
                "is not valid before {}, and here it is {}: look at the clock, or make another certificate",
                utc(not_before),
                utc(now)
            );
            return Err(FileError {
                good_from: Some(not_before),
                ..certificate.error(what)
            });
        }
        let signer = provider().key_provider.load_private_key(private);
        let signer = signer.map_err(|_| {
            key.error("is of no kind that can be used here: make an RSA, an ECDSA (P-256 or P-384) or an Ed25519 key")
        })?;
        let certified = CertifiedKey::new(chain, signer);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => {
                return Err(key.error(format!(
                    "is not the key of certificate {}: give the two that were made together",
                    certificate.path.display()
                )));
            }
            Err(error) => return Err(certificate.error(unusable(&error))),
        }
        Ok(Identity {
            certified,
            not_after,
        })
    }
}

/// When a certificate becomes valid and when it expires, since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Duration,
    pub not_after: Duration,
}

impl Validity {
    /// Lets the verifier check the certificate at the first and at the last possible time, and takes the dates from the
    /// errors that the verifier reports.
    ///
    /// # Errors
    /// The certificate cannot be used, or is never valid.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let parsed = ParsedCertificate::try_from(certificate).map_err(|error| unusable(&error))?;
        let at = |now: Duration| {
            let provider = provider();
            let verified = verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &RootCertStore::empty(),
                &[],
                UnixTime::since_unix_epoch(now),
                provider.signature_verification_algorithms.all,
            );
            match verified {
                Err(Error::InvalidCertificate(error)) => Some(error),
                _ => None,
            }
        };
        let not_before = match at(Duration::ZERO) {
            // If a certificate has expired at time 0, webpki has found its dates in the wrong order.
            Some(CertificateError::Expired) => return Err(ENDS_BEFORE_IT_BEGINS.to_owned()),
            Some(CertificateError::NotValidYetContext { not_before, .. }) => not_before.as_secs(),
            _ => 0,
        };
        let not_after = match at(Duration::from_secs(u64::MAX)) {
            Some(CertificateError::ExpiredContext { not_after, .. }) => not_after.as_secs(),
            _ => u64::MAX,
        };
        Ok(Validity {
            not_before: Duration::from_secs(not_before),
            not_after: Duration::from_secs(not_after),
        })
    }
}

const ENDS_BEFORE_IT_BEGINS: &str =
    "is never valid, since its end lies before its begin: make another certificate";

/// Why a certificate cannot be presented.
fn unusable(error: &Error) -> String {
    if is_of_version_1(error) {
        VERSION_1.to_owned()
    } else {
        format!("cannot be used: {error}")
    }
}

/// What is wrong with a certificate of X.509 version 1. `openssl x509 -req` of OpenSSL 3.0 and before makes
/// certificates of this version if no extensions are given.
pub(crate) const VERSION_1: &str = "is of X.509 version 1, expected version 3: make it with extensions (`openssl x509 -req -extfile FILE`, with subjectAltName in the file)";

/// Looks at the error's debug text, since rustls has no variant for this error and wraps the error of webpki.
pub(crate) fn is_of_version_1(error: &dyn fmt::Debug) -> bool {
    format!("{error:?}").contains("UnsupportedCertVersion")
}

/// Whether the bytes have a PEM section of a known kind.
fn has_pem(bytes: &[u8]) -> bool {
    let mut sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes);
    sections.any(|section| section.is_ok())
}

/// Describes the contents of a file that lacks what was expected.
fn found(bytes: &[u8]) -> String {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes);
    let kinds = sections.filter_map(|section| Some(section.ok()?.0));
    let kinds: Vec<&str> = kinds.map(name).collect();
    match (kinds.is_empty(), bytes.is_empty()) {
        (false, _) => kinds.join(", "),
        (true, true) => "an empty file".to_owned(),
        (true, false) => "none".to_owned(),
    }
}

fn name(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::Certificate => "a certificate",
        SectionKind::PublicKey => "a public key",
        SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey => {
            "a private key"
        }
        SectionKind::Crl => "a list of revoked certificates",
        SectionKind::Csr => "a request for a certificate",
        _ => "something else",
    }
}

/// Whether `openssl` has encrypted the key with a password, in PKCS #8 or the older format.
fn is_encrypted(bytes: &[u8]) -> bool {
    let has = |words: &[u8]| bytes.windows(words.len()).any(|window| window == words);
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}
