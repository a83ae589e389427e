//! Requests and members that the service refuses, mistakes that keep a service from running, and mistakes that it
//! survives.

use std::net::Ipv4Addr;
use std::time::Duration;

use aom_service::operator::{GroupAdd, GroupState, MemberAdd, Request, Variant};
use aom_service::service::{FirstBid, Options, RIVAL_FOR};
use p4runtime_client::{Client, SwitchAddress};
use testkit::text::assert_has;
use tokio::time::Instant;

use crate::changes::wait_for_switch;
use crate::support::{Group, Switch, TIMEOUT, TestMember, member_name, options, start};

fn group_with(set: impl FnOnce(&mut GroupAdd)) -> Request {
    let mut it = GroupAdd {
        group: "other".to_owned(),
        number: None,
        address: None,
        variant: Variant::Tagged,
        byzantine: false,
    };
    set(&mut it);
    Request::GroupAdd(it)
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_cannot_be_are_refused_and_nothing_changes() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    Group::add(&service, "counter", 2).await;
    let before = service.active("counter").await;
    let key = "02b4632d08485ff1df2db55b9dafd23347d1c47a457072a1e87be26896549a8737";
    let signed = Variant::Signed {
        signer_port: 7,
        public_key: key.parse().expect("a key"),
    };
    let taken = before.number;
    for (request, expected) in [
        (
            group_with(|it| it.group = "Counter".to_owned()),
            "is no name of a group",
        ),
        (
            group_with(|it| it.group = "counter".to_owned()),
            "already: choose another name",
        ),
        (
            group_with(|it| it.number = Some(0)),
            "expected a number from 1 to 65535, found 0",
        ),
        (
            group_with(|it| it.number = Some(taken)),
            "is group \"counter\"'s number",
        ),
        (
            group_with(|it| it.address = Some(Ipv4Addr::LOCALHOST)),
            "is no address of a group",
        ),
        (
            group_with(|it| it.address = Some(Ipv4Addr::new(239, 1, 0, 7))),
            "is group \"counter\"'s address",
        ),
        (group_with(|it| it.variant = signed), "p4/aom_pk.p4"),
    ] {
        let error = service.fails(request).await;
        assert_has(&error, expected);
    }
    assert_eq!(service.active("counter").await, before);
}

/// Makes one field of a valid request invalid.
type Set = fn(&mut MemberAdd);

#[tokio::test(flavor = "multi_thread")]
async fn members_that_cannot_be_are_refused_and_nothing_changes() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    let group = Group::add(&service, "counter", 2).await;
    let before = service.active("counter").await;
    let mistakes: [(Set, &str); 7] = [
        (
            |it| it.group = "none".to_owned(),
            "there is no group \"none\"; there are: counter",
        ),
        (
            |it| it.member = "m00".to_owned(),
            "has a member \"m00\" already",
        ),
        (|it| it.mac = "02:00".to_owned(), "expected a MAC"),
        (
            |it| it.mac = "01:00:5e:00:00:01".to_owned(),
            "expected a MAC",
        ),
        (
            |it| it.udp_port = 0,
            "expected a UDP port from 1 to 65535, found 0",
        ),
        (
            |it| it.ip = Ipv4Addr::new(10, 0, 7, 1),
            "is where member \"m01\" of group \"counter\" receives",
        ),
        (
            |it| {
                it.mac = "02:00:00:01:07:00".to_owned();
                it.switch_port = 3;
            },
            "is at port 2 of the switch",
        ),
    ];
    for (set, expected) in mistakes {
        let Request::MemberAdd(mut it) = group.member(9) else {
            unreachable!()
        };
        set(&mut it);
        let error = service.fails(Request::MemberAdd(it)).await;
        assert_has(&error, expected);
    }
    let of_nobody = Request::MemberRemove {
        group: "counter".to_owned(),
        member: "m07".to_owned(),
    };
    let error = service.fails(of_nobody).await;
    assert_has(&error, "has no member \"m07\"; it has: m00, m01");
    assert_eq!(service.active("counter").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_65th_member_is_refused() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    let group = Group::add(&service, "counter", 64).await;
    let error = service.fails(group.member(64)).await;
    assert_has(&error, "has 64 members, as many as there can be");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_member_does_not_join() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    let mut group = Group::add(&service, "counter", 2).await;
    let stranger = TestMember::default();
    let names = [("ledger", "m00"), ("counter", "m05")];
    for (of, name) in names {
        let error = stranger.join(&service, (of, name), "1", None).await;
        assert!(error.is_err_and(|it| it.contains("it was removed")));
    }
    // A join with the certificate of another member.
    let file = &group.files[&member_name(1)];
    let error = stranger
        .join(&service, ("counter", "m00"), file, None)
        .await;
    assert!(error.is_err_and(|it| it.contains("not the newest certificate")));
    // A second connection replaces the first connection, and a new member file replaces the old file.
    group.join(&service).await;
    let again = TestMember::default();
    let file = group.files[&member_name(0)].clone();
    let joined = again.join(&service, ("counter", "m00"), &file, None).await;
    joined.expect("it is the member");
    while group.members[&member_name(0)].refusal().is_none() {
        tokio::task::yield_now().await;
    }
    let request = Request::MemberFile {
        group: "counter".to_owned(),
        member: member_name(0),
    };
    let (_, _, new) = service.done(request).await;
    let error = again.join(&service, ("counter", "m00"), &file, None).await;
    assert!(error.is_err_and(|it| it.contains("not the newest certificate")));
    let file = new.expect("a file");
    let joined = again.join(&service, ("counter", "m00"), &file, None).await;
    joined.expect("it is the member");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_service_and_so_has_a_switch() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    let second = start(options(&switch, &folder.path().join("state"))).err();
    let error = second.expect("the folder is taken").to_string();
    assert_has(&error, "another configuration service uses this folder");
    let second = start(options(&switch, &folder.path().join("another"))).expect("it opens");
    let error = second.error().await.to_string();
    assert_has(&error, "another controller");
    Group::add(&service, "counter", 1).await;
    service.active("counter").await;
}

/// Becomes primary controller and then writes nothing.
async fn displace(switch: &Switch) -> Client {
    let address = SwitchAddress::plain(&switch.address);
    let client = Client::connect(&address, 1).await;
    let mut client = client.expect("the switch is there");
    client.become_primary().await.expect("it takes the role");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_a_silent_controller_displaces_ends() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    Group::add(&service, "counter", 1).await;
    service.active("counter").await;
    let _silent = displace(&switch).await;
    let until = Instant::now() + TIMEOUT;
    while service.show("counter").await.state == GroupState::Active {
        assert!(Instant::now() < until, "the service has not noticed it");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let error = service.error().await.to_string();
    assert_has(&error, "has been primary for 3 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_goes_on_after_a_controller_that_was_primary_for_a_moment() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(options(&switch, &folder.path().join("state"))).expect("it opens");
    wait_for_switch(&service).await;
    Group::add(&service, "counter", 1).await;
    let epoch = service.active("counter").await.epoch;
    drop(displace(&switch).await);
    // The service refuses requests while it is displaced, so the test repeats them.
    let until = Instant::now() + TIMEOUT;
    while service.active("counter").await.epoch == epoch {
        assert!(Instant::now() < until, "no epoch has begun");
        let group = "counter".to_owned();
        service.operator.ask(Request::EpochAdvance { group }).await;
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_waits_to_be_primary_as_long_as_its_options_say_or_takes_over() {
    let switch = Switch::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let there = displace(&switch).await;
    let with = |name: &str, first_bid: FirstBid| {
        let options = Options {
            first_bid,
            ..options(&switch, &folder.path().join(name))
        };
        start(options).expect("it opens")
    };
    let without_wait = FirstBid {
        wait: Duration::ZERO,
        takes_over: false,
    };
    let began = Instant::now();
    let error = with("without-wait", without_wait).error().await.to_string();
    assert_has(&error, "has been primary for 0 s");
    assert!(began.elapsed() < RIVAL_FOR, "{:?}", began.elapsed());
    let waiting = FirstBid {
        wait: TIMEOUT,
        takes_over: false,
    };
    let waiting = with("waiting", waiting);
    tokio::time::sleep(RIVAL_FOR + Duration::from_secs(3)).await;
    drop(there);
    wait_for_switch(&waiting).await;
    let takes_over = FirstBid {
        takes_over: true,
        ..FirstBid::default()
    };
    let taking = with("taking", takes_over);
    wait_for_switch(&taking).await;
    let error = waiting.error().await.to_string();
    assert_has(&error, "another controller");
    // The service takes over the role of primary only at its start, and not from a controller that displaces it later.
    let _there = displace(&switch).await;
    let error = taking.error().await.to_string();
    assert_has(&error, "has been primary for 3 s");
}
