//! Tests members that join with member files over TLS. The service runs with its listener, and `aom-member` runs on
//! sockets. The switch runs in memory, and the test sends the copies that the switch makes of a request to the members
//! by UDP.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aom::event::{Event, Message};
use aom_member::{JoinError, Joined};
use aom_service::authority::Authority;
use aom_service::listener;
use aom_service::operator::{GroupAdd, MemberAdd, Request, Variant};
use tokio::task::JoinHandle;

use crate::changes::wait_for_switch;
use crate::support::{MEMBERS, Running, Switch, TIMEOUT, options, start_with};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 0, 1);

/// A service with a listener for members.
struct Served {
    switch: Switch,
    folder: tempfile::TempDir,
    service: Running,
    listening: JoinHandle<()>,
    address: SocketAddr,
}

impl Served {
    async fn start() -> Served {
        let switch = Switch::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (service, listening, address) = serve(&switch, folder.path(), any).await;
        Served {
            switch,
            folder,
            service,
            listening,
            address,
        }
    }

    /// Stops the service and starts it again on the same folder.
    async fn restart(&mut self) {
        self.listening.abort();
        let _ = (&mut self.listening).await;
        self.service.end().await;
        let address = self.address;
        let (service, listening, _) = serve(&self.switch, self.folder.path(), address).await;
        (self.service, self.listening) = (service, listening);
    }

    async fn add_group(&self, byzantine: bool) {
        let group = GroupAdd {
            group: "counter".to_owned(),
            number: None,
            address: Some(GROUP),
            variant: Variant::Tagged,
            byzantine,
        };
        self.service.done(Request::GroupAdd(group)).await;
    }

    /// Adds a member on a free UDP port, and returns the path of its file.
    async fn add(&self, member: &str) -> PathBuf {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let udp_port = free.local_addr().expect("an address").port();
        drop(free);
        let request = Request::MemberAdd(MemberAdd {
            group: "counter".to_owned(),
            member: member.to_owned(),
            mac: format!("02:00:00:00:{:02x}:{:02x}", udp_port >> 8, udp_port & 255),
            ip: Ipv4Addr::LOCALHOST,
            udp_port,
            switch_port: MEMBERS,
        });
        let (_, _, file) = self.service.done(request).await;
        self.file(member, &file.expect("a file"))
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.member"));
        std::fs::write(&path, text).expect("written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("its mode");
        path
    }

    fn send(&self, message: &str) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        for copy in self.switch.request(GROUP, message.as_bytes()) {
            socket.send_to(&copy.datagram, copy.to).expect("it is sent");
        }
    }
}

async fn serve(
    switch: &Switch,
    folder: &Path,
    address: SocketAddr,
) -> (Running, JoinHandle<()>, SocketAddr) {
    let state = folder.join("state");
    let until = tokio::time::Instant::now() + TIMEOUT;
    let bound = loop {
        match listener::bind(address).await {
            Ok(bound) => break bound,
            Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let address = bound.local_addr().expect("an address");
    let of_service = state.clone();
    let service = start_with(options(switch, &state), move || {
        Ok(Box::new(Authority::open(&of_service, address)?))
    });
    let service = service.expect("it opens");
    let authority = Authority::open(&state, address).expect("an authority");
    let tls = authority.server_config().expect("a configuration");
    let listening = tokio::spawn(listener::serve(bound, tls, service.members.clone()));
    wait_for_switch(&service).await;
    (service, listening, address)
}

async fn join(file: &Path) -> Result<Joined, JoinError> {
    let file = file.to_owned();
    let joining = tokio::task::spawn_blocking(move || Joined::join(&file, TIMEOUT));
    joining.await.expect("no panic")
}

fn message(member: &Joined) -> Message {
    match member.next(TIMEOUT).expect("it receives") {
        Some(Event::Message(message)) => message,
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_join_deliver_believe_each_other_advance_and_are_removed() {
    let served = Served::start().await;
    served.add_group(false).await;
    let files = [served.add("m0").await, served.add("m1").await];
    let members = [
        join(&files[0]).await.expect("it joins"),
        join(&files[1]).await.expect("it joins"),
    ];
    let first = served.service.active("counter").await.epoch;
    served.send("one");
    let received = members.each_ref().map(message);
    for (member, other) in [(&members[0], &received[1]), (&members[1], &received[0])] {
        assert_eq!(
            (other.epoch, other.sequence, other.payload.as_slice()),
            (first, 1, b"one".as_slice())
        );
        let certificate = other.certificate.to_bytes();
        assert!(member.verify(&certificate, b"one").expect("a certificate"));
        assert!(!member.verify(&certificate, b"onf").expect("a certificate"));
    }
    let view = served.service.advance("counter").await;
    assert!(
        view.members
            .iter()
            .all(|it| it.installed == Some(view.epoch)),
        "{view:?}"
    );
    served.send("two");
    for member in &members {
        let received = message(member);
        assert_eq!(
            (
                received.epoch,
                received.sequence,
                received.payload.as_slice()
            ),
            (view.epoch, 1, b"two".as_slice())
        );
    }
    // A certificate of the previous epoch is still valid.
    assert!(
        members[0]
            .verify(&received[1].certificate.to_bytes(), b"one")
            .expect("a certificate")
    );
    let request = Request::MemberRemove {
        group: "counter".to_owned(),
        member: "m0".to_owned(),
    };
    served.service.done(request).await;
    let error = members[0]
        .next(TIMEOUT)
        .expect_err("it is no member")
        .to_string();
    assert!(error.contains("was removed"), "{error}");
    let error = join(&files[0])
        .await
        .expect_err("it is no member")
        .to_string();
    assert!(error.contains("was removed"), "{error}");
    served.send("three");
    assert!(message(&members[1]).epoch > view.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byzantine_member_that_is_started_again_confirms_with_another_key_in_a_new_epoch() {
    let served = Served::start().await;
    served.add_group(true).await;
    let mut files = Vec::new();
    for name in ["m0", "m1", "m2", "m3"] {
        files.push(served.add(name).await);
    }
    // The joins must run concurrently, since none gets a membership before all have joined.
    let [a, b, c, d] = [0, 1, 2, 3].map(|place: usize| join(&files[place]));
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let mut members = Vec::from([a, b, c, d].map(|it| it.expect("it joins")));
    let mut keys = Vec::new();
    let mut epoch = 0;
    for round in 0..3 {
        let view = served.service.active("counter").await;
        assert!(view.epoch > epoch, "{} after {epoch}", view.epoch);
        epoch = view.epoch;
        assert_eq!(view.members.iter().filter_map(|it| it.receiver).count(), 4);
        served.send("one");
        for member in &members {
            let received = message(member);
            assert_eq!(
                (
                    received.epoch,
                    received.sequence,
                    received.payload.as_slice()
                ),
                (epoch, 1, b"one".as_slice()),
                "{round}"
            );
        }
        let membership = members[0].membership().expect("it has one");
        keys.push(membership.receivers[0].confirm_key.expect("it confirms"));
        // The new process shares nothing with the old one but the member file.
        drop(members.remove(0));
        let again = join(&files[0]).await.expect("it joins");
        members.insert(0, again);
    }
    keys.sort_by_key(ToString::to_string);
    keys.dedup();
    assert_eq!(keys.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_begins_again_finds_its_members() {
    let mut served = Served::start().await;
    served.add_group(false).await;
    let file = served.add("m0").await;
    let member = join(&file).await.expect("it joins");
    served.restart().await;
    served.send("meanwhile");
    assert_eq!(message(&member).payload, b"meanwhile");
    let until = tokio::time::Instant::now() + TIMEOUT;
    while !served.service.show("counter").await.members[0].is_connected {
        assert!(tokio::time::Instant::now() < until, "it connects again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let view = served.service.advance("counter").await;
    assert_eq!(view.members[0].installed, Some(view.epoch));
    served.send("after");
    assert_eq!(message(&member).payload, b"after");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_file_of_this_service_does_not_join() {
    let served = Served::start().await;
    served.add_group(false).await;
    let file = served.add("m0").await;
    let text = std::fs::read_to_string(&file).expect("a file");
    // A file with another member's name.
    let other = served.add("m1").await;
    let renamed = text.replace("\"member\": \"m0\"", "\"member\": \"m1\"");
    let error = join(&served.file("renamed", &renamed)).await;
    assert!(
        matches!(error, Err(JoinError::Refused(why)) if why.contains("not the newest certificate"))
    );
    // A file of another authority: service and member refuse each other's certificate.
    let strange = tempfile::tempdir().expect("a folder");
    let authority = Authority::open(strange.path(), served.address).expect("an authority");
    let (issued, _) =
        aom_service::service::Issue::issue(&authority, "counter", "m0").expect("a file");
    let path = served.file("strange", &issued);
    let joining =
        tokio::task::spawn_blocking(move || Joined::join(&path, Duration::from_millis(500)));
    let error = joining.await.expect("no panic");
    assert!(matches!(error, Err(JoinError::Late { .. })), "{error:?}");
    // A file that other users can read.
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    assert!(matches!(
        join(&other).await,
        Err(JoinError::Mode { mode: 0o644, .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_disturb_no_member() {
    let served = Served::start().await;
    served.add_group(false).await;
    let file = served.add("m0").await;
    // One connection that sends nothing, and some that send random bytes.
    let silent = TcpStream::connect(served.address).expect("it listens");
    let mut random = 1_u32;
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(served.address).expect("it listens");
        let bytes: Vec<u8> = (0..10_000)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as u8
            })
            .collect();
        // The service may close the connection before all bytes are sent.
        let _ = stranger.write_all(&bytes);
        stranger.set_read_timeout(Some(TIMEOUT)).expect("a time");
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer);
    }
    let member = join(&file).await.expect("it joins");
    served.send("one");
    assert_eq!(message(&member).payload, b"one");
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_idle_connections_than_there_are_places_keep_no_member_out() {
    let served = Served::start().await;
    served.add_group(false).await;
    let file = served.add("m0").await;
    // On a busy machine the idle connections may time out during the join; then the test tries again.
    for attempt in 1.. {
        let idle: Vec<TcpStream> = (0..300)
            .map(|_| TcpStream::connect(served.address).expect("it listens"))
            .collect();
        let member = join(&file).await.expect("it joins");
        let newest = idle.last().expect("one");
        newest.set_nonblocking(true).expect("a mode");
        let is_open = newest
            .peek(&mut [0])
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        drop(member);
        if is_open {
            return;
        }
        assert!(attempt < 20, "it joins only when they have ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_for_one_process() {
    let served = Served::start().await;
    served.add_group(false).await;
    let file = served.add("m0").await;
    let first = join(&file).await.expect("it joins");
    let second = join(&file).await;
    // The second process may fail to bind the port, which the first process has. The first process gets the refusal in
    // any case.
    let error = first
        .next(TIMEOUT)
        .expect_err("it is no member")
        .to_string();
    assert!(error.contains("another connection"), "{error}");
    assert!(second.is_ok() || second.is_err_and(|error| error.to_string().contains("cannot bind")));
}
