//! A learning switch in the kernel, and its controller, which learns stations from digests.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::replica::PortKind;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::stream_message_response::Update as ResponseUpdate;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    Action, DigestEntry, DigestList, DigestListAck, FieldMatch, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry,
};
use p4runtime_proto::reprise::v1::DrainRequest;
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use packet_io::AfPacketPort;
use testkit::frames::{receive, send};
use testkit::namespace::in_root_namespace;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tonic::transport::Channel;

use crate::kernel::cables;
use crate::support::controller::{Controller, update};
use crate::support::{PATIENCE, Running, outside, totals};

/// An hour, longer than any test.
const LONG_NS: i64 = 3_600_000_000_000;

/// A group with every port of p4/bench/l2.p4.
const FLOOD_GROUP: u32 = 1;

fn l2() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/bench/l2.p4").to_owned()
}

/// Ports 1 and 2 are veths, whose other ends are a0 and b0.
fn start() -> Running {
    let program = l2();
    let ports = ["-i", "1@afxdp:a1", "-i", "2@afxdp:b1"];
    let options = ["--grpc", "127.0.0.1:0", "--json", "--engine", "kernel"];
    let all = [&ports[..], &options, &["--explain-engine", &program]].concat();
    let switch = Running::start_that_logs(&all);
    switch.wait_for_line(&["offload: the whole program"]);
    switch
}

fn frame(to: u8, from: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.resize(60, 7);
    frame
}

struct Learner {
    runtime: Runtime,
    controller: Controller,
    control: SwitchClient<Channel>,
    info: P4Info,
}

impl Learner {
    fn of(switch: &Running) -> Learner {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (controller, control, info) = runtime.block_on(async {
            let control = SwitchClient::connect(switch.grpc()).await;
            let mut controller = Controller::of(switch).await;
            let info = controller.config().await.p4info.expect("a P4Info");
            (controller, control.expect("a server"), info)
        });
        Learner {
            runtime,
            controller,
            control,
            info,
        }
    }

    fn insert(&mut self, entity: Kind) {
        let written = self.controller.write(vec![update(Type::Insert, entity)]);
        let written = self.runtime.block_on(written);
        written.expect("the write is taken");
    }

    fn digest_id(&self) -> u32 {
        let digest = self.info.digests[0].preamble.as_ref();
        digest.expect("a name").id
    }

    /// Asks for one station in each list, and for no repetition before the list is acknowledged.
    fn ask_for_stations(&mut self) {
        let config = Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: LONG_NS,
        };
        self.insert(Kind::DigestEntry(DigestEntry {
            digest_id: self.digest_id(),
            config: Some(config),
        }));
        let replica = |port: u8| Replica {
            instance: 1,
            port_kind: Some(PortKind::Port(vec![port])),
            ..Default::default()
        };
        let group = MulticastGroupEntry {
            multicast_group_id: FLOOD_GROUP,
            replicas: vec![replica(1), replica(2)],
            ..Default::default()
        };
        let entry = PacketReplicationEngineEntry {
            r#type: Some(Replication::MulticastGroupEntry(group)),
        };
        self.insert(Kind::PacketReplicationEngineEntry(entry));
    }

    /// Writes that the station is at the port.
    fn learn(&mut self, station: u8, port: u8) {
        let mut tables = self.info.tables.iter();
        let table = tables.find(|table| {
            let preamble = table.preamble.as_ref();
            preamble.is_some_and(|it| it.name.ends_with("sources"))
        });
        let mut actions = self.info.actions.iter();
        let action = actions.find(|action| {
            let preamble = action.preamble.as_ref();
            preamble.is_some_and(|it| it.name.ends_with("known"))
        });
        let table = table.and_then(|it| it.preamble.as_ref());
        let action = action.and_then(|it| it.preamble.as_ref());
        let exact = |field_id, value| FieldMatch {
            field_id,
            field_match_type: Some(FieldMatchType::Exact(Exact { value })),
        };
        let call = Action {
            action_id: action.expect("the action").id,
            params: Vec::new(),
        };
        self.insert(Kind::TableEntry(TableEntry {
            table_id: table.expect("the table").id,
            r#match: vec![exact(1, vec![2, 0, 0, 0, 0, station]), exact(2, vec![port])],
            action: Some(TableAction {
                r#type: Some(ActionType::Action(call)),
            }),
            ..Default::default()
        }));
    }

    fn next(&mut self) -> ResponseUpdate {
        let next = self.controller.next();
        let next = async { timeout(PATIENCE, next).await };
        self.runtime.block_on(next).expect("a message in time")
    }

    fn list(&mut self) -> DigestList {
        match self.next() {
            ResponseUpdate::Digest(list) => list,
            other => panic!("expected a list of digests, got {other:?}"),
        }
    }

    fn acknowledge(&mut self, list: &DigestList) {
        let ack = DigestListAck {
            digest_id: list.digest_id,
            list_id: list.list_id,
        };
        // The error that follows on the stream shows that the acknowledgement was read.
        let wrong = DigestListAck {
            digest_id: 12,
            ..ack
        };
        for ack in [ack, wrong] {
            self.controller.send(RequestUpdate::DigestAck(ack));
        }
        match self.next() {
            ResponseUpdate::Error(_) => {}
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// Waits until packets see what was written.
    fn drain(&mut self) {
        let request = DrainRequest { device_id: 1 };
        let drained = self.runtime.block_on(self.control.drain(request));
        drained.expect("drained");
    }
}

fn stations(list: &DigestList) -> Vec<(u8, u8)> {
    let member = |data: &Data| match data {
        Data::Bitstring(bytes) => bytes.last().copied(),
        _ => None,
    };
    let station = |data: &Data| match data {
        Data::Struct(members) => {
            let mut members = members.members.iter();
            let mut next = || member(members.next()?.data.as_ref()?);
            Some((next()?, next()?))
        }
        _ => None,
    };
    let data = list.data.iter().filter_map(|it| it.data.as_ref());
    data.map(|data| station(data).expect("a station and a port"))
        .collect()
}

/// Sends a frame from a station to an unknown one; the other port must get it.
fn flood(from: &mut AfPacketPort, to: &mut AfPacketPort, station: u8) {
    send(from, [frame(9, station)]);
    assert_eq!(receive(to, 1), [frame(9, station)]);
}

#[test]
fn a_learning_switch_in_the_kernel_tells_of_each_station_until_it_is_learnt() {
    in_root_namespace(|| {
        cables();
        let (mut a, mut b) = (outside("a0"), outside("b0"));
        let switch = start();
        let mut controller = Learner::of(&switch);
        controller.ask_for_stations();
        flood(&mut a, &mut b, 5);
        let first = controller.list();
        assert_eq!(first.digest_id, controller.digest_id());
        assert_eq!(stations(&first), [(5, 1)]);
        // The unacknowledged station is not reported again, so the next digest is the other station's.
        flood(&mut a, &mut b, 5);
        flood(&mut b, &mut a, 6);
        let second = controller.list();
        assert_eq!(stations(&second), [(6, 2)]);
        // A station that has moved is a new one.
        flood(&mut b, &mut a, 5);
        let moved = controller.list();
        assert_eq!(stations(&moved), [(5, 2)]);
        // After its acknowledgement it is reported again, until the table has it.
        controller.acknowledge(&first);
        controller.learn(6, 2);
        flood(&mut a, &mut b, 5);
        assert_eq!(stations(&controller.list()), [(5, 1)]);
        controller.learn(5, 1);
        controller.drain();
        controller.acknowledge(&second);
        for _ in 0..10 {
            flood(&mut a, &mut b, 5);
            flood(&mut b, &mut a, 6);
        }
        flood(&mut a, &mut b, 7);
        assert_eq!(stations(&controller.list()), [(7, 1)]);
        drop(controller);
        let totals = totals(&switch.stop("-TERM"));
        assert_eq!(totals["packets"]["received"], 26);
        assert_eq!(totals["packets"]["digests_lost"], 0);
    });
}
