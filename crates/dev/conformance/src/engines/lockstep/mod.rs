//! Runs engines in lockstep. The switches get the same frames, control calls and times, and everything visible is
//! compared: frames in their order, packet-ins, digests, idle timeouts, every counter, drops by reason, entries,
//! registers, waiting packets and their due times. If a case shows a difference, its steps are reduced to few steps
//! that still show a difference.

mod frames;
mod state;
mod switches;
mod write;

use std::fmt::Write as _;

use dataplane::{Nanos, PortId, Program, Switch, SwitchConfig};
use dataplane_jit::{NativeFactory, NativeOptions};
use fastrand::Rng;

use switches::{Difference, Lockstep};

pub use frames::random as random_frame;
pub use switches::Activity;
pub use write::{PORTS, Write, Writer, written};

/// Maximum number of entries in each table at the beginning.
const ENTRIES_PER_TABLE: usize = 6;
/// Maximum number of recirculated packets per second, so that an endless recirculation does not stop a test.
const RECIRCULATION_PPS: u64 = 100_000;
/// The length of a short queue. Some queues are short, so that they are sometimes full.
const SHORT_QUEUE: usize = 24;
/// Maximum number of runs to reduce one case to few steps.
const SHRINKS_MAX: usize = 3_000;

/// One input for all switches.
#[derive(Debug, Clone)]
pub enum Step {
    /// Gives the switches a frame, and takes all frames that leave the switches.
    Frame(PortId, Vec<u8>),
    /// Gives the switches a frame and takes nothing, so that queues fill.
    Queue(PortId, Vec<u8>),
    Write(Write),
    /// Advances the time, in nanoseconds.
    Wait(Nanos),
}

#[derive(Debug, Clone)]
pub struct Case {
    config: SwitchConfig,
    steps: Vec<Step>,
}

/// Makes a switch with one engine, without ports and without a program.
pub type Make<'a> = &'a dyn Fn(SwitchConfig) -> Switch;

pub fn native(options: NativeOptions) -> impl Fn(SwitchConfig) -> Switch {
    move |config| Switch::with_engine(config, Box::new(NativeFactory { options }))
}

/// Returns the choices of optimisations to test: none, all, each alone, each pair, and, for each optimisation, all
/// others without it.
pub fn choices() -> Vec<NativeOptions> {
    let mut choices = vec![NativeOptions::NAIVE, NativeOptions::ALL];
    let names = NativeOptions::NAMES;
    for (position, one) in names.iter().enumerate() {
        for other in &names[position..] {
            let mut options = NativeOptions::NAIVE;
            for name in [one, other] {
                if let Some(on) = options.by_name_mut(name) {
                    *on = true;
                }
            }
            choices.push(options);
        }
        let mut others = NativeOptions::ALL;
        if let Some(on) = others.by_name_mut(one) {
            *on = false;
        }
        choices.push(others);
    }
    choices
}

/// Returns a choice as written on command lines: `none`, or names separated by commas.
pub fn names_of(mut options: NativeOptions) -> String {
    let mut on = |name: &&str| options.by_name_mut(name).is_some_and(|on| *on);
    let on: Vec<&str> = NativeOptions::NAMES
        .into_iter()
        .filter(|it| on(it))
        .collect();
    if on.is_empty() {
        "none".to_owned()
    } else {
        on.join(",")
    }
}

/// A difference, after its case was reduced to few steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The position of the engine among the compared engines.
    pub engine: usize,
    /// Describes the step that showed the difference, the expected and the found values, and the steps that lead to the
    /// difference.
    pub description: String,
}

impl Case {
    /// Makes a case of random entries, calls, times, and `n_frames` frames.
    pub fn random(program: &Program, seed: u64, n_frames: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let config = random_config(&mut rng);
        let mut writer = Writer::new(program, &mut rng);
        let writes = writer.set_up(ENTRIES_PER_TABLE);
        let mut steps: Vec<Step> = writes.into_iter().map(Step::Write).collect();
        for _ in 0..n_frames {
            if writer.rng().u8(..12) == 0 {
                let write = writer.any();
                steps.push(Step::Write(write));
            }
            let rng = writer.rng();
            if rng.u8(..3) == 0 {
                steps.push(Step::Wait(rng.u64(..1_500_000)));
            }
            let port = match rng.u8(..40) {
                0 => config.cpu_port.unwrap_or(PortId(PORTS)),
                _ => PortId(rng.u16(..PORTS)),
            };
            let frame = random_frame(program.ir(), rng);
            steps.push(match rng.u8(..6) {
                0 => Step::Queue(port, frame),
                _ => Step::Frame(port, frame),
            });
        }
        Self { config, steps }
    }

    /// Adds these calls before all steps.
    #[must_use]
    pub fn behind(mut self, writes: &[Write]) -> Self {
        self.steps
            .splice(..0, writes.iter().cloned().map(Step::Write));
        self
    }

    /// Makes frames wait, so that the output is taken only once for every `n_frames` frames.
    #[must_use]
    pub fn with_frames_together(mut self, n_frames: usize) -> Self {
        let mut number = 0;
        for step in &mut self.steps {
            if let Step::Frame(port, frame) | Step::Queue(port, frame) = step {
                number += 1;
                let (port, frame) = (*port, std::mem::take(frame));
                *step = match number % n_frames {
                    0 => Step::Frame(port, frame),
                    _ => Step::Queue(port, frame),
                };
            }
        }
        self
    }

    pub fn new(config: SwitchConfig, steps: Vec<Step>) -> Self {
        Self { config, steps }
    }

    pub fn n_frames(&self) -> usize {
        let is_frame = |step: &&Step| matches!(step, Step::Frame(..) | Step::Queue(..));
        self.steps.iter().filter(is_frame).count()
    }

    /// Runs a program on the interpreter and on native engines with these choices. Returns the first difference,
    /// reduced to few steps, with the choice that differs.
    pub fn compare(&self, program: &Program, choices: &[NativeOptions]) -> Option<String> {
        let makes: Vec<_> = choices.iter().map(|options| native(*options)).collect();
        let engines: Vec<Make<'_>> = makes.iter().map(|make| make as Make<'_>).collect();
        let mismatch = self.compare_each(program, &Switch::new, &engines).err()?;
        let names = names_of(choices[mismatch.engine]);
        Some(format!("{names}: {}", mismatch.description))
    }

    /// Runs two programs, each on its own engine. Returns the first difference, reduced to few steps.
    pub fn compare_programs(
        &self,
        programs: [&Program; 2],
        makes: [Make<'_>; 2],
    ) -> Option<String> {
        let first = self.run(programs, makes[0], &makes[1..]).err()?;
        Some(self.shrink(first, programs, makes))
    }

    /// Runs a program once on a reference engine and on each of these engines.
    ///
    /// # Errors
    /// An engine differs from the reference. The error describes the first difference.
    pub fn compare_each(
        &self,
        program: &Program,
        reference: Make<'_>,
        engines: &[Make<'_>],
    ) -> Result<Activity, Mismatch> {
        let programs = [program, program];
        self.run(programs, reference, engines).map_err(|first| {
            let engine = first.unequal.engine;
            let makes = [reference, engines[engine]];
            let description = self.shrink(first, programs, makes);
            Mismatch {
                engine,
                description,
            }
        })
    }

    fn run(
        &self,
        programs: [&Program; 2],
        reference: Make<'_>,
        engines: &[Make<'_>],
    ) -> Result<Activity, Difference> {
        let reference = prepared(reference, programs[0], &self.config);
        let engines = engines.iter();
        let engines = engines.map(|make| prepared(make, programs[1], &self.config));
        Lockstep::new(reference, engines.collect()).run(self)
    }

    /// Reduces the case to few steps that still show a difference, and describes the difference.
    fn shrink(&self, first: Difference, programs: [&Program; 2], makes: [Make<'_>; 2]) -> String {
        let place = self.place(first.step);
        let mut least = self.clone();
        least.steps.truncate(first.step + 1);
        let mut difference = first;
        let (mut size, mut n_runs) = (least.steps.len() / 2, 0);
        while size > 0 && n_runs < SHRINKS_MAX {
            let mut at = least.steps.len();
            while at > 0 && n_runs < SHRINKS_MAX {
                let from = at.saturating_sub(size);
                let mut smaller = least.clone();
                smaller.steps.drain(from..at);
                n_runs += 1;
                if let Err(found) = smaller.run(programs, makes[0], &makes[1..]) {
                    smaller.steps.truncate(found.step + 1);
                    (least, difference) = (smaller, found);
                }
                at = from.min(least.steps.len());
            }
            size /= 2;
        }
        format!("{place}, shrunk:\n{}", least.describe(&difference))
    }

    /// Returns a step's position, in packets and in steps, counted from 1.
    fn place(&self, step: usize) -> String {
        let is_frame = |step: &&Step| matches!(step, Step::Frame(..) | Step::Queue(..));
        let frames = self.steps.iter().take(step + 1).filter(is_frame).count();
        let (n_steps, n_frames) = (self.steps.len(), self.n_frames());
        format!(
            "packet {frames} of {n_frames}, step {} of {n_steps}",
            step + 1
        )
    }

    fn describe(&self, difference: &Difference) -> String {
        let mut text = format!(
            "expected {}\nfound    {}\n",
            difference.unequal.expected, difference.unequal.found
        );
        // Writing to a string cannot fail.
        let _ = writeln!(text, "with {:?}", self.config);
        for step in &self.steps {
            let _ = match step {
                Step::Frame(port, frame) | Step::Queue(port, frame) => {
                    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
                    let how = match step {
                        Step::Queue(..) => "queue ",
                        _ => "packet",
                    };
                    writeln!(text, "{how} {port} {hex}")
                }
                other => writeln!(text, "{other:?}"),
            };
        }
        text
    }
}

/// Returns a random configuration. In some configurations all queues are short; in some configurations the output is
/// slow.
pub fn random_config(rng: &mut Rng) -> SwitchConfig {
    let mut config = SwitchConfig {
        recirculation_rate_pps: Some(RECIRCULATION_PPS),
        random_seed: rng.u64(..),
        ..SwitchConfig::default()
    };
    if rng.u8(..4) == 0 {
        config.egress_rate_pps = Some(rng.u64(1_000..20_000));
    }
    if rng.u8(..4) == 0 {
        config.ingress_queue_packets = SHORT_QUEUE;
        config.recirculation_queue_packets = SHORT_QUEUE;
        config.egress_queue_packets = SHORT_QUEUE;
    }
    config
}

fn prepared(make: Make<'_>, program: &Program, config: &SwitchConfig) -> Switch {
    let mut switch = make(config.clone());
    // The last port is not added, so that some frames arrive from or leave for a port that does not exist.
    (0..PORTS - 1).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    switch
}
