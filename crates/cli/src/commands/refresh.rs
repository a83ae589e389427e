//! `reprise viewer refresh`: viewers whose MAC address was looked up are looked for again.
//!
//! The controller remembers nothing: that a MAC was looked up stands in the switch, and so does what
//! ARP said of a viewer meanwhile. With `--every` this process stays, but is connected as primary only
//! while it asks, so that other commands come through.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conference::address::Mac;
use conference::client::ClientError;
use conference::heard;
use conference::limits::HEARD_INTERVAL_MS;
use conference::model::{Conference, GroupId, OwnAddress};
use conference::neighbour::{self, Finding, Neighbour};
use tokio::time::Instant;

use crate::args::Global;
use crate::failure::Failure;
use crate::session::Session;

/// Viewers, and the MAC that their copies go to.
type Macs = BTreeMap<Neighbour, Mac>;

pub async fn once(global: &Global, group: Option<GroupId>) -> Result<(), Failure> {
    let mut session = Session::open_primary(global).await?;
    let known = looked_up(&session.settle().await?.conference, group)?;
    let moved = ask(&mut session, &known).await?;
    write(&mut session, &moved).await
}

/// Asks all viewers every so many seconds, and one of whom ARP says something else at once. A switch
/// that does not answer is tried again.
pub async fn every(
    global: &Global,
    group: Option<GroupId>,
    interval_s: u32,
) -> Result<(), Failure> {
    // A wrong word on the command line, or no switch at all, is told at once.
    Session::open(global).await?;
    loop {
        if let Err(error) = watch(global, group, Duration::from_secs(interval_s.into())).await {
            error.report("reprise");
        }
        tokio::time::sleep(Duration::from_millis(HEARD_INTERVAL_MS)).await;
    }
}

/// Never returns but with an error.
async fn watch(global: &Global, group: Option<GroupId>, interval: Duration) -> Result<(), Failure> {
    let mut session = Session::open(global).await?;
    let mut next_round = Instant::now();
    // Asked about since the last round: a host that goes on saying it is not asked every second.
    let mut judged = BTreeSet::new();
    loop {
        let known = looked_up(&session.read().await?.conference, group)?;
        if Instant::now() >= next_round {
            round(global, &known).await?;
            judged.clear();
            next_round = Instant::now() + interval;
        } else {
            let heard = heard(&mut session, &known).await?;
            let new: Vec<(Neighbour, Mac)> = heard.difference(&judged).copied().collect();
            let is_new = |host: &Neighbour| new.iter().any(|(heard, _)| heard == host);
            let doubted: Macs = known.into_iter().filter(|(host, _)| is_new(host)).collect();
            round(global, &doubted).await?;
            judged.extend(new);
        }
        let until = Instant::now() + Duration::from_millis(HEARD_INTERVAL_MS);
        tokio::time::sleep_until(until.min(next_round)).await;
    }
}

/// One round of questions, in a session of its own.
async fn round(global: &Global, known: &Macs) -> Result<(), Failure> {
    if known.is_empty() {
        return Ok(());
    }
    let mut session = Session::open_primary(global).await?;
    session.settle().await?;
    let moved = ask(&mut session, known).await?;
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

/// Who was heard elsewhere by ARP. A switch with several workers has notes of each; where they differ it
/// refuses to say one, and the rounds are what is left.
async fn heard(
    session: &mut Session,
    known: &Macs,
) -> Result<BTreeSet<(Neighbour, Mac)>, ClientError> {
    match heard::elsewhere(&mut session.client, &session.p4info, known).await {
        Err(ClientError::NoPipeline) => Ok(BTreeSet::new()),
        heard => heard,
    }
}

/// Who has moved; whoever is in doubt stays where he is, with a word.
async fn ask(session: &mut Session, known: &Macs) -> Result<Macs, Failure> {
    let own: Vec<OwnAddress> = {
        let conference = session.read().await?.conference;
        conference.addresses().values().copied().collect()
    };
    let heard = heard(session, known).await?;
    let heard = heard.into_iter().map(|(host, _)| host).collect();
    let client = &mut session.client;
    let findings = neighbour::confirm(client, &session.p4info, &own, known, &heard).await?;
    let mut moved = Macs::new();
    for (host, finding) in findings {
        let Neighbour { ip, port } = host;
        let go_on = || {
            known
                .get(&host)
                .map_or_else(String::new, |mac| format!("its copies go on to {mac}"))
        };
        match finding {
            Finding::Unchanged => {}
            Finding::Moved(mac) => {
                moved.insert(host, mac);
            }
            Finding::Silent => Failure::new(format!(
                "viewer {ip} on port {port} does not answer to ARP: {}",
                go_on()
            ))
            .report("reprise"),
            Finding::Disputed(macs) => {
                let macs: Vec<String> = macs.iter().map(Mac::to_string).collect();
                Failure::new(format!(
                    "several hosts answer to ARP for viewer {ip} on port {port} ({}): {}, take the wrong one off the network or add the viewer with --mac",
                    macs.join(", "),
                    go_on()
                ))
                .report("reprise");
            }
        }
    }
    Ok(moved)
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
