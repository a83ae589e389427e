//! Translates control-plane changes into ops, which are the parts of the writer's next commit. Gives each entry a body
//! ([`crate::image::Body`]), the memory where the kernel finds the entry's action. The translation runs within the
//! control call; the writer's thread does the work that takes time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use dataplane::engine::ir::Matcher;
use dataplane::engine::{Change, EntryAction, EntryIndex, State, TableChange};
use dataplane::offload::Written;
use dataplane::{MeterId, PortId, Program, TableId};

use super::messages::{Failure, Freed, Interface, Message, Op, TableRef};
use super::table::TableOp;
use crate::image::{ACTION_NONE, ACTION_PUNT, EncodedKey, Image, Index, MeterLayout, TableLayout};

/// How long a control call waits for a body that packets may still see. The time suffices for two grace periods and the
/// writer's other work.
const BODY_TIMEOUT: Duration = Duration::from_millis(200);

/// The body of the default action.
const DEFAULT_BODY: u32 = 0;

/// Assigns a table's bodies to entries.
#[derive(Debug)]
struct Bodies {
    layout: TableLayout,
    /// The free bodies, by index. The lowest one is assigned first.
    free: BTreeSet<u32>,
    /// The index of the body of each entry of the table, or of each group. The key is the entry's index, or the group's
    /// number.
    of: HashMap<usize, u32>,
    /// The reverse of `of`: the key of each body that is in use.
    owners: HashMap<u32, usize>,
    /// Entries removed in this commit, with their bodies: a new entry with the same key takes over the body.
    removed: HashMap<EncodedKey, u32>,
    /// The number of entries inserted so far. An entry's rank is computed from this number, so that of two entries with
    /// the same priority the older one has the greater rank.
    n_entries: u32,
    /// Whether the older of two matching entries wins if their priorities are equal. This is so in a ternary table.
    has_age: bool,
    /// Number of bodies whose entries' removal was committed, but which are not free yet.
    n_awaited: usize,
    /// Number of entries for each mask of a ternary table.
    masks: HashMap<Vec<u8>, usize>,
}

impl From<Failure> for ChangeError {
    fn from(failure: Failure) -> ChangeError {
        match failure.table {
            Some(table) => ChangeError::Table(table, failure.reason),
            None => ChangeError::Failed(failure.reason),
        }
    }
}

/// Why the kernel cannot take a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeError {
    /// Packets that reach this table of the program must be punted.
    Table(usize, String),
    /// The table is full because old entries are still visible. Loading the program again makes room.
    NoRoom(NoRoom),
    /// No room for another port. Loading the program again makes room.
    NoRoomForPorts,
    Failed(String),
}

/// A table that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) table: TableRef,
    pub(crate) n_entries_max: usize,
}

impl NoRoom {
    /// Returns the table's name for messages.
    pub(crate) fn table(&self, program: &Program) -> String {
        match self.table {
            TableRef::Program(position) => {
                let table = program.tables().nth(position);
                let name = table.map_or("", |(_, info)| &info.name);
                format!("table \"{name}\"")
            }
            TableRef::Groups => "multicast groups".to_owned(),
            TableRef::Meter(_) | TableRef::DirectMeter(_) => "meters".to_owned(),
        }
    }

    pub(crate) fn n_entries(&self, written: &Written<'_>) -> usize {
        let state = written.state();
        match self.table {
            TableRef::Program(position) => {
                let table = state.program().tables().nth(position);
                table.map_or(0, |(table, _)| state.entries(table).count())
            }
            TableRef::Groups => written.multicast_groups().count(),
            TableRef::Meter(_) | TableRef::DirectMeter(_) => 0,
        }
    }
}

impl Bodies {
    fn new(layout: &TableLayout) -> Bodies {
        Bodies {
            free: (1..layout.body.n.max(1)).collect(),
            layout: layout.clone(),
            of: HashMap::new(),
            owners: HashMap::new(),
            removed: HashMap::new(),
            n_entries: 0,
            n_awaited: 0,
            masks: HashMap::new(),
            has_age: matches!(layout.index, Index::Ternary { .. }),
        }
    }

    /// Returns the number of bodies, without the body of the default action.
    fn n_entries_max(&self) -> usize {
        self.layout.body.n.saturating_sub(1) as usize
    }

    fn own(&mut self, entry: usize, body: u32) {
        self.of.insert(entry, body);
        self.owners.insert(body, entry);
    }

    /// Counts a new entry for its key's mask.
    ///
    /// # Errors
    /// There are too many masks.
    fn count_mask(&mut self, key: &EncodedKey) -> Result<(), String> {
        let (EncodedKey::Masked { mask, .. }, Index::Ternary { n_masks_max, .. }) =
            (key, &self.layout.index)
        else {
            return Ok(());
        };
        *self.masks.entry(mask.clone()).or_default() += 1;
        if self.masks.len() <= *n_masks_max as usize {
            Ok(())
        } else {
            Err(format!("its entries have more than {n_masks_max} masks"))
        }
    }

    /// Subtracts a removed entry from the count of its key's mask.
    fn discount_mask(&mut self, key: &EncodedKey) {
        if let EncodedKey::Masked { mask, .. } = key
            && let Some(n) = self.masks.get_mut(mask)
        {
            *n -= 1;
            self.masks.retain(|_, n| *n > 0);
        }
    }

    /// Returns the rank of a new entry. Of all matching entries, the entry with the greatest rank wins: the entry with
    /// the highest priority, and of several such entries the oldest.
    fn rank(&mut self, priority: i32) -> u64 {
        self.n_entries = self.n_entries.saturating_add(1);
        let priority = priority.cast_unsigned() ^ (1 << 31);
        u64::from(priority) << 32 | u64::from(u32::MAX - self.n_entries)
    }
}

/// The pending ops of the next commit, and which entry has which body.
pub(crate) struct Translator {
    tables: HashMap<TableRef, Bodies>,
    meters: Vec<Option<MeterLayout>>,
    direct_meters: Vec<Option<MeterLayout>>,
    freed: Receiver<Freed>,
    to_writer: Sender<Message>,
    /// Ports that the program forwards to.
    ports: HashSet<PortId>,
    /// Tables that copies reach.
    copied: HashSet<usize>,
    /// In tables that copies reach: bodies whose action the kernel cannot run, so that packets are punted there. Copies
    /// cannot be punted, so while there is such a body, all packets to groups are punted.
    punting: HashSet<(usize, u32)>,
    ops: Vec<Op>,
    /// Bodies that were assigned to another entry, and whose old counts must be collected first.
    taken: Vec<Freed>,
}

impl Translator {
    pub(crate) fn new(
        image: &Image,
        freed: Receiver<Freed>,
        to_writer: Sender<Message>,
    ) -> Translator {
        let mut tables = HashMap::new();
        for (position, layout) in image.tables.iter().enumerate() {
            tables.insert(TableRef::Program(position), Bodies::new(layout));
        }
        if let Some(fan_out) = &image.fan_out {
            tables.insert(TableRef::Groups, Bodies::new(&fan_out.groups));
        }
        let copied = image.fan_out.iter().flat_map(|fan_out| &fan_out.tables);
        let copied = copied.map(|table| table.index());
        Translator {
            tables,
            meters: image.meters.clone(),
            direct_meters: image.direct_meters.clone(),
            freed,
            to_writer,
            ports: HashSet::new(),
            copied: copied.collect(),
            punting: HashSet::new(),
            ops: Vec::new(),
            taken: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Op> {
        self.tables
            .values_mut()
            .for_each(|table| table.removed.clear());
        for op in &self.ops {
            if let Op::Table(table, TableOp::Remove { .. }) = op
                && let Some(bodies) = self.tables.get_mut(table)
            {
                bodies.n_awaited += 1;
            }
        }
        std::mem::take(&mut self.ops)
    }

    /// Takes the bodies assigned since the last call. The counts that these bodies have so far belong to their previous
    /// entries.
    pub(crate) fn take_taken(&mut self) -> Vec<Freed> {
        std::mem::take(&mut self.taken)
    }

    pub(crate) fn owner(&self, table: TableId, body: u32) -> Option<EntryIndex> {
        let bodies = self.tables.get(&TableRef::Program(table.index()))?;
        bodies.owners.get(&body).copied().map(EntryIndex::at)
    }

    /// Returns a bound for a table: the indices of all bodies that were ever assigned are below this bound.
    pub(crate) fn n_used(&self, table: TableId) -> u32 {
        let bodies = self.tables.get(&TableRef::Program(table.index()));
        bodies.map_or(0, |bodies| match bodies.layout.index {
            Index::Left => 0,
            _ => bodies.n_entries.min(bodies.layout.body.n.saturating_sub(1)) + 1,
        })
    }

    /// Forwards to a port from now on. While the port has no interface, copies to the port are lost.
    pub(crate) fn add_port(&mut self, port: PortId) {
        self.ports.insert(port);
    }

    pub(crate) fn set_interface(&mut self, port: PortId, interface: Option<Interface>) {
        self.ops.push(Op::Interface { port, interface });
    }

    /// Adds ops for all that controllers have written.
    ///
    /// # Errors
    /// The change that the kernel cannot take.
    pub(crate) fn all(&mut self, written: &Written<'_>) -> Result<(), ChangeError> {
        let state = written.state();
        for (table, _) in state.program().tables() {
            self.set_default(state, table);
            let entries: Vec<EntryIndex> = state.entries(table).map(|(entry, _)| entry).collect();
            for entry in entries {
                self.insert(state, table, entry)?;
            }
        }
        for (meter, _) in state.program().meters() {
            let cells = self.meters[meter.index()].as_ref();
            let n = cells.map_or(0, |layout| layout.cells.body.n);
            for index in 0..n as usize {
                // Cells are green until they are written.
                if state.meter_config(meter, index).is_some() {
                    self.set_meter(state, meter, index);
                }
            }
        }
        let groups: Vec<u32> = written.multicast_groups().collect();
        groups
            .into_iter()
            .try_for_each(|group| self.set_group(written, group))
    }

    /// Adds ops for a change that a control call has made.
    ///
    /// # Errors
    /// The change that the kernel cannot take.
    pub(crate) fn changed(
        &mut self,
        written: &Written<'_>,
        change: &Change<'_>,
    ) -> Result<(), ChangeError> {
        let did_punt = !self.punting.is_empty();
        self.translate(written, change)?;
        if did_punt == self.punting.is_empty() {
            self.resolve_groups(written)
        } else {
            Ok(())
        }
    }

    fn translate(&mut self, written: &Written<'_>, change: &Change<'_>) -> Result<(), ChangeError> {
        let state = written.state();
        match change {
            Change::Table(table, TableChange::Inserted(entry)) => {
                self.insert(state, *table, *entry)
            }
            Change::Table(table, TableChange::Modified(entry)) => {
                self.show(state, *table, *entry);
                Ok(())
            }
            Change::Table(table, TableChange::Metered(entry)) => {
                self.set_direct_meter(state, *table, *entry);
                Ok(())
            }
            Change::Meter(meter, index) => {
                self.set_meter(state, *meter, *index);
                Ok(())
            }
            Change::Table(table, TableChange::Removed { entry, key, .. }) => {
                self.remove(*table, *entry, key)
            }
            Change::Table(table, TableChange::Default) => {
                self.set_default(state, *table);
                Ok(())
            }
            Change::Profile(_) => {
                self.resolve_again(state);
                Ok(())
            }
            Change::MulticastGroup(group) => self.set_group(written, *group),
            _ => Ok(()),
        }
    }

    fn push(&mut self, table: TableRef, op: TableOp) {
        self.ops.push(Op::Table(table, op));
    }

    fn insert(
        &mut self,
        state: &State,
        table: TableId,
        entry: EntryIndex,
    ) -> Result<(), ChangeError> {
        let at = TableRef::Program(table.index());
        let Some(view) = state.entry(table, entry) else {
            return Ok(());
        };
        let Some(key) = self.key(at, view.key)? else {
            return Ok(());
        };
        self.put(at, entry.index(), key, view.priority)?;
        self.show(state, table, entry);
        self.set_direct_meter(state, table, entry);
        Ok(())
    }

    /// Encodes an entry's key; `None` if the table is left to the engine.
    fn key(&self, at: TableRef, key: &[Matcher]) -> Result<Option<EncodedKey>, ChangeError> {
        match self.tables.get(&at) {
            Some(Bodies { layout, .. }) if !matches!(layout.index, Index::Left) => {
                let key = layout.encode_key(key);
                key.map(Some).map_err(|error| left(at, error.to_string()))
            }
            _ => Ok(None),
        }
    }

    /// Assigns a body to an entry, and makes the key lead to the body.
    fn put(
        &mut self,
        at: TableRef,
        entry: usize,
        key: EncodedKey,
        priority: i32,
    ) -> Result<(), ChangeError> {
        let Some(bodies) = self.tables.get_mut(&at) else {
            return Ok(());
        };
        let counted = bodies.count_mask(&key);
        counted.map_err(|reason| left(at, reason))?;
        let rank = bodies.rank(priority);
        // The entry takes over the body of an entry with the same key that this commit removes. This does not hold for
        // a ternary table, where the body's rank includes the removed entry's age.
        if !bodies.has_age
            && let Some(body) = bodies.removed.remove(&key)
        {
            bodies.own(entry, body);
            self.taken.push(Freed { table: at, body });
            self.ops.retain(|op| {
                !matches!(op, Op::Table(other, TableOp::Remove { body: removed, .. })
                    if *other == at && *removed == body)
            });
            return Ok(());
        }
        let n_entries_max = bodies.n_entries_max();
        let full = ChangeError::NoRoom(NoRoom {
            table: at,
            n_entries_max,
        });
        let body = self.free_body(at).ok_or(full)?;
        if let Some(bodies) = self.tables.get_mut(&at) {
            bodies.own(entry, body);
        }
        self.taken.push(Freed { table: at, body });
        self.push(at, TableOp::Put { key, body, rank });
        Ok(())
    }

    /// Returns a body that no packet can see. If no body is free but removed entries still hold some, waits until one
    /// is free.
    fn free_body(&mut self, at: TableRef) -> Option<u32> {
        let until = Instant::now() + BODY_TIMEOUT;
        let mut is_asked = false;
        loop {
            while let Ok(freed) = self.freed.try_recv() {
                self.give_back(freed);
            }
            let bodies = self.tables.get_mut(&at)?;
            if let Some(body) = bodies.free.pop_first() {
                return Some(body);
            }
            if bodies.n_awaited == 0 {
                return None;
            }
            if !std::mem::replace(&mut is_asked, true) {
                self.to_writer.send(Message::Hurry).ok()?;
            }
            let left = until.saturating_duration_since(Instant::now());
            let freed = self.freed.recv_timeout(left).ok()?;
            self.give_back(freed);
        }
    }

    fn give_back(&mut self, freed: Freed) {
        if let Some(bodies) = self.tables.get_mut(&freed.table) {
            bodies.free.insert(freed.body);
            bodies.n_awaited = bodies.n_awaited.saturating_sub(1);
        }
    }

    /// Writes the entry's current action.
    fn show(&mut self, state: &State, table: TableId, entry: EntryIndex) {
        let at = TableRef::Program(table.index());
        let (Some(bodies), Some(view)) = (self.tables.get(&at), state.entry(table, entry)) else {
            return;
        };
        let Some(body) = bodies.of.get(&entry.index()).copied() else {
            return;
        };
        let slot = slot(&bodies.layout, state, table, Some(view.action));
        self.show_slot(table, body, slot);
    }

    /// Writes the rates of a meter's cell, with full buckets.
    fn set_meter(&mut self, state: &State, meter: MeterId, index: usize) {
        let layout = self.meters.get(meter.index()).and_then(Option::as_ref);
        if let (Some(layout), Ok(body)) = (layout, u32::try_from(index)) {
            let config = state.meter_config(meter, index);
            let slot = layout.encode_slot(config, bpf::kernel_clock_ns());
            let at = TableRef::Meter(meter.index());
            self.push(at, TableOp::Show { body, slot });
        }
    }

    /// Writes the rates of an entry's meter, with full buckets.
    fn set_direct_meter(&mut self, state: &State, table: TableId, entry: EntryIndex) {
        let position = table.index();
        let bodies = self.tables.get(&TableRef::Program(position));
        let body = bodies.and_then(|bodies| bodies.of.get(&entry.index()).copied());
        let layout = self.direct_meters.get(position).and_then(Option::as_ref);
        if let (Some(layout), Some(body)) = (layout, body) {
            let config = state.direct_meter_config(table, entry);
            let slot = layout.encode_slot(config, bpf::kernel_clock_ns());
            self.push(
                TableRef::DirectMeter(position),
                TableOp::Show { body, slot },
            );
        }
    }

    fn set_default(&mut self, state: &State, table: TableId) {
        let at = TableRef::Program(table.index());
        let Some(bodies) = self.tables.get(&at) else {
            return;
        };
        if matches!(bodies.layout.index, Index::Left) {
            return;
        }
        let slot = slot(&bodies.layout, state, table, state.default_action(table));
        self.show_slot(table, DEFAULT_BODY, slot);
    }

    fn show_slot(&mut self, table: TableId, body: u32, slot: Vec<u8>) {
        if self.copied.contains(&table.index()) {
            if slot[..4] == ACTION_PUNT.to_ne_bytes() {
                self.punting.insert((table.index(), body))
            } else {
                self.punting.remove(&(table.index(), body))
            };
        }
        let at = TableRef::Program(table.index());
        self.push(at, TableOp::Show { body, slot });
    }

    fn remove(
        &mut self,
        table: TableId,
        entry: EntryIndex,
        key: &[Matcher],
    ) -> Result<(), ChangeError> {
        let at = TableRef::Program(table.index());
        if let Some(key) = self.key(at, key)? {
            self.take_away(at, entry.index(), key);
        }
        Ok(())
    }

    fn take_away(&mut self, at: TableRef, entry: usize, key: EncodedKey) {
        let Some(bodies) = self.tables.get_mut(&at) else {
            return;
        };
        if let Some(body) = bodies.of.remove(&entry) {
            bodies.owners.remove(&body);
            bodies.discount_mask(&key);
            if let TableRef::Program(table) = at {
                self.punting.remove(&(table, body));
            }
            bodies.removed.insert(key.clone(), body);
            self.push(at, TableOp::Remove { key, body });
        }
    }

    /// Call this after members of an action profile have changed. Writes the actions of all entries that use a member
    /// or group, and the default actions.
    fn resolve_again(&mut self, state: &State) {
        for (table, _) in state.program().tables() {
            let used: Vec<EntryIndex> = state
                .entries(table)
                .filter(|(_, view)| !matches!(view.action, EntryAction::Call(_)))
                .map(|(entry, _)| entry)
                .collect();
            for entry in used {
                self.show(state, table, entry);
            }
            self.set_default(state, table);
        }
    }

    /// Writes all groups again, since a new port can serve replicas that could not be served before.
    ///
    /// # Errors
    /// The change that the kernel cannot take.
    pub(crate) fn resolve_groups(&mut self, written: &Written<'_>) -> Result<(), ChangeError> {
        let mut groups = written.multicast_groups();
        groups.try_for_each(|group| self.set_group(written, group))
    }

    /// Writes the groups with replicas at a port again, since the port's interface is back.
    ///
    /// # Errors
    /// The change that the kernel cannot take.
    pub(crate) fn resolve_groups_of(
        &mut self,
        written: &Written<'_>,
        port: PortId,
    ) -> Result<(), ChangeError> {
        let has_port = |group: &u32| {
            let replicas = written.multicast_group(*group).unwrap_or_default();
            replicas.iter().any(|replica| replica.port == port)
        };
        let mut groups = written.multicast_groups().filter(has_port);
        groups.try_for_each(|group| self.set_group(written, group))
    }

    /// Writes a group's replicas, or removes the group.
    fn set_group(&mut self, written: &Written<'_>, group: u32) -> Result<(), ChangeError> {
        let at = TableRef::Groups;
        let Some(bodies) = self.tables.get(&at) else {
            return Ok(());
        };
        let layout = bodies.layout.clone();
        let entry = group as usize;
        let key = self.key(at, &[Matcher::Exact(group.into())])?;
        let Some(key) = key else {
            return Ok(());
        };
        let Some(replicas) = written.multicast_group(group) else {
            self.take_away(at, entry, key);
            return Ok(());
        };
        let body = self
            .tables
            .get(&at)
            .and_then(|it| it.of.get(&entry))
            .copied();
        if body.is_none() {
            self.put(at, entry, key, 0)?;
        }
        let body = self
            .tables
            .get(&at)
            .and_then(|it| it.of.get(&entry))
            .copied();
        let Some(body) = body else {
            return Ok(());
        };
        // If a group changes several times in a commit, only its last version is made.
        self.ops.retain(|op| !op.is_of_group(body));
        if replicas.is_empty() {
            let slot = layout.encode_slot(0, &[0_u32.into(), 0_u32.into()]);
            self.push(at, TableOp::Show { body, slot });
        } else if self.punting.is_empty() && replicas.iter().all(|it| self.ports.contains(&it.port))
        {
            self.ops.push(Op::Group { body, replicas });
        } else {
            let slot = layout.encode_slot(ACTION_PUNT, &[]);
            self.push(at, TableOp::Show { body, slot });
        }
        Ok(())
    }
}

/// The error for a key that the kernel's table cannot hold.
fn left(at: TableRef, reason: String) -> ChangeError {
    match at {
        TableRef::Program(table) => ChangeError::Table(table, reason),
        TableRef::Groups | TableRef::Meter(_) | TableRef::DirectMeter(_) => {
            ChangeError::Failed(reason)
        }
    }
}

/// Encodes an action and its arguments as one slot of a body.
fn slot(
    layout: &TableLayout,
    state: &State,
    table: TableId,
    action: Option<&EntryAction>,
) -> Vec<u8> {
    let call = match action {
        None => return layout.encode_slot(ACTION_NONE, &[]),
        Some(EntryAction::Call(call)) => Some(call.clone()),
        Some(member @ EntryAction::Member(_)) => {
            let node = state.program().ir().table_nodes.get(table.index());
            let profile = node.and_then(|node| node.profile);
            profile.and_then(|profile| state.resolve(profile, member, || 0))
        }
        // The entry uses a group, of which each packet selects a member, so there is no constant action.
        Some(_) => None,
    };
    let number = call
        .as_ref()
        .and_then(|call| layout.action_number(call.action));
    match (number, &call) {
        (Some(number), Some(call)) => layout.encode_slot(number, &call.args),
        _ => layout.encode_slot(ACTION_PUNT, &[]),
    }
}
