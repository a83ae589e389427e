//! Several workers are one device: each worker executes every write, and reads return the sum of the workers' counts.

use control::{ClientData, EntryUpdate, Error, GeneratorUpdate, Operation};
use dataplane::{ControlErrorKind, CounterValue, Program, SwitchConfig};

use crate::harness::{Harness, bare, bridge, frame};

#[tokio::test]
async fn a_write_comes_to_every_worker_and_what_they_count_adds_up() {
    let harness = Harness::with(SwitchConfig::default(), 3).await;
    let mut entry = harness.entry(1, 2);
    entry.counter = CounterValue {
        packets: 10,
        bytes: 100,
    };
    let insert = Operation::Entry(EntryUpdate::Insert {
        table: harness.forward,
        entry,
        client_data: ClientData::default(),
    });
    harness.write(vec![insert]).await;
    let n_entries = harness.device.submit({
        let forward = harness.forward;
        move |_, context| context.switch.entry_count(forward)
    });
    assert_eq!(n_entries.all().await.unwrap(), [1, 1, 1]);
    let send = harness.device.submit(|worker, context| {
        let port = dataplane::PortId(1);
        for _ in 0..worker {
            context.switch.handle_frame(context.now, port, &frame(1));
        }
    });
    send.all().await.unwrap();
    let counted = CounterValue {
        packets: 13,
        bytes: 100 + 3 * 64,
    };
    assert_eq!(harness.entries().await[0].counter, counted);
    let all = harness.device.counted().await.unwrap();
    assert_eq!((all.n_workers, all.counters.received), (3, 3));
}

#[tokio::test]
async fn registers_that_differ_have_no_value() {
    let harness = Harness::with(SwitchConfig::default(), 2).await;
    harness.write(vec![harness.every_slot(7)]).await;
    assert_eq!(harness.slot_value(5).await, [7]);
    let slots = harness
        .pipeline
        .program()
        .register("ingress.slots")
        .unwrap();
    let write = harness.device.submit(move |worker, context| {
        let value = [u8::try_from(worker).unwrap()];
        context.switch.set_register_cell(slots, 5, &value)
    });
    write.all().await.unwrap();
    let reading = harness.device.reading().await.unwrap();
    let Err(Error::Refused(refused)) = reading.register_cells(slots, &mut (0..8)).await else {
        panic!("expected that the workers differ")
    };
    assert_eq!(refused.kind, ControlErrorKind::FailedPrecondition);
    let expected = "register \"ingress.slots\": cell 5 has different values in different workers";
    assert_eq!(refused.message, expected);
}

#[tokio::test]
async fn workers_whose_state_has_gone_apart_are_reported() {
    let harness = Harness::with(SwitchConfig::default(), 2).await;
    let (forward, entry) = (harness.forward, harness.entry(1, 2));
    let behind = harness.device.submit(move |worker, context| match worker {
        0 => Ok(()),
        _ => context.switch.insert_entry(forward, entry.clone()),
    });
    behind.all().await.unwrap();
    let pipeline = std::sync::Arc::clone(&harness.pipeline);
    let batch = control::Batch::new(vec![harness.insert(1, 2)]);
    let written = harness.device.write(pipeline, batch).await;
    assert_eq!(written, Err(Error::Apart));
}

#[tokio::test]
async fn what_several_workers_cannot_do_is_refused() {
    let harness = Harness::with(SwitchConfig::default(), 2).await;
    let mut entry = harness.entry(1, 2);
    entry.idle_timeout_ns = 5;
    let insert = Operation::Entry(EntryUpdate::Insert {
        table: harness.forward,
        entry,
        client_data: ClientData::default(),
    });
    let results = harness
        .results(vec![
            insert,
            Operation::Generator(GeneratorUpdate::Delete(1)),
        ])
        .await;
    let messages = results.iter().map(|it| &*it.as_ref().unwrap_err().message);
    let messages: Vec<&str> = messages.collect();
    let expected = [
        "table \"ingress.forward\": idle timeouts need a switch with one worker, this one has 2",
        "packet generators need a switch with one worker, this one has 2",
    ];
    assert_eq!(messages, expected);
    assert_eq!(harness.addresses().await, [0; 0]);
}

#[tokio::test]
async fn registers_of_the_switch_are_one_or_the_program_is_refused() {
    let (_, device) = bare(SwitchConfig::default(), 2);
    device.check(bridge(), ()).unwrap();
    let switch = std::sync::Arc::new(testkit::memory_loop::MemoryLoop::start_workers(
        SwitchConfig::default(),
        4,
        2,
    ));
    let device = control::Device::new(switch, control::Registers::OfTheSwitch);
    // Each worker would count in a register of its own.
    let program = Program::from_json_str(&counting()).unwrap();
    let refused = device.check(program, ()).map(drop);
    let Err(Error::Refused(refused)) = refused else {
        panic!("expected a refusal, found {refused:?}")
    };
    assert_eq!(refused.kind, ControlErrorKind::FailedPrecondition);
    assert!(refused.message.contains("seen"), "{refused}");
}

/// A program that counts its packets in a register.
fn counting() -> String {
    use testkit::builder::{Builder, INGRESS, field, hex, op, output_to, prim};
    let mut b = Builder::default();
    let register = serde_json::json!({"name": "seen", "id": 0, "size": 1, "bitwidth": 16});
    b.push("register_arrays", register);
    let array = serde_json::json!({"type": "register_array", "value": "seen"});
    let read = prim(
        "register_read",
        &[field("pkt.value"), array.clone(), hex(0)],
    );
    let sum = op("+", field("pkt.value"), hex(1));
    let write = prim("register_write", &[array, hex(0), sum]);
    b.run(INGRESS, "out", &[read, write, output_to(1)]);
    b.json.to_string()
}
