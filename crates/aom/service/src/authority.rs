//! The service's certificate authority, which signs members' certificates. Its key is in the service's folder. The
//! certificates do not expire; the service accepts a certificate only if the service's state contains the certificate's
//! fingerprint.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aom_config::limits::MEMBER_FILE_VERSION;
use aom_config::member_file::{MemberFile, SERVICE_NAME};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use sha2::{Digest as _, Sha256};

use crate::members::Fingerprint;
use crate::service::Issue;

const FILE: &str = "authority.pem";

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file does not contain an authority's key and certificate. The error does not quote the file, since it may
    /// contain a key.
    #[error("{}: expected the private key and the certificate of the service's authority, PEM: put the right file back; without it every member needs a new file", path.display())]
    NoAuthority { path: PathBuf },
    #[error("making a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(String),
}

/// Signs the certificates of members and of the service.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    service: SocketAddr,
}

impl Authority {
    /// Opens the authority in the service's folder, or creates an authority if the folder has none. Member files
    /// contain `service` as the service's address.
    ///
    /// # Errors
    /// If the file cannot be read or created, or does not contain an authority's key and certificate.
    pub fn open(folder: &Path, service: SocketAddr) -> Result<Authority, AuthorityError> {
        let path = folder.join(FILE);
        let failed = |source| AuthorityError::Io {
            path: path.clone(),
            source,
        };
        let pem = match fs::read_to_string(&path) {
            Ok(pem) => pem,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pem = made()?;
                whole_file::write_private(&path, pem.as_bytes()).map_err(failed)?;
                pem
            }
            Err(error) => return Err(failed(error)),
        };
        let no_authority = || AuthorityError::NoAuthority { path: path.clone() };
        let key = KeyPair::from_pem(&pem).map_err(|_| no_authority())?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
        let certificate = certificate.map_err(|_| no_authority())?;
        let at = pem.find("-----BEGIN CERTIFICATE-----");
        let certificate_pem = at.and_then(|at| pem.get(at..)).ok_or_else(no_authority)?;
        Ok(Authority {
            issuer: Issuer::new(about_the_authority()?, key),
            certificate,
            certificate_pem: certificate_pem.to_owned(),
            service,
        })
    }

    /// Makes the listener's TLS configuration, with a new certificate of the service at each start. A client must show
    /// a certificate that this authority signed.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn server_config(&self) -> Result<rustls::ServerConfig, AuthorityError> {
        let tls = |error: &dyn std::fmt::Display| AuthorityError::Tls(error.to_string());
        let (key, certificate) = self.signed(
            vec![SERVICE_NAME.to_owned()],
            SERVICE_NAME,
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        let mut roots = RootCertStore::empty();
        let added = roots.add(self.certificate.clone());
        added.map_err(|error| tls(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| tls(&error))?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| tls(&error))?;
        rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| tls(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(|error| tls(&error))
    }

    fn signed(
        &self,
        names: Vec<String>,
        common_name: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(KeyPair, Certificate), AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut about = CertificateParams::new(names)?;
        about
            .distinguished_name
            .push(DnType::CommonName, common_name);
        about.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        about.extended_key_usages = vec![usage];
        let certificate = about.signed_by(&key, &self.issuer)?;
        Ok((key, certificate))
    }

    fn file_of(&self, group: &str, member: &str) -> Result<(String, Fingerprint), AuthorityError> {
        let (key, certificate) = self.signed(
            Vec::new(),
            &format!("{member}.{group}"),
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        let file = MemberFile {
            version: MEMBER_FILE_VERSION,
            group: group.to_owned(),
            member: member.to_owned(),
            service: self.service,
            authority: self.certificate_pem.clone(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        Ok((file.to_string(), fingerprint(certificate.der())))
    }
}

impl Issue for Authority {
    fn issue(&self, group: &str, member: &str) -> Result<(String, Fingerprint), String> {
        let issued = self.file_of(group, member);
        issued.map_err(|error| error.to_string())
    }
}

pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    Sha256::digest(certificate).into()
}

/// Makes the parameters of the authority's certificate. The authority's name must never change, since issued
/// certificates contain it.
fn about_the_authority() -> Result<CertificateParams, AuthorityError> {
    let mut about = CertificateParams::new(Vec::new())?;
    about.distinguished_name.push(
        DnType::CommonName,
        "the configuration service of an AOM sequencer",
    );
    about.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    about.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(about)
}

/// Creates a new authority, and returns its key and its certificate as PEM.
fn made() -> Result<String, AuthorityError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = about_the_authority()?.self_signed(&key)?;
    Ok(key.serialize_pem() + &certificate.pem())
}
