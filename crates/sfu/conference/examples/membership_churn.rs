//! Writes to a switch at a constant rate, as a busy controller would: viewers join and leave a group, and a table entry
//! changes. Long-running tests and benchmarks use it as a load.
//!
//! ```text
//! cargo run --release -p conference --example membership_churn -- \
//!     SWITCH GROUP FIRST_GUEST GUEST_MAC STREAM_IP STREAM_GROUP WRITES_PER_S CHANGE_EVERY SECONDS
//! ```
//!
//! Guests are viewers with the addresses from `FIRST_GUEST` on. Each guest joins GROUP once and leaves it once; at most
//! [`GUESTS_MAX`] guests are in the group at a time. After every `CHANGE_EVERY` writes one guest joins or leaves, as
//! with `reprise viewer`. All other writes are single requests that modify the MAC address of `STREAM_GROUP`'s
//! presenter `STREAM_IP`. Both groups must exist. The output is lines of JSON: the beginning and end of each join and
//! leave, and every second the number of writes. Times are nanoseconds since 1970, as in the output of
//! `lab/peers/load.c`.
#![allow(
    clippy::disallowed_methods,
    reason = "an example has a clock, and is no part of the crate"
)]

use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use conference::address::Mac;
use conference::backend::SfuProgram;
use conference::limits::DEFAULT_UDP_PORT;
use conference::model::{GroupId, Viewer};
use conference::plan;
use p4runtime_client::entities;
use p4runtime_client::objects::Table;
use p4runtime_client::{Client, SwitchAddress};
use p4runtime_proto::p4::config::v1::P4Info;
use serde_json::{Value, json};

const GUESTS_MAX: usize = 4;
const DEVICE_ID: u64 = 1;
const REPORT: Duration = Duration::from_secs(1);
/// The most time that the writer makes up for. A writer that has fallen behind its rate writes without a pause until it
/// has caught up.
const BEHIND_MAX: Duration = Duration::from_millis(200);
/// The first MAC that is written to the entry: a locally administered one, whose low bytes are a counter.
const FIRST_STREAM_MAC: u64 = 0x0200_0000_0000;

struct Settings {
    switch: String,
    group: GroupId,
    first_guest: Ipv4Addr,
    guest_mac: Mac,
    stream_ip: Ipv4Addr,
    stream_group: GroupId,
    writes_per_s: u32,
    change_every: u64,
    duration: Duration,
}

impl Settings {
    fn parse(arguments: &[String]) -> Result<Settings, Box<dyn Error>> {
        let [
            switch,
            group,
            first_guest,
            guest_mac,
            stream_ip,
            stream_group,
            writes_per_s,
            change_every,
            seconds,
        ] = arguments
        else {
            let n = arguments.len();
            return Err(format!("expected 9 arguments (see the example's head), found {n}").into());
        };
        let writes_per_s: u32 = writes_per_s.parse()?;
        let change_every: u64 = change_every.parse()?;
        if writes_per_s == 0 || change_every == 0 {
            return Err("expected rates above 0, found 0".into());
        }
        Ok(Settings {
            switch: switch.clone(),
            group: GroupId(group.parse()?),
            first_guest: first_guest.parse()?,
            guest_mac: Mac::from_str(guest_mac)?,
            stream_ip: stream_ip.parse()?,
            stream_group: GroupId(stream_group.parse()?),
            writes_per_s,
            change_every,
            duration: Duration::from_secs_f64(seconds.parse()?),
        })
    }
}

/// The entry that is modified, in the table of streams or (in the recirculation program) of presenters.
struct Streams {
    table: Table,
    key: Vec<u64>,
    group: u64,
}

impl Streams {
    fn find(p4info: &P4Info, settings: &Settings) -> Result<Streams, Box<dyn Error>> {
        let ip = u64::from(u32::from(settings.stream_ip));
        let set_group = ("set_group", 2);
        let keys = ["src_addr", "udp_dst_port"];
        let (table, key) = match Table::find(p4info, "streams", &keys, set_group) {
            Ok(table) => (table, vec![ip, u64::from(DEFAULT_UDP_PORT)]),
            Err(_) => {
                let table = Table::find(p4info, "presenters", &keys[..1], set_group)?;
                (table, vec![ip])
            }
        };
        let group = u64::from(settings.stream_group.0);
        Ok(Streams { table, key, group })
    }

    async fn modify(&self, client: &mut Client, mac: u64) -> Result<(), Box<dyn Error>> {
        let entry = self.table.entry(&self.key, &[self.group, mac]);
        let update = entities::modify(entities::of_table(entry));
        Ok(client.write(vec![update]).await?)
    }
}

struct Churn {
    settings: Settings,
    client: Client,
    program: SfuProgram,
    present: VecDeque<u32>,
    n_joined: u32,
    n_writes: u64,
    n_changes: u64,
}

impl Churn {
    /// Lets one guest join or leave. [`GUESTS_MAX`] guests join, then all leave in the order in which they joined, and
    /// so on. So the group has each size in turn, and the remaining viewers change their places in it.
    async fn change(&mut self) -> Result<(), Box<dyn Error>> {
        let begun_ns = now_ns();
        let snapshot = self.program.settle(&mut self.client).await?;
        let mut desired = snapshot.conference.clone();
        let group = self.settings.group;
        let joins = (self.n_changes / GUESTS_MAX as u64).is_multiple_of(2);
        let guest = if joins {
            self.n_joined += 1;
            self.present.push_back(self.n_joined - 1);
            self.n_joined - 1
        } else {
            self.present.pop_front().ok_or("no guest is there")?
        };
        let ip = Ipv4Addr::from(u32::from(self.settings.first_guest) + guest);
        if joins {
            let mac = self.settings.guest_mac;
            let udp_port = None;
            desired.add_viewer(
                group,
                Viewer {
                    ip,
                    mac,
                    udp_port,
                    looked_up: false,
                    port: None,
                },
            )?;
        } else {
            desired.remove_viewer(group, ip, None)?;
        }
        let change = self.program.plan(&snapshot, &desired)?;
        self.n_writes += change.n_updates() as u64;
        self.n_changes += 1;
        plan::run(change, &mut self.client, |_| ()).await?;
        say(&json!({
            "ip": ip.to_string(),
            "joins": joins,
            "begun_ns": begun_ns,
            "done_ns": now_ns(),
        }))
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn say(line: &Value) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let settings = Settings::parse(&arguments)?;
    let mut client = Client::connect(&SwitchAddress::plain(&settings.switch), DEVICE_ID).await?;
    client.become_primary().await?;
    let p4info = client.p4info().await?;
    let program = SfuProgram::detect(&p4info)?;
    let streams = Streams::find(&p4info, &settings)?;
    let interval = Duration::from_secs(1) / settings.writes_per_s;
    let start = Instant::now();
    let (mut due, mut reported, end) = (start, start, start + settings.duration);
    let mut churn = Churn {
        settings,
        client,
        program,
        present: VecDeque::new(),
        n_joined: 0,
        n_writes: 0,
        n_changes: 0,
    };
    let mut next_change = 0;
    while Instant::now() < end {
        let before = churn.n_writes;
        if churn.n_writes >= next_change {
            next_change = churn.n_writes + churn.settings.change_every;
            churn.change().await?;
        } else {
            let mac = FIRST_STREAM_MAC + churn.n_writes;
            streams.modify(&mut churn.client, mac).await?;
            churn.n_writes += 1;
        }
        let done = u32::try_from(churn.n_writes - before)?;
        due = (due + interval * done).max(Instant::now() - BEHIND_MAX);
        tokio::time::sleep_until(due.into()).await;
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            say(&json!({"writes": churn.n_writes, "changes": churn.n_changes}))?;
        }
    }
    say(&json!({"writes": churn.n_writes, "changes": churn.n_changes}))
}
