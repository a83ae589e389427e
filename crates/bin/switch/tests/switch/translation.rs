//! `@p4runtime_translation`: a controller writes and reads its own values, whatever the data plane uses. The program
//! sends every packet-out back as a packet-in, with the result of the program's table. Also tests headers whose length
//! is not a whole number of bytes.

use crate::p4runtime::primary;
use crate::support::{Running, program};
use p4runtime_client::field_match::Match;
use p4runtime_client::{Client, WriteError, entities};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action as SetAction;
use p4runtime_proto::p4::v1::stream_message_response::Update as Message;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    ForwardingPipelineConfig, PacketIn, PacketMetadata, PacketOut, TableEntry,
};
use testkit::repository::root;
use tonic::Code;

struct Controller {
    client: Client,
    config: ForwardingPipelineConfig,
    _switch: Running,
}

impl Controller {
    async fn start() -> Controller {
        Controller::of(&program("translated.p4")).await
    }

    /// Starts a switch that runs the program, and becomes its primary controller.
    async fn of(path: &str) -> Controller {
        let switch = Running::start(&["--grpc", "127.0.0.1:0", path]);
        let mut client = primary(&switch).await;
        let config = client.pipeline(ResponseType::All).await;
        Controller {
            client,
            config: config.expect("the program"),
            _switch: switch,
        }
    }

    fn p4info(&self) -> &P4Info {
        self.config.p4info.as_ref().expect("a P4Info")
    }

    async fn next(&mut self) -> Message {
        self.client.next_message().await.expect("no error")
    }

    /// An entry with the port, the wide port (or a wildcard) and the routing instance.
    fn entry(&self, port: &str, wide_port: Option<&[u8]>, vrf: &str) -> TableEntry {
        let table = &self.p4info().tables[0];
        let exact = Match::Exact(port.into()).field(1);
        let optional = wide_port.map(|value| Match::Optional(value.into()).field(2));
        let call = entities::action(table.action_refs[0].id, [(1, vrf.into())]);
        TableEntry {
            table_id: table.preamble.as_ref().expect("a preamble").id,
            r#match: std::iter::once(exact).chain(optional).collect(),
            priority: 1,
            action: Some(entities::table_action(call)),
            ..Default::default()
        }
    }

    async fn write(&mut self, kind: Type, entries: Vec<TableEntry>) -> Result<(), WriteError> {
        let entities = entries.into_iter().map(entities::of_table);
        let updates = entities.map(|it| entities::update(kind, it)).collect();
        let atomicity = Atomicity::ContinueOnError;
        self.client.write_batch(updates, atomicity).await
    }

    /// Writes a single update, which must be refused; returns the error's code and message.
    async fn refused(&mut self, kind: Type, entry: TableEntry) -> (Code, String) {
        match self.write(kind, vec![entry]).await {
            Err(WriteError::Updates(mut errors)) => {
                let error = errors.remove(0);
                (Code::from(error.canonical_code), error.message)
            }
            other => panic!("expected a refusal, found {other:?}"),
        }
    }

    async fn read(&mut self, filter: TableEntry) -> Vec<TableEntry> {
        let found = self.client.read(vec![entities::of_table(filter)]).await;
        let entries = found.expect("an answer").into_iter().map(|entity| {
            let Some(Kind::TableEntry(entry)) = entity.entity else {
                panic!("expected a table entry, found {entity:?}")
            };
            entry
        });
        entries.collect()
    }

    async fn set_pipeline(&mut self, action: SetAction, config: Option<ForwardingPipelineConfig>) {
        let set = self.client.configure(action, config).await;
        set.expect("the pipeline is set");
    }

    async fn send_packet(&mut self, port: &str, wide_port: &[u8]) {
        let metadata = metadata(&[port.as_bytes(), wide_port, &[0]]);
        self.send_with(metadata).await;
    }

    async fn send_with(&mut self, metadata: Vec<PacketMetadata>) {
        let packet = PacketOut {
            payload: vec![0x5a; 60],
            metadata,
        };
        let sent = self.client.packet_out(packet).await;
        sent.expect("the stream is open");
    }

    /// Sends a packet-out; returns port, routing instance and wide port of the packet-in.
    async fn back(&mut self, port: &str, wide_port: &[u8]) -> Vec<PacketMetadata> {
        self.send_packet(port, wide_port).await;
        self.packet_in().await
    }

    async fn packet_in(&mut self) -> Vec<PacketMetadata> {
        match self.next().await {
            Message::Packet(PacketIn { payload, metadata }) => {
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
    let mut controller = Controller::start().await;
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
    let mut controller = Controller::start().await;
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
        controller.send_packet(port, wide_port).await;
        match controller.next().await {
            Message::Error(error) => {
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
    let mut controller = Controller::start().await;
    // In all, the rounds use more strings than 10 bits can number, but only 64 of them at a time.
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
    let entry = |controller: &Controller, number: u16| {
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
    // The string "default" takes one of the 1,024 numbers.
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
    let mut controller = Controller::start().await;
    let config = controller.config.clone();
    controller
        .set_pipeline(SetAction::VerifyAndSave, Some(config))
        .await;
    let entry = controller.entry("uplink", None, "red");
    let insert = controller.write(Type::Insert, vec![entry.clone()]);
    insert.await.expect("written");
    controller.set_pipeline(SetAction::Commit, None).await;
    assert_eq!(controller.read(TableEntry::default()).await, [entry]);
    let named = controller.back("uplink", &[5]).await;
    assert_eq!(named, came_back("uplink", "red", &[5]));
}

/// As in the programs of PINS: p4c accepts a controller header of 39 bits that is in no packet, and the server in
/// simple_switch_grpc pads it with zeros at its end.
#[tokio::test]
async fn controller_headers_need_not_be_whole_bytes() {
    let path = root().join("testdata/compiler/ok/controller_headers_unused.p4");
    let mut controller = Controller::of(&path.display().to_string()).await;
    let metadata_out = metadata(&[&[0x01, 0x23], &[1], &[0b11_1111]]);
    controller.send_with(metadata_out).await;
    let port_and_reason = controller.packet_in().await;
    assert_eq!(port_and_reason, metadata(&[&[0x01, 0x23], &[0b111]]));
}
