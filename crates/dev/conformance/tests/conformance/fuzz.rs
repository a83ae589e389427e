//! A short run of the fuzzer with a fixed number of cases, so that a slow machine does the same
//! work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use conformance::fuzz::{Corpus, Outcome, run};
use testkit::repository::root;

const SEED: u64 = 2_026;
const CASES: u64 = 600;
/// The usual stack size of a main thread. Deeper recursion would crash the compiler's command.
const STACK_BYTES: usize = 8 << 20;
/// Maximum time of a case. A normal case takes milliseconds.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn no_input_makes_the_compiler_or_the_loader_panic_or_hang() {
    let corpus = Arc::new(Corpus::load(&root()).expect("the repository's programs"));
    let (programs, jsons) = corpus.len();
    assert!(
        programs > 60 && jsons > 40,
        "{programs} programs, {jsons} JSON files"
    );
    let (report, outcomes) = channel();
    let work = {
        let corpus = corpus.clone();
        move || {
            for number in 0..CASES {
                let (kind, input) = corpus.case(SEED, number);
                if report
                    .send((number, kind, run(&corpus, &input, number)))
                    .is_err()
                {
                    return;
                }
            }
        }
    };
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let worker = worker.spawn(work).expect("a thread");
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    let mut ran = 0;
    for number in 0..CASES {
        // A panic ends the thread and closes the channel; the panic message is further up in the
        // output.
        let Ok((_, kind, outcome)) = outcomes.recv_timeout(CASE_TIMEOUT) else {
            panic!(
                "case {number} panicked or hung: \
                 reprise-conformance fuzz --seed {SEED} --case {number}"
            );
        };
        ran += u64::from(outcome == Outcome::Ran);
        assert_ne!(
            outcome,
            Outcome::CompiledNotLoaded,
            "case {number} (seed {SEED}): the switch refuses what the compiler made: \
             reprise-conformance fuzz --seed {SEED} --case {number}"
        );
        *tally.entry(format!("{kind:?} {outcome:?}")).or_default() += 1;
    }
    worker.join().expect("the thread ended well");
    println!("{tally:#?}");
    // Enough cases must compile, load and run.
    assert!(
        ran > CASES / 10,
        "only {ran} of {CASES} cases ran: {tally:#?}"
    );
}
