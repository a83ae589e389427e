//! Tests of the P4Runtime specification's section "DigestEntry": configuration, lists and acknowledgements of digests.

use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::stream_error::Details;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{DigestEntry, DigestListAck, P4Data, P4StructLike};
use tonic::Code::{self, AlreadyExists, InvalidArgument, NotFound};

use crate::every_entity::{config, frame, id, kinds, start};
use crate::harness::{Harness, until};

/// An hour: no test waits so long.
const LONG_NS: i64 = 3_600_000_000_000;

fn digest(name: &str, config: Option<Config>) -> Kind {
    Kind::DigestEntry(DigestEntry {
        digest_id: id(name),
        config,
    })
}

fn list_config(max_timeout_ns: i64, max_list_size: i32, ack_timeout_ns: i64) -> Option<Config> {
    Some(Config {
        max_timeout_ns,
        max_list_size,
        ack_timeout_ns,
    })
}

fn seen(harness: &Harness, src: u64) {
    harness
        .switch
        .receive(2, &frame(7, src, 0x800, kinds::SEEN));
    harness.switch.transmitted();
}

fn bits(value: &[u8]) -> P4Data {
    P4Data {
        data: Some(Data::Bitstring(value.into())),
    }
}

/// Makes the data of a digest `seen_t` for a packet with this source address from port 2.
fn seen_data(src: u8) -> P4Data {
    let members = vec![bits(&[src]), bits(&[2]), bits(&[kinds::SEEN])];
    P4Data {
        data: Some(Data::Struct(P4StructLike { members })),
    }
}

fn dropped(harness: &Harness, reason: &str) -> u64 {
    let drops = harness.server.controller_drops();
    drops.iter().find(|(name, _)| *name == reason).unwrap().1
}

/// Waits until at least `n` digests were dropped for this reason.
async fn dropped_in_the_end(harness: &Harness, reason: &str, n: u64) {
    until(|| dropped(harness, reason) >= n).await;
}

// spec: digest.lists
#[tokio::test]
async fn digests_come_in_lists_of_distinct_ones_as_it_was_asked() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entry = digest("seen_t", list_config(LONG_NS, 2, 0));
    primary.insert(entry.clone()).await;
    let found = primary.found(digest("seen_t", None)).await;
    assert_eq!(found, std::slice::from_ref(&entry));
    let every = Kind::DigestEntry(DigestEntry::default());
    assert_eq!(primary.found(every).await, [entry]);
    for src in [1, 1, 2, 3, 4] {
        seen(&harness, src);
    }
    let first = primary.digests().await;
    assert_eq!(
        (first.digest_id, &first.data[..]),
        (id("seen_t"), &[seen_data(1), seen_data(2)][..])
    );
    assert!(first.timestamp > 0);
    let second = primary.digests().await;
    assert_eq!(second.data, [seen_data(3), seen_data(4)]);
    assert!(second.list_id > first.list_id);

    // A digest waits no longer than the timeout.
    let soon = digest("seen_t", list_config(1_000_000, 100, 0));
    primary.modify(soon).await;
    seen(&harness, 5);
    assert_eq!(primary.digests().await.data, [seen_data(5)]);
    // The program's other digest has its own lists.
    let noted = digest("noted_t", list_config(0, 0, 0));
    primary.insert(noted).await;
    harness.switch.receive(2, &frame(7, 1, 0x800, kinds::NOTED));
    let noted = primary.digests().await;
    assert_eq!(noted.digest_id, id("noted_t"));
}

// spec: digest.acknowledgements
#[tokio::test]
async fn what_is_not_acknowledged_is_not_reported_again() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entry = digest("seen_t", list_config(0, 1, LONG_NS));
    primary.insert(entry).await;
    seen(&harness, 1);
    let first = primary.digests().await;
    seen(&harness, 1);
    seen(&harness, 2);
    assert_eq!(primary.digests().await.data, [seen_data(2)]);
    let ack = |digest_id, list_id| RequestUpdate::DigestAck(DigestListAck { digest_id, list_id });
    primary.send(ack(id("seen_t"), first.list_id));
    // An error for a later message shows that the acknowledgement was read.
    primary.send(ack(12, first.list_id));
    let error = primary.error().await;
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    assert!(matches!(error.details, Some(Details::DigestListAck(_))));
    seen(&harness, 1);
    assert_eq!(primary.digests().await.data, [seen_data(1)]);

    // A new primary has not received the earlier digests, so they are sent again. Only the new primary may acknowledge
    // them.
    let (mut second, _) = harness.controller(9).await;
    assert_eq!(
        primary.arbitration().await.status.unwrap().code,
        Code::AlreadyExists as i32
    );
    seen(&harness, 1);
    let again = second.digests().await;
    assert_eq!(again.data, [seen_data(1)]);
    primary.send(ack(id("seen_t"), again.list_id));
    let error = primary.error().await;
    assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
}

// spec: digest.errors
#[tokio::test]
async fn wrong_configurations_are_refused() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let good = || list_config(0, 0, 0);
    let seen_with = |timeout, size, ack| digest("seen_t", list_config(timeout, size, ack));
    primary
        .expect_refused([
            (Modify, digest("seen_t", good()), NotFound),
            (Delete, digest("seen_t", None), NotFound),
            (Insert, seen_with(-1, 0, 0), InvalidArgument),
            (Insert, seen_with(0, -1, 0), InvalidArgument),
            (Insert, seen_with(0, 0, -1), InvalidArgument),
            (Insert, digest("one", good()), InvalidArgument),
        ])
        .await;
    primary.insert(digest("seen_t", good())).await;
    let refused = primary.refused(Insert, digest("seen_t", good())).await;
    assert_eq!(refused, AlreadyExists);
    let refused = primary.read_error(digest("one", None)).await;
    assert_eq!(refused, InvalidArgument);
}

// spec: digest.disabled
#[tokio::test]
async fn of_what_nobody_subscribes_to_nothing_is_sent() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    seen(&harness, 1);
    dropped_in_the_end(&harness, "digest_not_wanted", 1).await;
    let entry = digest("seen_t", list_config(0, 1, 0));
    primary.insert(entry.clone()).await;
    seen(&harness, 2);
    assert_eq!(primary.digests().await.data, [seen_data(2)]);
    assert_eq!(dropped(&harness, "digest_not_wanted"), 1);
    primary.delete(digest("seen_t", None)).await;
    assert_eq!(primary.found(digest("seen_t", None)).await, []);
    seen(&harness, 3);
    dropped_in_the_end(&harness, "digest_not_wanted", 2).await;
    primary.insert(entry).await;
    seen(&harness, 4);
    assert_eq!(primary.digests().await.data, [seen_data(4)]);
    assert_eq!(dropped(&harness, "digest_not_wanted"), 2);
}

/// The configuration of digests and the digests that wait to be sent belong to the pipeline, and are dropped with it.
#[tokio::test]
async fn another_pipeline_begins_without_digests() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entry = digest("seen_t", list_config(LONG_NS, 2, 0));
    primary.insert(entry.clone()).await;
    seen(&harness, 1);
    primary.commit(config()).await;
    assert_eq!(primary.found(digest("seen_t", None)).await, []);
    primary.insert(entry).await;
    for src in [2, 3] {
        seen(&harness, src);
    }
    assert_eq!(primary.digests().await.data, [seen_data(2), seen_data(3)]);
}

/// A digest that arrives while there is no primary is counted as dropped. The next primary receives only later digests.
#[tokio::test]
async fn without_a_primary_a_digest_is_lost() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entry = digest("seen_t", list_config(0, 1, 0));
    primary.insert(entry).await;
    drop(primary);
    let mut next = harness.stranger().await;
    next.arbitrate(None);
    while next.arbitration().await.status.unwrap().code != Code::NotFound as i32 {}
    seen(&harness, 1);
    // The digest may still be in the queue. A primary that arrives before the digest is counted as dropped would
    // receive it.
    dropped_in_the_end(&harness, "digest_no_primary", 1).await;
    next.arbitrate(Some(1));
    assert_eq!(
        next.arbitration().await.status.unwrap().code,
        Code::Ok as i32
    );
    seen(&harness, 2);
    assert_eq!(next.digests().await.data, [seen_data(2)]);
    assert_eq!(dropped(&harness, "digest_no_primary"), 1);
}

/// A client may omit a configuration whose values are all 0. The client finsy omits it.
#[tokio::test]
async fn a_configuration_may_be_left_out() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let entry = digest("seen_t", None);
    primary.insert(entry.clone()).await;
    assert_eq!(primary.found(entry.clone()).await, [entry]);
    seen(&harness, 1);
    assert_eq!(primary.digests().await.data, [seen_data(1)]);
}
