//! A program is prepared on other threads than those that forward; the tests stop the preparation while it compiles the
//! program for a worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use control::{Batch, Device, Error, Exclusive, GeneratorUpdate, Operation, Pipeline};
use dataplane::engine::{Engine, EngineFactory, State};
use dataplane::interpret::InterpreterFactory;
use dataplane::{GeneratorConfig, Pace, PortId, Switch, SwitchConfig};
use testkit::memory_loop::MemoryLoop;

use crate::harness::{Harness, N_SLOTS, bridge, frame, in_time};

/// If the test does not let a compilation end, the compilation ends by itself after this time, which is longer than any
/// test takes.
const COMPILES_AT_MOST: Duration = Duration::from_secs(120);

/// Reports the thread that wants an engine, and makes the engine when the test allows it.
struct Slow {
    begun: Sender<ThreadId>,
    allowed: Mutex<Receiver<Allowed>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Goes,
    Panics,
}

impl EngineFactory for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        self.begun.send(thread::current().id()).unwrap();
        let allowed = self.allowed.lock().unwrap_or_else(|it| it.into_inner());
        let allowed = allowed.recv_timeout(COMPILES_AT_MOST);
        assert!(
            allowed != Ok(Allowed::Panics),
            "this program cannot be compiled"
        );
        InterpreterFactory.load(state)
    }
}

struct Compiler {
    begun: Receiver<ThreadId>,
    allow: Sender<Allowed>,
}

impl Compiler {
    /// Gives every worker a new switch, with the same ports, whose engine is made only when the test allows it.
    fn of_all(switch: &MemoryLoop, n_workers: usize) -> Vec<Compiler> {
        let workers = (0..n_workers).map(|worker| {
            let (begins, begun) = channel();
            let (allow, allowed) = channel();
            let allowed = Mutex::new(allowed);
            let factory = Box::new(Slow {
                begun: begins,
                allowed,
            });
            switch.in_switch(worker, |switch| {
                *switch = Switch::with_engine(SwitchConfig::default(), factory);
                (0..4).for_each(|port| switch.add_port(PortId(port)));
            });
            Compiler { begun, allow }
        });
        workers.collect()
    }

    async fn begun(&self) -> ThreadId {
        in_time(async {
            loop {
                if let Ok(thread) = self.begun.try_recv() {
                    return thread;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }
}

type Setting = tokio::task::JoinHandle<Result<Arc<Pipeline>, Error>>;

fn set_apart(device: &Arc<Device>) -> Setting {
    let (device, checked) = (Arc::clone(device), device.check(bridge(), ()).unwrap());
    tokio::spawn(async move { device.set_pipeline(checked).await })
}

/// A switch whose bridge sends frames for address 1 to port 2, and whose next program is compiled only when the test
/// allows it.
async fn forwarding(n_workers: usize) -> (Harness, Vec<Compiler>) {
    let mut harness = Harness::with(SwitchConfig::default(), n_workers).await;
    let compilers = Compiler::of_all(&harness.switch, n_workers);
    let setting = set_apart(&harness.device);
    for compiler in &compilers {
        compiler.allow.send(Allowed::Goes).unwrap();
        compiler.begun().await;
    }
    harness.pipeline = in_time(setting).await.unwrap().unwrap();
    harness.write(vec![harness.insert(1, 2)]).await;
    (harness, compilers)
}

/// Whether the bridge has the entry for address 1. Without the entry, it sends frames for this address to another port.
fn forwards(harness: &Harness) -> bool {
    harness.switch.receive(1, &frame(1));
    let mut sent = harness.switch.transmitted().into_iter();
    sent.any(|it| it.port == PortId(2))
}

#[tokio::test]
async fn frames_pass_by_the_program_before_while_the_next_one_is_compiled_for_every_worker() {
    let (harness, compilers) = forwarding(2).await;
    let of_workers = harness.device.submit(|_, _| thread::current().id());
    let of_workers = of_workers.all().await.unwrap();
    let setting = set_apart(&harness.device);
    for compiler in &compilers {
        let thread = compiler.begun().await;
        assert!(!of_workers.contains(&thread));
        assert!(forwards(&harness));
        compiler.allow.send(Allowed::Goes).unwrap();
    }
    in_time(setting).await.unwrap().unwrap();
    // The new program has no entry.
    assert!(!forwards(&harness));
}

#[tokio::test]
async fn a_program_whose_caller_gives_up_while_it_is_compiled_is_set_before_the_next_call() {
    let (harness, compilers) = forwarding(1).await;
    let before = harness.pipeline.generation();
    let given_up = set_apart(&harness.device);
    compilers[0].begun().await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let (device, pipeline) = (Arc::clone(&harness.device), Arc::clone(&harness.pipeline));
    let batch = Batch::new(vec![harness.insert(2, 2)]);
    let next = tokio::spawn(async move { device.write(pipeline, batch).await });
    harness.stays_held(0).await;
    assert!(forwards(&harness));
    compilers[0].allow.send(Allowed::Goes).unwrap();
    let refused = in_time(next).await.unwrap().unwrap_err();
    assert!(
        matches!(refused, Error::Replaced { made_for, .. } if made_for == before),
        "{refused:?}"
    );
}

#[tokio::test]
async fn of_two_callers_one_s_program_is_compiled_when_the_other_s_forwards() {
    let (harness, compilers) = forwarding(1).await;
    let settings = [set_apart(&harness.device), set_apart(&harness.device)];
    compilers[0].begun().await;
    harness.stays_held(0).await;
    assert!(compilers[0].begun.try_recv().is_err());
    let before = harness.device.committed().unwrap().generation();
    compilers[0].allow.send(Allowed::Goes).unwrap();
    compilers[0].begun().await;
    assert!(harness.device.committed().unwrap().generation() > before);
    compilers[0].allow.send(Allowed::Goes).unwrap();
    for setting in settings {
        in_time(setting).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn of_a_switch_that_stops_while_a_program_is_compiled_the_caller_is_notified() {
    let (harness, compilers) = forwarding(1).await;
    let setting = set_apart(&harness.device);
    compilers[0].begun().await;
    harness.switch.stop();
    compilers[0].allow.send(Allowed::Goes).unwrap();
    let set = in_time(setting).await.unwrap();
    assert_eq!(set.unwrap_err(), Error::Stopped);
    let committed = harness.device.committed().unwrap();
    assert_eq!(committed.generation(), harness.pipeline.generation());
}

#[tokio::test]
async fn an_engine_that_panics_leaves_the_program_before_and_the_next_one_is_set() {
    let (harness, compilers) = forwarding(1).await;
    let setting = set_apart(&harness.device);
    compilers[0].begun().await;
    compilers[0].allow.send(Allowed::Panics).unwrap();
    assert!(in_time(setting).await.unwrap_err().is_panic());
    assert!(forwards(&harness));
    assert_eq!(harness.addresses().await, [1]);
    let setting = set_apart(&harness.device);
    compilers[0].begun().await;
    compilers[0].allow.send(Allowed::Goes).unwrap();
    in_time(setting).await.unwrap().unwrap();
    assert!(!forwards(&harness));
}

/// Sends the id of the thread that drops this value.
struct Freed(Sender<ThreadId>);

impl Drop for Freed {
    fn drop(&mut self) {
        // The receiver is gone when the test is over.
        let _ = self.0.send(thread::current().id());
    }
}

#[tokio::test]
async fn the_program_before_is_freed_beside_the_threads_that_forward() {
    let (switch, device) = crate::harness::bare(SwitchConfig::default(), 1);
    let (notify, freed) = channel();
    let checked = device.check(bridge(), Freed(notify)).unwrap();
    drop(device.set_pipeline(checked).await.unwrap());
    assert!(freed.try_recv().is_err());
    let of_worker = device.submit(|_, _| thread::current().id());
    let of_worker = of_worker.all().await.unwrap();
    let checked = device.check(bridge(), ()).unwrap();
    let _next = device.set_pipeline(checked).await.unwrap();
    let thread = freed
        .try_recv()
        .expect("it is freed under the exclusive access");
    assert!(!of_worker.contains(&thread));
    drop(switch);
}

#[tokio::test]
async fn a_program_has_what_is_written_to_it_beside_from_its_first_packet() {
    let harness = Harness::start().await;
    let n_generators = Arc::new(AtomicUsize::new(0));
    let config = GeneratorConfig {
        name: "load".to_owned(),
        port: PortId(1),
        frames: Arc::new([frame(1).into()]),
        pace: Pace::per_second(1000),
        count: None,
    };
    let (id, runs) = (1, true);
    let generator = Operation::Generator(GeneratorUpdate::Insert { id, config, runs });
    let operations = vec![
        harness.insert(1, 2),
        harness.every_slot(7),
        generator,
        harness.insert(2, 3),
        harness.insert(2, 3),
    ];
    let checked = harness.device.check(bridge(), ()).unwrap();
    let n_pieces = harness.switch.n_pieces();
    let call = |exclusive: Exclusive| async move {
        let ready = exclusive.ready_again(checked, operations).await?;
        exclusive.commit(ready).done().await
    };
    let set = harness.device.exclusively(call).await.unwrap();
    // The commit returns the error of the failed operation, and all other operations are executed.
    assert!(matches!(set, Err(Error::Refused(_))), "{set:?}");
    assert_eq!(harness.switch.n_pieces() - n_pieces, 2);
    harness.switch.in_switch(0, |switch| {
        n_generators.store(switch.generators().len(), Ordering::Relaxed);
    });
    assert_eq!(n_generators.load(Ordering::Relaxed), 1);
    assert_eq!(harness.addresses().await, [1, 2]);
    assert_eq!(harness.slot_value(N_SLOTS - 1).await, [7]);
    assert!(forwards(&harness));
    // These entries count packets like any other entries.
    let entries = harness.entries().await;
    assert_eq!(entries.iter().map(|it| it.counter.packets).sum::<u64>(), 1);
}
