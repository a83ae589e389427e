//! Random packets through the native engine and the interpreter, as many as one likes.
//!
//! `cargo run --release -p conformance --example engines -- --packets 10000000` runs every STF file
//! with every choice of optimisations (none, all, each alone, two and two), then spreads the packets
//! over the choices and the suite's programs, and conferences with viewers who join and leave on the
//! SFU's. A difference is shrunk and printed with what makes it again, and ends the run with an error.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use conformance::{
    compile::root,
    engines::{Case, Script, choices, names_of, native, programs, stf_failures, stf_files},
    sfu::SfuProgram,
};
use dataplane::{Program, Switch};
use dataplane_jit::NativeOptions;
use indicatif::{ProgressBar, ProgressStyle};

/// Frames of one case: enough for queues and tables to matter, few enough to be shrunk.
const FRAMES_PER_CASE: usize = 400;
/// Conferences of each SFU program.
const CONFERENCES: u64 = 8;

struct Arguments {
    packets: u64,
    seed: u64,
    threads: usize,
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments {
        packets: 1_000_000,
        seed: 1,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut given = std::env::args().skip(1);
    while let Some(option) = given.next() {
        let text = given.next().unwrap_or_default();
        let number = text
            .parse::<u64>()
            .map_err(|_| format!("{option}: expected a number, found `{text}`"))?;
        match option.as_str() {
            "--packets" => out.packets = number,
            "--seed" => out.seed = number,
            "--threads" => out.threads = usize::try_from(number).unwrap_or(1).max(1),
            other => {
                return Err(format!(
                    "unknown option `{other}`; there are --packets, --seed, --threads"
                ));
            }
        }
    }
    Ok(out)
}

/// A program with where its cases come from: its own parser and tables, or conferences.
struct Subject {
    path: PathBuf,
    program: Program,
    scripts: Vec<Script>,
}

struct Run {
    subjects: Vec<Subject>,
    choices: Vec<NativeOptions>,
    arguments: Arguments,
    sent: AtomicU64,
    next: AtomicU64,
    is_over: AtomicBool,
    bar: ProgressBar,
}

impl Run {
    /// Every STF file with every choice; whether all passed.
    fn stf(&self) -> bool {
        let files = stf_files();
        self.bar.set_length(files.len() as u64);
        let next = AtomicU64::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(path) = usize::try_from(at).ok().and_then(|at| files.get(at)) else {
                    return;
                };
                for failure in stf_failures(path, &self.choices) {
                    self.is_over.store(true, Ordering::Relaxed);
                    self.bar.suspend(|| eprintln!("{failure}"));
                }
                self.bar.inc(1);
            }
        };
        self.on_threads(work);
        let is_right = !self.is_over.load(Ordering::Relaxed);
        if is_right {
            let (files, choices) = (files.len(), self.choices.len());
            self.bar
                .suspend(|| println!("{files} STF files, {choices} choices: no difference"));
        }
        is_right
    }

    fn on_threads(&self, work: impl Fn() + Sync) {
        std::thread::scope(|scope| {
            for _ in 0..self.arguments.threads {
                scope.spawn(&work);
            }
        });
    }

    fn case(&self, subject: &Subject, seed: u64) -> Case {
        let n_scripts = subject.scripts.len().max(1) as u64;
        let script = usize::try_from(seed % n_scripts).ok();
        match script.and_then(|script| subject.scripts.get(script)) {
            Some(script) => Case::conference(&subject.program, script, seed, FRAMES_PER_CASE),
            None => Case::random(&subject.program, seed, FRAMES_PER_CASE),
        }
    }

    /// One case after the other until enough packets were sent, or one has shown a difference.
    fn work(&self) {
        let (subjects, choices) = (&self.subjects, &self.choices);
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let at = usize::try_from(number).unwrap_or(0);
            let subject = &subjects[at % subjects.len()];
            let options = choices[at / subjects.len() % choices.len()];
            let seed = self.arguments.seed.wrapping_add(number);
            let case = self.case(subject, seed);
            let program = &subject.program;
            if let Some(difference) = case.compare(program, &Switch::new, &native(options)) {
                self.is_over.store(true, Ordering::Relaxed);
                let (path, told) = (subject.path.display(), names_of(options));
                self.bar.abandon_with_message("different");
                eprintln!("{path}: optimisations {told}, seed {seed}: {difference}");
                return;
            }
            let frames = case.n_frames() as u64;
            self.bar.inc(frames);
            if self.sent.fetch_add(frames, Ordering::Relaxed) + frames >= self.arguments.packets {
                return;
            }
        }
    }
}

fn load(path: PathBuf, scripts: Vec<Script>) -> Option<Subject> {
    match stf::load(&path, &p4_compiler::Options::default()) {
        Ok(program) => Some(Subject {
            path,
            program,
            scripts,
        }),
        Err(error) => {
            eprintln!("left out: {error}");
            None
        }
    }
}

fn subjects(seed: u64) -> Vec<Subject> {
    let random = programs().into_iter().map(|path| (path, Vec::new()));
    let conferences = SfuProgram::ALL.into_iter().map(|program| {
        let seeds = (0..CONFERENCES).map(|number| seed.wrapping_add(number));
        let scripts = seeds.map(|seed| Script::record(program, seed)).collect();
        (root().join(program.path()), scripts)
    });
    let all = random.chain(conferences);
    all.filter_map(|(path, scripts)| load(path, scripts))
        .collect()
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let subjects = subjects(arguments.seed);
    if subjects.is_empty() {
        return ExitCode::from(2);
    }
    let template = "{bar:40} {human_pos} of {human_len} {prefix}, {per_sec}, {eta} left {msg}";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(arguments.packets);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let run = Run {
        subjects,
        choices: choices(),
        arguments,
        sent: AtomicU64::new(0),
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        bar: bar.with_prefix("STF files"),
    };
    if !run.stf() {
        return ExitCode::FAILURE;
    }
    run.bar.reset();
    run.bar.set_prefix("packets");
    run.bar.set_length(run.arguments.packets);
    run.on_threads(|| run.work());
    if run.is_over.load(Ordering::Relaxed) {
        return ExitCode::FAILURE;
    }
    run.bar.finish();
    println!(
        "{} packets, {} cases, {} programs, {} choices of optimisations, seed {}: no difference",
        run.sent.load(Ordering::Relaxed),
        run.next.load(Ordering::Relaxed),
        run.subjects.len(),
        run.choices.len(),
        run.arguments.seed
    );
    ExitCode::SUCCESS
}
