//! PEM files: certificates, keys, and authorities, and what may be wrong with them.

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

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// One's own certificate, and those between it and its authority.
    Certificate,
    /// The private key of it.
    Key,
    /// The certificates of the authorities that the other side's certificate may be of.
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

/// What is wrong with a file, and the next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{purpose} {path}: {what}", path = path.display())]
pub struct FileError {
    purpose: Purpose,
    path: PathBuf,
    what: String,
    /// The certificate is not good yet: since 1970, from when on it is.
    pub(crate) good_from: Option<Duration>,
}

/// A file's bytes, or why it has none; two readings are compared.
pub(crate) type Content = Result<Vec<u8>, String>;

/// A file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) purpose: Purpose,
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

/// A certificate that can be shown, with its key.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) certified: CertifiedKey,
    /// Since 1970, when the certificate ends.
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

    /// All its certificates; one at least.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, FileError> {
        let bytes = self.bytes()?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
        let certificates =
            certificates.map_err(|error| self.error(format!("is damaged as PEM: {error}")))?;
        if certificates.is_empty() {
            let expected = "expected PEM with \"-----BEGIN CERTIFICATE-----\"";
            let advice = match has_pem(bytes) || bytes.is_empty() {
                true => "",
                false => "; `openssl x509 -inform der -in FILE` turns a binary one into PEM",
            };
            let found = found(bytes);
            return Err(self.error(format!("{expected}, found {found}{advice}")));
        }
        Ok(certificates)
    }

    /// Its private key.
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

    /// The authorities that it has; one at least.
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

/// What is said of a key that others than its owner and group can read or write; none where they cannot, or where the
/// file is not there.
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

/// Read or write, by anybody.
const OTHERS: u32 = 0o006;

impl Identity {
    /// Of a certificate's file and its key's, at a time since 1970.
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

/// From when and until when a certificate is good, since 1970.
struct Validity {
    not_before: Duration,
    not_after: Duration,
}

impl Validity {
    /// What the verifier says of the beginning and of the end of all time.
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
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
            // Where it was too late from the beginning of all time, webpki has found the dates in disorder.
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

/// Why a certificate is none that can be shown.
fn unusable(error: &Error) -> String {
    match is_of_version_1(error) {
        true => VERSION_1.to_owned(),
        false => format!("cannot be used: {error}"),
    }
}

/// What `openssl x509 -req` makes where it is given no extensions, in OpenSSL 3.0 and before.
pub(crate) const VERSION_1: &str = "is of X.509 version 1, expected version 3: make it with extensions (`openssl x509 -req -extfile FILE`, with subjectAltName in the file)";

/// rustls has no word of its own for it, and webpki's is behind another.
pub(crate) fn is_of_version_1(error: &dyn fmt::Debug) -> bool {
    format!("{error:?}").contains("UnsupportedCertVersion")
}

/// Whether there is anything in it that PEM has a word for.
fn has_pem(bytes: &[u8]) -> bool {
    let mut sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes);
    sections.any(|section| section.is_ok())
}

/// What there is in place of what was expected.
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

/// As `openssl` writes keys with a password, in PKCS #8 and before it.
fn is_encrypted(bytes: &[u8]) -> bool {
    let has = |words: &[u8]| bytes.windows(words.len()).any(|window| window == words);
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}
