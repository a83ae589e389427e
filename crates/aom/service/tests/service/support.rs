//! A sequencer in this process, a service that configures it, and members that verify what they receive.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aom::event::Event;
use aom::receiver::Receiver;
use aom::refused::Refused;
use aom::wire::{Packet, Variant as Kind, request};
use aom_config::keys::PublicKey;
use aom_service::authority::AuthorityError;
use aom_service::members::{Fingerprint, Members, Notice};
use aom_service::operator::{Answer, GroupAdd, GroupState, GroupView, MemberAdd, Request, Variant};
use aom_service::rejoins::RejoinLimits;
use aom_service::sequencer::Sequencer;
use aom_service::service::{Clock, FirstBid, Issue, Operator, Options, Service, ServiceError};
use conformance::aom::frame_to;
use conformance::compile;
use conformance::packet::udp_copy;
use k256::ecdsa::SigningKey;
use p4runtime_client::SwitchAddress;
use p4runtime_server::{Server, Stored};
use state_store::StateFile;
use testkit::memory_loop::MemoryLoop;
use testkit::p4runtime;
use testkit::repository::root;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const SENDER: u16 = 1;
pub const MEMBERS: u16 = 2;
/// How long a test waits for anything.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A switch with a P4Runtime server. The test passes frames to the switch by method calls.
pub struct Switch {
    frames: Arc<MemoryLoop>,
    /// The switch's own runtime, so that the switch's connections end when the switch ends.
    runtime: Option<Runtime>,
    pub address: String,
    /// The state file.
    state: Option<PathBuf>,
    /// The services' clock, which advances at each reading.
    clock: Arc<AtomicU64>,
}

impl Switch {
    pub async fn start() -> Switch {
        Switch::start_at("127.0.0.1:0", None).await
    }

    pub async fn with_state(path: &Path) -> Switch {
        Switch::start_at("127.0.0.1:0", Some(path.to_owned())).await
    }

    async fn start_at(address: &str, state: Option<PathBuf>) -> Switch {
        let until = tokio::time::Instant::now() + TIMEOUT;
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener.into_std().expect("a port"),
                Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let address = listener.local_addr().expect("an address").to_string();
        let (frames, server) = p4runtime::server(8);
        let runtime = Runtime::new().expect("a runtime");
        if let Some(path) = &state {
            let restored = restored(path.clone(), server.clone());
            runtime.spawn(restored).await.expect("it is restored");
        }
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a port");
            server.serve(listener, std::future::pending()).await
        });
        Switch {
            frames,
            runtime: Some(runtime),
            address,
            state,
            clock: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Kills the switch and starts it again. Only the state file's content survives.
    pub async fn restart(&mut self) {
        self.end();
        let clock = Arc::clone(&self.clock);
        *self = Switch::start_at(&self.address.clone(), self.state.clone()).await;
        self.clock = clock;
    }

    /// Restarts the switch as `restart` does, but first writes `state` to the state file; `None` deletes the file.
    pub async fn restart_with(&mut self, state: Option<&[u8]>) {
        self.end();
        let path = self.state.clone().expect("it has a state file");
        // The content goes into a new file, since the former process may still be closing the old file.
        std::fs::remove_file(&path).expect("removed");
        if let Some(state) = state {
            std::fs::write(path, state).expect("written");
        }
        self.restart().await;
    }

    /// The content of the state file, as a backup.
    pub fn state(&self) -> Vec<u8> {
        let path = self.state.as_ref().expect("it has a state file");
        std::fs::read(path).expect("it is there")
    }

    /// A clock that advances by an eighth of a second at each reading, so that no epoch has to wait.
    fn clock(&self) -> Clock {
        let clock = Arc::clone(&self.clock);
        Clock::new(move || {
            let n_looks = clock.fetch_add(1, Ordering::Relaxed);
            Duration::from_millis(1_800_000_000_000 + 125 * n_looks)
        })
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Sets every cell of every register to 0, as something other than a P4Runtime controller could.
    pub fn reset_registers(&self) {
        self.frames.in_switch(0, |switch| {
            let program = switch.program().expect("a program").clone();
            for (register, _) in program.registers() {
                let cells = 0..switch.register_size(register);
                let set = switch.set_register_cells(register, cells, &[0]);
                set.expect("its cells");
            }
        });
    }

    /// Sends a request to a group's address, and returns the copies that the switch sends to the members.
    pub fn request(&self, address: Ipv4Addr, message: &[u8]) -> Vec<Copy> {
        let datagram = request(Kind::Tagged, 0, message);
        self.frames.receive(SENDER, &frame_to(address, &datagram));
        let left = self.frames.transmitted();
        let copies = left.iter().map(|sent| {
            assert_eq!(sent.port.0, MEMBERS);
            let copy = udp_copy(&sent.frame);
            Copy {
                to: (copy.ips.1, copy.ports.1),
                datagram: copy.payload,
            }
        });
        copies.collect()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Restores the state file as the switch does with `--state`.
async fn restored(path: PathBuf, server: Server) {
    let until = tokio::time::Instant::now() + TIMEOUT;
    // The former process may still hold the file's lock.
    let (file, contents) = loop {
        match StateFile::open(&path) {
            Ok(opened) => break opened,
            Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    if let Some(pipeline) = contents.forwards {
        let stored = Stored {
            config: pipeline.config,
            learned: pipeline.learned,
            operations: pipeline.operations,
        };
        server.restore(stored).await.expect("it takes it again");
    }
    server.device().keep_in(Arc::new(file));
}

/// A packet from the switch to a member.
pub struct Copy {
    pub to: (Ipv4Addr, u16),
    pub datagram: Vec<u8>,
}

/// Issues numbers as member files: these tests need no certificates.
struct Numbers(AtomicU64);

impl Issue for Numbers {
    fn issue(&self, _group: &str, _member: &str) -> Result<(String, Fingerprint), String> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        Ok((number.to_string(), fingerprint(&number.to_string())))
    }
}

pub fn fingerprint(file: &str) -> Fingerprint {
    let mut it = [0; 32];
    it[..8].copy_from_slice(&file.parse::<u64>().expect("a number").to_be_bytes());
    it
}

/// A running service.
pub struct Running {
    pub operator: Operator,
    pub members: Members,
    ended: JoinHandle<Result<(), ServiceError>>,
    stop: Option<oneshot::Sender<()>>,
}

pub fn options(switch: &Switch, folder: &Path) -> Options {
    let (p4info, config) = compile::pipeline(&root().join("p4/aom_hm.p4"));
    Options {
        switch: SwitchAddress::plain(&switch.address),
        device_id: 1,
        state: folder.to_owned(),
        sequencer: Sequencer::new(p4info, config, "02:00:00:00:00:ff", vec![SENDER])
            .expect("a sequencer"),
        ack_deadline: TIMEOUT,
        replaces_programs: false,
        first_bid: FirstBid::default(),
        rejoins: RejoinLimits::default(),
        clock: switch.clock(),
        stop_at: None,
    }
}

pub fn start_with(
    options: Options,
    issuer: impl FnOnce() -> Result<Box<dyn Issue>, AuthorityError>,
) -> Result<Running, ServiceError> {
    let service = Service::open(options, issuer)?;
    Ok(run(service))
}

pub fn start(options: Options) -> Result<Running, ServiceError> {
    static ISSUED: AtomicU64 = AtomicU64::new(1);
    // Each start gets its own range of numbers, so that a restarted service issues no number again.
    let issuer = Numbers(AtomicU64::new(
        ISSUED.fetch_add(1_000_000, Ordering::Relaxed),
    ));
    start_with(options, || Ok(Box::new(issuer)))
}

fn run(service: Service) -> Running {
    let (operator, members) = (service.operator(), service.members());
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(service.run(async {
        let _ = stopped.await;
    }));
    Running {
        operator,
        members,
        ended,
        stop: Some(stop),
    }
}

impl Running {
    pub async fn done(&self, request: Request) -> (String, Option<GroupView>, Option<String>) {
        match self.operator.ask(request.clone()).await {
            Answer::Done {
                message,
                group,
                member_file,
            } => (message, group.map(|it| *it), member_file),
            other => unreachable!("{request:?}: {other:?}"),
        }
    }

    pub async fn fails(&self, request: Request) -> String {
        match self.operator.ask(request.clone()).await {
            Answer::Failed { error } => error,
            other => unreachable!("{request:?}: {other:?}"),
        }
    }

    pub async fn show(&self, group: &str) -> GroupView {
        let request = Request::GroupShow {
            group: Some(group.to_owned()),
        };
        match self.operator.ask(request).await {
            Answer::Groups { mut groups } => groups.remove(0),
            other => unreachable!("{other:?}"),
        }
    }

    /// Waits until the group is active.
    pub async fn active(&self, group: &str) -> GroupView {
        let until = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let view = self.show(group).await;
            if view.state == GroupState::Active {
                return view;
            }
            assert!(tokio::time::Instant::now() < until, "{view:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn advance(&self, group: &str) -> GroupView {
        let group = group.to_owned();
        let (_, view, _) = self.done(Request::EpochAdvance { group }).await;
        view.expect("it is there")
    }

    pub async fn stop(mut self) {
        self.end().await;
    }

    pub async fn end(&mut self) {
        let stop = self.stop.take().expect("it was not stopped yet");
        stop.send(()).expect("it runs");
        let ended = (&mut self.ended).await;
        ended.expect("no panic").expect("no error");
    }

    /// Waits for the service to end by itself, with an error.
    pub async fn error(self) -> ServiceError {
        let ended = tokio::time::timeout(TIMEOUT, self.ended).await;
        let ended = ended.expect("it ends").expect("no panic");
        ended.expect_err("an error")
    }
}

/// A group as the operator adds it, with its members' files and the members that have joined.
pub struct Group {
    pub name: String,
    pub address: Ipv4Addr,
    pub byzantine: bool,
    /// The members' files, by member name.
    pub files: BTreeMap<String, String>,
    pub members: BTreeMap<String, TestMember>,
}

impl Group {
    pub async fn add(service: &Running, name: &str, n_members: u8) -> Group {
        Group::add_as(service, name, n_members, false).await
    }

    pub async fn add_as(service: &Running, name: &str, n_members: u8, byzantine: bool) -> Group {
        let mut group = Group {
            name: name.to_owned(),
            address: Ipv4Addr::new(239, 1, 0, name.len() as u8),
            byzantine,
            files: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        service.done(Request::GroupAdd(group.request())).await;
        for number in 0..n_members {
            let (_, _, file) = service.done(group.member(number)).await;
            let name = member_name(number);
            group.files.insert(name, file.expect("a file"));
        }
        group
    }

    pub fn request(&self) -> GroupAdd {
        GroupAdd {
            group: self.name.clone(),
            number: None,
            address: Some(self.address),
            variant: Variant::Tagged,
            byzantine: self.byzantine,
        }
    }

    pub fn member(&self, number: u8) -> Request {
        let [.., group] = self.address.octets();
        Request::MemberAdd(MemberAdd {
            group: self.name.clone(),
            member: member_name(number),
            mac: format!("02:00:00:01:{group:02x}:{number:02x}"),
            ip: Ipv4Addr::new(10, 0, group, number),
            udp_port: 7000,
            switch_port: MEMBERS,
        })
    }

    /// Connects all members. Each member handles the service's first message.
    pub async fn join(&mut self, service: &Running) {
        for (name, file) in &self.files {
            let member = self.members.remove(name).unwrap_or_default();
            let key = self.byzantine.then(|| member.key());
            let joined = member.join(service, (&self.name, name), file, key).await;
            joined.expect("it joins");
            self.members.insert(name.clone(), member);
        }
    }

    /// Sends a request, and delivers the copies to all members.
    pub fn send(&self, switch: &Switch, message: &[u8]) {
        for copy in switch.request(self.address, message) {
            self.give(&copy);
        }
    }

    pub fn give(&self, copy: &Copy) {
        let [.., number] = copy.to.0.octets();
        if let Some(member) = self.members.get(&member_name(number)) {
            member.give(&copy.datagram);
        }
    }
}

pub fn member_name(number: u8) -> String {
    format!("m{number:02}")
}

/// A member that installs each membership at once.
#[derive(Clone, Default)]
pub struct TestMember(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    receiver: Option<Receiver>,
    events: Vec<Event>,
    refusal: Option<String>,
    is_silent: bool,
    /// The confirm key of this process; `None` until the first call of [`TestMember::key`].
    key: Option<PublicKey>,
    /// The member's confirm key in each membership that the service sent to the member.
    announced_keys: Vec<Option<PublicKey>>,
}

impl TestMember {
    /// Connects, and handles the service's first message.
    pub async fn join(
        &self,
        service: &Running,
        (group, name): (&str, &str),
        file: &str,
        key: Option<PublicKey>,
    ) -> Result<(), String> {
        let joined = service.members.join((group, name), fingerprint(file), key);
        let mut notices = joined.await.map_err(|error| error.to_string())?;
        let (member, members) = (self.clone(), service.members.clone());
        let (group, name) = (group.to_owned(), name.to_owned());
        let first = notices.borrow_and_update().clone();
        member.receive(first, &members, (&group, &name)).await;
        tokio::spawn(async move {
            while notices.changed().await.is_ok() {
                let now = notices.borrow_and_update().clone();
                member.receive(now, &members, (&group, &name)).await;
            }
        });
        Ok(())
    }

    /// The confirm key of this process. Each `TestMember` has its own key, as each process of a real member does.
    pub fn key(&self) -> PublicKey {
        static PROCESSES: AtomicU64 = AtomicU64::new(1);
        let new = || {
            let mut secret = [7; 32];
            let number = PROCESSES.fetch_add(1, Ordering::Relaxed);
            secret[..8].copy_from_slice(&number.to_be_bytes());
            let key = SigningKey::from_slice(&secret).expect("a key");
            PublicKey::from(*key.verifying_key())
        };
        *self.inside().key.get_or_insert_with(new)
    }

    /// Whether every membership had this process's key.
    pub fn confirms_with_its_own_key_only(&self) -> bool {
        let inside = self.inside();
        inside.announced_keys.iter().all(|key| *key == inside.key)
    }

    async fn receive(&self, notice: Notice, members: &Members, who: (&str, &str)) {
        let membership = match notice {
            Notice::Nothing => return,
            Notice::Refused(reason) => {
                self.inside().refusal = Some(reason);
                return;
            }
            Notice::Membership(membership) => membership,
        };
        let to_receive = membership.to_receiver().expect("a membership");
        if self.inside().is_silent {
            return;
        }
        let own = membership.receivers.get(usize::from(membership.receiver));
        let key = own.and_then(|own| own.confirm_key);
        self.inside().announced_keys.push(key);
        self.inside().install(to_receive);
        // The acknowledgement fails if the service has ended.
        let _ = members.installed(who, membership.epoch).await;
    }

    pub fn be_silent(&self) {
        self.inside().is_silent = true;
    }

    fn give(&self, datagram: &[u8]) {
        let mut inside = self.inside();
        if let Some(receiver) = &mut inside.receiver {
            receiver.handle_datagram(Duration::ZERO, datagram);
        }
        inside.take();
    }

    /// Returns epoch, sequence number and text of each delivered message.
    pub fn delivered(&self) -> Vec<(u64, u32, String)> {
        let inside = self.inside();
        let delivered = inside.events.iter().map(|event| match event {
            Event::Message(it) => {
                let text = String::from_utf8(it.payload.clone()).expect("text");
                (it.epoch, it.sequence, text)
            }
            other => unreachable!("{other:?}"),
        });
        delivered.collect()
    }

    pub fn refused(&self) -> Option<Refused> {
        self.inside().receiver.as_ref().map(Receiver::refused)
    }

    pub fn refusal(&self) -> Option<String> {
        self.inside().refusal.clone()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn install(&mut self, membership: aom::membership::Membership) {
        match &mut self.receiver {
            None => self.receiver = Some(Receiver::new(membership, 1).expect("a membership")),
            Some(receiver) if receiver.membership().epoch == membership.epoch => {
                assert_eq!(receiver.membership(), &membership, "an epoch is one");
            }
            // A service with an older state sent this membership. A real member refuses it and waits for a later
            // membership.
            Some(receiver) if receiver.membership().epoch > membership.epoch => {}
            Some(receiver) => {
                receiver.advance(membership, None).expect("a membership");
            }
        }
        self.take();
    }

    fn take(&mut self) {
        let receiver = self.receiver.as_mut();
        let events = receiver
            .into_iter()
            .flat_map(|it| std::iter::from_fn(|| it.poll_event()));
        self.events.extend(events);
    }
}

/// The message of each group, epoch and sequence number. No two messages may have the same group, epoch and sequence
/// number.
#[derive(Default)]
pub struct Stamps(BTreeMap<(u16, u64, u32), Vec<u8>>);

impl Stamps {
    pub fn note(&mut self, copies: &[Copy]) {
        for copy in copies {
            let packet = Packet::read(&copy.datagram).expect("a packet");
            let stamp = packet.stamp;
            let place = (stamp.group, u64::from(stamp.epoch), stamp.sequence);
            let message = packet.message.to_vec();
            let first = self.0.entry(place).or_insert_with(|| message.clone());
            assert_eq!(*first, message, "{place:?} was given twice");
        }
    }
}
