//! Measures how long controller calls keep the switch from its ports: the most processor time that the event loop takes
//! between two checks of a port while a large conference is applied, read, exported and deleted.
//!
//! Run `cargo run --release -p reprise-switch --example stops -- [ROUNDS] [VIEWERS] [GROUPS]` in the project's folder,
//! after building `reprise`. Only the loop's own processor time counts, not other work on the machine. The last lines
//! are the medians over the rounds.

#![expect(unsafe_code, reason = "the C library's clock of a thread")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use packet_io::{Nanos, Port, PortError, PortStatistics};
use reprise_switch::Parts;

/// The switch's P4Runtime address.
const GRPC: &str = "127.0.0.1:19559";

/// How long a command waits until the switch is up.
const UP: Duration = Duration::from_secs(10);

/// A port without frames that measures the time since its last check.
struct Watched {
    looked_at: Option<u64>,
    longest_ns: Arc<AtomicU64>,
}

impl Port for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    fn receive(
        &mut self,
        _now: Nanos,
        _max_frames: usize,
        _take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let now = processor_time_ns();
        if let Some(before) = self.looked_at.replace(now) {
            self.longest_ns.fetch_max(now - before, Ordering::Relaxed);
        }
        Ok(0)
    }

    fn transmit(&mut self, _now: Nanos, _frame: packet_io::Frame<'_>) -> Result<(), PortError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn next_frame_at(&self) -> Option<Nanos> {
        Some(0)
    }

    fn statistics(&mut self) -> PortStatistics {
        PortStatistics::default()
    }
}

fn processor_time_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a `timespec` that the call may write.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "no clock for the thread");
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A `conference.yaml` whose viewers are distributed over the groups.
fn conference(n_viewers: u32, n_groups: u32) -> String {
    let mut text = "sfu: {port: 1, ip: 10.0.1.100, mac: '02:00:00:00:01:64'}\ngroups:\n".to_owned();
    for group in 1..=n_groups {
        let [_, _, high, low] = group.to_be_bytes();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  - group: {group}\n    ip: 10.1.{high}.{low}\n    viewers:"
        );
        for viewer in (group - 1..n_viewers).step_by(n_groups as usize) {
            let [_, _, high, low] = viewer.to_be_bytes();
            let _ = writeln!(
                text,
                "      - {{ip: 10.2.{high}.{low}, mac: '02:00:00:00:{high:02x}:{low:02x}'}}"
            );
        }
    }
    text
}

fn reprise(words: &[&str]) -> Result<(), String> {
    let beside = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = beside.parent().and_then(Path::parent);
    let binary: PathBuf = folder.ok_or("no folder")?.join("reprise");
    let mut command = Command::new(&binary);
    command.args(["--switch", GRPC]).args(words);
    let output = command.output();
    let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Runs the controller's steps. Returns the longest time between two checks of the port during each step.
fn steps(longest_ns: &AtomicU64, full: &str, empty: &str) -> Result<Vec<(String, u64)>, String> {
    let began = std::time::Instant::now();
    while let Err(error) = reprise(&["show"]) {
        if began.elapsed() > UP {
            return Err(error);
        }
    }
    let steps = [
        vec!["apply", full],
        vec!["apply", full],
        vec!["show"],
        vec!["export"],
        vec!["apply", empty],
    ];
    let names = [
        "apply",
        "apply, unchanged",
        "show",
        "export",
        "apply, all taken away",
    ];
    let mut stops = Vec::new();
    for (name, words) in names.iter().zip(&steps) {
        longest_ns.store(0, Ordering::Relaxed);
        reprise(words)?;
        stops.push(((*name).to_owned(), longest_ns.load(Ordering::Relaxed)));
    }
    Ok(stops)
}

fn round(full: &str, empty: &str) -> Result<Vec<(String, u64)>, String> {
    let longest_ns = Arc::new(AtomicU64::new(0));
    let port: Box<dyn Port> = Box::new(Watched {
        looked_at: None,
        longest_ns: Arc::clone(&longest_ns),
    });
    let arguments = ["--wait", "spin", "--grpc", GRPC, "p4/sfu.p4"];
    let (report, result) = mpsc::channel();
    let (full, empty) = (full.to_owned(), empty.to_owned());
    let during = move || {
        // The receiver waits in this process.
        let _ = report.send(steps(&longest_ns, &full, &empty));
    };
    reprise_switch::forward(&arguments, &Parts::default(), vec![vec![(1, port)]], during)?;
    result
        .recv()
        .map_err(|_| "nothing was measured".to_owned())?
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1).map(|word| word.parse());
    let mut number = |default| words.next().unwrap_or(Ok(default));
    let said = |error: std::num::ParseIntError| format!("expected a number: {error}");
    let n_rounds = number(5).map_err(said)?.max(1);
    let n_viewers = number(40_960).map_err(said)?.clamp(1, 65_536);
    let n_groups = number(64).map_err(said)?.clamp(1, 65_535);
    let folder = std::env::temp_dir().join(format!("reprise-stops-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| error.to_string())?;
        Ok::<_, String>(path.display().to_string())
    };
    let full = file("full.yaml", &conference(n_viewers, n_groups))?;
    let empty = file(
        "empty.yaml",
        "sfu: {port: 1, ip: 10.0.1.100, mac: '02:00:00:00:01:64'}\n",
    )?;
    let rounds: Result<Vec<_>, String> = (0..n_rounds).map(|_| round(&full, &empty)).collect();
    // A leftover in the folder for temporary files is harmless.
    let _ = fs::remove_dir_all(&folder);
    let rounds = rounds?;
    for (step, (name, _)) in rounds[0].iter().enumerate() {
        let stops = rounds.iter().map(|round| round[step].1).collect();
        let median_ms = median(stops) as f64 / 1e6;
        println!("{n_viewers} viewers in {n_groups} groups, {name}: {median_ms:.2} ms at most");
    }
    Ok(())
}
