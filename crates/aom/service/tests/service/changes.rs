//! Changes of groups, members and epochs, without failures.

use std::time::Duration;

use aom_service::operator::{GroupState, Request};

use crate::support::{Group, Running, Switch, member_name, options, start};

async fn all_there(n_members: u8) -> (Switch, tempfile::TempDir, Running, Group) {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let service = start(options(&switch, &state)).expect("it opens");
    wait_for_switch(&service).await;
    let mut group = Group::add(&service, "counter", n_members).await;
    group.join(&service).await;
    (switch, folder, service, group)
}

/// Waits until the service is connected to the switch.
pub async fn wait_for_switch(service: &Running) {
    let until = tokio::time::Instant::now() + crate::support::TIMEOUT;
    let asked = || async {
        let group = "none".to_owned();
        service.fails(Request::EpochAdvance { group }).await
    };
    // The service checks first whether the group exists, and then whether the switch is connected. So only a request
    // for an existing group can show whether the switch is connected.
    assert!(asked().await.contains("there is no group"));
    let probe = Group {
        name: "p".to_owned(),
        address: std::net::Ipv4Addr::new(239, 1, 0, 250),
        byzantine: false,
        files: Default::default(),
        members: Default::default(),
    };
    service.done(Request::GroupAdd(probe.request())).await;
    loop {
        let group = "p".to_owned();
        match service.operator.ask(Request::GroupRemove { group }).await {
            aom_service::operator::Answer::Done { .. } => return,
            other => assert!(tokio::time::Instant::now() < until, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_groups_of_every_size_deliver_what_is_sent() {
    for n_members in [1, 3, 4, 5, 8, 16, 64] {
        let (switch, _folder, service, group) = all_there(n_members).await;
        let view = service.active("counter").await;
        assert!(view.members.iter().all(|it| it.is_connected));
        for message in ["one", "two"] {
            group.send(&switch, message.as_bytes());
        }
        let expected = [
            (view.epoch, 1, "one".to_owned()),
            (view.epoch, 2, "two".to_owned()),
        ];
        for (name, member) in &group.members {
            assert_eq!(member.delivered(), expected, "{name} of {n_members}");
            assert_eq!(member.refused(), Some(Default::default()));
        }
        assert_eq!(service.show("counter").await.sequence, Some(2));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_advance_changes_keys_and_begins_at_1_and_nothing_old_comes_after() {
    let (switch, _folder, service, group) = all_there(5).await;
    let before = service.active("counter").await.epoch;
    group.send(&switch, b"old");
    // The copies that the switch makes of this request belong to the old epoch, and reach the members after the change.
    let late = switch.request(group.address, b"late");
    let view = service.advance("counter").await;
    assert!(view.epoch > before, "{before}, {}", view.epoch);
    assert_eq!(view.state, GroupState::Active);
    assert_eq!(view.sequence, Some(0));
    assert!(view.last_gap_ms.is_some());
    assert!(
        view.members
            .iter()
            .all(|it| it.installed == Some(view.epoch))
    );
    late.iter().for_each(|copy| group.give(copy));
    group.send(&switch, b"new");
    for member in group.members.values() {
        let expected = [
            (before, 1, "old".to_owned()),
            (view.epoch, 1, "new".to_owned()),
        ];
        assert_eq!(member.delivered(), expected);
        let refused = member.refused().expect("it receives");
        assert_eq!(refused.other_epoch, 2, "two shards of one message");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_have_numbers_epochs_and_members_of_their_own() {
    let (switch, _folder, service, counter) = all_there(4).await;
    let mut ledger = Group::add(&service, "ledger", 3).await;
    ledger.join(&service).await;
    let of_ledger = service.advance("ledger").await.epoch;
    let of_counter = service.active("counter").await.epoch;
    for number in 0..3 {
        counter.send(&switch, format!("c{number}").as_bytes());
        ledger.send(&switch, format!("l{number}").as_bytes());
    }
    for (group, letter, epoch) in [(&counter, "c", of_counter), (&ledger, "l", of_ledger)] {
        for member in group.members.values() {
            let expected: Vec<_> = (0..3)
                .map(|number| (epoch, number + 1, format!("{letter}{number}")))
                .collect();
            assert_eq!(member.delivered(), expected);
        }
    }
    let group = "ledger".to_owned();
    service.done(Request::GroupRemove { group }).await;
    assert!(switch.request(ledger.address, b"nobody").is_empty());
    counter.send(&switch, b"still");
    assert!(counter.members.values().all(|it| it.delivered().len() == 4));
    let refusal = ledger.members.values().next().and_then(|it| it.refusal());
    assert!(refusal.is_some_and(|it| it.contains("was removed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_removed_gets_nothing_more_and_the_last_one_stops_the_group() {
    let (switch, _folder, service, group) = all_there(2).await;
    let remove = |number| Request::MemberRemove {
        group: "counter".to_owned(),
        member: member_name(number),
    };
    service.done(remove(0)).await;
    let gone = &group.members[&member_name(0)];
    while gone.refusal().is_none() {
        tokio::task::yield_now().await;
    }
    group.send(&switch, b"without it");
    assert_eq!(gone.delivered(), []);
    assert_eq!(group.members[&member_name(1)].delivered().len(), 1);
    let before = service.show("counter").await.epoch;
    let (_, view, _) = service.done(remove(1)).await;
    let state = view.expect("it is there").state;
    let GroupState::Inactive { because } = state else {
        unreachable!("{state:?}")
    };
    assert!(because.contains("reprise aom member add"), "{because}");
    assert!(switch.request(group.address, b"nobody").is_empty());
    // The group can begin again, in a later epoch.
    service.done(group.member(5)).await;
    assert!(service.active("counter").await.epoch > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_comes_again_goes_on_from_its_last_epoch() {
    let (_switch, _folder, service, group) = all_there(2).await;
    let before = service.show("counter").await;
    let number = before.number;
    let name = "counter".to_owned();
    service.done(Request::GroupRemove { group: name }).await;
    let mut again = group.request();
    again.number = Some(number);
    service.done(Request::GroupAdd(again)).await;
    service.done(group.member(0)).await;
    assert!(service.active("counter").await.epoch > before.epoch);
}

/// A deadline for acknowledgements. It is much longer than an epoch change takes that waits for no member, even on a
/// busy machine.
fn options_deadline() -> Duration {
    Duration::from_secs(2)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_is_waited_for_until_the_deadline_and_no_longer() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&switch, &folder.path().join("state"));
    options.ack_deadline = options_deadline();
    let service = start(options).expect("it opens");
    wait_for_switch(&service).await;
    let mut group = Group::add(&service, "counter", 3).await;
    group.join(&service).await;
    let before = service.active("counter").await.epoch;
    group.members[&member_name(1)].be_silent();
    let began = tokio::time::Instant::now();
    let view = service.advance("counter").await;
    assert!(began.elapsed() >= options_deadline());
    assert_eq!(view.state, GroupState::Active);
    let installed: Vec<_> = view.members.iter().map(|it| it.installed).collect();
    let expected = [Some(view.epoch), Some(before), Some(view.epoch)];
    assert_eq!(installed, expected);
    // Later changes do not wait for the silent member again.
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        service.advance("counter").await;
    }
    assert!(began.elapsed() < options_deadline() * 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_requests_at_once_are_two_changes() {
    let (switch, _folder, service, mut group) = all_there(2).await;
    let (one, two) = tokio::join!(service.done(group.member(2)), service.done(group.member(3)));
    for (number, (_, _, file)) in [(2, one), (3, two)] {
        let file = file.expect("a file");
        group.files.insert(member_name(number), file);
    }
    group.join(&service).await;
    service.active("counter").await;
    group.send(&switch, b"all four");
    assert!(group.members.values().all(|it| it.delivered().len() == 1));
}
