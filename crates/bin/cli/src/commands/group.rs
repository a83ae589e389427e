//! `reprise group`: groups and their presenters.

use conference::model::{GroupId, Presenter};

use crate::args::{Global, Group};
use crate::failure::Failure;
use crate::session::Session;

pub async fn run(global: &Global, command: Group) -> Result<(), Failure> {
    let mut session = Session::open_primary(global).await?;
    match command {
        Group::Add {
            group,
            ip,
            mac,
            udp_port,
        } => {
            let presenter = Presenter { ip, mac, udp_port };
            session
                .change(|conference| conference.add_group(GroupId(group), presenter))
                .await
        }
        Group::Delete { group } => {
            session
                .change(|conference| conference.delete_group(GroupId(group)).map(drop))
                .await
        }
    }
}
