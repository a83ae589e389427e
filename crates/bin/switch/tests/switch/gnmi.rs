//! gNMI beside P4Runtime on real interfaces: links that go down, disabled ports, counted frames.

use std::future::Future;
use std::time::Duration;

use crate::p4runtime::primary;
use crate::support::{Running, TIMEOUT, TemporaryFolder, outside, program};
use gnmi_proto::gnmi::g_nmi_client::GNmiClient;
use gnmi_proto::gnmi::subscribe_request::Request;
use gnmi_proto::gnmi::subscribe_response::Response;
use gnmi_proto::gnmi::typed_value::Value;
use gnmi_proto::gnmi::{
    Encoding, GetRequest, Path, PathElem, SetRequest, SubscribeRequest, SubscribeResponse,
    Subscription, SubscriptionList, SubscriptionMode, TypedValue, Update,
};
use p4runtime_client::entities::{insert, of_engine};
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::{BackupReplica, MulticastGroupEntry, Replica, replica};
use testkit::frames::{numbered, receive, send};
use testkit::namespace::{in_namespace, ip, veth_pair};
use tonic::Streaming;
use tonic::transport::Channel;

const NAMES: [&str; 3] = ["a1", "b1", "c1"];
const ETHERNET_HEADER_BYTES: u64 = 14;

/// Starts a switch whose ports 1, 2 and 3 are the interfaces a1, b1 and c1. These are ends of veth pairs; the other
/// ends are a0, b0 and c0.
fn start(options: &[&str]) -> Running {
    for (outer, inner) in ["a0", "b0", "c0"].into_iter().zip(NAMES) {
        veth_pair(outer, inner);
    }
    ip("link set lo up");
    start_again(options)
}

fn start_again(options: &[&str]) -> Running {
    let flood = program("flood.p4");
    let ports = ["-i", "1@a1", "-i", "2@b1", "-i", "3@c1"];
    let rest = ["--grpc", "127.0.0.1:0", "--log-format", "json"];
    Running::start_that_logs(&[&ports[..], &rest, options, &[&flood]].concat())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let bounded = async { tokio::time::timeout(TIMEOUT, work).await };
    let done = runtime.expect("a runtime").block_on(bounded);
    done.expect("the switch should have answered by now")
}

/// Writes a multicast group that sends to port 2, or to port 3 while port 2 is down.
async fn write_group(switch: &Running) {
    let port = |number: u8| vec![number];
    let group = MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: vec![Replica {
            instance: 1,
            port_kind: Some(replica::PortKind::Port(port(2))),
            backup_replicas: vec![BackupReplica {
                instance: 1,
                port: port(3),
            }],
        }],
        ..Default::default()
    };
    let group = of_engine(Replication::MulticastGroupEntry(group));
    let mut client = primary(switch).await;
    client.write(vec![insert(group)]).await.expect("written");
}

fn path(name: &str, leaf: &str) -> Path {
    let elem = |name: &str| PathElem {
        name: name.to_owned(),
        ..PathElem::default()
    };
    let mut elems = vec![elem("interfaces"), elem("interface")];
    elems[1].key.insert("name".to_owned(), name.to_owned());
    elems.extend(leaf.split('/').map(elem));
    Path {
        elem: elems,
        ..Path::default()
    }
}

struct Gnmi(GNmiClient<Channel>);

impl Gnmi {
    async fn of(switch: &Running) -> Gnmi {
        Gnmi(GNmiClient::connect(switch.grpc()).await.expect("a server"))
    }

    async fn get(&mut self, name: &str, leaf: &str) -> Value {
        let request = GetRequest {
            path: vec![path(name, leaf)],
            encoding: Encoding::Proto.into(),
            ..GetRequest::default()
        };
        let response = self.0.get(request).await.expect("an answer").into_inner();
        let updates = &response.notification[0].update;
        assert_eq!(updates.len(), 1, "{leaf} of {name}: {updates:?}");
        updates[0]
            .val
            .clone()
            .and_then(|val| val.value)
            .expect("a value")
    }

    async fn enable(&mut self, name: &str, is_enabled: bool) {
        let value = Some(Value::BoolVal(is_enabled));
        let update = Update {
            path: Some(path(name, "config/enabled")),
            val: Some(TypedValue { value }),
            ..Update::default()
        };
        let request = SetRequest {
            update: vec![update],
            ..SetRequest::default()
        };
        self.0.set(request).await.expect("set");
    }

    /// Subscribes to everything, ten times a second, and reads the first answer.
    async fn ask_for_everything(&mut self) -> Streaming<SubscribeResponse> {
        let subscription = Subscription {
            path: Some(Path::default()),
            mode: SubscriptionMode::Sample.into(),
            sample_interval: 100_000_000,
            ..Subscription::default()
        };
        let list = SubscriptionList {
            subscription: vec![subscription; 20],
            ..SubscriptionList::default()
        };
        let request = SubscribeRequest {
            request: Some(Request::Subscribe(list)),
            ..SubscribeRequest::default()
        };
        let answers = self.0.subscribe(tokio_stream::once(request)).await;
        let mut answers = answers.expect("a stream").into_inner();
        answers.message().await.expect("an answer").expect("one");
        answers
    }

    /// Subscribes to changes of a port's state.
    async fn follow(&mut self, name: &str, leaf: &str) -> Streaming<SubscribeResponse> {
        let subscription = Subscription {
            path: Some(path(name, leaf)),
            mode: SubscriptionMode::OnChange.into(),
            ..Subscription::default()
        };
        let list = SubscriptionList {
            subscription: vec![subscription],
            updates_only: true,
            ..SubscriptionList::default()
        };
        let request = SubscribeRequest {
            request: Some(Request::Subscribe(list)),
            ..SubscribeRequest::default()
        };
        let answers = self.0.subscribe(tokio_stream::once(request)).await;
        let mut answers = answers.expect("a stream").into_inner();
        let first = answers.message().await.expect("an answer").expect("one");
        assert_eq!(first.response, Some(Response::SyncResponse(true)));
        answers
    }
}

async fn next_values(answers: &mut Streaming<SubscribeResponse>) -> Vec<Value> {
    let answer = answers.message().await.expect("an answer").expect("one");
    let Some(Response::Update(notification)) = answer.response else {
        return Vec::new();
    };
    let updates = notification.update.into_iter();
    updates.filter_map(|update| update.val?.value).collect()
}

fn text(text: &str) -> Value {
    Value::StringVal(text.to_owned())
}

/// Sends a frame into a0; the frame must arrive at `interface`.
fn passes_to(interface: &str, number: u32) {
    let mut receiver = outside(interface);
    send(&mut outside("a0"), [numbered(number, 100)]);
    let found = receive(&mut receiver, 1);
    assert_eq!(found, [numbered(number, 100)], "{interface}");
}

/// The watched port's other end goes down and up; then the port itself is disabled and enabled.
fn backups_follow(options: &[&str]) {
    let switch = start(options);
    block_on(write_group(&switch));
    passes_to("b0", 1);
    for number in [2, 4] {
        // Without its other end b1 has no carrier.
        ip("link set b0 down");
        switch.wait_for_line(&["port_down", "b1"]);
        passes_to("c0", number);
        ip("link set b0 up");
        switch.wait_for_line(&["port_up", "b1"]);
        passes_to("b0", number + 1);
    }
    block_on(async { Gnmi::of(&switch).await.enable("b1", false).await });
    passes_to("c0", 6);
    block_on(async { Gnmi::of(&switch).await.enable("b1", true).await });
    passes_to("b0", 7);
    switch.stop("-TERM");
}

#[test]
fn a_backup_replica_takes_over_while_the_interface_of_its_port_is_down() {
    in_namespace(|| backups_follow(&[]));
}

#[test]
fn backup_replicas_of_two_workers_take_over() {
    in_namespace(|| {
        backups_follow(&["--workers", "2"]);
    });
}

#[test]
fn a_link_that_goes_down_is_reported_without_a_frame() {
    in_namespace(|| {
        let switch = start(&[]);
        block_on(async {
            let mut gnmi = Gnmi::of(&switch).await;
            assert_eq!(gnmi.get("b1", "state/oper-status").await, text("UP"));
            let mtu = 1_500 + ETHERNET_HEADER_BYTES;
            assert_eq!(gnmi.get("b1", "state/mtu").await, Value::UintVal(mtu));
            let mut answers = gnmi.follow("b1", "state/oper-status").await;
            for (n_transitions, state) in [(1, "down"), (2, "up")] {
                ip(&format!("link set b0 {state}"));
                assert_eq!(
                    next_values(&mut answers).await,
                    [text(&state.to_uppercase())]
                );
                let transitions = gnmi.get("b1", "state/counters/carrier-transitions").await;
                assert_eq!(transitions, Value::UintVal(n_transitions));
            }
            ip("link del b1");
            // The switch may report first that the link is down.
            while next_values(&mut answers).await != [text("NOT_PRESENT")] {}
            veth_pair("b0", "b1");
            // The port may be opened before its other end is up.
            while next_values(&mut answers).await != [text("UP")] {}
            ip("link set c1 mtu 9000");
            let mut answers = gnmi.follow("c1", "state/mtu").await;
            ip("link set c1 mtu 4000");
            let mtu = 4_000 + ETHERNET_HEADER_BYTES;
            while next_values(&mut answers).await != [Value::UintVal(mtu)] {}
        });
        // `stop` would expect an empty log, but the log has the removal of the interface.
        switch.signal("-TERM");
        let (status, _, said) = switch.end();
        assert_eq!(status, Some(0), "{said}");
    });
}

/// A broadcast or multicast frame.
fn for_many(first_byte: u8, len: usize) -> Vec<u8> {
    let mut frame = numbered(0, len);
    frame[..6].fill(first_byte);
    frame
}

fn counters_are_frames(options: &[&str]) {
    let switch = start(options);
    block_on(write_group(&switch));
    let (mut sender, mut receiver) = (outside("a0"), outside("b0"));
    send(&mut sender, (0..20).map(|number| numbered(number, 100)));
    send(&mut sender, (0..3).map(|_| for_many(0xff, 60)));
    send(&mut sender, (0..2).map(|_| for_many(0x33, 60)));
    assert_eq!(receive(&mut receiver, 25).len(), 25);
    block_on(async {
        let mut gnmi = Gnmi::of(&switch).await;
        let octets = 20 * 100 + 5 * 60;
        for (name, direction) in [("a1", "in"), ("b1", "out")] {
            for (counter, expected) in [
                ("pkts", 25),
                ("octets", octets),
                ("unicast-pkts", 20),
                ("broadcast-pkts", 3),
                ("multicast-pkts", 2),
                ("discards", 0),
                ("errors", 0),
            ] {
                let leaf = format!("state/counters/{direction}-{counter}");
                let found = gnmi.get(name, &leaf).await;
                assert_eq!(found, Value::UintVal(expected), "{leaf} of {name}");
            }
        }
        gnmi.enable("a1", false).await;
    });
    send(&mut sender, (0..7).map(|number| numbered(number, 100)));
    block_on(async {
        let mut gnmi = Gnmi::of(&switch).await;
        let leaf = "state/counters/in-discards";
        while gnmi.get("a1", leaf).await != Value::UintVal(7) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            gnmi.get("a1", "state/counters/in-pkts").await,
            Value::UintVal(25)
        );
        assert_eq!(
            gnmi.get("a1", "state/counters/in-unicast-pkts").await,
            Value::UintVal(20)
        );
        gnmi.enable("a1", true).await;
    });
    drop((sender, receiver));
    passes_to("b0", 99);
    let totals: serde_json::Value = serde_json::from_str(&switch.stop("-TERM")).expect("JSON");
    assert_eq!(totals["drops"]["port_disabled"], 7, "{totals}");
}

#[test]
fn counters_are_the_frames_that_were_sent() {
    in_namespace(|| {
        counters_are_frames(&["--json"]);
    });
}

#[test]
fn counters_are_those_of_all_workers() {
    in_namespace(|| {
        counters_are_frames(&["--json", "--workers", "2"]);
    });
}

#[test]
fn a_switch_that_is_killed_comes_up_with_its_ports_disabled() {
    in_namespace(|| {
        let folder = TemporaryFolder::new("gnmi-state");
        let state = folder.path("state").display().to_string();
        let options = ["--state", &state];
        let switch = start(&options);
        block_on(async {
            let mut gnmi = Gnmi::of(&switch).await;
            gnmi.enable("a1", false).await;
            gnmi.enable("c1", false).await;
            gnmi.enable("a1", true).await;
        });
        switch.signal("-KILL");
        switch.end();
        let switch = start_again(&options);
        block_on(async {
            let mut gnmi = Gnmi::of(&switch).await;
            for (name, is_enabled) in NAMES.into_iter().zip([true, true, false]) {
                let found = gnmi.get(name, "config/enabled").await;
                assert_eq!(found, Value::BoolVal(is_enabled), "{name}");
            }
            assert_eq!(gnmi.get("c1", "state/oper-status").await, text("DOWN"));
        });
        switch.stop("-TERM");
    });
}

#[test]
fn the_switch_stops_though_subscribers_read_nothing() {
    let ports = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let flood = program("flood.p4");
    let switch = Running::start(&[&ports[..], &[&flood]].concat());
    // The clients of both streams have stopped reading. One client's connection has room left, the other client's
    // connection has none.
    let (stopped, clients) = block_on(async {
        let narrow = tonic::transport::Endpoint::from_shared(switch.grpc())
            .expect("an address")
            .initial_connection_window_size(4_096)
            .initial_stream_window_size(4_096)
            .connect()
            .await
            .expect("a server");
        let mut narrow = Gnmi(GNmiClient::new(narrow));
        let mut wide = Gnmi::of(&switch).await;
        let streams = (
            narrow.ask_for_everything().await,
            wide.ask_for_everything().await,
        );
        // Wait until many more answers were due than fit into the narrow connection.
        let mut clock = Gnmi::of(&switch).await;
        let mut samples = clock.ask_for_everything().await;
        for _ in 0..400 {
            samples.message().await.expect("an answer").expect("one");
        }
        let began = std::time::Instant::now();
        let stopped = tokio::task::spawn_blocking(move || switch.stop("-TERM"));
        stopped.await.expect("it stops");
        (began.elapsed(), (streams, narrow, wide))
    });
    assert!(stopped < Duration::from_secs(120), "{stopped:?}");
    drop(clients);
}
