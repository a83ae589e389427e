//! Reading while nobody writes: what the workers have together, in portions that do not hold up frames.
//!
//! What is large is read in several visits to the workers' threads, with frames in between. What is the same in all
//! workers is the first one's; what packets count adds up. Whoever reads finds zeros in the place of a secret
//! (`@secret` in the program): arguments of actions, cells of registers. Fields of keys are hidden by the protocols,
//! since a key is also what an entry's notes are found by.

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

/// A pipeline to read from; [`Device::reading`] gives it. Given up at any time, it leaves nothing.
pub struct Reading {
    device: Arc<Device>,
    pipeline: Arc<Pipeline>,
    /// Keeps writes out while it is there. None for a reading in a turn, which nobody else writes in.
    no_writes: Option<OwnedRwLockReadGuard<()>>,
    change: u64,
    shows_secrets: bool,
}

/// In the place of a secret.
const ZERO: [u8; 1] = [0];

/// Where in a table is still to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// From there on.
    From(usize),
    /// One entry at most, found without walking the table, which has no priorities.
    Key(Vec<MatchField>),
    /// Nowhere.
    Done,
}

impl Places {
    /// All of the table.
    pub const ALL: Self = Self::From(0);
}

impl Reading {
    pub(crate) fn new(
        device: Arc<Device>,
        pipeline: Arc<Pipeline>,
        no_writes: Option<OwnedRwLockReadGuard<()>>,
    ) -> Self {
        Self {
            change: device.changes.n_told(),
            device,
            pipeline,
            no_writes,
            shows_secrets: false,
        }
    }

    /// With what is secret, for what goes to the switch again and to nobody else.
    #[must_use]
    pub fn with_secrets(self) -> Self {
        Self {
            shows_secrets: true,
            ..self
        }
    }

    /// What is read.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The number of the last change that is in what is read, as long as no writes were let in.
    pub fn change(&self) -> u64 {
        self.change
    }

    /// Lets in who writes, for whoever cannot go on reading now. What is read later may be another's.
    pub fn let_writes_in(&mut self) {
        self.no_writes = None;
    }

    /// Waits until nobody writes, and keeps it so.
    pub async fn shut_writes_out(&mut self) {
        if self.no_writes.is_none() {
            self.no_writes = Some(self.device.order().read_owned().await);
        }
    }

    /// Some more of a table's entries, with what all workers have counted at them; none when all its
    /// places were looked at.
    ///
    /// # Errors
    /// [`Error::Replaced`], [`Error::Stopped`]; so do all of these.
    pub async fn entries(
        &self,
        table: TableId,
        places: &mut Places,
    ) -> Result<Option<Vec<TableEntry>>, Error> {
        let all = match places {
            Places::Done => return Ok(None),
            Places::Key(key) => {
                let key = std::mem::take(key);
                *places = Places::Done;
                let find = move |switch: &Switch| Vec::from_iter(switch.entry(table, &key, 0));
                self.of_each(1, find).await?
            }
            Places::From(first) => {
                // What is in a place is the same in all workers.
                let range = *first..*first + ENTRIES_PER_VISIT;
                *first = range.end;
                let part = move |switch: &Switch| {
                    let is_end = range.end >= switch.entry_places(table);
                    (switch.entries_in(table, range.clone()), is_end)
                };
                let parts = self.of_each(ENTRIES_PER_VISIT, part).await?;
                if parts.iter().all(|(_, is_end)| *is_end) {
                    *places = Places::Done;
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

    /// A table's default action.
    ///
    /// # Errors
    /// As all of these.
    pub async fn default_action(&self, table: TableId) -> Result<Option<TableAction>, Error> {
        let read = move |switch: &Switch| switch.default_action(table);
        let mut action = self.of_first(read).await?;
        action.iter_mut().for_each(|action| self.hide(action));
        Ok(action)
    }

    /// Every member of an action profile.
    ///
    /// # Errors
    /// As all of these.
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

    /// Some more of a counter array's cells, added up, taken from the front of `cells`; none when none are
    /// left.
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

    /// Some more of a meter array's cells, in the same way: rates, and what was counted.
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

    /// Some more of a register array's cells, in the same way.
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`; `FailedPrecondition` where the workers have different values, each its own.
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

    /// Every worker's next cells, and the number of the first.
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

    /// With registers of their own, there is no one value.
    fn differs(&self, register: RegisterId, cell: u64) -> ControlError {
        let mut registers = self.pipeline.program().registers();
        let name = registers.find(|(id, _)| *id == register);
        let name = name.map_or("", |(_, name)| name);
        let message = format!(
            "register \"{name}\": the workers have different values in cell {cell}, each its own"
        );
        ControlError::new(ControlErrorKind::FailedPrecondition, message)
    }

    /// Some multicast groups by id, from an id on; none when there are no more.
    ///
    /// # Errors
    /// As all of these.
    pub async fn multicast_groups(&self, first: u32) -> Result<Vec<MulticastGroup>, Error> {
        self.of_first(move |switch| switch.multicast_groups_from(first, ENTRIES_PER_VISIT))
            .await
    }

    /// Some clone sessions, in the same way.
    ///
    /// # Errors
    /// As all of these.
    pub async fn clone_sessions(&self, first: u32) -> Result<Vec<CloneSession>, Error> {
        self.of_first(move |switch| switch.clone_sessions_from(first, ENTRIES_PER_VISIT))
            .await
    }

    /// Every packet generator.
    ///
    /// # Errors
    /// `FailedPrecondition`: a saved pipeline has none.
    pub async fn generators(&self) -> Result<Vec<GeneratorStatus>, Error> {
        expect_forwarding(!self.pipeline.is_saved())?;
        self.of_first(Switch::generators).await
    }

    /// What is the same in every worker, read in one visit: groups of action profiles, value sets.
    ///
    /// # Errors
    /// As all of these.
    pub async fn of_first<R: Send + 'static>(
        &self,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<R, Error> {
        let answers = self.of_each(ENTRIES_PER_VISIT, work).await?;
        answers.into_iter().next().ok_or(Error::Stopped)
    }

    /// Every worker's answer; `n_updates` is what a visit counts for.
    async fn of_each<R: Send + 'static>(
        &self,
        n_updates: usize,
        work: impl Fn(&Switch) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, Error> {
        self.device.read(&self.pipeline, n_updates, work).await
    }
}

/// The first worker's entries with what all workers have counted at them.
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
