//! The connection to a switch. It brings what the conferences need into the switch, again after each restart of the
//! switch or the service, and answers the hellos that the switch passes on. With hellos a host signs a socket in. A leg
//! is a participant's connection by one UDP socket.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use conference_model::{LegEntries, Request};
use conference_store::{Store, StoreError};
use hello::{Kind, Nonces};
use p4runtime_client::objects::ObjectError;
use p4runtime_client::whole_batches;
use p4runtime_client::{Bid, Client, ClientError, Reader, SwitchAddress, WriteError};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    PacketIn, PacketMetadata, PacketOut, Update, stream_message_response,
};
use p4runtime_proto::reprise::v1::GetCountersResponse;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::HelloFrame;
use crate::activity::{self, Activity, Reading, Verdicts};
use crate::core::{Core, CoreError, now_ms};
use crate::metrics::Metrics;
use crate::rows::{OwnAddress, Rows, Tables};
use crate::sign_in::{Clocks, Outcome, decide};

/// The pause before the next attempt to connect. It is so short that a restarted switch has its entries again within a
/// second.
const RETRY: Duration = Duration::from_millis(200);
/// How often the switch's counters are read.
const LOOK: Duration = Duration::from_secs(1);
/// A write that takes longer is given up, and the switch is read again.
const CALL: Duration = Duration::from_secs(5);

/// A compiled `p4/conference.p4`.
#[derive(Clone, Debug)]
pub struct Program {
    pub p4info: P4Info,
    /// The switch's configuration: BMv2 JSON.
    pub json: Vec<u8>,
    /// A number that is the same for the same program, wherever it was compiled: the switch keeps its entries when a
    /// service of another version has the same program.
    pub cookie: u64,
}

/// A switch, and what the service puts into it.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The address at which the switch serves P4Runtime.
    pub address: SwitchAddress,
    /// The switch's P4Runtime device id.
    pub device_id: u64,
    /// The program that the switch runs.
    pub program: Program,
    /// The switch's addresses for media.
    pub own_addresses: Vec<OwnAddress>,
    /// After how long a silent socket is signed out.
    pub silence: Duration,
}

/// Why a connection to the switch ended. The service then connects again.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A call failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the switch refused a write: {0}")]
    Write(#[from] WriteError),
    /// The program's P4Info lacks an object that the service needs, or has it in another shape.
    #[error("p4/conference.p4: {0}")]
    Program(#[from] ObjectError),
    #[error(
        "another controller is primary (election id {0}): end it, or give this service another switch"
    )]
    NotPrimary(u128),
    /// The store cannot give a greater term, which serves as the election id.
    #[error(
        "another controller had election id {highest}, and the store gives no greater one: {error}"
    )]
    Term {
        /// The switch's highest election id.
        highest: u128,
        /// Why the store cannot give a greater term.
        error: String,
    },
    /// The program has no header for packets to and from the controller.
    #[error("p4/conference.p4: expected packet_in and packet_out with a port")]
    NoPackets,
}

/// Where a connection reports the switch's counters and its own metrics.
#[derive(Clone, Debug)]
pub struct Observers {
    /// What the switch has counted.
    pub activity: watch::Sender<Arc<Activity>>,
    /// Counters for Prometheus.
    pub metrics: Arc<Metrics>,
}

impl Observers {
    /// Records that the service is not connected to the switch.
    pub fn is_away(&self) {
        let away = |it: &mut Arc<Activity>| *it = Arc::new(it.away());
        self.activity.send_modify(away);
    }
}

/// Serves a switch for ever. `began` is the instant at which the steady clock of [`Activity`] shows zero.
pub async fn serve(
    core: Core,
    switch: Switch,
    nonces: Nonces,
    began: Instant,
    observers: Observers,
) {
    let mut was = String::new();
    loop {
        let Err(error) = Session::serve(&core, &switch, &nonces, began, &observers).await;
        core.switch_is_away();
        observers.is_away();
        let now = error.to_string();
        // A switch that is away for an hour makes only one line in the log.
        if now != was {
            tracing::warn!(switch = %switch.address, %error, "the switch is away");
            was = now;
        }
        tokio::time::sleep(RETRY).await;
    }
}

enum Never {}

/// The ids of the fields of packet-in and packet-out.
#[derive(Debug, Clone, Copy)]
struct PacketFields {
    ingress_port: u32,
    egress_port: u32,
    padding: u32,
}

impl PacketFields {
    fn find(p4info: &P4Info) -> Option<PacketFields> {
        let field = |header: &str, name: &str| {
            let headers = p4info.controller_packet_metadata.iter();
            let mut of_name =
                headers.filter(|it| it.preamble.as_ref().is_some_and(|it| it.name == header));
            let fields = &of_name.next()?.metadata;
            Some(fields.iter().find(|it| it.name == name)?.id)
        };
        Some(PacketFields {
            ingress_port: field("packet_in", "ingress_port")?,
            egress_port: field("packet_out", "egress_port")?,
            padding: field("packet_out", "_pad")?,
        })
    }

    fn port_of(&self, packet: &PacketIn) -> Option<u16> {
        let mut fields = packet.metadata.iter();
        let port = fields.find(|it| it.metadata_id == self.ingress_port)?;
        u16::try_from(p4runtime_client::bytestring::number(&port.value)?).ok()
    }

    fn packet_out(&self, port: u16, frame: Vec<u8>) -> PacketOut {
        let field = |metadata_id, value: u16| PacketMetadata {
            metadata_id,
            value: p4runtime_client::bytestring::bytes(value),
        };
        PacketOut {
            payload: frame,
            metadata: vec![field(self.egress_port, port), field(self.padding, 0)],
        }
    }
}

struct Session<'s> {
    core: &'s Core,
    switch: &'s Switch,
    nonces: &'s Nonces,
    began: Instant,
    client: Client,
    tables: Tables,
    fields: PacketFields,
    /// What the switch has for each leg.
    written: BTreeMap<u16, LegEntries>,
    /// Welcomes, the answers to hellos, that are sent when the switch has the entries of the leg.
    welcomes: BTreeMap<u16, (u16, Vec<u8>)>,
    verdicts: Verdicts,
    observers: &'s Observers,
}

impl Session<'_> {
    async fn serve(
        core: &Core,
        switch: &Switch,
        nonces: &Nonces,
        began: Instant,
        observers: &Observers,
    ) -> Result<Never, SessionError> {
        let mut client = Client::connect_once(&switch.address, switch.device_id).await?;
        client.set_call_timeout(CALL);
        become_primary(&mut client, core.store()).await?;
        let program = &switch.program;
        let cookie = match client.pipeline(ResponseType::CookieOnly).await {
            Ok(config) => config.cookie.map(|it| it.cookie),
            Err(ClientError::NoPipeline | ClientError::NoP4Info) => None,
            // A new program would end all forwarding, so a switch that only answers late must keep the program that it
            // has.
            Err(error) => return Err(error.into()),
        };
        if cookie != Some(program.cookie) {
            let (p4info, json) = (program.p4info.clone(), program.json.clone());
            client
                .set_pipeline_with_cookie(p4info, json, program.cookie)
                .await?;
            let counting_anew = |it: &mut Arc<Activity>| *it = Arc::new(it.counting_anew());
            observers.activity.send_modify(counting_anew);
        }
        let tables = Tables::find(&program.p4info)?;
        let verdicts = Verdicts::find(&program.p4info)?;
        let fields = PacketFields::find(&program.p4info).ok_or(SessionError::NoPackets)?;
        let mut session = Session {
            core,
            switch,
            nonces,
            began,
            client,
            tables,
            fields,
            written: BTreeMap::new(),
            welcomes: BTreeMap::new(),
            verdicts,
            observers,
        };
        let change = core.last_change();
        session.reconcile().await?;
        // The limits are written each time: a service that was killed after it had set the program may have set no
        // limit.
        let limits = session.tables.hello_limits();
        session.write(limits).await?;
        tracing::info!(switch = %switch.address, legs = session.written.len(), "the switch is whole");
        core.switch_has(change);
        let clocks = session.clocks();
        let connected = |it: &mut Arc<Activity>| *it = Arc::new(it.connected(clocks));
        observers.activity.send_modify(connected);
        session.follow().await
    }

    /// Reads the switch's entries, and writes those updates after which it has exactly the entries that the conferences
    /// need.
    async fn reconcile(&mut self) -> Result<(), SessionError> {
        let entities = self.client.read(self.tables.wildcards()).await?;
        let mut there = Rows::default();
        there.add_read(&self.tables, &entities);
        let mut desired = Rows::default();
        for own in &self.switch.own_addresses {
            desired.add_own_address(own);
        }
        {
            let model = self.core.model().await;
            for leg in model.legs() {
                let entries = model.entries(leg);
                desired.add_leg(leg, &entries);
                self.written.insert(leg, entries);
            }
        }
        let updates = there.updates(&desired, &self.tables);
        self.write(updates).await
    }

    async fn follow(&mut self) -> Result<Never, SessionError> {
        let (signed, mut signs_in) = mpsc::channel(256);
        let (to_session, mut readings) = mpsc::channel(1);
        let (tables, verdicts) = (self.tables.clone(), self.verdicts.clone());
        // The counters are read while the session does its other work: reading a thousand legs takes a while, and
        // others sign in meanwhile.
        let mut looking = pin!(look(self.client.reader(), tables, verdicts, to_session));
        let core = self.core.clone();
        loop {
            tokio::select! {
                (touched, change) = core.touched() => {
                    self.rewrite(touched).await?;
                    core.switch_has(change);
                }
                message = self.client.next_message() => {
                    if let stream_message_response::Update::Packet(packet) = message? {
                        self.packet_in(&packet, &signed).await?;
                    }
                }
                Some((leg, done)) = signs_in.recv() => self.signed_in(leg, done).await?,
                Some(reading) = readings.recv() => self.take(&reading).await,
                error = &mut looking => return Err(error.into()),
            }
        }
    }

    /// Writes the entries that the touched legs need now, all together, and sends the welcomes that wait for these
    /// entries.
    async fn rewrite(
        &mut self,
        touched: impl IntoIterator<Item = u16>,
    ) -> Result<(), SessionError> {
        let (mut there, mut desired) = (Rows::default(), Rows::default());
        let mut legs = Vec::new();
        {
            let model = self.core.model().await;
            for leg in touched {
                let entries = model.entries(leg);
                let old = self.written.remove(&leg).unwrap_or_default();
                there.add_leg(leg, &old);
                desired.add_leg(leg, &entries);
                if entries != LegEntries::default() {
                    self.written.insert(leg, entries);
                }
                legs.push(leg);
            }
        }
        let updates = there.updates(&desired, &self.tables);
        self.write(updates).await?;
        for leg in legs {
            if self.written.contains_key(&leg)
                && let Some((port, frame)) = self.welcomes.remove(&leg)
            {
                self.send(port, frame).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), SessionError> {
        for batch in whole_batches(&updates) {
            self.client
                .write_batch(batch.to_vec(), Atomicity::DataplaneAtomic)
                .await?;
        }
        Ok(())
    }

    async fn send(&mut self, port: u16, frame: Vec<u8>) -> Result<(), SessionError> {
        let packet = self.fields.packet_out(port, frame);
        Ok(self.client.packet_out(packet).await?)
    }

    async fn packet_in(
        &mut self,
        packet: &PacketIn,
        signed: &mpsc::Sender<(u16, Result<(), CoreError>)>,
    ) -> Result<(), SessionError> {
        let Some(port) = self.fields.port_of(packet) else {
            return Ok(());
        };
        let Ok(frame) = HelloFrame::parse(port, &packet.payload) else {
            return Ok(());
        };
        let clocks = self.clocks();
        let outcome = {
            let model = self.core.model().await;
            let activity = Arc::clone(&self.observers.activity.borrow());
            let still_sends = |leg, there: &_| activity.still_sends(leg, there);
            let (from, payload) = (&frame.from, &frame.payload);
            let outcome = decide(&model, self.nonces, clocks, from, payload, still_sends);
            self.observers.metrics.hello(&outcome);
            let signed = match &outcome {
                Outcome::Ignored(why) => {
                    let (address, port) = (frame.from.address, frame.from.udp_port);
                    tracing::debug!(%address, port, %why, "a hello is ignored");
                    None
                }
                Outcome::Answered(answer) => Some((u16::try_from(answer.leg).ok(), *answer)),
                Outcome::SignsIn { leg, welcome } => Some((Some(*leg), *welcome)),
            };
            signed.and_then(|(leg, answer)| {
                let leg = leg?;
                let bytes = answer.sign(&model.leg_record(leg)?.key);
                // The entries of a stored sign-in may not be in the switch yet.
                let is_early = answer.kind == Kind::Welcome
                    && self.written.get(&leg) != Some(&model.entries(leg));
                Some((outcome, leg, frame.answer(&bytes), is_early))
            })
        };
        match outcome {
            None => {}
            Some((Outcome::SignsIn { .. }, leg, answer, _)) => {
                self.welcomes.insert(leg, (port, answer));
                let (core, signed) = (self.core.clone(), signed.clone());
                let binding = frame.from;
                tokio::spawn(async move {
                    let done = core.ask(Request::SignIn { leg, binding }).await;
                    // Sending fails if the connection to the switch has ended meanwhile.
                    let _ = signed.send((leg, done)).await;
                });
            }
            Some((_, leg, answer, true)) => {
                self.welcomes.insert(leg, (port, answer));
            }
            Some((_, _, answer, false)) => self.send(port, answer).await?,
        }
        Ok(())
    }

    /// Handles the result of a sign-in, which was stored or refused. A welcome is sent later, when the switch has the
    /// leg's entries.
    async fn signed_in(
        &mut self,
        leg: u16,
        done: Result<(), CoreError>,
    ) -> Result<(), SessionError> {
        self.observers.metrics.sign_in(done.is_ok());
        if let Err(error) = done {
            tracing::warn!(leg, %error, "a sign-in failed");
            self.welcomes.remove(&leg);
        }
        Ok(())
    }

    fn clocks(&self) -> Clocks {
        Clocks {
            steady_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            wall_ms: now_ms(),
        }
    }

    /// Takes a reading of the counters: updates the activity and the metrics, and signs out sockets that have been
    /// silent for too long.
    async fn take(&mut self, reading: &Reading) {
        let clocks = self.clocks();
        let next = Arc::new(self.observers.activity.borrow().next(reading, clocks));
        self.observers.metrics.activity(&next);
        self.observers.activity.send_replace(Arc::clone(&next));
        let silence_ms = u64::try_from(self.switch.silence.as_millis()).unwrap_or(u64::MAX);
        let silent = next.silent(&*self.core.model().await, silence_ms);
        for request in silent {
            let core = self.core.clone();
            tokio::spawn(async move {
                if let Err(error) = core.ask(request).await {
                    tracing::warn!(%error, "a silent socket could not be signed out");
                }
            });
        }
    }
}

/// Reads the counters again and again, until an error makes this impossible. Returns the error.
async fn look(
    mut reader: Reader,
    tables: Tables,
    verdicts: Verdicts,
    readings: mpsc::Sender<Reading>,
) -> ClientError {
    let (sockets, receivers) = (tables.sockets(), tables.receivers());
    let wildcards = activity::wildcards(sockets, receivers, &verdicts);
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let entities = match reader.read(wildcards.clone()).await {
            Ok(entities) => entities,
            Err(error) => return error,
        };
        let counters = match reader.counters().await {
            Ok(counters) => counters,
            // A switch other than Reprise's may not have this call.
            Err(error) => {
                tracing::debug!(%error, "the switch does not tell of its ports");
                GetCountersResponse::default()
            }
        };
        let reading = Reading::new((sockets, receivers, &verdicts), &entities, &counters);
        // Sending fails if the session has ended.
        let _ = readings.send(reading).await;
    }
}

/// Becomes the primary controller with the store's term as election id. If another controller had a greater election id
/// and is gone, the store raises its term first; a service that does not lead any more cannot raise it.
async fn become_primary(client: &mut Client, store: &Store) -> Result<(), SessionError> {
    loop {
        match client.become_primary_as(store.term().into()).await? {
            Bid::Primary => return Ok(()),
            Bid::TooLow {
                highest,
                somebody_is_primary: false,
            } => {
                let above = u64::try_from(highest).ok().and_then(|it| it.checked_add(1));
                let raised = match above {
                    Some(above) => store.raise_term(above).await,
                    None => Err(StoreError::Failed("terms have 64 bits".to_owned())),
                };
                let failed = |error: StoreError| SessionError::Term {
                    highest,
                    error: error.to_string(),
                };
                raised.map_err(failed)?;
            }
            Bid::TooLow { highest, .. } => return Err(SessionError::NotPrimary(highest)),
        }
    }
}
