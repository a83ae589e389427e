//! Runs commands from the command line, files and standard input: one after the other, until the first failure unless
//! `--keep-going`.

use std::io::BufRead as _;
use std::path::Path;

use serde_json::json;
use tokio::sync::mpsc;

use super::shell::{Place, Shell, Stop};
use crate::failure::Failure;
use crate::{files, output};

const DEPTH_MAX: usize = 16;

/// Number of lines read ahead of the running command.
const LINES_AHEAD: usize = 64;

pub struct Script {
    pub keeps_going: bool,
    n_commands: usize,
    n_failed: usize,
}

impl Script {
    pub fn new(keeps_going: bool) -> Script {
        Script {
            keeps_going,
            n_commands: 0,
            n_failed: 0,
        }
    }

    /// Runs a line. Returns `false` if the line is `exit`.
    async fn line(&mut self, shell: &mut Shell, place: &Place) -> Result<bool, Failure> {
        self.n_commands += 1;
        match shell.run(place).await {
            Ok(()) => Ok(true),
            Err(Stop::Exit) => Ok(false),
            Err(Stop::Interrupted) => Err(place.fails("interrupted")),
            Err(Stop::Failed(message, found)) => {
                let failure = place.fails(message).and(found);
                if !self.keeps_going {
                    return Err(failure);
                }
                self.n_failed += 1;
                failure.report("reprise");
                if shell.is_json() {
                    output::json(&failure.to_json());
                }
                Ok(true)
            }
        }
    }

    pub async fn text(
        &mut self,
        shell: &mut Shell,
        text: &str,
        place: impl Fn(usize) -> Place,
    ) -> Result<bool, Failure> {
        for (idx, line) in text.lines().enumerate() {
            let place = Place {
                text: line.to_owned(),
                ..place(idx + 1)
            };
            if !self.line(shell, &place).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs standard input, line by line as it arrives.
    pub async fn standard_input(&mut self, shell: &mut Shell) -> Result<bool, Failure> {
        let (sender, mut lines) = mpsc::channel(LINES_AHEAD);
        // A separate thread reads standard input. If the shell ends before this thread, the shell does not wait for it.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let is_end = line.is_err();
                if sender.blocking_send(line).is_err() || is_end {
                    break;
                }
            }
        });
        let mut number = 0;
        loop {
            number += 1;
            let mut place = Place {
                line: Some(number),
                ..Place::default()
            };
            match shell.or_interrupted(lines.recv()).await {
                None => return Err(place.fails("interrupted")),
                Some(None) => return Ok(true),
                Some(Some(Ok(line))) => place.text = line,
                Some(Some(Err(error))) => {
                    let why = files::why(&error);
                    return Err(place.fails(format_args!("standard input cannot be read: {why}")));
                }
            }
            if !self.line(shell, &place).await? {
                return Ok(false);
            }
        }
    }

    pub fn end(self, shell: &Shell) -> Result<(), Failure> {
        if let Some(n) = shell.open_batch() {
            let updates = output::count(n, "update");
            return Err(Failure::new(format!(
                "the commands end with an open batch of {updates}, and nothing of it is written: `commit` is missing"
            )));
        }
        match self.n_failed {
            0 => Ok(()),
            n_failed => Err(Failure::new(format!(
                "{n_failed} of {} failed",
                output::count(self.n_commands, "line")
            ))
            .with(json!({ "failed": n_failed, "lines": self.n_commands }))),
        }
    }
}

pub async fn source(shell: &mut Shell, path: &Path, from: &Place) -> Result<(), Stop> {
    let depth = from.depth + 1;
    if depth > DEPTH_MAX {
        return Err(Stop::failed(format!(
            "files run each other {DEPTH_MAX} deep: does {} run itself?",
            path.display()
        )));
    }
    let text = files::text(path, "a file of commands")?;
    for (idx, line) in text.lines().enumerate() {
        let place = Place {
            file: Some(path.display().to_string()),
            line: Some(idx + 1),
            text: line.to_owned(),
            depth,
        };
        match shell.run(&place).await {
            Ok(()) => {}
            Err(Stop::Exit) => return Ok(()),
            Err(Stop::Interrupted) => return Err(Stop::Interrupted),
            Err(Stop::Failed(message, found)) => {
                // The message of a failure in a nested file already names the failure's place.
                let message = if line.trim_start().starts_with("source") {
                    message
                } else {
                    format!("{}: {message}", place.words().unwrap_or_default())
                };
                return Err(Stop::Failed(message, found));
            }
        }
    }
    Ok(())
}
