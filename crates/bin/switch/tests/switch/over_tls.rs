//! Tests P4Runtime over TLS, as a process serves it: accepted clients, log lines for refused clients, renewed
//! certificates, and metrics and Thrift beside P4Runtime.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use crate::p4runtime::address;
use crate::support::{Running, TemporaryFolder, error, http_get};
use p4runtime_client::{Client, ClientError, SwitchAddress, TlsFiles};
use testkit::certificates::{Authority, Files, Good, write};
use testkit::text::assert_has;

const HERE: &[&str] = &["localhost", "127.0.0.1"];

/// Number of connections whose handshake is never finished.
const N_STRANGERS: usize = 400;

struct Certificates {
    folder: TemporaryFolder,
    authority: Authority,
    ca: PathBuf,
    server: Files,
    client: Files,
}

impl Certificates {
    fn new(name: &str) -> Certificates {
        let folder = TemporaryFolder::new(name);
        let at = folder.path("");
        let authority = Authority::new("the one");
        let ca = authority.write(&at, "ca.pem");
        let server = authority.issue(HERE, Good::Now).write(&at, "server");
        let client = authority.issue(&[], Good::Now).write(&at, "client");
        Certificates {
            folder,
            authority,
            ca,
            server,
            client,
        }
    }

    /// The options of a switch that asks clients for certificates.
    fn options(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let words = [
            "--tls-cert",
            &shown(&self.server.certificate),
            "--tls-key",
            &shown(&self.server.key),
            "--tls-client-ca",
            &shown(&self.ca),
        ]
        .map(str::to_owned);
        words.to_vec()
    }

    fn start(&self, more: &[&str]) -> Running {
        let options = self.options();
        let words = options.iter().map(String::as_str);
        let words: Vec<&str> = ["--grpc", "127.0.0.1:0"]
            .into_iter()
            .chain(words)
            .chain(more.iter().copied())
            .collect();
        Running::start(&words)
    }

    fn to(&self, switch: &Running) -> SwitchAddress {
        SwitchAddress {
            address: switch.address("P4Runtime on ").to_owned(),
            tls: Some(TlsFiles {
                authorities: self.ca.clone(),
                identity: Some((self.client.certificate.clone(), self.client.key.clone())),
                server_name: None,
            }),
        }
    }
}

async fn called(switch: &SwitchAddress) -> Result<(), ClientError> {
    let mut client = Client::connect(switch, 1).await?;
    client.counters().await.map(drop)
}

async fn stop(switch: Running) {
    let stopped = tokio::task::spawn_blocking(move || switch.stop_that_logs("-TERM"));
    stopped.await.expect("it stops");
}

#[tokio::test]
async fn handshakes_by_the_hundred_hold_up_neither_p4runtime_nor_metrics_nor_thrift() {
    let here = Certificates::new("handshakes");
    let switch = here.start(&["--metrics", "127.0.0.1:0", "--thrift-port", "0"]);
    assert!(switch.ready.contains("over TLS"), "{}", switch.ready);
    let good = here.to(&switch);
    let mut holder = Client::connect(&good, 1).await.expect("a client");
    holder.become_primary().await.expect("primary");
    let mut strangers = Vec::new();
    for n in 0..N_STRANGERS {
        let mut stranger =
            TcpStream::connect(switch.address("P4Runtime on ")).expect("a connection");
        // Half of the strangers send the beginning of a handshake, the others nothing.
        if n % 2 == 0 {
            stranger.write_all(&[22, 3, 1, 2]).expect("some bytes");
        }
        strangers.push(stranger);
        if n % 50 == 0 {
            called(&good).await.expect("served meanwhile");
            holder.counters().await.expect("served meanwhile");
        }
    }
    assert_eq!(http_get(&switch, "/metrics").0, 200);
    assert_eq!(thrift_reply(switch.address("Thrift on ")), [0x80, 1, 0, 2]);
    holder.counters().await.expect("served meanwhile");
    drop((strangers, holder));
    stop(switch).await;
}

/// The head of the reply to a call without arguments (Thrift's binary protocol, strict).
fn thrift_reply(address: &str) -> [u8; 4] {
    let name = b"simple_switch:get_time_elapsed_us";
    let mut call = vec![0x80, 1, 0, 1];
    call.extend(u32::try_from(name.len()).expect("short").to_be_bytes());
    call.extend(name);
    call.extend([0, 0, 0, 1, 0]);
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(&call).expect("a call");
    let mut head = [0; 4];
    stream.read_exact(&mut head).expect("a reply");
    head
}

#[tokio::test]
async fn the_log_says_who_was_not_let_in_and_what_became_of_a_renewal() {
    let here = Certificates::new("renewal");
    let switch = here.start(&["--log-level", "info"]);
    let good = here.to(&switch);
    called(&good).await.expect("let in");
    let plain = called(&address(&switch)).await;
    let refused = plain.expect_err("not let in");
    assert_has(&refused.to_string(), "it speaks TLS only");
    switch.wait_for_line(&["a client at 127.0.0.1 was not let in: it does not speak TLS"]);
    // First only the certificate is renewed, then its key too.
    let next = here.authority.issue(HERE, Good::Now);
    write(here.server.certificate.clone(), &next.certificate);
    switch.wait_for_line(&[
        "new connections use the former certificate",
        "is not the key of",
    ]);
    called(&good).await.expect("let in with the former one");
    write(here.server.key.clone(), &next.key);
    switch.wait_for_line(&["new connections use the renewed certificate"]);
    called(&good).await.expect("let in with the new one");
    // Clients of the replaced authority are refused, those of the new one accepted.
    let other = Authority::new("another");
    write(here.ca.clone(), other.pem());
    switch.wait_for_line(&["new connections use the renewed certificate"]);
    let mut former = good.clone();
    let tls = former.tls.as_mut().expect("TLS");
    tls.authorities = write(here.folder.path("former-ca.pem"), here.authority.pem());
    let refused = called(&former).await.expect_err("not let in");
    assert_has(&refused.to_string(), "refuses this client's certificate");
    let client = other
        .issue(&[], Good::Now)
        .write(&here.folder.path(""), "new");
    let tls = former.tls.as_mut().expect("TLS");
    tls.identity = Some((client.certificate, client.key));
    called(&former).await.expect("let in");
    stop(switch).await;
}

#[test]
fn beyond_this_machine_plaintext_has_to_be_asked_for() {
    let here = Certificates::new("beyond");
    let options = here.options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let said = error(2, &["--grpc", "0.0.0.0:0"]);
    assert!(said.contains("--grpc 0.0.0.0:0: expected TLS"), "{said}");
    let beyond = |more: &[&str]| {
        let words = [&["--grpc", "0.0.0.0:0"], more].concat();
        let switch = Running::start_that_logs(&words);
        let before = switch.before.join("\n");
        switch.stop("-TERM");
        before
    };
    assert!(beyond(&["--insecure"]).contains("without password or encryption"));
    assert!(beyond(&options[..4]).contains("--tls-client-ca lets only those in"));
    assert_eq!(beyond(&options), "");
}

#[test]
fn a_key_that_every_user_of_the_machine_can_read_is_warned_of() {
    let here = Certificates::new("open-key");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&here.server.key, readable).expect("our own file");
    let switch = Running::start_that_logs(
        &here
            .options()
            .iter()
            .map(String::as_str)
            .chain(["--grpc", "127.0.0.1:0"])
            .collect::<Vec<_>>(),
    );
    let said = switch.before.join("\n");
    assert!(said.contains("tls_key_open"), "{said}");
    let key = here.server.key.display();
    let expected = format!("private key {key}: has mode 644");
    assert!(said.contains(&expected), "{said}");
    switch.stop("-TERM");
}

#[test]
fn metrics_beyond_this_machine_are_warned_of() {
    let beyond = ["--grpc", "127.0.0.1:0", "--metrics", "0.0.0.0:0"];
    let switch = Running::start_that_logs(&beyond);
    let said = switch.before.join("\n");
    assert!(said.contains("metrics_beyond_loopback"), "{said}");
    switch.stop("-TERM");
}

#[test]
fn files_that_cannot_be_used_keep_the_switch_from_starting() {
    let here = Certificates::new("files");
    let certificate = here.server.certificate.display().to_string();
    let (key, other) = (
        here.server.key.display().to_string(),
        here.client.key.display().to_string(),
    );
    let missing = here.folder.path("missing").display().to_string();
    for (certificate, key, reason) in [
        (
            &missing,
            &key,
            format!("certificate {missing}: there is no such file"),
        ),
        (
            &certificate,
            &other,
            format!("private key {other}: is not the key of certificate {certificate}"),
        ),
    ] {
        let said = error(
            1,
            &[
                "--grpc",
                "127.0.0.1:0",
                "--tls-cert",
                certificate,
                "--tls-key",
                key,
            ],
        );
        assert!(said.contains(&reason), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for (arguments, reason) in [
        (&["--tls-cert", "c"][..], "--tls-key <FILE>"),
        (&["--tls-key", "k"], "--tls-cert <FILE>"),
        (&["--tls-client-ca", "a"], "--tls-cert <FILE>"),
        (
            &["--insecure", "--tls-cert", "c", "--tls-key", "k"],
            "cannot be used with",
        ),
        (
            &[
                "-i",
                "1@a",
                "--grpc",
                "off",
                "--tls-cert",
                "c",
                "--tls-key",
                "k",
            ],
            "--tls-cert: expected an address of P4Runtime (--grpc), found none",
        ),
        (&["--grpc-rate", "0"], "invalid value '0'"),
    ] {
        let said = error(2, arguments);
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}
