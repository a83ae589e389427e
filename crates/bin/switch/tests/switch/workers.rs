//! Several workers are one switch: the same copies, summed counters, writes that reach all of them; and refusals or
//! warnings where that is impossible.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Instant;

use crate::p4runtime::address;
use crate::support::{Running, TIMEOUT, TemporaryFolder, error, http_get, totals};
use p4runtime_client::{Client, SwitchAddress, entities};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::{DirectCounterEntry, Entity, RegisterEntry, TableEntry};
use serde_json::Value;
use testkit::namespace::{in_namespace, ip};
use testkit::repository::root;

/// Number of senders. Each sender is a flow of its own, since the senders have different ports.
const N_SENDERS: u8 = 16;
const N_PACKETS: u8 = 20;

fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("an address that is free");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

/// The result of a conference's traffic with a number of workers.
struct Outcome {
    /// The totals, without times and without values that depend on times.
    totals: Value,
    counters: Vec<Entity>,
    metrics: String,
}

/// Runs a conference with one presenter, who sends 16 flows, and three viewers.
fn conference(n_workers: &str) -> Outcome {
    let folder = TemporaryFolder::new(&format!("workers-{n_workers}"));
    let text = std::fs::read_to_string(root().join("testdata/trace/sfu.txtpb"));
    let text = text.expect("the entries");
    // The MAC addresses that a UDP port derives for its peers.
    let text = text.replace(r"\002\000\000\000\001", r"\002\000\n\000\001");
    let entries = folder.file("entries.txtpb", text);
    let program = root().join("p4/sfu.p4").display().to_string();
    let mut arguments = vec!["-i", "1@udp:10.0.1.100:5004", "--workers", n_workers];
    arguments.extend(["--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    arguments.extend(["--json", "--entries", &entries, &program]);
    let switch = Running::start(&arguments);
    let presenters: Vec<UdpSocket> = (0..N_SENDERS)
        .map(|sender| socket(&format!("10.0.1.4:{}", 40_000 + u16::from(sender))))
        .collect();
    let viewers = ["10.0.1.5:5004", "10.0.1.6:6000", "10.0.1.7:5004"].map(socket);
    for number in 0..N_PACKETS {
        for (sender, presenter) in (0..).zip(&presenters) {
            let payload = [sender, number, 7, 7];
            let sent = presenter.send_to(&payload, "10.0.1.100:5004");
            assert_eq!(sent.expect("sending"), payload.len());
        }
        viewers
            .iter()
            .for_each(|viewer| expect_copies(viewer, number));
    }
    let grpc = address(&switch);
    let (_, metrics) = http_get(&switch, "/metrics");
    let counters = read(&grpc, every_direct_counter());
    let counters = counters.expect("an answer");
    controlled(&grpc, n_workers.parse().expect("a number"));
    let mut totals = totals(&switch.stop("-TERM"));
    totals["time_ns"] = 0.into();
    Outcome {
        totals,
        counters,
        metrics,
    }
}

fn has_counted(entity: &Entity) -> bool {
    let Some(Kind::DirectCounterEntry(counter)) = &entity.entity else {
        return false;
    };
    counter
        .data
        .as_ref()
        .is_some_and(|data| data.packet_count > 0)
}

/// A wildcard for the counters of every table's entries.
fn every_direct_counter() -> Kind {
    Kind::DirectCounterEntry(DirectCounterEntry {
        table_entry: Some(TableEntry::default()),
        ..Default::default()
    })
}

/// Expects one copy from every sender, all with this number, so each flow is in order.
fn expect_copies(viewer: &UdpSocket, number: u8) {
    let mut seen: BTreeMap<u8, u8> = BTreeMap::new();
    for _ in 0..N_SENDERS {
        let mut buffer = [0; 100];
        let n_bytes = viewer.recv(&mut buffer).expect("a copy");
        assert_eq!(buffer[..n_bytes][2..], [7, 7]);
        let twice = seen.insert(buffer[0], buffer[1]);
        assert_eq!(twice, None, "twice");
    }
    assert!(seen.values().all(|it| *it == number), "{seen:?}");
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let mut runtime = runtime;
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

fn read(grpc: &SwitchAddress, kind: Kind) -> Result<Vec<Entity>, String> {
    let found = block_on(async {
        let client = Client::connect(grpc, 1).await;
        let mut client = client.expect("a server");
        client.read(vec![entities::entity(kind)]).await
    });
    found.map_err(|error| error.to_string())
}

/// Checks that a drain ends, that the switch's counters name this number of workers, and that they account for every
/// packet.
fn controlled(grpc: &SwitchAddress, n_workers: u32) {
    block_on(async {
        let client = Client::connect(grpc, 1).await;
        let mut client = client.expect("a server");
        client.drain().await.expect("drained");
        let counters = client.counters().await.expect("an answer");
        let n_packets = u64::from(N_SENDERS) * u64::from(N_PACKETS);
        assert_eq!(counters.workers, n_workers);
        assert_eq!(counters.ports[0].rx_packets, n_packets);
        let packets = counters.packets.expect("packets");
        let dropped: u64 = counters.drops.iter().map(|drop| drop.packets).sum();
        let came = packets.received + packets.cloned + packets.replicated;
        let went = packets.transmitted + packets.to_cpu + packets.inside + dropped;
        assert_eq!((packets.received, came), (n_packets, went));
        // Every copy was timed, whichever worker made it.
        let timed: u64 = counters.latencies.iter().map(|it| it.packets).sum();
        assert_eq!(timed, 2 * 3 * n_packets);
    });
}

#[test]
fn two_workers_do_and_count_what_one_does() {
    in_namespace(|| {
        ip("link set lo up");
        for address in [4, 5, 6, 7, 100] {
            ip(&format!("addr replace 10.0.1.{address}/32 dev lo"));
        }
        let (one, two) = (conference("1"), conference("2"));
        assert_eq!(one.totals, two.totals);
        assert!(one.counters.iter().any(has_counted));
        assert_eq!(one.counters, two.counters);
        for (outcome, workers) in [(&one, 1), (&two, 2)] {
            let n_packets = u32::from(N_SENDERS) * u32::from(N_PACKETS);
            for line in [
                format!("reprise_workers {workers}"),
                format!("reprise_packets_total{{event=\"received\"}} {n_packets}"),
                format!(
                    "reprise_packets_total{{event=\"transmitted\"}} {}",
                    3 * n_packets
                ),
            ] {
                let is_there = outcome.metrics.lines().any(|it| it == line);
                assert!(is_there, "no {line} in\n{}", outcome.metrics);
            }
        }
    });
}

/// Returns the path of a program that writes a register for each packet.
fn program_with_register() -> String {
    let path = root().join("testdata/stf/register_control_plane.p4");
    path.display().to_string()
}

#[test]
fn a_program_whose_packets_write_registers_needs_one_worker_or_consent() {
    let program = program_with_register();
    let port = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let said = error(1, &[&port[..], &["--workers", "2", &program]].concat());
    assert!(said.contains("register \"TestIngress.cells\""), "{said}");
    assert!(said.contains("--registers per-worker"), "{said}");
    Running::start(&[&port[..], &[&program]].concat()).stop("-TERM");
}

#[test]
fn a_program_with_a_shared_register_is_refused_with_several_workers_whatever_is_asked() {
    let sequencer = root().join("p4/aom_hm.p4").display().to_string();
    let port = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    for registers in [&[][..], &["--registers", "per-worker"]] {
        let arguments = [&port[..], &["--workers", "2"], registers, &[&sequencer]].concat();
        let said = error(1, &arguments);
        let expected = "found register \"AomIngress.sequencer.sequences\": run one worker";
        assert!(said.contains(expected), "{said}");
    }
    Running::start(&[&port[..], &[&sequencer]].concat()).stop("-TERM");
}

#[test]
fn a_register_that_the_workers_do_not_agree_about_is_not_read() {
    let program = program_with_register();
    let mut arguments = vec!["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    arguments.extend(["--workers", "2", "--registers", "per-worker", &program]);
    let switch = Running::start(&arguments);
    let grpc = address(&switch);
    let registers = || read(&grpc, Kind::RegisterEntry(RegisterEntry::default()));
    assert_eq!(registers().map(|cells| cells.len()), Ok(8));
    let rest = switch.ready.split("1@").nth(1).expect("a port");
    let address = rest.trim_start_matches("udp:").split(',').next();
    let sender = socket("127.0.0.1:0");
    sender
        .send_to(b"once", address.expect("an address"))
        .expect("sending");
    // The program reads the destination address 02:00:7f:.. as index 2 and value 0x007f, and writes the value to the
    // cell after the index, cell 3.
    let began = Instant::now();
    let refused = loop {
        match registers() {
            Err(message) => break message,
            Ok(_) => assert!(began.elapsed() < TIMEOUT, "the packet wrote nothing"),
        }
    };
    let expected =
        "register \"TestIngress.cells\": cell 3 has different values in different workers";
    assert!(refused.contains(expected), "{refused}");
    switch.stop("-TERM");
}
