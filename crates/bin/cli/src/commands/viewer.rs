//! `reprise viewer`: adds and removes viewers, and asks by ARP for their MAC addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conference::address::Mac;
use conference::model::{self, GroupId, OwnAddress};
use conference::neighbour::{NeighbourError, Place, Question};

use super::refresh;
use crate::args::{Global, Viewer};
use crate::failure::Failure;
use crate::session::Session;

/// Stands for an unknown MAC while everything else is checked, so that a refused command sends no
/// ARP request. It is never written to the switch.
const PLACEHOLDER: Mac = Mac([2, 0, 0, 0, 0, 0]);

pub async fn run(global: &Global, command: Viewer) -> Result<(), Failure> {
    match command {
        Viewer::Add {
            group,
            ip,
            mac,
            udp_port,
            port,
        } => {
            let viewer = model::Viewer {
                ip,
                mac: mac.unwrap_or(PLACEHOLDER),
                looked_up: mac.is_none(),
                udp_port,
                port,
            };
            add(global, GroupId(group), viewer).await
        }
        Viewer::Remove {
            group,
            ip,
            udp_port,
        } => remove(global, GroupId(group), ip, udp_port).await,
        Viewer::Refresh { group, every } => {
            let group = group.map(GroupId);
            match every {
                None => refresh::once(global, group).await,
                Some(interval_s) => refresh::every(global, group, interval_s).await,
            }
        }
    }
}

async fn add(global: &Global, group: GroupId, mut viewer: model::Viewer) -> Result<(), Failure> {
    let mut session = Session::open_primary(global).await?;
    if viewer.looked_up {
        let place = look_up(&mut session, group, viewer).await?;
        viewer.mac = place.mac;
        if session.program.capabilities().several_ports {
            viewer.port = Some(place.port);
        }
    }
    session
        .change(|conference| conference.add_viewer(group, viewer))
        .await
}

/// Finds a viewer's MAC address and switch port by ARP, after checking that the viewer can be added.
async fn look_up(
    session: &mut Session,
    group: GroupId,
    viewer: model::Viewer,
) -> Result<Place, Failure> {
    let conference = session.settle().await?.conference;
    let own: Vec<OwnAddress> = conference.addresses().values().copied().collect();
    let question = Question {
        ip: viewer.ip,
        port: viewer.port,
    };
    let mut checked = viewer;
    if conference.capabilities().several_ports {
        checked.port = viewer.port.or_else(|| own.first().map(|own| own.port));
    }
    conference.clone().add_viewer(group, checked)?;
    let found = session.look_up(&own, &BTreeSet::from([question])).await?;
    let no_answer = NeighbourError::NoAnswer {
        ips: vec![viewer.ip],
        ports: BTreeSet::new(),
    };
    Ok(found.get(&question).copied().ok_or(no_answer)?)
}

async fn remove(
    global: &Global,
    group: GroupId,
    ip: Ipv4Addr,
    udp_port: Option<u16>,
) -> Result<(), Failure> {
    let mut session = Session::open_primary(global).await?;
    session
        .change(|c| c.remove_viewer(group, ip, udp_port).map(drop))
        .await
}
