//! The `Read` RPC: requests are filters, wildcards included; what they find is streamed.
//!
//! Source: P4Runtime 1.5.0, "Read RPC" and the sections of the entities. What is large is read in
//! several visits to the switch's thread, with frames in between and writes shut out.

use std::collections::HashMap;
use std::sync::Arc;

use dataplane::{ControlError, CounterValue, MatchField, Switch};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::{
    CounterEntry, Entity, Index, ReadResponse, RegisterEntry, TableEntry,
};
use prost::Message;
use tokio::sync::OwnedRwLockReadGuard;
use tonic::{Code, Status};

use crate::answers::AnswerSender;
use crate::device::{Device, Target, lock};
use crate::entity::{
    cells, counter, entity, expect_forwarding, generator, register, replication, table_entry,
    unset, unsupported,
};
use crate::error::{EntityError, EntityResult, batch_status, stopped};
use crate::limits::{CELLS_PER_VISIT, ENTRIES_PER_VISIT, READ_RESPONSE_BYTES, UPDATES_PER_PIECE};
use crate::pipeline::Table;

/// Serves one `Read`: sends what is found, and the errors at the end. Where whoever asked is slow, writes
/// are let in.
pub(crate) async fn read(
    device: Arc<Device>,
    target: Arc<Target>,
    requests: Vec<Entity>,
    answers: AnswerSender,
    no_writes: OwnedRwLockReadGuard<()>,
) {
    let mut reader = Reader {
        device: &device,
        target: &target,
        answers,
        no_writes: Some(no_writes),
        entities: Vec::new(),
        len_bytes: 0,
    };
    let end = reader.read_all(&requests).await;
    let Reader {
        answers, no_writes, ..
    } = reader;
    drop(no_writes);
    answers.finish(end).await;
}

struct Reader<'a> {
    device: &'a Device,
    target: &'a Target,
    answers: AnswerSender,
    /// While it is there.
    no_writes: Option<OwnedRwLockReadGuard<()>>,
    entities: Vec<Entity>,
    len_bytes: usize,
}

impl Reader<'_> {
    async fn read_all(&mut self, requests: &[Entity]) -> Result<(), Status> {
        let mut results = Vec::with_capacity(requests.len());
        for request in requests {
            let result = self.read(request).await;
            // The answer as a whole cannot go on.
            if let Err(error) = &result
                && error.code == Code::ResourceExhausted
            {
                return Err(Status::new(error.code, &error.message));
            }
            results.push(result);
        }
        let flushed = self.flush().await;
        flushed.map_err(|error| Status::new(error.code, error.message))?;
        match results.iter().any(Result::is_err) {
            true => Err(batch_status("request", &results)),
            false => Ok(()),
        }
    }

    async fn read(&mut self, request: &Entity) -> EntityResult {
        let kind = request.entity.as_ref().ok_or_else(|| unset("entity"))?;
        match kind {
            Kind::TableEntry(request) => self.tables(request).await,
            Kind::DirectCounterEntry(request) => {
                let of = request.table_entry.clone().unwrap_or_default();
                self.direct_counters(&of).await
            }
            Kind::CounterEntry(request) => self.counters(request).await,
            Kind::RegisterEntry(request) => self.registers(request).await,
            Kind::ExternEntry(request) => {
                expect_forwarding(Some(kind), self.target.is_saved())?;
                self.generators(generator::wanted(request)?).await
            }
            Kind::PacketReplicationEngineEntry(request) => match &request.r#type {
                Some(Replication::MulticastGroupEntry(request)) => {
                    self.groups(request.multicast_group_id).await
                }
                Some(Replication::CloneSessionEntry(request)) => {
                    self.sessions(request.session_id).await
                }
                None => Err(unset("packet_replication_engine_entry.type")),
            },
            // Of what the program has none, a wildcard finds none: clients that clear a switch ask.
            other if self.has_none_of(other) => Ok(()),
            other => Err(unsupported(other)),
        }
    }

    /// Whether a request is a wildcard over objects that the program does not have.
    fn has_none_of(&self, request: &Kind) -> bool {
        let Some(p4info) = self.target.pipeline.p4info() else {
            return false;
        };
        match request {
            Kind::ActionProfileMember(of) => {
                of.action_profile_id == 0 && p4info.action_profiles.is_empty()
            }
            Kind::ActionProfileGroup(of) => {
                of.action_profile_id == 0 && p4info.action_profiles.is_empty()
            }
            _ => false,
        }
    }

    async fn tables(&mut self, request: &TableEntry) -> EntityResult {
        let target = self.target;
        if request.table_id != 0 {
            return self
                .table(target.pipeline.table(request.table_id)?, request)
                .await;
        }
        table_entry::expect_no_filter(request)?;
        for table in target.pipeline.tables() {
            self.table(table, request).await?;
        }
        Ok(())
    }

    async fn table(&mut self, table: &Table, request: &TableEntry) -> EntityResult {
        if request.is_default_action {
            return self.default_entry(table, request).await;
        }
        let filter = match table_entry::Filter::new(table, request) {
            // A name that no entry has.
            Err(error) if error.code == Code::NotFound => return Ok(()),
            filter => filter?,
        };
        let target = self.target;
        let mut places = Places::of(table, &filter);
        while let Some(entries) = self.entries(table, &filter, &mut places).await? {
            let found: Vec<_> = {
                let data = lock(&target.data);
                let entries = entries.iter();
                let entries = entries.map(|it| table_entry::to_proto(table, it, &data, request));
                let accepted = entries.filter(|entry| filter.accepts_metadata(entry));
                accepted.map(Kind::TableEntry).collect()
            };
            self.push_all(found).await?;
        }
        Ok(())
    }

    async fn default_entry(&mut self, table: &Table, request: &TableEntry) -> EntityResult {
        if !request.r#match.is_empty() || request.priority != 0 {
            return Err(EntityError::invalid(format!(
                "table \"{}\": the default entry has neither match nor priority",
                table.name
            )));
        }
        let id = table.table;
        let action = self
            .visit_one(move |switch| switch.default_action(id))
            .await?;
        let target = self.target;
        let entry =
            action.map(|action| table_entry::default_to_proto(table, &action, &lock(&target.data)));
        self.push_all(entry.map(Kind::TableEntry)).await
    }

    /// Some more of a table's entries; none when all its places were looked at.
    async fn entries(
        &self,
        table: &Table,
        filter: &table_entry::Filter,
        places: &mut Places,
    ) -> EntityResult<Option<Vec<dataplane::TableEntry>>> {
        let id = table.table;
        let all = match places {
            Places::Done => return Ok(None),
            Places::Key(key) => {
                let key = std::mem::take(key);
                *places = Places::Done;
                self.visit(1, move |switch| Vec::from_iter(switch.entry(id, &key, 0)))
                    .await?
            }
            Places::From(first) => {
                // What is in a place is the same in all workers.
                let range = *first..*first + ENTRIES_PER_VISIT;
                *first = range.end;
                let part = move |switch: &Switch| {
                    let is_end = range.end >= switch.entry_places(id);
                    (switch.entries_in(id, range.clone()), is_end)
                };
                let parts = self.visit(ENTRIES_PER_VISIT, part).await?;
                if parts.iter().all(|(_, is_end)| *is_end) {
                    *places = Places::Done;
                }
                parts.into_iter().map(|(entries, _)| entries).collect()
            }
        };
        let mut entries = counted_together(all);
        entries.retain(|entry| filter.accepts(entry));
        Ok(Some(entries))
    }

    async fn direct_counters(&mut self, of: &TableEntry) -> EntityResult {
        let target = self.target;
        if of.table_id == 0 {
            table_entry::expect_no_filter(of)?;
            for table in target.pipeline.tables().filter(|t| t.has_direct_counter) {
                self.direct_counter(table, of).await?;
            }
            return Ok(());
        }
        let table = target.pipeline.table(of.table_id)?;
        counter::expect_direct_counter(table, of)?;
        self.direct_counter(table, of).await
    }

    async fn direct_counter(&mut self, table: &Table, of: &TableEntry) -> EntityResult {
        let filter = table_entry::Filter::new(table, of)?;
        let mut places = Places::of(table, &filter);
        let mut has_some = false;
        while let Some(entries) = self.entries(table, &filter, &mut places).await? {
            has_some |= !entries.is_empty();
            let entries = entries.iter();
            let counters = entries.map(|entry| counter::direct_to_proto(table, entry));
            let found: Vec<_> = counters.map(Kind::DirectCounterEntry).collect();
            self.push_all(found).await?;
        }
        if !has_some && filter.key.is_some() {
            return Err(EntityError::not_found(format!(
                "table \"{}\" has no such entry",
                table.name
            )));
        }
        Ok(())
    }

    async fn counters(&mut self, request: &CounterEntry) -> EntityResult {
        let target = self.target;
        let all = target.pipeline.counters();
        let of_id = |id| target.pipeline.counter(id);
        for counter in select(request.counter_id, request.index, all, of_id)? {
            let what = format!("counter \"{}\"", counter.name);
            let id = counter.counter;
            for cells in visits(cells(request.index, counter.size, &what)?) {
                let first = cells.start;
                let read = move |switch: &Switch| {
                    let values = cells.clone().map(|cell| switch.counter_cell(id, cell));
                    values.collect::<Result<Vec<_>, ControlError>>()
                };
                let values = self.visit(UPDATES_PER_PIECE, read).await?.into_iter();
                let sums = values.reduce(|sums, values| {
                    let pairs = sums?.into_iter().zip(values?);
                    Ok(pairs.map(|(sum, value)| plus(sum, value)).collect())
                });
                let cells = (first..).zip(sums.ok_or_else(stopped)??);
                let cells = cells.map(|(cell, value)| counter::to_proto(counter, cell, value));
                self.push_all(cells.map(Kind::CounterEntry)).await?;
            }
        }
        Ok(())
    }

    async fn registers(&mut self, request: &RegisterEntry) -> EntityResult {
        let target = self.target;
        let all = target.pipeline.registers();
        let of_id = |id| target.pipeline.register(id);
        for register in select(request.register_id, request.index, all, of_id)? {
            register::expect_supported(register)?;
            let what = format!("register \"{}\"", register.name);
            let id = register.register;
            for cells in visits(cells(request.index, register.size, &what)?) {
                let first = cells.start;
                let read = move |switch: &Switch| {
                    let values = cells.clone().map(|cell| switch.register_cell(id, cell));
                    values.collect::<Result<Vec<_>, ControlError>>()
                };
                let all: Result<Vec<_>, ControlError> = self
                    .visit(UPDATES_PER_PIECE, read)
                    .await?
                    .into_iter()
                    .collect();
                let mut all = all?.into_iter();
                let values = all.next().ok_or_else(stopped)?;
                for others in all {
                    let mut pairs = (first..).zip(values.iter().zip(&others));
                    if let Some((cell, _)) = pairs.find(|(_, (ours, theirs))| ours != theirs) {
                        return Err(differs(&what, cell));
                    }
                }
                let cells = (first..).zip(values);
                let cells = cells.map(|(cell, value)| register::to_proto(register, cell, value));
                self.push_all(cells.map(Kind::RegisterEntry)).await?;
            }
        }
        Ok(())
    }

    async fn groups(&mut self, id: u32) -> EntityResult {
        let (target, mut next) = (self.target, Some(id));
        while let Some(first) = next {
            let some =
                move |switch: &Switch| switch.multicast_groups_from(first, ENTRIES_PER_VISIT);
            let groups = self.visit_one(some).await?;
            next = groups.last().map(|group| group.id + 1);
            let found: Vec<_> = {
                let data = lock(&target.data);
                let groups = groups.iter().filter(|group| id == 0 || group.id == id);
                let entries = groups.map(|group| replication::group_to_proto(group, &data));
                entries.map(Kind::PacketReplicationEngineEntry).collect()
            };
            self.push_all(found).await?;
            next = next.filter(|_| id == 0);
        }
        Ok(())
    }

    async fn sessions(&mut self, id: u32) -> EntityResult {
        let (target, mut next) = (self.target, Some(id));
        while let Some(first) = next {
            let some = move |switch: &Switch| switch.clone_sessions_from(first, ENTRIES_PER_VISIT);
            let sessions = self.visit_one(some).await?;
            next = sessions.last().map(|session| session.id + 1);
            let found: Vec<_> = {
                let data = lock(&target.data);
                let sessions = sessions
                    .iter()
                    .filter(|session| id == 0 || session.id == id);
                let entries = sessions.map(|session| replication::session_to_proto(session, &data));
                entries.map(Kind::PacketReplicationEngineEntry).collect()
            };
            self.push_all(found).await?;
            next = next.filter(|_| id == 0);
        }
        Ok(())
    }

    /// One packet generator, or all.
    async fn generators(&mut self, wanted: Option<u32>) -> EntityResult {
        let generators = self.visit_one(Switch::generators).await?.into_iter();
        let found = generators.filter(|found| wanted.is_none_or(|id| id == found.id));
        let found = found.map(|found| Kind::ExternEntry(generator::to_proto(found)));
        self.push_all(found).await
    }

    /// What is the same in every worker.
    async fn visit_one<R: Send + 'static>(
        &self,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> EntityResult<R> {
        let answers = self.visit(ENTRIES_PER_VISIT, work).await?;
        answers.into_iter().next().ok_or_else(stopped)
    }

    /// Every worker's answer; `n_updates` is what a visit counts for.
    async fn visit<R: Send + 'static>(
        &self,
        n_updates: usize,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> EntityResult<Vec<R>> {
        if self.answers.is_closed() {
            return Err(EntityError::new(Code::Cancelled, "the client has gone"));
        }
        self.device.read(self.target, n_updates, work).await
    }

    async fn push_all(&mut self, kinds: impl IntoIterator<Item = Kind>) -> EntityResult {
        for kind in kinds {
            let entity = entity(kind);
            self.len_bytes += entity.encoded_len();
            self.entities.push(entity);
            if self.len_bytes >= READ_RESPONSE_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> EntityResult {
        if self.entities.is_empty() {
            return Ok(());
        }
        let n_bytes = std::mem::take(&mut self.len_bytes);
        let entities = std::mem::take(&mut self.entities);
        let response = ReadResponse { entities };
        if let Err(response) = self.answers.try_send(response, n_bytes) {
            // Who writes does not wait for who is slow to read.
            self.no_writes = None;
            self.answers.send(response, n_bytes).await?;
            let order = Arc::clone(&self.device.order);
            self.no_writes = Some(order.read_owned().await);
        }
        Ok(())
    }
}

/// Where in a table is still to be read.
enum Places {
    /// From there on.
    From(usize),
    /// One entry at most, found without walking the table.
    Key(Vec<MatchField>),
    Done,
}

impl Places {
    fn of(table: &Table, filter: &table_entry::Filter) -> Self {
        match &filter.key {
            Some(key) if !table.has_priority => Self::Key(key.clone()),
            _ => Self::From(0),
        }
    }
}

/// The first worker's entries with what all workers have counted at them.
fn counted_together(all: Vec<Vec<dataplane::TableEntry>>) -> Vec<dataplane::TableEntry> {
    let mut all = all.into_iter();
    let mut entries = all.next().unwrap_or_default();
    let others: Vec<_> = all.flatten().collect();
    let mut counts: HashMap<_, CounterValue> = HashMap::with_capacity(entries.len());
    for other in &others {
        let count = counts.entry((&other.key, other.priority)).or_default();
        *count = plus(*count, other.counter);
    }
    for entry in &mut entries {
        if let Some(count) = counts.get(&(&entry.key, entry.priority)) {
            entry.counter = plus(entry.counter, *count);
        }
    }
    entries
}

fn plus(one: CounterValue, other: CounterValue) -> CounterValue {
    CounterValue {
        packets: one.packets.wrapping_add(other.packets),
        bytes: one.bytes.wrapping_add(other.bytes),
    }
}

/// With registers of their own, there is no one value.
fn differs(what: &str, cell: u64) -> EntityError {
    EntityError::new(
        Code::FailedPrecondition,
        format!("{what}: the workers have different values in cell {cell}, each its own"),
    )
}

/// One array, or all of them where the id is 0; an index needs an id.
fn select<'a, T>(
    id: u32,
    index: Option<Index>,
    all: impl Iterator<Item = &'a T>,
    of_id: impl FnOnce(u32) -> EntityResult<&'a T>,
) -> EntityResult<Vec<&'a T>> {
    match (id, index) {
        (0, None) => Ok(all.collect()),
        (0, Some(_)) => Err(EntityError::invalid(
            "reading every array (id 0) takes no index, found one",
        )),
        (id, _) => Ok(vec![of_id(id)?]),
    }
}

/// Cells in portions that do not hold up frames.
fn visits(cells: std::ops::Range<u64>) -> impl Iterator<Item = std::ops::Range<u64>> {
    let end = cells.end;
    let step = usize::try_from(CELLS_PER_VISIT).expect("a small number");
    cells
        .step_by(step)
        .map(move |first| first..end.min(first + CELLS_PER_VISIT))
}
