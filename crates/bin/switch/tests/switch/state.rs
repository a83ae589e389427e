//! `--state`: a killed switch starts again with everything that it had answered as done.
//!
//! `REPRISE_KILLS=200` kills the switch 200 times instead of 20; `REPRISE_KILLS_SEED=N` sets the first seed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::p4runtime::{address, primary};
use crate::support::{Running, TemporaryFolder, error, program};
use p4runtime_client::bytestring::bytes;
use p4runtime_client::entities::{self, any_clone_session, any_multicast_group, modify, update};
use p4runtime_client::field_match::Match;
use p4runtime_client::{Client, WriteError};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    CloneSessionEntry, Entity, Index, MulticastGroupEntry, P4Data, PacketReplicationEngineEntry,
    RegisterEntry, Replica, TableEntry, Update, field_match,
};
use testkit::namespace::{in_mount_namespace, ip, run};
use testkit::text::{assert_ends, assert_has};

const KILLS: u64 = 20;

/// Entities by kind and number, each with its value in a byte or two.
type State = BTreeMap<(&'static str, u32), Vec<u8>>;

fn number_of(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Pseudo-random numbers: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

struct Controller {
    client: Client,
    ids: Ids,
}

#[derive(Clone, Copy)]
struct Ids {
    table: u32,
    send: u32,
    cells: u32,
    notes: u32,
}

impl Controller {
    async fn of(switch: &Running) -> Self {
        let mut client = primary(switch).await;
        let info = client.p4info().await.expect("a P4Info");
        let send = info.actions.iter().filter_map(|it| it.preamble.as_ref());
        let ids = Ids {
            table: info.tables[0].preamble.as_ref().expect("a table").id,
            send: send.clone().find(|it| it.alias == "send").expect("it").id,
            cells: info.registers[0].preamble.as_ref().expect("one").id,
            notes: info.registers[1].preamble.as_ref().expect("one").id,
        };
        Self { client, ids }
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), WriteError> {
        let atomicity = Atomicity::ContinueOnError;
        self.client.write_batch(updates, atomicity).await
    }

    async fn cell(&mut self, register: u32, index: i64) -> Vec<u8> {
        let wanted = entities::entity(register_cell(register, index, None));
        let found = self.client.read(vec![wanted]).await;
        match found.expect("an answer").remove(0).entity {
            Some(Kind::RegisterEntry(RegisterEntry {
                data:
                    Some(P4Data {
                        data: Some(Data::Bitstring(value)),
                    }),
                ..
            })) => value,
            other => panic!("not asked for: {other:?}"),
        }
    }

    async fn state(&mut self) -> State {
        let kinds = [
            Kind::TableEntry(entities::every_entry(self.ids.table)),
            Kind::TableEntry(entities::default_entry(self.ids.table)),
            Kind::RegisterEntry(RegisterEntry {
                register_id: self.ids.cells,
                ..Default::default()
            }),
        ];
        let mut wanted: Vec<Entity> = kinds.map(entities::entity).to_vec();
        wanted.extend([any_multicast_group(), any_clone_session()]);
        let found = self.client.read(wanted).await.expect("an answer");
        let found = found.into_iter();
        found
            .filter_map(|it| shown(it.entity.expect("one")))
            .collect()
    }
}

fn register_cell(register_id: u32, index: i64, value: Option<u8>) -> Kind {
    let data = |value| P4Data {
        data: Some(Data::Bitstring(vec![value])),
    };
    Kind::RegisterEntry(RegisterEntry {
        register_id,
        index: Some(Index { index }),
        data: value.map(data),
    })
}

fn cell(register: u32, index: i64, value: u8) -> Update {
    modify(entities::entity(register_cell(
        register,
        index,
        Some(value),
    )))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_register_that_packets_write_begins_anew_and_one_that_only_controllers_write_does_not() {
    let folder = TemporaryFolder::new("anew");
    let (state, kept) = (
        folder.path("state").display().to_string(),
        program("kept.p4"),
    );
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state, &kept];
    let mut killed = false;
    for signal in ["-KILL", "-TERM", "-KILL"] {
        let switch = Running::start_that_logs(&arguments);
        let said = switch.before.join("\n");
        let warns = said.contains("registers_begin_anew") && said.contains("writes=1");
        assert_eq!(warns, killed, "{said}");
        let mut controller = Controller::of(&switch).await;
        let ids = controller.ids;
        let expected = if killed { vec![9] } else { vec![0] };
        assert_eq!(controller.cell(ids.cells, 5).await, expected, "{signal}");
        assert_eq!(controller.cell(ids.notes, 5).await, [0], "{signal}");
        let updates = vec![cell(ids.cells, 5, 9), cell(ids.notes, 5, 9)];
        controller.write(updates).await.expect("written");
        assert_eq!(controller.cell(ids.notes, 5).await, [9]);
        switch.signal(signal);
        switch.end();
        killed = true;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_says_that_its_process_is_another_one_though_its_state_is_the_same() {
    let folder = TemporaryFolder::new("instance");
    let (state, kept) = (
        folder.path("state").display().to_string(),
        program("kept.p4"),
    );
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state, &kept];
    let mut seen = std::collections::BTreeSet::new();
    for n_seen in 1..=3 {
        let switch = Running::start(&arguments);
        for _ in 0..2 {
            seen.insert(instance(&switch).await);
            assert_eq!(seen.len(), n_seen);
        }
        switch.signal("-KILL");
        switch.end();
    }
    assert!(!seen.contains(&0));
}

async fn instance(switch: &Running) -> u64 {
    let client = Client::connect(&address(switch), 1).await;
    let instance = client.expect("a server").instance().await;
    instance.expect("an answer")
}

fn replication(of: Replication) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
}

/// Converts an entity to the form that `State` has; returns `None` if the entity has its initial value.
fn shown(kind: Kind) -> Option<((&'static str, u32), Vec<u8>)> {
    Some(match kind {
        Kind::TableEntry(entry) => {
            let Some(ActionType::Action(action)) = entry.action.and_then(|it| it.r#type) else {
                return None;
            };
            let port = action.params.first()?.value.clone();
            let value = [port, entry.metadata].concat();
            match entry
                .r#match
                .first()
                .and_then(|it| it.field_match_type.clone())
            {
                Some(field_match::FieldMatchType::Exact(exact)) => {
                    let key = exact
                        .value
                        .iter()
                        .fold(0, |n, byte| n * 256 + u32::from(*byte));
                    (("entry", key), value)
                }
                _ => (("default", 0), value),
            }
        }
        Kind::RegisterEntry(cell) => {
            let Some(Data::Bitstring(value)) = cell.data?.data else {
                return None;
            };
            let index = u32::try_from(cell.index?.index).expect("a cell");
            if value == [0] {
                return None;
            }
            (("cell", index), value)
        }
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type? {
            Replication::MulticastGroupEntry(group) => (
                ("group", group.multicast_group_id),
                instances(&group.replicas),
            ),
            Replication::CloneSessionEntry(session) => (
                ("session", session.session_id),
                instances(&session.replicas),
            ),
        },
        other => panic!("not asked for: {other:?}"),
    })
}

fn instances(replicas: &[Replica]) -> Vec<u8> {
    let bytes = replicas.iter().map(|it| u8::try_from(it.instance));
    bytes.collect::<Result<_, _>>().expect("a byte")
}

fn entity(ids: Ids, (kind, number): (&'static str, u32), value: u8) -> Kind {
    let replicas = vec![entities::replica(1, value.into())];
    let action = || {
        let call = entities::action(ids.send, [(1, vec![value])]);
        Some(entities::table_action(call))
    };
    match kind {
        "entry" => Kind::TableEntry(TableEntry {
            table_id: ids.table,
            r#match: vec![Match::Exact(bytes(number)).field(1)],
            action: action(),
            metadata: vec![value, 1],
            ..Default::default()
        }),
        "default" => Kind::TableEntry(TableEntry {
            table_id: ids.table,
            action: action(),
            is_default_action: true,
            metadata: vec![value, 1],
            ..Default::default()
        }),
        "cell" => register_cell(ids.cells, number.into(), Some(value)),
        "group" => replication(Replication::MulticastGroupEntry(MulticastGroupEntry {
            multicast_group_id: number,
            replicas,
            ..Default::default()
        })),
        _ => replication(Replication::CloneSessionEntry(CloneSessionEntry {
            session_id: number,
            replicas,
            ..Default::default()
        })),
    }
}

/// Makes a batch of up to 12 updates; returns the updates and the state after them.
fn batch(random: &mut Random, ids: Ids, before: &State) -> (Vec<Update>, State) {
    let mut after = before.clone();
    let updates = (0..=random.below(12)).map(|_| {
        let kind = ["entry", "entry", "default", "cell", "group", "session"];
        let kind = kind[usize::try_from(random.below(6)).expect("small")];
        let number = match kind {
            "default" => 0,
            _ => 1 + u32::try_from(random.below(40)).expect("small"),
        };
        let value = 1 + u8::try_from(random.below(200)).expect("a byte");
        let (key, is_there) = ((kind, number), after.contains_key(&(kind, number)));
        let always = matches!(kind, "default" | "cell");
        let deletes = is_there && !always && random.below(3) == 0;
        let r#type = match (is_there || always, deletes) {
            (_, true) => Type::Delete,
            (true, _) => Type::Modify,
            (false, _) => Type::Insert,
        };
        match (deletes, kind) {
            (true, _) => drop(after.remove(&key)),
            (_, "entry" | "default") => drop(after.insert(key, vec![value, value, 1])),
            _ => drop(after.insert(key, vec![value])),
        }
        update(r#type, entities::entity(entity(ids, key, value)))
    });
    (updates.collect(), after)
}

/// Writes batches until the switch is gone. Returns the state after the last batch that the switch has answered, the
/// state with the batch that it has not answered, and the number of answered batches.
async fn write_until_killed(
    controller: &mut Controller,
    random: &mut Random,
    mut answered: State,
) -> (State, State, u64) {
    for n_batches in 0..1_000_000 {
        let (updates, after) = batch(random, controller.ids, &answered);
        match controller.write(updates).await {
            Ok(()) => answered = after,
            Err(WriteError::Updates(errors)) => panic!("refused: {errors:?}"),
            Err(WriteError::Call(_)) => return (answered, after, n_batches),
        }
    }
    panic!("the switch was not killed")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_is_killed_at_any_moment_has_what_it_answered() {
    let (n_kills, seed) = (
        number_of("REPRISE_KILLS", KILLS),
        number_of("REPRISE_KILLS_SEED", 1),
    );
    let folder = TemporaryFolder::new("killed");
    let (state, kept) = (
        folder.path("state").display().to_string(),
        program("kept.p4"),
    );
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state, &kept];
    let (mut answered, mut open) = (State::new(), State::new());
    let (mut n_all, mut n_open_there) = (0, 0);
    for round in 0..=n_kills {
        let seed = seed.wrapping_mul(1_000_003) + round;
        let switch = Running::start(&arguments);
        let mut controller = Controller::of(&switch).await;
        let found = controller.state().await;
        assert!(
            found == answered || found == open,
            "seed {seed}: found {found:?}, answered {answered:?}, or with what was not answered {open:?}"
        );
        n_open_there += u32::from(found == open && found != answered);
        if round == n_kills {
            break;
        }
        let mut random = Random(seed);
        let moment = Duration::from_micros(random.below(60_000));
        let killed = tokio::spawn(async move {
            // The kill comes at a random moment, so there is no event to wait for.
            tokio::time::sleep(moment).await;
            switch.signal("-KILL");
            tokio::task::spawn_blocking(move || switch.end()).await
        });
        let n_batches;
        (answered, open, n_batches) = write_until_killed(&mut controller, &mut random, found).await;
        n_all += n_batches;
        let (code, ..) = killed.await.expect("killed").expect("it ends");
        assert_eq!(code, None, "seed {seed}");
        println!("seed {seed}: killed after {moment:?}, {n_batches} batches answered");
    }
    println!(
        "{n_kills} kills, {n_all} batches answered, {n_open_there} times the last was there unanswered"
    );
    assert!(n_all > 0, "nothing was written");
}

/// Mounts a file system with room for 8 MiB in a folder, in the test's own mount namespace.
fn mount(disk: &Path) {
    fs::create_dir(disk).expect("a folder");
    run(&format!(
        "mount -t tmpfs -o size=8m tmpfs {}",
        disk.display()
    ));
}

fn fill(with: &Path) {
    let mut file = File::create(with).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
}

/// Writes batches until one is refused; returns the state with that batch, and the error.
async fn write_until_refused(
    controller: &mut Controller,
    random: &mut Random,
    mut state: State,
) -> (State, String) {
    for _ in 0..20_000 {
        let (updates, after) = batch(random, controller.ids, &state);
        match controller.write(updates).await {
            Ok(()) => state = after,
            Err(error) => return (after, error.to_string()),
        }
    }
    panic!("the disk was not full")
}

fn nothing_was_done(refused: WriteError) {
    let refused = refused.to_string();
    let said = ["nothing was done", "(Internal)"];
    assert!(said.iter().all(|it| refused.contains(it)), "{refused}");
}

async fn a_switch_on_a_disk(disk: &Path) {
    let state = disk.join("state").display().to_string();
    let program = program("kept.p4");
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state, &program];
    let switch = Running::start(&arguments);
    let mut controller = Controller::of(&switch).await;
    fill(&disk.join("filler"));
    let mut random = Random(3);
    let (there, refused) = write_until_refused(&mut controller, &mut random, State::new()).await;
    let said = ["the switch has it", state.as_str(), "(Internal)"];
    assert!(said.iter().all(|it| refused.contains(it)), "{refused}");
    // The data plane has the refused change, and none after it.
    assert_eq!(controller.state().await, there);
    let (updates, _) = batch(&mut random, controller.ids, &there);
    let refused = controller.write(updates).await;
    nothing_was_done(refused.expect_err("the disk is full"));
    assert_eq!(controller.state().await, there);
    let logged = switch.wait_for_line(&["state_not_written"]);
    assert_has(&logged, "ERROR");
    assert_has(&logged, &state);
    fs::remove_file(disk.join("filler")).expect("removed");
    let (updates, after) = batch(&mut random, controller.ids, &there);
    controller
        .write(updates)
        .await
        .expect("there is room again");
    let logged = switch.wait_for_line(&["event"]);
    assert!(logged.contains("state_written"), "once each: {logged}");
    switch.signal("-KILL");
    switch.end();
    let switch = Running::start(&arguments);
    let found = Controller::of(&switch).await.state().await;
    assert_eq!(found, after, "what was not stored at once is, too");
    switch.stop("-TERM");
}

#[test]
fn a_full_disk_is_reported_and_what_was_done_is_stored_when_there_is_room() {
    in_mount_namespace(|| {
        ip("link set lo up");
        let folder = TemporaryFolder::new("full-state");
        let disk = folder.path("disk");
        mount(&disk);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(a_switch_on_a_disk(&disk));
        run(&format!("umount {}", disk.display()));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_cuts_short_is_reported_before_the_next_call_and_takes_none() {
    let folder = TemporaryFolder::new("cut-short");
    let path = folder.path("state");
    let state = path.display().to_string();
    let program = program("kept.p4");
    let switch = Running::start(&["--grpc", "127.0.0.1:0", "--state", &state, &program]);
    let mut controller = Controller::of(&switch).await;
    let mut random = Random(7);
    let (updates, there) = batch(&mut random, controller.ids, &State::new());
    controller.write(updates).await.expect("written");
    // Like `: > state`, which empties the file but keeps it.
    File::create(&path).expect("cut short");
    let logged = switch.wait_for_line(&["state_not_written"]);
    assert_has(&logged, "ERROR");
    assert_has(&logged, "was cut short");
    let (updates, _) = batch(&mut random, controller.ids, &there);
    let refused = controller.write(updates).await;
    nothing_was_done(refused.expect_err("it would be lost"));
    assert_eq!(controller.state().await, there);
    switch.stop("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_switches_do_not_share_a_file() {
    let folder = TemporaryFolder::new("shared");
    let state = folder.path("state").display().to_string();
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state];
    let first = Running::start(&arguments);
    let said = error(1, &arguments);
    assert_has(&said, "another switch uses the file");
    first.stop("-TERM");
}

#[test]
fn a_file_that_cannot_be_made_or_opened_is_reported_with_its_name() {
    let folder = TemporaryFolder::new("nowhere");
    let missing = folder.path("missing/state");
    let a_folder = folder.path("a-folder");
    fs::create_dir(&a_folder).expect("a folder");
    // Not even root can make files there.
    let read_only = Path::new("/proc/state").to_owned();
    for path in [missing, a_folder.clone(), read_only] {
        let path = path.display().to_string();
        let said = error(1, &["--grpc", "127.0.0.1:0", "--state", &path]);
        assert_has(&said, &path);
    }
    assert_eq!(fs::read_dir(&a_folder).expect("a folder").count(), 0);
}

/// Damages the file as if a disk returned other data than was written.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_refused_and_left() {
    let folder = TemporaryFolder::new("damaged");
    let path = folder.path("state");
    let state = path.display().to_string();
    let program = program("kept.p4");
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state, &program];
    let switch = Running::start(&arguments);
    let mut controller = Controller::of(&switch).await;
    let mut random = Random(5);
    let mut there = State::new();
    for _ in 0..20 {
        let (updates, after) = batch(&mut random, controller.ids, &there);
        controller.write(updates).await.expect("written");
        there = after;
    }
    drop(controller);
    switch.stop("-TERM");
    let whole = fs::read(&path).expect("there");
    let mut damaged = whole.clone();
    let used = whole.iter().rposition(|byte| *byte != 0).expect("bytes");
    // Damages everything after the file's header: damage to one page might not be noticed, since some pages are unused.
    damaged[4_096..=used]
        .iter_mut()
        .for_each(|byte| *byte ^= 0x55);
    for bytes in [&damaged[..], &whole[..whole.len() / 2]] {
        fs::write(&path, bytes).expect("written");
        let said = error(1, &arguments);
        let expected = ["found one that is damaged or cut short", &state];
        assert!(expected.iter().all(|it| said.contains(it)), "{said}");
        assert!(fs::read(&path).expect("there") == bytes, "it was changed");
    }
    fs::write(&path, &whole).expect("written");
    let switch = Running::start(&arguments);
    assert_eq!(Controller::of(&switch).await.state().await, there);
}

/// Damages the file as after a power failure before the last bytes were on the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_switchs_last_call_that_is_damaged_is_taken_back_and_that_is_reported() {
    let folder = TemporaryFolder::new("taken-back");
    let path = folder.path("state");
    let state = path.display().to_string();
    let program = program("kept.p4");
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state, &program];
    let switch = Running::start(&arguments);
    let mut controller = Controller::of(&switch).await;
    let mut random = Random(6);
    let (mut before, mut there) = (State::new(), State::new());
    for _ in 0..10 {
        let (updates, after) = batch(&mut random, controller.ids, &there);
        controller.write(updates).await.expect("written");
        (before, there) = (there, after);
    }
    assert_ne!(before, there);
    drop(controller);
    switch.signal("-KILL");
    switch.end();
    let mut bytes = fs::read(&path).expect("there");
    // redb's header (its design.md) has two commit slots, and the lowest bit of byte 9 names the valid one; a slot's
    // checksum is at its end.
    let slot = 64 + 128 * usize::from(bytes[9] & 1);
    bytes[slot + 120] ^= 1;
    fs::write(&path, bytes).expect("written");
    let switch = Running::start_that_logs(
        &[
            &arguments[..],
            &["--log-format", "json", "--log-level", "info"],
        ]
        .concat(),
    );
    let logged = switch
        .before
        .iter()
        .filter(|line| line.contains("state_rolled_back"));
    assert_eq!(logged.count(), 1, "{:?}", switch.before);
    assert_eq!(Controller::of(&switch).await.state().await, before);
    switch.stop_that_logs("-TERM");
    // The file is whole again.
    let switch = Running::start(&arguments);
    assert_eq!(Controller::of(&switch).await.state().await, before);
    switch.stop("-TERM");
}

#[test]
fn a_foreign_file_is_refused_and_left() {
    let folder = TemporaryFolder::new("foreign");
    let path = folder.path("state");
    let (empty, other) = (
        "found an empty file: remove it",
        "found something else: name another",
    );
    for (text, found) in [
        (&b""[..], empty),
        (b"these are my notes", other),
        (&[0x5a; 20_000], other),
    ] {
        std::fs::write(&path, text).expect("written");
        let said = error(
            1,
            &[
                "--grpc",
                "127.0.0.1:0",
                "--state",
                &path.display().to_string(),
            ],
        );
        let expected = format!("expected a state file of reprise-switch, {found}");
        assert_has(&said, &expected);
        assert_eq!(std::fs::read(&path).expect("there"), text);
    }
}

/// The program's name comes from the client that sets it.
#[test]
fn a_restored_programs_name_forges_no_ready_line() {
    let folder = TemporaryFolder::new("forged-ready");
    let state = folder.path("state").display().to_string();
    let json = std::fs::read_to_string(program("forward.json")).expect("the program");
    let mut json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    json["program"] = "x.p4\nready: forged".into();
    let json = folder.file("forged.json", json.to_string());
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state];
    Running::start(&[&arguments[..], &[&json]].concat()).stop("-TERM");
    let restored = Running::start(&arguments);
    let expected = format!("program x.p4\\nready: forged of state file {state}");
    assert!(restored.ready.ends_with(&expected), "{}", restored.ready);
    restored.stop("-TERM");
}

#[test]
fn a_restored_program_is_named_and_an_ignored_one_is_warned_of() {
    let folder = TemporaryFolder::new("named");
    let state = folder.path("state").display().to_string();
    let [kept, flood] = ["kept.p4", "flood.p4"].map(program);
    let arguments = ["--grpc", "127.0.0.1:0", "--state", &state];
    let start = |program: Option<&String>| {
        let program = program.map(String::as_str);
        let arguments: Vec<&str> = arguments.into_iter().chain(program).collect();
        let switch = Running::start_that_logs(&arguments);
        let (ready, before) = (switch.ready.clone(), switch.before.clone());
        switch.stop("-TERM");
        (ready, before)
    };
    let (ready, before) = start(Some(&kept));
    assert_ends(&ready, &format!("program {kept}"));
    assert_eq!(before, [""; 0]);
    let restored = format!("{kept} of state file {state}");
    for program in [Some(&kept), None] {
        let (ready, before) = start(program);
        assert_ends(&ready, &format!("program {restored}"));
        assert_eq!(before, [""; 0], "nothing was ignored");
    }
    let (ready, before) = start(Some(&flood));
    assert_ends(&ready, &format!("program {restored}"));
    let [warning] = &before[..] else {
        panic!("expected one line: {before:?}");
    };
    let expected =
        format!("{flood} of the command line is not loaded, since the program {restored} forwards");
    assert_has(warning, "WARN");
    assert_has(warning, &expected);
}
