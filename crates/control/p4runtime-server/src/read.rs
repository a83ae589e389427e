//! The `Read` RPC: each entity in the request is a filter, possibly with wildcards. The matching entities are streamed.
//!
//! Source: P4Runtime 1.5.0, "Read RPC" and the sections of the entities. Large objects are read in portions
//! ([`control::Reading`]).

use std::sync::Arc;
use std::time::Duration;

use control::{Cursor, Reading};
use dataplane::Switch;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CounterEntry, DirectMeterEntry, Entity, Index,
    MeterEntry, ReadResponse, RegisterEntry, TableEntry,
};
use prost::Message;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::answers::AnswerSender;
use crate::entity::{
    action_profile, cells, counter, digest, entity, generator, meter, register, replication,
    table_entry, unset, value_set,
};
use crate::error::{EntityError, EntityResult, batch_status};
use crate::limits::READ_RESPONSE_BYTES;
use crate::pipeline::{Pipeline, Profile, Table};
use crate::roles::{Access, object};
use crate::secrets;

/// Serves one `Read`: sends the entities, and the errors at the end. Meanwhile, writes are blocked. Writes are let in
/// while the client is slow to take answers. They are also let in between two filters of the request if they have been
/// blocked for the duration `alone`.
pub(crate) async fn read(
    reading: Reading,
    alone: Duration,
    pipeline: Arc<Pipeline>,
    access: Arc<Access>,
    requests: Vec<Entity>,
    answers: AnswerSender,
) {
    let mut reader = Reader {
        pipeline: &pipeline,
        access,
        reading,
        answers: Some(answers),
        entities: Vec::new(),
        len_bytes: 0,
        alone,
    };
    let end = reader.read_all(&requests).await;
    let Reader {
        answers, reading, ..
    } = reader;
    drop(reading);
    if let Some(answers) = answers {
        answers.finish(end).await;
    }
}

/// Collects all entities that the requests match.
pub(crate) async fn find(
    reading: Reading,
    pipeline: &Pipeline,
    requests: &[Kind],
) -> EntityResult<Vec<Entity>> {
    let mut reader = Reader {
        pipeline,
        access: Arc::default(),
        reading,
        answers: None,
        entities: Vec::new(),
        len_bytes: 0,
        alone: Duration::MAX,
    };
    for request in requests {
        reader.read_kind(request).await?;
    }
    Ok(reader.entities)
}

struct Reader<'a> {
    pipeline: &'a Pipeline,
    /// What the client's role may read.
    access: Arc<Access>,
    reading: Reading,
    /// `None` for [`find`], which collects the entities instead of sending them.
    answers: Option<AnswerSender>,
    entities: Vec<Entity>,
    len_bytes: usize,
    /// How long writes may be blocked before they are let in between two filters.
    alone: Duration,
}

impl Reader<'_> {
    async fn read_all(&mut self, requests: &[Entity]) -> Result<(), Status> {
        let mut results = Vec::with_capacity(requests.len());
        let mut shut_out = Instant::now();
        for request in requests {
            // A call with thousands of wildcards takes minutes, and writes must not wait for all of them.
            if shut_out.elapsed() >= self.alone {
                self.reading.let_writes_in();
                self.reading.shut_writes_out().await;
                shut_out = Instant::now();
            }
            let result = self.read(request).await;
            // There is no room for more answers, so the whole Read is given up.
            if let Err(error) = &result
                && error.code == Code::ResourceExhausted
            {
                return Err(Status::new(error.code, &error.message));
            }
            results.push(result);
        }
        let flushed = self.flush().await;
        flushed.map_err(|error| Status::new(error.code, error.message))?;
        if results.iter().any(Result::is_err) {
            Err(batch_status("request", &results))
        } else {
            Ok(())
        }
    }

    async fn read(&mut self, request: &Entity) -> EntityResult {
        let kind = request.entity.as_ref().ok_or_else(|| unset("entity"))?;
        let is_seen = object(kind).is_none_or(|id| self.sees(id));
        if is_seen {
            self.read_kind(kind).await
        } else {
            Ok(())
        }
    }

    fn sees(&self, id: u32) -> bool {
        self.access.has(self.pipeline, id)
    }

    async fn read_kind(&mut self, kind: &Kind) -> EntityResult {
        match kind {
            Kind::TableEntry(request) => self.tables(request).await,
            Kind::DirectCounterEntry(request) => {
                let of = request.table_entry.clone().unwrap_or_default();
                self.direct_counters(&of).await
            }
            Kind::CounterEntry(request) => self.counters(request).await,
            Kind::RegisterEntry(request) => self.registers(request).await,
            Kind::ExternEntry(request) => self.generators(generator::wanted(request)?).await,
            Kind::PacketReplicationEngineEntry(request) => match &request.r#type {
                Some(Replication::MulticastGroupEntry(request)) => {
                    self.groups(request.multicast_group_id).await
                }
                Some(Replication::CloneSessionEntry(request)) => {
                    self.sessions(request.session_id).await
                }
                None => Err(unset("packet_replication_engine_entry.type")),
            },
            Kind::ActionProfileMember(request) => self.members(request).await,
            Kind::ActionProfileGroup(request) => self.profile_groups(request).await,
            Kind::MeterEntry(request) => self.meters(request).await,
            Kind::DirectMeterEntry(request) => self.direct_meters(request).await,
            Kind::ValueSetEntry(request) => self.value_sets(request.value_set_id).await,
            Kind::DigestEntry(request) => self.digests(request.digest_id).await,
        }
    }

    async fn tables(&mut self, request: &TableEntry) -> EntityResult {
        let pipeline = self.pipeline;
        if request.table_id != 0 {
            return self.table(pipeline.table(request.table_id)?, request).await;
        }
        table_entry::expect_no_filter(request)?;
        for table in pipeline.tables() {
            if !self.sees(table.id) {
                continue;
            }
            self.table(table, request).await?;
        }
        Ok(())
    }

    async fn table(&mut self, table: &Table, request: &TableEntry) -> EntityResult {
        if request.is_default_action {
            return self.default_entry(table, request).await;
        }
        let filter = match table_entry::Filter::new(table, request) {
            // The filter has a translated string that stands for no number, so no entry can match.
            Err(error) if error.code == Code::NotFound => return Ok(()),
            filter => filter?,
        };
        let mut cursor = cursor(table, &filter);
        while let Some(entries) = self.entries(table, &filter, &mut cursor).await? {
            let found: Vec<_> = {
                let client_data = self.reading.pipeline().client_data();
                let entries = entries.iter();
                let pipeline = self.pipeline;
                let entries = entries
                    .map(|it| table_entry::to_proto(pipeline, table, it, &client_data, request));
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
        let action = self.reading()?.default_action(table.table).await?;
        let entry = action.map(|action| {
            let client_data = self.reading.pipeline().client_data();
            table_entry::default_to_proto(self.pipeline, table, &action, &client_data)
        });
        self.push_all(Vec::from_iter(entry.map(Kind::TableEntry)))
            .await
    }

    /// The next portion of a table's entries. `None` at the end of the table.
    async fn entries(
        &self,
        table: &Table,
        filter: &table_entry::Filter,
        cursor: &mut Cursor,
    ) -> EntityResult<Option<Vec<dataplane::TableEntry>>> {
        let mut entries = self.reading()?.entries(table.table, cursor).await?;
        if let Some(entries) = &mut entries {
            entries.retain(|entry| filter.accepts(entry));
        }
        Ok(entries)
    }

    async fn direct_counters(&mut self, of: &TableEntry) -> EntityResult {
        let pipeline = self.pipeline;
        if of.table_id == 0 {
            table_entry::expect_no_filter(of)?;
            for table in pipeline.tables().filter(|t| t.has_direct_counter) {
                if !self.sees(table.id) {
                    continue;
                }
                self.direct_counter(table, of).await?;
            }
            return Ok(());
        }
        let table = pipeline.table(of.table_id)?;
        counter::expect_direct_counter(table, of)?;
        self.direct_counter(table, of).await
    }

    async fn direct_counter(&mut self, table: &Table, of: &TableEntry) -> EntityResult {
        let to_proto = |entry: &_| Kind::DirectCounterEntry(counter::direct_to_proto(table, entry));
        self.direct(table, of, to_proto).await
    }

    async fn counters(&mut self, request: &CounterEntry) -> EntityResult {
        let pipeline = self.pipeline;
        let all = pipeline.counters();
        let of_id = |id| pipeline.counter(id);
        for counter in select(request.counter_id, request.index, all, of_id)? {
            if !self.sees(counter.id) {
                continue;
            }
            let what = format!("counter \"{}\"", counter.name);
            let mut cells = cells(request.index, counter.size, &what)?;
            loop {
                let first = cells.start;
                let reading = self.reading()?;
                let Some(values) = reading.counter_cells(counter.counter, &mut cells).await? else {
                    break;
                };
                let values = (first..).zip(values);
                let values = values.map(|(cell, value)| counter::to_proto(counter, cell, value));
                self.push_all(values.map(Kind::CounterEntry).collect())
                    .await?;
            }
        }
        Ok(())
    }

    async fn registers(&mut self, request: &RegisterEntry) -> EntityResult {
        let pipeline = self.pipeline;
        let all = pipeline.registers();
        let of_id = |id| pipeline.register(id);
        for register in select(request.register_id, request.index, all, of_id)? {
            if !self.sees(register.id) {
                continue;
            }
            register::expect_supported(register)?;
            let what = format!("register \"{}\"", register.name);
            let mut cells = cells(request.index, register.size, &what)?;
            loop {
                let first = cells.start;
                let reading = self.reading()?;
                let Some(values) = reading
                    .register_cells(register.register, &mut cells)
                    .await?
                else {
                    break;
                };
                let values = (first..).zip(values);
                let values = values.map(|(cell, value)| register::to_proto(register, cell, value));
                self.push_all(values.map(Kind::RegisterEntry).collect())
                    .await?;
            }
        }
        Ok(())
    }

    async fn meters(&mut self, request: &MeterEntry) -> EntityResult {
        let pipeline = self.pipeline;
        let (all, of_id) = (pipeline.meters(), |id| pipeline.meter(id));
        let with_counts = request.counter_data.is_some();
        for of in select(request.meter_id, request.index, all, of_id)? {
            if !self.sees(of.id) {
                continue;
            }
            let what = format!("meter \"{}\"", of.name);
            let mut cells = cells(request.index, of.size, &what)?;
            loop {
                let first = cells.start;
                let reading = self.reading()?;
                let Some(values) = reading.meter_cells(of.meter, &mut cells).await? else {
                    break;
                };
                let values = (first..).zip(values);
                let values =
                    values.map(|(cell, value)| meter::to_proto(of, cell, value, with_counts));
                self.push_all(values.map(Kind::MeterEntry).collect())
                    .await?;
            }
        }
        Ok(())
    }

    async fn direct_meters(&mut self, request: &DirectMeterEntry) -> EntityResult {
        let pipeline = self.pipeline;
        let of = request.table_entry.clone().unwrap_or_default();
        let with_counts = request.counter_data.is_some();
        if of.table_id == 0 {
            table_entry::expect_no_filter(&of)?;
            for table in pipeline.tables().filter(|t| t.direct_meter.is_some()) {
                if !self.sees(table.id) {
                    continue;
                }
                self.direct_meter(table, &of, with_counts).await?;
            }
            return Ok(());
        }
        let table = pipeline.table(of.table_id)?;
        meter::expect_direct_meter(table, &of)?;
        self.direct_meter(table, &of, with_counts).await
    }

    async fn direct_meter(
        &mut self,
        table: &Table,
        of: &TableEntry,
        with_counts: bool,
    ) -> EntityResult {
        let to_proto = |entry: &_| {
            let entry = meter::direct_to_proto(table, entry, with_counts);
            Kind::DirectMeterEntry(entry)
        };
        self.direct(table, of, to_proto).await
    }

    /// Reads the direct counters or meters of the requested entries.
    async fn direct(
        &mut self,
        table: &Table,
        of: &TableEntry,
        to_proto: impl Fn(&dataplane::TableEntry) -> Kind,
    ) -> EntityResult {
        let filter = table_entry::Filter::new(table, of)?;
        let mut cursor = cursor(table, &filter);
        let mut has_some = false;
        while let Some(entries) = self.entries(table, &filter, &mut cursor).await? {
            has_some |= !entries.is_empty();
            let found: Vec<_> = entries.iter().map(&to_proto).collect();
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

    async fn members(&mut self, request: &ActionProfileMember) -> EntityResult {
        let (pipeline, wanted) = (self.pipeline, request.member_id);
        for profile in select_profiles(pipeline, request.action_profile_id, wanted)? {
            if !self.sees(profile.id) {
                continue;
            }
            let members = self.reading()?.members(profile.profile).await?;
            let members = members.iter();
            let members = members.filter(|member| wanted == 0 || member.id == wanted);
            let found =
                members.map(|member| action_profile::member_to_proto(pipeline, profile, member));
            self.push_all(found.map(Kind::ActionProfileMember).collect())
                .await?;
        }
        Ok(())
    }

    async fn profile_groups(&mut self, request: &ActionProfileGroup) -> EntityResult {
        let (pipeline, wanted) = (self.pipeline, request.group_id);
        for profile in select_profiles(pipeline, request.action_profile_id, wanted)? {
            if !self.sees(profile.id) {
                continue;
            }
            let id = profile.profile;
            let read = move |switch: &Switch| switch.groups(id);
            let groups = self.reading()?.of_first(read).await?;
            let groups = groups.iter();
            let groups = groups.filter(|group| wanted == 0 || group.id == wanted);
            let found = groups.map(|group| action_profile::group_to_proto(profile, group));
            self.push_all(found.map(Kind::ActionProfileGroup).collect())
                .await?;
        }
        Ok(())
    }

    async fn value_sets(&mut self, id: u32) -> EntityResult {
        let pipeline = self.pipeline;
        let sets = select(id, None, pipeline.value_sets(), |id| pipeline.value_set(id))?;
        for of in sets {
            if !self.sees(of.id) {
                continue;
            }
            let set = of.set;
            let read = move |switch: &Switch| switch.value_set(set);
            let members = self.reading()?.of_first(read).await?;
            let found = value_set::to_proto(of, &members);
            self.push_all(vec![Kind::ValueSetEntry(found)]).await?;
        }
        Ok(())
    }

    /// Reads the configurations of digests.
    async fn digests(&mut self, id: u32) -> EntityResult {
        let pipeline = self.pipeline;
        let digests = select(id, None, pipeline.digests(), |id| pipeline.digest(id))?;
        let found: Vec<_> = {
            let configs = self.reading()?.pipeline().digests();
            let digests = digests.into_iter().filter(|digest| self.sees(digest.id));
            let entries = digests.filter_map(|digest| {
                let client_data = configs.get(&digest.name)?;
                Some(digest::to_proto(digest, client_data))
            });
            entries.map(Kind::DigestEntry).collect()
        };
        self.push_all(found).await
    }

    async fn groups(&mut self, id: u32) -> EntityResult {
        let mut next = Some(id);
        while let Some(first) = next {
            let groups = self.reading()?.multicast_groups(first).await?;
            next = groups.last().map(|group| group.id + 1);
            let found: Vec<_> = {
                let client_data = self.reading.pipeline().client_data();
                let groups = groups.iter().filter(|group| id == 0 || group.id == id);
                let entries = groups.map(|group| replication::group_to_proto(group, &client_data));
                entries.map(Kind::PacketReplicationEngineEntry).collect()
            };
            self.push_all(found).await?;
            next = next.filter(|_| id == 0);
        }
        Ok(())
    }

    async fn sessions(&mut self, id: u32) -> EntityResult {
        let mut next = Some(id);
        while let Some(first) = next {
            let sessions = self.reading()?.clone_sessions(first).await?;
            next = sessions.last().map(|session| session.id + 1);
            let found: Vec<_> = {
                let client_data = self.reading.pipeline().client_data();
                let sessions = sessions
                    .iter()
                    .filter(|session| id == 0 || session.id == id);
                let entries =
                    sessions.map(|session| replication::session_to_proto(session, &client_data));
                entries.map(Kind::PacketReplicationEngineEntry).collect()
            };
            self.push_all(found).await?;
            next = next.filter(|_| id == 0);
        }
        Ok(())
    }

    /// Reads one packet generator, or all if `wanted` is `None`.
    async fn generators(&mut self, wanted: Option<u32>) -> EntityResult {
        let generators = self.reading()?.generators().await?.into_iter();
        let found = generators.filter(|found| wanted.is_none_or(|id| id == found.id));
        let found = found.map(|found| Kind::ExternEntry(generator::to_proto(found)));
        self.push_all(found.collect()).await
    }

    /// Returns `self.reading`, or an error if the client has gone.
    fn reading(&self) -> EntityResult<&Reading> {
        let answers = self.answers.as_ref();
        if answers.is_some_and(AnswerSender::is_closed) {
            return Err(EntityError::new(Code::Cancelled, "the client has gone"));
        }
        Ok(&self.reading)
    }

    async fn push_all(&mut self, kinds: Vec<Kind>) -> EntityResult {
        for mut kind in kinds {
            if self.answers.is_some() {
                secrets::hide_key(self.pipeline, &mut kind);
            }
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
        let Some(answers) = self.answers.as_ref().filter(|_| !self.entities.is_empty()) else {
            return Ok(());
        };
        let n_bytes = std::mem::take(&mut self.len_bytes);
        let entities = std::mem::take(&mut self.entities);
        let response = ReadResponse { entities };
        if let Err(response) = answers.try_send(response, n_bytes) {
            // Writers need not wait while the client takes answers slowly.
            self.reading.let_writes_in();
            answers.send(response, n_bytes).await?;
            self.reading.shut_writes_out().await;
        }
        Ok(())
    }
}

/// Returns a cursor over the part of a table that the filter can match.
fn cursor(table: &Table, filter: &table_entry::Filter) -> Cursor {
    match &filter.key {
        Some(key) if !table.has_priority => Cursor::Key(key.clone()),
        _ => Cursor::ALL,
    }
}

/// Returns the profile with this id, or all profiles if the id is 0. `part` is the id of a member or group, or 0. The
/// id of a member or group requires the id of a profile.
fn select_profiles(pipeline: &Pipeline, id: u32, part: u32) -> EntityResult<Vec<&Profile>> {
    match (id, part) {
        (0, 0) => Ok(pipeline.profiles().collect()),
        (0, _) => Err(EntityError::invalid(
            "reading every action profile (id 0) takes no member or group, found one",
        )),
        (id, _) => Ok(vec![pipeline.profile(id)?]),
    }
}

/// Returns the object with this id, or all objects if the id is 0. An index requires the id of an object.
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
