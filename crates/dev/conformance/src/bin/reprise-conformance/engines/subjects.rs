//! Lists the subjects. A subject is a program with the source of its control calls. Every program that has a packet
//! test, and each SFU program, is a subject with random control calls. Each SFU program is also a subject with
//! conferences.

use std::path::PathBuf;

use conformance::{
    engines::{Activity, Case, Script, conference, programs},
    sfu::SfuProgram,
};
use dataplane::{Program, engine::ir::Primitive};
use testkit::repository::root;

const CONFERENCES: u64 = 8;
/// The first conference's seed; each further conference has the next number. Each case also has a seed of its own.
const CONFERENCE_SEED: u64 = 0x5f0;
/// How often a subject with state runs in a round, which is one run through all subjects.
const TIMES_WITH_STATE: usize = 3;

/// A program and the source of its cases: either the program's parser and tables, or a conference.
pub struct Subject {
    /// Path from the repository's root.
    pub path: PathBuf,
    pub program: Program,
    script: Option<Script>,
}

impl Subject {
    pub fn case(&self, seed: u64, n_frames: usize) -> Case {
        match &self.script {
            Some(script) => conference(&self.program, script, seed, n_frames),
            None => Case::random(&self.program, seed, n_frames),
        }
    }

    /// Returns the names of the features that the program has, or that its packets have used so far.
    pub fn features(&self, seen: Activity) -> Vec<&'static str> {
        let ir = self.program.ir();
        let primitives = ir.actions.iter().flat_map(|action| &action.primitives);
        let has = |wanted: fn(&Primitive) -> bool| primitives.clone().any(wanted);
        let with_recirculation = has(|it| matches!(it, Primitive::Recirculate(_)));
        let with_resubmission = has(|it| matches!(it, Primitive::Resubmit(_)));
        let written = |info: &dataplane::TableInfo| !info.is_generated() && !info.key.is_empty();
        let features = [
            ("tables", self.program.tables().any(|(_, it)| written(it))),
            ("action profiles", !ir.action_profiles.is_empty()),
            ("value sets", !ir.value_sets.is_empty()),
            ("registers", !ir.registers.is_empty()),
            ("counters", !ir.counters.is_empty()),
            ("meters", self.program.meters().next().is_some()),
            ("checksums", !ir.checksums.is_empty()),
            ("digests", seen.digests > 0),
            ("clones", seen.clones > 0),
            ("multicast", seen.replicas > 0),
            ("recirculation", with_recirculation),
            ("resubmission", with_resubmission),
        ];
        let there = features.into_iter().filter(|(_, is_there)| *is_there);
        there.map(|(name, _)| name).collect()
    }
}

/// Returns the order in which a round runs the subjects, as indexes into `subjects`. Subjects with state, and subjects
/// that recirculate or resubmit packets, occur several times.
pub fn order(subjects: &[Subject]) -> Vec<usize> {
    let has_state = |at: &usize| {
        let features = subjects[*at].features(Activity::default());
        features.iter().any(|feature| *feature != "checksums")
    };
    let (with, without): (Vec<usize>, Vec<usize>) = (0..subjects.len()).partition(has_state);
    let with = with.repeat(TIMES_WITH_STATE);
    with.into_iter().chain(without).collect()
}

pub fn subjects() -> Result<Vec<Subject>, String> {
    let random = programs().into_iter().map(|path| (path, None));
    let conferences = SfuProgram::ALL.into_iter().flat_map(|program| {
        (0..CONFERENCES).map(move |number| {
            let script = Script::record(program, CONFERENCE_SEED + number);
            (root().join(program.path()), Some(script))
        })
    });
    let made = random.chain(conferences).map(|(path, script)| {
        let program = stf::load(&path, &p4_compiler::Options::default());
        let program = program.map_err(|error| error.to_string())?;
        let path = path.strip_prefix(root()).unwrap_or(&path).to_owned();
        Ok(Subject {
            path,
            program,
            script,
        })
    });
    made.collect()
}
