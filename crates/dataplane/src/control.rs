//! What a control plane reads and writes: the data that P4Runtime's entities become.
//!
//! Values are big endian byte strings of any length whose value fits the width; what the switch
//! gives back is canonical (no leading zero byte, at least one byte), as P4Runtime 1.4 asks in
//! section 8.4. Not here: protobuf messages, P4Info ids.

use thiserror::Error;

use crate::{
    CounterId, PortId, Program, RegisterId, TableId,
    match_action::{self, Call, EntryIndex, Table},
    program::{ActionId, ActionInfo, TableInfo, ir::Matcher},
    switch::{Loaded, Switch},
    value,
};

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// One match a key field, in the key's order.
    pub key: Vec<MatchField>,
    /// The numerically higher wins; 0 where the table has no ternary, range or optional field.
    pub priority: i32,
    /// What a hit runs.
    pub action: ActionCall,
    /// Fixed by the program; ignored on writing.
    pub is_const: bool,
    /// The direct counter; zero where the table has none.
    pub counter: CounterValue,
}

/// What one field of an entry's key matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MatchField {
    /// This value.
    Exact(Vec<u8>),
    /// The leading `prefix_len` bits; 0 matches everything.
    Lpm {
        /// The prefix; bits after it are zero.
        value: Vec<u8>,
        /// How many leading bits count.
        prefix_len: u32,
    },
    /// A value under a mask; a zero mask matches everything.
    Ternary {
        /// The value; zero where the mask is.
        value: Vec<u8>,
        /// The bits that count.
        mask: Vec<u8>,
    },
    /// A closed interval.
    Range {
        /// The first value.
        low: Vec<u8>,
        /// The last value.
        high: Vec<u8>,
    },
    /// This value, or anything.
    Optional(Option<Vec<u8>>),
}

/// An action and its arguments, one byte string a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// The arguments in the parameters' order.
    pub args: Vec<Vec<u8>>,
}

/// A counter cell; packets and bytes are always both counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes, as the packet was when it entered the control.
    pub bytes: u64,
}

/// One copy that a multicast group or clone session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Where the copy goes.
    pub port: PortId,
    /// What the copy finds in `egress_rid`.
    pub instance: u16,
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastGroup {
    /// What the program writes to `mcast_grp`; from 1.
    pub id: u32,
    /// The copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
}

/// A clone session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSession {
    /// What the program gives to `clone`.
    pub id: u32,
    /// The copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
    /// Clones are cut to so many bytes on leaving; none leaves them whole.
    pub truncate_bytes: Option<u32>,
    /// Queue of the clone at its port.
    pub class_of_service: u32,
}

/// Why a control-plane call was refused; the switch is as it was before the call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ControlError {
    /// The kind; maps one to one to a canonical gRPC code.
    pub kind: ControlErrorKind,
    /// What was expected, what came, and of which object.
    pub message: String,
}

impl ControlError {
    /// An error of a kind with its message.
    pub fn new(kind: ControlErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The kinds of [`ControlError`], named as gRPC names its codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlErrorKind {
    /// No such entity.
    NotFound,
    /// The entity is there already.
    AlreadyExists,
    /// Badly formed, whatever the state.
    InvalidArgument,
    /// An index beyond the end.
    OutOfRange,
    /// Full.
    ResourceExhausted,
    /// Fixed by the program.
    PermissionDenied,
    /// Not in this state, for example without a program.
    FailedPrecondition,
    /// Not supported.
    Unimplemented,
}

type Controlled<T = ()> = Result<T, ControlError>;

fn error<T>(kind: ControlErrorKind, message: impl Into<String>) -> Controlled<T> {
    Err(ControlError::new(kind, message))
}

fn no_program() -> ControlError {
    ControlError::new(ControlErrorKind::FailedPrecondition, "no program is loaded")
}

/// A table with what is known of it.
struct Target<'a> {
    info: &'a TableInfo,
    actions: &'a [ActionInfo],
    table: &'a mut Table,
}

impl Target<'_> {
    /// An entry's key and priority, checked.
    fn key(&self, key: &[MatchField], priority: i32) -> Controlled<Vec<Matcher>> {
        let name = &self.info.name;
        if self.info.has_priority() && priority <= 0 {
            let message = format!("table \"{name}\": expected a priority above 0, found {priority}");
            return error(ControlErrorKind::InvalidArgument, message);
        }
        if !self.info.has_priority() && priority != 0 {
            let message = format!("table \"{name}\" has no priorities, found {priority}");
            return error(ControlErrorKind::InvalidArgument, message);
        }
        if self.info.key.is_empty() {
            let message = format!("table \"{name}\" has no key, so it has no entries");
            return error(ControlErrorKind::InvalidArgument, message);
        }
        match_action::to_key(self.info, key)
    }

    fn writable(&self) -> Controlled {
        if self.info.is_const {
            let message = format!("table \"{}\": the program fixes its entries", self.info.name);
            return error(ControlErrorKind::PermissionDenied, message);
        }
        Ok(())
    }

    fn counted(&self) -> Controlled {
        if self.info.with_counters {
            return Ok(());
        }
        let message = format!("table \"{}\" has no direct counter", self.info.name);
        error(ControlErrorKind::FailedPrecondition, message)
    }

    fn call(&self, call: &ActionCall) -> Controlled<Call> {
        match_action::to_call(self.info, self.actions, call)
    }

    fn find(&self, key: &[MatchField], priority: i32) -> Controlled<EntryIndex> {
        let key = self.key(key, priority)?;
        self.table.find(&key, priority).ok_or_else(|| self.table.not_found(self.info))
    }
}

/// What P4Runtime calls. Each call is atomic and takes effect between two passes.
impl Switch {
    fn loaded(&self) -> Controlled<&Loaded> {
        self.loaded.as_deref().ok_or_else(no_program)
    }

    fn loaded_mut(&mut self) -> Controlled<&mut Loaded> {
        self.loaded.as_deref_mut().ok_or_else(no_program)
    }

    fn target(&mut self, id: TableId) -> Controlled<Target<'_>> {
        let Loaded { program, tables, .. } = self.loaded_mut()?;
        let Program { tables: infos, actions, .. } = program;
        match (infos.get(id.index()), tables.table_mut(id)) {
            (Some(info), Some(table)) => Ok(Target { info, actions, table }),
            _ => error(ControlErrorKind::NotFound, format!("no table {}", id.index())),
        }
    }

    fn table_view(&self, id: TableId) -> Option<(&TableInfo, &[ActionInfo], &Table)> {
        let loaded = self.loaded.as_deref()?;
        let info = loaded.program.tables.get(id.index())?;
        Some((info, &loaded.program.actions, loaded.tables.table(id)?))
    }

    /// Adds an entry. Its direct counter starts with the value given.
    ///
    /// # Errors
    /// `InvalidArgument` where key, priority, action or arguments do not fit the table,
    /// `AlreadyExists`, `ResourceExhausted`, `PermissionDenied` where the program fixes the
    /// entries, `NotFound` for the table.
    pub fn insert_entry(&mut self, table: TableId, entry: TableEntry) -> Controlled {
        let target = self.target(table)?;
        target.writable()?;
        let key = target.key(&entry.key, entry.priority)?;
        let call = target.call(&entry.action)?;
        target.table.insert(target.info, key, entry.priority, call, entry.counter)
    }

    /// Replaces the action of an entry; its direct counter goes on.
    ///
    /// # Errors
    /// As [`Switch::insert_entry`], and `NotFound` for the entry.
    pub fn modify_entry(&mut self, table: TableId, entry: TableEntry) -> Controlled {
        let target = self.target(table)?;
        target.writable()?;
        let key = target.key(&entry.key, entry.priority)?;
        let call = target.call(&entry.action)?;
        target.table.modify(target.info, &key, entry.priority, call)
    }

    /// Takes an entry away.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `PermissionDenied` where the program fixes the entries.
    pub fn delete_entry(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled {
        let target = self.target(table)?;
        target.writable()?;
        let key = target.key(key, priority)?;
        target.table.delete(target.info, &key, priority)
    }

    /// Every entry, those that the program fixes too; none of a table that is not there.
    pub fn entries(&self, table: TableId) -> Vec<TableEntry> {
        let view = self.table_view(table);
        view.map_or_else(Vec::new, |(info, actions, table)| table.entries(info, actions))
    }

    /// How many entries there are.
    pub fn entry_count(&self, table: TableId) -> usize {
        self.table_view(table).map_or(0, |(_, _, table)| table.len())
    }

    /// One entry.
    pub fn entry(&self, table: TableId, key: &[MatchField], priority: i32) -> Option<TableEntry> {
        let (info, actions, table) = self.table_view(table)?;
        let key = match_action::to_key(info, key).ok()?;
        table.entry(info, actions, table.find(&key, priority)?)
    }

    /// Sets what a miss runs; none goes back to the program's default action.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `PermissionDenied` where the program fixes it.
    pub fn set_default_action(&mut self, table: TableId, action: Option<ActionCall>) -> Controlled {
        let target = self.target(table)?;
        if target.info.is_default_const {
            let name = &target.info.name;
            let message = format!("table \"{name}\": the program fixes the default action");
            return error(ControlErrorKind::PermissionDenied, message);
        }
        let call = match &action {
            Some(action) => Some(target.call(action)?),
            None => None,
        };
        target.table.set_default(call);
        Ok(())
    }

    /// What a miss runs.
    pub fn default_action(&self, table: TableId) -> Option<ActionCall> {
        let (_, actions, table) = self.table_view(table)?;
        let call = table.default_call()?;
        Some(call.to_control(actions.get(call.action.index())?))
    }

    /// The direct counter of an entry.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `FailedPrecondition` where the table has no counters.
    pub fn direct_counter(
        &self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled<CounterValue> {
        self.loaded()?;
        let Some((info, _, state)) = self.table_view(table) else {
            return error(ControlErrorKind::NotFound, format!("no table {}", table.index()));
        };
        if !info.with_counters {
            let message = format!("table \"{}\" has no direct counter", info.name);
            return error(ControlErrorKind::FailedPrecondition, message);
        }
        match_action::to_key(info, key)?;
        match self.entry(table, key, priority) {
            Some(entry) => Ok(entry.counter),
            None => Err(state.not_found(info)),
        }
    }

    /// Writes the direct counter of an entry.
    ///
    /// # Errors
    /// As [`Switch::direct_counter`].
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
        value: CounterValue,
    ) -> Controlled {
        let target = self.target(table)?;
        target.counted()?;
        let entry = target.find(key, priority)?;
        if let Some(counter) = target.table.counter_mut(entry) {
            *counter = value;
        }
        Ok(())
    }

    /// A cell of a counter array.
    ///
    /// # Errors
    /// `NotFound` for the array, `OutOfRange` for the index.
    pub fn counter_cell(&self, counter: CounterId, index: u64) -> Controlled<CounterValue> {
        let cells = self.loaded()?.externs.counters.cells(counter);
        let Some(cells) = cells else {
            return error(ControlErrorKind::NotFound, format!("no counter {}", counter.index()));
        };
        match usize::try_from(index).ok().and_then(|index| cells.get(index)) {
            Some(cell) => Ok(*cell),
            None => beyond("counter", index, cells.len()),
        }
    }

    /// Writes a cell of a counter array.
    ///
    /// # Errors
    /// As [`Switch::counter_cell`].
    pub fn set_counter_cell(
        &mut self,
        counter: CounterId,
        index: u64,
        value: CounterValue,
    ) -> Controlled {
        self.counter_cell(counter, index)?;
        let counters = &mut self.loaded_mut()?.externs.counters;
        let cell = usize::try_from(index).ok().and_then(|i| counters.cell_mut(counter, i));
        if let Some(cell) = cell {
            *cell = value;
        }
        Ok(())
    }

    /// Cells of a counter array; 0 where there is none.
    pub fn counter_size(&self, counter: CounterId) -> u64 {
        let loaded = self.loaded.as_deref();
        let cells = loaded.and_then(|loaded| loaded.externs.counters.cells(counter));
        cells.map_or(0, |cells| cells.len() as u64)
    }

    /// A cell of a register array.
    ///
    /// # Errors
    /// `NotFound` for the array, `OutOfRange` for the index.
    pub fn register_cell(&self, register: RegisterId, index: u64) -> Controlled<Vec<u8>> {
        let registers = &self.loaded()?.externs.registers;
        let Some((cells, bits)) = registers.shape(register) else {
            return error(ControlErrorKind::NotFound, format!("no register {}", register.index()));
        };
        let cell = usize::try_from(index).ok().and_then(|i| registers.get(register, i));
        match cell {
            Some(cell) => Ok(value::to_canonical_bytes(&cell, bits)),
            None => beyond("register", index, cells),
        }
    }

    /// Writes a cell of a register array.
    ///
    /// # Errors
    /// As [`Switch::register_cell`], and `InvalidArgument` where the value does not fit.
    pub fn set_register_cell(
        &mut self,
        register: RegisterId,
        index: u64,
        value: &[u8],
    ) -> Controlled {
        self.register_cell(register, index)?;
        let bits = self.register_width_bits(register);
        let name = format!("register {}", register.index());
        let number = match_action::number(&name, value, bits)?;
        if let Ok(index) = usize::try_from(index) {
            self.loaded_mut()?.externs.registers.set(register, index, number);
        }
        Ok(())
    }

    /// Cells of a register array; 0 where there is none.
    pub fn register_size(&self, register: RegisterId) -> u64 {
        let loaded = self.loaded.as_deref();
        let shape = loaded.and_then(|loaded| loaded.externs.registers.shape(register));
        shape.map_or(0, |(cells, _)| cells as u64)
    }

    /// Bits of a cell of a register array; 0 where there is none.
    pub fn register_width_bits(&self, register: RegisterId) -> u32 {
        let loaded = self.loaded.as_deref();
        let shape = loaded.and_then(|loaded| loaded.externs.registers.shape(register));
        shape.map_or(0, |(_, bits)| bits)
    }

    /// Adds a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_clone_session(&mut self, session: CloneSession) -> Controlled {
        self.loaded()?;
        self.traffic.sessions.insert(session)
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_clone_session(&mut self, session: CloneSession) -> Controlled {
        self.loaded()?;
        self.traffic.sessions.modify(session)
    }

    /// Takes a clone session away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_clone_session(&mut self, id: u32) -> Controlled {
        self.loaded()?;
        self.traffic.sessions.delete(id)
    }

    /// Every clone session, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        self.traffic.sessions.all()
    }

    /// Adds a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn insert_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.loaded()?;
        self.traffic.groups.insert(group)
    }

    /// Replaces the replicas of a multicast group.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn modify_multicast_group(&mut self, group: MulticastGroup) -> Controlled {
        self.loaded()?;
        self.traffic.groups.modify(group)
    }

    /// Takes a multicast group away.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Controlled {
        self.loaded()?;
        self.traffic.groups.delete(id)
    }

    /// Every multicast group, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        self.traffic.groups.all()
    }
}

fn beyond<T>(what: &str, index: u64, cells: usize) -> Controlled<T> {
    let message = format!("{what}: index {index} of {cells} cells");
    error(ControlErrorKind::OutOfRange, message)
}
