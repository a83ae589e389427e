//! The interactive shell: a prompt with history, completion and examples. Messages from the switch appear above the
//! prompt.

use std::path::PathBuf;
use std::sync::Arc;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};
use tokio::sync::{mpsc, oneshot};

use super::complete::{Candidates, complete, hint};
use super::schema::Schema;
use super::shell::{Place, Shell, Stop};
use crate::failure::Failure;
use crate::output;

const HISTORY_LINES: usize = 1_000;

/// A request to the line editor to read a line: the prompt, the names for completion, and the channel for the answer.
struct Ask {
    prompt: String,
    schema: Arc<Schema>,
    answer: oneshot::Sender<rustyline::Result<String>>,
}

/// The line editor in a separate thread, because it blocks on key presses.
struct Terminal {
    asks: mpsc::Sender<Ask>,
    /// Prints above the prompt.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl Terminal {
    fn start() -> Result<Terminal, Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_LINES)?
            .history_ignore_space(true)
            .auto_add_history(true)
            .build();
        let mut editor: Editor<Names, FileHistory> = Editor::with_config(config)?;
        let printer = editor.create_external_printer().ok();
        let printer = printer.map(|it| Box::new(it) as Box<dyn ExternalPrinter + Send>);
        let (asks, mut receiver) = mpsc::channel::<Ask>(1);
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let history = history_file();
            if let Some(path) = &history {
                // Fails on the first run: there is no history file.
                let _ = editor.load_history(path);
            }
            while let Some(ask) = receiver.blocking_recv() {
                editor.set_helper(Some(Names {
                    schema: ask.schema,
                    files: FilenameCompleter::new(),
                }));
                let line = editor.readline(&ask.prompt);
                if let Some(path) = &history {
                    // If the folder is not writable, only the history is lost.
                    let _ = editor.save_history(path);
                }
                let _ = ask.answer.send(line);
            }
            let _ = end.send(());
        });
        Ok(Terminal {
            asks,
            printer,
            ended: Some(ended),
        })
    }

    fn print(&mut self, text: &str) {
        let printed = self
            .printer
            .as_mut()
            .map(|printer| printer.print(format!("reprise: {}\n", printable::line(text))));
        if !matches!(printed, Some(Ok(()))) {
            output::error_line(format_args!("reprise: {text}"));
        }
    }

    /// Reads the next line. Meanwhile prints messages from the switch.
    async fn line(&mut self, shell: &mut Shell) -> rustyline::Result<String> {
        let (answer, mut line) = oneshot::channel();
        let ask = Ask {
            prompt: shell.prompt(),
            schema: Arc::clone(&shell.schema),
            answer,
        };
        if self.asks.send(ask).await.is_err() {
            return Err(ReadlineError::Eof);
        }
        loop {
            tokio::select! {
                line = &mut line => return line.unwrap_or(Err(ReadlineError::Eof)),
                notice = shell.next_notice() => self.print(&notice),
            }
        }
    }
}

/// Returns the path of the history file: `$XDG_STATE_HOME/reprise/p4rt_history`, or
/// `~/.local/state/reprise/p4rt_history` if this variable does not hold an absolute path.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from)?;
        Some(home.join(".local/state"))
    })?;
    let folder = state.join("reprise");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("p4rt_history"))
}

/// Runs lines until `exit` or Ctrl-D. A failed command does not end the shell.
pub async fn run(shell: &mut Shell) -> Result<(), Failure> {
    let mut terminal = Terminal::start()?;
    output::text(shell.greeting());
    if let Err(message) = shell.try_primary().await {
        output::error_line(format_args!("reprise: {message}"));
    }
    loop {
        let line = match terminal.line(shell).await {
            Ok(line) => line,
            // Ctrl-C at the prompt begins a new line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        shell.forget_interrupts();
        let place = Place {
            text: line,
            ..Place::default()
        };
        match shell.run(&place).await {
            Ok(()) => {}
            Err(Stop::Exit) => break,
            Err(Stop::Interrupted) => output::error_line("reprise: interrupted"),
            Err(Stop::Failed(message, found)) => {
                let failure = place.fails(message).and(found);
                failure.report("reprise");
                if shell.is_json() {
                    output::json(&failure.to_json());
                }
            }
        }
    }
    if let Some(n) = shell.open_batch().filter(|n| *n > 0) {
        let updates = output::count(n, "update");
        output::error_line(format_args!(
            "reprise: the open batch is forgotten: {updates}"
        ));
    }
    // The editor restores the terminal before the program ends.
    let Terminal { asks, ended, .. } = terminal;
    drop(asks);
    if let Some(ended) = ended {
        let _ = ended.await;
    }
    Ok(())
}

/// Completes lines and shows examples, with the names in the current P4Info.
struct Names {
    schema: Arc<Schema>,
    files: FilenameCompleter,
}

/// An example that is only shown: the right arrow key does not insert it.
struct Example(String);

impl Hint for Example {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        match complete(&self.schema, line, cursor) {
            Candidates::File => self.files.complete(line, cursor, context),
            Candidates::Words { start, words } => {
                let pair = |replacement: String| Pair {
                    display: replacement.trim_end().to_owned(),
                    replacement,
                };
                Ok((start, words.into_iter().map(pair).collect()))
            }
        }
    }
}

impl Hinter for Names {
    type Hint = Example;

    fn hint(&self, line: &str, cursor: usize, _: &Context<'_>) -> Option<Example> {
        (cursor == line.len())
            .then(|| hint(&self.schema, line, cursor))
            .flatten()
            .map(Example)
    }
}

impl Highlighter for Names {
    fn highlight_hint<'h>(&self, hint: &'h str) -> std::borrow::Cow<'h, str> {
        format!("\x1b[2m{hint}\x1b[0m").into()
    }
}

impl Validator for Names {}

impl Helper for Names {}
