//! What a packet generator makes, and what it has made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Nanos, PortId};

/// How fast frames follow each other: so many in so many nanoseconds, neither of them 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Frames.
    pub frames: u64,
    /// Nanoseconds.
    pub per_ns: u64,
}

impl Pace {
    /// A frame every so many nanoseconds.
    pub fn every(period_ns: u64) -> Self {
        Self {
            frames: 1,
            per_ns: period_ns,
        }
    }

    /// So many frames a second.
    pub fn per_second(frames: u64) -> Self {
        Self {
            frames,
            per_ns: 1_000_000_000,
        }
    }

    /// When a frame is due, counted from the first, which is number 0. Never rounded twice, so that no
    /// rate drifts.
    pub(crate) fn due(self, number: u64) -> Nanos {
        let due = u128::from(number) * u128::from(self.per_ns) / u128::from(self.frames.max(1));
        Nanos::try_from(due).unwrap_or(Nanos::MAX)
    }
}

/// What a generator makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorConfig {
    /// What people call it.
    pub name: String,
    /// The ingress port that its frames have; there need not be one of that number.
    pub port: PortId,
    /// The frames, in turn, from the first again after the last.
    pub frames: Arc<[Box<[u8]>]>,
    /// How fast they follow each other.
    pub pace: Pace,
    /// How many a run has; none goes on for ever.
    pub count: Option<u64>,
}

/// What a control call changes of a generator: what is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorChange {
    /// [`GeneratorConfig::name`].
    pub name: Option<String>,
    /// [`GeneratorConfig::port`].
    pub port: Option<PortId>,
    /// [`GeneratorConfig::frames`].
    pub frames: Option<Arc<[Box<[u8]>]>>,
    /// [`GeneratorConfig::pace`].
    pub pace: Option<Pace>,
    /// [`GeneratorConfig::count`].
    pub count: Option<Option<u64>>,
    /// Whether it runs from now on.
    pub runs: Option<bool>,
}

impl GeneratorChange {
    /// Whether something of what it makes changes.
    pub(crate) fn is_of_config(&self) -> bool {
        self.port.is_some() || self.frames.is_some() || self.pace.is_some() || self.count.is_some()
    }

    /// What is changed, written over what was there.
    pub fn apply(&self, config: &mut GeneratorConfig) {
        let change = self.clone();
        config.name = change.name.unwrap_or_else(|| config.name.clone());
        config.port = change.port.unwrap_or(config.port);
        config.frames = change.frames.unwrap_or_else(|| Arc::clone(&config.frames));
        config.pace = change.pace.unwrap_or(config.pace);
        config.count = change.count.unwrap_or(config.count);
    }
}

/// What a generator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeneratorState {
    /// Nothing, until it is started.
    Stopped,
    /// Its frames come when they are due.
    Running,
    /// All frames of its run have come.
    Finished,
}

impl GeneratorState {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Running => "running",
            Self::Finished => "finished",
        }
    }
}

/// What a generator has made, in all of its runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratorCounters {
    /// Frames that came in.
    pub sent: u64,
    /// Frames that were refused as they came in, each with a drop reason of the switch's.
    pub dropped: u64,
    /// Frames, of both kinds, that were made when the next one was due already.
    pub late: u64,
    /// The longest time that one was made after it was due, in nanoseconds.
    pub late_max_ns: u64,
}

/// A generator, as a control plane reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorStatus {
    /// Chosen by the control plane, from 1.
    pub id: u32,
    /// What it makes.
    pub config: GeneratorConfig,
    /// What it does.
    pub state: GeneratorState,
    /// What it has made.
    pub counters: GeneratorCounters,
}
