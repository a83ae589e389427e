//! Random control-plane calls, by ids of one program.

use dataplane::{
    ActionCall, ActionProfileId, CloneSession, ControlError, CounterId, CounterValue,
    CrcParameters, KeyField, MatchField, MatchKind, MeterConfig, MeterId, Mirror, MulticastGroup,
    PortId, ProfileGroup, ProfileMember, Program, Queues, RegisterId, Replica, Switch, TableAction,
    TableEntry, TableId, TableInfo, ValueSetId, WeightedCall,
};
use fastrand::Rng;

/// Ports of the switches; frames come in at any of them.
pub const PORTS: u16 = 8;
/// Groups and clone sessions that are set up, and those that programs of the corpus name.
const COPY_IDS: [u32; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 100];
/// Cells that are written are below this one: there the corpus reads.
const CELLS: u64 = 16;

/// The usual maximum of packets in an output queue: few, so that some queues are full.
const QUEUE_DEPTH: usize = 24;

#[derive(Debug, Clone)]
pub enum Write {
    Insert(TableId, TableEntry),
    Modify(TableId, TableEntry),
    Delete(TableId, Vec<MatchField>, i32),
    Default(TableId, Option<TableAction>),
    InsertMember(ActionProfileId, ProfileMember),
    ModifyMember(ActionProfileId, ProfileMember),
    DeleteMember(ActionProfileId, u32),
    InsertGroup(ActionProfileId, ProfileGroup),
    ModifyGroup(ActionProfileId, ProfileGroup),
    DeleteGroup(ActionProfileId, u32),
    Register(RegisterId, u64, Vec<u8>),
    Counter(CounterId, u64, CounterValue),
    Meter(MeterId, u64, Option<MeterConfig>),
    DirectMeter(TableId, Vec<MatchField>, i32, Option<MeterConfig>),
    ValueSet(ValueSetId, Vec<Vec<MatchField>>),
    InsertMulticast(MulticastGroup),
    ModifyMulticast(MulticastGroup),
    DeleteMulticast(u32),
    InsertSession(CloneSession),
    ModifySession(CloneSession),
    DeleteSession(u32),
    Mirror(u32, Mirror),
    QueueDepth(Queues, usize),
    QueueRate(Queues, Option<u64>),
    Crc(String, CrcParameters),
}

impl Write {
    /// Makes the call.
    ///
    /// # Errors
    /// The switch's error.
    pub fn apply(&self, switch: &mut Switch) -> Result<(), ControlError> {
        match self.clone() {
            Write::Insert(table, entry) => switch.insert_entry(table, entry),
            Write::Modify(table, entry) => switch.modify_entry(table, entry),
            Write::Delete(table, key, priority) => switch.delete_entry(table, &key, priority),
            Write::Default(table, action) => switch.set_default_action(table, action),
            Write::InsertMember(profile, member) => switch.insert_member(profile, member),
            Write::ModifyMember(profile, member) => switch.modify_member(profile, member),
            Write::DeleteMember(profile, id) => switch.delete_member(profile, id),
            Write::InsertGroup(profile, group) => switch.insert_group(profile, group),
            Write::ModifyGroup(profile, group) => switch.modify_group(profile, group),
            Write::DeleteGroup(profile, id) => switch.delete_group(profile, id),
            Write::Register(register, index, value) => {
                switch.set_register_cell(register, index, &value)
            }
            Write::Counter(counter, index, value) => switch.set_counter_cell(counter, index, value),
            Write::Meter(meter, index, config) => switch.set_meter_cell(meter, index, config),
            Write::DirectMeter(table, key, priority, config) => {
                switch.set_direct_meter(table, &key, priority, config)
            }
            Write::ValueSet(set, members) => switch.set_value_set(set, members),
            Write::InsertMulticast(group) => switch.insert_multicast_group(group),
            Write::ModifyMulticast(group) => switch.modify_multicast_group(group),
            Write::DeleteMulticast(id) => switch.delete_multicast_group(id),
            Write::InsertSession(session) => switch.insert_clone_session(session),
            Write::ModifySession(session) => switch.modify_clone_session(session),
            Write::DeleteSession(id) => switch.delete_clone_session(id),
            Write::Mirror(id, mirror) => switch.mirror(id, mirror),
            Write::QueueDepth(queues, depth) => switch.set_egress_queue_depth(queues, depth),
            Write::QueueRate(queues, rate) => switch.set_egress_queue_rate(queues, rate),
            Write::Crc(name, parameters) => switch.set_crc_parameters(&name, parameters),
        }
    }
}

/// The calls that bring a switch with a fresh program to this one's state: its entries, default actions, members and
/// groups, without those of the program itself.
pub fn written(switch: &Switch) -> Vec<Write> {
    let Some(program) = switch.program() else {
        return Vec::new();
    };
    let mut writes = Vec::new();
    for (profile, _) in program.action_profiles() {
        let members = switch.members(profile).into_iter();
        writes.extend(members.map(|member| Write::InsertMember(profile, member)));
        let groups = switch.groups(profile).into_iter();
        writes.extend(groups.map(|group| Write::InsertGroup(profile, group)));
    }
    for (table, info) in program.tables() {
        let entries = switch.entries(table).into_iter();
        let entries = entries.filter(|entry| !entry.is_const);
        writes.extend(entries.map(|entry| Write::Insert(table, entry)));
        if !info.is_default_const && !info.is_generated() {
            writes.push(Write::Default(table, switch.default_action(table)));
        }
    }
    writes
}

/// Makes random calls for a program.
pub struct Writer<'a> {
    program: &'a Program,
    rng: &'a mut Rng,
    /// Keys that were used, so that some are used again.
    known: Vec<(TableId, Vec<MatchField>, i32)>,
}

impl<'a> Writer<'a> {
    pub fn new(program: &'a Program, rng: &'a mut Rng) -> Self {
        Self {
            program,
            rng,
            known: Vec::new(),
        }
    }

    /// The generator, for callers that mix calls with packets.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Makes groups and sessions; none names an object of the program.
    pub fn groups_and_sessions(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for id in COPY_IDS {
            let replicas = self.replicas();
            writes.push(Write::InsertMulticast(MulticastGroup {
                id,
                replicas,
                backups: Vec::new(),
            }));
            let session = self.session(id);
            writes.push(Write::InsertSession(session));
        }
        writes
    }

    /// Makes groups, sessions, and entries for every table.
    pub fn set_up(&mut self, entries_per_table: usize) -> Vec<Write> {
        let mut writes = self.groups_and_sessions();
        let profiles: Vec<ActionProfileId> =
            self.program.action_profiles().map(|(id, _)| id).collect();
        for profile in profiles {
            writes.extend((0..6).filter_map(|_| self.profile(profile)));
        }
        let tables: Vec<TableId> = self.tables().map(|(id, _)| id).collect();
        for table in tables {
            let keyless = self.program.table_info(table);
            let keyless = keyless.is_none_or(|info| info.key.is_empty());
            let n_entries = if keyless {
                0
            } else {
                self.rng.usize(..=entries_per_table)
            };
            writes.extend(
                (0..n_entries)
                    .filter_map(|_| self.entry(table).map(|entry| Write::Insert(table, entry))),
            );
            if self.rng.bool()
                && let Some(action) = self.table_action(table, false)
            {
                writes.push(Write::Default(table, Some(action)));
            }
        }
        writes.extend((0..6).map(|_| self.any()));
        writes
    }

    fn tables(&self) -> impl Iterator<Item = (TableId, &'a TableInfo)> + use<'a> {
        let tables = self.program.tables();
        tables.filter(|(_, info)| !info.is_generated() && !info.actions.is_empty())
    }

    pub fn any(&mut self) -> Write {
        for _ in 0..20 {
            let made = match self.rng.u8(..20) {
                0..=9 => self.table(),
                10 | 11 => self.array(),
                12 | 13 => {
                    let profiles = self.program.action_profiles().map(|(id, _)| id);
                    let profiles: Vec<ActionProfileId> = profiles.collect();
                    self.rng.choice(profiles).and_then(|id| self.profile(id))
                }
                14 | 15 => self.value_set(),
                16 => self.crc(),
                _ => Some(self.copies()),
            };
            if let Some(write) = made {
                return write;
            }
        }
        self.copies()
    }

    fn table(&mut self) -> Option<Write> {
        let tables: Vec<TableId> = self.tables().map(|(id, _)| id).collect();
        let table = self.rng.choice(tables)?;
        Some(match self.rng.u8(..10) {
            0 => Write::Default(table, None),
            1 => Write::Default(table, self.table_action(table, false)),
            2 | 3 => {
                let known = self.known.clone();
                let (table, key, priority) = self.rng.choice(known)?;
                Write::Delete(table, key, priority)
            }
            4 | 5 => {
                let known = self.known.clone();
                let (table, key, priority) = self.rng.choice(known)?;
                let action = self.table_action(table, true)?;
                Write::Modify(table, TableEntry::new(key, priority, action))
            }
            6 => {
                let known = self.known.clone();
                let (table, key, priority) = self.rng.choice(known)?;
                Write::DirectMeter(table, key, priority, self.meter_config())
            }
            _ => Write::Insert(table, self.entry(table)?),
        })
    }

    fn entry(&mut self, table: TableId) -> Option<TableEntry> {
        let info = self.program.table_info(table)?;
        let (key, priority) = self.key(info);
        self.known.push((table, key.clone(), priority));
        let action = self.table_action(table, true)?;
        let mut entry = TableEntry::new(key, priority, action);
        if info.has_idle_timeout && self.rng.bool() {
            entry.idle_timeout_ns = self.rng.u64(1..10_000_000);
        }
        if info.with_meters && self.rng.bool() {
            entry.meter = self.meter_config();
        }
        Some(entry)
    }

    /// A key of a table, and its priority.
    pub fn key(&mut self, info: &TableInfo) -> (Vec<MatchField>, i32) {
        let key = info.key.iter().map(|field| self.matching(field)).collect();
        let priority = if info.has_priority() {
            self.rng.i32(1..9)
        } else {
            0
        };
        (key, priority)
    }

    /// A call of one of a table's actions; `None` if it has none.
    pub fn call(&mut self, info: &TableInfo) -> Option<ActionCall> {
        let action = *self.rng.choice(&info.actions)?;
        let params = &self.program.action_info(action)?.params;
        let args = params.iter().map(|param| self.value(param.width_bits));
        Some(ActionCall {
            action,
            args: args.collect(),
        })
    }

    fn table_action(&mut self, table: TableId, is_entry: bool) -> Option<TableAction> {
        let info = self.program.table_info(table)?;
        if info.action_profile.is_none() || !is_entry {
            return Some(self.call(info)?.into());
        }
        let choice = self.rng.u8(..4);
        Some(match (info.has_selector, choice) {
            (true, 0) => {
                let n_calls = self.rng.usize(1..4);
                let calls = (0..n_calls).filter_map(|_| {
                    Some(WeightedCall {
                        call: self.call(info)?,
                        weight: self.rng.u32(1..4),
                        watch: None,
                    })
                });
                TableAction::OneShot(calls.collect())
            }
            (true, 1 | 2) => TableAction::Group(self.rng.u32(1..4)),
            _ => TableAction::Member(self.rng.u32(1..6)),
        })
    }

    fn profile(&mut self, profile: ActionProfileId) -> Option<Write> {
        let mut tables = self.tables();
        let info =
            tables.find_map(|(_, info)| (info.action_profile == Some(profile)).then_some(info))?;
        let id = self.rng.u32(1..6);
        let choice = self.rng.u8(..9);
        if info.has_selector && choice > 4 {
            let n_members = self.rng.usize(..4);
            let members = (0..n_members).map(|_| (self.rng.u32(1..6), self.rng.u32(1..4)));
            let group = ProfileGroup {
                id: id.min(3),
                max_size: 0,
                members: members.collect(),
                counts_members: false,
                watched: Vec::new(),
            };
            return Some(match choice {
                5 => Write::DeleteGroup(profile, id),
                6 => Write::ModifyGroup(profile, group),
                _ => Write::InsertGroup(profile, group),
            });
        }
        let action = self.call(info)?;
        let member = ProfileMember { id, action };
        Some(match choice {
            0 => Write::DeleteMember(profile, id),
            1 => Write::ModifyMember(profile, member),
            _ => Write::InsertMember(profile, member),
        })
    }

    fn array(&mut self) -> Option<Write> {
        let ir = self.program.ir();
        let index = self.rng.u64(..CELLS);
        match self.rng.u8(..3) {
            0 => {
                let arrays: Vec<_> = ir.registers.iter().collect();
                let array = self.rng.choice(arrays)?;
                let register = self.program.register(&array.name)?;
                Some(Write::Register(register, index, self.value(array.bits)))
            }
            1 => {
                let arrays: Vec<_> = ir.counters.iter().collect();
                let array = self.rng.choice(arrays)?;
                let counter = self.program.counter(&array.name)?;
                let (packets, bytes) = (self.rng.u64(..9), self.rng.u64(..));
                Some(Write::Counter(
                    counter,
                    index,
                    CounterValue { packets, bytes },
                ))
            }
            _ => {
                let meters: Vec<MeterId> = self.program.meters().map(|(id, _)| id).collect();
                let meter = self.rng.choice(meters)?;
                Some(Write::Meter(meter, index, self.meter_config()))
            }
        }
    }

    fn meter_config(&mut self) -> Option<MeterConfig> {
        let committed_rate = self.rng.u64(1..5_000);
        let committed_burst = self.rng.u64(1..300);
        self.rng.bool().then(|| MeterConfig {
            committed_rate,
            committed_burst,
            peak_rate: committed_rate * 2,
            peak_burst: committed_burst + 50,
            excess_burst: 0,
        })
    }

    fn value_set(&mut self) -> Option<Write> {
        let sets: Vec<ValueSetId> = self.program.value_sets().map(|(id, _)| id).collect();
        let set = self.rng.choice(sets)?;
        let n_members = self.rng.usize(..4);
        let mut members = Vec::new();
        for _ in 0..n_members {
            let parts = self.program.value_set_parts(set).iter();
            let parts = parts.map(|bits| {
                if self.rng.bool() {
                    MatchField::Exact(self.value(*bits))
                } else {
                    self.masked(*bits)
                }
            });
            members.push(parts.collect());
        }
        Some(Write::ValueSet(set, members))
    }

    fn crc(&mut self) -> Option<Write> {
        let calculations = self.program.ir().calculations.iter();
        let names: Vec<&String> = calculations.map(|it| &it.name).collect();
        let name = self.rng.choice(names)?.clone();
        let parameters = CrcParameters {
            polynomial: self.rng.u64(..256),
            initial: self.rng.u64(..256),
            xor_out: self.rng.u64(..256),
            reflect_in: self.rng.bool(),
            reflect_out: self.rng.bool(),
        };
        Some(Write::Crc(name, parameters))
    }

    fn copies(&mut self) -> Write {
        let id = COPY_IDS[self.rng.usize(..COPY_IDS.len())];
        match self.rng.u8(..10) {
            8 => Write::Mirror(id, self.mirror()),
            9 => self.queues(),
            0 => Write::DeleteSession(id),
            1 => Write::InsertSession(self.session(id)),
            2..=4 => Write::ModifySession(self.session(id)),
            _ => Write::ModifyMulticast(MulticastGroup {
                id,
                replicas: self.replicas(),
                backups: Vec::new(),
            }),
        }
    }

    fn mirror(&mut self) -> Mirror {
        let group = COPY_IDS[self.rng.usize(..COPY_IDS.len())];
        Mirror {
            port: self.rng.bool().then(|| PortId(self.rng.u16(..PORTS))),
            group: (self.rng.u8(..4) > 0).then_some(group),
        }
    }

    /// Mostly sets the usual values, so that frames find empty queues as often as before.
    fn queues(&mut self) -> Write {
        let port = (self.rng.u8(..4) > 0).then(|| PortId(self.rng.u16(..PORTS)));
        let queue = self.rng.bool().then(|| self.rng.usize(..3));
        let queues = Queues { port, queue };
        match self.rng.u8(..8) {
            0 => Write::QueueDepth(queues, self.rng.usize(..4)),
            1 => Write::QueueRate(queues, Some(1_000_000)),
            2..=4 => Write::QueueDepth(Queues::default(), QUEUE_DEPTH),
            _ => Write::QueueRate(Queues::default(), None),
        }
    }

    fn session(&mut self, id: u32) -> CloneSession {
        CloneSession {
            id,
            replicas: self.replicas(),
            truncate_bytes: (self.rng.u8(..4) == 0).then(|| self.rng.u32(1..80)),
            class_of_service: u32::from(self.rng.u8(..8).saturating_sub(5)),
        }
    }

    fn replicas(&mut self) -> Vec<Replica> {
        let n_replicas = self.rng.u16(..6);
        (0..n_replicas)
            .map(|instance| Replica {
                port: PortId(self.rng.u16(..PORTS)),
                instance,
            })
            .collect()
    }

    /// Bits as bytes: often a small number or all ones, so that keys and values coincide.
    fn value(&mut self, bits: u32) -> Vec<u8> {
        let mut bytes = vec![0; bits.div_ceil(8).max(1) as usize];
        match self.rng.u8(..6) {
            0 => bytes.fill_with(|| self.rng.u8(..)),
            1 => bytes.fill(0xff),
            _ => {
                if let Some(last) = bytes.last_mut() {
                    *last = self.rng.u8(..8);
                }
            }
        }
        if let Some(first) = bytes.first_mut()
            && !bits.is_multiple_of(8)
        {
            *first &= (1 << (bits % 8)) - 1;
        }
        bytes
    }

    fn masked(&mut self, bits: u32) -> MatchField {
        let (value, mask) = (self.value(bits), self.value(bits));
        let value = value.iter().zip(&mask).map(|(a, b)| a & b).collect();
        MatchField::Ternary { value, mask }
    }

    fn matching(&mut self, field: &KeyField) -> MatchField {
        let bits = field.width_bits;
        match field.kind {
            MatchKind::Exact => MatchField::Exact(self.value(bits)),
            MatchKind::Lpm => {
                let mut value = self.value(bits);
                let prefix_len = self.rng.u32(..=bits);
                let unused = value.len() * 8 - bits as usize;
                for bit in unused + prefix_len as usize..value.len() * 8 {
                    value[bit / 8] &= !(0x80 >> (bit % 8));
                }
                MatchField::Lpm { value, prefix_len }
            }
            MatchKind::Ternary => self.masked(bits),
            MatchKind::Range => {
                let (one, other) = (self.value(bits), self.value(bits));
                let (low, high) = if field.is_ascending(&one, &other) {
                    (one, other)
                } else {
                    (other, one)
                };
                MatchField::Range { low, high }
            }
            MatchKind::Optional => MatchField::Optional(self.rng.bool().then(|| self.value(bits))),
        }
    }
}
