//! The operators' socket in the service's folder.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use aom_service::operator::{Answer, Request};
use aom_service::operator_socket::{AskError, OperatorSocket, ask};
use testkit::text::assert_has;

use crate::changes::wait_for_switch;
use crate::support::{Group, Switch, options, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_a_service_says_how_to_start_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let show = Request::GroupShow { group: None };
    let error = ask(folder.path(), &show)
        .await
        .expect_err("nobody is there");
    assert!(matches!(error, AskError::NotThere { .. }));
    assert!(error.to_string().contains("reprise aom serve"), "{error}");
    // A killed service leaves a socket on which nobody listens. The next service replaces it.
    drop(
        std::os::unix::net::UnixListener::bind(folder.path().join("operator.sock"))
            .expect("a socket"),
    );
    assert!(ask(folder.path(), &show).await.is_err());
    OperatorSocket::bind(folder.path()).expect("it takes the place");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_come_over_the_socket_and_a_bad_one_disturbs_no_other() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let service = start(options(&switch, &state)).expect("it opens");
    let socket = OperatorSocket::bind(&state).expect("a socket");
    let path = state.join("operator.sock");
    let mode = std::fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let serving = tokio::spawn(socket.serve(service.operator.clone()));
    wait_for_switch(&service).await;
    let group = Group::add(&service, "counter", 2).await;
    // One connection that sends nothing, and one with another protocol.
    let silent = UnixStream::connect(&path).expect("it listens");
    let mut other = UnixStream::connect(&path).expect("it listens");
    other.write_all(b"GET / HTTP/1.1\n").expect("it reads");
    other
        .set_read_timeout(Some(Duration::from_secs(120)))
        .expect("a time");
    let mut text = String::new();
    other.read_to_string(&mut text).expect("text");
    assert_has(&text, "expected a request of this version");
    let show = Request::GroupShow { group: None };
    let add = group.member(2);
    let (one, two) = tokio::join!(ask(&state, &show), ask(&state, &add));
    let Answer::Groups { groups } = one.expect("an answer") else {
        unreachable!()
    };
    assert_eq!(groups.len(), 1);
    assert!(matches!(
        two,
        Ok(Answer::Done {
            member_file: Some(_),
            ..
        })
    ));
    drop(silent);
    serving.abort();
    let _ = serving.await;
    assert!(!path.exists(), "it is taken away");
}
