//! Makes certificate authorities for tests, and files with certificates from these authorities.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// An X.509 version 1 certificate, made by `openssl x509 -req -signkey` of OpenSSL 3.0, valid until 2109.
pub const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJDCBywIURdpBWFivE60hkXKnLHKBOW6bLiswCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNTE2MjAwNloYDzIxMDkwMTE0MTYyMDA2
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAT532JTJ2awazJgkQQOgBcbmZaeOowUkL1y+OBukaGYq8pm5G5Hn3GsF7laRp3M
Sw7niQMhwQFrRh+Yk7qNxQqpMAoGCCqGSM49BAMCA0gAMEUCIHRvzsWeAXhJFOD3
hb87nZjUPIzg5CQOW/3lJ5nxtHYXAiEA2RoVBH9VOGU3BzwwM3ko7Jy64NLwqRlu
LGmL6M6P/Lw=
-----END CERTIFICATE-----
";

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key: String,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Good {
    Now,
    UntilLongAgo,
    FromFarAhead,
    /// The validity ends before it begins, as with `openssl x509 -days -1`.
    Never,
    /// The validity begins two or three seconds in the future.
    Soon,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut about = CertificateParams::new(Vec::new()).expect("no names");
        about.distinguished_name.push(DnType::CommonName, name);
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        about.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = about.self_signed(&key).expect("a certificate").pem();
        let key_pem = key.serialize_pem();
        Authority {
            issuer: Issuer::new(about, key),
            pem,
            key: key_pem,
        }
    }

    pub fn key(&self) -> String {
        self.key.clone()
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for these names, which are host names or IP addresses.
    pub fn issue(&self, names: &[&str], good: Good) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut about = CertificateParams::new(names).expect("names of hosts");
        about.distinguished_name.push(DnType::CommonName, "a test");
        match good {
            Good::Now => {}
            Good::UntilLongAgo => about.not_after = date_time_ymd(2001, 2, 3),
            Good::FromFarAhead => about.not_before = date_time_ymd(2999, 1, 1),
            Good::Never => {
                about.not_before = SystemTime::now().into();
                about.not_after = (SystemTime::now() - Duration::from_secs(86_400)).into();
            }
            Good::Soon => {
                about.not_before = (SystemTime::now() + Duration::from_secs(3)).into();
            }
        }
        let certificate = about.signed_by(&key, &self.issuer);
        Issued {
            certificate: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
    }

    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder.join(name), &self.pem)
    }
}

impl Issued {
    /// Writes the files `NAME.pem` and `NAME.key`.
    pub fn write(&self, folder: &Path, name: &str) -> Files {
        Files {
            certificate: write(folder.join(format!("{name}.pem")), &self.certificate),
            key: write(folder.join(format!("{name}.key")), &self.key),
        }
    }
}

/// Replaces a file in one step, as tools that renew certificates do.
pub fn write(path: PathBuf, text: &str) -> PathBuf {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a file");
    // The switch warns about a key that other users can read.
    let owners = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&new, owners).expect("its own file");
    std::fs::rename(&new, &path).expect("its name");
    path
}
