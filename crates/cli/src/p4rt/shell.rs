//! Carries commands out: one connection, one role, one batch at a time.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conference::client::{Client, ClientError, WriteError};
use conference::limits::WRITE_BATCH_UPDATES;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use p4runtime_proto::p4::v1::stream_message_response::Update as Message;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    self as p4, Entity, ForwardingPipelineConfig, TableEntry, Update, entity,
    forwarding_pipeline_config, update,
};
use p4runtime_proto::text_format;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::Code;

use super::command::{self, Command, Query, passes};
use super::grammar;
use super::info;
use super::json as as_json;
use super::print;
use super::schema::Schema;
use crate::args::Global;
use crate::commands::program;
use crate::failure::Failure;
use crate::session::take_primary;
use crate::{files, output};

/// Updates that failed and are told one by one.
const FAILED_SHOWN_MAX: usize = 20;

/// Who comes to write, and when.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Never primary.
    pub read_only: bool,
    /// Primary with just this id.
    pub election_id: Option<u128>,
    /// Names come from this file and not from the switch.
    pub p4info: Option<PathBuf>,
    /// A person types: nothing waits for other controllers.
    pub is_interactive: bool,
}

/// Where a command stands, for messages.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// `None`: a command line's, or typed.
    pub file: Option<String>,
    pub line: Option<usize>,
    pub text: String,
    /// How many files run it.
    pub depth: usize,
}

impl Place {
    /// `setup.p4rt:3`, `line 3`; nothing of a typed line.
    pub fn words(&self) -> Option<String> {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (None, Some(line)) => Some(format!("line {line}")),
            _ => None,
        }
    }

    /// What every document of a command begins with.
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

    /// A failure at this place.
    pub fn fails(&self, message: impl std::fmt::Display) -> Failure {
        let line = match self.words() {
            Some(place) => format!("{place}: {message}"),
            None => message.to_string(),
        };
        Failure::new(line).with(self.document())
    }
}

/// Updates that wait for `commit`.
struct Batch {
    atomicity: Atomicity,
    updates: Vec<Update>,
    /// Of each update.
    places: Vec<Place>,
}

/// Why a command has no result.
pub enum Stop {
    /// It failed; the message is not told yet.
    Failed(String, Value),
    /// Ctrl-C.
    Interrupted,
    /// The end was asked for.
    Exit,
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Stop {
        Stop::failed(error.to_string())
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
}

/// The end of a command.
pub type Done = Result<(), Stop>;

/// A connection and what is known of the switch behind it.
pub struct Shell {
    pub(super) client: Client,
    pub(super) global: Global,
    pub(super) choices: Choices,
    pub schema: Arc<Schema>,
    batch: Option<Batch>,
    pub(super) waiting: VecDeque<Message>,
    /// Messages that had no place.
    pub(super) n_lost: u64,
    pub(super) interrupts: Signal,
    /// The stream was lost: the switch may have another program since.
    pub(super) is_stale: bool,
    /// The switch was found to have another program than the one by which this shell last wrote.
    is_replaced: bool,
}

/// The result of the work, or `None` at Ctrl-C.
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
    /// Knows the program of the switch; is not primary yet.
    pub async fn open(client: Client, global: &Global, choices: Choices) -> Result<Shell, Failure> {
        let mut shell = Shell {
            client,
            global: global.clone(),
            choices,
            schema: Arc::new(Schema::empty()),
            batch: None,
            waiting: VecDeque::new(),
            n_lost: 0,
            interrupts: signal(SignalKind::interrupt())?,
            is_stale: false,
            is_replaced: false,
        };
        shell.load_schema().await?;
        Ok(shell)
    }

    async fn load_schema(&mut self) -> Result<(), Failure> {
        let schema = match &self.choices.p4info {
            Some(path) => Schema::new(program::read_p4info(path)?),
            None => match self.client.p4info().await {
                Ok(p4info) => Schema::new(p4info),
                Err(ClientError::NoPipeline) => Schema::empty(),
                Err(error) => return Err(error.into()),
            },
        };
        self.schema = Arc::new(schema);
        self.is_stale = false;
        Ok(())
    }

    /// Another controller may have set another program.
    async fn reload_schema(&mut self) -> Result<(), Failure> {
        let known = Arc::clone(&self.schema);
        self.load_schema().await?;
        self.is_replaced |= self.schema.p4info != known.p4info;
        Ok(())
    }

    /// The prompt says what the next line meets.
    pub fn prompt(&self) -> String {
        let state = match (&self.batch, self.client.election_id()) {
            (Some(batch), _) => {
                format!(
                    " ({} collected)",
                    output::count(batch.updates.len(), "update")
                )
            }
            (None, None) => " (reads only)".to_owned(),
            (None, Some(_)) => String::new(),
        };
        format!("p4rt{state}> ")
    }

    /// What a person reads first.
    pub fn greeting(&self) -> String {
        let program = match self.schema.is_empty {
            true => "no pipeline yet (`pipeline set PROGRAM.p4`)".to_owned(),
            false => info::summary(&self.schema),
        };
        format!(
            "{}, device {}: {program}. `help` lists the commands, Tab completes.",
            self.global.address(),
            self.global.device_id
        )
    }

    /// At the begin of a session: primary if nobody else is.
    pub async fn try_primary(&mut self) -> Result<(), String> {
        if self.choices.read_only {
            return Ok(());
        }
        self.expect_primary().await.map_err(|stop| match stop {
            Stop::Failed(message, _) => message,
            Stop::Interrupted | Stop::Exit => "interrupted".to_owned(),
        })
    }

    /// Primary, on the program for which the command was read: another controller may have set another one while
    /// this shell was not.
    pub(super) async fn expect_primary(&mut self) -> Done {
        if self.client.election_id().is_none() {
            self.take_role().await?;
            self.reload_schema().await?;
        }
        if !std::mem::take(&mut self.is_replaced) {
            return Ok(());
        }
        let batch = match self.batch.take() {
            Some(_) => ", and the open batch was of the other: it is forgotten",
            None => "",
        };
        Err(Stop::failed(format!(
            "the switch has another program since this shell read it{batch}; run the command again if it still means what it should"
        )))
    }

    async fn take_role(&mut self) -> Done {
        if self.client.election_id().is_some() {
            return Ok(());
        }
        if self.choices.read_only {
            return Err(Stop::failed(
                "this shell was started with --read-only: leave the option out to write",
            ));
        }
        if let Some(id) = self.choices.election_id {
            return self.become_primary_as(id).await;
        }
        let mut global = self.global.clone();
        if self.choices.is_interactive {
            global.wait_s = 0;
        }
        let taken = take_primary(&mut self.client, &global);
        match unless_interrupted(&mut self.interrupts, taken).await {
            None => Err(Stop::Interrupted),
            Some(Ok(())) => Ok(()),
            Some(Err(_)) if self.choices.is_interactive => {
                match self.client.primary_elsewhere().await? {
                    Some(id) => Err(Stop::failed(format!(
                        "another controller (election id {id}) is primary: this shell reads only; `primary take` takes the role from it"
                    ))),
                    None => Err(Stop::failed(
                        "another controller was primary a moment ago: run the command again",
                    )),
                }
            }
            Some(Err(failure)) => Err(failure.into()),
        }
    }

    async fn become_primary_as(&mut self, id: u128) -> Done {
        match self.client.become_primary_as(id).await? {
            true => Ok(()),
            false => Err(Stop::failed(format!(
                "another controller has election id {id} or a higher one: `primary take` without a number is higher"
            ))),
        }
    }

    /// Runs a line. Failures are for the caller to tell.
    pub async fn run(&mut self, place: &Place) -> Result<(), Stop> {
        let mut parsed = command::parse(&self.schema, &place.text);
        let is_local = matches!(parsed, Ok(None | Some(Command::Exit | Command::Help(_))));
        if self.is_stale && !is_local {
            self.reload_schema().await?;
            parsed = command::parse(&self.schema, &place.text);
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
                let loaded = program::load(&program, p4info.as_deref())?;
                let cookie = cookie.map(|cookie| forwarding_pipeline_config::Cookie { cookie });
                let config = ForwardingPipelineConfig {
                    p4info: Some(loaded.p4info),
                    p4_device_config: loaded.json,
                    cookie,
                };
                self.set_pipeline(action, Some(config), place).await
            }
            Command::CommitPipeline => self.set_pipeline(PipelineAction::Commit, None, place).await,
            Command::ShowPipeline => self.show_pipeline(place).await,
            Command::SaveP4Info(path) => self.save_p4info(&path, place).await,
            Command::SaveConfig(path) => self.save_config(&path, place).await,
            Command::Reload => {
                self.reload_schema().await?;
                // Whoever asks knows; only a batch is of the program before.
                self.is_replaced &= self.batch.is_some();
                let summary = info::summary(&self.schema);
                self.tell(place, json!({ "pipeline": summary }), || summary.clone());
                Ok(())
            }
            Command::Info(name) => {
                let text = info::about(&self.schema, name.as_deref()).map_err(Stop::failed)?;
                let value = info::json(&self.schema, name.as_deref());
                self.tell(place, json!({ "info": value }), || text.clone());
                Ok(())
            }
            Command::Begin(atomicity) => self.begin(atomicity, place),
            Command::Commit => self.commit(place).await,
            Command::Abort => self.abort(place),
            Command::ShowPrimary => self.show_primary(place).await,
            Command::TakePrimary(id) => self.take_primary(id, place).await,
            Command::ReleasePrimary => {
                self.client.step_down();
                self.tell(place, json!({ "primary": false }), || {
                    "not primary any more: this shell reads only".to_owned()
                });
                Ok(())
            }
            Command::Capabilities => {
                let version = self.client.capabilities().await?;
                let document = json!({ "p4runtime_api_version": version });
                self.tell(place, document, || format!("P4Runtime {version}"));
                Ok(())
            }
            Command::Source(path) => Box::pin(super::script::source(self, &path, place)).await,
            Command::Help(words) => {
                let text = grammar::help(words.as_deref()).map_err(Stop::failed)?;
                self.tell(place, json!({ "help": text }), || text.clone());
                Ok(())
            }
            Command::Exit => Err(Stop::Exit),
        }
    }

    /// The one document of a command, or a text where there is one.
    pub(super) fn tell(&self, place: &Place, found: Value, text: impl FnOnce() -> String) {
        if !self.global.json {
            let text = text();
            if !text.is_empty() {
                output::text(text);
            }
            return;
        }
        output::json(&document(place, found));
    }

    async fn write(&mut self, updates: Vec<Update>, place: &Place) -> Done {
        if let Some(batch) = &mut self.batch {
            batch.places.extend(updates.iter().map(|_| place.clone()));
            let n = updates.len();
            batch.updates.extend(updates);
            self.tell(place, json!({ "collected": n }), String::new);
            return Ok(());
        }
        self.expect_primary().await?;
        let n = updates.len();
        self.send(updates, Atomicity::ContinueOnError, &[]).await?;
        self.tell(place, json!({ "written": n }), String::new);
        Ok(())
    }

    /// Writes a batch. `places` are those of its updates, for messages.
    async fn send(&mut self, updates: Vec<Update>, atomicity: Atomicity, places: &[Place]) -> Done {
        let n = updates.len();
        let written = self.client.write_batch(updates, atomicity);
        let written = unless_interrupted(&mut self.interrupts, written).await;
        match written {
            None => {
                output::told("reprise: interrupted: the switch may still carry the write out");
                Err(Stop::Interrupted)
            }
            Some(Ok(())) => Ok(()),
            Some(Err(WriteError::Updates(errors))) => Err(failed_updates(n, &errors, places)),
            Some(Err(WriteError::Call(error))) => {
                self.step_down_after(&error);
                Err(error.into())
            }
        }
    }

    /// After an error that says that another controller is primary.
    fn step_down_after(&mut self, error: &ClientError) {
        if matches!(error, ClientError::NotPrimary { .. }) {
            self.client.step_down();
            self.is_stale = true;
        }
    }

    fn begin(&mut self, atomicity: Atomicity, place: &Place) -> Done {
        if self.batch.is_some() {
            return Err(Stop::failed(
                "a batch is open already: `commit` writes it, `abort` forgets it",
            ));
        }
        self.batch = Some(Batch {
            atomicity,
            updates: Vec::new(),
            places: Vec::new(),
        });
        let name = atomicity.as_str_name();
        self.tell(place, json!({ "atomicity": name }), String::new);
        Ok(())
    }

    async fn commit(&mut self, place: &Place) -> Done {
        let n = self.batch.as_ref().ok_or_else(no_batch)?.updates.len();
        if n > 0 {
            self.expect_primary().await?;
        }
        // One that is refused is gone: what was done of it is told.
        let batch = self.batch.take().ok_or_else(no_batch)?;
        if n > 0 {
            self.send(batch.updates, batch.atomicity, &batch.places)
                .await?;
        }
        self.tell(place, json!({ "written": n }), || {
            format!("{} written", output::count(n, "update"))
        });
        Ok(())
    }

    fn abort(&mut self, place: &Place) -> Done {
        let batch = self.batch.take().ok_or_else(no_batch)?;
        let n = batch.updates.len();
        self.tell(place, json!({ "forgotten": n }), || {
            format!("{} forgotten", output::count(n, "update"))
        });
        Ok(())
    }

    async fn save_p4info(&mut self, path: &Path, place: &Place) -> Done {
        let config = self.client.pipeline(ResponseType::P4infoAndCookie).await?;
        let p4info = config.p4info.unwrap_or_default();
        files::write(path, text_format::print_p4info(&p4info).as_bytes())?;
        self.tell_written(path, place);
        Ok(())
    }

    async fn save_config(&mut self, path: &Path, place: &Place) -> Done {
        let config = self
            .client
            .pipeline(ResponseType::DeviceConfigAndCookie)
            .await?;
        files::write(path, &config.p4_device_config)?;
        self.tell_written(path, place);
        Ok(())
    }

    fn tell_written(&self, path: &Path, place: &Place) {
        let file = path.display().to_string();
        self.tell(place, json!({ "file": file }), || format!("{file} written"));
    }

    /// The batch that a script has left open.
    pub fn open_batch(&self) -> Option<usize> {
        self.batch.as_ref().map(|batch| batch.updates.len())
    }

    async fn read(&mut self, query: Query, place: &Place) -> Done {
        let schema = Arc::clone(&self.schema);
        let is_json = self.global.json;
        let filter = query.filter;
        let mut n = 0_usize;
        if is_json {
            let opened = document(place, json!({})).to_string();
            let opened = opened.trim_end_matches('}');
            output::piece(format_args!("{opened},\"entities\":["));
        }
        let each = |part: Vec<Entity>| {
            let mut text = String::new();
            let wanted = |it: &&Entity| filter.as_ref().is_none_or(|filter| passes(it, filter));
            for entity in part.iter().filter(wanted) {
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
            Some(Err(error)) => Err(error.into()),
            Some(Ok(())) if query.is_one && n == 0 => Err(Stop::failed("there is no such entry")),
            Some(Ok(())) => Ok(()),
        }
    }

    /// Deletes what the query finds, a batch at a time; the program's own entries stay.
    async fn clear(&mut self, query: Query, place: &Place) -> Done {
        if self.batch.is_some() {
            return Err(Stop::failed(
                "`table clear` reads first what it deletes, so it is no part of a batch: `commit` or `abort` before",
            ));
        }
        self.expect_primary().await?;
        let mut deletes = Vec::new();
        let each = |part: Vec<Entity>| {
            let keys = part.into_iter().filter_map(|it| match it.entity {
                Some(entity::Entity::TableEntry(entry)) if !entry.is_const => Some(key_of(entry)),
                _ => None,
            });
            deletes.extend(keys);
        };
        let read = self.client.read_each(query.entities, each);
        let read = unless_interrupted(&mut self.interrupts, read).await;
        read.ok_or(Stop::Interrupted)??;
        let n = deletes.len();
        for batch in deletes.chunks(WRITE_BATCH_UPDATES) {
            self.send(batch.to_vec(), Atomicity::ContinueOnError, &[])
                .await?;
        }
        self.tell(place, json!({ "written": n }), || {
            format!("{} deleted", entries(n))
        });
        Ok(())
    }

    async fn set_pipeline(
        &mut self,
        action: PipelineAction,
        config: Option<ForwardingPipelineConfig>,
        place: &Place,
    ) -> Done {
        self.take_role().await?;
        let set = self.client.configure(action, config);
        let set = unless_interrupted(&mut self.interrupts, set).await;
        let Some(set) = set else {
            self.is_stale = true;
            output::told("reprise: interrupted: `pipeline show` says which program the switch has");
            return Err(Stop::Interrupted);
        };
        if let Err(error) = set {
            self.step_down_after(&error);
            return Err(error.into());
        }
        self.load_schema().await?;
        self.is_replaced = false;
        let summary = info::summary(&self.schema);
        let done = match action {
            PipelineAction::Verify => "the switch can run it; nothing has changed".to_owned(),
            PipelineAction::VerifyAndSave => {
                "saved: `pipeline commit` puts it into force".to_owned()
            }
            _ => format!("in force: {summary}"),
        };
        let document = json!({ "action": action.as_str_name(), "pipeline": summary });
        self.tell(place, document, || done);
        Ok(())
    }

    async fn show_pipeline(&mut self, place: &Place) -> Done {
        let config = self.client.pipeline(ResponseType::P4infoAndCookie).await?;
        if self.choices.p4info.is_none() {
            self.schema = Arc::new(Schema::new(config.p4info.unwrap_or_default()));
        }
        let cookie = config.cookie.map(|it| it.cookie);
        let document = json!({
            "pipeline": info::summary(&self.schema),
            "cookie": cookie,
            "info": info::json(&self.schema, None),
        });
        let text = info::about(&self.schema, None).map_err(Stop::failed)?;
        self.tell(place, document, || {
            let cookie = cookie.map_or("none".to_owned(), |it| it.to_string());
            format!("{}, cookie {cookie}\n{text}", info::summary(&self.schema))
        });
        Ok(())
    }

    async fn show_primary(&mut self, place: &Place) -> Done {
        if let Some(id) = self.client.election_id() {
            self.tell(
                place,
                json!({ "primary": true, "election_id": id.to_string() }),
                || format!("this shell is primary, election id {id}"),
            );
            return Ok(());
        }
        let other = self.client.primary_elsewhere().await?;
        let document = json!({
            "primary": false,
            "primary_election_id": other.map(|id| id.to_string()),
        });
        self.tell(place, document, || match other {
            Some(id) => {
                format!("another controller is primary, election id {id}: this shell reads only")
            }
            None => {
                "nobody is primary; this shell becomes it with its next write, or by `primary take`"
                    .to_owned()
            }
        });
        Ok(())
    }

    async fn take_primary(&mut self, id: Option<u128>, place: &Place) -> Done {
        if self.choices.read_only {
            return self.expect_primary().await;
        }
        match id {
            Some(id) => self.become_primary_as(id).await?,
            None => self.client.become_primary().await?,
        }
        self.reload_schema().await?;
        self.show_primary(place).await
    }

    /// Ctrl-C that came before a command is not meant for it.
    pub fn forget_interrupts(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while self.interrupts.poll_recv(&mut context).is_ready() {}
    }

    /// `None` at Ctrl-C.
    pub async fn or_interrupted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        unless_interrupted(&mut self.interrupts, work).await
    }

    pub fn is_json(&self) -> bool {
        self.global.json
    }
}

/// A command's document with what was found.
pub fn document(place: &Place, found: Value) -> Value {
    let mut document = place.document();
    if let (Some(all), Value::Object(found)) = (document.as_object_mut(), found) {
        all.extend(found);
    }
    document
}

fn no_batch() -> Stop {
    Stop::failed("no batch is open: `begin` opens one")
}

fn entries(n: usize) -> String {
    match n {
        1 => "1 entry".to_owned(),
        n => format!("{n} entries"),
    }
}

/// The deletion of an entry.
fn key_of(entry: TableEntry) -> Update {
    let key = TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match,
        priority: entry.priority,
        ..TableEntry::default()
    };
    Update {
        r#type: update::Type::Delete.into(),
        entity: Some(Entity {
            entity: Some(entity::Entity::TableEntry(key)),
        }),
    }
}

/// Each failed update is told where there are several.
fn failed_updates(n: usize, errors: &[p4::Error], places: &[Place]) -> Stop {
    let text = |error: &p4::Error| {
        let code = Code::from(error.canonical_code);
        format!("{} ({code:?})", error.message)
    };
    let failed: Vec<(usize, &p4::Error)> = errors
        .iter()
        .enumerate()
        .filter(|(_, error)| error.canonical_code != 0)
        .collect();
    let updates: Vec<Value> = failed
        .iter()
        .map(|(idx, error)| {
            json!({
                "update": idx,
                "command": places.get(*idx).map(|it| it.text.trim()),
                "code": format!("{:?}", Code::from(error.canonical_code)),
                "message": error.message,
            })
        })
        .collect();
    let found = json!({ "failed_updates": updates });
    match failed.as_slice() {
        [(_, error)] if n == 1 => Stop::Failed(text(error), found),
        failed => {
            for (idx, error) in failed.iter().take(FAILED_SHOWN_MAX) {
                let place = places.get(*idx);
                let at = place
                    .and_then(Place::words)
                    .map_or(String::new(), |at| format!("{at}: "));
                let line = place.map_or(String::new(), |it| format!(": {}", it.text.trim()));
                output::told(format_args!("reprise: {at}{}{line}", text(error)));
            }
            if let Some(more) = failed
                .len()
                .checked_sub(FAILED_SHOWN_MAX)
                .filter(|n| *n > 0)
            {
                output::told(format_args!("reprise: and {more} more"));
            }
            Stop::Failed(format!("{} of {n} updates failed", failed.len()), found)
        }
    }
}
