//! Random input for the compiler and the JSON loader, for any length of time.
//!
//! `cargo run --release -p conformance --example fuzz -- --minutes 60` runs cases in a separate process with limits on
//! memory, stack and time. The example writes a case below `target/fuzz`, with its number, if the case panics, hangs or
//! exhausts memory, or if the compiler accepts the program and the switch refuses it. `--case N` repeats one case,
//! `--show N` prints it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use conformance::fuzz::{Corpus, Input, Outcome, refusal, run};
use testkit::repository::root;

/// Prefix of the answer for a program that compiles and does not load.
const REFUSED: &str = "compiled and not loaded: ";

/// Limit of the worker process's address space, in KiB: the argument of `ulimit -v`.
const MEMORY_KIB: u64 = 2 * 1024 * 1024;
/// Processor time after which a case counts as hanging; a normal case takes milliseconds.
const CASE_CPU_S: u64 = 20;
/// Interval and maximum number of checks for a hang: a busy machine may let the process wait.
const CASE_LOOK: Duration = Duration::from_secs(5);
const CASE_LOOKS: usize = 120;
/// Linux's unit of processor time in /proc (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;
const CASES_PER_PROCESS: u64 = 5_000;

struct Arguments {
    minutes: u64,
    seed: u64,
    from: u64,
    worker: bool,
    case: Option<u64>,
    show: Option<u64>,
}

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments {
        minutes: 60,
        seed: 1,
        from: 0,
        worker: false,
        case: None,
        show: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(option) = given.next() {
        let mut number = || {
            let text = given.next().unwrap_or_default();
            text.parse::<u64>()
                .map_err(|_| format!("{option}: expected a number, found `{text}`"))
        };
        match option.as_str() {
            "--minutes" => out.minutes = number()?,
            "--seed" => out.seed = number()?,
            "--from" => out.from = number()?,
            "--case" => out.case = Some(number()?),
            "--show" => out.show = Some(number()?),
            "--worker" => out.worker = true,
            other => {
                return Err(format!(
                    "unknown option `{other}`; there are --minutes, --seed, --from, --case, --show"
                ));
            }
        }
    }
    Ok(out)
}

/// A case as it is sent to the worker process: number, path of a source, text.
type Sent = (u64, Option<String>, String);

/// Runs the cases from standard input, and answers each with a line.
fn worker(corpus: &Corpus) {
    for line in std::io::stdin().lock().lines() {
        let sent = line
            .ok()
            .and_then(|line| serde_json::from_str::<Sent>(&line).ok());
        let Some((number, path, text)) = sent else {
            return;
        };
        let input = match path {
            Some(path) => Input::Source(path, text),
            None => Input::Json(text),
        };
        let outcome = run(corpus, &input, number);
        match refusal(corpus, &input).filter(|_| outcome == Outcome::CompiledNotLoaded) {
            Some(why) => println!("{REFUSED}{why}"),
            None => println!("{outcome:?}"),
        }
    }
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
}

fn start() -> std::io::Result<Worker> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit -v {MEMORY_KIB}; ulimit -c 0; exec \"$0\" \"$@\""
        ))
        .arg(std::env::current_exe()?)
        .arg("--worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (sender, answers) = channel();
    let missing = || std::io::Error::other("the process has no pipes");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(Worker {
        child,
        stdin,
        answers,
    })
}

/// Processor time of a process, in seconds; 0 if the system does not report it.
fn cpu_seconds(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // User and system time are the 12th and 13th fields after the name in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|field| field.parse::<u64>().ok())
        .sum::<u64>()
        / TICKS_PER_SECOND
}

/// Sends a case to the worker. `Err`: the case is a finding, with its reason.
fn try_case(worker: &mut Worker, number: u64, input: Input) -> Result<String, String> {
    let sent: Sent = match input {
        Input::Source(path, text) => (number, Some(path), text),
        Input::Json(text) => (number, None, text),
    };
    let line = serde_json::to_string(&sent).map_err(|error| error.to_string())?;
    if writeln!(worker.stdin, "{line}").is_err() {
        return Err("the process had ended".to_owned());
    }
    let before = cpu_seconds(&worker.child);
    let mut answer = worker.answers.recv_timeout(CASE_LOOK);
    for _ in 0..CASE_LOOKS {
        let used = cpu_seconds(&worker.child).saturating_sub(before);
        if !matches!(answer, Err(RecvTimeoutError::Timeout)) || used > CASE_CPU_S {
            break;
        }
        answer = worker.answers.recv_timeout(CASE_LOOK);
    }
    match answer {
        Ok(answer) if answer.starts_with(REFUSED) => Err(answer),
        Ok(answer) => Ok(answer),
        Err(RecvTimeoutError::Timeout) => {
            let _ = worker.child.kill();
            let _ = worker.child.wait();
            Err(format!("no answer within {CASE_CPU_S} s of the processor"))
        }
        Err(RecvTimeoutError::Disconnected) => {
            let status = worker.child.wait().map_err(|error| error.to_string())?;
            let mut said = String::new();
            if let Some(mut stderr) = worker.child.stderr.take() {
                let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
            }
            Err(format!("{status}\n{said}"))
        }
    }
}

fn keep(corpus: &Corpus, seed: u64, number: u64, why: &str) -> std::io::Result<()> {
    let folder = root().join("target/fuzz");
    std::fs::create_dir_all(&folder)?;
    let (extension, text) = match corpus.case(seed, number).1 {
        Input::Source(path, text) => ("p4", format!("// {path}\n{text}")),
        Input::Json(text) => ("json", text),
    };
    std::fs::write(folder.join(format!("{seed}-{number}.{extension}")), text)?;
    std::fs::write(folder.join(format!("{seed}-{number}.txt")), why)
}

fn campaign(corpus: &Corpus, arguments: &Arguments) -> std::io::Result<u64> {
    let began = Instant::now();
    let end = Duration::from_secs(arguments.minutes * 60);
    let mut number = arguments.from;
    let mut findings = 0;
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    while began.elapsed() < end {
        let mut worker = start()?;
        for _ in 0..CASES_PER_PROCESS {
            let case = number;
            number += 1;
            let (kind, input) = corpus.case(arguments.seed, case);
            match try_case(&mut worker, case, input) {
                Ok(answer) => *tally.entry(format!("{kind:?} {answer}")).or_default() += 1,
                Err(why) => {
                    findings += 1;
                    println!("case {case}: {why}");
                    keep(corpus, arguments.seed, case, &why)?;
                    if why.starts_with(REFUSED) {
                        continue;
                    }
                    break;
                }
            }
            if began.elapsed() >= end {
                break;
            }
        }
        // At the end of its input the process ends by itself.
        drop(worker.stdin);
        let _ = worker.child.wait();
        println!(
            "{} min: cases {} to {number} (seed {}), {findings} findings",
            began.elapsed().as_secs() / 60,
            arguments.from,
            arguments.seed
        );
    }
    for (what, count) in tally {
        println!("{count:>9} {what}");
    }
    Ok(findings)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let corpus = match Corpus::load(&root()) {
        Ok(corpus) => corpus,
        Err(error) => {
            eprintln!("cannot read the repository's programs: {error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.worker {
        worker(&corpus);
    } else if let Some(number) = arguments.show {
        match corpus.case(arguments.seed, number).1 {
            Input::Source(path, text) => println!("// {path}\n{text}"),
            Input::Json(text) => println!("{text}"),
        }
    } else if let Some(number) = arguments.case {
        let (kind, input) = corpus.case(arguments.seed, number);
        println!("{kind:?}");
        println!("{:?}", run(&corpus, &input, number));
    } else {
        match campaign(&corpus, &arguments) {
            Ok(0) => println!("nothing was found"),
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
