//! A connection to a switch with an SFU program, and changes of its conference.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use command_line::interrupt::unless_interrupted;
use conference::backend::{SfuProgram, Snapshot};
use conference::difference::{Line, Sign, difference};
use conference::limits::PRIMARY_WAIT_S;
use conference::model::{Conference, OwnAddress};
use conference::neighbour::{self, Place, Question};
use conference::plan::{self, Plan};
use indicatif::{ProgressBar, ProgressStyle};
use p4runtime_client::Client;
use p4runtime_client::limits::WRITE_BATCH_UPDATES;
use p4runtime_proto::p4::config::v1::P4Info;
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::output;

/// Interval of progress lines if standard error is no terminal.
const PROGRESS_LINE_EVERY: Duration = Duration::from_secs(3);

pub struct Session {
    pub client: Client,
    pub p4info: P4Info,
    pub program: SfuProgram,
    json: bool,
}

pub struct Change {
    lines: Vec<Line>,
    plan: Plan,
}

impl Session {
    /// Opens a session that only reads.
    pub async fn open(global: &Global) -> Result<Session, Failure> {
        let client = Client::connect(&global.switch()?, global.device_id).await?;
        Session::new(client, global).await
    }

    /// Opens a session that writes. It becomes primary before the first read, so that nothing
    /// changes between read and write unless another controller takes over; the switch then refuses
    /// the write.
    pub async fn open_primary(global: &Global) -> Result<Session, Failure> {
        Session::new(connect_primary(global).await?, global).await
    }

    async fn new(mut client: Client, global: &Global) -> Result<Session, Failure> {
        let p4info = client.p4info().await?;
        let program = SfuProgram::detect(&p4info)?;
        Ok(Session {
            client,
            p4info,
            program,
            json: global.json,
        })
    }

    pub async fn read(&mut self) -> Result<Snapshot, Failure> {
        Ok(self.program.read(&mut self.client).await?)
    }

    /// Reads the state at a time when no other controller is in the middle of a change.
    pub async fn read_steady(&mut self) -> Result<Snapshot, Failure> {
        let steady = self.program.read_steady(&mut self.client).await?;
        steady.ok_or_else(|| {
            Failure::new(
                "the switch is being changed without a pause, no two readings of it agreed: run the command again",
            )
        })
    }

    /// Completes or undoes an interrupted change, and reads the state.
    pub async fn settle(&mut self) -> Result<Snapshot, Failure> {
        let settled = unless_interrupted(self.program.settle(&mut self.client)).await;
        Ok(settled.ok_or_else(interrupted)??)
    }

    /// Settles (see [`Session::settle`]), applies `operation` to the conference, writes the difference to the switch,
    /// and prints it.
    pub async fn change<E: Into<Failure>>(
        &mut self,
        operation: impl FnOnce(&mut Conference) -> Result<(), E>,
    ) -> Result<(), Failure> {
        let snapshot = self.settle().await?;
        let mut desired = snapshot.conference.clone();
        operation(&mut desired).map_err(Into::into)?;
        let change = self.plan(&snapshot, &desired)?;
        self.carry_out(change).await
    }

    pub fn plan(&self, snapshot: &Snapshot, desired: &Conference) -> Result<Change, Failure> {
        let left_over = snapshot.left_over.iter().map(|text| Line {
            sign: Sign::Removed,
            group: None,
            text: format!("left over by an interrupted change: {text}"),
        });
        let mut lines: Vec<Line> = left_over.collect();
        lines.extend(difference(&snapshot.conference, desired));
        let plan = self.program.plan(snapshot, desired)?;
        Ok(Change { lines, plan })
    }

    pub async fn carry_out(&mut self, change: Change) -> Result<(), Failure> {
        let n_updates = change.plan.n_updates();
        let mut progress = Progress::new(n_updates);
        let Change { lines, plan } = change;
        let run = plan::run(plan, &mut self.client, |n| progress.set(n));
        let done = unless_interrupted(run).await;
        progress.end();
        done.ok_or_else(interrupted)??;
        self.print(&lines, n_updates, false);
        Ok(())
    }

    pub fn print_only(&self, change: &Change) {
        self.print(&change.lines, change.plan.n_updates(), true);
    }

    fn print(&self, lines: &[Line], n_updates: usize, dry_run: bool) {
        if self.json {
            output::json(&json!({
                "changed": !lines.is_empty(),
                "dry_run": dry_run,
                "changes": lines,
                "updates": n_updates,
            }));
        } else if lines.is_empty() {
            output::text("no change");
        } else {
            lines.iter().for_each(output::text);
        }
    }

    /// Refuses an address of the SFU on a port that the switch lacks: no packet to this address would ever arrive.
    pub async fn expect_ports(
        &mut self,
        expected: impl IntoIterator<Item = &u16>,
    ) -> Result<(), Failure> {
        let counters = self.client.counters().await?;
        let ports: Vec<u32> = counters.ports.iter().map(|port| port.port).collect();
        let mut expected = expected.into_iter();
        let Some(port) = expected.find(|port| !ports.contains(&u32::from(**port))) else {
            return Ok(());
        };
        let ports: Vec<String> = ports.iter().map(u32::to_string).collect();
        Err(Failure::new(format!(
            "the switch has no port {port}, it has {}: start it with `-i {port}@INTERFACE`, or name another port",
            if ports.is_empty() {
                "none".to_owned()
            } else {
                ports.join(", ")
            },
        )))
    }

    /// Finds hosts by ARP requests. The requests come from the SFU's own addresses, but only from addresses that the
    /// switch already has.
    pub async fn look_up(
        &mut self,
        own: &[OwnAddress],
        questions: &BTreeSet<Question>,
    ) -> Result<BTreeMap<Question, Place>, Failure> {
        let found = neighbour::look_up(&mut self.client, &self.p4info, own, questions);
        let found = unless_interrupted(found).await;
        Ok(found.ok_or_else(|| Failure::new("interrupted before anything was changed"))??)
    }
}

pub async fn connect(global: &Global) -> Result<Client, Failure> {
    Ok(Client::connect(&global.switch()?, global.device_id).await?)
}

/// Becomes primary as soon as there is no other primary, or at once with `--takeover`.
pub async fn connect_primary(global: &Global) -> Result<Client, Failure> {
    let mut client = connect(global).await?;
    take_primary(&mut client, global).await?;
    Ok(client)
}

/// Becomes primary like `connect_primary`, over an existing connection.
pub async fn take_primary(client: &mut Client, global: &Global) -> Result<(), Failure> {
    if global.takeover {
        return Ok(client.become_primary().await?);
    }
    let wait = global.wait(Duration::from_secs(PRIMARY_WAIT_S));
    let wait_s = wait.as_secs();
    let waits = |primary: Option<u128>| match primary {
        Some(id) => output::error_line(format_args!(
            "reprise: waits for its turn, up to {wait_s} s: another controller (election id {id}) is primary"
        )),
        None => output::error_line(format_args!(
            "reprise: waits for its turn, up to {wait_s} s, among other controllers"
        )),
    };
    Ok(client.await_primary(wait, waits).await?)
}

/// The failure of an interrupted change. The switch is in the same state as if this process had been killed: the next
/// command continues from that state.
fn interrupted() -> Failure {
    Failure::new(
        "interrupted: each group is in its old or its new state, `reprise show` says which, and the next change completes or undoes this one",
    )
}

/// Progress of a long change: a bar on a terminal, lines elsewhere.
pub struct Progress {
    bar: ProgressBar,
    n_updates: usize,
    next_line: Instant,
}

impl Progress {
    pub fn new(n_updates: usize) -> Progress {
        let bar = if n_updates > WRITE_BATCH_UPDATES {
            ProgressBar::new(n_updates as u64)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} updates, {eta} left")
        {
            bar.set_style(style);
        }
        Progress {
            bar,
            n_updates,
            next_line: Instant::now() + PROGRESS_LINE_EVERY,
        }
    }

    pub fn set(&mut self, n_done: usize) {
        self.bar.set_position(n_done as u64);
        if self.bar.is_hidden() && Instant::now() >= self.next_line {
            output::error_line(format_args!(
                "reprise: {n_done} of {} updates",
                self.n_updates
            ));
            self.next_line = Instant::now() + PROGRESS_LINE_EVERY;
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
