//! Runs one program from end to end: compiles and loads the program, fills its tables over P4Runtime, and runs the
//! program on every engine.

use std::path::PathBuf;

use conformance::controller::{DEVICE_ID, server};
use conformance::engines::{Activity, Case, Make, Write, names_of, native, written};
use control::BorrowedSwitch;
use dataplane::{Program, Switch, SwitchConfig};
use dataplane_jit::NativeOptions;
use p4_compiler::P4Info;
use p4runtime_client::P4InfoIndex;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_server::WriteError;
use tokio::runtime::Runtime;
use tonic::Code;

use super::settings::Settings;
use super::source::{self, Source};
use super::{Plan, Ran, Subject, Verdict, entries};
use crate::failure::Failure;

/// Number of packets that share a configuration and a set of random entries.
const CASE_PACKETS: usize = 1_000;
/// The optimisations of the native engines to compare with the interpreter.
const CHOICES: [NativeOptions; 2] = [NativeOptions::NAIVE, NativeOptions::ALL];

/// The data that a worker keeps between programs: the settings of the tree, and a runtime for servers.
pub struct Trees {
    read: Option<(PathBuf, Settings)>,
    runtime: Runtime,
}

impl Trees {
    /// # Errors
    /// The system provides no runtime.
    pub fn new() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self {
            read: None,
            runtime,
        })
    }

    /// Runs a program.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub fn judge(&mut self, subject: &Subject) -> Result<Verdict, Failure> {
        let plan = &subject.plan;
        let settings = match self.read.take() {
            Some((root, settings)) if root == plan.root => settings,
            _ => Settings::read(&plan.root)?,
        };
        let found = source::compile(&subject.path(), plan, &settings);
        self.read = Some((plan.root.clone(), settings));
        let ran = found.and_then(|source| run(plan, *source, &self.runtime));
        Ok(match ran {
            Ok(ran) => Verdict::Passed(ran),
            Err(verdict) => verdict,
        })
    }
}

fn run(plan: &Plan, source: Source, runtime: &Runtime) -> Result<Ran, Verdict> {
    let json = source.json.to_json().map_err(pair_refused)?;
    let filled = fill(&source.p4info, &json, runtime)?;
    let program = Program::from_json_str(&json).map_err(pair_refused)?;
    let activity = compare(plan, &program, &filled.writes)?;
    let keyed = source.p4info.tables.iter();
    let keyed = keyed.filter(|table| entries::has_key(table));
    Ok(Ran {
        tables: keyed.count(),
        filled: filled.tables,
        entries: filled.entries,
        packets: activity.packets,
        transmitted: activity.transmitted,
        interpreted: interpreted(&program),
        searched: source.searched,
    })
}

fn pair_refused(error: impl ToString) -> Verdict {
    Verdict::PairRefused {
        message: error.to_string(),
    }
}

#[derive(Default)]
struct Filled {
    tables: usize,
    entries: usize,
    /// The calls that give another switch the state that was written over P4Runtime.
    writes: Vec<Write>,
}

/// Loads P4Info and JSON and writes the entries, as a controller does.
fn fill(p4info: &P4Info, json: &str, runtime: &Runtime) -> Result<Filled, Verdict> {
    let borrowed = BorrowedSwitch::new(Switch::new(SwitchConfig::default()));
    let server = server(&borrowed);
    let loading = server.set_pipeline(p4info.clone(), json.as_bytes().to_vec());
    runtime.block_on(loading).map_err(pair_refused)?;
    let index = P4InfoIndex::new(p4info.clone());
    let mut filled = Filled::default();
    for table in &p4info.tables {
        let n_before = filled.entries;
        for update in entries::of_table(&index, table) {
            let request = WriteRequest {
                device_id: DEVICE_ID,
                updates: vec![update],
                ..WriteRequest::default()
            };
            match runtime.block_on(server.write(&request)) {
                Ok(()) => filled.entries += 1,
                // The program's initial entries may have the same key, or fill the table.
                Err(error) if table.has_initial_entries && is_taken(&error) => {}
                Err(error) => {
                    return Err(Verdict::EntryRefused {
                        message: error.to_string(),
                    });
                }
            }
        }
        let is_filled = entries::is_writable(table) && filled.entries > n_before;
        filled.tables += usize::from(is_filled);
    }
    filled.writes = written(&borrowed.take());
    Ok(filled)
}

/// Returns whether a write was refused because the entry already exists or the table is full.
fn is_taken(error: &WriteError) -> bool {
    let WriteError::Updates(results) = error else {
        return false;
    };
    let mut errors = results.iter().filter_map(|result| result.as_ref().err());
    errors.all(|error| matches!(error.code, Code::AlreadyExists | Code::ResourceExhausted))
}

/// Compares native engines with the interpreter on random packets and control calls, after the calls `writes`.
fn compare(plan: &Plan, program: &Program, writes: &[Write]) -> Result<Activity, Verdict> {
    let makes = CHOICES.map(native);
    let engines: Vec<Make<'_>> = makes.iter().map(|make| make as Make<'_>).collect();
    let mut sum = Activity::default();
    let mut left = plan.packets;
    for seed in plan.seed.. {
        if left == 0 {
            break;
        }
        let n_packets = left.min(CASE_PACKETS);
        left -= n_packets;
        let case = Case::random(program, seed, n_packets).behind(writes);
        match case.compare_each(program, &Switch::new, &engines) {
            Ok(activity) => sum = sum.plus(activity),
            Err(mismatch) => {
                let choice = names_of(CHOICES[mismatch.engine]);
                return Err(Verdict::Differs {
                    message: format!("{choice}: {}", mismatch.description),
                });
            }
        }
    }
    Ok(sum)
}

/// Returns why the interpreter runs the whole program in place of the native engine, or `None` if it does not.
fn interpreted(program: &Program) -> Option<String> {
    let mut switch = native(NativeOptions::ALL)(SwitchConfig::default());
    switch.set_program(program.clone());
    let parts = switch.interpreted();
    let whole = parts.iter().find(|part| part.place == "program")?;
    Some(whole.reason.clone())
}
