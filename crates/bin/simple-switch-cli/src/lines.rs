//! Reads commands: from a terminal, with history and completion, or from a file or pipe.

use std::io::{self, BufRead, BufReader, IsTerminal, Stdin};

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::completion::Completion;
use crate::error::Ended;
use crate::limits::CHUNK_BYTES;
use crate::output::Output;
use crate::session::Session;

const PROMPT: &str = "RuntimeCmd: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Terminal,
    /// A file or a pipe; prompts are written too, because scripts expect them.
    Pipe,
}

impl Source {
    pub fn of_standard_input() -> Self {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            Self::Terminal
        } else {
            Self::Pipe
        }
    }
}

#[derive(Debug)]
pub enum Line {
    /// From a terminal.
    Typed(String),
    /// From a file or pipe, with its number, from 1.
    Numbered(usize, String),
    End,
}

pub enum Lines {
    Terminal(Box<Editor<Completion, DefaultHistory>>),
    Pipe(BufReader<Stdin>, usize),
}

impl Lines {
    pub fn new(source: Source, session: &Session) -> Result<Self, Ended> {
        if source == Source::Pipe {
            let stdin = BufReader::with_capacity(CHUNK_BYTES, io::stdin());
            return Ok(Self::Pipe(stdin, 0));
        }
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .auto_add_history(true)
            .build();
        let broken = |error: ReadlineError| Ended::Input(io::Error::other(error));
        let mut editor = Editor::with_config(config).map_err(broken)?;
        editor.set_helper(Some(Completion::new(&session.program)));
        Ok(Self::Terminal(Box::new(editor)))
    }

    pub fn next(&mut self, out: &Output) -> Result<Line, Ended> {
        match self {
            Self::Terminal(editor) => {
                out.flush()?;
                loop {
                    match editor.readline(PROMPT) {
                        Ok(line) => return Ok(Line::Typed(line)),
                        Err(ReadlineError::Eof) => return Ok(Line::End),
                        // Ctrl-C discards the typed line.
                        Err(ReadlineError::Interrupted) => {}
                        Err(error) => return Err(Ended::Input(io::Error::other(error))),
                    }
                }
            }
            Self::Pipe(input, number) => {
                out.text(PROMPT)?;
                // The writer of the pipe may wait for this output before it writes the next command.
                if !input.buffer().contains(&b'\n') {
                    out.flush()?;
                }
                let mut line = Vec::new();
                let n_bytes = input.read_until(b'\n', &mut line).map_err(Ended::Input)?;
                *number += 1;
                match n_bytes {
                    0 => Ok(Line::End),
                    _ => Ok(Line::Numbered(
                        *number,
                        String::from_utf8_lossy(&line).into_owned(),
                    )),
                }
            }
        }
    }
}
