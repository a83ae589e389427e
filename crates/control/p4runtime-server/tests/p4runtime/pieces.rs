//! Large writes and reads happen in pieces between which frames pass, or on a thread that does not forward.

use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{TableEntry, Update};

use crate::harness::{Harness, JSON, config, ids, update};
use crate::registers::{cell, every_cell, read_cell};
use crate::replication::{group, replica};
use crate::table_entries::{all, forward_to};

const N_ENTRIES: u16 = 1_000;

/// The fixture with room for `N_ENTRIES` entries in `forward`.
fn large_config() -> ForwardingPipelineConfig {
    let mut config = config();
    let json = JSON.replacen("\"max_size\": 64", &format!("\"max_size\": {N_ENTRIES}"), 1);
    assert_ne!(json, JSON);
    config.p4_device_config = json.into();
    let tables = &mut config.p4info.as_mut().unwrap().tables;
    tables[0].size = i64::from(N_ENTRIES);
    config
}

fn groups(n_groups: u32) -> impl Iterator<Item = Update> {
    (1..=n_groups).map(|id| {
        let replicas = (0..3).map(|instance| replica(&[1], instance));
        update(Type::Insert, group(id, replicas.collect()))
    })
}

#[tokio::test]
async fn a_commit_costs_the_switch_s_thread_the_same_however_much_was_saved() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    let save = primary.set_pipeline(Action::VerifyAndSave, Some(config()));
    save.await.unwrap();
    let mut updates = vec![
        update(Type::Modify, every_cell(7)),
        update(Type::Modify, cell(3, &[8])),
    ];
    updates.extend(groups(100));
    let before = harness.switch.n_pieces();
    primary.write(updates).await.unwrap();
    assert_eq!(harness.switch.n_pieces(), before);
    let commit = primary.set_pipeline(Action::Commit, None);
    commit.await.unwrap();
    // One piece of work returns the loader with which another thread prepares the program, the other piece swaps the
    // program.
    assert_eq!(harness.switch.n_pieces() - before, 2);
    for (index, value) in [(2, [7]), (3, [8]), (131_071, [7])] {
        assert_eq!(read_cell(&mut primary, index).await, value);
    }
    let read = primary.found(group(0, Vec::new())).await;
    assert_eq!(read.len(), 100);
}

#[tokio::test]
async fn large_tables_and_many_groups_are_read_in_pieces_and_whole() {
    let harness = Harness::start().await;
    let mut primary = harness.primary().await;
    primary.commit(large_config()).await;
    let entries = (0..N_ENTRIES).map(|dst| forward_to(&dst.to_be_bytes(), 2));
    let inserts = entries.map(|entry| update(Type::Insert, entry));
    primary.write(inserts.collect()).await.unwrap();
    primary.write(groups(600).collect()).await.unwrap();

    let before = harness.switch.n_pieces();
    let seen = primary.found(all(ids::FORWARD)).await;
    assert_eq!(harness.switch.n_pieces() - before, 4);
    assert_eq!(seen.len(), usize::from(N_ENTRIES));
    for dst in [0, 255, 256, N_ENTRIES - 1] {
        let found = |entry: &&Kind| matches!(entry, Kind::TableEntry(TableEntry { r#match, .. }) if *r#match == key(dst));
        assert_eq!(seen.iter().filter(found).count(), 1, "{dst}");
    }

    let before = harness.switch.n_pieces();
    let read = primary.found(group(0, Vec::new())).await;
    // Each piece reads up to 64 groups with their replicas, and a last piece reads none.
    assert_eq!(harness.switch.n_pieces() - before, 11);
    let written = groups(600).map(|update| update.entity.unwrap().entity.unwrap());
    assert!(read.into_iter().eq(written));
}

/// Returns the match fields for `dst` as the server returns them, without a leading zero byte.
fn key(dst: u16) -> Vec<p4runtime_proto::p4::v1::FieldMatch> {
    let dst = dst.to_be_bytes();
    let canonical = if dst[0] == 0 { &dst[1..] } else { &dst[..] };
    match forward_to(canonical, 2) {
        Kind::TableEntry(entry) => entry.r#match,
        other => panic!("expected an entry, got {other:?}"),
    }
}
