//! A client that follows the device's changes knows the device's state without reading it again.

use std::sync::Arc;

use control::{Batch, Changed, ClientData, Missed, Operation, Update, limits};
use dataplane::MulticastGroup;

use crate::harness::{Harness, bridge, in_time, replicas};

const N_REPLICAS: u16 = 1_023;

#[tokio::test]
async fn what_is_reported_is_what_was_carried_out_in_its_order() {
    let harness = Harness::start().await;
    let mut changes = harness.device.changes();
    let reading = harness.device.reading().await.unwrap();
    let before = reading.change();
    drop(reading);
    harness.write(vec![harness.insert(1, 2)]).await;
    harness
        .results(vec![harness.insert(1, 2), harness.insert(2, 2)])
        .await;
    // This deletion is refused, so it is no change.
    harness.results(vec![harness.delete(9)]).await;
    let checked = harness.device.check(bridge(), ()).unwrap();
    let next = harness.device.set_pipeline(checked).await.unwrap();

    for (number, n_done) in [(1, 1), (2, 1)] {
        let change = in_time(changes.next()).await.unwrap().unwrap();
        assert_eq!(change.number, before + number);
        assert!(Arc::ptr_eq(&change.pipeline, &harness.pipeline));
        let Changed::Written(batch, results) = change.what else {
            panic!("expected a batch, found {change:?}")
        };
        let done = batch.operations.iter().zip(&results[..]);
        let done: Vec<_> = done.filter(|(_, result)| result.is_ok()).collect();
        assert_eq!(done.len(), n_done);
        let inserted = harness.insert(u8::try_from(number).unwrap(), 2);
        assert_eq!(*done[0].0, inserted);
    }
    let change = in_time(changes.next()).await.unwrap().unwrap();
    assert!(matches!(change.what, Changed::Pipeline));
    assert!(Arc::ptr_eq(&change.pipeline, &next));
    let reading = harness.device.reading().await.unwrap();
    assert_eq!(reading.change(), change.number);
}

#[tokio::test]
async fn what_is_written_to_a_saved_program_is_reported_with_its_commit() {
    let harness = Harness::start().await;
    let mut changes = harness.device.changes();
    let checked = harness.device.check(bridge(), ()).unwrap();
    let save = |exclusive: control::Exclusive| async move { exclusive.save(checked).done().await };
    harness.device.exclusively(save).await.unwrap().unwrap();
    let saved = harness.device.pipeline().unwrap();
    let batch = Batch::new(vec![harness.insert(1, 2)]);
    harness.device.write(saved, batch).await.unwrap();
    let commit = |exclusive: control::Exclusive| async move {
        let ready = exclusive.ready_saved().await?;
        exclusive.commit(ready).done().await
    };
    let committed = harness.device.exclusively(commit).await.unwrap().unwrap();
    let change = in_time(changes.next()).await.unwrap().unwrap();
    assert!(matches!(change.what, Changed::Pipeline), "{change:?}");
    assert!(Arc::ptr_eq(&change.pipeline, &committed));
    assert_eq!(harness.addresses().await, [1]);
}

#[tokio::test]
async fn who_follows_too_slowly_reads_how_much_he_missed() {
    let harness = Harness::start().await;
    let mut changes = harness.device.changes();
    let insert = |id| {
        let group = MulticastGroup {
            id,
            replicas: replicas(N_REPLICAS),
            backups: Vec::new(),
        };
        Operation::MulticastGroup(Update::Insert(group), ClientData::default())
    };
    let n_kept = limits::CHANGED_UPDATES_KEPT_MAX / usize::from(1 + N_REPLICAS);
    let (n_kept, n_missed) = (u32::try_from(n_kept).unwrap(), 3);
    for id in 1..=n_kept + n_missed {
        harness.write(vec![insert(id)]).await;
    }
    let missed = in_time(changes.next()).await.unwrap();
    assert_eq!(missed.unwrap_err(), Missed(n_missed.into()));
    for id in n_missed + 1..=n_missed + n_kept {
        let change = in_time(changes.next()).await.unwrap().unwrap();
        let Changed::Written(batch, _) = change.what else {
            panic!("expected a batch, found {change:?}")
        };
        assert_eq!(batch.operations, [insert(id)]);
    }
    // A later follower has missed nothing, and changes that nobody follows are not kept.
    drop(changes);
    harness.write(vec![harness.insert(1, 2)]).await;
    let mut changes = harness.device.changes();
    harness.write(vec![harness.insert(2, 2)]).await;
    let change = in_time(changes.next()).await.unwrap().unwrap();
    assert_eq!(change.number, u64::from(n_kept + n_missed) + 3);
}

#[tokio::test]
async fn the_changes_end_with_the_device() {
    let harness = Harness::start().await;
    let mut changes = harness.device.changes();
    harness.write(vec![harness.insert(1, 2)]).await;
    let Harness { device, .. } = harness;
    let follower = tokio::spawn(async move {
        let change = changes.next().await.unwrap().unwrap();
        (change.number, changes.next().await.is_none())
    });
    tokio::task::yield_now().await;
    drop(device);
    assert_eq!(in_time(follower).await.unwrap(), (2, true));
}

#[tokio::test]
async fn a_change_is_reported_though_its_caller_gave_up() {
    let harness = Harness::start().await;
    let mut changes = harness.device.changes();
    harness.switch.hold();
    let given_up = harness.write_apart(vec![harness.insert(1, 2)]);
    harness.held(1).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    harness.switch.release();
    let change = in_time(changes.next()).await.unwrap().unwrap();
    assert!(matches!(change.what, Changed::Written(..)), "{change:?}");
}
