//! `reprise viewer`: who gets copies.

use std::collections::BTreeSet;

use conference::address::Mac;
use conference::model::{self, GroupId};

use crate::args::{Global, Viewer};
use crate::failure::Failure;
use crate::session::Session;

/// Stands for a MAC that is not known yet while the rest is checked, so that a refused command
/// sends no ARP request. Never written.
const PLACEHOLDER: Mac = Mac([2, 0, 0, 0, 0, 0]);

pub async fn run(global: &Global, command: Viewer) -> Result<(), Failure> {
    let mut session = Session::open_primary(global).await?;
    match command {
        Viewer::Add {
            group,
            ip,
            mac,
            udp_port,
        } => {
            let group = GroupId(group);
            let viewer = |mac| model::Viewer { ip, mac, udp_port };
            let mac = match mac {
                Some(mac) => mac,
                None => {
                    let conference = session.settle().await?.conference;
                    conference.clone().add_viewer(group, viewer(PLACEHOLDER))?;
                    let ips = BTreeSet::from([ip]);
                    let found = session.look_up(conference.address(), &ips).await?;
                    found.get(&ip).copied().unwrap_or(PLACEHOLDER)
                }
            };
            session
                .change(|conference| conference.add_viewer(group, viewer(mac)))
                .await
        }
        Viewer::Remove {
            group,
            ip,
            udp_port,
        } => {
            let group = GroupId(group);
            session
                .change(|c| c.remove_viewer(group, ip, udp_port).map(drop))
                .await
        }
    }
}
