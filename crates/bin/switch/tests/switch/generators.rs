//! Packet generators of the whole switch: in virtual time, on interfaces, started and stopped by a controller, when the
//! pipeline is replaced, and when the switch stops.

use std::path::Path;

use crate::p4runtime::{primary, set_forward};
use crate::support::{
    FORWARD, Running, TIMEOUT, TemporaryFolder, error, http_get, outside, succeed, totals, words_of,
};
use p4runtime_client::{Client, entities};
use p4runtime_proto::p4::v1::ExternEntry;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::update::Type;
use packet_io::{AfPacketConfig, AfPacketPort, PcapPort, Port, Waiter};
use prost::Message as _;
use serde_json::Value;
use testkit::namespace::{in_namespace, veth_pair};

/// The first generator's id in P4Runtime.
const GENERATOR_1: u32 = 0x8100_0001;

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, number];
    frame.resize(60, number);
    frame
}

fn write_capture(path: &Path, numbers: &[u8]) -> String {
    let mut port = PcapPort::open(None, Some(path)).expect("a capture to write");
    for number in numbers {
        port.transmit(0, frame(*number).as_slice().into())
            .expect("writing");
    }
    port.close().expect("closing");
    path.display().to_string()
}

/// Reads a capture; returns for each frame the time since the first frame, and the byte that distinguishes the frames.
fn read_capture(path: &Path) -> Vec<(u64, u8)> {
    let mut port = PcapPort::open(Some(path), None).expect("a capture to read");
    let mut frames = Vec::new();
    while let Some(at) = port.next_frame_at() {
        port.receive(at, 1, &mut |frame| frames.push((at, frame[14])))
            .expect("reading");
    }
    frames
}

/// Checks that every packet is counted somewhere.
fn assert_accounted(totals: &Value) {
    let count = |name: &str| totals["packets"][name].as_u64().expect(name);
    let appeared = count("received") + count("cloned") + count("replicated");
    let ended = count("transmitted") + count("to_cpu") + count("dropped") + count("inside");
    assert_eq!(appeared, ended, "{totals}");
}

#[test]
fn in_virtual_time_every_frame_leaves_when_it_is_due() {
    let folder = TemporaryFolder::new("generated");
    let load = write_capture(&folder.path("load.pcap"), &[1, 2, 3]);
    let other = write_capture(&folder.path("other.pcap"), &[9]);
    let out = folder.path("out.pcap");
    let port = format!("2@pcap:,{}", out.display());
    let first = format!("{load},port=1,period=100us,count=5");
    let second = format!("{other},port=1,rate=3000,count=2,name=slow");
    let own = format!("-i {port} --generate {first} --generate {second} --json");
    let own = words_of(&own);
    let (printed, _) = succeed(&[&own[..], &FORWARD].concat());
    let expected = [
        (0, 1),
        (0, 9),
        (100_000, 2),
        (200_000, 3),
        (300_000, 1),
        (333_333, 9),
        (400_000, 2),
    ];
    assert_eq!(read_capture(&out), expected);
    let totals = totals(&printed);
    assert_accounted(&totals);
    assert_eq!(totals["packets"]["received"], 7);
    assert_eq!(totals["packets"]["generated"], 7);
    assert_eq!(totals["ports"][0]["rx_frames"], 0);
    let slow = &totals["generators"][1];
    assert_eq!(slow["generator"], 2);
    assert_eq!(slow["name"], "slow");
    assert_eq!(slow["state"], "finished");
    assert_eq!(slow["sent"], 2);
    assert_eq!((&slow["late"], &slow["dropped"]), (&0.into(), &0.into()));
}

#[test]
fn the_time_inside_is_stamped_into_generated_frames() {
    let folder = TemporaryFolder::new("stamped");
    let load = write_capture(&folder.path("load.pcap"), &[1]);
    let out = folder.path("out.pcap");
    let port = format!("2@pcap:,{}", out.display());
    let generate = format!("{load},port=1,rate=1000000,count=3");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let stamp = root.join("p4/latency_stamp.p4").display().to_string();
    let entries = folder.file("entries.txtpb", stamp_entries());
    // A packet leaves each millisecond, and one comes each microsecond.
    let arguments =
        format!("-i {port} --generate {generate} --egress-rate 1000 --entries {entries} {stamp}");
    succeed(&words_of(&arguments));
    let mut capture = PcapPort::open(Some(&out), None).expect("a capture to read");
    let mut stamps = Vec::new();
    let mut take = |frame: &[u8]| {
        assert_eq!(frame[6..], self::frame(1)[6..]);
        stamps.push(
            frame[..6]
                .iter()
                .fold(0, |ns, byte| ns << 8 | u64::from(*byte)),
        );
    };
    capture.receive(u64::MAX, 10, &mut take).expect("reading");
    assert_eq!(stamps, [0, 999_000, 1_998_000]);
}

/// Returns the text of a file of entries with which `p4/latency_stamp.p4` sends frames from port 1 to port 2.
fn stamp_entries() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = root.join("p4/latency_stamp.p4");
    let text = std::fs::read_to_string(&path).expect("the program");
    let source = |_: &str| None;
    let output = p4_compiler::compile("latency_stamp.p4", &text, &source, &Default::default());
    let p4info = output.p4info.expect("a program without errors");
    let id = |name: &str| {
        let tables = p4info.tables.iter().filter_map(|it| it.preamble.as_ref());
        let actions = p4info.actions.iter().filter_map(|it| it.preamble.as_ref());
        let mut all = tables.chain(actions);
        all.find(|it| it.name == name).expect(name).id
    };
    let (table, action) = (id("StampIngress.ways"), id("StampIngress.send"));
    format!(
        "updates {{ type: INSERT entity {{ table_entry {{ table_id: {table} \
         match {{ field_id: 1 exact {{ value: \"\\001\" }} }} \
         action {{ action {{ action_id: {action} params {{ param_id: 1 value: \"\\002\" }} }} }} }} }} }}\n"
    )
}

#[test]
fn what_cannot_be_generated_keeps_the_switch_from_starting() {
    let folder = TemporaryFolder::new("refused");
    let missing = folder.path("missing.pcap").display().to_string();
    let empty = write_capture(&folder.path("empty.pcap"), &[]);
    let text = folder.file("text.pcap", "no capture");
    for (file, reason) in [
        (&missing, "missing.pcap"),
        (&empty, "expected at least one frame, found none"),
        (&text, "text.pcap"),
    ] {
        let generate = format!("{file},port=1,rate=1,count=1");
        let own = ["-i", "2@pcap:,/dev/null", "--generate", &generate];
        let said = error(1, &[&own[..], &FORWARD].concat());
        assert!(said.contains(&format!("--generate {generate}: ")), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

fn receive(port: &mut AfPacketPort, n_frames: usize) -> Vec<u8> {
    let (mut numbers, mut waiter) = (Vec::new(), Waiter::default());
    while numbers.len() < n_frames {
        waiter.wait(port.poll_fd(), Some(TIMEOUT)).expect("waiting");
        assert!(waiter.is_ready(0), "{} of {n_frames} came", numbers.len());
        let n_left = n_frames - numbers.len();
        let mut take = |frame: &[u8]| {
            assert_eq!(frame, self::frame(frame[14]));
            numbers.push(frame[14]);
        };
        port.receive(0, n_left, &mut take).expect("frames");
    }
    numbers
}

#[test]
fn all_generated_frames_leave_by_an_interface_with_their_bytes_and_are_counted() {
    in_namespace(|| {
        // The switch serves the metrics on the loopback interface.
        testkit::namespace::ip("link set lo up");
        for wait in ["sleep", "spin"] {
            generated_frames_leave(wait);
        }
    });
}

fn generated_frames_leave(wait: &str) {
    let (inner, outer) = (format!("{wait}0"), format!("{wait}1"));
    veth_pair(&inner, &outer);
    let mut there = outside(&outer);
    let folder = TemporaryFolder::new("veth");
    let load = write_capture(&folder.path("load.pcap"), &[1, 2, 3]);
    let generate = format!("{load},port=1,rate=2000,count=1000");
    let port = format!("2@{inner}");
    let own = format!(
        "-i {port} --generate {generate} --wait {wait} --grpc off --metrics 127.0.0.1:0 --json"
    );
    let own = words_of(&own);
    let switch = Running::start(&[&own[..], &FORWARD].concat());
    let came = receive(&mut there, 1_000);
    let expected: Vec<u8> = (0..1_000).map(|number| 1 + (number % 3) as u8).collect();
    assert_eq!(came, expected);
    let (_, metrics) = http_get(&switch, "/metrics");
    let labels = "{generator=\"1\",name=\"load\",port=\"1\"}";
    for sample in ["sent_packets_total", "dropped_packets_total", "running"] {
        let value = if sample == "sent_packets_total" {
            1_000
        } else {
            0
        };
        let line = format!("reprise_generator_{sample}{labels} {value}");
        assert!(
            metrics.lines().any(|it| it == line),
            "no {line} in\n{metrics}"
        );
    }
    let totals = totals(&switch.stop("-TERM"));
    assert_accounted(&totals);
    assert_eq!(totals["packets"]["transmitted"], 1_000);
    assert_eq!(totals["generators"][0]["state"], "finished");
}

#[test]
fn a_switch_that_is_stopped_while_it_generates_accounts_for_every_frame() {
    let folder = TemporaryFolder::new("stopped");
    let load = write_capture(&folder.path("load.pcap"), &[1]);
    let generate = format!("{load},port=1,rate=100000");
    let own = format!(
        "-i 2@udp:127.0.0.1:0 --generate {generate} --grpc off --metrics 127.0.0.1:0 --json"
    );
    let own = words_of(&own);
    let switch = Running::start(&[&own[..], &FORWARD].concat());
    let has_sent = |metrics: &str| {
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with("reprise_generator_sent_packets_total{"));
        line.is_some_and(|line| !line.ends_with(" 0"))
    };
    let began = std::time::Instant::now();
    while !has_sent(&http_get(&switch, "/metrics").1) {
        assert!(began.elapsed() < TIMEOUT, "nothing is generated");
    }
    let totals = totals(&switch.stop("-TERM"));
    assert_accounted(&totals);
    let generator = &totals["generators"][0];
    assert_eq!(generator["state"], "running");
    let count = |name: &str| generator[name].as_u64().expect(name);
    assert_eq!(
        totals["packets"]["generated"],
        count("sent") + count("dropped")
    );
    assert_eq!(
        totals["packets"]["received"],
        totals["packets"]["generated"]
    );
}

struct Controller(Client);

impl Controller {
    async fn write(&mut self, kind: Type, entity: Kind) {
        let update = entities::update(kind, entities::entity(entity));
        self.0.write(vec![update]).await.expect("it is written");
    }

    /// Reads a numeric field of the only generator.
    async fn generator(&mut self, name: &str) -> f64 {
        let wanted = entities::entity(generator(&[]));
        let found = self.0.read(vec![wanted]).await.expect("an answer");
        let Some(Kind::ExternEntry(entry)) = &found[0].entity else {
            panic!("{found:?}");
        };
        let value = &*entry.entry.as_ref().expect("an entry").value;
        let members = prost_types::Struct::decode(value).expect("a struct").fields;
        match members[name].kind {
            Some(prost_types::value::Kind::NumberValue(number)) => number,
            ref other => panic!("{name}: {other:?}"),
        }
    }
}

fn generator(members: &[(&str, prost_types::value::Kind)]) -> Kind {
    let member = |(name, kind): &(&str, prost_types::value::Kind)| {
        let kind = Some(kind.clone());
        ((*name).to_owned(), prost_types::Value { kind })
    };
    let fields = members.iter().map(member).collect();
    Kind::ExternEntry(ExternEntry {
        extern_type_id: 0x81,
        extern_id: GENERATOR_1,
        entry: Some(prost_types::Any {
            type_url: "type.googleapis.com/google.protobuf.Struct".to_owned(),
            value: prost_types::Struct { fields }.encode_to_vec(),
        }),
    })
}

fn runs(runs: bool) -> Kind {
    generator(&[("running", prost_types::value::Kind::BoolValue(runs))])
}

#[test]
fn a_controller_starts_and_stops_a_generator_and_sets_another_pipeline_meanwhile() {
    in_namespace(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(start_and_stop());
    });
}

/// Reads the interface's frames only between the controller's calls. Until then they wait in the kernel's ring, which
/// has room for all of them.
async fn start_and_stop() {
    // The switch serves P4Runtime on the loopback interface.
    testkit::namespace::ip("link set lo up");
    veth_pair("v0", "v1");
    let config = AfPacketConfig {
        rx_ring_slots: 32_768,
        ..AfPacketConfig::default()
    };
    let mut there = AfPacketPort::open("v1", config).expect("the other end of the cable");
    let folder = TemporaryFolder::new("commanded");
    let load = write_capture(&folder.path("load.pcap"), &[1, 2, 3]);
    let generate = format!("{load},port=1,rate=1000,start=command");
    let own = format!("-i 2@v0 --generate {generate} --grpc 127.0.0.1:0 --json");
    let own = words_of(&own);
    let switch = Running::start(&[&own[..], &FORWARD].concat());
    let mut controller = Controller(primary(&switch).await);
    assert_eq!(controller.generator("sent").await, 0.0);
    controller.write(Type::Modify, runs(true)).await;
    assert_eq!(receive(&mut there, 6), [1, 2, 3, 1, 2, 3]);
    controller.write(Type::Modify, runs(false)).await;
    let n_sent = controller.generator("sent").await;
    // Takes the other frames of this run. The next run makes one frame, the first of the capture.
    let n_more = n_sent as usize - 6;
    receive(&mut there, n_more);
    let once = generator(&[
        ("count", prost_types::value::Kind::NumberValue(1.0)),
        ("running", prost_types::value::Kind::BoolValue(true)),
    ]);
    controller.write(Type::Modify, once).await;
    assert_eq!(receive(&mut there, 1), [1]);
    assert_eq!(controller.generator("sent").await, n_sent + 1.0);
    // The new pipeline has no entries, so it drops all generated frames.
    let for_ever = generator(&[
        ("count", prost_types::value::Kind::NullValue(0)),
        ("running", prost_types::value::Kind::BoolValue(true)),
    ]);
    controller.write(Type::Modify, for_ever).await;
    receive(&mut there, 1);
    set_forward(&mut controller.0).await;
    let at_change = controller.generator("sent").await;
    let began = std::time::Instant::now();
    while controller.generator("sent").await < at_change + 10.0 {
        assert!(began.elapsed() < TIMEOUT, "it has ended with the pipeline");
    }
    controller.write(Type::Delete, runs(true)).await;
    let totals = totals(&switch.stop("-TERM"));
    assert_accounted(&totals);
    assert_eq!(totals["generators"], serde_json::json!([]));
    let dropped = totals["drops"]["ingress_drop"].as_u64().expect("a count");
    assert!(dropped >= 10, "{totals}");
    assert_eq!(
        totals["packets"]["generated"],
        totals["packets"]["received"]
    );
}
