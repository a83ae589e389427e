//! Tests of the P4Runtime specification's section "Client Arbitration and Controller Replication".

use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{MasterArbitrationUpdate, Role, StreamMessageRequest, Uint128};
use tonic::Code::{
    self, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied, ResourceExhausted,
    Unavailable,
};

use crate::harness::{DEVICE_ID, Harness, in_time, status_of, until};
use crate::registers::cell;

const OK: i32 = Code::Ok as i32;
const ALREADY_EXISTS: i32 = Code::AlreadyExists as i32;
const NOT_FOUND: i32 = Code::NotFound as i32;

fn election(low: u64) -> Option<Uint128> {
    Some(Uint128 { high: 0, low })
}

// spec: arbitration.primary
#[tokio::test]
async fn the_highest_election_id_is_primary_and_everybody_is_notified() {
    let harness = Harness::start().await;
    let (mut low, code) = harness.controller(5).await;
    assert_eq!(code, OK);
    let (mut lower, code) = harness.controller(3).await;
    assert_eq!(code, ALREADY_EXISTS);

    let (_high, code) = harness.controller(9).await;
    assert_eq!(code, OK);
    for backup in [&mut low, &mut lower] {
        let arbitration = backup.arbitration().await;
        assert_eq!(status_of(&arbitration), ALREADY_EXISTS);
        assert_eq!(arbitration.election_id, election(9));
        assert_eq!(arbitration.device_id, DEVICE_ID);
    }
}

// spec: arbitration.leaves
#[tokio::test]
async fn when_the_primary_leaves_there_is_none_until_somebody_reaches_its_id() {
    let harness = Harness::start().await;
    let (primary, _) = harness.controller(9).await;
    let (mut backup, code) = harness.controller(5).await;
    assert_eq!(code, ALREADY_EXISTS);

    drop(primary);
    let arbitration = backup.arbitration().await;
    assert_eq!(status_of(&arbitration), NOT_FOUND);
    assert_eq!(arbitration.election_id, election(9));

    backup.arbitrate(Some(8));
    assert_eq!(status_of(&backup.arbitration().await), NOT_FOUND);
    let denied = backup.write(vec![]).await.unwrap_err();
    assert_eq!(denied.code(), PermissionDenied);

    backup.arbitrate(Some(9));
    assert_eq!(status_of(&backup.arbitration().await), OK);
    backup.write(vec![]).await.unwrap();
}

// spec: arbitration.downgrade
#[tokio::test]
async fn a_primary_may_step_down() {
    let harness = Harness::start().await;
    let (mut primary, _) = harness.controller(9).await;
    let (mut backup, _) = harness.controller(5).await;
    primary.arbitrate(Some(2));
    assert_eq!(status_of(&primary.arbitration().await), NOT_FOUND);
    assert_eq!(status_of(&backup.arbitration().await), NOT_FOUND);
    let denied = primary.write(vec![]).await.unwrap_err();
    assert_eq!(denied.code(), PermissionDenied);
}

// spec: arbitration.downgrade
#[tokio::test]
async fn a_primary_that_repeats_itself_stays_primary_and_everybody_is_notified() {
    let harness = Harness::start().await;
    let (mut primary, _) = harness.controller(9).await;
    let (mut backup, _) = harness.controller(5).await;
    primary.arbitrate(Some(9));
    assert_eq!(status_of(&primary.arbitration().await), OK);
    assert_eq!(status_of(&backup.arbitration().await), ALREADY_EXISTS);
}

// spec: arbitration.unique
#[tokio::test]
async fn an_election_id_in_use_ends_the_stream_of_the_second() {
    let harness = Harness::start().await;
    let (mut primary, _) = harness.controller(9).await;
    let mut second = harness.stranger().await;
    second.arbitrate(Some(9));
    assert_eq!(second.ended().await.code(), InvalidArgument);
    primary.write(vec![]).await.unwrap();

    // The stream of a live controller ends too if the controller sends an election id in use.
    let (mut backup, _) = harness.controller(5).await;
    backup.arbitrate(Some(9));
    assert_eq!(backup.ended().await.code(), InvalidArgument);

    drop(primary);
    let mut next = harness.stranger().await;
    next.arbitrate(Some(10));
    assert_eq!(status_of(&next.arbitration().await), OK);
}

// spec: arbitration.unset
#[tokio::test]
async fn an_unset_election_id_never_is_primary_and_zero_may_be() {
    let harness = Harness::start().await;
    let mut standby = harness.stranger().await;
    standby.arbitrate(None);
    let arbitration = standby.arbitration().await;
    assert_eq!(status_of(&arbitration), NOT_FOUND);
    assert_eq!(arbitration.election_id, None);
    let mut second_standby = harness.stranger().await;
    second_standby.arbitrate(None);
    assert_eq!(status_of(&second_standby.arbitration().await), NOT_FOUND);
    let denied = standby.write(vec![]).await.unwrap_err();
    assert_eq!(denied.code(), PermissionDenied);

    let (mut zero, code) = harness.controller(0).await;
    assert_eq!(code, OK);
    zero.write(vec![]).await.unwrap();
    assert_eq!(status_of(&standby.arbitration().await), ALREADY_EXISTS);
}

// spec: arbitration.128-bit
#[tokio::test]
async fn election_ids_have_128_bits() {
    let harness = Harness::start().await;
    let (mut low, _) = harness.controller(u64::MAX).await;
    let mut high = harness.stranger().await;
    high.send(RequestUpdate::Arbitration(MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        election_id: Some(Uint128 { high: 1, low: 0 }),
        ..Default::default()
    }));
    assert_eq!(status_of(&high.arbitration().await), OK);
    let arbitration = low.arbitration().await;
    assert_eq!(arbitration.election_id, Some(Uint128 { high: 1, low: 0 }));
}

// spec: arbitration.device-and-role
#[tokio::test]
async fn device_id_and_role_are_checked() {
    let harness = Harness::start().await;
    let request = |device_id, role| {
        RequestUpdate::Arbitration(MasterArbitrationUpdate {
            device_id,
            role,
            election_id: election(1),
            ..Default::default()
        })
    };
    let named = |name: &str| {
        Some(Role {
            name: name.into(),
            ..Default::default()
        })
    };
    let mut stranger = harness.stranger().await;
    stranger.send(request(DEVICE_ID + 1, None));
    assert_eq!(stranger.ended().await.code(), NotFound);

    // Another role, named or numbered, has its own primary.
    #[expect(deprecated, reason = "older controllers write it")]
    let numbered = Role {
        id: 3,
        ..Default::default()
    };
    for role in [named("routing"), Some(numbered)] {
        let mut stranger = harness.stranger().await;
        stranger.send(request(DEVICE_ID, role.clone()));
        let arbitration = stranger.arbitration().await;
        assert_eq!(
            (status_of(&arbitration), arbitration.role),
            (Code::Ok as i32, role)
        );
    }

    let mut stranger = harness.stranger().await;
    let config = Some(prost_types::Any::default());
    let with_config = Role {
        config,
        ..Default::default()
    };
    stranger.send(request(DEVICE_ID, Some(with_config)));
    assert_eq!(stranger.ended().await.code(), InvalidArgument);

    // A live controller can change neither device nor role.
    for moved in [
        request(DEVICE_ID + 1, None),
        request(DEVICE_ID, named("routing")),
    ] {
        let (mut live, _) = harness.controller(1).await;
        live.send(moved);
        assert_eq!(live.ended().await.code(), FailedPrecondition);
    }
}

// spec: arbitration.handover
#[tokio::test]
async fn a_new_primary_is_notified_after_the_former_ones_writes() {
    let harness = Harness::start().await;
    let (mut former, _) = harness.controller(1).await;
    harness.switch.hold();
    let mut writer = former.client.clone();
    let request = p4runtime_proto::p4::v1::WriteRequest {
        device_id: DEVICE_ID,
        election_id: former.election_id,
        updates: vec![crate::harness::update(Type::Modify, cell(3, &[7]))],
        ..Default::default()
    };
    let writing = tokio::spawn(async move { writer.write(request).await });
    until(|| harness.switch.n_held() != 0).await;

    let mut next = harness.stranger().await;
    next.arbitrate(Some(2));
    // The former primary is notified at once and cannot write any more. The new primary must wait for its notification.
    assert_eq!(status_of(&former.arbitration().await), ALREADY_EXISTS);
    let denied = former.write(vec![]).await.unwrap_err();
    assert_eq!(denied.code(), PermissionDenied);
    until(|| harness.switch.n_held() >= 2).await;
    tokio::select! {
        biased;
        arbitration = next.arbitration() => panic!("the writes have not ended, and received {arbitration:?}"),
        () = std::future::ready(()) => {}
    }
    assert!(!writing.is_finished());

    harness.switch.release();
    assert_eq!(status_of(&next.arbitration().await), OK);
    in_time(writing).await.unwrap().unwrap();
}

#[tokio::test]
async fn stopping_the_server_ends_the_streams() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let (ended, ()) = tokio::join!(primary.ended(), harness.stop());
    assert_eq!(ended.code(), Unavailable);
}

// spec: arbitration.limit
#[tokio::test]
async fn more_controllers_than_there_may_be_are_reported() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let mut join = async |election_id| {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let requests = tokio_stream::wrappers::UnboundedReceiverStream::new(receiver);
        let update = RequestUpdate::Arbitration(MasterArbitrationUpdate {
            device_id: DEVICE_ID,
            election_id: election(election_id),
            ..Default::default()
        });
        let update = Some(update);
        sender.send(StreamMessageRequest { update }).unwrap();
        let stream = in_time(client.stream_channel(requests)).await.unwrap();
        let mut stream = stream.into_inner();
        let answer = in_time(stream.message()).await.map(drop);
        (answer, sender, stream)
    };
    let n_max = u64::try_from(p4runtime_server::limits::STREAMS_MAX).unwrap();
    let mut live = Vec::new();
    // The controller with the highest election id joins first, so that later controllers cause no notifications.
    for election_id in (1..=n_max).rev() {
        let joined = join(election_id).await;
        joined.0.as_ref().unwrap();
        live.push(joined);
    }
    let refused = join(0).await.0.unwrap_err();
    assert_eq!(refused.code(), ResourceExhausted);
    // After a controller has gone, another controller can take its place.
    let gone = live.pop().unwrap();
    drop(gone);
    while join(0).await.0.is_err() {
        tokio::task::yield_now().await;
    }
}
