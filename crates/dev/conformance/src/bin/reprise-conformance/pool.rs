//! Runs jobs in worker processes. If a job ends its worker, another worker is started.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZero;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::sample::Job;

#[derive(Debug, Clone, Copy)]
pub struct Pool {
    pub n_workers: usize,
    pub time_limit: Duration,
    pub memory_limit_mib: u64,
}

/// Why a worker gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The worker exceeded the time limit and was killed. The text contains the limit.
    Late(String),
    Crashed(String),
}

/// Returns the default number of workers, which is the number of processors.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

pub trait Answer: DeserializeOwned + Send {
    /// Returns the answer for a job whose worker ended.
    fn of_ended(ended: Ended) -> Self;
}

pub type Judged<A> = (usize, A, Duration);

/// Runs every job. Calls `on_judged` in the order of the jobs.
///
/// # Errors
/// A worker cannot be started, or the communication with a worker fails.
pub fn run<A: Answer>(
    pool: Pool,
    jobs: &[Job],
    mut on_judged: impl FnMut(Judged<A>),
) -> Result<(), Failure> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    run_unordered(pool, jobs, |(position, answer, took)| {
        early.insert(position, (answer, took));
        while let Some((answer, took)) = early.remove(&next) {
            on_judged((next, answer, took));
            next += 1;
        }
    })
}

/// Runs every job like `run`, but calls `on_judged` in the order in which the jobs end.
fn run_unordered<A: Answer>(
    pool: Pool,
    jobs: &[Job],
    mut on_judged: impl FnMut(Judged<A>),
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let (send, receive) = channel::<Result<Judged<A>, Failure>>();
    std::thread::scope(|scope| {
        for _ in 0..pool.n_workers.clamp(1, jobs.len().max(1)) {
            let send = send.clone();
            let next = &next;
            scope.spawn(move || {
                if let Err(failure) = serve(pool, jobs, next, &send) {
                    // Sending fails only after another failure.
                    let _ = send.send(Err(failure));
                }
            });
        }
        drop(send);
        for judged in receive {
            on_judged(judged?);
        }
        Ok(())
    })
}

fn serve<A: Answer>(
    pool: Pool,
    jobs: &[Job],
    next: &AtomicUsize,
    send: &Sender<Result<Judged<A>, Failure>>,
) -> Result<(), Failure> {
    let mut worker = None;
    loop {
        let position = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(position) else {
            return Ok(());
        };
        let mut current = match worker.take() {
            Some(worker) => worker,
            None => Worker::start(pool.memory_limit_mib)?,
        };
        let begin = Instant::now();
        let answer = match current.judge(job, pool.time_limit)? {
            Some(answer) => {
                worker = Some(current);
                answer
            }
            None => A::of_ended(current.end(pool.time_limit)?),
        };
        if send.send(Ok((position, answer, begin.elapsed()))).is_err() {
            return Ok(());
        }
    }
}

/// A process of this program that runs jobs.
struct Worker {
    child: Running,
    stdin: ChildStdin,
    answers: Receiver<String>,
    /// The worker's last line on standard error, which says why the worker ended. (A panic does not end the worker: the
    /// worker reports the panic as its answer.)
    last_words: JoinHandle<String>,
    is_late: bool,
}

impl Worker {
    /// Starts a worker through a shell. The shell sets the memory limit (in KiB) and execs the worker.
    fn start(memory_limit_mib: u64) -> Result<Self, Failure> {
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -v \"$1\"; ulimit -c 0; exec \"$0\" worker"])
            .arg(std::env::current_exe()?)
            .arg((memory_limit_mib * 1_024).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Failure::new("a worker has no standard input and output"));
        };
        let last_words = std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            let said = lines.filter(|line| !line.trim().is_empty());
            said.last().unwrap_or_default()
        });
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child: Running(child),
            stdin,
            answers,
            last_words,
            is_late: false,
        })
    }

    /// Gives the worker a job and returns the answer. Returns `None` if the worker ended or exceeded the time limit.
    fn judge<A: Answer>(&mut self, job: &Job, limit: Duration) -> Result<Option<A>, Failure> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        if self.stdin.write_all(&line).is_err() {
            return Ok(None);
        }
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(Some(serde_json::from_str(&answer)?)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                self.is_late = true;
                Ok(None)
            }
        }
    }

    /// Waits until the worker's process has ended, and returns the reason. Kills the process first if it is late.
    fn end(mut self, limit: Duration) -> Result<Ended, Failure> {
        if self.is_late {
            self.child.0.kill()?;
            self.child.0.wait()?;
            let limit = limit.as_secs_f64();
            return Ok(Ended::Late(format!("not done after {limit} s")));
        }
        let status = self.child.0.wait()?;
        let last_words = self.last_words.join().unwrap_or_default();
        Ok(Ended::Crashed(format!("crashed: {status}: {last_words}")))
    }
}

/// A process that is killed when its owner is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
