//! The tests find every kind of entity of the data plane by its name in the program, and write, read back, change and
//! delete it. They also make each kind of mistake.

use std::sync::Arc;

use control::{
    Atomicity, Batch, CellValue, ClientData, Cursor, Device, DigestSender, EntryChange, EntryKey,
    EntryUpdate, GeneratorUpdate, Operation, Pipeline, Subscriber, Update,
};
use dataplane::{
    ActionCall, ActionProfileId, CloneSession, ControlErrorKind, CounterId, CounterValue,
    CrcParameters, GeneratorChange, GeneratorConfig, MatchField, MeterConfig, MeterId,
    MulticastGroup, Pace, PortId, ProfileGroup, ProfileMember, SwitchConfig, TableAction,
    TableEntry, TableId, ValueSetId,
};
use serde_json::json;
use testkit::builder::{Builder, INGRESS, assign, field, hex, output_to, param, prim};
use testkit::memory_loop::MemoryLoop;

use crate::harness::{bare, in_time, replicas};

const RATES: MeterConfig = MeterConfig {
    committed_rate: 1_000,
    committed_burst: 1,
    peak_rate: 2_000,
    peak_burst: 2,
    excess_burst: 0,
};

const COUNTED: CounterValue = CounterValue {
    packets: 4,
    bytes: 5,
};

const CRC: CrcParameters = CrcParameters {
    polynomial: 0x1021,
    initial: 0,
    xor_out: 0,
    reflect_in: false,
    reflect_out: false,
};

/// A program with the tables `direct` (meter, counter, idle timeouts) and `chosen` (action profile `p`), the arrays
/// `count` and `rate`, a value set, a custom CRC, and a digest of every packet.
fn program() -> dataplane::Program {
    let mut b = Builder::default();
    let set = b.action("set", &[("left", 8)], &[assign("pkt.left", param(0))]);
    let key = [("exact", "pkt.kind")];
    let direct = b.table(INGRESS, "direct", &key, &[("set", set)], Some("chosen"));
    direct["direct_meters"] = json!("direct_meter");
    direct["support_timeout"] = json!(true);
    let chosen = b.table(INGRESS, "chosen", &key, &[("set", set)], Some("out"));
    chosen["type"] = json!("indirect_ws");
    chosen["action_profile"] = json!("p");
    let selector = json!({"algo": "crc16", "input": [field("pkt.value")]});
    let profile = json!({"name": "p", "id": 0, "max_size": 8, "selector": selector});
    b.node(INGRESS, "action_profiles", profile);
    let meter = json!({"name": "rate", "id": 0, "is_direct": false, "size": 4, "rate_count": 2,
        "type": "packets"});
    b.push("meter_arrays", meter);
    let meter = json!({"name": "direct_meter", "id": 1, "is_direct": true, "rate_count": 2,
        "type": "bytes", "result_target": ["m", "kept"]});
    b.push("meter_arrays", meter);
    let counter = json!({"name": "count", "id": 0, "is_direct": false, "size": 100});
    b.push("counter_arrays", counter);
    let set = json!({"name": "set", "id": 0, "compressed_bitwidth": 8, "max_size": 2});
    b.json["parse_vsets"] = json!([set]);
    let start = &mut b.json["parsers"][0]["parse_states"][0];
    start["transition_key"] = json!([field("pkt.kind")]);
    let member = json!({"type": "parse_vset", "value": "set", "mask": null, "next_state": null});
    let transitions = start["transitions"].as_array_mut().unwrap();
    transitions.insert(0, member);
    let calculation = json!({"name": "calc", "id": 0, "algo": "crc16_custom",
        "input": [field("pkt.kind")]});
    b.push("calculations", calculation);
    let list = json!({"id": 1, "name": "seen_t", "elements": [field("pkt.kind")]});
    b.push("learn_lists", list);
    let digest = prim("generate_digest", &[hex(0), hex(1)]);
    b.call(INGRESS, "out", None, &[digest, output_to(1)]);
    b.start(INGRESS, "direct");
    b.program()
}

struct Rig {
    switch: Arc<MemoryLoop>,
    device: Arc<Device>,
    pipeline: Arc<Pipeline>,
    direct: TableId,
    chosen: TableId,
    profile: ActionProfileId,
    rate: MeterId,
    count: CounterId,
    set: ValueSetId,
}

impl Rig {
    async fn start() -> Self {
        let (switch, device) = bare(SwitchConfig::default(), 1);
        let checked = device.check(program(), ()).unwrap();
        let pipeline = device.set_pipeline(checked).await.unwrap();
        let program = pipeline.program();
        Self {
            switch,
            device,
            direct: program.table("direct").unwrap(),
            chosen: program.table("chosen").unwrap(),
            profile: program.action_profile("p").unwrap(),
            rate: program.meter("rate").unwrap(),
            count: program.counter("count").unwrap(),
            set: program.value_set("set").unwrap(),
            pipeline,
        }
    }

    fn call(&self, left: u8) -> ActionCall {
        let program = self.pipeline.program();
        ActionCall {
            action: program.action_of(self.direct, "set").unwrap(),
            args: vec![vec![left]],
        }
    }

    fn entry(&self) -> TableEntry {
        let mut entry = TableEntry::new(kind(1), 0, self.call(5));
        entry.meter = Some(RATES);
        entry.idle_timeout_ns = 1_000_000;
        entry
    }

    fn member(&self, id: u32, left: u8) -> ProfileMember {
        let action = self.call(left);
        ProfileMember { id, action }
    }

    /// Returns operations that insert every kind of entity that belongs to a pipeline.
    fn inserts(&self) -> Vec<Operation> {
        let profile = self.profile;
        vec![
            Operation::Member(profile, Update::Insert(self.member(1, 7))),
            Operation::Member(profile, Update::Insert(self.member(2, 8))),
            Operation::ProfileGroup(profile, Update::Insert(group(&[(1, 1)]))),
            Operation::Entry(EntryUpdate::Insert {
                table: self.chosen,
                entry: TableEntry::new(kind(1), 0, TableAction::Group(9)),
                client_data: ClientData::default(),
            }),
            Operation::Entry(EntryUpdate::Insert {
                table: self.direct,
                entry: self.entry(),
                client_data: numbered(4),
            }),
            Operation::DefaultAction {
                table: self.direct,
                action: Some(self.call(0xff).into()),
                client_data: numbered(5),
            },
            Operation::Cells(CellValue::Counter(self.count, COUNTED), 0..100),
            Operation::Cells(CellValue::Meter(self.rate, Some(RATES)), 1..3),
            Operation::ValueSet(self.set, vec![kind(1), kind(2)]),
            Operation::Digest("seen_t".into(), Update::Insert(numbered(8))),
            Operation::MulticastGroup(Update::Insert(multicast(3)), numbered(6)),
            Operation::CloneSession(Update::Insert(session(1)), numbered(7)),
        ]
    }

    fn changes(&self) -> Vec<Operation> {
        let profile = self.profile;
        let no_rates = EntryChange {
            meter: Some(None),
            ..EntryChange::default()
        };
        vec![
            Operation::Entry(EntryUpdate::Modify(key(self.direct), no_rates)),
            Operation::Member(profile, Update::Modify(self.member(1, 9))),
            Operation::ProfileGroup(profile, Update::Modify(group(&[(2, 1)]))),
            Operation::Digest("seen_t".into(), Update::Modify(numbered(9))),
            Operation::MulticastGroup(Update::Modify(multicast(1)), ClientData::default()),
            Operation::CloneSession(Update::Modify(session(2)), ClientData::default()),
            Operation::ValueSet(self.set, Vec::new()),
            Operation::Cells(CellValue::Meter(self.rate, None), 0..4),
        ]
    }

    fn deletes(&self) -> Vec<Operation> {
        let profile = self.profile;
        vec![
            Operation::Entry(EntryUpdate::Delete(key(self.chosen))),
            Operation::Entry(EntryUpdate::Delete(key(self.direct))),
            Operation::DefaultAction {
                table: self.direct,
                action: None,
                client_data: numbered(1),
            },
            Operation::ProfileGroup(profile, Update::Delete(9)),
            Operation::Member(profile, Update::Delete(1)),
            Operation::Digest("seen_t".into(), Update::Delete(())),
            Operation::MulticastGroup(Update::Delete(2), ClientData::default()),
            Operation::CloneSession(Update::Delete(3), ClientData::default()),
        ]
    }

    /// Reads everything that was written, with the client data, as lines of text.
    async fn state(&self) -> Vec<String> {
        let (direct, chosen) = (self.direct, self.chosen);
        let (profile, set) = (self.profile, self.set);
        let reading = self.device.reading().await.unwrap();
        let mut state = Vec::new();
        for table in [direct, chosen] {
            let entries = reading.entries(table, &mut Cursor::ALL.clone()).await;
            state.push(format!("{:?}", entries.unwrap()));
        }
        let of_switch = reading.of_first(move |switch| {
            let actions = [direct, chosen].map(|table| switch.default_action(table));
            let profile = (switch.members(profile), switch.groups(profile));
            format!("{:?}", (actions, profile, switch.value_set(set)))
        });
        state.push(of_switch.await.unwrap());
        let meters = reading.meter_cells(self.rate, &mut (0..4)).await;
        let counters = reading.counter_cells(self.count, &mut (0..100)).await;
        state.push(format!("{:?}", (meters.unwrap(), counters.unwrap())));
        let groups = reading.multicast_groups(0).await.unwrap();
        let sessions = reading.clone_sessions(0).await.unwrap();
        state.push(format!("{:?}", (groups, sessions)));
        let client_data = self.pipeline.client_data();
        let of_table = (
            client_data.entry(&key(direct)),
            client_data.default_action(direct),
        );
        let others = (
            client_data.group(2),
            client_data.session(3),
            self.pipeline.digest("seen_t"),
        );
        state.push(format!("{:?}", (of_table, others)));
        state
    }

    async fn come_to(
        &self,
        atomicity: Atomicity,
        operations: Vec<Operation>,
    ) -> Vec<Option<ControlErrorKind>> {
        let batch = Batch {
            operations,
            atomicity,
        };
        let results = self.device.write(Arc::clone(&self.pipeline), batch);
        let results = in_time(results).await.unwrap();
        let kinds = results.into_iter();
        kinds
            .map(|result| result.err().map(|error| error.kind))
            .collect()
    }

    async fn kinds(&self, operations: Vec<Operation>) -> Vec<Option<ControlErrorKind>> {
        self.come_to(Atomicity::ContinueOnError, operations).await
    }

    async fn write(&self, operations: Vec<Operation>) {
        let n_operations = operations.len();
        assert_eq!(self.kinds(operations).await, vec![None; n_operations]);
    }
}

fn kind(kind: u8) -> Vec<MatchField> {
    vec![MatchField::Exact(vec![kind])]
}

fn key(table: TableId) -> EntryKey {
    EntryKey {
        table,
        key: kind(1),
        priority: 0,
    }
}

fn group(members: &[(u32, u32)]) -> ProfileGroup {
    ProfileGroup {
        id: 9,
        max_size: 0,
        members: members.to_vec(),
        counts_members: false,
        watched: Vec::new(),
    }
}

fn multicast(n: u16) -> MulticastGroup {
    MulticastGroup {
        id: 2,
        replicas: replicas(n),
        backups: Vec::new(),
    }
}

fn config() -> GeneratorConfig {
    GeneratorConfig {
        name: "load".into(),
        port: PortId(1),
        frames: Arc::from([vec![0; 60].into_boxed_slice()]),
        pace: Pace::per_second(1_000),
        count: None,
    }
}

/// Operations that cannot be undone, which an undivided batch refuses.
fn irreversible() -> [Operation; 2] {
    let generator = Operation::Generator(GeneratorUpdate::Insert {
        id: 1,
        config: config(),
        runs: false,
    });
    [Operation::Crc("calc".into(), CRC), generator]
}

fn session(n_replicas: u16) -> CloneSession {
    CloneSession {
        id: 3,
        replicas: replicas(n_replicas),
        truncate_bytes: Some(64),
        class_of_service: 0,
    }
}

fn numbered(number: u64) -> ClientData {
    ClientData {
        number,
        ..ClientData::default()
    }
}

#[tokio::test]
async fn every_entity_is_written_read_changed_and_deleted() {
    let rig = Rig::start().await;
    let (direct, profile, rate, set) = (rig.direct, rig.profile, rig.rate, rig.set);
    let entry = rig.entry();
    let by_group = TableEntry::new(kind(1), 0, TableAction::Group(9));
    let member = |id, left| rig.member(id, left);
    rig.write(rig.inserts()).await;
    rig.write(irreversible().into()).await;

    let reading = rig.device.reading().await.unwrap();
    let mut cursor = Cursor::Key(kind(1));
    let read = reading.entries(direct, &mut cursor).await.unwrap();
    assert_eq!(read.unwrap(), [entry]);
    assert_eq!(reading.entries(direct, &mut cursor).await, Ok(None));
    let read = reading.entries(rig.chosen, &mut Cursor::ALL.clone()).await;
    assert_eq!(read.unwrap().unwrap(), [by_group]);
    let read = reading.of_first(move |switch| {
        let default_action = switch.default_action(direct);
        let (members, groups) = (switch.members(profile), switch.groups(profile));
        let rates = [0, 1, 2].map(|cell| switch.meter_cell(rate, cell).unwrap());
        (
            default_action,
            members,
            groups,
            rates,
            switch.value_set(set),
        )
    });
    let (default_action, members, groups, rates, values) = read.await.unwrap();
    assert_eq!(default_action, Some(rig.call(0xff).into()));
    assert_eq!(members, [member(1, 7), member(2, 8)]);
    assert_eq!(groups, [group(&[(1, 1)])]);
    assert_eq!(rates, [None, Some(RATES), Some(RATES)]);
    assert_eq!(values, [kind(1), kind(2)]);
    let mut cells = 0..100;
    let counted = reading.counter_cells(rig.count, &mut cells).await.unwrap();
    assert_eq!(counted.unwrap(), [COUNTED; 100]);
    assert_eq!(reading.multicast_groups(0).await.unwrap(), [multicast(3)]);
    assert_eq!(reading.multicast_groups(3).await.unwrap(), []);
    assert_eq!(reading.clone_sessions(0).await.unwrap(), [session(1)]);
    let generators = reading.generators().await.unwrap();
    assert_eq!(generators[0].config, config());
    drop(reading);
    {
        let client_data = rig.pipeline.client_data();
        let found = [
            client_data.entry(&key(direct)),
            client_data.default_action(direct),
            client_data.group(2),
            client_data.session(3),
        ];
        assert_eq!(found.map(|client_data| client_data.number), [4, 5, 6, 7]);
    }

    rig.write(rig.changes()).await;
    rig.write(vec![Operation::Generator(GeneratorUpdate::Modify(
        1,
        GeneratorChange::default(),
    ))])
    .await;
    let reading = rig.device.reading().await.unwrap();
    let mut cursor = Cursor::ALL;
    let read = reading.entries(direct, &mut cursor).await.unwrap().unwrap();
    assert_eq!((read[0].meter, read[0].idle_timeout_ns), (None, 1_000_000));
    assert_eq!(reading.multicast_groups(2).await.unwrap(), [multicast(1)]);
    drop(reading);
    rig.write(rig.deletes()).await;
    rig.write(vec![Operation::Generator(GeneratorUpdate::Delete(1))])
        .await;
    let client_data = rig.pipeline.client_data();
    assert_eq!(client_data.entry(&key(direct)), ClientData::default());
    assert_eq!(client_data.default_action(direct), ClientData::default());
}

#[tokio::test]
async fn a_batch_that_is_whole_is_taken_back_in_every_entity_or_done_in_every_one() {
    for atomicity in [Atomicity::Whole, Atomicity::WholeForPackets] {
        let rig = Rig::start().await;
        let refused = Operation::MulticastGroup(Update::Delete(99), ClientData::default());
        for operations in [rig.inserts(), rig.changes(), rig.deletes()] {
            let before = rig.state().await;
            let n_operations = operations.len();
            // The refused operation is in the middle of the batch, or at its end.
            for place in [n_operations / 2, n_operations] {
                let mut with_one = operations.clone();
                with_one.insert(place, refused.clone());
                let mut expected = vec![Some(ControlErrorKind::Aborted); n_operations + 1];
                expected[place] = Some(ControlErrorKind::NotFound);
                assert_eq!(rig.come_to(atomicity, with_one).await, expected);
                assert_eq!(rig.state().await, before, "{atomicity:?}");
            }
            let done = rig.come_to(atomicity, operations.clone()).await;
            assert_eq!(done, vec![None; n_operations], "{atomicity:?}");
            assert_ne!(rig.state().await, before);
        }
        let before = rig.state().await;
        for operation in irreversible() {
            let session =
                Operation::CloneSession(Update::Insert(session(1)), ClientData::default());
            let operations = vec![session, operation];
            let refused = rig.come_to(atomicity, operations).await;
            assert_eq!(refused.last(), Some(&Some(ControlErrorKind::Unimplemented)));
            assert_eq!(rig.state().await, before);
        }
    }
}

#[tokio::test]
async fn each_kind_of_mistake_is_reported_as_what_it_is() {
    use ControlErrorKind::{
        AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, OutOfRange, ResourceExhausted,
    };
    let rig = Rig::start().await;
    let (direct, chosen) = (rig.direct, rig.chosen);
    let (profile, rate, set) = (rig.profile, rig.rate, rig.set);
    let insert = |table, action: TableAction| {
        Operation::Entry(EntryUpdate::Insert {
            table,
            entry: TableEntry::new(kind(1), 0, action),
            client_data: ClientData::default(),
        })
    };
    let member = ProfileMember {
        id: 1,
        action: rig.call(7),
    };
    let wrong_rates = MeterConfig {
        peak_rate: 1,
        ..RATES
    };
    let mistakes = [
        (insert(chosen, TableAction::Member(1)), NotFound),
        (insert(chosen, rig.call(1).into()), InvalidArgument),
        (
            Operation::Member(profile, Update::Insert(member.clone())),
            AlreadyExists,
        ),
        (Operation::Member(profile, Update::Delete(5)), NotFound),
        (
            Operation::Cells(CellValue::Meter(rate, Some(RATES)), 3..5),
            OutOfRange,
        ),
        (
            Operation::Cells(CellValue::Meter(rate, Some(wrong_rates)), 0..2),
            InvalidArgument,
        ),
        (
            Operation::ValueSet(set, vec![kind(1); 3]),
            ResourceExhausted,
        ),
        (
            Operation::MulticastGroup(Update::Delete(7), ClientData::default()),
            NotFound,
        ),
        (Operation::Generator(GeneratorUpdate::Delete(7)), NotFound),
        (Operation::Crc("none".into(), CRC), NotFound),
    ];
    let (mut operations, expected): (Vec<_>, Vec<_>) = mistakes.into_iter().unzip();
    // The operation of the first mistake finds no member yet. This insert makes the member, and the operation of the
    // third mistake tries to make it a second time.
    operations.insert(1, Operation::Member(profile, Update::Insert(member)));
    let mut expected: Vec<_> = expected.into_iter().map(Some).collect();
    expected.insert(1, None);
    assert_eq!(rig.kinds(operations).await, expected);
    let used = [
        insert(chosen, TableAction::Member(1)),
        Operation::Member(profile, Update::Delete(1)),
    ];
    let found = rig.kinds(used.to_vec()).await;
    assert_eq!(found, [None, Some(FailedPrecondition)]);
    let reading = rig.device.reading().await.unwrap();
    let read = reading.of_first(move |switch| {
        let rates = [0, 3].map(|cell| switch.meter_cell(rate, cell).unwrap());
        (rates, switch.entry_count(direct))
    });
    assert_eq!(read.await.unwrap(), ([None, None], 0));
}

#[tokio::test]
async fn digests_and_idle_entries_are_reported_with_the_program_that_they_are_of() {
    let rig = Rig::start().await;
    let (sender, mut digests) = DigestSender::channel(4);
    rig.device.subscribe(Subscriber::Digests(sender));
    let (sender, mut idle) = control::IdleTimeoutSender::channel(4);
    rig.device.subscribe(Subscriber::IdleTimeouts(sender));
    let direct = rig.direct;
    let mut entry = TableEntry::new(kind(1), 0, rig.call(5));
    entry.idle_timeout_ns = 1_000;
    let insert = Operation::Entry(EntryUpdate::Insert {
        table: direct,
        entry,
        client_data: ClientData::default(),
    });
    rig.write(vec![insert]).await;
    rig.switch.receive(1, &[9; 60]);
    let notice = in_time(digests.recv()).await.unwrap();
    assert_eq!(notice.generation, rig.pipeline.generation());
    assert_eq!(
        (&*notice.digest.name, &notice.digest.members[..]),
        ("seen_t", &[vec![9]][..])
    );
    rig.switch.advance(1_000_000);
    let notice = in_time(idle.recv()).await.unwrap();
    assert_eq!(notice.generation, rig.pipeline.generation());
    assert_eq!(
        (notice.idle.table, notice.idle.entry.key),
        (direct, kind(1))
    );
}
