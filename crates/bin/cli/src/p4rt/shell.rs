//! Executes commands over one connection, with one role and one batch at a time.

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use p4runtime_client::{Client, ClientError};
use p4runtime_proto::p4::v1::Entity;
use p4runtime_proto::p4::v1::stream_message_response::Update as Message;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::command::{self, Command, Query};
use super::grammar;
use super::info;
use super::json as as_json;
use super::pipeline::Loaded;
use super::print;
use super::schema::{Lack, Schema};
use super::writes::Batch;
use crate::args::Global;
use crate::failure::Failure;
use crate::output;

/// How the shell becomes primary, and where it gets the program's names.
#[derive(Clone, Debug)]
pub struct Choices {
    pub read_only: bool,
    pub election_id: Option<u128>,
    pub p4info: Option<PathBuf>,
    /// Whether a user types the commands. If so, a command does not wait until another controller gives up the primary
    /// role.
    pub is_interactive: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The file that has the command; `None` if the command is from the command line, or typed.
    pub file: Option<String>,
    pub line: Option<usize>,
    pub text: String,
    /// The nesting depth of the file that has the command: 1 for a file that the command line names, 2 for a file that
    /// this file runs with `source`, and so on.
    pub depth: usize,
}

impl Place {
    /// Returns the place as messages name it: `setup.p4rt:3`, or `line 3` if there is no file. Returns `None` if the
    /// place has no line number, as for a typed line.
    pub fn words(&self) -> Option<String> {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (None, Some(line)) => Some(format!("line {line}")),
            _ => None,
        }
    }

    fn said(&self, message: &str) -> String {
        match self.words() {
            Some(place) => format!("{place}: {message}"),
            None => message.to_owned(),
        }
    }

    /// The members with which every JSON document of the command begins.
    fn document(&self) -> Value {
        let mut document = json!({});
        if let Some(file) = &self.file {
            document["file"] = file.as_str().into();
        }
        if let Some(line) = self.line {
            document["line"] = line.into();
        }
        document["command"] = self.text.trim().into();
        document
    }

    pub fn fails(&self, message: impl std::fmt::Display) -> Failure {
        let message = message.to_string();
        let mut document = self.document();
        document["error"] = message.as_str().into();
        Failure::new(self.said(&message)).with(document)
    }
}

pub enum Stop {
    /// The command failed; the message has not been printed yet.
    Failed(String, Value),
    Interrupted,
    Exit,
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Stop {
        Stop::failed(match error {
            ClientError::NoPipeline => Lack::Pipeline.message().to_owned(),
            ClientError::NoP4Info => Lack::P4Info.message().to_owned(),
            error => error.to_string(),
        })
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::failed(failure.to_string())
    }
}

impl Stop {
    pub fn failed(message: impl Into<String>) -> Stop {
        Stop::Failed(message.into(), json!({}))
    }

    pub(super) fn and(self, more: &str) -> Stop {
        match self {
            Stop::Failed(message, found) => Stop::Failed(message + more, found),
            stop => stop,
        }
    }
}

pub type Done = Result<(), Stop>;

/// A connection, and what the shell knows of the switch.
pub struct Shell {
    pub(super) client: Client,
    pub(super) global: Global,
    pub(super) choices: Choices,
    pub schema: Arc<Schema>,
    pub(super) batch: Option<Batch>,
    pub(super) waiting: VecDeque<Message>,
    /// Number of messages dropped because the queue was full.
    pub(super) n_lost: u64,
    pub(super) interrupts: Signal,
    /// Whether the switch may have another program than the shell knows, for example because the stream was lost.
    pub(super) is_stale: bool,
    /// Whether the switch turned out to have another program than at this shell's last write.
    pub(super) is_replaced: bool,
    /// Whether this shell has saved the program without a commit: reads and writes are for this program, but the switch
    /// forwards with the previous one.
    pub(super) is_saved: bool,
}

/// Waits for the work. Returns its result, or `None` if the user presses Ctrl-C first.
pub async fn unless_interrupted<T>(
    interrupts: &mut Signal,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        _ = interrupts.recv() => None,
        done = work => Some(done),
    }
}

impl Shell {
    /// Loads the program's names; does not become primary yet.
    pub async fn open(client: Client, global: &Global, choices: Choices) -> Result<Shell, Failure> {
        let mut shell = Shell {
            client,
            global: global.clone(),
            choices,
            schema: Arc::new(Schema::without(Lack::Pipeline)),
            batch: None,
            waiting: VecDeque::new(),
            n_lost: 0,
            interrupts: signal(SignalKind::interrupt())?,
            is_stale: false,
            is_replaced: false,
            is_saved: false,
        };
        shell.load_schema().await?;
        Ok(shell)
    }

    /// The prompt. It shows whether a batch is open, and whether this shell is primary.
    pub fn prompt(&self) -> String {
        let state = match (self.open_batch(), self.client.election_id()) {
            (Some(n), _) => format!(" ({} collected)", output::count(n, "update")),
            (None, None) if self.choices.read_only => " (reads only)".to_owned(),
            (None, None) => " (not primary)".to_owned(),
            (None, Some(_)) => String::new(),
        };
        format!("p4rt{state}> ")
    }

    /// The first line that a user sees.
    pub fn greeting(&self) -> String {
        let program = match self.schema.lack {
            Some(Lack::Pipeline) => "no pipeline yet (`pipeline set PROGRAM.p4`)".to_owned(),
            Some(Lack::P4Info) | None => info::summary(&self.schema),
        };
        format!(
            "{}, device {}: {program}. `help` lists the commands, Tab completes.",
            self.global.address(),
            self.global.device_id
        )
    }

    /// Runs a line. The caller reports failures.
    pub async fn run(&mut self, place: &Place) -> Result<(), Stop> {
        let mut notes = Vec::new();
        let mut parsed = command::parse(&self.schema, &place.text, &mut notes);
        let is_local = matches!(parsed, Ok(None | Some(Command::Exit | Command::Help(_))));
        if self.is_stale && !is_local {
            self.reload_schema().await?;
            parsed = command::parse(&self.schema, &place.text, &mut notes);
        }
        for note in notes {
            output::error_line(format_args!("reprise: {}", place.said(&note)));
        }
        match parsed {
            Ok(None) => Ok(()),
            Ok(Some(command)) => self.execute(command, place).await,
            Err(message) => Err(Stop::failed(message)),
        }
    }

    async fn execute(&mut self, command: Command, place: &Place) -> Done {
        match command {
            Command::Write(updates) => self.write(updates, place).await,
            Command::Read(query) => self.read(query, place).await,
            Command::Clear(query) => self.clear(query, place).await,
            Command::Watch(watch) => self.watch(watch, place).await,
            Command::PacketOut(packet) => self.packet_out(packet, place).await,
            Command::SetPipeline {
                action,
                program,
                p4info,
                cookie,
            } => {
                let loaded = Loaded {
                    program: &program,
                    p4info: p4info.as_deref(),
                    cookie,
                };
                self.set_pipeline(action, loaded, place).await
            }
            Command::CommitPipeline => self.commit_pipeline(place).await,
            Command::ShowPipeline => self.show_pipeline(place).await,
            Command::SaveP4Info(path) => self.save_p4info(&path, place).await,
            Command::SaveConfig(path) => self.save_config(&path, place).await,
            Command::Reload => self.reload(place).await,
            Command::Info(name) => {
                let text = info::about(&self.schema, name.as_deref()).map_err(Stop::failed)?;
                let value = info::json(&self.schema, name.as_deref());
                self.print(place, json!({ "info": value }), || text.clone());
                Ok(())
            }
            Command::Begin(atomicity) => self.begin(atomicity, place),
            Command::Commit => self.commit(place).await,
            Command::Abort => self.abort(place),
            Command::ShowPrimary => self.show_primary(place).await,
            Command::TakePrimary(id) => self.take_primary(id, place).await,
            Command::ReleasePrimary => {
                self.release_primary(place);
                Ok(())
            }
            Command::Capabilities => {
                let version = self.client.capabilities().await?;
                let document = json!({ "p4runtime_api_version": version });
                self.print(place, document, || format!("P4Runtime {version}"));
                Ok(())
            }
            Command::Source(path) => Box::pin(super::script::source(self, &path, place)).await,
            Command::Help(words) => {
                let text = grammar::help(words.as_deref()).map_err(Stop::failed)?;
                self.print(place, json!({ "help": text }), || text.clone());
                Ok(())
            }
            Command::Exit => Err(Stop::Exit),
        }
    }

    /// With `--json`, prints the command's JSON document. Otherwise prints the text, unless it is empty.
    pub(super) fn print(&self, place: &Place, found: Value, text: impl FnOnce() -> String) {
        if !self.global.json {
            let text = text();
            if !text.is_empty() {
                output::text(text);
            }
            return;
        }
        output::json(&document(place, found));
    }

    async fn read(&mut self, query: Query, place: &Place) -> Done {
        let schema = Arc::clone(&self.schema);
        let is_json = self.global.json;
        let mut n = 0_usize;
        if is_json {
            let opened = document(place, json!({})).to_string();
            let opened = opened.trim_end_matches('}');
            output::piece(format_args!("{opened},\"entities\":["));
        }
        let each = |part: Vec<Entity>| {
            let mut text = String::new();
            for entity in part.iter().filter(|it| query.keeps.passes(it)) {
                if is_json {
                    text.push_str(if n == 0 { "" } else { "," });
                    text.push_str(&as_json::entity(&schema, entity).to_string());
                } else {
                    text.push_str(&print::line(&schema, entity));
                    text.push('\n');
                }
                n += 1;
            }
            output::piece(text);
        };
        let read = self.client.read_each(query.entities, each);
        let read = unless_interrupted(&mut self.interrupts, read).await;
        if is_json {
            let is_complete = matches!(read, Some(Ok(())));
            output::text(format_args!("],\"complete\":{is_complete}}}"));
        }
        match read {
            None => Err(Stop::Interrupted),
            Some(Err(error)) => Err(self.refused(error).await),
            Some(Ok(())) if query.is_one && n == 0 => Err(Stop::failed("there is no such entry")),
            Some(Ok(())) => Ok(()),
        }
    }

    /// Discards Ctrl-C presses from before a command.
    pub fn forget_interrupts(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while self.interrupts.poll_recv(&mut context).is_ready() {}
    }

    /// Waits for the work. Returns its result, or `None` if the user presses Ctrl-C first.
    pub async fn or_interrupted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        unless_interrupted(&mut self.interrupts, work).await
    }

    pub fn is_json(&self) -> bool {
        self.global.json
    }
}

pub fn document(place: &Place, found: Value) -> Value {
    let mut document = place.document();
    if let (Some(all), Value::Object(found)) = (document.as_object_mut(), found) {
        all.extend(found);
    }
    document
}
