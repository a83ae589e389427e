//! A P4Runtime server over a switch without ports, for tests with foreign controllers.
//!
//! Usage: `memory_switch ADDRESS [P4INFO JSON]`, or `memory_switch ADDRESS --tls FOLDER` for mutual TLS. The second
//! form writes certificates to the folder: of an authority (`ca.pem`), of the server (`server`), of an accepted
//! client (`client`), of an expired client (`expired`), and of a client of another authority (`other`,
//! `other-ca.pem`).
//!
//! Prints its address, and serves until its standard input ends. Frames that leave port 3 come back on port 0, so
//! that a controller alone can cause packet-ins.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dataplane::PortId;
use gnmi_server::Gnmi;
use p4runtime_proto::text_format;
use testkit::certificates::{Authority, Good};
use testkit::memory_loop::MemoryLoop;
use testkit::p4runtime;
use tokio::net::TcpListener;

const LOOPED_FROM: PortId = PortId(3);
const LOOPED_TO: u16 = 0;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (address, program, tls) = match args.as_slice() {
        [address] => (address, None, None),
        [address, option, folder] if option == "--tls" => (address, None, Some(folder)),
        [address, p4info, json] => (address, Some((p4info, json)), None),
        _ => return Err("expected ADDRESS [P4INFO JSON], or ADDRESS --tls FOLDER".into()),
    };
    let tls = tls.map(|folder| certified(Path::new(folder))).transpose()?;
    let (switch, server) = p4runtime::server(4);
    let server = server.with_tls(tls);
    if let Some((p4info, json)) = program {
        let p4info = text_format::parse_p4info(&std::fs::read_to_string(p4info)?)?;
        server.set_pipeline(p4info, std::fs::read(json)?).await?;
    }
    let listener = TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    tokio::spawn(loop_back(switch));
    let gnmi = Gnmi::new(Arc::clone(server.device()));
    let service = gnmi.service();
    let end = async move {
        end_of_input().await;
        gnmi.end();
    };
    server.serve_beside(service, listener, end).await?;
    Ok(())
}

/// Writes the certificates, and returns the server's side of TLS.
fn certified(folder: &Path) -> Result<tls::Server, tls::FileError> {
    let (authority, other) = (Authority::new("the one"), Authority::new("another"));
    let own = authority.issue(&["localhost", "127.0.0.1"], Good::Now);
    let own = own.write(folder, "server");
    authority.issue(&[], Good::Now).write(folder, "client");
    let expired = authority.issue(&[], Good::UntilLongAgo);
    expired.write(folder, "expired");
    other.issue(&[], Good::Now).write(folder, "other");
    other.write(folder, "other-ca.pem");
    tls::Server::open(tls::ServerFiles {
        certificate: own.certificate,
        key: own.key,
        client_authorities: Some(authority.write(folder, "ca.pem")),
    })
}

async fn loop_back(switch: Arc<MemoryLoop>) {
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        for transmit in switch.transmitted() {
            if transmit.port == LOOPED_FROM {
                switch.receive(LOOPED_TO, &transmit.frame);
            }
        }
    }
}

async fn end_of_input() {
    let wait = tokio::task::spawn_blocking(|| {
        let mut rest = Vec::new();
        // A read error counts as the end.
        let _ = std::io::stdin().read_to_end(&mut rest);
    });
    let _ = wait.await;
}
