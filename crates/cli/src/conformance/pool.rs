//! Workers: as many processes as asked for, each started again when a sample ends it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::{Sample, Verdict};
use crate::failure::Failure;

/// How samples are run.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    /// Workers.
    pub n_jobs: usize,
    /// How long a sample may take.
    pub time_limit: Duration,
}

/// A sample's position with what it came to and how long that took.
pub type Judged = (usize, Verdict, Duration);

/// Runs every sample; `on_judged` is told of each in the order in which they end.
///
/// # Errors
/// A worker that cannot be started.
pub fn run(
    pool: Pool,
    samples: &[Sample],
    mut on_judged: impl FnMut(Judged),
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let (send, receive) = channel::<Result<Judged, Failure>>();
    std::thread::scope(|scope| {
        for _ in 0..pool.n_jobs.clamp(1, samples.len().max(1)) {
            let send = send.clone();
            let next = &next;
            scope.spawn(move || {
                if let Err(failure) = serve(pool, samples, next, &send) {
                    // Nobody listens only after another failure.
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

/// Takes samples until none is left.
fn serve(
    pool: Pool,
    samples: &[Sample],
    next: &AtomicUsize,
    send: &Sender<Result<Judged, Failure>>,
) -> Result<(), Failure> {
    let mut worker = None;
    loop {
        let position = next.fetch_add(1, Ordering::Relaxed);
        let Some(sample) = samples.get(position) else {
            return Ok(());
        };
        let mut current = match worker.take() {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        let begin = Instant::now();
        let verdict = match current.judge(sample, pool.time_limit)? {
            Some(verdict) => {
                worker = Some(current);
                verdict
            }
            None => Verdict::Failed(current.end(pool.time_limit)?),
        };
        if send.send(Ok((position, verdict, begin.elapsed()))).is_err() {
            return Ok(());
        }
    }
}

/// A process of this program that judges samples.
struct Worker {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
    is_late: bool,
}

impl Worker {
    fn start() -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("conformance-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A panic's text is in the verdict; a stack overflow's is in how the process ended.
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("a worker has no standard input and output"));
        };
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            answers,
            is_late: false,
        })
    }

    /// None where the worker ended or is too late.
    fn judge(&mut self, sample: &Sample, limit: Duration) -> Result<Option<Verdict>, Failure> {
        let mut line = serde_json::to_vec(sample)?;
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

    /// Ends the process and says why it had to.
    fn end(mut self, limit: Duration) -> Result<String, Failure> {
        if self.is_late {
            self.child.kill()?;
            self.child.wait()?;
            return Ok(format!("not done after {} s", limit.as_secs_f64()));
        }
        Ok(format!("crashed: {}", how(self.child.wait()?)))
    }
}

fn how(status: ExitStatus) -> String {
    status.to_string()
}

/// A worker ends when its input does.
impl Drop for Worker {
    fn drop(&mut self) {
        // One that was killed is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
