//! Byzantine groups: when their first epoch begins, and the epochs that members with new processes cause.

use std::path::Path;
use std::time::Duration;

use aom_service::operator::{GroupState, GroupView, Request};
use aom_service::rejoins::{Pace, RejoinLimits};
use testkit::text::{assert_ends, assert_has};

use crate::changes::wait_for_switch;
use crate::support::{Group, Running, Switch, TIMEOUT, TestMember, member_name, options, start};

async fn of(switch: &Switch, folder: &Path, n_members: u8) -> (Running, Group) {
    let service = start(options(switch, &folder.join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    let group = Group::add_as(&service, "counter", n_members, true).await;
    (service, group)
}

fn inactive(view: &GroupView) -> &str {
    match &view.state {
        GroupState::Inactive { because } => because,
        other => unreachable!("{other:?}"),
    }
}

async fn join(service: &Running, group: &Group, number: u8, member: &TestMember) {
    let name = member_name(number);
    let (file, key) = (&group.files[&name], Some(member.key()));
    let joined = member.join(service, (&group.name, &name), file, key).await;
    joined.expect("it joins");
}

/// Waits until an epoch after `before` is active.
async fn epoch_after(service: &Running, before: u64) -> GroupView {
    let until = tokio::time::Instant::now() + TIMEOUT;
    loop {
        let view = service.show("counter").await;
        if view.epoch > before && view.state == GroupState::Active {
            return view;
        }
        assert!(tokio::time::Instant::now() < until, "{view:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_begins_when_all_have_joined_and_one_may_lie_and_says_what_it_waits_for() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (service, mut group) = of(&switch, folder.path(), 3).await;
    let members: Vec<TestMember> = (0..4).map(|_| TestMember::default()).collect();
    for number in 0..3 {
        let view = service.show("counter").await;
        assert!(inactive(&view).contains("not joined yet: m0"), "{view:?}");
        join(&service, &group, number, &members[usize::from(number)]).await;
    }
    // All three have joined, but of three members none may lie.
    let view = service.show("counter").await;
    let because = inactive(&view);
    assert_has(because, "at least 4, of which one may lie (it has 3)");
    assert_eq!((view.epoch, view.liars_max), (0, None));
    let (message, _, file) = service.done(group.member(3)).await;
    assert_ends(&message, "receives when it has joined");
    group.files.insert(member_name(3), file.expect("a file"));
    assert!(inactive(&service.show("counter").await).contains("not joined yet: m03"));
    assert!(switch.request(group.address, b"nobody").is_empty());
    join(&service, &group, 3, &members[3]).await;
    let view = epoch_after(&service, 0).await;
    assert_eq!(view.liars_max, Some(1));
    assert!(view.members.iter().all(|it| it.receiver.is_some()));
    assert!(
        members
            .iter()
            .all(TestMember::confirms_with_its_own_key_only)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_begins_a_group_before_all_have_joined_and_reads_what_that_means() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (service, group) = of(&switch, folder.path(), 5).await;
    let name = || "counter".to_owned();
    let error = service.fails(Request::EpochAdvance { group: name() }).await;
    assert_has(&error, "no member has joined yet");
    let members: Vec<TestMember> = (0..5).map(|_| TestMember::default()).collect();
    join(&service, &group, 0, &members[0]).await;
    let (message, view, _) = service.done(Request::EpochAdvance { group: name() }).await;
    assert_has(&message, "of its 1 receivers none may lie");
    assert_ends(&message, "without it: m01, m02, m03, m04");
    let mut epoch = view.expect("it is there").epoch;
    // Each further member that joins causes a new epoch.
    for number in 1..5 {
        join(&service, &group, number, &members[usize::from(number)]).await;
        let view = epoch_after(&service, epoch).await;
        assert_eq!(view.liars_max, Some(usize::from(number / 3)));
        epoch = view.epoch;
    }
    let remove = Request::MemberRemove {
        group: name(),
        member: member_name(4),
    };
    let (message, view, _) = service.done(remove).await;
    assert_ends(&message, "of its 4 receivers at most 1 may lie");
    assert!(view.is_some_and(|it| it.epoch > epoch));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_new_receives_from_a_new_epoch_on_and_never_with_another_ones_key() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (service, mut group) = of(&switch, folder.path(), 4).await;
    group.join(&service).await;
    let mut epoch = epoch_after(&service, 0).await.epoch;
    // The service cannot tell a restarted process of a member from a second process: each appears as a connection with
    // another key.
    for round in 0..3 {
        let first = group
            .members
            .remove(&member_name(1))
            .expect("it has joined");
        let second = TestMember::default();
        assert_ne!(first.key(), second.key());
        join(&service, &group, 1, &second).await;
        epoch = epoch_after(&service, epoch).await.epoch;
        switch.request(group.address, format!("round {round}").as_bytes());
        assert!(second.confirms_with_its_own_key_only());
        assert!(first.confirms_with_its_own_key_only());
        while first.refusal().is_none() {
            tokio::task::yield_now().await;
        }
        group.members.insert(member_name(1), second);
    }
    // A restart of the service with the same member processes causes no new epoch.
    let view = service.show("counter").await;
    service.stop().await;
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    group.join(&service).await;
    assert_eq!(service.active("counter").await.epoch, view.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_starts_again_and_again_burns_few_epochs_and_holds_up_nobody() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&switch, &folder.path().join("state"));
    let hour = Duration::from_secs(3600);
    options.rejoins = RejoinLimits {
        member: Pace {
            burst: 2,
            every: hour,
        },
        group: Pace {
            burst: 4,
            every: hour,
        },
    };
    let service = start(options).expect("it opens");
    wait_for_switch(&service).await;
    let mut group = Group::add_as(&service, "counter", 4, true).await;
    group.join(&service).await;
    let mut epochs = vec![epoch_after(&service, 0).await.epoch];
    for _ in 0..100 {
        let again = TestMember::default();
        join(&service, &group, 0, &again).await;
        group.members.insert(member_name(0), again);
        let view = service.active("counter").await;
        epochs.push(view.epoch);
    }
    epochs.dedup();
    assert!((2..=3).contains(&epochs.len()), "{epochs:?}");
    let view = service.active("counter").await;
    let waits = view.members[0].waits.as_deref().expect("it waits");
    assert_has(waits, "receives from the next epoch on");
    assert!(view.members[1..].iter().all(|it| it.waits.is_none()));
    let delivered = group.members[&member_name(1)].delivered().len();
    group.send(&switch, b"still");
    let others = [1, 2, 3].map(|number| group.members[&member_name(number)].delivered());
    assert!(others.iter().all(|it| it.len() == delivered + 1));
    // The limit does not delay the start of another member. The epoch that this start causes also includes the waiting
    // member.
    let other = TestMember::default();
    join(&service, &group, 2, &other).await;
    let view = epoch_after(&service, view.epoch).await;
    assert!(view.members.iter().all(|it| it.waits.is_none()));
    assert!(view.members.iter().all(|it| it.receiver.is_some()));
}
