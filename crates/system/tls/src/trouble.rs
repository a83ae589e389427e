//! Explains TLS errors between a client and a server.

use std::fmt;
use std::io;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::date::utc;
use crate::files::{VERSION_1, is_of_version_1};

/// Why a client cannot talk to a server over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// None of the client's authorities has issued the server's certificate.
    UnknownIssuer,
    /// The certificate is for another name.
    OtherName {
        /// The name that the client expects.
        expected: String,
        /// The names of the certificate, as far as they could be read.
        found: Vec<String>,
    },
    /// The certificate has expired, or is not valid yet.
    OutOfTime(String),
    /// The certificate is an authority's, which a server may not present.
    Authority,
    /// The certificate cannot be used for another reason.
    Certificate(String),
    /// The server requests a certificate, and the client has none.
    NoCertificate,
    /// The server refuses the client's certificate.
    Refused(String),
    Plaintext,
    /// The server speaks TLS, and the client does not.
    Tls,
    Other(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::UnknownIssuer => f.write_str(
                "its certificate is of an authority that is not in --tls-ca: give the file of the authority that the switch's certificate (--tls-cert there) is of",
            ),
            Trouble::OtherName { expected, found } => {
                let found = if found.is_empty() {
                    "no name at all".to_owned()
                } else {
                    found.join(", ")
                };
                write!(
                    f,
                    "its certificate is of {found}, not of {expected}: call the switch by a name of its certificate, or give one with --tls-server-name"
                )
            }
            Trouble::OutOfTime(what) => {
                write!(f, "its certificate {what}: renew the switch's certificate, or look at the clocks")
            }
            Trouble::Authority => f.write_str(
                "its certificate is an authority's (CA:TRUE), which cannot be a server's too: make one for the server, with basicConstraints=CA:FALSE",
            ),
            Trouble::Certificate(what) => write!(f, "its certificate cannot be used: {what}"),
            Trouble::NoCertificate => f.write_str(
                "it asks for a client's certificate: give one with --tls-cert and --tls-key",
            ),
            Trouble::Refused(what) => write!(
                f,
                "it refuses this client's certificate ({what}): give one (--tls-cert) of an authority that the switch knows (--tls-client-ca there)"
            ),
            Trouble::Plaintext => f.write_str(
                "it does not speak TLS: leave --tls-ca out, or start the switch with --tls-cert and --tls-key",
            ),
            Trouble::Tls => f.write_str(
                "it speaks TLS only: give the file of its certificate's authority with --tls-ca",
            ),
            Trouble::Other(what) => f.write_str(what),
        }
    }
}

impl Trouble {
    /// Explains an error of a client's TLS; `None` if the error is not from TLS.
    pub fn of(error: &io::Error) -> Option<Trouble> {
        Some(match tls_error(error)? {
            Error::InvalidCertificate(error) => of_certificate(error),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Trouble::Plaintext,
            Error::AlertReceived(AlertDescription::CertificateRequired) => Trouble::NoCertificate,
            Error::AlertReceived(alert) if is_about_certificates(*alert) => {
                Trouble::Refused(words(*alert))
            }
            error => Trouble::Other(format!("TLS failed: {error}")),
        })
    }

    /// Explains the first bytes of a server to a client that speaks plain HTTP/2 and expects a SETTINGS frame: a TLS
    /// alert means that the server requires TLS.
    pub fn of_first_bytes(bytes: &[u8]) -> Option<Trouble> {
        const ALERT: u8 = 21;
        const MAJOR: u8 = 3;
        matches!(bytes, [ALERT, MAJOR, ..]).then_some(Trouble::Tls)
    }
}

fn of_certificate(error: &CertificateError) -> Trouble {
    let at = |time: &UnixTime| utc(std::time::Duration::from_secs(time.as_secs()));
    match error {
        CertificateError::UnknownIssuer => Trouble::UnknownIssuer,
        CertificateError::ExpiredContext { not_after, .. } => {
            Trouble::OutOfTime(format!("expired on {}", at(not_after)))
        }
        CertificateError::Expired => Trouble::OutOfTime("has expired".to_owned()),
        CertificateError::NotValidYetContext { not_before, .. } => {
            Trouble::OutOfTime(format!("is not valid before {}", at(not_before)))
        }
        CertificateError::NotValidYet => Trouble::OutOfTime("is not valid yet".to_owned()),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => Trouble::OtherName {
            expected: shown(expected),
            found: presented.iter().map(|name| plain(name)).collect(),
        },
        error if format!("{error:?}").contains("CaUsedAsEndEntity") => Trouble::Authority,
        error if is_of_version_1(error) => Trouble::Certificate(format!("it {VERSION_1}")),
        error => Trouble::Certificate(error.to_string()),
    }
}

fn shown(name: &ServerName<'_>) -> String {
    match name {
        ServerName::IpAddress(address) => std::net::IpAddr::from(*address).to_string(),
        name => name.to_str().into_owned(),
    }
}

/// Returns the plain name from a name in webpki's form: `localhost` from `DnsName("localhost")`.
fn plain(name: &str) -> String {
    let inner = name
        .split_once('(')
        .map(|(_, rest)| rest.trim_end_matches(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

/// Whether a server sends this alert because of a client's certificate (RFC 8446, section 6.2).
fn is_about_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn words(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "of an authority that it does not know".to_owned(),
        AlertDescription::CertificateExpired => "expired".to_owned(),
        AlertDescription::CertificateRevoked => "revoked".to_owned(),
        alert => format!("{alert:?}"),
    }
}

/// Explains for the server's log why a client was not accepted.
pub fn refused(error: &io::Error) -> String {
    let Some(found) = tls_error(error) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "it went away during the handshake".to_owned(),
            _ => error.to_string(),
        };
    };
    match found {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS".to_owned()
        }
        Error::NoCertificatesPresented => "it has shown no certificate".to_owned(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is of an authority that is not in the file of clients' authorities"
                .to_owned()
        }
        Error::InvalidCertificate(error) if is_of_version_1(error) => {
            format!("its certificate {VERSION_1}")
        }
        Error::InvalidCertificate(error) => format!("its certificate was refused: {error}"),
        Error::AlertReceived(alert) if is_about_certificates(*alert) => {
            format!(
                "it does not take this switch's certificate ({})",
                words(*alert)
            )
        }
        error => error.to_string(),
    }
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}
