//! Runs a P4Runtime server with an event loop in memory.

use std::sync::Arc;

use control::{Device, Registers, SwitchHandle};
use dataplane::{PortId, SwitchConfig};
use p4runtime_server::{Server, ServerConfig};
use tokio::net::TcpListener;

use crate::memory_loop::MemoryLoop;

pub const DEVICE_ID: u64 = 1;

/// Makes a switch without a program, and a server for the switch. The server does not listen yet.
pub fn server(n_ports: u16) -> (Arc<MemoryLoop>, Server) {
    let switch = Arc::new(MemoryLoop::start(SwitchConfig::default(), n_ports));
    let handle = Arc::clone(&switch) as Arc<dyn SwitchHandle>;
    let config = ServerConfig {
        device_id: DEVICE_ID,
        cpu_port: Some(PortId(510)),
    };
    let device = Device::new(handle, Registers::OfTheSwitch);
    (switch, Server::new(config, Arc::new(device)))
}

/// Serves on the loopback interface until the runtime ends. Returns the address.
pub async fn serve(server: Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(server.serve(listener, std::future::pending()));
    address
}
