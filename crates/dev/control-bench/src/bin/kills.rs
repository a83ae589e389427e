//! `reprise-control-kills`: kills a switch with a state file at random moments, while a P4Runtime controller and a
//! Thrift client write state of every kind, including pipelines. After the restart, the effect of every answered call
//! must be present. The effect of the call without an answer must be present completely or not at all.
//!
//! A second switch, without a state file, gets the same calls and is never killed. This switch is called the twin. Its
//! state is the expected state.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bmv2_thrift::wire::Type;
use bmv2_thrift::wire::read::Value as Given;
use bmv2_thrift::wire::write::Writer;
use clap::Parser;
use control_bench::controller::{self, Client, Controller, DEVICE_ID};
use control_bench::grammar::{Grammar, Known};
use control_bench::process::{Kind, Place, Process};
use control_bench::program::Program;
use control_bench::{Result, namespace, thrift};
use fastrand::Rng;
use p4runtime_client::entities;
use p4runtime_proto::p4::v1::entity::Entity::{ExternEntry as Extern, RegisterEntry as Register};
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    Entity, ExternEntry, GetForwardingPipelineConfigRequest, Uint128, WriteRequest,
};
use serde_json::Value;
use tonic::{Code, Status};

const ELECTION_ID: Uint128 = Uint128 { high: 0, low: 1 };
const KILLED: Place = Place(1);
const TWIN: Place = Place(2);
/// The latest moment of a kill, measured from the start of service.
const MOMENT_MAX_US: u64 = 60_000;
const PROGRAMS: [&str; 2] = [
    "testdata/compiler/ok/every_entity.p4",
    "crates/control/thrift-server/tests/fixture/entities.p4",
];
/// How many bytes an error shows at most of each part of the state that differs.
const SHOWN_BYTES_MAX: usize = 8_000;
/// The extern type of packet generators.
const GENERATORS: u32 = 0x81;
const SESSIONS: std::ops::RangeInclusive<i32> = 1..=5;

/// Kills a switch with a state file at random moments, in a network namespace of its own.
#[derive(Debug, Parser)]
#[command(name = "reprise-control-kills", version)]
struct Options {
    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 200)]
    kills: u64,
    /// Seed of the random moments and calls
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder for the state file
    #[arg(long, value_name = "DIR", default_value = "target")]
    state_in: PathBuf,
}

/// A call that may change the state.
#[derive(Debug, Clone)]
enum Call {
    Write(WriteRequest),
    Pipeline(Action, usize),
    Thrift(&'static str, Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused(String),
    /// The switch gave no answer.
    Gone,
}

/// All readable state that survives a restart, as text.
type State = Vec<String>;

struct Switch {
    place: Place,
    process: Option<Process>,
    controller: Controller,
    thrift: thrift::Client,
}

/// The answered calls since the last call that cleared the state, and the effect of these calls.
#[derive(Default)]
struct Past {
    calls: Vec<Call>,
    known: Known,
    /// The program to which P4Runtime writes. If a pipeline is saved but not committed, this is the program of the
    /// saved pipeline. `None` if Thrift has set another program.
    program: Option<usize>,
}

impl Past {
    fn did(&mut self, call: Call, outcome: &Outcome) {
        if *outcome == Outcome::Done {
            match &call {
                Call::Write(request) => self.known.written(&request.updates),
                Call::Pipeline(Action::Verify | Action::Commit, _) => {}
                Call::Pipeline(action, program) => {
                    if *action == Action::VerifyAndCommit {
                        self.calls.clear();
                    }
                    self.now_for(Some(*program));
                }
                Call::Thrift("standard:bm_load_new_config" | "standard:bm_swap_configs", _) => {
                    self.now_for(None);
                }
                Call::Thrift("standard:bm_reset_state", _) => self.known.forget(),
                Call::Thrift(..) => {}
            }
        }
        self.calls.push(call);
    }

    fn now_for(&mut self, program: Option<usize>) {
        self.program = program;
        self.known.forget();
    }
}

struct Kills {
    programs: Vec<Program>,
    grammars: Vec<Grammar>,
    /// Custom CRCs of the second program.
    crcs: Vec<(String, u32)>,
}

impl Switch {
    async fn start(place: Place, state: Option<PathBuf>) -> Result<Self> {
        let udp = format!("1@udp:127.0.0.1:{}", 5_000 + place.0);
        let kind = Kind::Reprise {
            state,
            options: vec![
                "-i".to_owned(),
                udp,
                "--engine".to_owned(),
                "interpreter".to_owned(),
            ],
        };
        let process = tokio::task::block_in_place(|| Process::start(&kind, place))?;
        Ok(Self {
            place,
            process: Some(process),
            controller: Controller::start(place, ELECTION_ID).await?,
            thrift: thrift::Client::connect(place)?,
        })
    }

    async fn call(&mut self, kills: &Kills, call: &Call) -> Outcome {
        match call {
            Call::Write(request) => of_status(self.controller.client.write(request.clone()).await),
            Call::Pipeline(action, program) => {
                let program = &kills.programs[*program];
                of_status(self.controller.set_pipeline(*action, program).await)
            }
            Call::Thrift(name, arguments) => {
                let tried = tokio::task::block_in_place(|| self.thrift.try_call(name, arguments));
                match tried {
                    Ok(Ok(_)) => Outcome::Done,
                    Ok(Err(code)) => Outcome::Refused(format!("{name}: exception {code}")),
                    Err(_) => Outcome::Gone,
                }
            }
        }
    }

    async fn state(&mut self, kills: &Kills) -> Result<State> {
        let mut state = vec![config(&mut self.controller.client).await];
        // Reading packet generators fails while a saved pipeline is not committed. So the result also shows whether the
        // pipeline is saved or committed, even if the rest of the state is the same.
        let generators = entities::entity(Extern(ExternEntry {
            extern_type_id: GENERATORS,
            ..Default::default()
        }));
        state.push(read(&mut self.controller.client, generators).await);
        for grammar in &kills.grammars {
            // Packets write every register of both programs, so the values that controllers wrote to registers do not
            // survive a restart.
            let is_kept = |it: &Entity| !matches!(it.entity, Some(Register(_)));
            for wanted in grammar.wanted().into_iter().filter(is_kept) {
                state.push(read(&mut self.controller.client, wanted).await);
            }
        }
        state.extend(tokio::task::block_in_place(|| by_thrift(&mut self.thrift))?);
        Ok(state)
    }

    fn process(&mut self) -> Result<Process> {
        Ok(self.process.take().ok_or("it was killed already")?)
    }
}

fn of_status<T>(answer: std::result::Result<T, Status>) -> Outcome {
    match answer {
        Ok(_) => Outcome::Done,
        Err(status) => {
            let is_gone = match status.code() {
                Code::Unavailable | Code::Cancelled | Code::Internal => true,
                // The switch's error for a batch has details. So an error without details means that the switch is
                // gone.
                Code::Unknown => {
                    status.details().is_empty() && !status.message().contains("updates")
                }
                _ => false,
            };
            if is_gone {
                Outcome::Gone
            } else {
                Outcome::Refused(format!("{:?}", status.code()))
            }
        }
    }
}

/// Returns P4Info, program and cookie, or the error's code.
async fn config(client: &mut Client) -> String {
    let request = GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    match client.get_forwarding_pipeline_config(request).await {
        // The answer is compared as text, since the encoding of maps has no fixed order.
        Ok(answer) => {
            let config = answer.into_inner().config.unwrap_or_default();
            let info = config.p4info.as_ref().map(p4_compiler::p4info_text);
            format!(
                "config {info:?} {:?} {:?}",
                config.cookie, config.p4_device_config
            )
        }
        Err(status) => format!("config {:?}", status.code()),
    }
}

async fn read(client: &mut Client, wanted: Entity) -> String {
    let mut found = Vec::new();
    let each = |part: Vec<Entity>| found.extend(part.iter().map(|it| format!("{it:?}")));
    let end = controller::read(client, vec![wanted.clone()], each).await;
    // A restart may change the order of entries with equal priority.
    found.sort_unstable();
    let end = end.err().map(|status| status.code());
    format!("{wanted:?}: {found:#?} {end:?}")
}

fn by_thrift(client: &mut thrift::Client) -> Result<State> {
    let mut state = Vec::new();
    for (name, arguments) in [
        ("bm_get_config_md5", context()),
        ("bm_serialize_state", vec![]),
    ] {
        let tried = client.try_call(&format!("standard:{name}"), &arguments)?;
        state.push(match tried {
            Ok(Some(Given::Bytes(text))) => match serde_json::from_slice::<Value>(&text) {
                Ok(mut all) => {
                    without_counts(&mut all);
                    format!("{name}: {all:#}")
                }
                Err(_) => format!("{name}: {text:?}"),
            },
            other => format!("{name}: {other:?}"),
        });
    }
    for session in SESSIONS {
        let tried = client.try_call("simple_switch:mirroring_session_get", &number(1, session))?;
        state.push(format!("session {session}: {tried:?}"));
    }
    Ok(state)
}

/// Removes counts and registers, because packets write them and they do not survive a restart. Sorts entries, since a
/// restart may change the order of entries with equal priority.
fn without_counts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("packets");
            members.remove("bytes");
            members.remove("registers");
            members.values_mut().for_each(without_counts);
        }
        Value::Array(values) => {
            values.iter_mut().for_each(without_counts);
            // Lists of numbers or strings are register cells. The order of cells is significant.
            if values.iter().all(Value::is_object) {
                values.sort_by_cached_key(Value::to_string);
            }
        }
        _ => {}
    }
}

/// Returns the encoded field 1, with which most Thrift calls begin. The field is BMv2's context number, which is 0.
fn context() -> Vec<u8> {
    number(1, 0)
}

fn number(field: i16, value: i32) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.field(field, Type::I32).i32(value);
    writer.into_bytes()
}

impl Kills {
    fn new() -> Result<Self> {
        let programs = PROGRAMS.map(Program::compile);
        let programs: Vec<Program> = programs.into_iter().collect::<Result<_>>()?;
        let grammars = programs.iter().map(|it| Grammar::new(it.p4info.clone()));
        let json: Value = serde_json::from_slice(&programs[1].device_config)?;
        let calculations = json["calculations"].as_array().cloned().unwrap_or_default();
        let crcs = calculations.iter().filter_map(|it| {
            let n_bits = match it["algo"].as_str()? {
                "crc16_custom" => 16,
                "crc32_custom" => 32,
                _ => return None,
            };
            Some((it["name"].as_str()?.to_owned(), n_bits))
        });
        let crcs: Vec<_> = crcs.collect();
        if crcs.is_empty() {
            Err("the program has no custom CRC".into())
        } else {
            Ok(Self {
                grammars: grammars.collect(),
                programs,
                crcs,
            })
        }
    }

    /// Makes a random call, usually for the program that was set last.
    fn any(&self, rng: &mut Rng, past: &Past) -> Call {
        let any = rng.usize(..PROGRAMS.len());
        let Some(mut program) = past.program.filter(|_| rng.u8(..32) > 0) else {
            return if rng.bool() {
                Call::Pipeline(Action::VerifyAndCommit, any)
            } else {
                Call::Thrift("standard:bm_swap_configs", vec![])
            };
        };
        if rng.u8(..16) == 0 {
            program = any;
        }
        match rng.u8(..20) {
            0..=14 => self.write(rng, program, &past.known),
            15 => {
                let action = rng.choice([
                    Action::Verify,
                    Action::VerifyAndSave,
                    Action::Commit,
                    Action::ReconcileAndCommit,
                ]);
                Call::Pipeline(action.unwrap_or(Action::Verify), any)
            }
            _ => self.thrift(rng, program),
        }
    }

    fn write(&self, rng: &mut Rng, program: usize, known: &Known) -> Call {
        let grammar = &self.grammars[program];
        let n_updates = rng.usize(1..5);
        let updates = (0..n_updates).map(|_| known.fitting(grammar.update(rng), rng));
        let updates = updates.collect();
        let atomicity = rng.choice([
            Atomicity::ContinueOnError,
            Atomicity::RollbackOnError,
            Atomicity::DataplaneAtomic,
        ]);
        Call::Write(WriteRequest {
            device_id: DEVICE_ID,
            election_id: Some(ELECTION_ID),
            updates,
            atomicity: atomicity.unwrap_or_default().into(),
            ..Default::default()
        })
    }

    /// Makes a random Thrift call, with names of the second program.
    fn thrift(&self, rng: &mut Rng, program: usize) -> Call {
        const OF_ANY_PROGRAM: u8 = 6;
        let mut writer = Writer::default();
        let name = match rng.u8(..if program == 1 { 10 } else { OF_ANY_PROGRAM }) {
            0 | 1 => {
                writer.field(1, Type::I32).i32(rng.i32(SESSIONS));
                writer.field(2, Type::Struct);
                let to = rng.i16(1..=2);
                writer.field(to, Type::I32).i32(rng.i32(1..3));
                writer.stop();
                "simple_switch:mirroring_session_add"
            }
            2 => {
                writer.field(1, Type::I32).i32(rng.i32(SESSIONS));
                "simple_switch:mirroring_session_delete"
            }
            3 => {
                let program = &self.programs[rng.usize(..self.programs.len())];
                writer.field(1, Type::Bytes).bytes(&program.device_config);
                "standard:bm_load_new_config"
            }
            4 => "standard:bm_swap_configs",
            5 => "standard:bm_reset_state",
            6 => return self.crc(rng),
            7 => {
                let key = [0, 0, 0, 0, 0, rng.u8(1..6)];
                let port = [0, rng.u8(1..3)];
                let (table, action) = ("EntitiesIngress.forward", "EntitiesIngress.forward_to");
                writer.encoded(&thrift::entry(table, &key, action, &port));
                "standard:bm_mt_add_entry"
            }
            8 => {
                writer.encoded(&context());
                writer.field(2, Type::Bytes).bytes(b"EntitiesIngress.last");
                writer.field(3, Type::I32).i32(rng.i32(0..16));
                writer.field(4, Type::I64).i64(rng.i64(0..100));
                "standard:bm_register_write"
            }
            _ => {
                writer.encoded(&context());
                writer
                    .field(2, Type::Bytes)
                    .bytes(b"EntitiesParser.ip_types");
                writer.field(3, Type::Bytes).bytes(&[8, rng.u8(1..5)]);
                "standard:bm_parse_vset_add"
            }
        };
        Call::Thrift(name, writer.into_bytes())
    }

    /// Sets random parameters of a custom CRC.
    fn crc(&self, rng: &mut Rng) -> Call {
        let (name, n_bits) = &self.crcs[rng.usize(..self.crcs.len())];
        let mut writer = Writer::default();
        writer.encoded(&context());
        writer.field(2, Type::Bytes).bytes(name.as_bytes());
        writer.field(3, Type::Struct);
        for field in 1..=3 {
            let value = rng.i16(1..);
            match n_bits {
                16 => writer.field(field, Type::I16).encoded(&value.to_be_bytes()),
                _ => writer.field(field, Type::I32).i32(value.into()),
            }
        }
        for field in 4..=5 {
            writer.field(field, Type::Bool).bool(rng.bool());
        }
        writer.stop();
        let name = match n_bits {
            16 => "standard:bm_set_crc16_custom_parameters",
            _ => "standard:bm_set_crc32_custom_parameters",
        };
        Call::Thrift(name, writer.into_bytes())
    }

    /// Starts a new twin, which gets the calls of `history`.
    async fn twin(&self, history: &[Call]) -> Result<Switch> {
        let mut twin = Switch::start(TWIN, None).await?;
        for call in history {
            twin.call(self, call).await;
        }
        Ok(twin)
    }
}

fn difference(one: &State, other: &State) -> String {
    let pairs = one.iter().zip(other).filter(|(one, other)| one != other);
    let short = |text: &str| text[..text.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned();
    let shown = pairs.map(|(one, other)| {
        format!(
            "--- found\n{}\n--- expected\n{}\n",
            short(one),
            short(other)
        )
    });
    shown.collect()
}

/// Makes the error for a state that is neither the state with the unanswered call nor the state without it.
fn unlike(seed: u64, found: &State, answered: &State, open: Option<&(State, Call)>) -> String {
    let call = open.map_or(String::new(), |(_, call)| format!("{call:?}"));
    let with_it = open.map_or(String::new(), |(state, _)| difference(found, state));
    let without = difference(found, answered);
    format!(
        "seed {seed}: the state after the restart is neither that after the last answered call nor \
         that after the unanswered call {call}\n\
         === without the unanswered call\n{without}\n=== with it\n{with_it}"
    )
}

#[derive(Default)]
struct Counts {
    n_calls: u64,
    n_refused: u64,
    n_open_there: u64,
    n_open_gone: u64,
    n_pipelines: u64,
}

async fn run(options: &Options) -> Result<String> {
    let kills = Kills::new()?;
    let file = state_file(options);
    let mut twin = kills.twin(&[]).await?;
    let (mut past, mut counts) = (Past::default(), Counts::default());
    let (mut answered, mut open) = (None::<State>, None::<(State, Call)>);
    for round in 0..=options.kills {
        let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(round);
        let mut rng = Rng::with_seed(seed);
        let mut killed = Switch::start(KILLED, Some(file.clone())).await?;
        let found = killed.state(&kills).await?;
        match (&answered, open.take()) {
            (None, _) => {}
            (Some(_), Some((state, call))) if found == state => {
                counts.n_open_there += 1;
                past.did(call, &Outcome::Done);
            }
            (Some(state), _) if found == *state => {
                // The killed switch has not carried out the unanswered call, but the twin has, so a new twin must
                // replace it.
                counts.n_open_gone += 1;
                if let Some(process) = twin.process.take() {
                    tokio::task::block_in_place(|| process.kill())?;
                }
                twin = kills.twin(&past.calls).await?;
            }
            (Some(state), open) => {
                return Err(unlike(seed, &found, state, open.as_ref()).into());
            }
        }
        if round == options.kills {
            check_crc(&kills, killed, twin, &file, &mut rng).await?;
            break;
        }
        if round == 0 {
            past.did(
                set_first_pipeline(&kills, &mut killed, &mut twin).await?,
                &Outcome::Done,
            );
        }
        let moment = Duration::from_micros(rng.u64(..MOMENT_MAX_US));
        let process = killed.process()?;
        let dead = tokio::task::spawn_blocking(move || {
            std::thread::sleep(moment);
            process.kill()
        });
        let switches = (&mut killed, &mut twin);
        let last = write_until_killed(&kills, switches, &mut past, &mut counts, &mut rng).await;
        let last = last.map_err(|error| format!("seed {seed}: {error}"))?;
        dead.await??;
        answered = Some(twin.state(&kills).await?);
        twin.call(&kills, &last).await;
        open = Some((twin.state(&kills).await?, last));
    }
    std::fs::remove_file(&file)?;
    Ok(format!(
        "{} kills, seed {}: {} calls answered, {} of them refused, whole or in part, {} pipelines \
         set; of the unanswered calls, {} took effect or had nothing to change, and {} did not \
         take effect",
        options.kills,
        options.seed,
        counts.n_calls,
        counts.n_refused,
        counts.n_pipelines,
        counts.n_open_there,
        counts.n_open_gone
    ))
}

fn state_file(options: &Options) -> PathBuf {
    let name = format!("reprise-control-kills-{}.state", std::process::id());
    options.state_in.join(name)
}

/// Sets a pipeline. Without a committed pipeline nobody could read whether there is a saved pipeline.
async fn set_first_pipeline(kills: &Kills, killed: &mut Switch, twin: &mut Switch) -> Result<Call> {
    let call = Call::Pipeline(Action::VerifyAndCommit, 0);
    for switch in [killed, twin] {
        let outcome = switch.call(kills, &call).await;
        if outcome != Outcome::Done {
            return Err(format!("expected the first pipeline to be set, found {outcome:?}").into());
        }
    }
    Ok(call)
}

/// Makes random calls on both switches until a call is not answered. Returns this call.
async fn write_until_killed(
    kills: &Kills,
    (killed, twin): (&mut Switch, &mut Switch),
    past: &mut Past,
    counts: &mut Counts,
    rng: &mut Rng,
) -> Result<Call> {
    loop {
        let call = kills.any(rng, past);
        let outcome = killed.call(kills, &call).await;
        if outcome == Outcome::Gone {
            return Ok(call);
        }
        let expected = twin.call(kills, &call).await;
        if outcome != expected {
            return Err(format!(
                "expected {expected:?}, found {outcome:?} at place {}: {call:?}",
                killed.place.0
            )
            .into());
        }
        counts.n_calls += 1;
        counts.n_refused += u64::from(outcome != Outcome::Done);
        let is_pipeline = matches!(call, Call::Pipeline(..)) && outcome == Outcome::Done;
        counts.n_pipelines += u64::from(is_pipeline);
        past.did(call, &outcome);
    }
}

/// Compares the CRCs that packets compute, since CRC parameters cannot be read.
async fn check_crc(
    kills: &Kills,
    mut killed: Switch,
    mut twin: Switch,
    file: &std::path::Path,
    rng: &mut Rng,
) -> Result<()> {
    let mut calls = vec![Call::Pipeline(Action::VerifyAndCommit, 1)];
    calls.extend((0..8).map(|_| kills.crc(rng)));
    for call in &calls {
        for switch in [&mut killed, &mut twin] {
            let outcome = switch.call(kills, call).await;
            if outcome != Outcome::Done {
                return Err(format!("{call:?}: {outcome:?}").into());
            }
        }
    }
    let before = hashes(&mut killed)?;
    let process = killed.process()?;
    tokio::task::block_in_place(|| process.kill())?;
    let mut again = Switch::start(KILLED, Some(file.to_owned())).await?;
    let (after, expected) = (hashes(&mut again)?, hashes(&mut twin)?);
    if before == after && after == expected {
        Ok(())
    } else {
        Err(format!(
            "CRCs of a packet: before {before:?}, after {after:?}, of the twin {expected:?}"
        )
        .into())
    }
}

/// Returns the two CRCs that the second program computes for a packet.
fn hashes(switch: &mut Switch) -> Result<Vec<Given>> {
    const LOOKS: usize = 500;
    let socket = std::net::UdpSocket::bind("127.0.0.1:4999")?;
    socket.send_to(&[0; 40], ("127.0.0.1", 5_000 + switch.place.0))?;
    for _ in 0..LOOKS {
        let mut writer = Writer::default();
        writer.encoded(&context());
        writer.field(2, Type::Bytes).bytes(b"EntitiesIngress.wide");
        let all = switch
            .thrift
            .call("standard:bm_register_read_all", &writer.into_bytes())?;
        let Some(Given::List(cells)) = all else {
            return Err(format!("expected cells, found {all:?}").into());
        };
        // The first cell contains the source address, which is not 0.
        if cells.first().is_some_and(|cell| *cell != Given::I64(0)) {
            return Ok(cells);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err("the switch has not taken the packet".into())
}

fn main() -> ExitCode {
    namespace::main("reprise-control-kills", |options| {
        tokio::runtime::Runtime::new()?.block_on(run(options))
    })
}
