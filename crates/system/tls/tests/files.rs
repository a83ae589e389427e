//! Files of a server and of a client: error messages name the file and the next step, and renewed files are used when
//! they are complete.
#![allow(
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test stops at what it did not expect; some are lists of cases"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::certificates::{Authority, Files, Good, VERSION_1, write};
use tls::{Client, ClientFiles, Renewal, Server, ServerFiles};

/// Timeout of a test for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(120);

const HERE: &[&str] = &["localhost", "127.0.0.1"];

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn server(files: &Files, authorities: Option<&Path>) -> ServerFiles {
    ServerFiles {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        client_authorities: authorities.map(Path::to_owned),
    }
}

fn said(files: ServerFiles) -> String {
    Server::open(files).expect_err("refused").to_string()
}

#[test]
fn each_file_that_cannot_be_used_is_named_with_what_to_do() {
    let folder = folder();
    let folder = folder.path();
    let authority = Authority::new("a");
    let good = authority.issue(HERE, Good::Now).write(folder, "good");
    let other = authority.issue(HERE, Good::Now).write(folder, "other");
    let expired = authority.issue(HERE, Good::UntilLongAgo);
    let expired = expired.write(folder, "expired");
    let never = authority.issue(HERE, Good::Never);
    let never = never.write(folder, "never");
    let early = authority.issue(HERE, Good::FromFarAhead);
    let early = early.write(folder, "early");
    let file = |name: &str, text: &str| write(folder.join(name), text);
    let empty = file("empty", "");
    let binary = file("binary", "\u{1}\u{2}\u{3}");
    let cut = fs::read_to_string(&good.certificate).expect("PEM");
    let cut = file("cut", &cut[..cut.len() / 2]);
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let encrypted = file("encrypted", encrypted);
    let missing = folder.join("missing");
    let of_version_1 = file("version-1", VERSION_1);
    let with = |certificate: &PathBuf, key: &PathBuf, authorities: Option<&PathBuf>| ServerFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_authorities: authorities.cloned(),
    };
    let (certificate, key) = (&good.certificate, &good.key);
    let not_its_key = format!("is not the key of certificate {}", certificate.display());
    for (files, file, what) in [
        (with(&missing, key, None), &missing, "there is no such file"),
        (
            with(certificate, &missing, None),
            &missing,
            "there is no such file",
        ),
        (
            with(certificate, key, Some(&missing)),
            &missing,
            "there is no such file",
        ),
        (
            with(&folder.to_owned(), key, None),
            &folder.to_owned(),
            "cannot be read",
        ),
        (
            with(&empty, key, None),
            &empty,
            "BEGIN CERTIFICATE-----\", found an empty file",
        ),
        (
            with(&binary, key, None),
            &binary,
            "found none; `openssl x509 -inform der",
        ),
        (with(&cut, key, None), &cut, "is damaged as PEM"),
        (
            with(key, key, None),
            key,
            "BEGIN CERTIFICATE-----\", found a private key",
        ),
        (
            with(certificate, certificate, None),
            certificate,
            "BEGIN PRIVATE KEY-----\", found a certificate",
        ),
        (
            with(certificate, &encrypted, None),
            &encrypted,
            "is encrypted with a password",
        ),
        (
            with(&of_version_1, key, None),
            &of_version_1,
            "is of X.509 version 1, expected version 3",
        ),
        (
            with(certificate, &other.key, None),
            &other.key,
            &not_its_key,
        ),
        (
            with(certificate, key, Some(key)),
            key,
            "found a private key",
        ),
        (
            with(&expired.certificate, &expired.key, None),
            &expired.certificate,
            "expired on 2001-02-03 00:00:00 UTC",
        ),
        (
            with(&never.certificate, &never.key, None),
            &never.certificate,
            "is never valid, since its end lies before its begin",
        ),
        (
            with(&early.certificate, &early.key, None),
            &early.certificate,
            "is not valid before 2999-01-01 00:00:00 UTC",
        ),
    ] {
        let said = said(files.clone());
        let file = file.display().to_string();
        assert!(
            said.contains(what) && said.contains(&file),
            "{files:?}: {said}"
        );
    }
}

#[test]
fn only_a_file_that_may_be_binary_is_advised_to_become_pem() {
    let folder = folder();
    let files = Authority::new("a").issue(HERE, Good::Now);
    let mut files = files.write(folder.path(), "good");
    files.certificate.clone_from(&files.key);
    let said = said(server(&files, None));
    assert!(said.ends_with("found a private key"), "{said}");
}

#[test]
fn a_clients_files_are_looked_at_alike() {
    let folder = folder();
    let authority = Authority::new("a");
    let authorities = authority.write(folder.path(), "ca.pem");
    let own = authority.issue(&[], Good::Now).write(folder.path(), "own");
    let other = authority.issue(&[], Good::Now);
    let other = other.write(folder.path(), "other");
    let files = |authorities: &Path, identity: Option<(&PathBuf, &PathBuf)>| ClientFiles {
        authorities: authorities.to_owned(),
        identity: identity.map(|(certificate, key)| (certificate.clone(), key.clone())),
    };
    let identity = Some((&own.certificate, &own.key));
    Client::open(&files(&authorities, identity)).expect("a client");
    Client::open(&files(&authorities, None)).expect("a client");
    let wrong = Client::open(&files(&own.key, None)).expect_err("refused");
    assert!(wrong.to_string().contains("found a private key"), "{wrong}");
    let identity = Some((&own.certificate, &other.key));
    let wrong = Client::open(&files(&authorities, identity)).expect_err("refused");
    assert!(wrong.to_string().contains("is not the key of"), "{wrong}");
}

#[test]
fn renewed_files_are_taken_when_they_are_whole() {
    let folder = folder();
    let authority = Authority::new("a");
    let issue = |name: &str| authority.issue(HERE, Good::Now).write(folder.path(), name);
    let files = issue("server");
    let server = Server::open(server(&files, None)).expect("a server");
    assert_eq!(server.renew(), Renewal::None);
    // The certificate comes first, its key later: files that are being written are not reported.
    let next = authority.issue(HERE, Good::Now);
    write(files.certificate.clone(), &next.certificate);
    assert_eq!(server.renew(), Renewal::None);
    write(files.key.clone(), &next.key);
    assert_eq!(server.renew(), Renewal::None);
    assert!(matches!(server.renew(), Renewal::Done(_)));
    assert_eq!(server.renew(), Renewal::None);
    // The server reports broken files once, and uses repaired files.
    write(files.key.clone(), "nothing");
    assert_eq!(server.renew(), Renewal::None);
    let broken = server.renew();
    assert!(
        matches!(&broken, Renewal::Broken(error) if error.to_string().contains("found none")),
        "{broken:?}"
    );
    assert_eq!(server.renew(), Renewal::None);
    fs::remove_file(&files.key).expect("a file");
    assert_eq!(server.renew(), Renewal::None);
    assert!(matches!(server.renew(), Renewal::Broken(_)));
    write(files.key.clone(), &next.key);
    assert_eq!(server.renew(), Renewal::None);
    assert!(matches!(server.renew(), Renewal::Done(_)));
    assert!(!server.is_expired());
}

#[test]
fn a_key_that_comes_much_later_than_its_certificate_is_taken_then() {
    let folder = folder();
    let authority = Authority::new("a");
    let files = authority
        .issue(HERE, Good::Now)
        .write(folder.path(), "server");
    let server = Server::open(server(&files, None)).expect("a server");
    let next = authority.issue(HERE, Good::Now);
    write(files.certificate.clone(), &next.certificate);
    assert_eq!(server.renew(), Renewal::None);
    // Certificate and key do not match, which is reported once.
    let broken = server.renew();
    assert!(
        matches!(&broken, Renewal::Broken(error) if error.to_string().contains("is not the key of")),
        "{broken:?}"
    );
    for _ in 0..5 {
        assert_eq!(server.renew(), Renewal::None);
    }
    write(files.key.clone(), &next.key);
    assert_eq!(server.renew(), Renewal::None);
    assert!(matches!(server.renew(), Renewal::Done(_)));
    assert_eq!(server.renew(), Renewal::None);
}

#[test]
fn authorities_that_are_half_written_are_not_taken_and_whole_ones_are() {
    let folder = folder();
    let authority = Authority::new("a");
    let authorities = authority.write(folder.path(), "ca.pem");
    let files = authority
        .issue(HERE, Good::Now)
        .write(folder.path(), "server");
    let server = Server::open(server(&files, Some(&authorities))).expect("a server");
    let both = [authority.pem(), Authority::new("b").pem()].concat();
    // The file grows in place between two readings.
    let (first, second) = (both.len() / 4, both.len() * 3 / 4);
    for length in [first, second] {
        fs::write(&authorities, &both[..length]).expect("a file");
        assert_eq!(server.renew(), Renewal::None);
    }
    // The writer has stopped within the second certificate.
    let broken = server.renew();
    let file = authorities.display().to_string();
    assert!(
        matches!(&broken, Renewal::Broken(error)
            if error.to_string().contains(&file) && error.to_string().contains("damaged as PEM")),
        "{broken:?}"
    );
    assert_eq!(server.renew(), Renewal::None);
    fs::write(&authorities, "").expect("a file");
    assert_eq!(server.renew(), Renewal::None);
    assert!(
        matches!(server.renew(), Renewal::Broken(_)),
        "nobody could come in"
    );
    fs::write(&authorities, &both).expect("a file");
    assert_eq!(server.renew(), Renewal::None);
    assert!(matches!(server.renew(), Renewal::Done(_)));
}

#[test]
fn a_renewed_certificate_that_is_not_good_yet_is_taken_when_it_is() {
    let folder = folder();
    let authority = Authority::new("a");
    let files = authority
        .issue(HERE, Good::Now)
        .write(folder.path(), "server");
    let server = Server::open(server(&files, None)).expect("a server");
    let next = authority.issue(HERE, Good::Soon);
    write(files.certificate.clone(), &next.certificate);
    write(files.key.clone(), &next.key);
    assert_eq!(server.renew(), Renewal::None);
    let early = server.renew();
    assert!(
        matches!(&early, Renewal::Broken(error) if error.to_string().contains("is not valid before")),
        "{early:?}"
    );
    // The error is reported once; then the certificate becomes valid.
    let began = Instant::now();
    let taken = loop {
        match server.renew() {
            Renewal::None => assert!(began.elapsed() < TIMEOUT, "it is not taken"),
            other => break other,
        }
        std::thread::yield_now();
    };
    assert!(matches!(taken, Renewal::Done(_)), "{taken:?}");
}
