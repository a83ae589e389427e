//! Random entries, groups and frames for every program of the repository: the kernel agrees with the
//! interpreter on what it does not punt. `SEEDS`, from `SEED` on, and `FRAMES` of each say how many; `FOLDERS`
//! and `P4` say which programs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dataplane::{PortId, Program, SwitchConfig};
use fastrand::Rng;
use lockstep::{PORTS, Write, Writer, random_frame};

use support::{
    checked::{Report, checked_switch},
    kernel::Kernel,
};

/// The shortest frame that `BPF_PROG_TEST_RUN` takes: an Ethernet header.
const FRAME_BYTES_MIN: usize = 14;
/// Programs of this crate's tests, which fit whole.
const OWN: &str = "crates/dataplane-xdp/tests/programs";
/// Entries of each table at the beginning, at most.
const ENTRIES_PER_TABLE: usize = 6;

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

/// Frames of one seed through a switch of its own.
fn run(program: &Program, seed: u64, n_frames: u64) -> Report {
    let mut rng = Rng::with_seed(seed);
    let config = SwitchConfig {
        random_seed: seed,
        recirculation_rate_pps: Some(100_000),
        ..SwitchConfig::default()
    };
    let (mut switch, report) = checked_switch(config);
    (0..PORTS).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(program.clone());
    let mut writer = Writer::new(program, &mut rng);
    // Some of the random calls are wrong; they change nothing.
    for write in writer.set_up(ENTRIES_PER_TABLE) {
        if !matches!(write, Write::QueueDepth(..) | Write::QueueRate(..)) {
            let _ = write.apply(&mut switch);
        }
    }
    let mut now = 0;
    for _ in 0..n_frames {
        if writer.rng().u8(..12) == 0 {
            let write = writer.any();
            // Packets that wait find other depths and times in egress; the kernel has no queues.
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

/// Those of the repository, or of the folders in `FOLDERS`, which colons separate; with `P4` in their path.
fn programs() -> Vec<PathBuf> {
    let folders = std::env::var("FOLDERS").unwrap_or_else(|_| {
        format!("p4:p4/bench:testdata/realistic:testdata/stf:testdata/clif:{OWN}")
    });
    let filter = std::env::var("P4").unwrap_or_default();
    let programs = folders.split(':').flat_map(|it| support::files(it, "p4"));
    programs
        .filter(|path| path.to_str().unwrap().contains(&filter))
        .collect()
}

#[test]
fn the_kernel_agrees_on_random_frames() {
    let (n_seeds, n_frames) = (number("SEEDS", 2), number("FRAMES", 60));
    let first = number("SEED", 1);
    let mut failures = Vec::new();
    let mut sum = BTreeMap::new();
    let mut add = |what: &'static str, n: usize| *sum.entry(what).or_insert(0) += n;
    for path in programs() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let Ok(program) = support::program_at(&path) else {
            continue;
        };
        add("programs", 1);
        let mut of_program = Report::default();
        for seed in first..first + n_seeds {
            let report = run(&program, seed, n_frames);
            of_program.n_frames += report.n_frames;
            of_program.n_kernel += report.n_kernel;
            of_program.n_copies += report.n_copies;
            of_program.refused = report.refused.clone();
            if let Some(reason) = report.refused
                && !reason.starts_with("refused: ")
            {
                failures.push(format!("{name}: {reason}"));
                break;
            }
            if let Some(difference) = report.differences.first() {
                let n = report.differences.len();
                failures.push(format!(
                    "{name}, seed {seed}: {n} differences, {difference}"
                ));
                break;
            }
        }
        add("refused", usize::from(of_program.refused.is_some()));
        add("frames", of_program.n_frames);
        add("frames in the kernel", of_program.n_kernel);
        add("copies", of_program.n_copies);
        println!(
            "{name}: {} of {} frames, {} copies",
            of_program.n_kernel, of_program.n_frames, of_program.n_copies
        );
    }
    println!("{sum:?}");
    let text = failures.join("\n");
    assert!(failures.is_empty(), "{} failures\n{text}", failures.len());
}

#[test]
fn the_programs_of_these_tests_fit_whole() {
    let programs = support::files(OWN, "p4");
    assert!(!programs.is_empty(), "no program found in {OWN}");
    for path in programs {
        let program = support::program_at(&path).unwrap();
        let left = Kernel::new(&program).unwrap().image.left;
        assert_eq!(left, [], "{}", path.display());
    }
}
