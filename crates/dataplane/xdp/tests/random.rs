//! Sends random frames through every program of the repository, with random entries and groups. For each frame that the
//! kernel does not punt, the kernel must do what the interpreter does.
//!
//! Environment variables: `SEEDS` is the number of seeds that are run, `SEED` is the first seed, and `FRAMES` is the
//! number of frames for each seed. Only the programs in the folders `FOLDERS` whose paths contain the value of `P4` are
//! run. Beside these, `CASES` programs are made or changed at random and run; `CASE` selects one of these random
//! programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use conformance::engines::{PORTS, Write, Writer, random_frame};
use conformance::fuzz::{self, Corpus};
use dataplane::{PortId, Program, SwitchConfig, engine::ir::Primitive};
use dataplane_xdp::image::Room;
use fastrand::Rng;
use testkit::repository::{files, root};
use testkit::xdp::checked::{Report, checked_switch_with};
use testkit::xdp::kernel::{Kernel, little_room};
use testkit::xdp::program_at;

/// The shortest frame that `BPF_PROG_TEST_RUN` takes: an Ethernet header.
const FRAME_BYTES_MIN: usize = 14;
/// The most cells of counters and registers that are compared.
const CELLS_MAX: usize = 1 << 14;
/// Programs of this crate's tests.
const OWN: &str = "crates/dataplane/xdp/tests/programs";
/// The most entries of each table at the beginning.
const ENTRIES_PER_TABLE: usize = 6;

/// Returns the number in the environment variable `name`, or `otherwise` if the variable is not set.
fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

/// Sends the frames of one seed through a new switch.
fn run(program: &Program, seed: u64, n_frames: u64) -> Report {
    run_with(program, seed, n_frames, little_room())
}

fn run_with(program: &Program, seed: u64, n_frames: u64, room: Room) -> Report {
    let mut rng = Rng::with_seed(seed);
    let config = SwitchConfig {
        random_seed: seed,
        recirculation_rate_pps: Some(100_000),
        ..SwitchConfig::default()
    };
    let (mut switch, report) = checked_switch_with(config, room);
    (0..PORTS).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    let mut writer = Writer::new(program, &mut rng);
    // Some of the random control calls are invalid; those calls change nothing.
    for write in writer.set_up(ENTRIES_PER_TABLE) {
        if !matches!(write, Write::QueueDepth(..) | Write::QueueRate(..)) {
            let _ = write.apply(&mut switch);
        }
    }
    let mut now = 0;
    for _ in 0..n_frames {
        if writer.rng().u8(..12) == 0 {
            let write = writer.any();
            // The kernel has no queues. If packets waited in the interpreter's queues, its egress would see other queue
            // depths and times than the kernel's.
            if !matches!(write, Write::QueueDepth(..) | Write::QueueRate(..)) {
                let _ = write.apply(&mut switch);
            }
        }
        let rng = writer.rng();
        now += rng.u64(..1_500_000);
        let port = PortId(rng.u16(..PORTS));
        let mut frame = random_frame(program.ir(), rng);
        while frame.len() < FRAME_BYTES_MIN {
            frame.push(rng.u8(..));
        }
        switch.handle_frame(now, port, &frame);
        while switch.poll_transmit(now).is_some() {}
        while switch.poll_digest().is_some() {}
        while switch.poll_packet_in().is_some() {}
    }
    report.lock().unwrap().clone()
}

/// Returns the paths of the repository's programs, or of the programs in the folders in `FOLDERS` (separated by
/// colons), but only paths that contain the value of `P4`.
fn programs() -> Vec<PathBuf> {
    let folders = std::env::var("FOLDERS").unwrap_or_else(|_| {
        format!("p4:p4/bench:testdata/realistic:testdata/stf:testdata/clif:{OWN}")
    });
    let filter = std::env::var("P4").unwrap_or_default();
    let programs = folders.split(':').flat_map(|it| files(it, "p4"));
    programs
        .filter(|path| path.to_str().unwrap().contains(&filter))
        .collect()
}

/// The results of many programs.
#[derive(Default)]
struct Sum {
    n_programs: usize,
    n_refused: usize,
    n_frames: usize,
    n_kernel: usize,
    n_copies: usize,
    n_digests: usize,
    failures: Vec<String>,
}

impl Sum {
    /// Sends the frames of some seeds through a program, and adds the results.
    fn add(&mut self, name: &str, program: &Program, seeds: Range<u64>, n_frames: u64) {
        self.n_programs += 1;
        let (before, copies_before, all_before) = (self.n_kernel, self.n_copies, self.n_frames);
        for seed in seeds {
            let report = run(program, seed, n_frames);
            self.n_frames += report.n_frames;
            self.n_kernel += report.n_kernel;
            self.n_copies += report.n_copies;
            self.n_digests += report.n_digests;
            if let Some(reason) = report.refused {
                self.n_refused += 1;
                println!("{name}: {reason:.200}");
                if !is_known_limit(&reason) {
                    self.failures.push(format!("{name}: {reason}"));
                }
                break;
            }
            if let Some(difference) = report.differences.first() {
                let n = report.differences.len();
                self.failures.push(format!(
                    "{name}, seed {seed}: {n} differences, {difference}"
                ));
                break;
            }
        }
        println!(
            "{name}: {} of {} frames, {} copies",
            self.n_kernel - before,
            self.n_frames - all_before,
            self.n_copies - copies_before
        );
    }

    fn check(&self) {
        println!(
            "{} programs, {} refused; {} of {} frames in the kernel, {} copies, {} digests",
            self.n_programs,
            self.n_refused,
            self.n_kernel,
            self.n_frames,
            self.n_copies,
            self.n_digests
        );
        assert!(self.n_kernel > 0, "no frame was forwarded in the kernel");
        let text = self.failures.join("\n");
        assert!(
            self.failures.is_empty(),
            "{} failures\n{text}",
            self.failures.len()
        );
    }
}

/// Whether the compiler refused the program, or the program is too large for the kernel.
fn is_known_limit(reason: &str) -> bool {
    reason.starts_with("refused: ") || reason.contains("BPF program is too large")
}

#[test]
fn the_kernel_agrees_on_random_frames() {
    let (n_seeds, n_frames) = (number("SEEDS", 2), number("FRAMES", 60));
    let first = number("SEED", 1);
    let mut sum = Sum::default();
    for path in programs() {
        if let Ok(program) = program_at(&path) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            sum.add(name, &program, first..first + n_seeds, n_frames);
        }
    }
    sum.check();
    let is_whole = ["FOLDERS", "P4"]
        .map(std::env::var)
        .iter()
        .all(Result::is_err);
    assert!(!is_whole || sum.n_digests > 0, "no digest was compared");
}

/// Whether the kernel punts the packets that take some of the paths through the parser, because the parser has too many
/// paths.
fn is_cut(report: &Report) -> bool {
    let mut left = report.left.iter();
    left.any(|it| it.place == "parser" && it.reason.contains("too many ways"))
}

#[test]
fn frames_that_go_where_ways_through_the_parser_are_cut_are_punted_and_the_others_agree() {
    let n_frames = number("FRAMES", 60);
    let (mut n_cut, mut n_kernel, mut n_kernel_of_whole) = (0, 0, 0);
    for path in programs().iter().filter(|path| is_of_use(path)) {
        let Ok(program) = program_at(path) else {
            continue;
        };
        let whole = run(&program, 1, n_frames);
        for parser_visits in [2, 5] {
            let room = Room {
                parser_visits,
                ..little_room()
            };
            let report = run_with(&program, 1, n_frames, room);
            let name = format!("{}, {parser_visits} visits", path.display());
            assert_eq!(report.differences.first(), None, "{name}");
            assert_eq!(report.refused, whole.refused, "{name}");
            if !is_cut(&report) {
                assert_eq!(report.n_kernel, whole.n_kernel, "{name}");
                continue;
            }
            assert!(report.n_kernel <= whole.n_kernel, "{name}");
            n_cut += 1;
            n_kernel += report.n_kernel;
            n_kernel_of_whole += whole.n_kernel;
        }
    }
    println!("{n_cut} cut: {n_kernel} frames in the kernel, {n_kernel_of_whole} without cuts");
    assert!(n_cut > 0 && n_kernel > 0 && n_kernel < n_kernel_of_whole);
}

/// Whether a program is in a folder of realistic programs, whose parsers have more than a few states.
fn is_of_use(path: &Path) -> bool {
    let folders = ["p4", "bench", "realistic", "programs"];
    let parent = path.parent().and_then(Path::file_name);
    parent.is_some_and(|parent| folders.iter().any(|it| parent == *it))
}

/// Whether a program has so few cells that all can be compared after each packet, and makes no clones, because clones
/// of clones could fill the switch.
fn is_small(program: &Program) -> bool {
    let ir = program.ir();
    let counters = ir.counters.iter().map(|array| array.cells);
    let registers = ir.registers.iter().map(|array| array.cells);
    let mut primitives = ir.actions.iter().flat_map(|action| &action.primitives);
    let clones = primitives.any(|it| matches!(it, Primitive::Clone { .. }));
    !clones && counters.chain(registers).sum::<usize>() <= CELLS_MAX
}

#[test]
fn the_kernel_agrees_on_random_programs() {
    let (n_cases, n_frames) = (number("CASES", 120), number("FRAMES", 60));
    let (first, only) = (number("SEED", 1), number("CASE", u64::MAX));
    let corpus = Corpus::load(&root()).unwrap();
    let mut sum = Sum::default();
    for case in (0..n_cases).filter(|case| only == u64::MAX || *case == only) {
        let (kind, input) = corpus.case(first, case);
        let program = fuzz::program(&corpus, &input);
        if let Some(program) = program.filter(is_small) {
            let name = format!("case {case} ({kind:?})");
            sum.add(&name, &program, first..first + 1, n_frames);
        }
    }
    sum.check();
}

#[test]
fn the_programs_of_these_tests_fit_whole_except_for_hashes_over_partial_bytes() {
    let programs = files(OWN, "p4");
    assert!(!programs.is_empty(), "no program found in {OWN}");
    for path in programs {
        let program = program_at(&path).unwrap();
        let left = Kernel::new(&program).unwrap().image.left;
        let reasons: Vec<_> = left.iter().map(|it| it.reason.as_str()).collect();
        let expected: &[&str] = if path.ends_with("hashes.p4") {
            &["a hash over partial bytes, if one of its headers is invalid"]
        } else {
            &[]
        };
        assert_eq!(reasons, expected, "{}", path.display());
    }
}
