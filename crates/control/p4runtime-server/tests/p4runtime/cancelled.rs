//! Callers that cancel between two steps of a call, and pipelines that are replaced at such a moment.

use std::time::Duration;

use control::SwitchHandle;
use dataplane::Program;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use p4runtime_proto::p4::v1::GetForwardingPipelineConfigRequest;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::update::Type::{self, Delete, Insert, Modify};
use p4runtime_server::ServerLimits;
use tokio::sync::oneshot;
use tonic::{Code, Request};

use crate::drain::{DRAIN, slow_harness};
use crate::harness::{
    Controller, DEVICE_ID, Harness, JSON, config, frame, ids, in_time, read, until, update,
};
use crate::packet_io::packet_out;
use crate::registers::{cell, every_cell, read_cell};
use crate::replication::{group, replica};
use crate::table_entries::{all, forward_entry};

/// How many calls of other clients are answered while a test checks that a call does not proceed.
const N_ROUND_TRIPS: usize = 50;

/// The fixture's program with another id for its table `forward`.
fn other_config() -> ForwardingPipelineConfig {
    let mut config = config();
    let p4info = config.p4info.as_mut().unwrap();
    let preambles = p4info.tables.iter_mut().filter_map(|t| t.preamble.as_mut());
    for preamble in preambles.filter(|preamble| preamble.id == ids::FORWARD) {
        preamble.id = OTHER_FORWARD;
    }
    config
}

const OTHER_FORWARD: u32 = 0x0200_00ff;

/// Waits until `n_held` pieces of work wait for the switch.
async fn held(harness: &Harness, n_held: usize) {
    until(|| harness.switch.n_held() == n_held).await;
}

/// Checks that other clients are served, and that no more work reaches the switch.
async fn stays_held(harness: &Harness, n_held: usize) {
    let mut client = harness.client().await;
    for _ in 0..N_ROUND_TRIPS {
        let request = GetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            ..Default::default()
        };
        in_time(client.get_forwarding_pipeline_config(request))
            .await
            .unwrap();
        assert_eq!(harness.switch.n_held(), n_held);
    }
}

/// Returns the same controller on another connection.
async fn again(harness: &Harness, controller: &Controller) -> Controller {
    let mut again = harness.stranger().await;
    again.election_id = controller.election_id;
    again
}

#[tokio::test]
async fn a_commit_whose_caller_gave_up_is_over_before_the_next_write_begins() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let mut given_up = again(&harness, &primary).await;
    harness.switch.hold();
    let commit = tokio::spawn(async move {
        let config = Some(other_config());
        given_up.set_pipeline(Action::VerifyAndCommit, config).await
    });
    held(&harness, 1).await;
    commit.abort();
    let _ = commit.await;

    let write = tokio::spawn(async move {
        let written = primary.write_one(Insert, forward_entry(0xa, 2)).await;
        (written, primary)
    });
    stays_held(&harness, 1).await;
    harness.switch.release();
    let (written, mut primary) = in_time(write).await.unwrap();
    let (code, message) = written.unwrap_err();
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert_eq!(primary.found(all(OTHER_FORWARD)).await, []);
}

// spec: write.serializable
#[tokio::test]
async fn a_write_whose_caller_gave_up_is_in_every_worker_before_the_next_begins() {
    let harness = Harness::with_workers(2).await;
    let mut primary = harness.primary().await;
    let mut given_up = again(&harness, &primary).await;
    harness.switch.hold_worker(1);
    let insert = tokio::spawn(async move {
        let entry = forward_entry(0xa, 2);
        given_up.write_one(Insert, entry).await
    });
    held(&harness, 1).await;
    insert.abort();
    let _ = insert.await;

    let delete = tokio::spawn(async move {
        let deleted = primary.write_one(Delete, forward_entry(0xa, 2)).await;
        (deleted, primary)
    });
    stays_held(&harness, 1).await;
    harness.switch.release();
    let (deleted, mut primary) = in_time(delete).await.unwrap();
    deleted.unwrap();
    assert_eq!(primary.found(all(ids::FORWARD)).await, []);
}

#[tokio::test]
async fn a_call_that_gave_up_while_it_waited_for_exclusive_access_changes_nothing() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let (mut first, mut given_up) = (
        again(&harness, &primary).await,
        again(&harness, &primary).await,
    );
    harness.switch.hold();
    let under_way =
        tokio::spawn(async move { first.write_one(Insert, forward_entry(0xa, 2)).await });
    held(&harness, 1).await;
    let waits =
        tokio::spawn(async move { given_up.write_one(Insert, forward_entry(0xb, 2)).await });
    stays_held(&harness, 1).await;
    waits.abort();
    let _ = waits.await;
    stays_held(&harness, 1).await;
    harness.switch.release();
    in_time(under_way).await.unwrap().unwrap();
    assert_eq!(primary.found(all(ids::FORWARD)).await.len(), 1);
}

#[tokio::test]
async fn work_for_a_pipeline_that_was_replaced_is_refused() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    // Simulates a commit between a call's check and its work.
    let program = Program::from_json_str(JSON).unwrap();
    let replace = |context: &mut control::SwitchContext<'_>| {
        context.switch.set_program_as(program, 1_000);
    };
    harness.switch.submit(0, Box::new(replace));

    let write = primary.write(vec![update(Insert, forward_entry(0xa, 2))]);
    let refused = write.await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused:?}");
    assert!(refused.message().contains("replaced"), "{refused:?}");
    assert_eq!(primary.read_error(all(ids::FORWARD)).await, Code::Aborted);
    primary.send(RequestUpdate::Packet(packet_out(&[&[2], &[0]])));
    let error = primary.error().await;
    assert_eq!(Code::from(error.canonical_code), Code::Aborted);
    harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    // The default action, not the entry, has forwarded the frame.
    let sent = harness.switch.transmitted();
    assert!(sent.iter().all(|sent| sent.port.0 != 2), "{sent:?}");
}

#[tokio::test]
async fn drains_that_were_given_up_leave_nothing() {
    let harness = slow_harness().await;
    for _ in 0..3 {
        harness.switch.receive(1, &frame(0xa, 0xb, 0x0800));
    }
    for _ in 0..5 {
        let mut client = harness.switch_client().await;
        let mut drain = Request::new(DRAIN);
        drain.set_timeout(Duration::from_millis(30));
        in_time(client.drain(drain)).await.unwrap_err();
    }
    in_time(async {
        loop {
            let (report, reported) = oneshot::channel();
            let look = |context: &mut control::SwitchContext<'_>| {
                report.send(context.drain_waiters.is_empty()).unwrap();
            };
            harness.switch.submit(0, Box::new(look));
            if reported.await.unwrap() {
                break;
            }
        }
    })
    .await;
}

// spec: write.serializable
#[tokio::test]
async fn a_large_write_comes_in_pieces_and_its_answer_in_order() {
    const N_UPDATES: usize = 200;
    const WRONG: usize = 150;
    let harness = Harness::start().await;
    let primary = harness.primary().await;
    let mut writer = again(&harness, &primary).await;
    // Each update depends on the one before it.
    let mut updates: Vec<_> = [Insert, Delete]
        .into_iter()
        .cycle()
        .map(|kind| update(kind, forward_entry(0xa, 2)))
        .take(N_UPDATES)
        .collect();
    updates.insert(WRONG, update(Type::Unspecified, forward_entry(0xa, 2)));
    let before = harness.switch.n_pieces();
    let refused = writer.write(updates).await.unwrap_err();
    assert_eq!(harness.switch.n_pieces() - before, 4);
    let expected = format!(
        "1 of {} updates failed, first update {}: ",
        N_UPDATES + 1,
        WRONG + 1
    );
    assert!(refused.message().starts_with(&expected), "{refused}");

    // A group counts as one update for each of its replicas.
    let replicas = (0..70).map(|instance| replica(&[1], instance));
    let updates = vec![
        update(Insert, group(1, replicas.collect())),
        update(Insert, forward_entry(0xa, 2)),
    ];
    let before = harness.switch.n_pieces();
    writer.write(updates).await.unwrap();
    assert_eq!(harness.switch.n_pieces() - before, 2);
}

#[tokio::test]
async fn a_write_whose_caller_gave_up_is_carried_out_to_its_last_piece_before_the_next_begins() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let mut given_up = again(&harness, &primary).await;
    harness.switch.hold();
    let all = tokio::spawn(async move { given_up.write_one(Modify, every_cell(7)).await });
    held(&harness, 1).await;
    all.abort();
    let _ = all.await;
    let last = tokio::spawn(async move {
        let written = primary.write_one(Modify, cell(131_071, &[8])).await;
        (written, primary)
    });
    stays_held(&harness, 1).await;
    harness.switch.release();
    let (written, mut primary) = in_time(last).await.unwrap();
    written.unwrap();
    let values = [131_070, 131_071].map(|index| (index, [7 + u8::from(index == 131_071)]));
    for (index, value) in values {
        assert_eq!(read_cell(&mut primary, index).await, value);
    }
}

#[tokio::test]
async fn writes_are_let_in_between_two_requests_of_a_long_read() {
    let limits = ServerLimits {
        read_alone: Duration::ZERO,
        ..ServerLimits::default()
    };
    let harness = Harness::with_limits(limits).await;
    let mut primary = harness.primary().await;
    let mut reader = harness.stranger().await;
    harness.switch.hold();
    let wanted = vec![all(ids::FORWARD), all(ids::FORWARD)];
    let reading = tokio::spawn(async move { read(&mut reader.client, wanted).await });
    held(&harness, 1).await;
    let inserted = vec![update(Insert, forward_entry(1, 2))];
    let writing = tokio::spawn(async move { primary.write(inserted).await });
    // The write waits for the read.
    stays_held(&harness, 1).await;
    harness.switch.release();
    in_time(writing).await.unwrap().unwrap();
    let found = in_time(reading).await.unwrap().unwrap();
    assert_eq!(
        found.len(),
        1,
        "the second request finds the entry: {found:?}"
    );
}
