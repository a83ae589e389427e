//! Makes a random conference for the SFU programs, in which viewers and presenters join and leave. The real server
//! translates the real controller's writes into operations on the switch. These operations are recorded, and can be
//! replayed between frames on other switches.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use conference::{
    address::Mac,
    backend::SfuProgram as Backend,
    model::{Conference, GroupId, ModelError, OwnAddress, Presenter, Viewer},
    plan::{self, Target},
};
use control::{BorrowedSwitch, Kept, Operation, Store, StoreError};
use dataplane::{Program, Switch, SwitchConfig};
use fastrand::Rng;
use p4runtime_client::{Client, ClientError, SwitchAddress};
use p4runtime_proto::p4::v1::{Entity, Update};

use super::{Case, Step, Write, random_config, random_frame};
use crate::{
    controller::{DEVICE_ID, device, server_of},
    packet::udp_frame,
    sfu::{SFU_IP, SFU_MAC, SFU_PORT, STREAM_PORT, SfuProgram},
};

const GROUPS: u16 = 4;
/// The usual maximum number of viewers in a group.
const VIEWERS_MAX: usize = 12;
const CHANGES: usize = 24;
/// The duration of a drain, a pause in which the queues become empty.
const DRAIN_NS: u64 = 20_000_000;

#[derive(Debug, Clone)]
enum Call {
    Write(Write),
    Drain,
}

#[derive(Debug, Clone)]
pub struct Script {
    /// The calls of each change. The first change sets everything up.
    changes: Vec<Vec<Call>>,
}

/// The executed operations that have not been taken yet, in the order of execution.
#[derive(Default)]
struct Executed(Mutex<Vec<Operation>>);

impl Executed {
    fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Executed {
    fn catch_up(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn keep(&self, kept: Kept) -> Result<(), StoreError> {
        if let Kept::Written(_, _, batch, results) = kept {
            let executed = batch.operations.iter().zip(&*results);
            let executed = executed.filter(|(_, result)| result.is_ok());
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(executed.map(|(operation, _)| operation.clone()));
        }
        Ok(())
    }
}

struct Recorder {
    client: Client,
    executed: Arc<Executed>,
    calls: Vec<Call>,
}

impl Target for Recorder {
    type Error = ClientError;

    async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        self.client.read(entities).await
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), ClientError> {
        self.client.write(updates).await?;
        let writes = self.executed.take().into_iter().map(Write::of);
        self.calls.extend(writes.map(Call::Write));
        Ok(())
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
    let executed = Arc::new(Executed::default());
    let device = device(&BorrowedSwitch::new(switch));
    device.keep_in(Arc::clone(&executed) as Arc<dyn Store>);
    let server = server_of(device);
    let set = server.set_pipeline(p4info, json).await;
    set.expect("the program fits its P4Info");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port on the loopback");
    let address = listener.local_addr().expect("its number").to_string();
    let serving = tokio::spawn(server.serve(listener, std::future::pending()));
    let mut client = Client::connect(&SwitchAddress::plain(&address), DEVICE_ID)
        .await
        .expect("a client");
    client.become_primary().await.expect("the only client");
    let mut recorder = Recorder {
        client,
        executed,
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
        // The program serves packets of group 1's presenter only if they have this source MAC address.
        mac: (group == 1).then_some(Mac(crate::sfu::PRESENTER_MAC)),
        udp_port: has_udp_ports.then_some(STREAM_PORT),
    }
}

/// Sets the SFU's address, and adds every group with some viewers.
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

/// Lets viewers join and leave, removes groups, and adds groups again.
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

/// Makes a frame for the program, in most cases a presenter's packet.
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

/// Makes a case in which each change of the script has a random position among random frames. There may also be frames
/// between the calls of one change.
pub fn conference(program: &Program, script: &Script, seed: u64, n_frames: usize) -> Case {
    let mut rng = Rng::with_seed(seed);
    let mut config = random_config(&mut rng);
    if rng.bool() {
        // Without the limit, a packet of `sfu_recirculation.p4` makes all of its copies without waiting.
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
        // The calls keep their order, with any number of frames between two calls.
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
