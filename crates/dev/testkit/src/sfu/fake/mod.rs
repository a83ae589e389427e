//! Defines the fake switch: its state, and strictly checked writes.

mod fields;
mod packets;

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::plan::Target;
use p4runtime_client::bytestring;
use p4runtime_client::id_of;
use p4runtime_client::objects::{Array, table_info};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    CloneSessionEntry, CounterData, Entity, MulticastGroupEntry, RegisterEntry, TableEntry, Update,
    entity, field_match, p4_data, table_action, update,
};
use tonic::Code;

use super::Random;
use fields::{exact, index_of, key_of};
use packets::Packet;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message} ({code:?})")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
}

/// The result of one packet: its presenter, and the destinations of its copies.
pub type Seen = (Ipv4Addr, Vec<(Ipv4Addr, Mac)>);

type Key = Vec<(u32, Vec<u8>)>;

/// A fault that begins after `calls_left` further calls (updates or drains): from then on every call fails. With
/// `answer_lost`, the switch still executes the first failing call, but does not answer it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub calls_left: usize,
    pub answer_lost: bool,
}

pub struct FakeSwitch {
    pub p4info: Option<P4Info>,
    pub device_config: Vec<u8>,
    tables: BTreeMap<(u32, Key), TableEntry>,
    registers: HashMap<(u32, u32), u64>,
    pub counters: HashMap<(u32, u32), CounterData>,
    pub groups: BTreeMap<u32, MulticastGroupEntry>,
    pub sessions: BTreeMap<u32, CloneSessionEntry>,
    /// Hosts that answer ARP requests.
    pub hosts: HashMap<Ipv4Addr, Mac>,
    /// Other hosts that answer ARP requests, with port, IP address and MAC address.
    pub other_hosts: Vec<(u16, Ipv4Addr, Mac)>,
    pub ports: Vec<u32>,
    pub requests_to_miss: usize,
    /// If this is set, between any two updates a packet arrives and packets inside the switch advance a step.
    pub traffic: Option<Random>,
    packets: Vec<Packet>,
    pub seen: Vec<Seen>,
    pub violations: Vec<String>,
    /// Every executed update, in order. `None` is a drain.
    pub log: Vec<Option<Update>>,
    /// The fault that cuts the controller off from the switch; `None` if the switch answers every call.
    pub fault: Option<Fault>,
    /// Once the log has this many entries, the switch no longer answers calls that change the state.
    pub silent_after: Option<usize>,
    pub n_readings: u64,
    pub largest_batch: usize,
}

impl FakeSwitch {
    pub fn new(p4info: Option<P4Info>) -> FakeSwitch {
        let mut switch = FakeSwitch {
            p4info: None,
            device_config: Vec::new(),
            tables: BTreeMap::new(),
            registers: HashMap::new(),
            counters: HashMap::new(),
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
            hosts: HashMap::new(),
            other_hosts: Vec::new(),
            ports: vec![1],
            requests_to_miss: 0,
            traffic: None,
            packets: Vec::new(),
            seen: Vec::new(),
            violations: Vec::new(),
            log: Vec::new(),
            fault: None,
            silent_after: None,
            n_readings: 0,
            largest_batch: 0,
        };
        if let Some(p4info) = p4info {
            switch.set_pipeline(p4info, Vec::new());
        }
        switch
    }

    pub fn set_pipeline(&mut self, p4info: P4Info, device_config: Vec<u8>) {
        self.tables.clear();
        self.registers.clear();
        self.counters.clear();
        self.groups.clear();
        self.sessions.clear();
        self.device_config = device_config;
        self.p4info = Some(p4info);
        self.add_verdicts();
    }

    /// Adds two entries to the table of verdicts, like the const entries of a program.
    fn add_verdicts(&mut self) {
        let Some(table_id) = self.table_id("verdicts") else {
            return;
        };
        let p4info = self.p4info.as_ref().expect("a program");
        let table = p4info
            .tables
            .iter()
            .find(|t| id_of(t.preamble.as_ref()) == table_id);
        let actions: Vec<u32> = table
            .expect("found by name")
            .action_refs
            .iter()
            .map(|a| a.id)
            .collect();
        for (verdict, action_id) in [0u64, 15].into_iter().zip(actions) {
            let action = p4runtime_proto::p4::v1::Action {
                action_id,
                params: Vec::new(),
            };
            let entry = TableEntry {
                table_id,
                r#match: vec![exact(1, verdict)],
                action: Some(p4runtime_proto::p4::v1::TableAction {
                    r#type: Some(table_action::Type::Action(action)),
                }),
                counter_data: Some(CounterData {
                    packet_count: 5,
                    byte_count: 500,
                }),
                is_const: true,
                ..TableEntry::default()
            };
            self.tables.insert((table_id, key_of(&entry)), entry);
        }
    }

    /// Sets the direct counter of every entry of a table to `packets`.
    pub fn count_in_table(&mut self, table: &str, packets: i64) {
        let id = self.table_id(table);
        for ((_, _), entry) in self.tables.iter_mut().filter(|((t, _), _)| Some(*t) == id) {
            entry.counter_data = Some(CounterData {
                packet_count: packets,
                byte_count: packets * 100,
            });
        }
    }

    /// Sets every counter cell to `packets`.
    pub fn count_everywhere(&mut self, packets: i64) {
        let p4info = self.p4info.as_ref().expect("a program");
        for counter in &p4info.counters {
            let id = id_of(counter.preamble.as_ref());
            for index in 0..u32::try_from(counter.size).expect("a size") {
                let data = CounterData {
                    packet_count: packets,
                    byte_count: packets * 100,
                };
                self.counters.insert((id, index), data);
            }
        }
    }

    /// Moves the viewers of groups 1, 2, ... in the registers, so that each group starts `stride` register cells after
    /// the previous group. Another controller might arrange the viewers in this way.
    pub fn scatter(&mut self, stride: u32) {
        self.drain();
        let ids = ["viewer_ips", "viewer_macs", "viewer_ids"].map(|name| self.register_id(name));
        let groups = self.register_id("groups").expect("a register");
        let old = self.registers.clone();
        let mut slot = 0;
        for group in 1..=65_535 {
            let Some(block) = old
                .get(&(groups, group))
                .copied()
                .filter(|block| *block != 0)
            else {
                continue;
            };
            let (base, len) = ((block >> 32) as u32, block as u32);
            for id in ids.iter().flatten() {
                for idx in 0..len {
                    let value = old.get(&(*id, base + idx)).copied().unwrap_or(0);
                    self.registers.insert((*id, slot + idx), value);
                }
            }
            self.registers
                .insert((groups, group), u64::from(slot) << 32 | u64::from(len));
            slot += stride;
        }
    }

    pub fn is_silent(&self) -> bool {
        self.silent_after.is_some_and(|n| self.log.len() >= n)
    }

    /// Returns the SFU's own addresses: port, IP address and MAC address.
    pub fn own_addresses(&self) -> Vec<(u64, Ipv4Addr, Mac)> {
        let id = self.table_id("own_addresses");
        let entries = self.tables.iter().filter(|((t, _), _)| Some(*t) == id);
        let address = |(_, entry): (_, &TableEntry)| {
            let [port, address] = [0, 1].map(|idx| fields::number(&entry.r#match[idx]));
            (
                port,
                fields::ip(address),
                Mac::from_u64(fields::arg(entry, 0)),
            )
        };
        entries.map(address).collect()
    }

    pub fn n_entries(&self, table: &str) -> usize {
        let id = self.table_id(table);
        self.tables.keys().filter(|(t, _)| Some(*t) == id).count()
    }

    pub fn register(&self, name: &str, index: u32) -> u64 {
        let id = self.register_id(name).expect("a register of the program");
        self.registers.get(&(id, index)).copied().unwrap_or(0)
    }

    pub fn read_entity(&self, wanted: &Entity) -> Result<Vec<Entity>, Refusal> {
        let wrap = |entity| Entity {
            entity: Some(entity),
        };
        match wanted.entity.as_ref().expect("an entity") {
            entity::Entity::TableEntry(wanted) => {
                assert!(wanted.r#match.is_empty(), "only wildcard reads are used");
                let of_table = self
                    .tables
                    .iter()
                    .filter(|((id, _), _)| *id == wanted.table_id);
                let entries = of_table.map(|(_, entry)| {
                    let mut entry = entry.clone();
                    if wanted.counter_data.is_none() {
                        entry.counter_data = None;
                    }
                    wrap(entity::Entity::TableEntry(entry))
                });
                Ok(entries.collect())
            }
            entity::Entity::RegisterEntry(wanted) => {
                let index = index_of(wanted.index.as_ref());
                self.check_index(wanted.register_id, index)?;
                let value = self
                    .registers
                    .get(&(wanted.register_id, index))
                    .copied()
                    .unwrap_or(0);
                let data = p4_data::Data::Bitstring(bytestring::bytes(value));
                let data = Some(p4runtime_proto::p4::v1::P4Data { data: Some(data) });
                Ok(vec![wrap(entity::Entity::RegisterEntry(RegisterEntry {
                    data,
                    ..wanted.clone()
                }))])
            }
            entity::Entity::CounterEntry(wanted) => {
                let index = index_of(wanted.index.as_ref());
                let data = self
                    .counters
                    .get(&(wanted.counter_id, index))
                    .copied()
                    .unwrap_or_default();
                let mut entry = *wanted;
                entry.data = Some(data);
                Ok(vec![wrap(entity::Entity::CounterEntry(entry))])
            }
            entity::Entity::PacketReplicationEngineEntry(wanted) => {
                let types: Vec<PreType> = match wanted.r#type.as_ref().expect("a type") {
                    PreType::MulticastGroupEntry(_) => self
                        .groups
                        .values()
                        .cloned()
                        .map(PreType::MulticastGroupEntry)
                        .collect(),
                    PreType::CloneSessionEntry(_) => self
                        .sessions
                        .values()
                        .cloned()
                        .map(PreType::CloneSessionEntry)
                        .collect(),
                };
                let entries = types.into_iter().map(|entry| {
                    let entry = p4runtime_proto::p4::v1::PacketReplicationEngineEntry {
                        r#type: Some(entry),
                    };
                    wrap(entity::Entity::PacketReplicationEngineEntry(entry))
                });
                Ok(entries.collect())
            }
            other => Err(refuse(Code::Unimplemented, format!("{other:?}"))),
        }
    }

    /// Executes one update. Packets advance before and after the update.
    pub fn update(&mut self, update: &Update) -> Result<(), Refusal> {
        let answer = self.strike()?;
        self.move_packets();
        let kind = update::Type::try_from(update.r#type).expect("a type");
        match update
            .entity
            .as_ref()
            .and_then(|e| e.entity.as_ref())
            .expect("an entity")
        {
            entity::Entity::TableEntry(entry) => self.update_table(kind, entry)?,
            entity::Entity::RegisterEntry(entry) => {
                assert_eq!(kind, update::Type::Modify, "registers are modified");
                let index = index_of(entry.index.as_ref());
                self.check_index(entry.register_id, index)?;
                let Some(p4_data::Data::Bitstring(value)) =
                    entry.data.as_ref().and_then(|d| d.data.as_ref())
                else {
                    return Err(refuse(Code::InvalidArgument, "no bitstring".to_owned()));
                };
                check_canonical(value)?;
                let value = bytestring::number(value).expect("64 bits");
                self.registers.insert((entry.register_id, index), value);
            }
            entity::Entity::CounterEntry(entry) => {
                let index = index_of(entry.index.as_ref());
                self.counters
                    .insert((entry.counter_id, index), entry.data.expect("data"));
            }
            entity::Entity::PacketReplicationEngineEntry(entry) => {
                match entry.r#type.as_ref().expect("a type") {
                    PreType::MulticastGroupEntry(group) => {
                        let instances: std::collections::BTreeSet<u32> =
                            group.replicas.iter().map(|r| r.instance).collect();
                        assert_eq!(instances.len(), group.replicas.len(), "an instance twice");
                        put(kind, &mut self.groups, group.multicast_group_id, group)?;
                    }
                    PreType::CloneSessionEntry(session) => {
                        put(kind, &mut self.sessions, session.session_id, session)?;
                    }
                }
            }
            other => return Err(refuse(Code::Unimplemented, format!("{other:?}"))),
        }
        self.log.push(Some(update.clone()));
        self.move_packets();
        answer
    }

    /// Applies the fault to a call. An outer error means that the call does not arrive. An inner error means that the
    /// call arrives and its answer is lost.
    fn strike(&mut self) -> Result<Result<(), Refusal>, Refusal> {
        let lost = || refuse(Code::Internal, "cut off".to_owned());
        let Some(fault) = &mut self.fault else {
            return Ok(Ok(()));
        };
        match fault.calls_left.checked_sub(1) {
            Some(left) => {
                fault.calls_left = left;
                Ok(Ok(()))
            }
            None if std::mem::take(&mut fault.answer_lost) => Ok(Err(lost())),
            None => Err(lost()),
        }
    }

    /// Processes every packet inside the switch to its end.
    pub fn drain(&mut self) {
        self.log.push(None);
        while !self.packets.is_empty() {
            self.step(0);
        }
    }

    fn update_table(&mut self, kind: update::Type, entry: &TableEntry) -> Result<(), Refusal> {
        let p4info = self.p4info.as_ref().expect("a program");
        let table = p4info
            .tables
            .iter()
            .find(|t| id_of(t.preamble.as_ref()) == entry.table_id);
        let table = table.ok_or_else(|| refuse(Code::NotFound, "no such table".to_owned()))?;
        if table.is_const_table {
            return Err(refuse(Code::PermissionDenied, "const".to_owned()));
        }
        let n = self
            .tables
            .keys()
            .filter(|(id, _)| *id == entry.table_id)
            .count();
        if kind == update::Type::Insert && n as i64 >= table.size {
            return Err(refuse(
                Code::ResourceExhausted,
                "the table is full".to_owned(),
            ));
        }
        for field in &entry.r#match {
            let Some(field_match::FieldMatchType::Exact(exact)) = &field.field_match_type else {
                return Err(refuse(Code::InvalidArgument, "not exact".to_owned()));
            };
            check_canonical(&exact.value)?;
        }
        assert_eq!(entry.r#match.len(), table.match_fields.len(), "a whole key");
        let key = (entry.table_id, key_of(entry));
        let mut new = entry.clone();
        let counter = self.tables.get(&key).and_then(|old| old.counter_data);
        new.counter_data = entry
            .counter_data
            .or(counter)
            .or(Some(CounterData::default()));
        put(kind, &mut self.tables, key, &new)
    }

    fn check_index(&self, register_id: u32, index: u32) -> Result<(), Refusal> {
        let p4info = self.p4info.as_ref().expect("a program");
        let register = p4info
            .registers
            .iter()
            .find(|r| id_of(r.preamble.as_ref()) == register_id);
        let register =
            register.ok_or_else(|| refuse(Code::NotFound, "no such register".to_owned()))?;
        if i64::from(index) >= i64::from(register.size) {
            return Err(refuse(Code::OutOfRange, format!("index {index}")));
        }
        Ok(())
    }

    fn table_id(&self, name: &str) -> Option<u32> {
        let table = table_info(self.p4info.as_ref()?, name).ok()?;
        Some(id_of(table.preamble.as_ref()))
    }

    fn register_id(&self, name: &str) -> Option<u32> {
        let register = Array::register(self.p4info.as_ref()?, name).ok()?;
        Some(register.id())
    }
}

impl Target for FakeSwitch {
    type Error = Refusal;

    async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, Refusal> {
        let mut found = Vec::new();
        for entity in &entities {
            found.extend(self.read_entity(entity)?);
        }
        Ok(found)
    }

    async fn write(&mut self, mut updates: Vec<Update>) -> Result<(), Refusal> {
        self.largest_batch = self.largest_batch.max(updates.len());
        // The batch is shuffled, since a server may reorder a batch.
        if let Some(random) = &mut self.traffic {
            for idx in (1..updates.len()).rev() {
                updates.swap(idx, random.below(idx as u64 + 1) as usize);
            }
        }
        let refused = updates
            .iter()
            .filter_map(|update| self.update(update).err())
            .next();
        refused.map_or(Ok(()), Err)
    }

    async fn drain(&mut self) -> Result<(), Refusal> {
        let answer = self.strike()?;
        FakeSwitch::drain(self);
        answer
    }
}

fn put<K: Ord, V: Clone>(
    kind: update::Type,
    entries: &mut BTreeMap<K, V>,
    key: K,
    value: &V,
) -> Result<(), Refusal> {
    let there = entries.contains_key(&key);
    match kind {
        update::Type::Insert if there => Err(refuse(Code::AlreadyExists, "is there".to_owned())),
        update::Type::Modify | update::Type::Delete if !there => {
            Err(refuse(Code::NotFound, "is not there".to_owned()))
        }
        update::Type::Delete => {
            entries.remove(&key);
            Ok(())
        }
        update::Type::Insert | update::Type::Modify => {
            entries.insert(key, value.clone());
            Ok(())
        }
        update::Type::Unspecified => Err(refuse(Code::InvalidArgument, "no type".to_owned())),
    }
}

fn check_canonical(value: &[u8]) -> Result<(), Refusal> {
    let canonical = matches!(value, [0] | [1..=255, ..]);
    if canonical {
        Ok(())
    } else {
        Err(refuse(Code::InvalidArgument, format!("{value:?}")))
    }
}

fn refuse(code: Code, message: String) -> Refusal {
    Refusal { code, message }
}
