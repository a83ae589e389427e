//! Random packets through the native engine and the interpreter, as many as one likes.
//!
//! `cargo run --release -p conformance --example engines -- --packets 10000000` spreads them over
//! the suite's programs and every choice of optimisations: none, all, each alone, two and two. A
//! difference is shrunk and printed, and ends the run with an error.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use conformance::engines::{Case, choices, native, programs};
use dataplane::{Program, Switch};
use indicatif::{ProgressBar, ProgressStyle};

/// Frames of one case: enough for queues and tables to matter, few enough to be shrunk.
const FRAMES_PER_CASE: usize = 400;

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

struct Run {
    programs: Vec<(PathBuf, Program)>,
    arguments: Arguments,
    sent: AtomicU64,
    next: AtomicU64,
    is_over: AtomicBool,
    bar: ProgressBar,
}

impl Run {
    /// One case after the other until enough packets were sent; whether all agreed.
    fn work(&self) {
        let choices = choices();
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let at = usize::try_from(number).unwrap_or(0);
            let (path, program) = &self.programs[at % self.programs.len()];
            let options = choices[at / self.programs.len() % choices.len()];
            let seed = self.arguments.seed.wrapping_add(number);
            let case = Case::random(program, seed, FRAMES_PER_CASE);
            if let Some(difference) = case.compare(program, &Switch::new, &native(options)) {
                self.is_over.store(true, Ordering::Relaxed);
                let path = path.display();
                let text = format!("{path}: {options:?}, seed {seed}: {difference}");
                self.bar.abandon_with_message("different");
                eprintln!("{text}");
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

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut loaded = Vec::new();
    for path in programs() {
        match stf::load(&path, &p4_compiler::Options::default()) {
            Ok(program) => loaded.push((path, program)),
            Err(error) => eprintln!("left out: {error}"),
        }
    }
    if loaded.is_empty() {
        return ExitCode::from(2);
    }
    let template = "{bar:40} {human_pos} of {human_len} packets, {per_sec}, {eta} left {msg}";
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(arguments.packets);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let run = Run {
        programs: loaded,
        arguments,
        sent: AtomicU64::new(0),
        next: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        bar,
    };
    std::thread::scope(|scope| {
        for _ in 0..run.arguments.threads {
            scope.spawn(|| run.work());
        }
    });
    if run.is_over.load(Ordering::Relaxed) {
        return ExitCode::FAILURE;
    }
    run.bar.finish();
    println!(
        "{} packets, {} cases, {} programs, {} choices of optimisations, seed {}: no difference",
        run.sent.load(Ordering::Relaxed),
        run.next.load(Ordering::Relaxed),
        run.programs.len(),
        choices().len(),
        run.arguments.seed
    );
    ExitCode::SUCCESS
}
