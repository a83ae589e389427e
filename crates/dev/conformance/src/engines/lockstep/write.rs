//! Makes random control-plane calls for the objects of one program.

use control::{
    CellValue, ClientData, EntryChange, EntryKey, EntryUpdate, NewAction, Operation, Update,
};
use dataplane::{
    ActionCall, ActionProfileId, CloneSession, ControlError, CounterValue, CrcParameters, KeyField,
    MatchField, MatchKind, MeterConfig, MeterId, Mirror, MulticastGroup, PortId, ProfileGroup,
    ProfileMember, Program, Queues, Replica, Switch, TableAction, TableEntry, TableId, TableInfo,
    ValueSetId, WeightedCall,
};
use fastrand::Rng;

/// Number of ports of a switch. Frames arrive at any of these ports.
pub const PORTS: u16 = 8;
/// Ids of the groups and clone sessions that are set up. The programs of the corpus (the repository's test programs)
/// use these ids too.
const COPY_IDS: [u32; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 100];
/// Only cells with an index below this number are written, because the corpus's programs read these cells.
const CELLS: u64 = 16;

/// The usual maximum number of packets in an output queue. The number is small, so that some queues are full.
const QUEUE_DEPTH: usize = 24;

#[derive(Debug, Clone)]
pub enum Write {
    Operation(Box<Operation>),
    QueueDepth(Queues, usize),
    QueueRate(Queues, Option<u64>),
}

impl Write {
    pub fn of(operation: impl Into<Operation>) -> Self {
        Self::Operation(Box::new(operation.into()))
    }

    /// Makes the call.
    ///
    /// # Errors
    /// The switch refuses the call.
    pub fn apply(&self, switch: &mut Switch) -> Result<(), ControlError> {
        match self {
            Self::Operation(operation) => operation.apply(switch),
            Self::QueueDepth(queues, depth) => switch.set_egress_queue_depth(*queues, *depth),
            Self::QueueRate(queues, rate) => switch.set_egress_queue_rate(*queues, *rate),
        }
    }
}

fn insert(table: TableId, entry: TableEntry) -> Write {
    Write::of(Operation::Entry(EntryUpdate::Insert {
        table,
        entry,
        client_data: ClientData::default(),
    }))
}

fn modify(key: EntryKey, change: EntryChange) -> Write {
    Write::of(Operation::Entry(EntryUpdate::Modify(key, change)))
}

fn set_default(table: TableId, action: Option<TableAction>) -> Write {
    Write::of(Operation::DefaultAction {
        table,
        action,
        client_data: ClientData::default(),
    })
}

/// Returns the calls that bring a switch with a newly loaded program to the state of this switch. The calls write
/// entries, default actions, and members and groups of action profiles, except what the program itself contains.
pub fn written(switch: &Switch) -> Vec<Write> {
    let Some(program) = switch.program() else {
        return Vec::new();
    };
    let mut writes = Vec::new();
    for (profile, _) in program.action_profiles() {
        let members = switch.members(profile).into_iter().map(Update::Insert);
        writes.extend(members.map(|it| Write::of(Operation::Member(profile, it))));
        let groups = switch.groups(profile).into_iter().map(Update::Insert);
        writes.extend(groups.map(|it| Write::of(Operation::ProfileGroup(profile, it))));
    }
    for (table, info) in program.tables() {
        let entries = switch.entries(table).into_iter();
        let entries = entries.filter(|entry| !entry.is_const);
        writes.extend(entries.map(|entry| insert(table, entry)));
        if !info.is_default_const && !info.is_generated() {
            writes.push(set_default(table, switch.default_action(table)));
        }
    }
    writes
}

/// Makes random calls for a program.
pub struct Writer<'a> {
    program: &'a Program,
    rng: &'a mut Rng,
    /// Keys that were already used. Some calls use these keys again.
    known: Vec<EntryKey>,
}

impl<'a> Writer<'a> {
    pub fn new(program: &'a Program, rng: &'a mut Rng) -> Self {
        Self {
            program,
            rng,
            known: Vec::new(),
        }
    }

    /// Returns the random number generator, for callers that mix calls with packets.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Makes calls that set groups and clone sessions. These calls do not depend on the program.
    pub fn groups_and_sessions(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for id in COPY_IDS {
            writes.push(Write::of(Update::Insert(self.group(id))));
            writes.push(Write::of(Update::Insert(self.session(id))));
        }
        writes
    }

    /// Makes calls that set groups, clone sessions, and entries for every table.
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
            writes.extend((0..n_entries).filter_map(|_| Some(insert(table, self.entry(table)?))));
            if self.rng.bool()
                && let Some(action) = self.table_action(table, false)
            {
                writes.push(set_default(table, Some(action)));
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
            0 => set_default(table, None),
            1 => set_default(table, self.table_action(table, false)),
            2 | 3 => Write::of(Operation::Entry(EntryUpdate::Delete(self.known()?))),
            4 | 5 => {
                let key = self.known()?;
                let new = NewAction {
                    action: self.table_action(key.table, true)?,
                    idle_timeout_ns: 0,
                    client_data: ClientData::default(),
                };
                let action = Some(new);
                modify(
                    key,
                    EntryChange {
                        action,
                        ..EntryChange::default()
                    },
                )
            }
            6 => {
                let key = self.known()?;
                let meter = Some(self.meter_config());
                modify(
                    key,
                    EntryChange {
                        meter,
                        ..EntryChange::default()
                    },
                )
            }
            _ => insert(table, self.entry(table)?),
        })
    }

    /// Returns a key that was already used.
    fn known(&mut self) -> Option<EntryKey> {
        self.rng.choice(&self.known).cloned()
    }

    fn entry(&mut self, table: TableId) -> Option<TableEntry> {
        let info = self.program.table_info(table)?;
        let (key, priority) = self.key(info);
        self.known.push(EntryKey {
            table,
            key: key.clone(),
            priority,
        });
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

    /// Makes a key of a table, and its priority.
    pub fn key(&mut self, info: &TableInfo) -> (Vec<MatchField>, i32) {
        let key = info.key.iter().map(|field| self.matching(field)).collect();
        let priority = if info.has_priority() {
            self.rng.i32(1..9)
        } else {
            0
        };
        (key, priority)
    }

    /// Makes a call of one of a table's actions. Returns `None` if the table has no actions.
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
            let update = match choice {
                5 => Update::Delete(id),
                6 => Update::Modify(group),
                _ => Update::Insert(group),
            };
            return Some(Write::of(Operation::ProfileGroup(profile, update)));
        }
        let action = self.call(info)?;
        let member = ProfileMember { id, action };
        let update = match choice {
            0 => Update::Delete(id),
            1 => Update::Modify(member),
            _ => Update::Insert(member),
        };
        Some(Write::of(Operation::Member(profile, update)))
    }

    fn array(&mut self) -> Option<Write> {
        let ir = self.program.ir();
        let index = self.rng.u64(..CELLS);
        let value = match self.rng.u8(..3) {
            0 => {
                let array = self.rng.choice(&ir.registers)?;
                let register = self.program.register(&array.name)?;
                CellValue::Register(register, self.value(array.bits))
            }
            1 => {
                let array = self.rng.choice(&ir.counters)?;
                let counter = self.program.counter(&array.name)?;
                let (packets, bytes) = (self.rng.u64(..9), self.rng.u64(..));
                CellValue::Counter(counter, CounterValue { packets, bytes })
            }
            _ => {
                let meters: Vec<MeterId> = self.program.meters().map(|(id, _)| id).collect();
                let meter = self.rng.choice(meters)?;
                CellValue::Meter(meter, self.meter_config())
            }
        };
        Some(Write::of(Operation::Cells(value, index..index + 1)))
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
        Some(Write::of(Operation::ValueSet(set, members)))
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
        Some(Write::of(Operation::Crc(name, parameters)))
    }

    fn copies(&mut self) -> Write {
        let id = COPY_IDS[self.rng.usize(..COPY_IDS.len())];
        match self.rng.u8(..10) {
            8 => Write::of(Operation::Mirror(id, self.mirror())),
            9 => self.queues(),
            0 => Write::of(Update::<CloneSession>::Delete(id)),
            1 => Write::of(Update::Insert(self.session(id))),
            2..=4 => Write::of(Update::Modify(self.session(id))),
            _ => Write::of(Update::Modify(self.group(id))),
        }
    }

    fn mirror(&mut self) -> Mirror {
        let group = COPY_IDS[self.rng.usize(..COPY_IDS.len())];
        Mirror {
            port: self.rng.bool().then(|| PortId(self.rng.u16(..PORTS))),
            group: (self.rng.u8(..4) > 0).then_some(group),
        }
    }

    /// Makes a call that sets a queue's length and rate. Most calls set the usual values, so that frames still often
    /// find empty queues.
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

    fn group(&mut self, id: u32) -> MulticastGroup {
        MulticastGroup {
            id,
            replicas: self.replicas(),
            backups: Vec::new(),
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

    /// Makes a value of `bits` bits, as bytes, often a small number or all ones, so that packets often match keys.
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
