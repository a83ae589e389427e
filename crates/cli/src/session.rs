//! A connection to a switch that runs an SFU program, and changes of what it is told.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::backend::{SfuProgram, Snapshot};
use conference::client::Client;
use conference::difference::{Line, Sign, difference};
use conference::limits::WRITE_BATCH_UPDATES;
use conference::model::{Conference, OwnAddress};
use conference::neighbour;
use conference::plan::{self, Plan};
use indicatif::{ProgressBar, ProgressStyle};
use p4runtime_proto::p4::config::v1::P4Info;
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;

pub struct Session {
    pub client: Client,
    pub p4info: P4Info,
    pub program: SfuProgram,
    json: bool,
}

/// What is to change, and how.
pub struct Change {
    lines: Vec<Line>,
    plan: Plan,
}

impl Session {
    /// To read only.
    pub async fn open(global: &Global) -> Result<Session, Failure> {
        let mut client = Client::connect(&global.switch, global.device_id).await?;
        let p4info = client.p4info().await?;
        let program = SfuProgram::detect(&p4info)?;
        Ok(Session {
            client,
            p4info,
            program,
            json: global.json,
        })
    }

    /// To change. Primary before the first read, so that nothing changes between reading and
    /// writing unless another controller takes over, and then the write is refused.
    pub async fn open_primary(global: &Global) -> Result<Session, Failure> {
        let mut session = Session::open(global).await?;
        session.client.become_primary().await?;
        Ok(session)
    }

    /// What there is; nothing is written.
    pub async fn read(&mut self) -> Result<Snapshot, Failure> {
        Ok(self.program.read(&mut self.client).await?)
    }

    /// What there is, after what an interrupted change left over is finished or taken back.
    pub async fn settle(&mut self) -> Result<Snapshot, Failure> {
        Ok(self.program.settle(&mut self.client).await?)
    }

    /// Settles, changes by `operation`, writes, and prints the difference when it is done.
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

    /// Writes the change, and prints it when it is done.
    pub async fn carry_out(&mut self, change: Change) -> Result<(), Failure> {
        let n_updates = change.plan.n_updates();
        let bar = if n_updates > WRITE_BATCH_UPDATES {
            ProgressBar::new(n_updates as u64)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} updates, {eta} left")
        {
            bar.set_style(style);
        }
        let Change { lines, plan } = change;
        let done = plan::run(plan, &mut self.client, |n| bar.set_position(n as u64)).await;
        bar.finish_and_clear();
        done?;
        self.print(&lines, n_updates, false);
        Ok(())
    }

    /// Says what would be written.
    pub fn print_only(&self, change: &Change) {
        self.print(&change.lines, change.plan.n_updates(), true);
    }

    fn print(&self, lines: &[Line], n_updates: usize, dry_run: bool) {
        if self.json {
            crate::output::json(&json!({
                "changed": !lines.is_empty(),
                "dry_run": dry_run,
                "changes": lines,
                "updates": n_updates,
            }));
        } else if lines.is_empty() {
            crate::output::text("no change");
        } else {
            lines.iter().for_each(crate::output::text);
        }
    }

    /// Refuses an own address on a port that the switch does not have: nothing would ever come in.
    pub async fn expect_port(&mut self, port: u16) -> Result<(), Failure> {
        let counters = self.client.counters().await?;
        let ports: Vec<u32> = counters.ports.iter().map(|port| port.port).collect();
        if ports.contains(&u32::from(port)) {
            return Ok(());
        }
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

    /// MAC addresses by ARP, from the own address that is in force.
    pub async fn look_up(
        &mut self,
        own: Option<&OwnAddress>,
        ips: &BTreeSet<Ipv4Addr>,
    ) -> Result<std::collections::BTreeMap<Ipv4Addr, Mac>, Failure> {
        let no_address = || {
            Failure::new(
                "no MAC address given and the SFU has no own address to ask from: give --mac, or set one with `reprise address set --port 1 --ip IP --mac MAC`",
            )
        };
        let own = own.ok_or_else(no_address)?;
        Ok(neighbour::look_up(&mut self.client, &self.p4info, own, ips).await?)
    }
}
