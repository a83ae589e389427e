//! Restarts of switch and service, each with its state kept, lost, restored from an older copy, or duplicated. No
//! sequence number of an epoch is assigned twice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aom_service::operator::{Answer, Request};
use aom_service::service::{Clock, ServiceError};
use p4runtime_client::{Client, SwitchAddress};

use crate::changes::wait_for_switch;
use crate::stopped::{ADVANCE, running, stopped_at};
use crate::support::{Group, Running, Stamps, Switch, TIMEOUT, member_name, options, start};

/// Sends a request, which may be dropped. Returns the number of copies of the request that the switch makes for the
/// members.
fn send(switch: &Switch, group: &Group, stamps: &mut Stamps, message: &str) -> usize {
    let copies = switch.request(group.address, message.as_bytes());
    stamps.note(&copies);
    copies.len()
}

async fn wait_for_epoch_after(service: &Running, before: u64) -> u64 {
    let until = tokio::time::Instant::now() + TIMEOUT;
    while service.show("counter").await.epoch <= before {
        assert!(tokio::time::Instant::now() < until, "no new epoch");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    service.active("counter").await.epoch
}

/// Sends requests, none of which may be dropped.
fn send_some(switch: &Switch, group: &Group, stamps: &mut Stamps, what: &str) {
    for number in 0..5 {
        let n_copies = send(switch, group, stamps, &format!("{what} {number}"));
        assert!(n_copies > 0, "{what} {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_has_its_state_again_gives_no_number_before_a_new_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut switch = Switch::with_state(&folder.path().join("switch")).await;
    let (service, group) = running(&switch, &folder.path().join("state")).await;
    let mut stamps = Stamps::default();
    let mut epoch = service.show("counter").await.epoch;
    send_some(&switch, &group, &mut stamps, "first");
    let backup = switch.state();
    service.advance("counter").await;
    send_some(&switch, &group, &mut stamps, "second");
    for (round, state) in ["kept", "an older copy", "lost", "kept"]
        .into_iter()
        .enumerate()
    {
        let before = service.show("counter").await.epoch;
        assert!(before >= epoch, "{state}");
        match state {
            "kept" => switch.restart().await,
            "lost" => switch.restart_with(None).await,
            _ => switch.restart_with(Some(&backup)).await,
        }
        // Sends requests before the service notices the restart, and while the service writes to the switch.
        for number in 0..50 {
            send(
                &switch,
                &group,
                &mut stamps,
                &format!("{state} {round} {number}"),
            );
            tokio::task::yield_now().await;
        }
        epoch = wait_for_epoch_after(&service, before).await;
        send_some(
            &switch,
            &group,
            &mut stamps,
            &format!("after {state} {round}"),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_is_killed_between_two_steps_of_an_advance_gives_no_number_twice() {
    for point in ADVANCE.into_iter().chain(["start-done"]) {
        for is_backup in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut switch = Switch::with_state(&folder.path().join("switch")).await;
            let state = folder.path().join("state");
            let (service, mut group) = running(&switch, &state).await;
            let mut stamps = Stamps::default();
            send_some(&switch, &group, &mut stamps, "before");
            let before = service.show("counter").await.epoch;
            let backup = switch.state();
            service.stop().await;
            let name = "counter".to_owned();
            let request = Request::EpochAdvance { group: name };
            stopped_at((&switch, &state), point, &mut group, request).await;
            send(&switch, &group, &mut stamps, "meanwhile");
            if is_backup {
                switch.restart_with(Some(&backup)).await
            } else {
                switch.restart().await
            }
            assert_eq!(send(&switch, &group, &mut stamps, "nobody"), 0, "{point}");
            let service = start(options(&switch, &state)).expect("it opens");
            group.join(&service).await;
            wait_for_epoch_after(&service, before).await;
            send_some(&switch, &group, &mut stamps, "after");
            service.stop().await;
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let text = std::fs::read(from.join("state.json")).expect("a state");
    std::fs::create_dir_all(to).expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(to, mode).expect("its mode");
    std::fs::write(to.join("state.json"), text).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_begins_with_an_older_copy_of_its_folder_begins_a_new_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let switch = Switch::start().await;
    let [state, older] = ["state", "older"].map(|name| folder.path().join(name));
    let (service, mut group) = running(&switch, &state).await;
    let mut stamps = Stamps::default();
    send_some(&switch, &group, &mut stamps, "first");
    copy(&state, &older);
    let mut epoch = service.advance("counter").await.epoch;
    send_some(&switch, &group, &mut stamps, "second");
    service.stop().await;
    // One process of the switch serves two services in alternation. Each service's state is older than the other
    // service's last change.
    for round in 0..4 {
        let state = if round % 2 == 0 { &older } else { &state };
        let service = start(options(&switch, state)).expect("it opens");
        group.join(&service).await;
        epoch = wait_for_epoch_after(&service, epoch).await;
        send_some(&switch, &group, &mut stamps, &format!("round {round}"));
        epoch = epoch.max(service.advance("counter").await.epoch);
        send_some(
            &switch,
            &group,
            &mut stamps,
            &format!("round {round} again"),
        );
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_services_with_one_state_none_goes_on_with_the_others_advance() {
    for point in ADVANCE.into_iter().chain(["start-done"]) {
        let folder = tempfile::tempdir().expect("a folder");
        let switch = Switch::start().await;
        let [state, double] = ["state", "double"].map(|name| folder.path().join(name));
        let (service, mut group) = running(&switch, &state).await;
        let mut stamps = Stamps::default();
        send_some(&switch, &group, &mut stamps, "before");
        service.stop().await;
        let name = "counter".to_owned();
        let request = Request::EpochAdvance { group: name };
        stopped_at((&switch, &state), point, &mut group, request).await;
        copy(&state, &double);
        let mut epoch = 0;
        for (round, state) in [&double, &state].into_iter().enumerate() {
            let service = start(options(&switch, state)).expect("it opens");
            group.join(&service).await;
            epoch = wait_for_epoch_after(&service, epoch).await;
            send_some(&switch, &group, &mut stamps, &format!("{point} {round}"));
            service.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_folder_is_lost_begins_with_epochs_that_were_never_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let switch = Switch::start().await;
    let mut stamps = Stamps::default();
    let mut epoch = 0;
    for round in 0..3 {
        let state = folder.path().join(format!("{round}"));
        let (service, group) = running(&switch, &state).await;
        let view = service.show("counter").await;
        assert!(view.epoch > epoch, "{} after {epoch}", view.epoch);
        send_some(&switch, &group, &mut stamps, &format!("{round}"));
        epoch = view.epoch;
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registers_that_something_else_has_written_are_noticed() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (service, group) = running(&switch, &folder.path().join("state")).await;
    let mut stamps = Stamps::default();
    send_some(&switch, &group, &mut stamps, "before");
    let before = service.show("counter").await.epoch;
    // Something other than a P4Runtime controller sets every register to 0.
    switch.reset_registers();
    assert_eq!(send(&switch, &group, &mut stamps, "nobody"), 0);
    wait_for_epoch_after(&service, before).await;
    send_some(&switch, &group, &mut stamps, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_one_process_asks_no_other_one() {
    let mut switch = Switch::start().await;
    let address = SwitchAddress::plain(&switch.address);
    let mut once = Client::connect_once(&address, 1)
        .await
        .expect("it is there");
    let mut again = Client::connect(&address, 1).await.expect("it is there");
    let first = once.instance().await.expect("an answer");
    switch.restart().await;
    let until = tokio::time::Instant::now() + TIMEOUT;
    // An ordinary client reconnects to the new process; a `connect_once` client never does.
    loop {
        let error = once.instance().await.expect_err("its process is gone");
        assert!(error.to_string().contains("no switch answers"), "{error}");
        match again.instance().await {
            Ok(second) => break assert_ne!(first, second),
            Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_never_set_begins_no_epoch() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&switch, &folder.path().join("state"));
    let since_1970_s = Arc::new(AtomicU64::new(7));
    let clock = Arc::clone(&since_1970_s);
    options.clock = Clock::new(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    let service = start(options).expect("it opens");
    wait_for_switch(&service).await;
    let mut group = Group::add(&service, "counter", 0).await;
    let error = service.fails(group.member(0)).await;
    assert!(error.contains("set the clock"), "{error}");
    assert_eq!(service.show("counter").await.members, []);
    since_1970_s.store(1_800_000_000, Ordering::Relaxed);
    let (_, _, file) = service.done(group.member(0)).await;
    group.files.insert(member_name(0), file.expect("a file"));
    let epoch = service.active("counter").await.epoch;
    since_1970_s.store(7, Ordering::Relaxed);
    let remove = Request::MemberRemove {
        group: "counter".to_owned(),
        member: member_name(0),
    };
    let advance = Request::EpochAdvance {
        group: "counter".to_owned(),
    };
    for request in [remove, advance] {
        let error = service.fails(request).await;
        assert!(error.contains("set the clock"), "{error}");
        assert_eq!(service.active("counter").await.epoch, epoch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_cut_off_is_done_again_though_the_switch_has_its_state() {
    for point in ["load-saved", "load-done"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut switch = Switch::with_state(&folder.path().join("switch")).await;
        let state = folder.path().join("state");
        let (service, mut group) = running(&switch, &state).await;
        let mut stamps = Stamps::default();
        send_some(&switch, &group, &mut stamps, "before");
        service.stop().await;
        switch.restart().await;
        let mut options = options(&switch, &state);
        options.stop_at = Some(point);
        let error = start(options).expect("it opens").error().await;
        assert!(matches!(error, ServiceError::StoppedAt(at) if at == point));
        // The switch restarts a second time before the service starts.
        switch.restart().await;
        assert_eq!(send(&switch, &group, &mut stamps, "nobody"), 0, "{point}");
        let service = start(crate::support::options(&switch, &state)).expect("it opens");
        group.join(&service).await;
        service.active("counter").await;
        send_some(&switch, &group, &mut stamps, "after");
        let group = "counter".to_owned();
        let removed = service.operator.ask(Request::GroupRemove { group }).await;
        assert!(matches!(removed, Answer::Done { .. }), "{removed:?}");
        service.stop().await;
    }
}
