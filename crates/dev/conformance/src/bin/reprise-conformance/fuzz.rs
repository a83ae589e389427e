//! Gives random input to the compiler and the JSON loader, for a given time.
//!
//! A case is one input. It is a finding if the compiler or the loader panics, hangs or exhausts memory, or if the
//! compiler accepts a program that the switch then refuses. Each finding is written below `target/fuzz`, with the
//! number of its case.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conformance::fuzz::{Corpus, Input, Outcome, refusal, run};
use serde::{Deserialize, Serialize};
use serde_json::json;
use testkit::repository::root;

use crate::args::{Args, Fuzz};
use crate::failure::Failure;
use crate::output;
use crate::pool::{self, Answer, Ended, Pool};
use crate::run::conclude;
use crate::sample::Job;

/// The time limit of a case. A normal case takes milliseconds, but it may have to wait on a busy machine.
const CASE_LIMIT: Duration = Duration::from_secs(60);
const MEMORY_LIMIT_MIB: u64 = 2_048;
/// Number of cases between two progress messages. New worker processes are started after this number of cases.
const CASES_PER_ROUND: u64 = 5_000;

/// The answer for a case.
#[derive(Debug, Serialize, Deserialize)]
pub enum Tried {
    /// The case has ended. The text contains the kind of its input and the result.
    Ended(String),
    Finding(String),
}

impl Answer for Tried {
    fn of_ended(ended: Ended) -> Self {
        let (Ended::Late(why) | Ended::Crashed(why)) = ended;
        Self::Finding(why)
    }
}

/// The data that a worker keeps between cases.
#[derive(Default)]
pub struct Fuzzer(Option<Corpus>);

impl Fuzzer {
    /// Runs a case.
    ///
    /// # Errors
    /// The repository's programs cannot be read.
    pub fn judge(&mut self, seed: u64, number: u64) -> Result<Tried, Failure> {
        let corpus = match self.0.take() {
            Some(corpus) => corpus,
            None => Corpus::load(&root())?,
        };
        let (kind, input) = corpus.case(seed, number);
        let outcome = run(&corpus, &input, number);
        let refused = match outcome {
            Outcome::CompiledNotLoaded => refusal(&corpus, &input),
            _ => None,
        };
        self.0 = Some(corpus);
        Ok(match refused {
            Some(why) => Tried::Finding(format!("compiled and not loaded: {why}")),
            None => Tried::Ended(format!("{kind:?} {outcome:?}")),
        })
    }
}

/// Prints one case, runs one case, or runs cases for the given time.
pub fn fuzz(args: &Args, of: &Fuzz) -> Result<(), Failure> {
    if let Some(number) = of.show {
        let (_, text) = file(&Corpus::load(&root())?, of.seed, number);
        output::text(text);
        return Ok(());
    }
    if let Some(number) = of.case {
        return match Fuzzer::default().judge(of.seed, number)? {
            Tried::Ended(how) => {
                output::text(how);
                Ok(())
            }
            Tried::Finding(why) => Err(Failure::new(why)),
        };
    }
    campaign(args, of)
}

/// Returns the extension and the text of a case's file.
fn file(corpus: &Corpus, seed: u64, number: u64) -> (&'static str, String) {
    match corpus.case(seed, number).1 {
        Input::Source(path, text) => ("p4", format!("// {path}\n{text}")),
        Input::Json(text) => ("json", text),
    }
}

fn keep(corpus: &Corpus, seed: u64, number: u64, why: &str) -> std::io::Result<()> {
    let folder = root().join("target/fuzz");
    std::fs::create_dir_all(&folder)?;
    let (extension, text) = file(corpus, seed, number);
    std::fs::write(folder.join(format!("{seed}-{number}.{extension}")), text)?;
    std::fs::write(folder.join(format!("{seed}-{number}.txt")), why)
}

fn campaign(args: &Args, of: &Fuzz) -> Result<(), Failure> {
    let corpus = Corpus::load(&root())?;
    let pool = Pool {
        n_workers: pool::processors(),
        time_limit: CASE_LIMIT,
        memory_limit_mib: MEMORY_LIMIT_MIB,
    };
    let (seed, began) = (of.seed, Instant::now());
    let mut next = of.from;
    let mut findings = Vec::new();
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    while began.elapsed() < Duration::from_secs(of.minutes * 60) {
        let numbers: Vec<u64> = (next..next + CASES_PER_ROUND).collect();
        let jobs = numbers.iter().map(|number| Job::Case {
            seed,
            number: *number,
        });
        let jobs: Vec<Job> = jobs.collect();
        pool::run(pool, &jobs, |(position, tried, _)| match tried {
            Tried::Ended(how) => *tally.entry(how).or_default() += 1,
            Tried::Finding(why) => {
                let number = numbers[position];
                output::error_line(format_args!("case {number}: {why}"));
                if let Err(error) = keep(&corpus, seed, number, &why) {
                    output::error_line(format_args!("case {number} is not kept: {error}"));
                }
                findings.push(number);
            }
        })?;
        next += CASES_PER_ROUND;
        output::error_line(format_args!(
            "{} min: cases {} to {next} (seed {seed}), {}",
            began.elapsed().as_secs() / 60,
            of.from,
            output::count(findings.len(), "finding")
        ));
    }
    if !args.json {
        for (what, count) in &tally {
            output::text(format!("{count:>9} {what}"));
        }
    }
    let failure = (!findings.is_empty())
        .then(|| Failure::new(output::count(findings.len(), "finding") + " below target/fuzz"));
    conclude(
        args,
        json!({ "findings": findings, "tally": tally }),
        failure,
    )
}
