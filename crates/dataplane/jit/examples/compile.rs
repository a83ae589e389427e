//! Measures how long programs take to compile to machine code, and lists which constructs are left
//! to the interpreter.
//!
//! `cargo run --release -p dataplane-jit --example compile -- [FILE.p4]...` prints CSV: one program per line, with the
//! least time of three rounds. The reasons why constructs are interpreted follow as comments, the most frequent first.
//! Without files the example compiles the P4 programs of this repository.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement reads files and the clock, and prints"
)]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use dataplane::{
    Switch, SwitchConfig,
    engine::{Engine, EngineFactory, Interpreted, State},
    interpret::InterpreterFactory,
};
use dataplane_jit::NativeFactory;
use testkit::repository::files;

const ROUNDS: usize = 3;

/// The result of loading one program: the shortest compile time so far (`None` before the first round), and the
/// constructs that are left to the interpreter.
#[derive(Default)]
struct Loaded {
    took: Option<Duration>,
    interpreted: Vec<Interpreted>,
}

/// An engine factory that compiles the program when a switch loads it, and measures the time. It then gives the switch
/// the interpreter as its engine. No packet ever passes through the switch.
struct Timed(Arc<Mutex<Loaded>>);

impl EngineFactory for Timed {
    fn name(&self) -> &'static str {
        "timed"
    }

    fn load(&self, state: &mut State) -> Box<dyn Engine> {
        let begin = Instant::now();
        let engine = NativeFactory::default().load(state);
        let took = begin.elapsed();
        if let Ok(mut loaded) = self.0.lock() {
            loaded.took = Some(loaded.took.map_or(took, |before| before.min(took)));
            loaded.interpreted = engine.interpreted();
        }
        InterpreterFactory.load(state)
    }
}

fn own_programs() -> Vec<PathBuf> {
    let folders = ["p4", "p4/bench", "testdata/realistic", "testdata/stf"];
    let programs = folders.into_iter().flat_map(|folder| files(folder, "p4"));
    programs.collect()
}

fn main() -> ExitCode {
    let given: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let paths = if given.is_empty() {
        own_programs()
    } else {
        given
    };
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut has_failed = false;
    println!("program,tables,actions,compile_ms,interpreted");
    for path in paths {
        let program = match stf::load(&path, &p4_compiler::Options::default()) {
            Ok(program) => program,
            Err(error) => {
                eprintln!("error: {error}");
                has_failed = true;
                continue;
            }
        };
        let loaded = Arc::new(Mutex::new(Loaded::default()));
        for _ in 0..ROUNDS {
            let factory = Box::new(Timed(Arc::clone(&loaded)));
            Switch::with_engine(SwitchConfig::default(), factory).set_program(program.clone());
        }
        let Ok(loaded) = loaded.lock() else { continue };
        let took = loaded.took.unwrap_or_default().as_secs_f64() * 1e3;
        let name = path.file_stem().unwrap_or_default().display();
        let (tables, actions) = (program.tables().count(), program.ir().actions.len());
        let left = loaded.interpreted.len();
        println!("{name},{tables},{actions},{took:.2},{left}");
        for Interpreted { reason, .. } in &loaded.interpreted {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    for (reason, times) in reasons {
        println!("# {times}: {reason}");
    }
    ExitCode::from(u8::from(has_failed))
}
