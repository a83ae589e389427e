//! `reprise entries`: writes entries of any program from a runtime file of the P4 tutorials.

use std::path::{Path, PathBuf};

use p4runtime_client::limits::WRITE_BATCH_UPDATES;
use p4runtime_client::{Client, ClientError, P4InfoIndex, entities, id_of, name_of};
use p4runtime_proto::p4::config::v1::{Action, P4Info, Table, match_field};
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use serde_json::{Value, json};

use super::program::{self, Program};
use crate::args::{Entries as Command, Global};
use crate::entries::difference::{Change, State, difference};
use crate::entries::entry::{Key, of_entity};
use crate::entries::file::{self, Entries, ProgramFiles};
use crate::failure::Failure;
use crate::files;
use crate::output;
use crate::session::{Progress, connect_primary};
use command_line::interrupt::unless_interrupted;

pub async fn run(global: &Global, command: Command) -> Result<(), Failure> {
    let Command::Apply {
        file,
        pipeline,
        replace,
        dry_run,
    } = command;
    let runtime = RuntimeFile::read(&file)?;
    let loads = if pipeline {
        Some(runtime.program()?)
    } else {
        None
    };
    let client = if dry_run {
        Client::connect(&global.switch()?, global.device_id).await?
    } else {
        connect_primary(global).await?
    };
    let apply = Apply {
        runtime,
        client,
        replaces: replace,
        json: global.json,
    };
    apply.run(loads, dry_run).await
}

struct RuntimeFile {
    path: PathBuf,
    value: Value,
    program: ProgramFiles,
}

impl RuntimeFile {
    fn read(path: &Path) -> Result<RuntimeFile, Failure> {
        let text = files::text(path, "a runtime file (sX-runtime.json)")?;
        let in_file = |error| Failure::in_file(path, &error);
        let value = file::parse(&text).map_err(in_file)?;
        let program = file::program_files(&value).map_err(in_file)?;
        Ok(RuntimeFile {
            path: path.to_owned(),
            value,
            program,
        })
    }

    fn fails(&self, message: impl std::fmt::Display) -> Failure {
        Failure::in_file(&self.path, &message)
    }

    fn program(&self) -> Result<Program, Failure> {
        let [json, p4info] = [
            ("bmv2_json", &self.program.bmv2_json),
            ("p4info", &self.program.p4info),
        ]
        .map(|(key, named)| {
            let named = named.as_ref().ok_or_else(|| {
                self.fails(format!(
                    "expected \"{key}\": the path of a compiled program, for --pipeline loads it"
                ))
            })?;
            self.found(named).ok_or_else(|| {
                self.fails(format!(
                    "{key}: there is no \"{named}\", neither beside the file nor in the current folder: compile the program (`reprise compile PROGRAM.p4 -o build`)"
                ))
            })
        });
        program::load(&json?, Some(&p4info?))
    }

    /// Looks for a file that the runtime file names. The path `named` is relative to the folder of the runtime file or,
    /// as for the tutorials' makefiles, to the current folder.
    fn found(&self, named: &str) -> Option<PathBuf> {
        let beside = self.path.parent().map(|folder| folder.join(named));
        let candidates = beside.into_iter().chain([PathBuf::from(named)]);
        candidates.into_iter().find(|path| path.is_file())
    }

    /// Refuses a switch that runs another program than the runtime file names. Checks nothing if the P4Info that the
    /// runtime file names is not found.
    fn check_program(&self, running: &P4InfoIndex) -> Result<(), Failure> {
        let Some(path) = self.program.p4info.as_deref().and_then(|it| self.found(it)) else {
            return Ok(());
        };
        let named = program::read_p4info(&path)?;
        match first_lack(&named, running) {
            None => Ok(()),
            Some(lack) => Err(self.fails(format!(
                "the switch does not run the program of {}, its program has no {lack}: add --pipeline to load the program that the file names",
                path.display()
            ))),
        }
    }
}

/// Describes a table or action of the P4Info `named` that the running program lacks or has in another form.
fn first_lack(named: &P4Info, running: &P4InfoIndex) -> Option<String> {
    let table = named.tables.iter().find(|table| {
        let other = running.table_by_id(id_of(table.preamble.as_ref()));
        other.is_none_or(|other| keys(other).ne(keys(table)))
    });
    if let Some(table) = table {
        let name = name_of(table.preamble.as_ref());
        return Some(format!("table \"{name}\" with the same id and key"));
    }
    let action = named.actions.iter().find(|action| {
        let other = running.action_by_id(id_of(action.preamble.as_ref()));
        other.is_none_or(|other| params(other).ne(params(action)))
    });
    action.map(|it| {
        format!(
            "action \"{}\" with the same id and parameters",
            name_of(it.preamble.as_ref())
        )
    })
}

fn keys(table: &Table) -> impl Iterator<Item = (u32, &str, i32, &Option<match_field::Match>)> {
    let fields = table.match_fields.iter();
    fields.map(|it| (it.id, it.name.as_str(), it.bitwidth, &it.r#match))
}

fn params(action: &Action) -> impl Iterator<Item = (u32, &str, i32)> {
    let params = action.params.iter();
    params.map(|it| (it.id, it.name.as_str(), it.bitwidth))
}

struct Apply {
    runtime: RuntimeFile,
    client: Client,
    replaces: bool,
    json: bool,
}

struct Done<'c> {
    loaded: Option<&'c str>,
    changes: &'c [Change],
    dry_run: bool,
}

impl Apply {
    async fn run(mut self, loads: Option<Program>, dry_run: bool) -> Result<(), Failure> {
        let loads = match loads {
            Some(program) => self.unless_running(program).await?,
            None => None,
        };
        let index = match &loads {
            Some(program) => P4InfoIndex::new(program.p4info.clone()),
            None => self.running().await?,
        };
        // Check the file's entries before the first write.
        let entries = file::entries(&self.runtime.value, &index);
        let entries = entries.map_err(|error| self.runtime.fails(error))?;
        let loaded = loads.as_ref().and(self.runtime.program.bmv2_json.clone());
        if let Some(program) = loads.filter(|_| !dry_run) {
            self.load(program).await?;
        }
        let state = match (&loaded, dry_run) {
            // The program's initial entries are known only after it is loaded.
            (Some(_), true) => State::new(),
            _ => self.state(&index, &entries).await?,
        };
        let changes = difference(&state, &entries, &index, self.replaces);
        let changes = changes.map_err(|error| match loaded {
            Some(_) if !dry_run => self
                .runtime
                .fails(format!("{error}; the program is loaded")),
            _ => self.runtime.fails(error),
        })?;
        if !dry_run {
            self.write(&changes, &entries, &index).await?;
        }
        self.print(&Done {
            loaded: loaded.as_deref(),
            changes: &changes,
            dry_run,
        });
        Ok(())
    }

    async fn unless_running(&mut self, program: Program) -> Result<Option<Program>, Failure> {
        match self.client.pipeline(ResponseType::All).await {
            Ok(running) => {
                let is_same = running.p4info.as_ref() == Some(&program.p4info)
                    && running.p4_device_config == program.json;
                Ok((!is_same).then_some(program))
            }
            Err(ClientError::NoPipeline | ClientError::NoP4Info) => Ok(Some(program)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the P4Info of the switch's program, which must be the program that the runtime file names.
    async fn running(&mut self) -> Result<P4InfoIndex, Failure> {
        let running = self.client.p4info().await.map_err(|error| match error {
            ClientError::NoPipeline if self.runtime.program.bmv2_json.is_some() => {
                self.runtime.fails(
                    "the switch has no pipeline yet: add --pipeline to load the one that the file names",
                )
            }
            error => error.into(),
        })?;
        let running = P4InfoIndex::new(running);
        self.runtime.check_program(&running)?;
        Ok(running)
    }

    async fn load(&mut self, program: Program) -> Result<(), Failure> {
        let set = self.client.set_pipeline(program.p4info, program.json);
        let set = unless_interrupted(set).await;
        Ok(set.ok_or_else(|| {
            Failure::new(
                "interrupted while the program was loaded: `reprise pipeline show` says which one the switch has; run the command again",
            )
        })??)
    }

    /// Reads the switch's entries in the tables that the file uses. Reads the switch's multicast groups only if the
    /// file has multicast groups, and its clone sessions only if the file has clone sessions. With `--replace`, reads
    /// all groups, all sessions, and the entries of all tables except const tables that the file does not use.
    async fn state(&mut self, index: &P4InfoIndex, entries: &Entries) -> Result<State, Failure> {
        let is_asked = |wanted: fn(&Key) -> bool| self.replaces || entries.order.iter().any(wanted);
        let mut asked = Vec::new();
        if is_asked(|key| matches!(key, Key::MulticastGroup(_))) {
            asked.push(entities::any_multicast_group());
        }
        if is_asked(|key| matches!(key, Key::CloneSession(_))) {
            asked.push(entities::any_clone_session());
        }
        for table in &index.p4info.tables {
            let id = id_of(table.preamble.as_ref());
            let of_table =
                |key: &Key| matches!(key, Key::Entry { table_id, .. } if *table_id == id);
            // The entries of a const table cannot be removed.
            let is_replaced = self.replaces && !table.is_const_table;
            if is_replaced || entries.order.iter().any(of_table) {
                asked.push(entities::of_table(entities::every_entry(id)));
            }
            if entries.wanted.contains_key(&Key::Default { table_id: id }) {
                asked.push(entities::of_table(entities::default_entry(id)));
            }
        }
        if asked.is_empty() {
            return Ok(State::new());
        }
        let held = self.client.read(asked).await?;
        Ok(held.into_iter().filter_map(of_entity).collect())
    }

    /// Writes the changes in batches. If writing stops before the end, the next run continues from the switch's state.
    async fn write(
        &mut self,
        changes: &[Change],
        entries: &Entries,
        index: &P4InfoIndex,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(changes.len());
        let mut n_done = 0;
        let client = &mut self.client;
        let all = async {
            for batch in changes.chunks(WRITE_BATCH_UPDATES) {
                let updates = batch.iter().map(|change| change.update.clone()).collect();
                client.write(updates).await?;
                n_done += batch.len();
                progress.set(n_done);
            }
            Ok(())
        };
        // `unless_interrupted` also notices a signal that comes between two batches.
        let written = unless_interrupted(all).await;
        progress.end();
        match written {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(self
                .stopped(Some(why), changes, n_done, entries, index)
                .await),
            None => Err(self.stopped(None, changes, n_done, entries, index).await),
        }
    }

    /// Makes the failure to report when the writes stopped before the end. Reads the state again, because a failed
    /// batch may be partly done.
    async fn stopped(
        &mut self,
        why: Option<ClientError>,
        changes: &[Change],
        n_done: usize,
        entries: &Entries,
        index: &P4InfoIndex,
    ) -> Failure {
        let n = changes.len();
        let again = "run the command again, it goes on from there";
        let left = match why {
            // The switch may still execute the batch, so what is left to do cannot be read now.
            None | Some(ClientError::Timeout { .. }) => None,
            Some(_) => self.left(entries, index).await,
        };
        let why = why.map_or("interrupted".to_owned(), |error| error.to_string());
        let Some(left) = left else {
            return self.runtime.fails(format!(
                "{why}; at least {n_done} of {n} changes are made: {again}"
            ));
        };
        let first = left.first().map_or(String::new(), |change| {
            let at = change.at.as_deref().unwrap_or("not in the file");
            format!(", the first that is not ({at}): {change}")
        });
        let n_left = left.len();
        let n_made = n.saturating_sub(n_left);
        let message = format!("{why}; {n_made} of {n} changes are made{first}; {again}");
        self.runtime
            .fails(message)
            .with(json!({ "changed": n_made > 0, "not_made": left }))
    }

    async fn left(&mut self, entries: &Entries, index: &P4InfoIndex) -> Option<Vec<Change>> {
        let state = self.state(index, entries).await.ok()?;
        difference(&state, entries, index, self.replaces).ok()
    }

    fn print(&self, done: &Done) {
        let Done {
            loaded,
            changes,
            dry_run,
        } = done;
        if self.json {
            output::json(&json!({
                "changed": loaded.is_some() || !changes.is_empty(),
                "dry_run": dry_run,
                "pipeline": loaded,
                "changes": changes,
                "updates": changes.len(),
            }));
            return;
        }
        if let Some(loaded) = loaded {
            output::text(format!(
                "~ program {loaded}: all state of the previous program is lost"
            ));
        } else if changes.is_empty() {
            output::text("no change");
        }
        changes.iter().for_each(output::text);
    }
}
