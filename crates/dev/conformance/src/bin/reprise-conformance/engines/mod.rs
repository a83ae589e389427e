//! Compares the native engine with the interpreter on a given number of random packets.
//!
//! Every STF file runs with every choice of optimisations (none, all, each alone, each pair, all except one). Then the
//! packets are divided among the suite's programs (the SFU programs and every program with a packet test), and among
//! conferences on the SFU programs in which viewers join and leave. Each packet goes to the interpreter and to several
//! native engines, each with another choice of optimisations. A case is a sequence of packets and control calls for one
//! program, and a round has at least one case of each program. The choices change from round to round, so that each
//! choice is tested with each program. A difference is reduced to few steps, and printed with the command that
//! reproduces the difference.

mod report;
mod subjects;

use std::{
    io::IsTerminal,
    num::NonZero,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use conformance::engines::{
    Activity, Make, Mismatch, choices, names_of, native, stf_failures, stf_files,
};
use dataplane::Switch;
use dataplane_jit::NativeOptions;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::args::{Args, Engines};
use crate::failure::Failure;
use crate::output;
use crate::pool::processors;
use crate::run::conclude;
use report::{Found, Report};
use subjects::{Subject, order, subjects};

/// The run ends after this number of differences.
const DIFFERENCES_MAX: usize = 10;
/// The interval between progress messages if standard error is no terminal and cannot show a progress bar.
const REPORT_EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Outcome {
    n_cases: u64,
    n_comparisons: u64,
    seen: Vec<Activity>,
    reached: Vec<Vec<u64>>,
    found: Vec<Found>,
    reported_at: Option<Instant>,
}

struct Run {
    arguments: Engines,
    subjects: Vec<Subject>,
    order: Vec<usize>,
    choices: Vec<NativeOptions>,
    next: AtomicU64,
    outcome: Mutex<Outcome>,
    bar: ProgressBar,
    began: Instant,
}

impl Run {
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_threads(&self, work: impl Fn() + Sync) {
        let threads = self.arguments.threads;
        std::thread::scope(|scope| {
            for _ in 0..threads.map_or_else(processors, NonZero::get) {
                scope.spawn(&work);
            }
        });
    }

    /// Runs every STF file with every choice of optimisations. Returns the number of files and the failures.
    fn stf(&self) -> (usize, Vec<String>) {
        let files = stf_files();
        self.bar.set_length(files.len() as u64);
        let next = AtomicU64::new(0);
        let failures = Mutex::new(Vec::new());
        self.on_threads(|| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(path) = usize::try_from(at).ok().and_then(|at| files.get(at)) else {
                    return;
                };
                let failed = stf_failures(path, &self.choices);
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.extend(failed);
                self.bar.inc(1);
            }
        });
        let failures = failures.into_inner();
        (
            files.len(),
            failures.unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Returns the index of a case's subject (the program that the case runs), and the choices of optimisations to
    /// compare: all choices if only this case runs (`--case`), or some choices, which change each round, if all cases
    /// run.
    fn plan(&self, number: u64) -> (usize, Vec<usize>) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let (subject, round) = (number % self.order.len(), number / self.order.len());
        let n_all = self.choices.len();
        let n_choices = match self.arguments.case {
            Some(_) => n_all,
            None => self.arguments.choices.get().min(n_all),
        };
        // Adjacent cases start with different choices, so that even a short run covers every choice.
        let first = round.wrapping_mul(n_choices).wrapping_add(subject);
        let choices = (0..n_choices).map(|n| first.wrapping_add(n) % n_all);
        (self.order[subject], choices.collect())
    }

    fn run_case(&self, number: u64) {
        let (at, choices) = self.plan(number);
        let subject = &self.subjects[at];
        let path = subject.path.as_path();
        let is_out = self.outcome().found.iter().any(|it| it.path == path);
        if is_out {
            return;
        }
        let seed = self.arguments.seed.wrapping_add(number);
        let case = subject.case(seed, self.arguments.frames.get());
        let engines = choices.iter().map(|choice| native(self.choices[*choice]));
        let engines: Vec<_> = engines.collect();
        let makes: Vec<Make<'_>> = engines.iter().map(|it| it as Make<'_>).collect();
        let ran = case.compare_each(&subject.program, &Switch::new, &makes);
        let mut outcome = self.outcome();
        match ran {
            Ok(activity) => {
                outcome.n_cases += 1;
                outcome.n_comparisons += activity.packets * choices.len() as u64;
                outcome.seen[at] = outcome.seen[at].plus(activity);
                for choice in choices {
                    outcome.reached[at][choice] += activity.packets;
                }
                self.bar.inc(activity.packets);
                self.report_progress(&mut outcome);
            }
            Err(Mismatch {
                engine,
                description,
            }) => {
                let found = Found {
                    path: path.to_owned(),
                    choice: names_of(self.choices[choices[engine]]),
                    case: number,
                    seed: self.arguments.seed,
                    frames: self.arguments.frames.get(),
                    description,
                };
                self.bar
                    .suspend(|| output::error_text(format_args!("{found}\n")));
                outcome.found.push(found);
            }
        }
    }

    /// Prints a progress message at intervals if there is no terminal for the progress bar.
    fn report_progress(&self, outcome: &mut Outcome) {
        if std::io::stderr().is_terminal() {
            return;
        }
        let reported_at = *outcome.reported_at.get_or_insert(self.began);
        if reported_at.elapsed() >= REPORT_EVERY {
            outcome.reported_at = Some(Instant::now());
            let [sent, all] = [self.bar.position(), self.arguments.packets].map(HumanCount);
            let (seconds, n_found) = (self.began.elapsed().as_secs(), outcome.found.len());
            output::error_line(format_args!(
                "{sent} of {all} packets, {seconds} s, {n_found} differences"
            ));
        }
    }

    fn work(&self) {
        loop {
            let is_over = {
                let n_found = self.outcome().found.len();
                n_found >= DIFFERENCES_MAX.min(self.subjects.len())
            };
            if is_over || self.bar.position() >= self.arguments.packets {
                return;
            }
            self.run_case(self.next.fetch_add(1, Ordering::Relaxed));
        }
    }
}

fn bar() -> ProgressBar {
    let template = "{bar:40} {human_pos} of {human_len} {prefix}, {per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(0);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Runs the packet tests and all cases, and prints the report.
pub fn engines(args: &Args, arguments: &Engines) -> Result<(), Failure> {
    let report = compare(arguments)?;
    if !args.json {
        output::piece(&report);
    }
    let n = report.n_differences();
    let failure = (n > 0).then(|| Failure::new(output::count(n, "difference")));
    conclude(args, report.to_json(), failure)
}

fn compare(arguments: &Engines) -> Result<Report, Failure> {
    let subjects = subjects().map_err(Failure::new)?;
    let choices = choices();
    let outcome = Outcome {
        seen: vec![Activity::default(); subjects.len()],
        reached: vec![vec![0; choices.len()]; subjects.len()],
        ..Outcome::default()
    };
    let run = Run {
        arguments: arguments.clone(),
        order: order(&subjects),
        subjects,
        choices,
        next: AtomicU64::new(0),
        outcome: Mutex::new(outcome),
        bar: bar(),
        began: Instant::now(),
    };
    let mut stf = (0, Vec::new());
    match run.arguments.case {
        Some(number) => run.run_case(number),
        None => {
            run.bar.set_prefix("STF files");
            stf = run.stf();
            run.bar.reset();
            run.bar.set_prefix("packets");
            run.bar.set_length(run.arguments.packets);
            run.on_threads(|| run.work());
        }
    }
    run.bar.finish_and_clear();
    Ok(run.report(stf))
}

impl Run {
    fn report(self, (stf_files, stf_failures): (usize, Vec<String>)) -> Report {
        let outcome = self.outcome.into_inner();
        let outcome = outcome.unwrap_or_else(PoisonError::into_inner);
        let programs = report::by_program(&self.subjects, &outcome.seen);
        let pairs = outcome.reached.iter().flatten();
        Report {
            stf_files,
            stf_failures,
            packets: outcome.seen.iter().map(|it| it.packets).sum(),
            comparisons: outcome.n_comparisons,
            cases: outcome.n_cases,
            programs,
            choices: self.choices.len(),
            packets_of_a_pair_min: pairs.min().copied().unwrap_or(0),
            seed: self.arguments.seed,
            seconds: self.began.elapsed().as_secs_f64(),
            found: outcome.found,
        }
    }
}
