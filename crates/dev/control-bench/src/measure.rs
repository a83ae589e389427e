//! Measures one row of the results, which is one kind of switch, in one round: starts a switch, fills its table, writes
//! at a steady rate, reads from many clients, and stops the switch.

use std::path::Path;
use std::time::{Duration, Instant};

use bmv2_thrift::wire::read::Value as Given;
use control_bench::controller::{self, Address, Controller};
use control_bench::process::{Kind, Looked, Place, Process};
use control_bench::program::Program;
use control_bench::secure;
use control_bench::traffic::{Passed, Traffic, Way};
use control_bench::{Result, thrift};
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{Entity, Uint128};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::writer::{Batches, Ids, Latencies, station, write, write_steadily};

const PROGRAM: &str = "crates/dev/control-bench/programs/stations.p4";
const TABLE: &str = "StationsIngress.stations";
const ELECTION_ID: Uint128 = Uint128 { high: 0, low: 1 };
const N_FLOWS: u16 = 256;
/// The pause between two reads of an entry.
const READ_PAUSE: Duration = Duration::from_millis(100);
/// How long filling the table may take. A switch that is slower is measured with fewer entries.
const FILL_MAX: Duration = Duration::from_secs(120);
const MIB: f64 = 1024.0 * 1024.0;

#[derive(Debug, Clone)]
pub(crate) struct Effort {
    pub(crate) n_entries: u32,
    pub(crate) batch: u32,
    pub(crate) writes_per_s: u32,
    pub(crate) seconds: u32,
    pub(crate) n_readers: u32,
    pub(crate) frames_per_s: u32,
    pub(crate) n_thrift: u32,
}

impl Effort {
    fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}

/// A row of the results: one kind of switch, and how clients connect to it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The client's TLS, if P4Runtime uses TLS.
    pub(crate) tls: Option<secure::Client>,
}

impl Row {
    fn address(&self) -> Address {
        Address {
            place: Place::FIRST,
            tls: self.tls.clone(),
        }
    }
}

/// The measured values. Each name contains the unit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(pub(crate) Vec<(String, f64)>);

impl Figures {
    fn add(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), value));
    }

    fn of(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map_or(f64::NAN, |(_, value)| *value)
    }

    fn add_latencies(&mut self, name: &str, latencies: &Latencies) {
        for (quantile, of) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.add(&format!("{name}_{quantile}_ms"), latencies.ms(of));
        }
    }

    fn add_packets(&mut self, passed: &Passed, totals: Option<&Value>) {
        let delays = &passed.arrived.delays_ns;
        self.add("frames_sent", passed.n_sent as f64);
        self.add("frames_per_s", passed.n_sent as f64 / passed.seconds);
        self.add("frames_lost", passed.n_lost() as f64);
        self.add("frames_out_of_order", passed.arrived.n_out_of_order as f64);
        for (name, of) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let ms = delays.value_at_quantile(of) as f64 / 1e6;
            self.add(&format!("frame_delay_{name}_ms"), ms);
        }
        if let Some(totals) = totals {
            let packets = |name: &str| totals["packets"][name].as_f64().unwrap_or(f64::NAN);
            let out = ["transmitted", "to_cpu", "dropped", "inside"].map(packets);
            let missing = packets("received") - out.iter().sum::<f64>();
            self.add("frames_unaccounted", missing);
        }
    }
}

pub(crate) async fn measure(row: &Row, effort: &Effort) -> Result<Figures> {
    let kind = &row.kind;
    if let Kind::Reprise {
        state: Some(file), ..
    } = kind
    {
        remove(file)?;
    }
    let process = Process::start(kind, Place::FIRST)?;
    let mut figures = Figures::default();
    let measured = load(process.looked_at(), &row.address(), effort, &mut figures).await;
    let passed =
        measured.map_err(|error| format!("{error}; the switch said: {}", process.said()))?;
    let totals = process.stop()?;
    figures.add_packets(&passed, totals.as_ref());
    if let Kind::Reprise {
        state: Some(file), ..
    } = kind
    {
        figures.add(
            "state_file_mib",
            std::fs::metadata(file)?.len() as f64 / MIB,
        );
        restart(kind, &mut figures)?;
        remove(file)?;
    }
    Ok(figures)
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Measures the time until a restarted switch answers with all its entries.
fn restart(kind: &Kind, figures: &mut Figures) -> Result<()> {
    let began = Instant::now();
    let process = Process::start(kind, Place::FIRST)?;
    let mut client = thrift::Client::connect(Place::FIRST)?;
    let found = client.call("standard:bm_mt_get_num_entries", &thrift::of_table(TABLE))?;
    figures.add("restart_s", began.elapsed().as_secs_f64());
    let expected = figures.of("entries_in_the_end");
    match found {
        Some(Given::I64(n)) if n as f64 == expected => process.stop().map(drop),
        found => {
            Err(format!("expected {expected} entries after a restart, found {found:?}").into())
        }
    }
}

async fn load(
    switch: Looked,
    to: &Address,
    effort: &Effort,
    figures: &mut Figures,
) -> Result<Passed> {
    let program = Program::compile(PROGRAM)?;
    let ids = Ids::of(&program.p4info)?;
    let mut controller = Controller::start(to.clone(), ELECTION_ID).await?;
    controller
        .set_pipeline(Action::VerifyAndCommit, &program)
        .await?;
    let mut batches = Batches::new(ids, effort.batch);
    let for_traffic = controller.batch(batches.for_traffic(N_FLOWS));
    write(&mut controller, for_traffic).await?;
    figures.add("memory_before_mib", switch.memory_bytes() as f64 / MIB);
    let began = Instant::now();
    let traffic = Traffic::start(effort.frames_per_s.into(), N_FLOWS, Way::FirstToSecond)?;
    fill(&mut controller, &mut batches, effort, figures).await?;
    figures.add("memory_filled_mib", switch.memory_bytes() as f64 / MIB);
    steady(&mut controller, to, &mut batches, ids, effort, figures).await?;
    let mut client = controller.client.clone();
    let read = Instant::now();
    let mut n_entries = 0;
    let count = |part: Vec<Entity>| n_entries += part.len() as u64;
    controller::read(&mut client, vec![ids.wanted(None)], count).await?;
    figures.add("read_table_s", read.elapsed().as_secs_f64());
    let expected = u64::from(batches.n_entries()) + u64::from(N_FLOWS);
    if n_entries != expected {
        return Err(format!("expected {expected} entries, found {n_entries}").into());
    }
    read_whole(&mut controller, to, &mut batches, ids, effort, figures).await?;
    let n_thrift = effort.n_thrift;
    let added = tokio::task::spawn_blocking(move || add_by_thrift(n_thrift)).await??;
    figures.add("thrift_adds_per_s", added.0);
    figures.add_latencies("thrift_add", &added.1);
    let n_entries = batches.n_entries() + u32::from(N_FLOWS) + n_thrift;
    figures.add("entries_in_the_end", n_entries.into());
    figures.add("memory_after_mib", switch.memory_bytes() as f64 / MIB);
    figures.add("memory_max_mib", switch.memory_bytes_max() as f64 / MIB);
    tokio::task::spawn_blocking(move || traffic.end(began)).await?
}

/// Inserts entries as fast as the switch accepts them, one batch after the other.
async fn fill(
    controller: &mut Controller,
    batches: &mut Batches,
    effort: &Effort,
    figures: &mut Figures,
) -> Result<()> {
    let (began, mut latencies) = (Instant::now(), Latencies::new()?);
    while batches.n_entries() < effort.n_entries && began.elapsed() < FILL_MAX {
        let request = controller.batch(batches.inserts(effort.n_entries));
        let sent = Instant::now();
        write(controller, request).await?;
        latencies.add(sent.elapsed());
    }
    let rate = f64::from(batches.n_entries()) / began.elapsed().as_secs_f64();
    figures.add("entries", batches.n_entries().into());
    figures.add("insert_writes_per_s", rate);
    figures.add_latencies("insert_batch", &latencies);
    Ok(())
}

/// Writes at a steady rate, while many clients repeatedly read one entry each.
async fn steady(
    controller: &mut Controller,
    to: &Address,
    batches: &mut Batches,
    ids: Ids,
    effort: &Effort,
    figures: &mut Figures,
) -> Result<()> {
    let end = Instant::now() + effort.time();
    let mut readers = JoinSet::new();
    for _ in 0..effort.n_readers {
        let address = station(batches.any());
        readers.spawn(read_entries(to.clone(), ids, address, end));
    }
    let written = write_steadily(controller, batches, effort.writes_per_s, effort.time());
    let (rate, latencies) = written.await?;
    figures.add("steady_writes_per_s", rate);
    figures.add_latencies("steady_batch", &latencies);
    let mut reads = Latencies::new()?;
    while let Some(read) = readers.join_next().await {
        reads.merge(&read??)?;
    }
    figures.add("entry_reads", reads.count() as f64);
    figures.add_latencies("entry_read", &reads);
    Ok(())
}

async fn read_entries(to: Address, ids: Ids, address: [u8; 6], end: Instant) -> Result<Latencies> {
    let mut client = controller::connect(to).await?;
    let mut latencies = Latencies::new()?;
    while Instant::now() < end {
        let began = Instant::now();
        controller::read(&mut client, vec![ids.wanted(Some(address))], drop).await?;
        latencies.add(began.elapsed());
        tokio::time::sleep(READ_PAUSE).await;
    }
    Ok(latencies)
}

/// Writes at a steady rate, while many clients read the whole table.
async fn read_whole(
    controller: &mut Controller,
    to: &Address,
    batches: &mut Batches,
    ids: Ids,
    effort: &Effort,
    figures: &mut Figures,
) -> Result<()> {
    let mut readers = JoinSet::new();
    let (end, began) = (Instant::now() + effort.time(), Instant::now());
    for _ in 0..effort.n_readers {
        readers.spawn(count_entities(to.clone(), ids.wanted(None), end));
    }
    let written = write_steadily(controller, batches, effort.writes_per_s, effort.time());
    let (rate, latencies) = written.await?;
    figures.add("beside_table_reads_writes_per_s", rate);
    figures.add_latencies("beside_table_reads_batch", &latencies);
    let mut n_entities = 0;
    while let Some(read) = readers.join_next().await {
        n_entities += read??;
    }
    let rate = n_entities as f64 / began.elapsed().as_secs_f64();
    figures.add("table_reads_entries_per_s", rate);
    Ok(())
}

/// Reads repeatedly until `end`, and counts the entities. The last answer may be incomplete.
async fn count_entities(to: Address, wanted: Entity, end: Instant) -> Result<u64> {
    let mut client = controller::connect(to).await?;
    let mut n_entities = 0;
    while Instant::now() < end {
        let request = p4runtime_proto::p4::v1::ReadRequest {
            device_id: controller::DEVICE_ID,
            entities: vec![wanted.clone()],
            ..Default::default()
        };
        let mut answers = client.read(request).await?.into_inner();
        while Instant::now() < end {
            match answers.message().await? {
                Some(answer) => n_entities += answer.entities.len() as u64,
                None => break,
            }
        }
    }
    Ok(n_entities)
}

/// Adds one entry per call, as BMv2's scripts do.
fn add_by_thrift(n_entries: u32) -> Result<(f64, Latencies)> {
    let (mut client, mut latencies) = (thrift::Client::connect(Place::FIRST)?, Latencies::new()?);
    let began = Instant::now();
    for n in 0..n_entries {
        let [_, _, address @ ..] = station(n);
        let key = [&[8, 0], &address[..]].concat();
        let entry = thrift::entry(TABLE, &key, "StationsIngress.forward", &[0, 2]);
        let sent = Instant::now();
        client.call("standard:bm_mt_add_entry", &entry)?;
        latencies.add(sent.elapsed());
    }
    let seconds = began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    Ok((f64::from(n_entries) / seconds, latencies))
}
