//! Reads the combined state of all workers while nobody writes, in portions so small that they do not hold up frames.
//!
//! Large state is read in several visits to the workers' threads, with frames in between. State that is equal in all
//! workers is read from the first worker; counts are summed. Secret arguments of actions and secret cells of registers
//! (`@secret` in the program) read as zeros. The protocols hide secret key fields themselves, because they need the key
//! to find an entry's client data.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use dataplane::{
    ActionCall, ActionProfileId, CloneSession, ControlError, ControlErrorKind, CounterId,
    CounterValue, GeneratorStatus, MatchField, MeterConfig, MeterCounts, MeterId, MulticastGroup,
    ProfileMember, RegisterId, Switch, TableAction, TableEntry, TableId,
};
use tokio::sync::OwnedRwLockReadGuard;

use crate::device::Device;
use crate::error::Error;
use crate::limits::{CELLS_PER_VISIT, ENTRIES_PER_VISIT, UPDATES_PER_PIECE};
use crate::operation::expect_forwarding;
use crate::pipeline::Pipeline;

/// A pipeline to read from; [`Device::reading`] returns it. Dropping it at any time is harmless.
pub struct Reading {
    device: Arc<Device>,
    pipeline: Arc<Pipeline>,
    /// The lock that keeps writers out. `None` for a reading under exclusive access, where nobody else can write, and
    /// after [`Reading::let_writes_in`].
    no_writes: Option<OwnedRwLockReadGuard<()>>,
    change: u64,
    shows_secrets: bool,
}

/// The value shown instead of a secret.
const ZERO: [u8; 1] = [0];

/// The part of a table that was not read yet. A table keeps its entries in numbered places, some of which are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// The places from this number on.
    From(usize),
    /// At most one entry, the one with this key, which is found without walking the table. The table must have no
    /// priorities.
    Key(Vec<MatchField>),
    /// Everything has been read.
    Done,
}

impl Cursor {
    /// The whole table.
    pub const ALL: Self = Self::From(0);
}

impl Reading {
    pub(crate) fn new(
        device: Arc<Device>,
        pipeline: Arc<Pipeline>,
        no_writes: Option<OwnedRwLockReadGuard<()>>,
    ) -> Self {
        Self {
            change: device.changes.n_published(),
            device,
            pipeline,
            no_writes,
            shows_secrets: false,
        }
    }

    /// Makes the reading return secrets too. Use it only for data that goes back to the switch and to nobody else.
    #[must_use]
    pub fn with_secrets(self) -> Self {
        Self {
            shows_secrets: true,
            ..self
        }
    }

    /// The pipeline that is read.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The number of the last change that the reading includes, if [`Reading::let_writes_in`] was never called.
    pub fn change(&self) -> u64 {
        self.change
    }

    /// Lets writers in while the caller cannot go on reading. Later reads may see the changes of these writers.
    pub fn let_writes_in(&mut self) {
        self.no_writes = None;
    }

    /// Waits until nobody writes, and keeps writers out from then on.
    pub async fn shut_writes_out(&mut self) {
        if self.no_writes.is_none() {
            self.no_writes = Some(self.device.order().read_owned().await);
        }
    }

    /// Returns the next entries of a table, with the counts of all workers summed; `None` when the whole table was
    /// read.
    ///
    /// # Errors
    /// [`Error::Replaced`], [`Error::Stopped`], as for all these methods.
    pub async fn entries(
        &self,
        table: TableId,
        cursor: &mut Cursor,
    ) -> Result<Option<Vec<TableEntry>>, Error> {
        let all = match cursor {
            Cursor::Done => return Ok(None),
            Cursor::Key(key) => {
                let key = std::mem::take(key);
                *cursor = Cursor::Done;
                let find = move |switch: &Switch| Vec::from_iter(switch.entry(table, &key, 0));
                self.of_each(1, find).await?
            }
            Cursor::From(first) => {
                // An entry is at the same place in all workers.
                let range = *first..*first + ENTRIES_PER_VISIT;
                *first = range.end;
                let part = move |switch: &Switch| {
                    let is_end = range.end >= switch.entry_places(table);
                    (switch.entries_in(table, range.clone()), is_end)
                };
                let parts = self.of_each(ENTRIES_PER_VISIT, part).await?;
                if parts.iter().all(|(_, is_end)| *is_end) {
                    *cursor = Cursor::Done;
                }
                parts.into_iter().map(|(entries, _)| entries).collect()
            }
        };
        let mut entries = counted_together(all);
        for entry in &mut entries {
            self.hide(&mut entry.action);
        }
        Ok(Some(entries))
    }

    /// Returns a table's default action.
    ///
    /// # Errors
    /// `Replaced`, `Stopped`.
    pub async fn default_action(&self, table: TableId) -> Result<Option<TableAction>, Error> {
        let read = move |switch: &Switch| switch.default_action(table);
        let mut action = self.of_first(read).await?;
        action.iter_mut().for_each(|action| self.hide(action));
        Ok(action)
    }

    /// Returns every member of an action profile.
    ///
    /// # Errors
    /// `Replaced`, `Stopped`.
    pub async fn members(&self, profile: ActionProfileId) -> Result<Vec<ProfileMember>, Error> {
        let read = move |switch: &Switch| switch.members(profile);
        let mut members = self.of_first(read).await?;
        for member in &mut members {
            self.hide_arguments(&mut member.action);
        }
        Ok(members)
    }

    fn hide(&self, action: &mut TableAction) {
        match action {
            TableAction::Call(call) => self.hide_arguments(call),
            TableAction::OneShot(calls) => {
                let calls = calls.iter_mut().map(|weighted| &mut weighted.call);
                calls.for_each(|call| self.hide_arguments(call));
            }
            TableAction::Member(_) | TableAction::Group(_) => {}
        }
    }

    fn hide_arguments(&self, call: &mut ActionCall) {
        let info = self.pipeline.program().action_info(call.action);
        let params = info
            .filter(|_| !self.shows_secrets)
            .map(|info| &info.params);
        for (param, arg) in params.into_iter().flatten().zip(&mut call.args) {
            if param.is_secret {
                *arg = ZERO.to_vec();
            }
        }
    }

    /// Reads the next cells of a counter array from the front of `cells`, summed over all workers; `None` when `cells`
    /// is empty.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`.
    pub async fn counter_cells(
        &self,
        counter: CounterId,
        cells: &mut Range<u64>,
    ) -> Result<Option<Vec<CounterValue>>, Error> {
        let read = move |switch: &Switch, cell| switch.counter_cell(counter, cell);
        let Some((_, all)) = self.cells(cells, read).await? else {
            return Ok(None);
        };
        let sums = all.into_iter().reduce(|sums, values| {
            let pairs = sums.into_iter().zip(values);
            pairs.map(|(sum, value)| plus(sum, value)).collect()
        });
        Ok(sums)
    }

    /// Reads the next cells of a meter array, like `counter_cells`. Returns each cell's rates, and its counts summed
    /// over all workers.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`.
    pub async fn meter_cells(
        &self,
        meter: MeterId,
        cells: &mut Range<u64>,
    ) -> Result<Option<Vec<(Option<MeterConfig>, MeterCounts)>>, Error> {
        let read = move |switch: &Switch, cell| {
            let rates = switch.meter_cell(meter, cell)?;
            Ok((rates, switch.meter_counts(meter, cell)?))
        };
        let Some((_, all)) = self.cells(cells, read).await? else {
            return Ok(None);
        };
        let sums = all.into_iter().reduce(|sums, values| {
            let pairs = sums.into_iter().zip(values);
            let sum = |((rates, sum), (_, counts))| (rates, plus_by_color(sum, counts));
            pairs.map(sum).collect()
        });
        Ok(sums)
    }

    /// Reads the next cells of a register array, like `counter_cells`.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`; `FailedPrecondition` if the workers have different values.
    pub async fn register_cells(
        &self,
        register: RegisterId,
        cells: &mut Range<u64>,
    ) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let is_hidden = !self.shows_secrets && self.pipeline.program().is_secret(register);
        let read = move |switch: &Switch, cell| {
            let value = switch.register_cell(register, cell)?;
            Ok(if is_hidden { ZERO.to_vec() } else { value })
        };
        let Some((first, all)) = self.cells(cells, read).await? else {
            return Ok(None);
        };
        let mut all = all.into_iter();
        let values = all.next().ok_or(Error::Stopped)?;
        for others in all {
            let mut pairs = (first..).zip(values.iter().zip(&others));
            if let Some((cell, _)) = pairs.find(|(_, (ours, theirs))| ours != theirs) {
                return Err(self.differs(register, cell).into());
            }
        }
        Ok(Some(values))
    }

    /// Returns the next cells of every worker, and the number of the first cell.
    async fn cells<R: Send + 'static>(
        &self,
        cells: &mut Range<u64>,
        read: impl Fn(&Switch, u64) -> Result<R, ControlError> + Send + Sync + 'static,
    ) -> Result<Option<(u64, Vec<Vec<R>>)>, Error> {
        if cells.is_empty() {
            return Ok(None);
        }
        let first = cells.start;
        let visit = first..cells.end.min(first.saturating_add(CELLS_PER_VISIT));
        cells.start = visit.end;
        let read = move |switch: &Switch| -> Result<Vec<R>, ControlError> {
            visit.clone().map(|cell| read(switch, cell)).collect()
        };
        let all = self.of_each(UPDATES_PER_PIECE, read).await?;
        let all: Result<Vec<_>, _> = all.into_iter().collect();
        Ok(Some((first, all?)))
    }

    /// The error for a register cell that has different values in different workers.
    fn differs(&self, register: RegisterId, cell: u64) -> ControlError {
        let mut registers = self.pipeline.program().registers();
        let name = registers.find(|(id, _)| *id == register);
        let name = name.map_or("", |(_, name)| name);
        let message =
            format!("register \"{name}\": cell {cell} has different values in different workers");
        ControlError::new(ControlErrorKind::FailedPrecondition, message)
    }

    /// Returns the next multicast groups in the order of their ids, from the id `first` on; empty when there are no
    /// more.
    ///
    /// # Errors
    /// `Replaced`, `Stopped`.
    pub async fn multicast_groups(&self, first: u32) -> Result<Vec<MulticastGroup>, Error> {
        self.of_first(move |switch| switch.multicast_groups_from(first, ENTRIES_PER_VISIT))
            .await
    }

    /// Returns the next clone sessions, like `multicast_groups`.
    ///
    /// # Errors
    /// `Replaced`, `Stopped`.
    pub async fn clone_sessions(&self, first: u32) -> Result<Vec<CloneSession>, Error> {
        self.of_first(move |switch| switch.clone_sessions_from(first, ENTRIES_PER_VISIT))
            .await
    }

    /// Returns every packet generator of the switch.
    ///
    /// # Errors
    /// `FailedPrecondition`: the pipeline is saved, but the generators belong to the switch that forwards.
    pub async fn generators(&self) -> Result<Vec<GeneratorStatus>, Error> {
        expect_forwarding(!self.pipeline.is_saved())?;
        self.of_first(Switch::generators).await
    }

    /// Reads state that is equal in all workers, such as value sets, from the first worker's answer, in one visit.
    ///
    /// # Errors
    /// `Replaced`, `Stopped`.
    pub async fn of_first<R: Send + 'static>(
        &self,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<R, Error> {
        let answers = self.of_each(ENTRIES_PER_VISIT, work).await?;
        answers.into_iter().next().ok_or(Error::Stopped)
    }

    /// Returns every worker's answer. `n_updates` is how many updates the visit counts as.
    async fn of_each<R: Send + 'static>(
        &self,
        n_updates: usize,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, Error> {
        self.device.read(&self.pipeline, n_updates, work).await
    }
}

/// Returns the first worker's entries with the counts of all workers.
fn counted_together(all: Vec<Vec<TableEntry>>) -> Vec<TableEntry> {
    let mut all = all.into_iter();
    let mut entries = all.next().unwrap_or_default();
    let others: Vec<_> = all.flatten().collect();
    let mut counts: HashMap<_, (CounterValue, MeterCounts)> = HashMap::with_capacity(entries.len());
    for other in &others {
        let (count, by_color) = counts.entry((&other.key, other.priority)).or_default();
        *count = plus(*count, other.counter);
        *by_color = plus_by_color(*by_color, other.meter_counts);
    }
    for entry in &mut entries {
        if let Some((count, by_color)) = counts.get(&(&entry.key, entry.priority)) {
            entry.counter = plus(entry.counter, *count);
            entry.meter_counts = plus_by_color(entry.meter_counts, *by_color);
        }
    }
    entries
}

fn plus_by_color(one: MeterCounts, other: MeterCounts) -> MeterCounts {
    MeterCounts {
        green: plus(one.green, other.green),
        yellow: plus(one.yellow, other.yellow),
        red: plus(one.red, other.red),
    }
}

fn plus(one: CounterValue, other: CounterValue) -> CounterValue {
    CounterValue {
        packets: one.packets.wrapping_add(other.packets),
        bytes: one.bytes.wrapping_add(other.bytes),
    }
}
