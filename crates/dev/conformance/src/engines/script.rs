//! A random conference for the SFU programs: viewers join and leave, presenters come and go. The
//! real controller's writes are recorded call by call, and can be replayed on any two switches
//! between any frames.

use std::net::Ipv4Addr;

use conference::{
    address::Mac,
    backend::SfuProgram as Backend,
    model::{Conference, GroupId, ModelError, OwnAddress, Presenter, Viewer},
    plan::{self, Target},
};
use control::BorrowedSwitch;
use dataplane::{
    ActionCall, CloneSession, CounterValue, MatchField, MulticastGroup, PortId, Program, Replica,
    Switch, SwitchConfig, TableEntry,
};
use fastrand::Rng;
use p4runtime_client::entities::replica_port;
use p4runtime_client::field_match::Match;
use p4runtime_client::{Client, ClientError, Object, P4InfoIndex, SwitchAddress};
use p4runtime_proto::p4::v1::{
    self as p4, Entity, Update, entity::Entity as Kind,
    packet_replication_engine_entry::Type as PreType, update::Type as UpdateType,
};

use super::{Case, Step, Write, random_config, random_frame};
use crate::{
    controller::{DEVICE_ID, server},
    packet::udp_frame,
    sfu::{SFU_IP, SFU_MAC, SFU_PORT, STREAM_PORT, SfuProgram},
};

const GROUPS: u16 = 4;
/// Usual maximum of viewers in a group.
const VIEWERS_MAX: usize = 12;
const CHANGES: usize = 24;
/// Length of a drain: the time in which the queues run empty.
const DRAIN_NS: u64 = 20_000_000;

#[derive(Debug, Clone)]
enum Call {
    Write(Write),
    Drain,
}

#[derive(Debug, Clone)]
pub struct Script {
    /// The calls of each change; the first change sets everything up.
    changes: Vec<Vec<Call>>,
}

struct Recorder<'a> {
    client: Client,
    program: &'a Program,
    index: &'a P4InfoIndex,
    calls: Vec<Call>,
}

impl Target for Recorder<'_> {
    type Error = ClientError;

    async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        self.client.read(entities).await
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), ClientError> {
        let writes = updates.iter().map(|update| {
            let write = to_write(self.program, self.index, update);
            Call::Write(write.expect("the controller writes nothing else"))
        });
        self.calls.extend(writes);
        self.client.write(updates).await
    }

    async fn drain(&mut self) -> Result<(), ClientError> {
        self.calls.push(Call::Drain);
        self.client.drain().await
    }
}

impl Script {
    /// Records the controller's writes for a random conference.
    ///
    /// # Panics
    /// The controller or the server refuses a call.
    pub fn record(of: SfuProgram, seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(record(of, seed))
    }
}

async fn record(of: SfuProgram, seed: u64) -> Script {
    let (p4info, json) = crate::compile::pipeline(&testkit::repository::root().join(of.path()));
    let backend = Backend::detect(&p4info).expect("an SFU program");
    let mut switch = Switch::new(SwitchConfig::default());
    switch.add_port(SFU_PORT);
    let server = server(&BorrowedSwitch::new(switch));
    let set = server.set_pipeline(p4info.clone(), json).await;
    set.expect("the program fits its P4Info");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port on the loopback");
    let address = listener.local_addr().expect("its number").to_string();
    let serving = tokio::spawn(server.serve(listener, std::future::pending()));
    let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
        .await
        .expect("a client");
    client.become_primary().await.expect("the only client");
    let program = crate::compile::program_at(of.path());
    let index = P4InfoIndex::new(p4info);
    let mut recorder = Recorder {
        client,
        program: &program,
        index: &index,
        calls: Vec::new(),
    };
    let mut rng = Rng::with_seed(seed);
    let mut wanted = Conference::new(backend.capabilities());
    let has_udp_ports = of == SfuProgram::Replication;
    let mut changes = Vec::new();
    for number in 0..CHANGES {
        let changed = match number {
            0 => begin(&mut wanted, has_udp_ports, &mut rng),
            _ => change(&mut wanted, has_udp_ports, &mut rng),
        };
        changed.expect("a conference that can be");
        let snapshot = backend
            .read(&mut recorder)
            .await
            .expect("a state of its own");
        let plan = backend.plan(&snapshot, &wanted).expect("a plan");
        let ran = plan::run(plan, &mut recorder, |_| {}).await;
        ran.expect("every write is taken");
        changes.push(std::mem::take(&mut recorder.calls));
    }
    serving.abort();
    Script { changes }
}

fn presenter(group: u16, has_udp_ports: bool) -> Presenter {
    Presenter {
        ip: Ipv4Addr::from(0x0a00_0101 + u32::from(group)),
        // Packets of one presenter need its MAC.
        mac: (group == 1).then_some(Mac(crate::sfu::PRESENTER_MAC)),
        udp_port: has_udp_ports.then_some(STREAM_PORT),
    }
}

/// Sets the SFU's address and adds every group with some viewers.
fn begin(wanted: &mut Conference, has_udp_ports: bool, rng: &mut Rng) -> Result<(), ModelError> {
    wanted.set_address(OwnAddress {
        port: SFU_PORT.0,
        ip: SFU_IP,
        mac: Mac(SFU_MAC),
    })?;
    for group in 1..=GROUPS {
        wanted.add_group(GroupId(group), presenter(group, has_udp_ports))?;
        for _ in 0..rng.usize(..VIEWERS_MAX) {
            join(wanted, GroupId(group), has_udp_ports, rng)?;
        }
    }
    Ok(())
}

fn join(
    wanted: &mut Conference,
    group: GroupId,
    has_udp_ports: bool,
    rng: &mut Rng,
) -> Result<(), ModelError> {
    let number = rng.u16(..);
    let [high, low] = number.to_be_bytes();
    let viewer = Viewer {
        ip: Ipv4Addr::new(10, 1, high, low),
        mac: Mac([2, 0, 0, 1, high, low]),
        looked_up: rng.bool(),
        udp_port: has_udp_ports.then(|| rng.u16(1..)),
        port: None,
    };
    if wanted
        .group(group)?
        .viewers
        .iter()
        .any(|it| it.ip == viewer.ip)
    {
        return Ok(());
    }
    wanted.add_viewer(group, viewer)
}

/// Lets viewers join and leave, and groups end and return.
fn change(wanted: &mut Conference, has_udp_ports: bool, rng: &mut Rng) -> Result<(), ModelError> {
    for _ in 0..rng.u8(1..4) {
        let group = GroupId(rng.u16(1..=GROUPS));
        let Ok(there) = wanted.group(group) else {
            wanted.add_group(group, presenter(group.0, has_udp_ports))?;
            continue;
        };
        let viewers: Vec<Viewer> = there.viewers.clone();
        match rng.u8(..10) {
            0 => drop(wanted.delete_group(group)?),
            1..=4 if !viewers.is_empty() => {
                let viewer = viewers[rng.usize(..viewers.len())];
                wanted.remove_viewer(group, viewer.ip, viewer.udp_port)?;
            }
            _ if viewers.len() < VIEWERS_MAX => join(wanted, group, has_udp_ports, rng)?,
            _ => {}
        }
    }
    Ok(())
}

/// A frame for the program, in most cases a presenter's packet.
fn frame(program: &Program, rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..8) == 0 {
        return random_frame(program.ir(), rng);
    }
    let group = rng.u16(1..GROUPS + 2);
    let payload: Vec<u8> = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
    let from = presenter(group, false).ip;
    let port = if rng.u8(..20) == 0 { 1 } else { STREAM_PORT };
    let mut frame = udp_frame(from, port, rng.u8(..), &payload);
    match rng.u8(..12) {
        0 => {
            let at = rng.usize(..frame.len());
            frame[at] ^= 1 << rng.u8(..8);
        }
        1 => frame.truncate(rng.usize(..=frame.len())),
        _ => {}
    }
    frame
}

/// Places each change at a random position among random frames. The calls of a change follow each
/// other directly or with frames between them.
pub fn conference(program: &Program, script: &Script, seed: u64, n_frames: usize) -> Case {
    let mut rng = Rng::with_seed(seed);
    let mut config = random_config(&mut rng);
    if rng.bool() {
        // With a limited rate, the SFU's packets would recirculate for ever.
        config.recirculation_rate_pps = None;
    }
    let mut steps = Vec::new();
    let n_changes = script.changes.len();
    let mut starts: Vec<usize> = (1..n_changes)
        .map(|_| rng.usize(..n_frames.max(1)))
        .collect();
    starts.push(0);
    starts.sort_unstable();
    let (mut calls, mut latest) = (Vec::new(), 0);
    for (change, start) in script.changes.iter().zip(starts) {
        // Calls stay in order, with any number of frames between them.
        let spread = rng.usize(..3);
        for (n, call) in change.iter().enumerate() {
            latest = latest.max(start + n * spread / 4);
            calls.push((latest, call));
        }
    }
    let mut calls = calls.into_iter().peekable();
    for n in 0..n_frames {
        while let Some((_, call)) = calls.next_if(|(at, _)| *at <= n) {
            steps.push(match call {
                Call::Write(write) => Step::Write(write.clone()),
                Call::Drain => Step::Wait(DRAIN_NS),
            });
        }
        if rng.u8(..4) == 0 {
            steps.push(Step::Wait(rng.u64(..1_000_000)));
        }
        let frame = frame(program, &mut rng);
        steps.push(match rng.u8(..5) {
            0 => Step::Queue(SFU_PORT, frame),
            _ => Step::Frame(SFU_PORT, frame),
        });
    }
    Case::new(config, steps)
}

/// The data plane's call that the server would make for an update.
fn to_write(program: &Program, index: &P4InfoIndex, update: &Update) -> Option<Write> {
    let kind = update.r#type();
    let is_new = kind == UpdateType::Insert;
    match update.entity.as_ref()?.entity.as_ref()? {
        Kind::TableEntry(entry) => table_write(program, index, kind, entry),
        Kind::RegisterEntry(entry) => {
            let p4::p4_data::Data::Bitstring(value) = entry.data.as_ref()?.data.as_ref()? else {
                return None;
            };
            let name = index.full(Object::Register, entry.register_id);
            let register = program.register(&name)?;
            Some(Write::Register(register, cell(entry.index)?, value.clone()))
        }
        Kind::CounterEntry(entry) => {
            let name = index.full(Object::Counter, entry.counter_id);
            let counter = program.counter(&name)?;
            let value = CounterValue::default();
            Some(Write::Counter(counter, cell(entry.index)?, value))
        }
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            PreType::MulticastGroupEntry(group) => {
                let id = group.multicast_group_id;
                let replicas = replicas(&group.replicas);
                let made = MulticastGroup {
                    id,
                    replicas,
                    backups: Vec::new(),
                };
                Some(match kind {
                    UpdateType::Delete => Write::DeleteMulticast(id),
                    _ if is_new => Write::InsertMulticast(made),
                    _ => Write::ModifyMulticast(made),
                })
            }
            PreType::CloneSessionEntry(session) => {
                let made = CloneSession {
                    id: session.session_id,
                    replicas: replicas(&session.replicas),
                    truncate_bytes: None,
                    class_of_service: session.class_of_service,
                };
                Some(match kind {
                    UpdateType::Delete => Write::DeleteSession(made.id),
                    _ if is_new => Write::InsertSession(made),
                    _ => Write::ModifySession(made),
                })
            }
        },
        _ => None,
    }
}

fn cell(index: Option<p4::Index>) -> Option<u64> {
    u64::try_from(index?.index).ok()
}

fn replicas(replicas: &[p4::Replica]) -> Vec<Replica> {
    let made = replicas.iter().map(|replica| Replica {
        port: PortId(replica_port(replica).unwrap_or_default()),
        instance: u16::try_from(replica.instance).unwrap_or_default(),
    });
    made.collect()
}

/// Converts an entry. Its fields must be exact, as in the SFU programs.
fn table_write(
    program: &Program,
    index: &P4InfoIndex,
    kind: UpdateType,
    entry: &p4::TableEntry,
) -> Option<Write> {
    let table = program.table(&index.full(Object::Table, entry.table_id))?;
    let key = entry.r#match.iter().map(|field| match Match::of(field)? {
        Match::Exact(value) => Some(MatchField::Exact(value)),
        _ => None,
    });
    let key: Vec<MatchField> = key.collect::<Option<_>>()?;
    if kind == UpdateType::Delete {
        return Some(Write::Delete(table, key, 0));
    }
    let p4::table_action::Type::Action(action) = entry.action.as_ref()?.r#type.as_ref()? else {
        return None;
    };
    let name = index.full(Object::Action, action.action_id);
    let of_name = |id: &dataplane::ActionId| {
        let info = program.action_info(*id);
        info.is_some_and(|info| info.name == name)
    };
    let actions = &program.table_info(table)?.actions;
    let call = ActionCall {
        action: actions.iter().copied().find(of_name)?,
        args: action.params.iter().map(|it| it.value.clone()).collect(),
    };
    let made = TableEntry::new(key, 0, call);
    Some(match kind {
        UpdateType::Modify => Write::Modify(table, made),
        _ => Write::Insert(table, made),
    })
}
