//! The report at the end of a run.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use conformance::engines::Activity;
use serde_json::json;

use super::subjects::Subject;

/// A difference between a native engine and the interpreter, and the command that reproduces the difference.
#[derive(Debug)]
pub struct Found {
    pub path: PathBuf,
    pub choice: String,
    pub case: u64,
    pub seed: u64,
    pub frames: usize,
    pub description: String,
}

impl Found {
    fn command(&self) -> String {
        format!(
            "reprise-conformance engines --seed {} --frames {} --case {}",
            self.seed, self.frames, self.case
        )
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, choice) = (self.path.display(), &self.choice);
        writeln!(f, "{path}, optimisations {choice}: {}", self.description)?;
        write!(f, "to reproduce: {}", self.command())
    }
}

#[derive(Debug, Default)]
pub struct Programs {
    n_programs: usize,
    features: BTreeMap<&'static str, usize>,
    activity: Activity,
}

/// Combines subjects by program, so that a program with several subjects (its own random cases, and conferences) counts
/// once.
pub fn by_program(subjects: &[Subject], seen: &[Activity]) -> Programs {
    let mut programs: BTreeMap<&PathBuf, (&Subject, Activity)> = BTreeMap::new();
    for (subject, activity) in subjects.iter().zip(seen) {
        if activity.packets > 0 {
            let of = programs.entry(&subject.path);
            let (_, sum) = of.or_insert((subject, Activity::default()));
            *sum = sum.plus(*activity);
        }
    }
    let mut out = Programs {
        n_programs: programs.len(),
        ..Programs::default()
    };
    for (subject, activity) in programs.into_values() {
        out.activity = out.activity.plus(activity);
        for feature in subject.features(activity) {
            *out.features.entry(feature).or_default() += 1;
        }
    }
    out
}

#[derive(Debug)]
pub struct Report {
    pub stf_files: usize,
    pub stf_failures: Vec<String>,
    pub packets: u64,
    /// The sum over all packets of the number of native engines, each with another choice of optimisations, that were
    /// compared with the interpreter on the packet.
    pub comparisons: u64,
    pub cases: u64,
    pub programs: Programs,
    pub choices: usize,
    /// The smallest number of packets with which any pair of a subject (a program and the source of its cases) and a
    /// choice of optimisations was tested.
    pub packets_of_a_pair_min: u64,
    pub seed: u64,
    pub seconds: f64,
    pub found: Vec<Found>,
}

impl Report {
    pub fn n_differences(&self) -> usize {
        self.stf_failures.len() + self.found.len()
    }

    pub fn to_json(&self) -> serde_json::Value {
        let Activity {
            packets: _,
            calls,
            transmitted,
            clones,
            replicas,
            digests,
            packet_ins,
            dropped,
        } = self.programs.activity;
        let differences = self.found.iter().map(|found| {
            json!({
                "program": found.path,
                "optimisations": found.choice,
                "case": found.case,
                "description": found.description,
                "command": found.command(),
            })
        });
        json!({
            "stf_files": self.stf_files,
            "stf_failures": self.stf_failures,
            "packets": self.packets,
            "comparisons": self.comparisons,
            "cases": self.cases,
            "programs": self.programs.n_programs,
            "programs_with": self.programs.features,
            "choices": self.choices,
            "packets_of_a_pair_min": self.packets_of_a_pair_min,
            "seed": self.seed,
            "seconds": self.seconds,
            "interpreter": {
                "control_calls": calls,
                "transmitted": transmitted,
                "clones": clones,
                "replicas": replicas,
                "digests": digests,
                "packet_ins": packet_ins,
                "dropped": dropped,
            },
            "differences": differences.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.stf_failures {
            writeln!(f, "{failure}")?;
        }
        let (done, n_programs) = (self.programs.activity, self.programs.n_programs);
        let features = self.programs.features.iter();
        let features: Vec<String> = features.map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(f, "programs with {}", features.join(", "))?;
        writeln!(
            f,
            "the interpreter took {} control calls, sent {} frames, made {} clones, {} replicas, \
             {} digests and {} packet-ins, dropped {}",
            done.calls,
            done.transmitted,
            done.clones,
            done.replicas,
            done.digests,
            done.packet_ins,
            done.dropped,
        )?;
        let each = match self.packets_of_a_pair_min {
            0 => "not every choice with every program".to_owned(),
            least => format!("every choice with every program, {least} packets or more"),
        };
        let said = match self.n_differences() {
            0 => "no difference".to_owned(),
            1 => "1 difference".to_owned(),
            n => format!("{n} differences"),
        };
        writeln!(
            f,
            "{} STF files; {} packets in {} cases, {n_programs} programs, {} choices of \
             optimisations, {} comparisons ({each}), seed {}, {:.0} s: {said}",
            self.stf_files,
            self.packets,
            self.cases,
            self.choices,
            self.comparisons,
            self.seed,
            self.seconds,
        )
    }
}
