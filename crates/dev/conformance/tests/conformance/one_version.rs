//! Tests that each packet sees one version of its group, whatever the controller does meanwhile.
//!
//! The test runs the real programs, the real P4Runtime server and the real controller with a switch in virtual time.
//! The rates of the switch's queues are so low that the queues overflow. The controller changes a group of 1,024
//! viewers again and again, as fast as the switch answers. The destinations of a packet's copies must be the first
//! viewers of exactly one version's list, and every missing copy must be counted.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use conference::address::Mac;
use conference::backend::SfuProgram as Backend;
use conference::model::{Conference, GroupId, OwnAddress, Presenter, Viewer};
use conference::plan;
use conformance::packet::{presenter_frame, udp_copy};
use conformance::sfu::{GROUP, PRESENTER_IP, SFU_IP, SFU_MAC, SFU_PORT, STREAM_PORT, SfuProgram};
use control::{Device, DrainWaiters, Registers, Subscriber, SwitchContext, SwitchHandle, Work};
use dataplane::{DropReason, Nanos, Switch, SwitchConfig, SwitchCounters};
use p4runtime_client::{Client, SwitchAddress};
use p4runtime_server::{Server, ServerConfig};

const DEVICE_ID: u64 = 1;
const N_VIEWERS: usize = 1024;
const N_UPDATES: usize = 20;
/// Virtual time per iteration of the loop.
const ITERATION_NS: Nanos = 50_000;
/// The number of iterations between two packets of the presenter. Each packet makes 1,024 copies.
const ITERATIONS_PER_PACKET: u64 = 8;

/// Destinations of a packet's copies, by the packet's sequence number.
type Copies = BTreeMap<u64, Vec<Ipv4Addr>>;

/// A thread that runs the switch's event loop and sends the presenter's packets, until it is stopped.
struct Pump {
    work: Sender<Message>,
    thread: JoinHandle<(Copies, u64, Switch)>,
    /// Number of packets that the presenter has sent so far. The test records it when a version comes into force.
    sent: Arc<Mutex<u64>>,
}

enum Message {
    Work(Work),
    Present(bool),
    Stop,
}

struct Handle(Sender<Message>);

impl SwitchHandle for Handle {
    fn submit(&self, _worker: usize, work: Work) {
        // If the thread has ended, the work is dropped without being run. The trait allows that.
        let _ = self.0.send(Message::Work(work));
    }

    fn subscribe(&self, _subscriber: Subscriber) {}
}

/// Returns a configuration with which the recirculation queue fills, or the egress queue if the program does not
/// recirculate.
fn held_back(program: SfuProgram) -> SwitchConfig {
    match program {
        SfuProgram::Recirculation => SwitchConfig {
            recirculation_rate_pps: Some(2_000_000),
            recirculation_queue_packets: 16,
            ..SwitchConfig::default()
        },
        SfuProgram::Replication => SwitchConfig {
            egress_rate_pps: Some(2_000_000),
            egress_queue_packets: 1500,
            ..SwitchConfig::default()
        },
    }
}

fn start(config: SwitchConfig) -> Pump {
    let (work, inbox) = channel();
    let sent = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&sent);
    let thread = std::thread::spawn(move || pump(Switch::new(config), &inbox, &counter));
    Pump { work, thread, sent }
}

fn pump(mut switch: Switch, inbox: &Receiver<Message>, sent: &Mutex<u64>) -> (Copies, u64, Switch) {
    switch.add_port(SFU_PORT);
    let (mut copies, mut waiters) = (Copies::new(), DrainWaiters::default());
    let (mut now, mut presenting, mut running) = (0, false, true);
    let mut rest = None;
    // Packets that are inside the switch when the presenter stops must still leave.
    while running || switch.packets_inside() > 0 {
        while let Some(message) = rest.take().or_else(|| inbox.try_recv().ok()) {
            match message {
                Message::Work(work) => {
                    let mut context = SwitchContext {
                        switch: &mut switch,
                        now,
                        ports: &[],
                        drain_waiters: &mut waiters,
                        n_updates: 0,
                        rest: None,
                    };
                    work(&mut context);
                    rest = context.rest.map(Message::Work);
                    // Leaves this loop, so that packets arrive between two pieces of a control call.
                    if rest.is_some() {
                        break;
                    }
                }
                Message::Present(on) => presenting = on,
                Message::Stop => (running, presenting) = (false, false),
            }
        }
        if presenting && (now / ITERATION_NS).is_multiple_of(ITERATIONS_PER_PACKET) {
            let mut sent = sent.lock().unwrap();
            switch.handle_frame(now, SFU_PORT, &presenter_frame(64, &sent.to_be_bytes()));
            *sent += 1;
        }
        switch.handle_timeout(now);
        while let Some(transmit) = switch.poll_transmit(now) {
            let copy = udp_copy(&transmit.to_owned().frame);
            assert!(copy.udp_checksum_right, "{copy:?}");
            let sequence = u64::from_be_bytes(copy.payload.try_into().unwrap());
            copies.entry(sequence).or_default().push(copy.ips.1);
        }
        waiters.notify(&switch);
        now += ITERATION_NS;
    }
    let sent = *sent.lock().unwrap();
    (copies, sent, switch)
}

fn viewer(n: usize, program: SfuProgram) -> Viewer {
    let n = u32::try_from(n).unwrap();
    let [_, a, b, c] = n.to_be_bytes();
    Viewer {
        ip: Ipv4Addr::from(0x0a10_0000 + n),
        mac: Mac([2, 0, 1, a, b, c]),
        udp_port: (program == SfuProgram::Replication).then_some(6000),
        looked_up: false,
        port: None,
    }
}

/// Makes version `v` of the conference. Every version begins with another viewer, so that the first copies of a packet
/// identify the version.
fn version(backend: &Backend, program: SfuProgram, v: usize) -> Conference {
    let mut conference = Conference::new(backend.capabilities());
    let address = OwnAddress {
        port: SFU_PORT.0,
        ip: SFU_IP,
        mac: Mac(SFU_MAC),
    };
    conference.set_address(address).unwrap();
    let presenter = Presenter {
        ip: PRESENTER_IP,
        mac: None,
        udp_port: (program == SfuProgram::Replication).then_some(STREAM_PORT),
    };
    conference.add_group(GroupId(GROUP), presenter).unwrap();
    for n in v..v + N_VIEWERS {
        conference
            .add_viewer(GroupId(GROUP), viewer(n, program))
            .unwrap();
    }
    conference
}

fn addresses(conference: &Conference) -> Vec<Ipv4Addr> {
    conference.groups()[&GroupId(GROUP)]
        .viewers
        .iter()
        .map(|viewer| viewer.ip)
        .collect()
}

/// Each version's viewers, and the number of packets that were sent when the version was certainly in force.
type Versions = Vec<(Vec<Ipv4Addr>, u64)>;

async fn change_again_and_again(program: SfuProgram, pump: &Pump) -> Versions {
    let path = testkit::repository::root().join(program.path());
    let (p4info, json) = conformance::compile::pipeline(&path);
    let handle: Arc<dyn SwitchHandle> = Arc::new(Handle(pump.work.clone()));
    let config = ServerConfig {
        device_id: DEVICE_ID,
        cpu_port: None,
    };
    let device = Device::new(handle, Registers::OfTheSwitch);
    let server = Server::new(config, Arc::new(device));
    server.set_pipeline(p4info.clone(), json).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(server.serve(listener, std::future::pending()));

    let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
        .await
        .unwrap();
    client.become_primary().await.unwrap();
    let backend = Backend::detect(&p4info).unwrap();
    let mut versions = Vec::new();
    for v in 0..N_UPDATES {
        let desired = version(&backend, program, v);
        let snapshot = backend.read(&mut client).await.unwrap();
        let plan = backend.plan(&snapshot, &desired).unwrap();
        plan::run(plan, &mut client, |_| {}).await.unwrap();
        versions.push((addresses(&desired), *pump.sent.lock().unwrap()));
        pump.work.send(Message::Present(true)).unwrap();
    }
    versions
}

/// Compares each packet with the versions. Returns the number of missing copies.
fn check(copies: &Copies, sent: u64, versions: &Versions) -> u64 {
    let (mut missing, mut oldest_possible, mut seen) = (0, 0, vec![0; versions.len()]);
    for sequence in 0..sent {
        let Some(got) = copies.get(&sequence) else {
            missing += N_VIEWERS as u64;
            continue;
        };
        let v = versions
            .iter()
            .position(|(list, _)| list.first() == got.first())
            .unwrap_or_else(|| panic!("packet {sequence}: no version begins so: {:?}", got[0]));
        let (list, _) = &versions[v];
        assert!(
            list.starts_with(got),
            "packet {sequence} saw a mix of versions: {got:?}"
        );
        let in_force = versions
            .iter()
            .rposition(|(_, from)| *from <= sequence)
            .unwrap_or(0);
        assert!(
            v >= in_force,
            "packet {sequence} saw version {v}, {in_force} was in force"
        );
        assert!(
            v >= oldest_possible,
            "packet {sequence} saw version {v} after a newer one"
        );
        oldest_possible = v;
        seen[v] += 1;
        missing += (list.len() - got.len()) as u64;
    }
    let n_seen = seen.iter().filter(|&&n| n > 0).count();
    println!(
        "{sent} packets saw {n_seen} of {} versions, {missing} copies missing",
        seen.len()
    );
    assert!(
        n_seen > versions.len() / 3,
        "the packets saw too few versions: {seen:?}"
    );
    missing
}

fn counted(program: SfuProgram, counters: &SwitchCounters) -> u64 {
    counters.dropped(match program {
        SfuProgram::Recirculation => DropReason::RecirculationQueueFull,
        SfuProgram::Replication => DropReason::EgressQueueFull,
    })
}

fn every_packet_sees_one_version(program: SfuProgram) {
    let pump = start(held_back(program));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let versions = runtime.block_on(change_again_and_again(program, &pump));
    pump.work.send(Message::Stop).unwrap();
    let (copies, sent, switch) = pump.thread.join().unwrap();
    let missing = check(&copies, sent, &versions);
    let counters = switch.counters();
    let dropped = counted(program, counters);
    println!("{program:?}: dropped by the full queue: {dropped}");
    assert!(dropped > 0, "the queue was never full");
    assert_eq!(
        counters.dropped_total(),
        dropped,
        "{program:?}: dropped for another reason"
    );
    match program {
        // A recirculated packet that is dropped loses all copies that it has not made yet.
        SfuProgram::Recirculation => assert!(missing >= dropped),
        SfuProgram::Replication => assert_eq!(missing, dropped),
    }
    assert_eq!(
        counters.received + counters.created_by_clone + counters.created_by_replication,
        counters.transmitted + counters.dropped_total(),
        "{program:?}: nothing vanished"
    );
}

#[test]
fn the_recirculation_program_keeps_one_version_a_packet_with_a_full_queue() {
    every_packet_sees_one_version(SfuProgram::Recirculation);
}

#[test]
fn the_replication_program_keeps_one_version_a_packet_with_a_full_queue() {
    every_packet_sees_one_version(SfuProgram::Replication);
}
