//! A switch in memory that runs `p4/conference.p4`, written and read by P4Runtime's messages.

use std::sync::Arc;

use conference_service::activity::Verdicts;
use conference_service::rows::Tables;
use control::{PacketInFrame, PacketInSender, Subscriber, SwitchHandle};
use dataplane::limits::CPU_PORT;
use p4_compiler::Options;
use p4runtime_client::objects::Array;
use p4runtime_client::whole_batches;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{Entity, Update, WriteRequest};
use p4runtime_server::Server;
use testkit::memory_loop::MemoryLoop;
use testkit::p4runtime::{DEVICE_ID, server};
use testkit::repository::root;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;

/// How many ports the switch has. They are numbered from 0 on.
pub const N_PORTS: u16 = 4;
const SECOND_NS: u64 = 1_000_000_000;
const PACKET_INS_MAX: usize = 1_024;

/// The port by which a frame left, and the frame.
pub type Left = (u16, Vec<u8>);

/// A switch that can be restarted.
pub struct Switch {
    runtime: Runtime,
    p4info: P4Info,
    json: Vec<u8>,
    /// The tables that the service writes.
    pub tables: Tables,
    /// The counters of verdicts.
    pub verdicts: Verdicts,
    without_receiver: Array,
    process: Process,
}

/// The switch's process, which a restart replaces.
struct Process {
    memory: Arc<MemoryLoop>,
    server: Server,
    packet_ins: Receiver<PacketInFrame>,
    has_program: bool,
}

impl Process {
    fn start() -> Process {
        let (memory, server) = server(N_PORTS);
        let (sender, packet_ins) = PacketInSender::channel(PACKET_INS_MAX);
        memory.subscribe(Subscriber::PacketIns(sender));
        Process {
            memory,
            server,
            packet_ins,
            has_program: false,
        }
    }
}

impl Switch {
    /// Compiles the program, and starts a switch that has no program yet.
    pub fn start() -> Switch {
        let folder = root().join("p4");
        let load = |path: &str| std::fs::read_to_string(folder.join(path)).ok();
        let text = load("conference.p4").expect("the program");
        let output = p4_compiler::compile("conference.p4", &text, &load, &Options::default());
        let p4info = output.p4info.expect("it compiles");
        let json = output.bmv2_json.expect("it compiles");
        Switch {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            tables: Tables::find(&p4info).expect("its tables"),
            verdicts: Verdicts::find(&p4info).expect("its verdicts"),
            without_receiver: Array::counter(&p4info, "drops_without_receiver").expect("a counter"),
            json: json.to_json_pretty().expect("JSON").into_bytes(),
            p4info,
            process: Process::start(),
        }
    }

    /// Ends the switch's process and starts a new one, which has no program.
    pub fn restart(&mut self) {
        self.process = Process::start();
    }

    /// Gives the switch its program, if it has none. Returns whether it had none.
    pub fn set_program(&mut self) -> bool {
        let is_new = !self.process.has_program;
        if is_new {
            let set = self
                .process
                .server
                .set_pipeline(self.p4info.clone(), self.json.clone());
            self.runtime.block_on(set).expect("it takes the program");
            self.process.has_program = true;
        }
        is_new
    }

    pub fn advance_1_s(&self) {
        self.process.memory.advance(SECOND_NS);
    }

    /// Lets a frame arrive at a port. Returns the frames that leave because of it.
    pub fn receive(&self, port: u16, frame: &[u8]) -> Vec<Left> {
        self.process.memory.receive(port, frame);
        let transmitted = self.process.memory.transmitted().into_iter();
        transmitted.map(|it| (it.port.0, it.frame)).collect()
    }

    /// Sends a frame that the controller gives to the switch. Returns the frames that leave.
    pub fn packet_out(&self, port: u16, frame: &[u8]) -> Vec<Left> {
        let with_header = [&(port << 7).to_be_bytes()[..], frame].concat();
        self.receive(CPU_PORT, &with_header)
    }

    /// Takes the frames for the controller, each with the port by which it came.
    pub fn packet_ins(&mut self) -> Vec<Left> {
        let mut frames = Vec::new();
        while let Ok(PacketInFrame { frame, .. }) = self.process.packet_ins.try_recv() {
            let port = u16::from_be_bytes([frame[0], frame[1]]) >> 7;
            frames.push((port, frame[2..].to_vec()));
        }
        frames
    }

    /// Writes in batches, as the service does. Each batch is written as a whole.
    pub fn write(&self, updates: &[Update]) {
        for batch in whole_batches(updates) {
            let request = WriteRequest {
                device_id: DEVICE_ID,
                updates: batch.to_vec(),
                atomicity: Atomicity::DataplaneAtomic.into(),
                ..WriteRequest::default()
            };
            let written = self.runtime.block_on(self.process.server.write(&request));
            written
                .unwrap_or_else(|error| panic!("expected a write to be done: {error}\n{batch:#?}"));
        }
    }

    /// How many multicast copies of packets were dropped because they had no receiver.
    pub fn n_without_receiver(&self) -> u64 {
        let of = self.without_receiver.clone();
        let read = self.read(vec![of.count(0)]);
        let counts = read.iter().filter_map(|it| of.count_value(it));
        counts.map(|(_, count)| count.packets).sum()
    }

    /// Reads what the filters match.
    pub fn read(&self, filters: Vec<Entity>) -> Vec<Entity> {
        let kinds: Vec<_> = filters.into_iter().filter_map(|it| it.entity).collect();
        let read = self.runtime.block_on(self.process.server.read(&kinds));
        read.expect("it can be read")
    }
}
