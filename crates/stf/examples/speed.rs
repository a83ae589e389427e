//! Nanoseconds a packet of several programs that pass the same test.
//!
//! `cargo run --release -p stf --example speed -- TEST.stf PROGRAM...`: sets each program up with
//! the test's commands, gives it the test's packets over and over, and prints the median of several
//! runs. The runs of the programs alternate, so that a machine that grows slower favours none. The
//! time to set up is taken off by comparing runs of different length; comparing what leaves with
//! what is expected is in the time, the same for all programs.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement stops at what it did not expect"
)]

use std::path::PathBuf;
use std::time::Instant;

use stf::Command;

const RUNS: usize = 9;
/// How often the packets are given in the short run; the long one gives twice as many.
const ROUNDS: usize = 1_000;

/// The test with its packets repeated.
fn repeated(commands: &[(usize, Command)], rounds: usize) -> Vec<(usize, Command)> {
    let is_traffic =
        |command: &Command| matches!(command, Command::Packet(..) | Command::Expect(..));
    let (traffic, set_up): (Vec<_>, Vec<_>) = commands
        .iter()
        .cloned()
        .partition(|(_, command)| is_traffic(command));
    let mut all = set_up;
    for _ in 0..rounds {
        all.extend(traffic.iter().cloned());
    }
    all
}

fn seconds(program: &dataplane::Program, commands: &[(usize, Command)]) -> f64 {
    let start = Instant::now();
    let outcome = stf::run(program.clone(), commands, None);
    let took = start.elapsed().as_secs_f64();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    took
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let test = arguments.next().unwrap();
    let text = std::fs::read_to_string(&test).unwrap();
    let commands = stf::parse(&text).unwrap();
    let paths: Vec<PathBuf> = arguments.collect();
    let options = p4_compiler::Options::default();
    let programs: Vec<_> = paths
        .iter()
        .map(|path| stf::load(path, &options).unwrap())
        .collect();
    let (short, long) = (repeated(&commands, ROUNDS), repeated(&commands, 2 * ROUNDS));
    let is_packet = |(_, command): &&(usize, Command)| matches!(command, Command::Packet(..));
    let n_packets =
        (long.iter().filter(is_packet).count() - short.iter().filter(is_packet).count()) as f64;
    let mut times = vec![Vec::new(); programs.len()];
    for _ in 0..RUNS {
        for (program, times) in programs.iter().zip(&mut times) {
            let took = seconds(program, &long) - seconds(program, &short);
            times.push(1e9 * took / n_packets);
        }
    }
    for (path, times) in paths.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{:8.0} ns  {}", times[RUNS / 2], path.display());
    }
}
