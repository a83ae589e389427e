//! Tests an offload beside the event loop: counters and answers must be the same as without an offload.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use control::{Batch, ClientData, Counted, Device, EntryUpdate, Operation, Registers};
use dataplane::{DropReason, OffloadNotice, TableId};
use p4runtime_server::{Server, ServerConfig};
use serde_json::{Value, json};
use testkit::offload::{Core, Double, Takes};
use tokio::runtime::{Builder, Runtime};
use tracing::{Dispatch, dispatcher};

use super::*;
use crate::metrics::{self, Recent, Selection, Served};
use crate::parts::Offloaded;

mod digests;

/// Number of drains, enough for the loop to sleep during some of them.
const N_DRAINS: usize = 20;

/// A running loop with ports 1 and 2, and an offload that receives the frames of port 2. The kind of a frame is its
/// first byte. Frames of kind 1 leave through port 2, those of kind 2 through port 1.
struct Beside {
    core: Arc<Mutex<Core>>,
    handle: LoopHandle,
    device: Arc<Device>,
    runtime: Runtime,
    running: thread::JoinHandle<EventLoop>,
    one: MemoryPort,
    two: MemoryPort,
}

fn frame(kind: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[0] = kind;
    frame
}

impl Beside {
    fn start(wait: Wait) -> Beside {
        Beside::start_with_log(wait, Dispatch::none())
    }

    /// Starts a loop whose log events go to `events`.
    fn start_with_log(wait: Wait, events: Dispatch) -> Beside {
        let (mut event_loop, handle, one, two) = forwarder(&[]);
        event_loop.set_wait(wait);
        let (offload, core) = Double::new(Takes::EvenPorts);
        let ports = vec![PortId(1), PortId(2)];
        event_loop.set_offload(Offloaded { offload, ports });
        assert!(event_loop.serve_work_until(|| true).expect("no error"));
        assert_eq!(
            core.lock().expect("no panic").log,
            [""; 0],
            "not before frames may come"
        );
        let running = thread::spawn(move || {
            let run = || event_loop.run(AfterReplay::Serve);
            dispatcher::with_default(&events, run).expect("no error");
            event_loop
        });
        let device = Device::new(Arc::new(handle.clone()), Registers::PerWorker);
        let runtime = Builder::new_current_thread().enable_time().build();
        let beside = Beside {
            core,
            handle,
            device: Arc::new(device),
            runtime: runtime.expect("a runtime"),
            running,
            one,
            two,
        };
        beside.set_pipeline();
        beside.write(&[(1, 2), (2, 1)]);
        beside
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("no panic")
    }

    fn set_pipeline(&self) {
        let program = testkit::offload::program(false).program();
        let checked = self.device.check(program, ()).expect("one worker");
        let set = self.runtime.block_on(self.device.set_pipeline(checked));
        set.expect("the loop runs");
    }

    /// Makes frames of these kinds leave through these ports.
    fn write(&self, ways: &[(u8, u8)]) {
        let pipeline = self.device.pipeline().expect("a pipeline");
        let program = pipeline.program();
        let table: TableId = program.table("l2").expect("the table");
        let action = program.action_of(table, "forward").expect("the action");
        let operations = ways.iter().map(|(kind, port)| {
            let args = vec![vec![*port]];
            let call = ActionCall { action, args };
            let key = vec![MatchField::Exact(vec![*kind])];
            Operation::Entry(EntryUpdate::Insert {
                table,
                entry: TableEntry::new(key, 0, call),
                client_data: ClientData::default(),
            })
        });
        let batch = Batch::new(operations.collect());
        let write = self.device.write(Arc::clone(&pipeline), batch);
        let results = self.runtime.block_on(write).expect("the loop runs");
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// Gives the offload a frame of this kind, as received on port 2. If the offload does not take it, sends it to port
    /// 2 of the loop. Returns whether the offload took the frame.
    fn receive(&mut self, kind: u8) -> bool {
        let is_taken = self.core().receive(0, PortId(2), &frame(kind));
        if !is_taken {
            self.two
                .transmit(0, frame(kind)[..].into())
                .expect("sending");
        }
        is_taken
    }

    fn counted(&self) -> Counted {
        let counted = self.runtime.block_on(self.device.counted());
        counted.expect("the loop runs")
    }

    /// Returns the text of the metrics, with the program's own counters.
    fn metrics(&self) -> String {
        let config = ServerConfig {
            device_id: 1,
            cpu_port: None,
        };
        let server = Server::new(config, Arc::clone(&self.device));
        let selection = Selection {
            counters: vec!["seen".to_owned()],
            tables: vec!["l2".to_owned()],
            series_max: 100,
            ..Selection::default()
        };
        let (handle, recent) = (self.handle.clone(), Recent::new());
        let served = Served::new(handle, server, selection, recent, "interpreter");
        let text = self.runtime.block_on(metrics::text(&served));
        text.expect("the loop runs")
    }

    /// Returns for each port whether the offload forwards on this port, as far as the port's status says.
    fn is_offloaded(&self) -> Vec<Option<bool>> {
        let ports = self.counted().ports;
        ports.iter().map(|port| port.is_offloaded).collect()
    }

    fn stop(self) -> Value {
        self.handle.stop();
        let mut event_loop = self.running.join().expect("no panic");
        event_loop.close().expect("no error");
        serde_json::from_str(&event_loop.totals().to_json()).expect("JSON")
    }
}

#[test]
fn both_sides_are_counted_and_stopped_together() {
    for wait in [Wait::Sleep, Wait::Spin] {
        both_sides_are_counted(wait);
    }
}

fn both_sides_are_counted(wait: Wait) {
    let mut beside = Beside::start(wait);
    assert_eq!(beside.is_offloaded(), [Some(true), Some(true)]);
    beside
        .one
        .transmit(0, frame(1)[..].into())
        .expect("sending");
    assert_eq!(receive(&mut beside.two, 1), [frame(1)]);
    for _ in 0..2 {
        assert!(beside.receive(2));
    }
    assert_eq!(beside.core().run(0).len(), 2);
    assert!(beside.receive(2), "it stays inside");
    let metrics = beside.metrics();
    for line in [
        "reprise_packets_total{event=\"received\"} 4",
        "reprise_packets_total{event=\"transmitted\"} 3",
        "reprise_packets_inside 1",
        "reprise_port_offloaded{port=\"1\",name=\"one\"} 1",
        "reprise_port_transmitted_packets_total{port=\"1\",name=\"one\"} 2",
        "reprise_port_received_packets_total{port=\"2\",name=\"two\"} 3",
        "reprise_table_lookups_total{table=\"l2\",result=\"hit\"} 3",
        "reprise_port_latency_seconds_count{port=\"1\",name=\"one\"} 2",
        "reprise_counter_packets_total{counter=\"seen\",index=\"1\"} 2",
        "reprise_entry_packets_total{table=\"l2\",key_pkt_kind=\"2\"} 2",
    ] {
        assert!(
            metrics.lines().any(|it| it == line),
            "no {line} in\n{metrics}"
        );
    }
    let core = Arc::clone(&beside.core);
    let totals = beside.stop();
    assert_eq!(totals["packets"]["received"], 4);
    assert_eq!(totals["packets"]["transmitted"], 3);
    assert_eq!(totals["packets"]["inside"], 0);
    let stopped = DropReason::OffloadStopped.name();
    assert_eq!(totals["drops"][stopped], 1);
    let frames = |port: &Value| json!([port["rx_frames"], port["tx_frames"]]);
    let ports = totals["ports"].as_array().expect("a list");
    let frames: Vec<Value> = ports.iter().map(frames).collect();
    assert_eq!(frames, [json!([1, 2]), json!([3, 1])]);
    let core = core.lock().expect("no panic");
    assert_eq!(core.log.last().map(String::as_str), Some("stop"));
}

#[test]
fn a_drain_ends_without_another_event_when_the_last_packet_has_left_the_offload() {
    for wait in [Wait::Sleep, Wait::Spin] {
        let mut beside = Beside::start(wait);
        for _ in 0..N_DRAINS {
            assert!(beside.receive(2));
            let device = Arc::clone(&beside.device);
            let drain = beside.runtime.spawn(async move { device.drain().await });
            // Once a later request is answered, the drain has begun.
            beside.runtime.block_on(tokio::task::yield_now());
            beside.counted();
            assert!(!drain.is_finished());
            assert_eq!(beside.core().run(0).len(), 1);
            let drained = beside
                .runtime
                .block_on(async { tokio::time::timeout(TIMEOUT, drain).await });
            drained
                .expect("in time")
                .expect("no panic")
                .expect("the loop runs");
        }
        assert_eq!(beside.stop()["packets"]["transmitted"], N_DRAINS);
    }
}

#[test]
fn an_offload_that_fails_between_two_calls_is_taken_out_without_another_event() {
    for wait in [Wait::Sleep, Wait::Spin] {
        let mut beside = Beside::start(wait);
        beside.core().is_gone = true;
        let start = Instant::now();
        while beside.core().log.last().map(String::as_str) != Some("stop") {
            assert!(start.elapsed() < TIMEOUT);
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!beside.receive(2));
        assert_eq!(receive(&mut beside.one, 1)[0][0], 2);
        beside.core().is_gone = false;
        beside.stop();
    }
}

#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_happens_to_the_offload_is_logged_once_while_it_forwards_on() {
    let logged = Logged::default();
    let to = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || to.clone());
    let beside = Beside::start_with_log(Wait::Sleep, Dispatch::new(subscriber.finish()));
    beside.core().notices.extend([
        OffloadNotice::LoadedAnew {
            table: "table \"l2\"".to_owned(),
            n_entries: 200,
            n_entries_max: 320,
            taken_ns: 34_567_890,
        },
        OffloadNotice::DoesWithout {
            what: "spares".to_owned(),
            reason: "no memory".to_owned(),
        },
    ]);
    beside.write(&[(3, 1)]);
    beside.write(&[(4, 1)]);
    assert_eq!(beside.is_offloaded(), [Some(true), Some(true)]);
    beside.stop();
    let logged = String::from_utf8(logged.0.lock().expect("no panic").clone()).expect("text");
    let lines = |event: &str| -> Vec<String> {
        let event = format!("event=\"{event}\"");
        let lines = logged.lines().filter(|line| line.contains(&event));
        lines.map(str::to_owned).collect()
    };
    let [anew] = &lines("offload_loaded_anew")[..] else {
        panic!("{logged}");
    };
    for part in [" INFO ", "entries=200", "room=320", "taken_ms=34", "\"l2\""] {
        assert!(anew.contains(part), "no {part} in {anew}");
    }
    let [without] = &lines("offload_without")[..] else {
        panic!("{logged}");
    };
    for part in [" WARN ", "what=\"spares\"", "reason=\"no memory\""] {
        assert!(without.contains(part), "no {part} in {without}");
    }
}

#[test]
fn the_engine_goes_on_where_the_offload_fails_and_the_next_pipeline_is_offered_to_it() {
    let mut beside = Beside::start(Wait::Sleep);
    beside.core().fails = Some("map \"l2\": no memory");
    beside.write(&[(3, 1), (4, 1)]);
    assert_eq!(beside.is_offloaded(), [Some(false), Some(false)]);
    for kind in [2, 3, 4] {
        assert!(!beside.receive(kind));
    }
    let kinds: Vec<u8> = receive(&mut beside.one, 3).iter().map(|it| it[0]).collect();
    assert_eq!(kinds, [2, 3, 4]);
    beside.set_pipeline();
    assert_eq!(beside.is_offloaded(), [Some(true), Some(true)]);
    beside.write(&[(2, 1)]);
    assert!(beside.receive(2));
    assert_eq!(beside.core().run(0).len(), 1);
    let totals = beside.stop();
    assert_eq!(totals["packets"]["received"], 4);
    assert_eq!(totals["packets"]["transmitted"], 4);
}
