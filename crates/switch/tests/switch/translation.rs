//! `@p4runtime_translation`: a controller writes and reads its own values, whatever the data plane uses. The program
//! sends every packet-out back as a packet-in, with the result of its table. Also headers that are not whole bytes.

use crate::support::controller::{Controller, update};
use crate::support::{Running, program};
use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Optional};
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action as SetAction;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::stream_message_response::Update as ResponseUpdate;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    Action, Error, FieldMatch, ForwardingPipelineConfig, PacketIn, PacketMetadata, PacketOut,
    TableAction, TableEntry, action,
};
use prost::Message;
use testkit::repository::root;
use tonic::{Code, Status};

struct Translated {
    controller: Controller,
    config: ForwardingPipelineConfig,
    _switch: Running,
}

impl Translated {
    async fn start() -> Translated {
        Translated::of(&program("translated.p4")).await
    }

    /// Starts a switch that runs the program, and becomes its primary controller.
    async fn of(path: &str) -> Translated {
        let switch = Running::start(&["--grpc", "127.0.0.1:0", path]);
        let mut controller = Controller::of(&switch).await;
        Translated {
            config: controller.config().await,
            controller,
            _switch: switch,
        }
    }

    fn p4info(&self) -> &P4Info {
        self.config.p4info.as_ref().expect("a P4Info")
    }

    /// An entry with the port, the wide port (or a wildcard) and the routing instance.
    fn entry(&self, port: &str, wide_port: Option<&[u8]>, vrf: &str) -> TableEntry {
        let table = &self.p4info().tables[0];
        let exact = FieldMatch {
            field_id: 1,
            field_match_type: Some(FieldMatchType::Exact(Exact { value: port.into() })),
        };
        let optional = wide_port.map(|value| FieldMatch {
            field_id: 2,
            field_match_type: Some(FieldMatchType::Optional(Optional {
                value: value.into(),
            })),
        });
        let call = Action {
            action_id: table.action_refs[0].id,
            params: vec![action::Param {
                param_id: 1,
                value: vrf.into(),
            }],
        };
        TableEntry {
            table_id: table.preamble.as_ref().expect("a preamble").id,
            r#match: std::iter::once(exact).chain(optional).collect(),
            priority: 1,
            action: Some(TableAction {
                r#type: Some(ActionType::Action(call)),
            }),
            ..Default::default()
        }
    }

    async fn write(&mut self, kind: Type, entries: Vec<TableEntry>) -> Result<(), Status> {
        let updates = entries.into_iter();
        let updates = updates.map(|entry| update(kind, Kind::TableEntry(entry)));
        self.controller.write(updates.collect()).await
    }

    /// The error code and message of a single update.
    async fn refused(&mut self, kind: Type, entry: TableEntry) -> (Code, String) {
        let status = self.write(kind, vec![entry]).await.expect_err("refused");
        let details = rpc::Status::decode(status.details()).expect("details");
        let error: Error = details.details[0].to_msg().expect("an error");
        (Code::from(error.canonical_code), error.message)
    }

    async fn read(&mut self, filter: TableEntry) -> Vec<TableEntry> {
        let found = self.controller.read([Kind::TableEntry(filter)]).await;
        let entries = found.into_iter().map(|kind| match kind {
            Kind::TableEntry(entry) => entry,
            other => panic!("expected a table entry, found {other:?}"),
        });
        entries.collect()
    }

    fn send_packet(&self, port: &str, wide_port: &[u8]) {
        self.send_with(metadata(&[port.as_bytes(), wide_port, &[0]]));
    }

    fn send_with(&self, metadata: Vec<PacketMetadata>) {
        self.controller.send(RequestUpdate::Packet(PacketOut {
            payload: vec![0x5a; 60],
            metadata,
        }));
    }

    /// Sends a packet-out; returns port, routing instance and wide port of the packet-in.
    async fn back(&mut self, port: &str, wide_port: &[u8]) -> Vec<PacketMetadata> {
        self.send_packet(port, wide_port);
        self.packet_in().await
    }

    async fn packet_in(&mut self) -> Vec<PacketMetadata> {
        match self.controller.next().await {
            ResponseUpdate::Packet(PacketIn { payload, metadata }) => {
                assert_eq!(payload, [0x5a; 60]);
                metadata
            }
            other => panic!("expected a packet-in, found {other:?}"),
        }
    }
}

fn metadata(values: &[&[u8]]) -> Vec<PacketMetadata> {
    let numbered = (1..).zip(values);
    let metadata = numbered.map(|(metadata_id, value)| PacketMetadata {
        metadata_id,
        value: value.to_vec(),
    });
    metadata.collect()
}

fn came_back(port: &str, vrf: &str, wide_port: &[u8]) -> Vec<PacketMetadata> {
    metadata(&[port.as_bytes(), vrf.as_bytes(), wide_port, &[0]])
}

// spec: translation
#[tokio::test]
async fn names_and_wide_numbers_work_in_entries_and_packets() {
    let mut controller = Translated::start().await;
    let blue = controller.entry("3", Some(&[1, 0x2c]), "blue");
    let red = controller.entry("uplink", None, "red");
    let both = vec![blue.clone(), red.clone()];
    controller.write(Type::Insert, both).await.expect("written");

    let mut found = controller.read(TableEntry::default()).await;
    found.sort_by_key(|entry| entry.r#match.len());
    assert_eq!(found, [red.clone(), blue.clone()]);
    let filter = |entry: &TableEntry| TableEntry {
        action: None,
        ..entry.clone()
    };
    assert_eq!(
        controller.read(filter(&red)).await,
        std::slice::from_ref(&red)
    );
    let unknown = controller.entry("nobody's", None, "red");
    assert_eq!(controller.read(filter(&unknown)).await, []);

    let hit = controller.back("3", &[1, 0x2c]).await;
    assert_eq!(hit, came_back("3", "blue", &[1, 0x2c]));
    let other_wide = controller.back("3", &[5]).await;
    assert_eq!(other_wide, came_back("3", "default", &[5]));
    let named = controller.back("uplink", &[5]).await;
    assert_eq!(named, came_back("uplink", "red", &[5]));

    let modified = controller.entry("uplink", None, "default");
    let modify = controller.write(Type::Modify, vec![modified]);
    modify.await.expect("written");
    let named = controller.back("uplink", &[5]).await;
    assert_eq!(named, came_back("uplink", "default", &[5]));
    let delete = controller.write(Type::Delete, vec![red]);
    delete.await.expect("deleted");
    assert_eq!(controller.read(TableEntry::default()).await, [blue]);
}

#[tokio::test]
async fn a_value_without_a_place_in_the_data_plane_is_refused() {
    let mut controller = Translated::start().await;
    let too_wide = controller.entry("3", Some(&[2, 0]), "blue");
    let (code, message) = controller.refused(Type::Insert, too_wide).await;
    assert_eq!(code, Code::OutOfRange, "{message}");
    assert!(message.contains("translated to 9 bits"), "{message}");
    let no_port = controller.entry("512", None, "blue");
    let (code, message) = controller.refused(Type::Insert, no_port).await;
    assert_eq!(code, Code::OutOfRange, "{message}");
    let absent = controller.entry("nobody's", None, "blue");
    for kind in [Type::Modify, Type::Delete] {
        let (code, message) = controller.refused(kind, absent.clone()).await;
        assert_eq!(code, Code::NotFound, "{message}");
    }
    for (port, wide_port) in [("nobody's", &[5][..]), ("512", &[5]), ("3", &[2, 0])] {
        controller.send_packet(port, wide_port);
        match controller.controller.next().await {
            ResponseUpdate::Error(error) => {
                assert_eq!(
                    error.canonical_code,
                    Code::InvalidArgument as i32,
                    "{error:?}"
                );
            }
            other => panic!("expected an error, found {other:?}"),
        }
    }
}

#[tokio::test]
async fn names_come_and_go_for_ever_and_fill_up_in_the_end() {
    let mut controller = Translated::start().await;
    // More names in all than 10 bits can number, but only 64 at a time.
    for round in 0..40 {
        let names = (0..64).map(|position| format!("vrf {round}.{position}"));
        let names = names.zip(0_u8..);
        let entries: Vec<_> = names
            .map(|(name, port)| controller.entry(&port.to_string(), None, &name))
            .collect();
        let insert = controller.write(Type::Insert, entries.clone());
        insert.await.expect("written");
        let delete = controller.write(Type::Delete, entries);
        delete.await.expect("deleted");
    }
    let entry = |controller: &Translated, number: u16| {
        let wide_port = number.to_be_bytes();
        let wide_port = match wide_port {
            [0, low] => vec![low],
            wide => wide.to_vec(),
        };
        let (port, wide_port) = match number {
            0..400 => ("1", wide_port),
            400..800 => ("2", (number - 400).to_be_bytes().to_vec()),
            _ => ("4", (number - 800).to_be_bytes().to_vec()),
        };
        controller.entry(port, Some(&wide_port), &format!("full {number}"))
    };
    // "default" takes one of the 1,024 numbers.
    let all: Vec<_> = (0..1023).map(|number| entry(&controller, number)).collect();
    controller.write(Type::Insert, all).await.expect("written");
    let one_more = controller.entry("5", None, "one more");
    let (code, message) = controller.refused(Type::Insert, one_more.clone()).await;
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    let last = entry(&controller, 1022);
    let delete = controller.write(Type::Delete, vec![last]);
    delete.await.expect("deleted");
    let insert = controller.write(Type::Insert, vec![one_more.clone()]);
    insert.await.expect("written");
    let found = controller.read(TableEntry::default()).await;
    assert_eq!(found.len(), 1023);
    assert!(found.contains(&one_more));
}

#[tokio::test]
async fn names_written_to_a_saved_program_are_its_names_when_it_is_committed() {
    let mut controller = Translated::start().await;
    let config = controller.config.clone();
    controller
        .controller
        .set_pipeline(SetAction::VerifyAndSave, Some(config))
        .await;
    let entry = controller.entry("uplink", None, "red");
    let insert = controller.write(Type::Insert, vec![entry.clone()]);
    insert.await.expect("written");
    controller
        .controller
        .set_pipeline(SetAction::Commit, None)
        .await;
    assert_eq!(controller.read(TableEntry::default()).await, [entry]);
    let named = controller.back("uplink", &[5]).await;
    assert_eq!(named, came_back("uplink", "red", &[5]));
}

/// As in the programs of PINS: p4c accepts a controller header of 39 bits that is in no packet, and the server in
/// simple_switch_grpc pads it with zeros at its end.
#[tokio::test]
async fn controller_headers_need_not_be_whole_bytes() {
    let path = root().join("testdata/compiler/ok/controller_headers_unused.p4");
    let mut controller = Translated::of(&path.display().to_string()).await;
    controller.send_with(metadata(&[&[0x01, 0x23], &[1], &[0b11_1111]]));
    let port_and_reason = controller.packet_in().await;
    assert_eq!(port_and_reason, metadata(&[&[0x01, 0x23], &[0b111]]));
}
