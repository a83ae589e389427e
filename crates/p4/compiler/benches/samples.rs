//! Measures how long each program of a folder takes to compile, and prints the slowest programs and the median.
//!
//! Run it with `cargo bench -p p4-compiler --bench samples -- [-I DIR]... FOLDER`. Without a folder it measures the
//! programs of this repository. Each program is compiled `RUNS` times and only its fastest run counts, because other
//! load on the machine only adds time. Programs with errors are not measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use p4_compiler::{Options, compile};

const RUNS: usize = 5;
/// The number of programs that are listed, slowest first.
const LISTED: usize = 5;

struct Measured {
    path: PathBuf,
    n_lines: usize,
    fastest: Duration,
}

fn programs(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            programs(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            out.push(path);
        }
    }
}

/// Returns None if the program cannot be read or has errors.
fn measure(path: &Path, options: &Options) -> Option<Measured> {
    let text = fs::read_to_string(path).ok()?;
    let load = |path: &str| fs::read_to_string(path).ok();
    let name = path.display().to_string();
    let mut fastest = Duration::MAX;
    for _ in 0..RUNS {
        let begin = Instant::now();
        let output = compile(&name, &text, &load, options);
        let json = serde_json::to_vec(&output.bmv2_json?).ok()?;
        let taken = begin.elapsed();
        fastest = fastest.min(taken);
        drop(json);
    }
    Some(Measured {
        path: path.to_owned(),
        n_lines: text.lines().count(),
        fastest,
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn main() {
    let mut options = Options::default();
    let mut folders = Vec::new();
    // `cargo bench` adds `--bench` to the arguments.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        if word == "-I" {
            options.include_dirs.extend(words.next());
        } else {
            folders.push(PathBuf::from(word));
        }
    }
    if folders.is_empty() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        folders = ["p4", "testdata"].map(|folder| root.join(folder)).into();
    }
    let mut paths = Vec::new();
    folders
        .iter()
        .for_each(|folder| programs(folder, &mut paths));
    let n_programs = paths.len();
    let mut measured: Vec<Measured> = paths
        .iter()
        .filter_map(|path| measure(path, &options))
        .collect();
    measured.sort_by_key(|program| std::cmp::Reverse(program.fastest));
    for program in measured.iter().take(LISTED) {
        println!(
            "{:9.2} ms  {:6} lines  {}",
            milliseconds(program.fastest),
            program.n_lines,
            program.path.display()
        );
    }
    let Some(median) = measured.get(measured.len() / 2) else {
        println!("no program compiles");
        return;
    };
    let total: Duration = measured.iter().map(|program| program.fastest).sum();
    println!(
        "{} of {n_programs} programs compile; slowest {:.2} ms, median {:.2} ms, all {:.2} ms",
        measured.len(),
        milliseconds(measured[0].fastest),
        milliseconds(median.fastest),
        milliseconds(total)
    );
}
