//! Tests what happens if the service is killed between any two steps of a change, and if the switch is killed at any
//! time.

use aom_service::operator::{Answer, Request};
use aom_service::service::ServiceError;

use crate::changes::wait_for_switch;
use crate::support::{Group, Running, Stamps, Switch, member_name, options, start};

pub const ADVANCE: [&str; 8] = [
    "stop-saved",
    "stop-done",
    "hand-saved",
    "hand-done",
    "write-saved",
    "write-entries",
    "write-done",
    "start-saved",
];

pub async fn running(switch: &Switch, folder: &std::path::Path) -> (Running, Group) {
    let service = start(options(switch, folder)).expect("it opens");
    wait_for_switch(&service).await;
    let mut group = Group::add(&service, "counter", 5).await;
    group.join(&service).await;
    service.active("counter").await;
    (service, group)
}

/// Starts a service that ends at `point` while it carries out the request.
pub async fn stopped_at(
    (switch, folder): (&Switch, &std::path::Path),
    point: &'static str,
    group: &mut Group,
    request: Request,
) {
    let mut options = options(switch, folder);
    options.stop_at = Some(point);
    let service = start(options).expect("it opens");
    group.join(&service).await;
    // The service may not be connected to the switch yet.
    while let Answer::Failed { error } = service.operator.ask(request.clone()).await {
        assert!(
            error.contains("is not there") || error.contains("is ending"),
            "{error}"
        );
        if error.contains("is ending") {
            break;
        }
        tokio::task::yield_now().await;
    }
    let error = service.error().await;
    assert!(
        matches!(error, ServiceError::StoppedAt(at) if at == point),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_advance_that_is_cut_off_anywhere_is_gone_on_with() {
    for point in ADVANCE.into_iter().chain(["start-done"]) {
        let mut switch = Switch::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let mut stamps = Stamps::default();
        let (service, mut group) = running(&switch, &state).await;
        let before = service.show("counter").await.epoch;
        send(&mut switch, &group, &mut stamps, "before");
        service.stop().await;
        let name = "counter".to_owned();
        let request = Request::EpochAdvance { group: name };
        stopped_at((&switch, &state), point, &mut group, request).await;
        // Requests that are sent while no service runs belong to the old or to the new epoch, or are dropped.
        send(&mut switch, &group, &mut stamps, "meanwhile");
        let service = start(options(&switch, &state)).expect("it opens");
        group.join(&service).await;
        let view = service.active("counter").await;
        assert!(view.epoch > before, "{point}");
        send(&mut switch, &group, &mut stamps, "after");
        for (name, member) in &group.members {
            let delivered = member.delivered();
            let last = delivered.last().expect("it delivers");
            assert_eq!(
                (last.0, last.2.as_str()),
                (view.epoch, "after"),
                "{point}: {name}"
            );
            assert!(delivered.is_sorted(), "{point}: {delivered:?}");
        }
        service.stop().await;
    }
}

fn send(switch: &mut Switch, group: &Group, stamps: &mut Stamps, message: &str) {
    let copies = switch.request(group.address, message.as_bytes());
    stamps.note(&copies);
    copies.iter().for_each(|copy| group.give(copy));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_being_added_is_there() {
    for point in ADVANCE {
        let switch = Switch::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let (service, mut group) = running(&switch, &state).await;
        service.stop().await;
        let request = group.member(5);
        stopped_at((&switch, &state), point, &mut group, request).await;
        let service = start(options(&switch, &state)).expect("it opens");
        wait_for_switch(&service).await;
        // The operator did not get the member's file, so the test requests a new one.
        let request = Request::MemberFile {
            group: "counter".to_owned(),
            member: member_name(5),
        };
        let (_, _, file) = service.done(request).await;
        group.files.insert(member_name(5), file.expect("a file"));
        group.join(&service).await;
        service.active("counter").await;
        group.send(&switch, b"six");
        assert!(
            group.members.values().all(|it| it.delivered().len() == 1),
            "{point}"
        );
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_was_being_removed_is_gone() {
    for point in ["remove-begun", "remove-stopped", "remove-saved"] {
        let switch = Switch::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let (service, mut group) = running(&switch, &state).await;
        service.stop().await;
        let name = "counter".to_owned();
        let request = Request::GroupRemove { group: name };
        stopped_at((&switch, &state), point, &mut group, request).await;
        let service = start(options(&switch, &state)).expect("it opens");
        wait_for_switch(&service).await;
        let name = "counter".to_owned();
        let error = service.fails(Request::EpochAdvance { group: name }).await;
        assert!(error.contains("and no other"), "{point}: {error}");
        assert!(
            switch.request(group.address, b"nobody").is_empty(),
            "{point}"
        );
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_member_that_was_being_removed_leaves_an_inactive_group() {
    for point in ["stop-saved", "halt-stopped", "halt-saved"] {
        let switch = Switch::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let service = start(options(&switch, &state)).expect("it opens");
        wait_for_switch(&service).await;
        let mut group = Group::add(&service, "counter", 1).await;
        service.active("counter").await;
        service.stop().await;
        let request = Request::MemberRemove {
            group: "counter".to_owned(),
            member: member_name(0),
        };
        stopped_at((&switch, &state), point, &mut group, request).await;
        let service = start(options(&switch, &state)).expect("it opens");
        wait_for_switch(&service).await;
        assert_eq!(service.show("counter").await.epoch, 0, "{point}");
        assert!(
            switch.request(group.address, b"nobody").is_empty(),
            "{point}"
        );
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_was_started_anew_gets_everything_and_new_epochs() {
    let mut switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (service, group) = running(&switch, &folder.path().join("state")).await;
    let mut before = service.show("counter").await.epoch;
    let mut stamps = Stamps::default();
    send(&mut switch, &group, &mut stamps, "before");
    for restart in 1..=3 {
        switch.restart().await;
        assert!(switch.request(group.address, b"nobody").is_empty());
        // The service notices the restart within about a second.
        while service.show("counter").await.epoch <= before {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        before = service.active("counter").await.epoch;
        send(&mut switch, &group, &mut stamps, "after");
        for member in group.members.values() {
            let delivered = member.delivered();
            assert_eq!(delivered.len() as u64, restart + 1);
            let last = delivered.last().expect("it delivers");
            assert_eq!((last.0, last.1), (before, 1));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_cut_off_is_done_again() {
    for point in ["load-saved", "load-done"] {
        let mut switch = Switch::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let (service, mut group) = running(&switch, &state).await;
        let mut stamps = Stamps::default();
        send(&mut switch, &group, &mut stamps, "before");
        service.stop().await;
        switch.restart().await;
        let mut options = options(&switch, &state);
        options.stop_at = Some(point);
        let error = start(options).expect("it opens").error().await;
        assert!(
            matches!(error, ServiceError::StoppedAt(at) if at == point),
            "{error}"
        );
        let service = start(crate::support::options(&switch, &state)).expect("it opens");
        group.join(&service).await;
        service.active("counter").await;
        send(&mut switch, &group, &mut stamps, "after");
        assert!(
            group.members.values().all(|it| it.delivered().len() == 2),
            "{point}"
        );
        service.stop().await;
    }
}
