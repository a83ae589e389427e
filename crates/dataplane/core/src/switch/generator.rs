//! The packet generator: makes frames in a cycle at a fixed rate, as if a port had received them.
//!
//! Generators belong to the switch and survive a change of program. The caller supplies the time: it reads
//! [`Switch::next_generated`] and calls [`Switch::generate`] at that time. No frame is skipped: an overdue frame is
//! made as soon as possible, up to [`limits::GENERATOR_BURST_FRAMES`] at once. So if a generator is faster than the
//! switch, its frames are made later and later, as if they waited in an endless receive ring.

use crate::{
    GeneratorChange, GeneratorConfig, GeneratorCounters, GeneratorState, GeneratorStatus, Nanos,
    limits, switch::Switch,
};

#[derive(Debug, Clone, Copy)]
enum Run {
    Stopped,
    /// Starts at the next call of [`Switch::generate`], which supplies the time.
    Begins,
    Goes {
        began: Nanos,
        n_made: u64,
    },
    Finished,
}

#[derive(Debug, Clone)]
pub(crate) struct Generator {
    pub(crate) id: u32,
    pub(crate) config: GeneratorConfig,
    run: Run,
    /// Frames that the generator may still make before the next [`Switch::generate`].
    n_allowed: usize,
    counters: GeneratorCounters,
}

impl Generator {
    pub(crate) fn new(id: u32, config: GeneratorConfig, runs: bool) -> Self {
        let run = if runs { Run::Begins } else { Run::Stopped };
        Self {
            id,
            config,
            run,
            n_allowed: 0,
            counters: GeneratorCounters::default(),
        }
    }

    /// Applies a change. A change of frames, pace, port or count restarts the run; starting a running generator has no
    /// effect.
    pub(crate) fn change(&mut self, change: &GeneratorChange, config: GeneratorConfig) {
        let was_running = matches!(self.run, Run::Begins | Run::Goes { .. });
        let runs = change.runs.unwrap_or(was_running);
        self.config = config;
        self.run = match self.run {
            _ if !runs && was_running => Run::Stopped,
            run if !runs => run,
            Run::Goes { .. } if !change.is_of_config() => self.run,
            _ => Run::Begins,
        };
    }

    pub(crate) fn status(&self) -> GeneratorStatus {
        GeneratorStatus {
            id: self.id,
            config: self.config.clone(),
            state: match self.run {
                Run::Stopped => GeneratorState::Stopped,
                Run::Begins | Run::Goes { .. } => GeneratorState::Running,
                Run::Finished => GeneratorState::Finished,
            },
            counters: self.counters,
        }
    }

    /// When the next frame is due; at once if the run has not started.
    fn next_due(&self) -> Option<Nanos> {
        match self.run {
            Run::Stopped | Run::Finished => None,
            Run::Begins => Some(0),
            Run::Goes { began, n_made } => Some(began.saturating_add(self.config.pace.due(n_made))),
        }
    }

    /// Starts a pending run, and returns the number of the frame that is due, if any.
    fn due(&mut self, now: Nanos) -> Option<u64> {
        if matches!(self.run, Run::Begins) {
            self.run = Run::Goes {
                began: now,
                n_made: 0,
            };
        }
        let is_due = self.next_due().is_some_and(|due| due <= now);
        match self.run {
            Run::Goes { n_made, .. } if is_due => Some(n_made),
            _ => None,
        }
    }

    fn frame(&self, number: u64) -> &[u8] {
        let n_frames = self.config.frames.len() as u64;
        let place = number.checked_rem(n_frames).unwrap_or(0);
        let place = usize::try_from(place).expect("less than the length of a list");
        self.config.frames.get(place).map_or(&[], |frame| frame)
    }

    /// Counts frame `number`, which the switch accepted or refused.
    fn count(&mut self, now: Nanos, number: u64, is_taken: bool) {
        let Run::Goes { began, .. } = self.run else {
            return;
        };
        let due = |number| began.saturating_add(self.config.pace.due(number));
        let counters = &mut self.counters;
        if is_taken {
            counters.sent += 1;
        } else {
            counters.dropped += 1;
        }
        let late_ns = now.saturating_sub(due(number));
        counters.late += u64::from(late_ns > 0 && now >= due(number + 1));
        counters.late_max_ns = counters.late_max_ns.max(late_ns);
        let n_made = number + 1;
        self.run = match self.config.count {
            Some(count) if n_made >= count => Run::Finished,
            _ => Run::Goes { began, n_made },
        };
    }
}

impl Switch {
    /// When the next frame of any generator is due; 0 if a generator waits for its first frame.
    pub fn next_generated(&self) -> Option<Nanos> {
        self.generators.iter().filter_map(Generator::next_due).min()
    }

    /// Makes the frames that are due and accepts them into the switch: at most [`limits::GENERATOR_BURST_FRAMES`] per
    /// generator. Returns their number. The caller calls this at the time of [`Switch::next_generated`], and then
    /// [`Switch::poll_transmit`] as after [`Switch::handle_frame`].
    pub fn generate(&mut self, now: Nanos) -> usize {
        for generator in &mut self.generators {
            generator.n_allowed = limits::GENERATOR_BURST_FRAMES;
        }
        self.generate_more(now)
    }

    /// Makes the frames that became due since the last [`Switch::generate`]. That call and all calls of this method
    /// after it together make at most [`limits::GENERATOR_BURST_FRAMES`] frames per generator. A caller that transmits
    /// for long calls this in between, so that frames are made on time.
    pub fn generate_more(&mut self, now: Nanos) -> usize {
        if self.generators.is_empty() {
            return 0;
        }
        let now = self.model.state.advance(now);
        // The generators are moved out, because accepting a frame borrows the whole switch.
        let mut generators = std::mem::take(&mut self.generators);
        let mut n_made = 0;
        for generator in &mut generators {
            n_made += self.generate_some(now, generator);
        }
        self.generators = generators;
        n_made
    }

    fn generate_some(&mut self, now: Nanos, generator: &mut Generator) -> usize {
        let mut n_made = 0;
        while generator.n_allowed > 0
            && let Some(number) = generator.due(now)
        {
            let port = generator.config.port;
            let is_taken = self.take_in(now, port, generator.frame(number));
            generator.count(now, number, is_taken);
            generator.n_allowed -= 1;
            n_made += 1;
        }
        n_made
    }
}
