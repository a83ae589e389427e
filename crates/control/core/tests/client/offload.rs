//! An offload forwards beside the engine, and a client of the device sees the same as without an offload.

use std::sync::{Arc, Mutex, MutexGuard};

use control::{
    Batch, CellValue, ClientData, Counted, Cursor, Device, EntryUpdate, Error, Exclusive,
    Operation, OperationResult, Pipeline, Update,
};
use dataplane::{
    ActionCall, CounterValue, DropReason, MulticastGroup, OffloadStatus, PortId, Replica,
    SwitchConfig, TableEntry,
};
use testkit::memory_loop::MemoryLoop;
use testkit::offload::{Core, Double, Takes, program};

use super::harness::{bare, in_time, key};

const NOW: u64 = 1_000;

/// A device whose workers have an offload each.
struct Beside {
    switch: Arc<MemoryLoop>,
    device: Arc<Device>,
    pipeline: Arc<Pipeline>,
    cores: Vec<Arc<Mutex<Core>>>,
}

impl Beside {
    async fn start(takes: Takes, keeps_last: bool, n_workers: usize) -> Self {
        let (switch, device) = bare(SwitchConfig::default(), n_workers);
        let set = |worker| {
            let (offload, core) = Double::new(takes);
            switch.in_switch(worker, |it| it.set_offload(Some(offload)));
            core
        };
        let cores = (0..n_workers).map(set).collect();
        let checked = device.check(program(keeps_last).program(), ()).unwrap();
        let pipeline = device.set_pipeline(checked).await.unwrap();
        Self {
            switch,
            device,
            pipeline,
            cores,
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.cores[0].lock().unwrap()
    }

    /// Gives the first worker a frame; true if the offload took it.
    fn receive(&self, port: u16, frame: &[u8]) -> bool {
        let is_taken = self.core().receive(NOW, PortId(port), frame);
        if !is_taken {
            self.switch.receive(port, frame);
        }
        is_taken
    }

    fn insert(&self, kind: u8, name: &str, argument: u16) -> Operation {
        let program = self.pipeline.program();
        let table = program.table("l2").unwrap();
        let call = ActionCall {
            action: program.action_of(table, name).unwrap(),
            args: vec![argument.to_be_bytes().to_vec()],
        };
        Operation::Entry(EntryUpdate::Insert {
            table,
            entry: TableEntry::new(key(kind), 0, call),
            client_data: ClientData::default(),
        })
    }

    fn delete(&self, kind: u8) -> Operation {
        let table = self.pipeline.program().table("l2").unwrap();
        let (key, priority) = (key(kind), 0);
        Operation::Entry(EntryUpdate::Delete(control::EntryKey {
            table,
            key,
            priority,
        }))
    }

    fn stamp(&self, value: u16) -> Operation {
        let stamp = self.pipeline.program().register("stamp").unwrap();
        let value = CellValue::Register(stamp, value.to_be_bytes().to_vec());
        Operation::Cells(value, 0..1)
    }

    async fn results(&self, operations: Vec<Operation>) -> Vec<OperationResult> {
        let write = self
            .device
            .write(Arc::clone(&self.pipeline), Batch::new(operations));
        in_time(write).await.unwrap()
    }

    async fn write(&self, operations: Vec<Operation>) {
        let results = self.results(operations).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// Returns the calls to the first worker's offload since this function was last called. Equal consecutive calls are
    /// counted as one.
    fn calls(&self) -> String {
        let log = std::mem::take(&mut self.core().log);
        let runs: Vec<String> = log
            .chunk_by(|one, next| one == next)
            .map(|run| match run.len() {
                1 => run[0].clone(),
                n => format!("{n} {}", run[0]),
            })
            .collect();
        runs.join(", ")
    }

    fn status(&self) -> Option<OffloadStatus> {
        let status = |it: &mut dataplane::Switch| it.offload_status().cloned();
        self.switch.in_switch(0, status)
    }

    async fn counted(&self) -> Counted {
        let counted = in_time(self.device.counted()).await.unwrap();
        let counters = &counted.counters;
        let made = counters.received + counters.created_by_replication;
        let gone = counters.transmitted + counters.dropped_total() + counted.inside;
        assert_eq!(made, gone, "{counters:?}");
        counted
    }

    /// Returns for each entry the kind of packet that its key matches, and how many packets have hit the entry.
    async fn hits(&self) -> Vec<(u8, u64)> {
        let table = self.pipeline.program().table("l2").unwrap();
        let reading = in_time(self.device.reading()).await.unwrap();
        let (mut cursor, mut hits) = (Cursor::ALL, Vec::new());
        while let Some(entries) = reading.entries(table, &mut cursor).await.unwrap() {
            hits.extend(entries.into_iter().map(|entry| {
                let dataplane::MatchField::Exact(kind) = &entry.key[0] else {
                    panic!("the key is exact")
                };
                (kind[0], entry.counter.packets)
            }));
        }
        hits.sort_unstable();
        hits
    }
}

#[tokio::test]
async fn a_piece_of_a_batch_becomes_visible_as_a_whole_and_refused_updates_are_not_reported() {
    let beside = Beside::start(Takes::All, false, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    assert_eq!(beside.calls(), "load, insert entry, commit");
    let other = vec![
        beside.delete(1),
        beside.insert(1, "forward", 3),
        beside.insert(1, "forward", 2),
        beside.stamp(5),
    ];
    let results = beside.results(other).await;
    let are_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(are_ok, [true, true, false, true]);
    let calls = "remove entry, insert entry, register 0 0..1, commit";
    assert_eq!(beside.calls(), calls);
    assert!(beside.receive(0, &[1, 0, 0, 0]));
    let sent = beside.core().run(NOW);
    assert_eq!(
        (sent[0].port, &*sent[0].frame),
        (PortId(3), &[1, 0, 0, 5][..])
    );
    // The engine executes a batch in pieces of at most 64 updates, and the offload commits after each piece.
    let many = (10..160).map(|kind| beside.insert(kind, "forward", 2));
    beside.write(many.collect()).await;
    let calls = "64 insert entry, commit, 64 insert entry, commit, 22 insert entry, commit";
    assert_eq!(beside.calls(), calls);
}

#[tokio::test]
async fn what_both_sides_of_all_workers_have_counted_is_read_together() {
    let beside = Beside::start(Takes::EvenPorts, false, 2).await;
    let group = MulticastGroup {
        id: 3,
        replicas: [1, 2]
            .map(|port| Replica {
                port: PortId(port),
                instance: port,
            })
            .into(),
        ..MulticastGroup::default()
    };
    let group = Operation::MulticastGroup(Update::Insert(group), ClientData::default());
    let entries = vec![
        beside.insert(1, "forward", 2),
        beside.insert(2, "flood", 3),
        group,
    ];
    beside.write(entries).await;
    for port in 0..4 {
        assert_eq!(beside.receive(port, &[1, 0, 0, 0]), port % 2 == 0);
        beside.receive(port, &[2, 0, 0, 0]);
    }
    assert_eq!(beside.core().run(NOW).len(), 6);
    // The second worker's offload has one more packet, which is still inside.
    let other = |frame: &[u8]| {
        beside.cores[1]
            .lock()
            .unwrap()
            .receive(NOW, PortId(2), frame)
    };
    assert!(other(&[1, 0, 0, 0]));
    assert_eq!(beside.cores[1].lock().unwrap().run(NOW).len(), 1);
    assert!(other(&[1, 0, 0, 0]));
    assert_eq!(beside.hits().await, [(1, 5), (2, 4)]);
    let seen = beside.pipeline.program().counter("seen").unwrap();
    let reading = in_time(beside.device.reading()).await.unwrap();
    let cells = reading.counter_cells(seen, &mut (2..3)).await.unwrap();
    let seen = CounterValue {
        packets: 5,
        bytes: 20,
    };
    assert_eq!(cells, Some(vec![seen]));
    let mut counted = beside.counted().await;
    let counters = &counted.counters;
    let all = (
        counters.received,
        counters.created_by_replication,
        counters.transmitted,
    );
    assert_eq!((all, counted.inside), ((10, 4, 13), 1));
    let ports = [0, 1, 2].map(|port| counters.port(PortId(port)));
    assert_eq!(ports.map(|port| port.rx_packets), [2, 2, 4]);
    assert_eq!(ports.map(|port| port.tx_packets), [0, 4, 9]);
    assert_eq!(counted.tables[0].lookups.hits, 9);
    assert_eq!(counted.tables[0].entries, 2);
    let latencies = counted.latencies.report();
    let packets: Vec<u64> = latencies.ports.iter().map(|(_, it)| it.packets).collect();
    assert_eq!(packets, [4, 9]);
}

#[tokio::test]
async fn a_register_of_the_offload_s_own_reads_as_its_packets_have_written_it() {
    let beside = Beside::start(Takes::All, true, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    assert!(beside.receive(0, &[1, 0, 0, 77]));
    beside.core().run(NOW);
    let last = beside.pipeline.program().register("last").unwrap();
    let reading = in_time(beside.device.reading()).await.unwrap();
    let cells = reading.register_cells(last, &mut (2..3)).await.unwrap();
    assert_eq!(cells, Some(vec![vec![77]]));
}

#[tokio::test]
async fn an_offload_that_fails_in_a_batch_loses_no_call_of_it() {
    let beside = Beside::start(Takes::All, false, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    assert!(beside.receive(0, &[1, 0, 0, 0]));
    beside.core().run(NOW);
    assert!(beside.receive(0, &[1, 0, 0, 0]), "it stays inside");
    beside.core().fails = Some("map \"l2\": no memory");
    let many = (10..110).map(|kind| beside.insert(kind, "forward", 3));
    beside.write(many.collect()).await;
    let failed = OffloadStatus::Failed("map \"l2\": no memory".to_owned());
    assert_eq!(beside.status(), Some(failed));
    // The engine has executed both pieces of the batch, so it forwards these frames after the offload has failed.
    for kind in [1, 10, 109] {
        assert!(!beside.receive(0, &[kind, 0, 0, 0]));
    }
    assert_eq!(beside.switch.transmitted().len(), 3);
    let counted = beside.counted().await;
    let stopped = counted.counters.dropped(DropReason::OffloadStopped);
    assert_eq!((stopped, counted.inside), (1, 0));
    let hits = beside.hits().await;
    assert_eq!((hits.len(), hits[0], hits[1]), (101, (1, 2), (10, 1)));
}

#[tokio::test]
async fn an_offload_that_cannot_be_asked_fails_no_read() {
    let beside = Beside::start(Takes::All, false, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    beside.core().is_gone = true;
    assert_eq!(beside.hits().await, [(1, 0)]);
    let failed = OffloadStatus::Failed("port 1: the interface is gone".to_owned());
    assert_eq!(beside.status(), Some(failed));
    assert!(!beside.receive(0, &[1, 0, 0, 0]));
    assert_eq!(beside.hits().await, [(1, 1)]);
}

#[tokio::test]
async fn a_pipeline_is_replaced_under_it_and_seen_with_what_was_written_while_it_was_saved() {
    let mut beside = Beside::start(Takes::All, false, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    assert!(beside.receive(0, &[1, 0, 0, 0]));
    beside.calls();
    let checked = beside.device.check(program(false).program(), ()).unwrap();
    let save = |exclusive: Exclusive| async move { exclusive.save(checked).done().await };
    beside.device.exclusively(save).await.unwrap().unwrap();
    let before = std::mem::replace(&mut beside.pipeline, beside.device.pipeline().unwrap());
    let many = (10..110).map(|kind| beside.insert(kind, "forward", 3));
    beside.write(many.collect()).await;
    assert_eq!(beside.calls(), "", "what is saved is not forwarded by");
    let commit = |exclusive: Exclusive| async move {
        let ready = exclusive.ready_saved().await?;
        exclusive.commit(ready).done().await
    };
    let committed = beside.device.exclusively(commit).await.unwrap().unwrap();
    // The offload loads everything that was written.
    assert_eq!(beside.calls(), "stop, load");
    let counted = beside.counted().await;
    let replaced = counted.counters.dropped(DropReason::PipelineChanged);
    assert_eq!((replaced, counted.inside), (1, 0));
    let late = Batch::new(vec![beside.delete(10)]);
    let late = beside.device.write(before, late).await;
    assert!(matches!(late, Err(Error::Replaced { .. })), "{late:?}");
    assert_eq!(beside.calls(), "");
    beside.pipeline = committed;
    for kind in [10, 109] {
        assert!(beside.receive(0, &[kind, 0, 0, 0]));
    }
    assert_eq!(beside.core().run(NOW).len(), 2);
    let hits = beside.hits().await;
    assert_eq!((hits.len(), hits[0], hits[99]), (100, (10, 1), (109, 1)));
}

#[tokio::test]
async fn a_drain_waits_for_what_is_inside_of_it_and_for_what_it_does_not_show_yet() {
    let beside = Beside::start(Takes::All, false, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    assert!(beside.receive(0, &[1, 0, 0, 0]));
    beside.core().is_slow = true;
    beside.write(vec![beside.stamp(5)]).await;
    let device = Arc::clone(&beside.device);
    let drain = tokio::spawn(async move { device.drain().await });
    // The drain has begun when work that was submitted later has run.
    tokio::task::yield_now().await;
    beside.counted().await;
    beside.switch.advance(0);
    tokio::task::yield_now().await;
    assert!(!drain.is_finished());
    assert_eq!(beside.core().run(NOW).len(), 1);
    beside.switch.advance(0);
    tokio::task::yield_now().await;
    assert!(!drain.is_finished(), "packets see what was before");
    beside.core().show();
    beside.switch.advance(0);
    in_time(drain).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_program_is_exchanged_when_no_packet_meets_the_offload_and_not_before() {
    let beside = Beside::start(Takes::All, false, 1).await;
    beside.write(vec![beside.insert(1, "forward", 2)]).await;
    beside.calls();
    beside.core().n_withdrawals_left = 3;
    let checked = beside.device.check(program(false).program(), ()).unwrap();
    beside.device.set_pipeline(checked).await.unwrap();
    assert_eq!(beside.calls(), "3 withdraw, stop, load");
}
