//! A device in memory with a program that has an object of every kind, and its server.

use std::net::SocketAddr;
use std::sync::Arc;

use control::{Batch, ClientData, Device, Operation, Pipeline, Registers, SwitchHandle, Update};
use dataplane::{MulticastGroup, Program, SwitchConfig};
use testkit::memory_loop::MemoryLoop;
use thrift_server::{NotificationSocket, Server, ServerConfig};
use tokio::net::TcpListener;

use crate::client::Client;

const SOURCE: &str = include_str!("../fixture/entities.p4");

pub struct Harness {
    pub switch: Arc<MemoryLoop>,
    pub device: Arc<Device>,
    /// BMv2 JSON.
    pub json: String,
    pub address: SocketAddr,
}

/// Compiles the program to BMv2 JSON.
pub fn json() -> String {
    let options = p4_compiler::Options::default();
    let output = p4_compiler::compile("entities.p4", SOURCE, &|_: &str| None, &options);
    let program = output
        .bmv2_json
        .unwrap_or_else(|| panic!("{:?}", output.diagnostics));
    program.to_json().unwrap()
}

impl Harness {
    pub async fn start() -> Self {
        Self::with_workers(1).await
    }

    pub async fn with_workers(n_workers: usize) -> Self {
        Self::serving(n_workers, None).await
    }

    /// Starts a server with a notification socket. Also returns the socket's address.
    pub async fn publishing(address: &str) -> (Self, String) {
        let socket = NotificationSocket::listen(address).unwrap();
        let address = socket.address().to_owned();
        (Self::serving(1, Some(socket)).await, address)
    }

    async fn serving(n_workers: usize, notifications: Option<NotificationSocket>) -> Self {
        let switch = Arc::new(MemoryLoop::start_workers(
            SwitchConfig::default(),
            8,
            n_workers,
        ));
        let handle = Arc::clone(&switch) as Arc<dyn SwitchHandle>;
        let device = Arc::new(Device::new(handle, Registers::PerWorker));
        let json = json();
        let program = Program::from_json_str(&json).unwrap();
        let checked = device.check(program, ()).unwrap();
        device
            .set_pipeline(checked.with_config(json.as_bytes()))
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = ServerConfig {
            device_id: 3,
            port: address.port(),
            notifications: notifications.as_ref().map(|it| it.address().to_owned()),
        };
        let server = Server::new(config, Arc::clone(&device));
        if let Some(socket) = notifications {
            tokio::spawn(server.publish(socket));
        }
        tokio::spawn(server.serve(listener, std::future::pending()));
        Self {
            switch,
            device,
            json,
            address,
        }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub fn pipeline(&self) -> Arc<Pipeline> {
        self.device.pipeline().unwrap()
    }

    /// Writes an operation as another protocol would. The operation must succeed.
    pub async fn write(&self, operation: Operation) {
        let batch = Batch::new(vec![operation]);
        let results = self.device.write(self.pipeline(), batch).await.unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    pub async fn write_group(&self, update: Update<MulticastGroup>, client_data: ClientData) {
        self.write(Operation::MulticastGroup(update, client_data))
            .await;
    }

    /// Sends a frame into port 0, and returns the ports at which its copies leave.
    pub fn ports_of(&self, frame: &[u8]) -> Vec<u16> {
        self.switch.transmitted();
        self.switch.receive(0, frame);
        let sent = self.switch.transmitted();
        sent.iter().map(|transmit| transmit.port.0).collect()
    }
}

/// A frame with only an Ethernet header, for a host whose address ends with `dst`.
pub fn frame(dst: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[5] = dst;
    frame[12..14].copy_from_slice(&[0x12, 0x34]);
    frame
}

/// An address that ends with `last`.
pub fn mac(last: u8) -> [u8; 6] {
    [0, 0, 0, 0, 0, last]
}

pub const NOWHERE: [u16; 0] = [];
