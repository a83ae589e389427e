//! `reprise address`: sets, deletes and shows the SFU's own addresses, to which presenters send.

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
            // Refuse an invalid address before reading the switch's ports.
            Conference::new(session.program.capabilities()).set_address(own)?;
            session.expect_ports([&port]).await?;
            session
                .change(|conference| conference.set_address(own))
                .await
        }
        Address::Delete { port } => {
            let mut session = Session::open_primary(global).await?;
            session
                .change(|conference| conference.delete_address(port).map(drop))
                .await
        }
        Address::Show => show(global).await,
    }
}

async fn show(global: &Global) -> Result<(), Failure> {
    let snapshot = Session::open(global).await?.read().await?;
    let addresses: Vec<&OwnAddress> = snapshot.conference.addresses().values().collect();
    if global.json {
        output::json(&json!({ "addresses": addresses }));
        return Ok(());
    }
    if addresses.is_empty() {
        output::text("none yet: `reprise address set --port 1 --ip IP --mac MAC`");
    }
    for OwnAddress { port, ip, mac } in addresses {
        output::text(format!("{ip} {mac} on port {port}"));
    }
    Ok(())
}
