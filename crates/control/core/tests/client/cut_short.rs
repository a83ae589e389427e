//! Concurrent callers, and callers that give up between any two steps of a call.

use std::sync::Arc;

use control::{Batch, Error, Exclusive};
use dataplane::SwitchConfig;

use crate::harness::{Harness, bridge, frame, in_time};

#[tokio::test]
async fn of_two_callers_one_is_carried_out_after_the_other() {
    let harness = Harness::start().await;
    harness.switch.hold();
    let first = harness.write_apart(vec![harness.insert(1, 2), harness.every_slot(7)]);
    harness.held(1).await;
    let second = harness.write_apart(vec![harness.delete(1), harness.slot(131_071, 8)]);
    let device = Arc::clone(&harness.device);
    let reader = tokio::spawn(async move {
        let _reading = device.reading().await.unwrap();
    });
    harness.stays_held(1).await;
    assert!(!reader.is_finished());
    harness.switch.release();
    assert_eq!(in_time(first).await.unwrap(), [Ok(()), Ok(())]);
    assert_eq!(in_time(second).await.unwrap(), [Ok(()), Ok(())]);
    in_time(reader).await.unwrap();
    assert_eq!(harness.addresses().await, [0; 0]);
    assert_eq!(harness.slot_value(131_070).await, [7]);
    assert_eq!(harness.slot_value(131_071).await, [8]);
}

#[tokio::test]
async fn who_gives_up_while_he_waits_for_exclusive_access_has_changed_nothing() {
    let harness = Harness::start().await;
    harness.switch.hold();
    let under_way = harness.write_apart(vec![harness.insert(1, 2)]);
    harness.held(1).await;
    let waits = harness.write_apart(vec![harness.insert(2, 2)]);
    harness.stays_held(1).await;
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    harness.switch.release();
    in_time(under_way).await.unwrap();
    assert_eq!(harness.addresses().await, [1]);
}

#[tokio::test]
async fn a_call_whose_caller_gives_up_once_it_has_exclusive_access_is_carried_out_before_the_next()
{
    let harness = Harness::with(SwitchConfig::default(), 2).await;
    harness.switch.hold_worker(1);
    let given_up = harness.write_apart(vec![harness.insert(1, 2), harness.every_slot(7)]);
    harness.held(1).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let next = harness.write_apart(vec![harness.delete(1)]);
    harness.stays_held(1).await;
    harness.switch.release();
    assert_eq!(in_time(next).await.unwrap(), [Ok(())]);
    assert_eq!(harness.addresses().await, [0; 0]);
    assert_eq!(harness.slot_value(131_071).await, [7]);
}

#[tokio::test]
async fn a_program_whose_caller_gave_up_is_set_before_the_next_call_begins() {
    let harness = Harness::start().await;
    harness.switch.hold();
    let (device, checked) = (
        Arc::clone(&harness.device),
        harness.device.check(bridge(), ()).unwrap(),
    );
    let given_up = tokio::spawn(async move { device.set_pipeline(checked).await });
    harness.held(1).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let (device, pipeline) = (Arc::clone(&harness.device), Arc::clone(&harness.pipeline));
    let batch = Batch::new(vec![harness.insert(1, 2)]);
    let next = tokio::spawn(async move { device.write(pipeline, batch).await });
    harness.stays_held(1).await;
    harness.switch.release();
    let refused = in_time(next).await.unwrap();
    let replaced = Error::Replaced {
        made_for: 1,
        found: 2,
    };
    assert_eq!(refused, Err(replaced));
    assert_eq!(harness.device.pipeline().unwrap().generation(), 2);
}

#[tokio::test]
async fn a_drain_that_is_given_up_leaves_nothing_and_another_ends_when_the_packets_have_left() {
    let config = SwitchConfig {
        egress_rate_pps: Some(1),
        ..SwitchConfig::default()
    };
    let harness = Harness::with(config, 1).await;
    harness.write(vec![harness.insert(1, 2)]).await;
    for _ in 0..3 {
        harness.switch.receive(1, &frame(1));
    }
    let drain = || {
        let device = Arc::clone(&harness.device);
        tokio::spawn(async move { device.drain().await })
    };
    let (given_up, waits) = (drain(), drain());
    // Both drains have begun once a later call is answered.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    harness.device.counted().await.unwrap();
    assert!(!given_up.is_finished() && !waits.is_finished());
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    // The drain does not wait for packets that arrive after it has begun.
    harness.switch.receive(1, &frame(1));
    harness.switch.advance(1_000_000_000);
    harness.switch.advance(1_000_000_000);
    harness.switch.advance(1_000_000_000);
    in_time(waits).await.unwrap().unwrap();
    let is_empty = harness
        .device
        .submit(|_, context| context.drain_waiters.is_empty());
    assert_eq!(is_empty.all().await.unwrap(), [true]);
}

#[tokio::test]
async fn of_a_switch_that_stops_every_caller_is_notified() {
    let harness = Harness::start().await;
    harness.switch.hold();
    let (device, pipeline) = (Arc::clone(&harness.device), Arc::clone(&harness.pipeline));
    let batch = Batch::new(vec![harness.insert(1, 2)]);
    let under_way = tokio::spawn(async move { device.write(pipeline, batch).await });
    harness.held(1).await;
    let device = Arc::clone(&harness.device);
    let waits = tokio::spawn(async move {
        let reading = device.reading().await.unwrap();
        reading.of_first(|_| ()).await
    });
    harness.switch.stop();
    assert_eq!(in_time(under_way).await.unwrap(), Err(Error::Stopped));
    assert_eq!(in_time(waits).await.unwrap(), Err(Error::Stopped));
    assert_eq!(in_time(harness.device.drain()).await, Err(Error::Stopped));
    let call = |exclusive: Exclusive| async move { exclusive.device().n_workers() };
    assert_eq!(harness.device.exclusively(call).await, Ok(1));
}
