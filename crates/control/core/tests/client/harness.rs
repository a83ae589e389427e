//! A device in memory, and a client's calls.

use std::sync::Arc;
use std::time::Duration;

use control::{
    Batch, CellValue, ClientData, Cursor, Device, EntryKey, EntryUpdate, Operation,
    OperationResult, Pipeline, Registers, SwitchHandle,
};
use dataplane::{ActionCall, MatchField, Program, Replica, SwitchConfig, TableEntry, TableId};
use testkit::memory_loop::MemoryLoop;

/// Timeout of one wait in a test: longer than anything takes here.
const TIMEOUT: Duration = Duration::from_secs(120);

/// After this number of yields every task that is able to continue has continued.
const N_YIELDS: usize = 100;

/// A program with tables, counters and registers.
pub const BRIDGE: &str = include_str!("../../../p4runtime-server/tests/fixture/bridge.json");

pub struct Harness {
    pub switch: Arc<MemoryLoop>,
    pub device: Arc<Device>,
    pub pipeline: Arc<Pipeline>,
    pub forward: TableId,
}

pub fn bridge() -> Program {
    Program::from_json_str(BRIDGE).unwrap()
}

/// Makes a device of `n_workers` workers, each with registers of its own. The device has no pipeline.
pub fn bare(config: SwitchConfig, n_workers: usize) -> (Arc<MemoryLoop>, Arc<Device>) {
    let switch = Arc::new(MemoryLoop::start_workers(config, 4, n_workers));
    let handle = Arc::clone(&switch) as Arc<dyn SwitchHandle>;
    (switch, Arc::new(Device::new(handle, Registers::PerWorker)))
}

impl Harness {
    pub async fn start() -> Self {
        Self::with(SwitchConfig::default(), 1).await
    }

    pub async fn with(config: SwitchConfig, n_workers: usize) -> Self {
        let (switch, device) = bare(config, n_workers);
        let checked = device.check(bridge(), ()).unwrap();
        let pipeline = device.set_pipeline(checked).await.unwrap();
        let forward = pipeline.program().table("ingress.forward").unwrap();
        Self {
            switch,
            device,
            pipeline,
            forward,
        }
    }

    /// An entry that sends frames for the address that ends with `dst` to `port`.
    pub fn entry(&self, dst: u8, port: u8) -> TableEntry {
        let program = self.pipeline.program();
        let action = program.action_of(self.forward, "ingress.set_port").unwrap();
        let args = vec![vec![port]];
        TableEntry::new(key(dst), 0, ActionCall { action, args })
    }

    pub fn insert(&self, dst: u8, port: u8) -> Operation {
        Operation::Entry(EntryUpdate::Insert {
            table: self.forward,
            entry: self.entry(dst, port),
            client_data: ClientData::default(),
        })
    }

    pub fn delete(&self, dst: u8) -> Operation {
        Operation::Entry(EntryUpdate::Delete(self.key(dst)))
    }

    pub fn key(&self, dst: u8) -> EntryKey {
        EntryKey {
            table: self.forward,
            key: key(dst),
            priority: 0,
        }
    }

    pub fn every_slot(&self, value: u8) -> Operation {
        let slots = self.pipeline.program().register("ingress.slots").unwrap();
        Operation::Cells(CellValue::Register(slots, vec![value]), 0..N_SLOTS)
    }

    pub fn slot(&self, cell: u64, value: u8) -> Operation {
        let slots = self.pipeline.program().register("ingress.slots").unwrap();
        Operation::Cells(CellValue::Register(slots, vec![value]), cell..cell + 1)
    }

    /// Writes operations that must succeed.
    pub async fn write(&self, operations: Vec<Operation>) {
        let results = self.results(operations).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    pub async fn results(&self, operations: Vec<Operation>) -> Vec<OperationResult> {
        let pipeline = Arc::clone(&self.pipeline);
        let batch = Batch::new(operations);
        in_time(self.device.write(pipeline, batch)).await.unwrap()
    }

    /// Like [`Harness::results`], in another task.
    pub fn write_apart(
        &self,
        operations: Vec<Operation>,
    ) -> tokio::task::JoinHandle<Vec<OperationResult>> {
        let (device, pipeline) = (Arc::clone(&self.device), Arc::clone(&self.pipeline));
        let batch = Batch::new(operations);
        tokio::spawn(async move { device.write(pipeline, batch).await.unwrap() })
    }

    pub async fn entries(&self) -> Vec<TableEntry> {
        let reading = in_time(self.device.reading()).await.unwrap();
        let (mut cursor, mut all) = (Cursor::ALL, Vec::new());
        while let Some(some) = reading.entries(self.forward, &mut cursor).await.unwrap() {
            all.extend(some);
        }
        all
    }

    pub async fn addresses(&self) -> Vec<u8> {
        let addresses = self.entries().await.into_iter().map(|entry| {
            let [MatchField::Exact(address)] = &entry.key[..] else {
                panic!("the table's key is one field: {entry:?}")
            };
            address[0]
        });
        let mut addresses: Vec<u8> = addresses.collect();
        addresses.sort_unstable();
        addresses
    }

    pub async fn slot_value(&self, cell: u64) -> Vec<u8> {
        let slots = self.pipeline.program().register("ingress.slots").unwrap();
        let reading = in_time(self.device.reading()).await.unwrap();
        let mut cells = cell..cell + 1;
        let values = reading.register_cells(slots, &mut cells).await.unwrap();
        assert_eq!(cells, cell + 1..cell + 1);
        values.unwrap().remove(0)
    }

    /// Waits until this many pieces of work are queued for the switch.
    pub async fn held(&self, n_held: usize) {
        in_time(async {
            while self.switch.n_held() != n_held {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Lets every task that can run do so, and checks that exactly this many pieces of work stay queued.
    pub async fn stays_held(&self, n_held: usize) {
        for _ in 0..N_YIELDS {
            tokio::task::yield_now().await;
            assert_eq!(self.switch.n_held(), n_held);
        }
    }
}

pub const N_SLOTS: u64 = 131_072;

pub fn key(dst: u8) -> Vec<MatchField> {
    vec![MatchField::Exact(vec![dst])]
}

pub fn replicas(n: u16) -> Vec<Replica> {
    let port = dataplane::PortId(2);
    (1..=n).map(|instance| Replica { port, instance }).collect()
}

/// A frame of 64 bytes for the address that ends with `dst`.
pub fn frame(dst: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[5] = dst;
    frame[12..14].copy_from_slice(&[8, 0]);
    frame
}

pub async fn in_time<T>(done: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(TIMEOUT, done).await;
    done.expect("it takes no longer")
}
