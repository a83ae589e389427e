//! Writes batches to the table of `programs/stations.p4`, and measures their latencies.

use std::ops::Range;
use std::time::{Duration, Instant};

use control_bench::Result;
use control_bench::controller::Controller;
use control_bench::traffic;
use hdrhistogram::Histogram;
use p4runtime_client::entities::{action, of_table, table_action, update};
use p4runtime_client::field_match::Match;
use p4runtime_client::{P4InfoIndex, id_of};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{Entity, FieldMatch, TableEntry, Update, WriteRequest};

/// The output port of all entries.
const PORT: u8 = 2;
/// The longest latency that is recorded: ten minutes. Latencies are recorded with three significant digits.
const LATENCY_MAX_US: u64 = 600_000_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    table: u32,
    forward: u32,
}

impl Ids {
    pub(crate) fn of(p4info: &P4Info) -> Result<Self> {
        let index = P4InfoIndex::new(p4info.clone());
        Ok(Self {
            table: id_of(index.table("stations")?.preamble.as_ref()),
            forward: id_of(index.action("forward")?.preamble.as_ref()),
        })
    }

    /// Returns the entity for a Read of an address's entry, or of all entries if there is no address.
    pub(crate) fn wanted(self, address: Option<[u8; 6]>) -> Entity {
        of_table(TableEntry {
            table_id: self.table,
            r#match: Vec::from_iter(address.map(key)),
            ..Default::default()
        })
    }

    fn update(self, of: Type, address: [u8; 6]) -> Update {
        let call = action(self.forward, [(1, vec![PORT])]);
        let entry = TableEntry {
            table_id: self.table,
            r#match: vec![key(address)],
            action: (of != Type::Delete).then(|| table_action(call)),
            ..Default::default()
        };
        update(of, of_table(entry))
    }
}

fn key(address: [u8; 6]) -> FieldMatch {
    Match::Exact(address.to_vec()).field(1)
}

/// Returns the address of an entry that matches no frame.
pub(crate) fn station(n: u32) -> [u8; 6] {
    // Consecutive numbers are spread over the address space, like the addresses of many vendors.
    let [a, b, c, d] = n.wrapping_mul(2_654_435_761).to_be_bytes();
    [2, 0, a, b, c, d]
}

pub(crate) struct Batches {
    ids: Ids,
    size: u32,
    /// The numbers of the existing entries.
    there: Range<u32>,
    random: fastrand::Rng,
}

impl Batches {
    pub(crate) fn new(ids: Ids, size: u32) -> Self {
        Self {
            ids,
            size,
            there: 0..0,
            random: fastrand::Rng::with_seed(1),
        }
    }

    pub(crate) fn n_entries(&self) -> u32 {
        self.there.end - self.there.start
    }

    pub(crate) fn any(&mut self) -> u32 {
        self.random.u32(self.there.clone())
    }

    /// Returns the updates that insert an entry for the address of each of the traffic's flows.
    pub(crate) fn for_traffic(&self, n_flows: u16) -> Vec<Update> {
        let flows = 0..n_flows;
        let entries = flows.map(|flow| self.ids.update(Type::Insert, traffic::address(flow)));
        entries.collect()
    }

    /// Returns a batch that inserts new entries. The batch is full, unless the table would then have more than
    /// `n_entries_max` entries; in this case it has only as many entries as fit.
    pub(crate) fn inserts(&mut self, n_entries_max: u32) -> Vec<Update> {
        let n_entries = self
            .size
            .min(n_entries_max.saturating_sub(self.n_entries()));
        let new = self.there.end..self.there.end + n_entries;
        self.there.end = new.end;
        let ids = self.ids;
        new.map(|n| ids.update(Type::Insert, station(n))).collect()
    }

    /// Returns a batch that does not change the number of entries. Half of the updates modify entries, a quarter delete
    /// the oldest entries, and a quarter insert new entries.
    pub(crate) fn churn(&mut self) -> Vec<Update> {
        let n_new = self.size / 4;
        let old = self.there.start..self.there.start + n_new;
        let new = self.there.end..self.there.end + n_new;
        self.there = old.end..new.end;
        let ids = self.ids;
        let deletes = old.map(|n| ids.update(Type::Delete, station(n)));
        let inserts = new.map(|n| ids.update(Type::Insert, station(n)));
        let mut updates: Vec<Update> = deletes.chain(inserts).collect();
        for _ in 2 * n_new..self.size {
            let changed = station(self.any());
            updates.push(ids.update(Type::Modify, changed));
        }
        updates
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_max(LATENCY_MAX_US, 3)?))
    }

    pub(crate) fn add(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn merge(&mut self, other: &Self) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub(crate) fn ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Writes a batch. Fails if any update is refused.
pub(crate) async fn write(controller: &mut Controller, request: WriteRequest) -> Result<()> {
    let written = controller.client.write(request).await;
    Ok(written
        .map(drop)
        .map_err(|status| format!("a batch is refused: {status}"))?)
}

/// Writes at a steady rate, or as fast as possible if batches are late. Returns the rate, and the latency of each batch
/// from the time at which the batch was due.
pub(crate) async fn write_steadily(
    controller: &mut Controller,
    batches: &mut Batches,
    writes_per_s: u32,
    time: Duration,
) -> Result<(f64, Latencies)> {
    let (began, mut latencies) = (Instant::now(), Latencies::new()?);
    let apart = Duration::from_secs_f64(f64::from(batches.size) / f64::from(writes_per_s));
    let mut n_batches = 0;
    while began.elapsed() < time && apart * n_batches < time {
        let request = controller.batch(batches.churn());
        let due = began + apart * n_batches;
        tokio::time::sleep_until(due.into()).await;
        write(controller, request).await?;
        latencies.add(due.elapsed());
        n_batches += 1;
    }
    // The planned time is the minimum, so that a last batch that ends early does not raise the rate.
    let seconds = began.elapsed().max(apart * n_batches).as_secs_f64();
    Ok((f64::from(n_batches * batches.size) / seconds, latencies))
}
