//! `reprise address`: the SFU's own address.

use conference::model::{Conference, OwnAddress};
use serde_json::json;

use crate::args::{Address, Global};
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

pub async fn run(global: &Global, command: Address) -> Result<(), Failure> {
    match command {
        Address::Set { port, ip, mac } => {
            let mut session = Session::open_primary(global).await?;
            let own = OwnAddress { port, ip, mac };
            // What is no address at all is refused as such, before the switch's ports are looked at.
            Conference::new(session.program.capabilities()).set_address(own)?;
            session.expect_port(port).await?;
            session
                .change(|conference| conference.set_address(own))
                .await
        }
        Address::Show => show(global).await,
    }
}

async fn show(global: &Global) -> Result<(), Failure> {
    let snapshot = Session::open(global).await?.read().await?;
    let address = snapshot.conference.address();
    if global.json {
        output::json(&json!({ "address": address }));
        return Ok(());
    }
    match address {
        Some(address) => {
            output::text(format!(
                "{} {} on port {}",
                address.ip, address.mac, address.port
            ));
        }
        None => output::text("none yet: `reprise address set --port 1 --ip IP --mac MAC`"),
    }
    Ok(())
}
