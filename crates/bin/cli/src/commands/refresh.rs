//! `reprise viewer refresh`: asks again by ARP for the MAC addresses of viewers that were looked up by ARP before.
//!
//! The controller keeps no state. The switch stores which MACs were looked up, and which hosts have sent ARP packets
//! since then. With `--every` this process keeps running, but is primary only while it sends requests, so that other
//! commands can become primary.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conference::address::Mac;
use conference::heard;
use conference::limits::HEARD_INTERVAL_MS;
use conference::model::{Conference, GroupId, OwnAddress};
use conference::neighbour::{self, Finding, Neighbour, Place};
use p4runtime_client::ClientError;
use tokio::time::Instant;
use tonic::Code;

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

type Macs = BTreeMap<Neighbour, Mac>;

pub async fn once(global: &Global, group: Option<GroupId>) -> Result<(), Failure> {
    let mut session = Session::open_primary(global).await?;
    let moved = ask(&mut session, group, None).await?;
    write(&mut session, &moved).await
}

/// Looks up all viewers at this interval. Looks up a viewer at once if an ARP packet of this viewer came from another
/// MAC or port. If the switch does not answer, or has another program or state, tries again.
pub async fn every(
    global: &Global,
    group: Option<GroupId>,
    interval_s: u32,
) -> Result<(), Failure> {
    // Report a wrong command line or an unreachable switch at once.
    Session::open(global).await?;
    let mut watch = Watch {
        group,
        interval: Duration::from_secs(interval_s.into()),
        next_round: Instant::now(),
        judged: BTreeSet::new(),
    };
    let mut trouble = None;
    loop {
        let until = Instant::now() + Duration::from_millis(HEARD_INTERVAL_MS);
        match watch.iterate(global).await {
            Ok(()) if trouble.take().is_some() => {
                output::error_line("reprise: looking up the viewers works again");
            }
            Ok(()) => {}
            Err(error) => {
                watch.next_round = Instant::now();
                let line = error.to_string();
                // A failure is reported once, not every second while it lasts.
                if trouble.as_ref() != Some(&line) {
                    error.report("reprise");
                }
                trouble = Some(line);
                tokio::time::sleep_until(until).await;
            }
        }
        tokio::time::sleep_until(until.min(watch.next_round)).await;
    }
}

struct Watch {
    group: Option<GroupId>,
    interval: Duration,
    next_round: Instant,
    /// The hosts that were asked since the last look-up of all viewers, each with the MAC and port of the ARP packet
    /// because of which it was asked. A host that repeats such a packet is not asked again every second.
    judged: BTreeSet<(Neighbour, Place)>,
}

impl Watch {
    /// Reads the switch anew in every iteration: it may have another program or state than a second ago, or be another
    /// switch.
    async fn iterate(&mut self, global: &Global) -> Result<(), Failure> {
        let mut session = Session::open(global).await?;
        let known = looked_up(&session.read().await?.conference, self.group)?;
        if Instant::now() >= self.next_round {
            self.judged.clear();
            self.next_round = Instant::now() + self.interval;
            let all = known.into_keys().collect();
            return round(global, self.group, &all).await;
        }
        let heard = heard(&mut session, &known).await?;
        let new: Vec<(Neighbour, Place)> = heard.difference(&self.judged).copied().collect();
        let doubted = new.iter().map(|(host, _)| *host).collect();
        round(global, self.group, &doubted).await?;
        self.judged.extend(new);
        Ok(())
    }
}

/// Looks up these hosts once. Becomes primary for this look-up only.
async fn round(
    global: &Global,
    group: Option<GroupId>,
    hosts: &BTreeSet<Neighbour>,
) -> Result<(), Failure> {
    if hosts.is_empty() {
        return Ok(());
    }
    let mut session = Session::open_primary(global).await?;
    let moved = ask(&mut session, group, Some(hosts)).await?;
    if moved.is_empty() {
        return Ok(());
    }
    write(&mut session, &moved).await
}

fn looked_up(conference: &Conference, group: Option<GroupId>) -> Result<Macs, Failure> {
    if let Some(group) = group {
        conference.group(group)?;
    }
    let only = conference.address().map_or(0, |own| own.port);
    let groups = conference.groups().iter();
    let groups = groups.filter(|(id, _)| group.is_none_or(|group| group == **id));
    let viewers = groups.flat_map(|(_, group)| &group.viewers);
    let looked_up = viewers.filter(|viewer| viewer.looked_up);
    let macs = looked_up.map(|viewer| {
        let host = Neighbour {
            ip: viewer.ip,
            port: viewer.port.unwrap_or(only),
        };
        (host, viewer.mac)
    });
    Ok(macs.collect())
}

/// Returns the viewers whose last ARP packet came from another MAC or port. In a switch with several workers, each
/// worker has its own records of ARP packets. If the workers' records differ, the switch refuses the read; then only
/// the look-up of all viewers finds a viewer that moved.
async fn heard(
    session: &mut Session,
    known: &Macs,
) -> Result<BTreeSet<(Neighbour, Place)>, ClientError> {
    match heard::elsewhere(&mut session.client, &session.p4info, known).await {
        Err(
            ClientError::NoPipeline
            | ClientError::Refused {
                code: Code::FailedPrecondition,
                ..
            },
        ) => Ok(BTreeSet::new()),
        heard => heard,
    }
}

/// Asks all viewers, or only `hosts`, and returns those that have moved. If it is in doubt whether or where a viewer
/// has moved, changes nothing about this viewer and prints a message that says why.
async fn ask(
    session: &mut Session,
    group: Option<GroupId>,
    hosts: Option<&BTreeSet<Neighbour>>,
) -> Result<Macs, Failure> {
    let conference = session.settle().await?.conference;
    let mut known = looked_up(&conference, group)?;
    known.retain(|host, _| hosts.is_none_or(|hosts| hosts.contains(host)));
    let own: Vec<OwnAddress> = conference.addresses().values().copied().collect();
    let heard = heard(session, &known).await?;
    let heard = heard.into_iter().map(|(host, _)| host).collect();
    let client = &mut session.client;
    let findings = neighbour::confirm(client, &session.p4info, &own, &known, &heard).await?;
    let mut moved = Macs::new();
    for (host, mac) in known {
        match findings.get(&host) {
            Some(Finding::Moved(new)) => {
                moved.insert(host, *new);
            }
            Some(finding) => {
                if let Some(line) = message(&conference, host, mac, finding) {
                    output::error_line(format_args!("reprise: {line}"));
                }
            }
            None => {}
        }
    }
    Ok(moved)
}

/// Returns the message about a viewer whose new MAC or port is in doubt. The switch still sends the viewer's copies of
/// packets as before.
fn message(
    conference: &Conference,
    host: Neighbour,
    mac: Mac,
    finding: &Finding,
) -> Option<String> {
    let Neighbour { ip, port } = host;
    match finding {
        Finding::Unchanged | Finding::Moved(_) => None,
        Finding::Silent => Some(format!(
            "viewer {ip} on port {port} does not answer to ARP: its copies go on to {mac}"
        )),
        Finding::Disputed(macs) => {
            let macs: Vec<String> = macs.iter().map(Mac::to_string).collect();
            Some(format!(
                "several hosts answer to ARP for viewer {ip} on port {port} ({}): its copies go on to {mac}, take the wrong one off the network or add the viewer with --mac",
                macs.join(", ")
            ))
        }
        Finding::Elsewhere(places) => {
            let there: Vec<String> = places.iter().map(Place::to_string).collect();
            let new_port = places.first().map_or(port, |place| place.port);
            Some(format!(
                "viewer {ip} does not answer to ARP on port {port}, but elsewhere ({}): its copies go on to {mac} on port {port}; if it is there now: {}",
                there.join(", "),
                how_to_move(conference, host, new_port)
            ))
        }
    }
}

/// Returns the commands that move a viewer to another port. The operator must run them, because the operator may have
/// chosen the present port.
fn how_to_move(conference: &Conference, host: Neighbour, port: u16) -> String {
    let mut commands = Vec::new();
    for (id, group) in conference.groups() {
        let viewers = group.viewers.iter();
        let viewers = viewers.filter(|it| it.ip == host.ip && it.port == Some(host.port));
        for viewer in viewers {
            let udp = viewer
                .udp_port
                .map(|udp_port| format!(" --udp-port {udp_port}"));
            let words = format!("--group {id} --ip {}{}", host.ip, udp.unwrap_or_default());
            commands.push(format!("`reprise viewer remove {words}`"));
            commands.push(format!("`reprise viewer add {words} --port {port}`"));
        }
    }
    commands.join(", ")
}

async fn write(session: &mut Session, moved: &Macs) -> Result<(), Failure> {
    let several_ports = session.program.capabilities().several_ports;
    let operation = |conference: &mut Conference| {
        moved.iter().try_for_each(|(host, mac)| {
            let port = several_ports.then_some(host.port);
            conference.move_viewers(host.ip, port, *mac)
        })
    };
    session.change(operation).await
}
