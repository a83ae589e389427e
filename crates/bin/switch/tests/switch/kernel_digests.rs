//! A learning switch in the kernel, and its controller, which learns stations from digests.

use p4runtime_client::field_match::Match;
use p4runtime_client::{Client, P4InfoIndex, entities, id_of};
use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::stream_message_response::Update as Message;
use p4runtime_proto::p4::v1::{DigestEntry, DigestList, Entity, TableEntry};
use packet_io::AfPacketPort;
use testkit::frames::{receive, send};
use testkit::namespace::in_root_namespace;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::kernel::cables;
use crate::p4runtime::primary;
use crate::support::{Running, TIMEOUT, outside, totals};

/// An hour, longer than any test.
const LONG_NS: i64 = 3_600_000_000_000;

/// A group with every port of p4/bench/l2.p4.
const FLOOD_GROUP: u16 = 1;

fn l2() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../p4/bench/l2.p4").to_owned()
}

/// Starts a switch whose ports 1 and 2 are veths. The other ends of the veth pairs are a0 and b0.
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
    client: Client,
    index: P4InfoIndex,
}

impl Learner {
    fn of(switch: &Running) -> Learner {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (client, info) = runtime.block_on(async {
            let mut client = primary(switch).await;
            let info = client.p4info().await.expect("a P4Info");
            (client, info)
        });
        Learner {
            runtime,
            client,
            index: P4InfoIndex::new(info),
        }
    }

    fn insert(&mut self, entity: Entity) {
        let updates = vec![entities::insert(entity)];
        let written = self.runtime.block_on(self.client.write(updates));
        written.expect("the write is taken");
    }

    fn digest_id(&self) -> u32 {
        id_of(self.index.p4info.digests[0].preamble.as_ref())
    }

    /// Asks for one station in each list, and for no repetition before the list is acknowledged.
    fn ask_for_stations(&mut self) {
        let config = Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: LONG_NS,
        };
        self.insert(entities::entity(Kind::DigestEntry(DigestEntry {
            digest_id: self.digest_id(),
            config: Some(config),
        })));
        self.insert(entities::multicast_group(FLOOD_GROUP, [(1, 1), (2, 1)]));
    }

    /// Writes the table entry that names the station's port.
    fn learn(&mut self, station: u8, port: u8) {
        let table = self.index.table("sources").expect("the table");
        let action = self.index.action("known").expect("the action");
        let call = entities::action(id_of(action.preamble.as_ref()), []);
        let station = Match::Exact(vec![2, 0, 0, 0, 0, station]);
        let entry = TableEntry {
            table_id: id_of(table.preamble.as_ref()),
            r#match: vec![station.field(1), Match::Exact(vec![port]).field(2)],
            action: Some(entities::table_action(call)),
            ..Default::default()
        };
        self.insert(entities::of_table(entry));
    }

    fn next(&mut self) -> Message {
        let client = &mut self.client;
        let next = async { timeout(TIMEOUT, client.next_message()).await };
        let message = self.runtime.block_on(next).expect("a message in time");
        message.expect("no error")
    }

    fn list(&mut self) -> DigestList {
        match self.next() {
            Message::Digest(list) => list,
            other => panic!("expected a list of digests, got {other:?}"),
        }
    }

    fn acknowledge(&mut self, list: &DigestList) {
        // The second acknowledgement has an unknown digest id. The error about it on the stream shows that the switch
        // has read the first one.
        for digest_id in [list.digest_id, 12] {
            let sent = self.client.acknowledge(digest_id, list.list_id);
            self.runtime.block_on(sent).expect("a stream");
        }
        match self.next() {
            Message::Error(_) => {}
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// Waits until packets see what was written.
    fn drain(&mut self) {
        let drained = self.runtime.block_on(self.client.drain());
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
fn a_learning_switch_in_the_kernel_reports_each_station_until_it_is_learnt() {
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
        // The switch reports a station that has moved to another port as a new station.
        flood(&mut b, &mut a, 5);
        let moved = controller.list();
        assert_eq!(stations(&moved), [(5, 2)]);
        // After its digest is acknowledged, a station is reported again, until the table has it.
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
