//! What an offload is told of, as parts of the next commit. It runs in the control call; the writer's thread
//! does what takes time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use dataplane::engine::ir::Matcher;
use dataplane::engine::{Change, EntryAction, EntryIndex, State, TableChange};
use dataplane::offload::Written;
use dataplane::{PortId, Program, TableId};

use super::messages::{Failure, Freed, Interface, Message, Op, TableRef};
use super::table::TableOp;
use crate::image::{ACTION_NONE, ACTION_PUNT, EncodedKey, Image, Index, TableLayout};

/// How long a control call waits for a body that packets may still come to: two grace periods, and what else the
/// writer has to do.
const PATIENCE: Duration = Duration::from_millis(200);

/// Body 0 is the default action.
const DEFAULT_BODY: u32 = 0;

/// A table's bodies, as they are given out.
#[derive(Debug)]
struct Bodies {
    layout: TableLayout,
    /// The lowest is given out first.
    free: BTreeSet<u32>,
    /// By entry: an entry's index, or a group's number.
    of: HashMap<usize, u32>,
    /// By body.
    owners: HashMap<u32, usize>,
    /// Removed in this commit: an entry with the same key goes on with the body.
    removed: HashMap<EncodedKey, u32>,
    /// Entries so far: a younger one has a higher number.
    n_entries: u32,
    /// Of two that match the older may win.
    has_age: bool,
    /// Bodies of removed entries that were committed and have not come back.
    n_awaited: usize,
    /// Ternary: how many entries each mask has.
    masks: HashMap<Vec<u8>, usize>,
}

impl From<Failure> for Unsaid {
    fn from(failure: Failure) -> Unsaid {
        match failure.table {
            Some(table) => Unsaid::Table(table, failure.reason),
            None => Unsaid::Failed(failure.reason),
        }
    }
}

/// Why something cannot be said in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsaid {
    /// Packets that come to this table of the program are to be the engine's.
    Table(usize, String),
    /// There is no room for what is there now beside what packets still see: a program that is loaded anew has it.
    NoRoom(NoRoom),
    /// There is no room for another port: a program that is loaded anew has it.
    NoRoomForPorts,
    /// Something else.
    Failed(String),
}

/// A table that has no place for another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) table: TableRef,
    pub(crate) n_entries_max: usize,
}

impl NoRoom {
    /// The table in the program's words.
    pub(crate) fn table(&self, program: &Program) -> String {
        match self.table {
            TableRef::Program(position) => {
                let table = program.tables().nth(position);
                let name = table.map_or("", |(_, info)| &info.name);
                format!("table \"{name}\"")
            }
            TableRef::Groups => "multicast groups".to_owned(),
        }
    }

    /// How many entries the table has.
    pub(crate) fn n_entries(&self, written: &Written<'_>) -> usize {
        let state = written.state();
        match self.table {
            TableRef::Program(position) => {
                let table = state.program().tables().nth(position);
                table.map_or(0, |(table, _)| state.entries(table).count())
            }
            TableRef::Groups => written.multicast_groups().count(),
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

    /// Bodies beside the default action's.
    fn n_entries_max(&self) -> usize {
        self.layout.body.n.saturating_sub(1) as usize
    }

    fn own(&mut self, entry: usize, body: u32) {
        self.of.insert(entry, body);
        self.owners.insert(body, entry);
    }

    /// An entry has this key.
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
        match self.masks.len() <= *n_masks_max as usize {
            true => Ok(()),
            false => Err(format!("its entries have more than {n_masks_max} masks")),
        }
    }

    /// An entry of this key is gone.
    fn discount_mask(&mut self, key: &EncodedKey) {
        if let EncodedKey::Masked { mask, .. } = key
            && let Some(n) = self.masks.get_mut(mask)
        {
            *n -= 1;
            self.masks.retain(|_, n| *n > 0);
        }
    }

    /// The greatest of those that match wins: of the higher priority, then of the older entry.
    fn rank(&mut self, priority: i32) -> u64 {
        self.n_entries = self.n_entries.saturating_add(1);
        let priority = priority.cast_unsigned() ^ (1 << 31);
        u64::from(priority) << 32 | u64::from(u32::MAX - self.n_entries)
    }
}

/// What was told since the last commit, and who has which body.
pub(crate) struct Told {
    tables: HashMap<TableRef, Bodies>,
    freed: Receiver<Freed>,
    to_writer: Sender<Message>,
    /// Ports that are forwarded to.
    ports: HashSet<PortId>,
    /// Tables that copies come to.
    copied: HashSet<usize>,
    /// Bodies of those that run what the kernel cannot. Copies cannot be punted, so as long as there is one, all
    /// packets of groups are.
    punting: HashSet<(usize, u32)>,
    ops: Vec<Op>,
    /// Bodies whose counts are to be given up before somebody else has them.
    taken: Vec<Freed>,
}

impl Told {
    pub(crate) fn new(image: &Image, freed: Receiver<Freed>, to_writer: Sender<Message>) -> Told {
        let mut tables = HashMap::new();
        for (position, layout) in image.tables.iter().enumerate() {
            tables.insert(TableRef::Program(position), Bodies::new(layout));
        }
        if let Some(fan_out) = &image.fan_out {
            tables.insert(TableRef::Groups, Bodies::new(&fan_out.groups));
        }
        let copied = image.fan_out.iter().flat_map(|fan_out| &fan_out.tables);
        let copied = copied.map(|table| table.index());
        Told {
            tables,
            freed,
            to_writer,
            ports: HashSet::new(),
            copied: copied.collect(),
            punting: HashSet::new(),
            ops: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// The parts of the commit.
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

    /// Bodies that were given out since this was asked last, whose counts so far are nobody's.
    pub(crate) fn take_taken(&mut self) -> Vec<Freed> {
        std::mem::take(&mut self.taken)
    }

    /// Whose body it is.
    pub(crate) fn owner(&self, table: TableId, body: u32) -> Option<EntryIndex> {
        let bodies = self.tables.get(&TableRef::Program(table.index()))?;
        bodies.owners.get(&body).copied().map(EntryIndex::at)
    }

    /// An upper bound for a table: the numbers of all bodies that were ever given out are below it.
    pub(crate) fn n_used(&self, table: TableId) -> u32 {
        let bodies = self.tables.get(&TableRef::Program(table.index()));
        bodies.map_or(0, |bodies| match bodies.layout.index {
            Index::Left => 0,
            _ => bodies.n_entries.min(bodies.layout.body.n.saturating_sub(1)) + 1,
        })
    }

    /// A port is forwarded to from now on; while its interface is away, copies for it are lost.
    pub(crate) fn add_port(&mut self, port: PortId) {
        self.ports.insert(port);
    }

    /// A port has this interface from now on.
    pub(crate) fn set_interface(&mut self, port: PortId, interface: Option<Interface>) {
        self.ops.push(Op::Interface { port, interface });
    }

    /// All that is written.
    ///
    /// # Errors
    /// What cannot be said in the kernel.
    pub(crate) fn all(&mut self, written: &Written<'_>) -> Result<(), Unsaid> {
        let state = written.state();
        for (table, _) in state.program().tables() {
            self.set_default(state, table);
            let entries: Vec<EntryIndex> = state.entries(table).map(|(entry, _)| entry).collect();
            for entry in entries {
                self.insert(state, table, entry)?;
            }
        }
        let groups: Vec<u32> = written.multicast_groups().collect();
        groups
            .into_iter()
            .try_for_each(|group| self.set_group(written, group))
    }

    /// A control call has changed something.
    ///
    /// # Errors
    /// What cannot be said in the kernel.
    pub(crate) fn changed(
        &mut self,
        written: &Written<'_>,
        change: &Change<'_>,
    ) -> Result<(), Unsaid> {
        let did_punt = !self.punting.is_empty();
        self.follow(written, change)?;
        match did_punt == self.punting.is_empty() {
            true => self.resolve_groups(written),
            false => Ok(()),
        }
    }

    fn follow(&mut self, written: &Written<'_>, change: &Change<'_>) -> Result<(), Unsaid> {
        let state = written.state();
        match change {
            Change::Table(table, TableChange::Inserted(entry)) => {
                self.insert(state, *table, *entry)
            }
            Change::Table(table, TableChange::Modified(entry)) => {
                self.show(state, *table, *entry);
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

    fn insert(&mut self, state: &State, table: TableId, entry: EntryIndex) -> Result<(), Unsaid> {
        let at = TableRef::Program(table.index());
        let Some(view) = state.entry(table, entry) else {
            return Ok(());
        };
        let Some(key) = self.key(at, view.key)? else {
            return Ok(());
        };
        self.put(at, entry.index(), key, view.priority)?;
        self.show(state, table, entry);
        Ok(())
    }

    /// An entry's key; none where the table is left to the engine.
    fn key(&self, at: TableRef, key: &[Matcher]) -> Result<Option<EncodedKey>, Unsaid> {
        match self.tables.get(&at) {
            Some(Bodies { layout, .. }) if !matches!(layout.index, Index::Left) => {
                let key = layout.encode_key(key);
                key.map(Some).map_err(|error| left(at, error.to_string()))
            }
            _ => Ok(None),
        }
    }

    /// Gives an entry a body, and leads its key there.
    fn put(
        &mut self,
        at: TableRef,
        entry: usize,
        key: EncodedKey,
        priority: i32,
    ) -> Result<(), Unsaid> {
        let Some(bodies) = self.tables.get_mut(&at) else {
            return Ok(());
        };
        let counted = bodies.count_mask(&key);
        counted.map_err(|reason| left(at, reason))?;
        let rank = bodies.rank(priority);
        // The entry gets the body of an entry with the same key that this commit removes. Not in a ternary table: there
        // the body's rank has the age of the removed entry.
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
        let full = Unsaid::NoRoom(NoRoom {
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

    /// A body that no packet comes to. It waits for one that was removed before, if there is such.
    fn free_body(&mut self, at: TableRef) -> Option<u32> {
        let until = Instant::now() + PATIENCE;
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

    /// What an entry runs.
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
            match slot[..4] == ACTION_PUNT.to_ne_bytes() {
                true => self.punting.insert((table.index(), body)),
                false => self.punting.remove(&(table.index(), body)),
            };
        }
        let at = TableRef::Program(table.index());
        self.push(at, TableOp::Show { body, slot });
    }

    fn remove(&mut self, table: TableId, entry: EntryIndex, key: &[Matcher]) -> Result<(), Unsaid> {
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

    /// Members of a profile have changed: whoever uses one runs something else.
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

    /// There is a new port, so groups with replicas there can be served.
    ///
    /// # Errors
    /// What cannot be said in the kernel.
    pub(crate) fn resolve_groups(&mut self, written: &Written<'_>) -> Result<(), Unsaid> {
        let mut groups = written.multicast_groups();
        groups.try_for_each(|group| self.set_group(written, group))
    }

    /// A port has an interface again: groups with replicas there make copies for it.
    ///
    /// # Errors
    /// What cannot be said in the kernel.
    pub(crate) fn resolve_groups_of(
        &mut self,
        written: &Written<'_>,
        port: PortId,
    ) -> Result<(), Unsaid> {
        let has_port = |group: &u32| {
            let replicas = written.multicast_group(*group).unwrap_or_default();
            replicas.iter().any(|replica| replica.port == port)
        };
        let mut groups = written.multicast_groups().filter(has_port);
        groups.try_for_each(|group| self.set_group(written, group))
    }

    /// A group's replicas, or that it is gone.
    fn set_group(&mut self, written: &Written<'_>, group: u32) -> Result<(), Unsaid> {
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
        // Only its last version is made where it changes more than once in a commit.
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

/// A key that a table cannot have in the kernel.
fn left(at: TableRef, reason: String) -> Unsaid {
    match at {
        TableRef::Program(table) => Unsaid::Table(table, reason),
        TableRef::Groups => Unsaid::Failed(reason),
    }
}

/// What an action is in a slot.
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
        // Which one it is depends on the packet.
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
