//! Configuration, state and counters of a packet generator.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Nanos, PortId};

/// The rate of a generator: `frames` in `per_ns` nanoseconds, both at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Number of frames.
    pub frames: u64,
    /// Period in nanoseconds.
    pub per_ns: u64,
}

impl Pace {
    /// One frame every `period_ns`.
    pub fn every(period_ns: u64) -> Self {
        Self {
            frames: 1,
            per_ns: period_ns,
        }
    }

    /// `frames` frames a second.
    pub fn per_second(frames: u64) -> Self {
        Self {
            frames,
            per_ns: 1_000_000_000,
        }
    }

    /// When frame `number` is due, in nanoseconds after frame 0. The time is always computed from frame 0, so that
    /// rounding errors do not accumulate.
    pub(crate) fn due(self, number: u64) -> Nanos {
        let due = u128::from(number) * u128::from(self.per_ns) / u128::from(self.frames.max(1));
        Nanos::try_from(due).unwrap_or(Nanos::MAX)
    }
}

/// What a generator sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorConfig {
    /// A name for people.
    pub name: String,
    /// The frames' ingress port, which need not exist.
    pub port: PortId,
    /// The frames, sent in order; after the last frame the generator continues with the first.
    pub frames: Arc<[Box<[u8]>]>,
    /// The rate of frames.
    pub pace: Pace,
    /// Frames in a run; `None` is endless.
    pub count: Option<u64>,
}

/// Changes to a generator; `None` fields stay as they are.
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
    /// Starts or stops the generator.
    pub runs: Option<bool>,
}

impl GeneratorChange {
    /// Whether the change affects the frames, their port or their times. Such a change restarts the run.
    pub(crate) fn is_of_config(&self) -> bool {
        self.port.is_some() || self.frames.is_some() || self.pace.is_some() || self.count.is_some()
    }

    /// Writes the changes into a configuration.
    pub fn apply(&self, config: &mut GeneratorConfig) {
        let change = self.clone();
        config.name = change.name.unwrap_or_else(|| config.name.clone());
        config.port = change.port.unwrap_or(config.port);
        config.frames = change.frames.unwrap_or_else(|| Arc::clone(&config.frames));
        config.pace = change.pace.unwrap_or(config.pace);
        config.count = change.count.unwrap_or(config.count);
    }
}

/// Whether a generator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeneratorState {
    /// Waits for a start.
    Stopped,
    /// Makes frames when they are due.
    Running,
    /// Has made all frames of its run.
    Finished,
}

impl GeneratorState {
    /// The state in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Running => "running",
            Self::Finished => "finished",
        }
    }
}

/// Counters of a generator, over all of its runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratorCounters {
    /// Frames that the switch accepted.
    pub sent: u64,
    /// Frames that the switch refused; each also counts as a drop of the switch.
    pub dropped: u64,
    /// Frames, accepted or refused, that the generator made so late that the following frame was already due.
    pub late: u64,
    /// The longest delay of a frame after its due time.
    pub late_max_ns: u64,
}

/// A generator as the control plane reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorStatus {
    /// Chosen by the control plane, from 1.
    pub id: u32,
    /// What the generator sends.
    pub config: GeneratorConfig,
    /// Whether the generator runs.
    pub state: GeneratorState,
    /// Totals over all runs.
    pub counters: GeneratorCounters,
}
