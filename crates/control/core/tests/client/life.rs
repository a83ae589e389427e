//! Tests of a device, from setting its first program to replacing a program.

use std::sync::Arc;

use control::{
    Atomicity, Batch, CellValue, ClientData, EntryChange, EntryUpdate, Error, Exclusive,
    GeneratorUpdate, NewAction, Operation, Subscriber, Update, limits,
};
use dataplane::{
    ControlErrorKind, CounterValue, GeneratorConfig, GeneratorState, Pace, PortId, SwitchConfig,
};

use crate::harness::{Harness, N_SLOTS, bare, bridge, frame, in_time, key, replicas};

#[tokio::test]
async fn a_device_lives_from_no_program_to_another() {
    let (_, device) = bare(SwitchConfig::default(), 1);
    assert_eq!(device.reading().await.err(), Some(Error::NoPipeline));
    assert_eq!(device.pipeline().err(), Some(Error::NoPipeline));

    let harness = Harness::start().await;
    assert_eq!(harness.pipeline.generation(), 1);
    // An entry with client data.
    let client_data = ClientData {
        bytes: b"viewer".to_vec(),
        number: 7,
        ..ClientData::default()
    };
    let entry = harness.entry(0xa, 2);
    let insert = Operation::Entry(EntryUpdate::Insert {
        table: harness.forward,
        entry: entry.clone(),
        client_data: client_data.clone(),
    });
    harness.write(vec![insert]).await;
    assert_eq!(harness.entries().await, [entry]);
    assert_eq!(
        harness.pipeline.client_data().entry(&harness.key(0xa)),
        client_data
    );

    // Packets are counted at the entry and in the program's array.
    harness.switch.receive(1, &frame(0xa));
    let ports = harness.switch.transmitted().into_iter();
    assert!(ports.map(|sent| sent.port).eq([PortId(2)]));
    let one = CounterValue {
        packets: 1,
        bytes: 64,
    };
    assert_eq!(harness.entries().await[0].counter, one);
    let copies = harness.pipeline.program().counter("ingress.copies");
    let reading = harness.device.reading().await.unwrap();
    let mut cells = 0..16;
    let counted = reading.counter_cells(copies.unwrap(), &mut cells).await;
    let counted = counted.unwrap().unwrap();
    assert_eq!((counted.len(), counted[2]), (16, one));
    let done = reading.counter_cells(copies.unwrap(), &mut cells).await;
    assert_eq!(done, Ok(None));
    drop(reading);

    // Parts of an entry that the change does not give stay as they are.
    let counted = CounterValue {
        packets: 5,
        bytes: 6,
    };
    let change = EntryChange {
        counter: Some(counted),
        ..EntryChange::default()
    };
    let change = Operation::Entry(EntryUpdate::Modify(harness.key(0xa), change));
    harness.write(vec![change, harness.slot(3, 9)]).await;
    assert_eq!(harness.entries().await[0].counter, counted);
    assert_eq!(harness.slot_value(3).await, [9]);
    assert_eq!(
        harness.pipeline.client_data().entry(&harness.key(0xa)),
        client_data
    );
    let action = NewAction {
        action: harness.entry(0xa, 3).action,
        idle_timeout_ns: 0,
        client_data: ClientData::default(),
    };
    let change = EntryChange {
        action: Some(action),
        ..EntryChange::default()
    };
    let change = Operation::Entry(EntryUpdate::Modify(harness.key(0xa), change));
    harness.write(vec![change]).await;
    let entries = harness.entries().await;
    assert_eq!(entries[0].action, harness.entry(0xa, 3).action);
    assert_eq!(entries[0].counter, counted);
    let found = harness.pipeline.client_data().entry(&harness.key(0xa));
    assert_eq!(found, ClientData::default());

    in_time(harness.device.drain()).await.unwrap();
    let counted = harness.device.counted().await.unwrap();
    assert_eq!((counted.inside, counted.counters.received), (0, 1));

    // Setting the same program again makes another pipeline, without entries.
    let checked = harness.device.check(bridge(), ()).unwrap();
    let next = harness.device.set_pipeline(checked).await.unwrap();
    assert_eq!(next.generation(), 2);
    assert_eq!(harness.addresses().await, [0; 0]);
}

#[tokio::test]
async fn a_wrong_update_leaves_what_the_atomicity_says() {
    for (atomicity, left, n_results) in [
        (Atomicity::ContinueOnError, vec![1, 2, 3], 5),
        (Atomicity::StopAtError, vec![1, 2], 3),
    ] {
        let harness = Harness::start().await;
        let operations = vec![
            harness.insert(1, 2),
            harness.insert(2, 2),
            harness.insert(2, 3),
            harness.insert(3, 2),
            harness.delete(9),
        ];
        let batch = Batch {
            operations,
            atomicity,
        };
        let pipeline = Arc::clone(&harness.pipeline);
        let results = harness.device.write(pipeline, batch).await.unwrap();
        assert_eq!(results.len(), n_results, "{atomicity:?}");
        let refused = results[2].as_ref().unwrap_err();
        assert_eq!(refused.kind, ControlErrorKind::AlreadyExists);
        let n_refused = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(n_refused, n_results / 2, "{atomicity:?}");
        assert_eq!(harness.addresses().await, left, "{atomicity:?}");
        // The refused insert has not changed the existing entry.
        let entries = harness.entries().await;
        let of_two = entries.iter().find(|entry| entry.key == key(2));
        assert_eq!(of_two, Some(&harness.entry(2, 2)));
    }
}

#[tokio::test]
async fn a_batch_that_is_whole_is_done_in_one_piece_of_every_worker_or_not_at_all() {
    for atomicity in [Atomicity::Whole, Atomicity::WholeForPackets] {
        let harness = Harness::with(SwitchConfig::default(), 2).await;
        let whole = |operations| {
            let batch = Batch {
                operations,
                atomicity,
            };
            let (device, pipeline) = (&harness.device, Arc::clone(&harness.pipeline));
            async move { in_time(device.write(pipeline, batch)).await }
        };
        let mut operations: Vec<Operation> = (1..=50).map(|n| harness.insert(n, 2)).collect();
        operations.extend((0..150).map(|cell| harness.slot(cell, 7)));
        let before = harness.switch.n_pieces();
        assert_eq!(whole(operations).await, Ok(vec![Ok(()); 200]));
        assert_eq!(harness.switch.n_pieces() - before, 1, "{atomicity:?}");
        assert_eq!(harness.addresses().await, Vec::from_iter(1..=50));

        // Entry 30 exists, so its insert is refused.
        let mut operations: Vec<Operation> = (1..=20).map(|n| harness.delete(n)).collect();
        operations.push(harness.insert(30, 3));
        operations.push(harness.insert(51, 3));
        let entries = harness.entries().await;
        let results = whole(operations).await.unwrap();
        let kinds = results.iter().map(|result| result.as_ref().err());
        let kinds: Vec<_> = kinds.map(|error| error.map(|it| it.kind)).collect();
        let mut expected = vec![Some(ControlErrorKind::Aborted); 22];
        expected[20] = Some(ControlErrorKind::AlreadyExists);
        assert_eq!(kinds, expected, "{atomicity:?}");
        let aborted = results[21].as_ref().unwrap_err();
        assert!(aborted.message.contains("update 21"), "{aborted:?}");
        assert_eq!(harness.entries().await, entries);

        // A batch with this many updates is refused, because frames would wait too long.
        let slots = (0..).map(|n| harness.slot(n % N_SLOTS, 1));
        let operations = slots.take(limits::UNDIVIDED_UPDATES_MAX + 1).collect();
        let Err(Error::Refused(refused)) = whole(operations).await else {
            panic!("expected that it is refused")
        };
        assert_eq!(refused.kind, ControlErrorKind::Unimplemented);
        assert_eq!(harness.slot_value(0).await, [7]);
    }
}

#[tokio::test]
async fn while_packets_wait_between_two_passes_no_batch_is_whole_for_them() {
    let config = SwitchConfig {
        egress_rate_pps: Some(1),
        ..SwitchConfig::default()
    };
    let harness = Harness::with(config, 1).await;
    harness.write(vec![harness.insert(1, 2)]).await;
    for _ in 0..3 {
        harness.switch.receive(1, &frame(1));
    }
    let write = |atomicity| {
        let batch = Batch {
            operations: vec![harness.insert(2, 2), harness.insert(3, 2)],
            atomicity,
        };
        let pipeline = Arc::clone(&harness.pipeline);
        in_time(harness.device.write(pipeline, batch))
    };
    let Err(Error::Refused(refused)) = write(Atomicity::WholeForPackets).await else {
        panic!("expected that it is refused")
    };
    assert_eq!(refused.kind, ControlErrorKind::Unimplemented);
    assert_eq!(harness.addresses().await, [1]);
    // `Whole` does not wait for a moment when no packet is between two passes through ingress and egress.
    assert_eq!(write(Atomicity::Whole).await, Ok(vec![Ok(()); 2]));
    harness
        .write(vec![harness.delete(2), harness.delete(3)])
        .await;
    for _ in 0..3 {
        harness.switch.advance(1_000_000_000);
    }
    assert_eq!(write(Atomicity::WholeForPackets).await, Ok(vec![Ok(()); 2]));
    assert_eq!(harness.addresses().await, [1, 2, 3]);
}

#[tokio::test]
async fn a_large_batch_comes_in_pieces_with_frames_between_them() {
    let harness = Harness::start().await;
    let group = |n_replicas| dataplane::MulticastGroup {
        id: 1,
        replicas: replicas(n_replicas),
        ..dataplane::MulticastGroup::default()
    };
    let insert = |n| Operation::MulticastGroup(Update::Insert(group(n)), ClientData::default());
    let cycle = |n| {
        let operations = [harness.insert(1, 2), harness.delete(1)];
        operations.into_iter().cycle().take(n).collect::<Vec<_>>()
    };
    let per_piece = limits::UPDATES_PER_PIECE;
    let per_update = limits::CELLS_PER_UPDATE;
    let n_pieces_of_all = N_SLOTS.div_ceil(per_update * per_piece as u64);
    for (operations, n_pieces) in [
        (cycle(per_piece), 1),
        (cycle(per_piece + 2), 2),
        // Each replica counts as one update.
        (vec![insert(100), harness.slot(0, 1)], 2),
        (vec![harness.every_slot(7)], n_pieces_of_all),
    ] {
        let before = harness.switch.n_pieces();
        harness.write(operations).await;
        assert_eq!((harness.switch.n_pieces() - before) as u64, n_pieces);
    }
}

#[tokio::test]
async fn an_update_that_is_refused_in_its_middle_changes_nothing() {
    let harness = Harness::start().await;
    harness.write(vec![harness.insert(1, 2)]).await;
    let routes = harness.pipeline.program().table("ingress.routes").unwrap();
    let slots = harness.pipeline.program().register("ingress.slots");
    let mut wrong = harness.entry(1, 3).action;
    if let dataplane::TableAction::Call(call) = &mut wrong {
        call.args = vec![vec![0xff, 0xff]];
    }
    let wrong = EntryChange {
        action: Some(NewAction {
            action: wrong,
            idle_timeout_ns: 0,
            client_data: ClientData {
                number: 1,
                ..ClientData::default()
            },
        }),
        counter: Some(CounterValue {
            packets: 1,
            bytes: 1,
        }),
        meter: None,
        ..EntryChange::default()
    };
    let beyond = CellValue::Register(slots.unwrap(), vec![1]);
    let operations = vec![
        Operation::Entry(EntryUpdate::Modify(harness.key(1), wrong)),
        Operation::Entry(EntryUpdate::Modify(
            harness.key(1),
            EntryChange {
                meter: Some(None),
                counter: Some(CounterValue::default()),
                ..EntryChange::default()
            },
        )),
        Operation::Cells(beyond, 0..131_073),
        Operation::DefaultAction {
            table: routes,
            action: Some(harness.entry(1, 2).action),
            client_data: ClientData {
                number: 2,
                ..ClientData::default()
            },
        },
    ];
    let results = harness.results(operations).await;
    use ControlErrorKind::{FailedPrecondition, InvalidArgument, OutOfRange, PermissionDenied};
    let kinds: Vec<_> = results
        .iter()
        .map(|it| it.as_ref().err().unwrap().kind)
        .collect();
    let expected = [
        InvalidArgument,
        FailedPrecondition,
        OutOfRange,
        PermissionDenied,
    ];
    assert_eq!(kinds, expected, "{results:?}");
    assert_eq!(harness.entries().await, [harness.entry(1, 2)]);
    assert_eq!(harness.slot_value(0).await, [0]);
    let client_data = harness.pipeline.client_data();
    assert_eq!(client_data.entry(&harness.key(1)), ClientData::default());
    assert_eq!(client_data.default_action(routes), ClientData::default());
}

#[tokio::test]
async fn what_was_made_for_a_program_that_was_replaced_is_refused_by_its_name() {
    let harness = Harness::start().await;
    let checked = harness.device.check(bridge(), ()).unwrap();
    let next = harness.device.set_pipeline(checked).await.unwrap();
    let replaced = Error::Replaced {
        made_for: harness.pipeline.generation(),
        found: next.generation(),
    };
    let batch = Batch::new(vec![harness.insert(1, 2)]);
    let written = harness
        .device
        .write(Arc::clone(&harness.pipeline), batch)
        .await;
    assert_eq!(written, Err(replaced.clone()));
    let read = harness.device.read(&harness.pipeline, 1, |_| ()).await;
    assert_eq!(read, Err(replaced.clone()));
    let (notify, sent) = tokio::sync::oneshot::channel();
    let done = move |sent| notify.send(sent).unwrap();
    let cpu_port = PortId(3);
    harness
        .device
        .packet_out(&harness.pipeline, cpu_port, frame(1), done);
    assert_eq!(sent.await.unwrap(), Err(replaced));
    assert_eq!(harness.addresses().await, [0; 0]);
    assert_eq!(harness.device.counted().await.unwrap().counters.received, 0);

    // A batch for the forwarding pipeline is executed.
    let batch = Batch::new(vec![harness.insert(1, 2)]);
    let written = harness.device.write(next, batch).await;
    assert_eq!(written, Ok(vec![Ok(())]));
}

#[tokio::test]
async fn a_saved_program_forwards_with_what_was_written_to_it_once_it_is_committed() {
    let harness = Harness::start().await;
    harness.write(vec![harness.insert(1, 2)]).await;
    let checked = harness.device.check(bridge(), "a view").unwrap();
    let call = |exclusive: control::Exclusive| async move { exclusive.save(checked).done().await };
    harness.device.exclusively(call).await.unwrap().unwrap();
    let saved = harness.device.pipeline().unwrap();
    assert!(saved.is_saved());
    let batch = Batch::new(vec![harness.insert(2, 3), harness.insert(2, 3)]);
    let results = harness
        .device
        .write(Arc::clone(&saved), batch)
        .await
        .unwrap();
    assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 1);
    // Reads refer to the saved pipeline, but packets see the pipeline that forwards.
    assert_eq!(harness.addresses().await, [2]);
    harness.switch.receive(1, &frame(1));
    assert_eq!(harness.switch.transmitted().len(), 1);
    let generator = Operation::Generator(GeneratorUpdate::Delete(1));
    let batch = Batch::new(vec![generator]);
    let refused = harness
        .device
        .write(Arc::clone(&saved), batch)
        .await
        .unwrap();
    let refused = refused[0].as_ref().unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::FailedPrecondition);

    let commit = |exclusive: control::Exclusive| async move {
        let ready = exclusive.ready_saved().await?;
        exclusive.commit(ready).done().await
    };
    let committed = harness.device.exclusively(commit).await.unwrap().unwrap();
    assert_eq!(committed.view::<&str>().as_deref(), Some(&"a view"));
    assert_eq!(committed.view::<u64>(), None);
    assert_eq!(harness.addresses().await, [2]);
    harness.switch.receive(1, &frame(2));
    let sent = harness.switch.transmitted();
    assert_eq!(sent[0].port, PortId(3));
    // A caller that still holds the saved pipeline gets an error.
    let batch = Batch::new(vec![harness.insert(4, 2)]);
    let refused = harness.device.write(Arc::clone(&saved), batch).await;
    let replaced = Error::Replaced {
        made_for: saved.generation(),
        found: committed.generation(),
    };
    assert_eq!(refused, Err(replaced));
    let none = harness.device.exclusively(commit).await.unwrap();
    let Err(Error::Refused(none)) = none else {
        panic!("expected that none is saved, found {none:?}")
    };
    assert_eq!(none.kind, ControlErrorKind::NotFound);
}

#[tokio::test]
async fn frames_for_the_cpu_go_to_who_subscribed_with_the_program_that_made_them() {
    let config = SwitchConfig {
        cpu_port: Some(PortId(510)),
        ..SwitchConfig::default()
    };
    let harness = Harness::with(config, 1).await;
    let (sender, mut packet_ins) = control::PacketInSender::channel(4);
    harness.device.subscribe(Subscriber::PacketIns(sender));
    let program = harness.pipeline.program();
    let action = program
        .action_of(harness.forward, "ingress.to_cpu")
        .unwrap();
    let mut entry = harness.entry(1, 2);
    let args = Vec::new();
    entry.action = dataplane::ActionCall { action, args }.into();
    let insert = Operation::Entry(EntryUpdate::Insert {
        table: harness.forward,
        entry,
        client_data: ClientData::default(),
    });
    harness.write(vec![insert]).await;
    harness.switch.receive(1, &frame(1));
    let packet_in = in_time(packet_ins.recv()).await.unwrap();
    assert_eq!(packet_in.generation, harness.pipeline.generation());
    assert!(packet_in.frame.ends_with(&[0; 50]));
}

/// Whether a generator with this count runs after a restart.
async fn runs_again(count: Option<u64>) -> bool {
    let harness = Harness::start().await;
    let config = GeneratorConfig {
        name: "load".to_owned(),
        port: PortId(1),
        frames: Arc::new([frame(0xa).into()]),
        pace: Pace::per_second(1000),
        count,
    };
    let (id, runs) = (1, true);
    let insert = Operation::Generator(GeneratorUpdate::Insert { id, config, runs });
    let checked = harness.device.check(bridge(), ()).unwrap();
    let operations = vec![harness.slot(3, 9), insert];
    let call = |exclusive: Exclusive| async move {
        let ready = exclusive.ready_again(checked, operations).await?;
        exclusive.commit(ready).done().await
    };
    harness.device.exclusively(call).await.unwrap().unwrap();
    let generators = harness.switch.in_switch(0, |switch| switch.generators());
    let [generator] = &generators[..] else {
        panic!("expected one, found {generators:?}")
    };
    generator.state == GeneratorState::Running
}

#[tokio::test]
async fn a_restored_generator_does_not_make_its_counted_frames_again() {
    assert!(runs_again(None).await);
    assert!(!runs_again(Some(3)).await);
}
