//! `@secret` values of a program can be written but never read back; files that contain them are readable only by their
//! owner.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use p4runtime_client::{Client, entities};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::{ActionProfileMember, RegisterEntry, TableEntry, field_match};
use prost::Message;

use crate::p4runtime::address;
use crate::support::{Running, TemporaryFolder, program, succeed};
use packet_io::{PcapPort, Port};

/// The first bytes of every secret in `secrets.entries.txtpb`, and the token.
const SECRET: [u8; 3] = [0x5e, 0xc1, 0xe7];
const TOKEN: [u8; 2] = [0x70, 0xce];

fn mode(path: &Path) -> u32 {
    let file = fs::metadata(path).expect("it is there");
    file.permissions().mode() & 0o777
}

fn start(arguments: &[&str]) -> Running {
    let (entries, source) = (program("secrets.entries.txtpb"), program("secrets.p4"));
    let own = ["--entries", &entries, &source, "--grpc", "127.0.0.1:0"];
    Running::start(&[&own[..], arguments].concat())
}

async fn read(switch: &Running) -> Vec<Kind> {
    let default = |table_id| {
        Kind::TableEntry(TableEntry {
            table_id,
            is_default_action: true,
            ..TableEntry::default()
        })
    };
    let wanted = [
        Kind::TableEntry(TableEntry::default()),
        default(0x0200_0001),
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::RegisterEntry(RegisterEntry {
            register_id: 0x1600_0001,
            ..RegisterEntry::default()
        }),
    ];
    let client = Client::connect(&address(switch), 1).await;
    let wanted = wanted.map(entities::entity).to_vec();
    let found = client.expect("a server").read(wanted).await;
    let found = found.expect("an answer").into_iter();
    found.filter_map(|it| it.entity).collect()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn a_secret_is_read_as_zeros_and_everything_else_as_it_was_written() {
    let switch = start(&["-i", "1@udp:127.0.0.1:0"]);
    let found = read(&switch).await;
    for kind in &found {
        let bytes = entities::entity(kind.clone()).encode_to_vec();
        assert!(!has(&bytes, &SECRET) && !has(&bytes, &TOKEN), "{kind:?}");
    }
    let calls = found.iter().filter_map(|kind| match kind {
        Kind::TableEntry(entry) => match entry.action.as_ref()?.r#type.as_ref()? {
            ActionType::Action(call) => Some(call.clone()),
            _ => None,
        },
        Kind::ActionProfileMember(member) => member.action.clone(),
        _ => None,
    });
    let values = calls.map(|call| {
        let values = call.params.into_iter().map(|param| param.value);
        values.collect::<Vec<_>>()
    });
    let values: Vec<_> = values.collect();
    let expected = [
        vec![vec![2], vec![0]],
        vec![vec![0]],
        vec![vec![3], vec![0]],
    ];
    assert_eq!(values, expected);
    let Some(Kind::TableEntry(entry)) = found.first() else {
        panic!("expected an entry first: {found:?}")
    };
    assert_eq!(entry.metadata, b"one");
    let key = entry.r#match.iter().map(|field| &field.field_match_type);
    let key: Vec<_> = key.flatten().collect();
    let exact = |value: u8| {
        let value = vec![value];
        field_match::FieldMatchType::Exact(field_match::Exact { value })
    };
    assert_eq!(key, [&exact(1), &exact(0)]);
    let n_cells = found
        .iter()
        .filter(|kind| matches!(kind, Kind::RegisterEntry(_)));
    assert_eq!(n_cells.count(), 2);
    switch.stop("-TERM");
}

/// Traces a packet of bytes 0x11 through the program `name`, with the entries of this program. The switch has port 1
/// and the ports in `ports`. Returns the trace and the mode of its file.
fn trace_of(name: &str, ports: &[u16]) -> (String, u32) {
    let folder = TemporaryFolder::new("secret-trace");
    let (capture, trace) = (folder.path("1.pcap"), folder.path("trace"));
    let mut port = PcapPort::open(None, Some(&capture)).expect("a capture to write");
    port.start(1_000_000_000_000);
    let frame = [0x11; 60];
    port.transmit(0, frame[..].into()).expect("written");
    port.close().expect("closed");
    let path = |end: &str| program(&format!("{name}.{end}"));
    let (entries, source) = (path("entries.txtpb"), path("p4"));
    let port = format!("1@pcap:{}", capture.display());
    let trace_to = trace.display().to_string();
    let arguments = ["-i", &port, "--entries", &entries, "--trace-to", &trace_to];
    let sent = |port: &u16| {
        let to = folder.path(&format!("sent-{port}.pcap"));
        format!("{port}@pcap:,{}", to.display())
    };
    let others: Vec<String> = ports.iter().map(sent).collect();
    let others = others.iter().flat_map(|port| ["-i", port.as_str()]);
    let others: Vec<&str> = others.collect();
    succeed(&[&arguments[..], &others, &[&source]].concat());
    let traced = fs::read_to_string(&trace).expect("a trace");
    (traced, mode(&trace))
}

/// Checks that the trace contains the numbers neither in decimal nor in hexadecimal form.
fn expect_absent(numbers: impl IntoIterator<Item = u32>, traced: &str) {
    for number in numbers {
        for text in [number.to_string(), format!("{number:x}")] {
            assert!(!traced.contains(&text), "{text}: {traced}");
        }
    }
}

/// Covers a register's cell, arguments, values computed from them, and a message that contains a secret.
#[test]
fn traces_and_messages_of_the_program_hide_secrets_and_what_is_computed_of_them() {
    let (traced, mode) = trace_of("secrets", &[]);
    for (shown, n) in [
        ("register Seal.kept[1] holds <secret>", 1),
        ("(port = 1, token = <secret>): hit", 1),
        ("action seal(port = 2, key = <secret>)", 1),
        ("action seal(port = 3, key = <secret>)", 1),
        ("log: port 2 has key <secret>", 1),
        ("register Seal.sealed[0] := <secret>", 1),
    ] {
        assert_eq!(traced.matches(shown).count(), n, "{shown}: {traced}");
    }
    // 0x5ec1e701 to 0x5ec1e704 in decimal, and the values that the program computes from them.
    let numbers = 0x5ec1_e701_u32..=0x5ec1_e704;
    expect_absent(numbers.flat_map(|key| [key, key ^ 0x0101_0101]), &traced);
    assert_eq!(mode, 0o600);
}

/// Covers what a secret selects, and what is computed over a secret.
#[test]
fn traces_hide_indices_colors_checksums_groups_sessions_and_queues_that_come_of_a_secret() {
    let (traced, _) = trace_of("secret_ways", &[2, 3]);
    for (shown, n) in [
        ("checksum tag.sum <secret> is wrong", 1),
        ("action choose(key = <secret>)", 1),
        ("register Ways.cells[<secret>] := <secret>", 1),
        ("register Ways.looked_at[<secret>] holds <secret>", 1),
        ("counter Ways.counts[<secret>] counts", 1),
        ("meter Ways.rates[<secret>] says <secret>", 1),
        ("log: 17 of action: <secret>, 1", 1),
        ("multicast group <secret>: copy 1.r1 to port 2", 1),
        ("clone session <secret>: copy 1.c1 to port 3", 1),
        ("checksum tag.sum := <secret>", 2),
        ("log: deparser: <secret> of kind 17", 2),
        ("emit tag: kind 17, value <secret>, sum <secret>", 2),
    ] {
        assert_eq!(traced.matches(shown).count(), n, "{shown}: {traced}");
    }
    // The key, the session that is its lower 15 bits, their checksum, and the checksum over the received frame.
    expect_absent([0xbeef, 0x3eef, 0x4110, 0xeeee], &traced);
}

#[tokio::test]
async fn a_state_file_is_its_owners_and_so_becomes_an_old_one_which_is_said() {
    let folder = TemporaryFolder::new("secret-state");
    let state = folder.path("state");
    let arguments = ["-i", "1@udp:127.0.0.1:0", "--state"];
    let path = state.display().to_string();
    let arguments = [&arguments[..], &[&path]].concat();
    let running = start(&arguments);
    assert_eq!(mode(&state), 0o600);
    running.stop("-TERM");
    fs::set_permissions(&state, Permissions::from_mode(0o644)).expect("our own file");
    let source = program("secrets.p4");
    let own = ["--grpc", "127.0.0.1:0", &source];
    let running = Running::start_that_logs(&[&own[..], &arguments].concat());
    let said = running.before.join("\n");
    assert!(said.contains("state_file_closed"), "{said}");
    assert!(said.contains("had mode 644 and now has 600"), "{said}");
    assert_eq!(mode(&state), 0o600);
    // The switch itself has the secrets.
    let found = read(&running).await;
    assert!(
        found
            .iter()
            .any(|it| matches!(it, Kind::ActionProfileMember(_)))
    );
    let bytes = fs::read(&state).expect("root or the owner reads it");
    assert!(has(&bytes, &[0x5e, 0xc1, 0xe7, 0x01]));
    running.stop("-TERM");
}

#[tokio::test]
async fn the_keys_of_ordered_multicast_are_secrets() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for name in ["aom_hm", "aom_hm_rounds"] {
        let source = root.join(format!("p4/{name}.p4")).display().to_string();
        let own = ["-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0", &source];
        let running = Running::start(&own);
        let client = Client::connect(&address(&running), 1).await;
        let p4info = client.expect("a client").p4info().await.expect("a program");
        let mut actions = p4info.actions.iter();
        let keys = actions.find(|action| {
            let preamble = action.preamble.as_ref();
            preamble.is_some_and(|it| it.name.ends_with("set_keys"))
        });
        let keys = &keys.expect("it sets keys").params;
        assert_eq!(keys.len(), 8, "{name}");
        let is_secret = |annotation: &String| annotation == "@secret";
        for key in keys {
            assert!(key.annotations.iter().any(is_secret), "{name}: {key:?}");
        }
        running.stop("-TERM");
    }
}
