//! An architecture other than v1model, with its own names, widths, time unit and rules. Its program
//! runs in the interpreter, on the same traffic manager.

use dataplane::{
    DropReason, MulticastGroup, PortId, Program, Replica, Switch, SwitchConfig,
    engine::ir::{Architecture, Block, Intrinsic, Meaning, Moment, V1MODEL, Verdict, When},
};
use testkit::builder::*;
use testkit::text::assert_has;

/// Two controls as in v1model, but ports have 16 bits, the drop port is 7, times are in
/// nanoseconds, and a packet marked to drop is not multicast.
static OTHER: Architecture = Architecture {
    name: "other",
    blocks: &[
        Block::Parser,
        Block::Ingress,
        Block::TrafficManager,
        Block::Egress,
        Block::Deparser,
    ],
    metadata: &[
        Intrinsic::read(Meaning::IngressPort, &["standard_metadata.from"])
            .required(16)
            .at(&[Moment::Arrival]),
        Intrinsic::read(Meaning::IngressTimestamp, &["standard_metadata.came"])
            .at(&[Moment::Arrival]),
        Intrinsic::read(Meaning::InstanceType, &["standard_metadata.instance_type"])
            .required(3)
            .at(&[Moment::Parser, Moment::Egress]),
        Intrinsic::read(Meaning::PacketLength, &["standard_metadata.packet_length"])
            .required(16)
            .at(&[Moment::Parser, Moment::Egress]),
        Intrinsic::read(Meaning::EgressPort, &["standard_metadata.to"])
            .required(16)
            .at(&[Moment::Egress]),
        Intrinsic::read(Meaning::Instance, &["standard_metadata.instance"]).at(&[Moment::Egress]),
        Intrinsic::read(Meaning::EgressSpec, &["standard_metadata.out"])
            .required(16)
            .at(&[Moment::Egress]),
        Intrinsic::read(Meaning::MulticastGroup, &["standard_metadata.group"]),
    ],
    ingress_verdicts: &[
        (When::Is(Meaning::EgressSpec, 7), Verdict::Drop),
        (When::IsNot0(Meaning::MulticastGroup), Verdict::Multicast),
        (When::Otherwise, Verdict::Send),
    ],
    egress_verdicts: &[(When::Otherwise, Verdict::Send)],
    drop_port: 7,
    timestamp_ns: 1,
};

/// A program for [`OTHER`] as JSON: the frame gives port and group; it leaves with its arrival time
/// and the copy's instance.
fn json(port_bits: u32) -> String {
    let mut b = Builder::default();
    let ingress = [
        assign("standard_metadata.out", field("pkt.kind")),
        assign("standard_metadata.group", field("pkt.left")),
        assign("pkt.value", field("standard_metadata.came")),
    ];
    b.run(INGRESS, "in", &ingress);
    let egress = [
        assign("pkt.left", field("standard_metadata.instance")),
        assign("pkt.kind", field("standard_metadata.to")),
    ];
    b.run(EGRESS, "out", &egress);
    let fields = serde_json::json!([
        ["from", port_bits, false],
        ["came", 48, false],
        ["instance_type", 32, false],
        ["packet_length", 32, false],
        ["to", port_bits, false],
        ["instance", 16, false],
        ["out", port_bits, false],
        ["group", 16, false],
    ]);
    b.json["header_types"][2]["fields"] = fields;
    b.json.to_string()
}

fn load(text: &str, architecture: &'static Architecture) -> Result<Program, String> {
    let json = serde_json::from_str(text).unwrap();
    Program::for_architecture(&json, architecture).map_err(|error| error.to_string())
}

#[test]
fn a_program_runs_by_the_names_widths_units_and_rules_of_its_architecture() {
    let mut switch = Switch::new(SwitchConfig::default());
    (0..8).for_each(|port| switch.add_port(PortId(port)));
    switch.set_program(load(&json(16), &OTHER).unwrap());
    let replicas = [1, 2].map(|port| Replica {
        port: PortId(port),
        instance: port + 10,
    });
    let group = MulticastGroup {
        id: 5,
        replicas: replicas.to_vec(),
        backups: Vec::new(),
    };
    switch.insert_multicast_group(group).unwrap();
    let sent = exchange(&mut switch, 0x1234, 0, &[3, 0, 0, 0]);
    assert_eq!(brief(&sent), [(3, vec![3, 0, 0x12, 0x34])]);
    let sent = exchange(&mut switch, 0x1235, 0, &[3, 5, 0, 0]);
    let copies = [(1, vec![1, 11, 0x12, 0x35]), (2, vec![2, 12, 0x12, 0x35])];
    assert_eq!(brief(&sent), copies);
    assert_eq!(exchange(&mut switch, 0x1236, 0, &[7, 5, 0, 0]), []);
    assert_eq!(switch.counters().dropped(DropReason::IngressDrop), 1);
    assert_accounted(&switch);
}

#[test]
fn a_field_that_is_missing_or_too_narrow_is_named_as_the_architecture_names_it() {
    let missing = load(&json(16), &V1MODEL).unwrap_err();
    assert_has(&missing, "standard_metadata.ingress_port");
    assert_has(&missing, "needs this field");
    let narrow = load(&json(15), &OTHER).unwrap_err();
    assert_has(&narrow, "standard_metadata.from");
    assert_has(&narrow, "expected 16 bits at least, found 15");
}

#[test]
fn the_blocks_of_v1model_are_in_the_order_in_which_a_packet_meets_them() {
    let traffic_manager = V1MODEL
        .blocks
        .iter()
        .position(|it| *it == Block::TrafficManager);
    let place = |block| V1MODEL.blocks.iter().position(|it| *it == block);
    assert!(place(Block::Ingress) < traffic_manager && traffic_manager < place(Block::Egress));
    for moment in Moment::ALL {
        let mut metadata = V1MODEL.metadata.iter();
        assert!(
            metadata.any(|it| it.written.contains(&moment)),
            "{moment:?}"
        );
    }
}
