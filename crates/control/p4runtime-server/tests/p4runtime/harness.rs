//! A switch behind a mutex, a server on loopback, and controllers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use control::{Device, Registers, SwitchHandle};
use dataplane::{PortId, SwitchConfig};
use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::stream_message_response::Update as ResponseUpdate;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    DigestList, Entity, Error, ForwardingPipelineConfig, MasterArbitrationUpdate, PacketIn,
    ReadRequest, SetForwardingPipelineConfigRequest, StreamError, StreamMessageRequest,
    StreamMessageResponse, Uint128, Update, WriteRequest,
};
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::text_format;
use p4runtime_server::{Server, ServerConfig, ServerLimits};
use prost::Message;
use testkit::memory_loop::MemoryLoop;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

pub const DEVICE_ID: u64 = 7;
pub const CPU_PORT: PortId = PortId(510);
pub const JSON: &str = include_str!("../fixture/bridge.json");

/// Longer than any step takes: a test that waits so long has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Ids of the fixture's P4Info.
pub mod ids {
    pub const FORWARD: u32 = 33_554_433;
    pub const ROUTES: u32 = 33_554_434;
    pub const ACL: u32 = 33_554_435;
    pub const VERDICTS: u32 = 33_554_436;
    pub const SET_PORT: u32 = 16_777_217;
    pub const SET_GROUP: u32 = 16_777_218;
    pub const TO_CPU: u32 = 16_777_219;
    pub const DISCARD: u32 = 16_777_220;
    pub const SERVE: u32 = 16_777_221;
    pub const DROP_OTHER: u32 = 16_777_222;
    pub const NO_ACTION: u32 = 16_777_223;
    pub const COPIES: u32 = 301_989_889;
    pub const SLOTS: u32 = 369_098_753;
    pub const FLAGS: u32 = 369_098_754;
}

pub fn p4info() -> P4Info {
    text_format::parse_p4info(include_str!("../fixture/bridge.p4info.txtpb")).unwrap()
}

pub fn config() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info()),
        p4_device_config: JSON.into(),
        cookie: None,
    }
}

/// A server and its switch.
pub struct Harness {
    pub switch: Arc<MemoryLoop>,
    pub server: Server,
    pub address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Harness {
    /// Starts a server with the fixture's pipeline.
    pub async fn start() -> Self {
        let harness = Self::without_pipeline(SwitchConfig::default()).await;
        harness.with_pipeline(p4info(), JSON).await
    }

    pub async fn with_pipeline(self, p4info: P4Info, json: &str) -> Self {
        let set = self.server.set_pipeline(p4info, json.into()).await;
        set.unwrap();
        self
    }

    pub async fn without_pipeline(config: SwitchConfig) -> Self {
        let switch = MemoryLoop::start(config, 4);
        Self::with_all(switch, ServerLimits::default(), None).await
    }

    /// Starts a server with the fixture's pipeline. Packets write the pipeline's registers, so each worker has its own
    /// registers.
    pub async fn with_workers(n_workers: usize) -> Self {
        let switch = MemoryLoop::start_workers(SwitchConfig::default(), 4, n_workers);
        let harness = Self::with_all(switch, ServerLimits::default(), None).await;
        harness.with_pipeline(p4info(), JSON).await
    }

    /// Starts a server with the fixture's pipeline.
    pub async fn with_limits(limits: ServerLimits) -> Self {
        let switch = MemoryLoop::start(SwitchConfig::default(), 4);
        let harness = Self::with_all(switch, limits, None).await;
        harness.with_pipeline(p4info(), JSON).await
    }

    /// Starts a server with the fixture's pipeline, over TLS.
    pub async fn with_tls(tls: tls::Server, handshake: Duration) -> Self {
        let switch = MemoryLoop::start(SwitchConfig::default(), 4);
        let limits = ServerLimits {
            handshake,
            ..ServerLimits::default()
        };
        let harness = Self::with_all(switch, limits, Some(tls)).await;
        harness.with_pipeline(p4info(), JSON).await
    }

    async fn with_all(switch: MemoryLoop, limits: ServerLimits, tls: Option<tls::Server>) -> Self {
        let switch = Arc::new(switch);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = ServerConfig {
            device_id: DEVICE_ID,
            cpu_port: Some(CPU_PORT),
        };
        let handle = Arc::clone(&switch) as Arc<dyn SwitchHandle>;
        let device = Device::new(handle, Registers::PerWorker);
        let server = Server::with_limits(config, limits, Arc::new(device)).with_tls(tls);
        let (shutdown, stop) = oneshot::channel();
        let serve = server.clone().serve(listener, async {
            let _ = stop.await;
        });
        let served = tokio::spawn(async { serve.await.unwrap() });
        Self {
            switch,
            server,
            address,
            shutdown,
            served,
        }
    }

    /// Stops the server and waits until all calls that it serves have ended.
    pub async fn stop(self) {
        self.shutdown.send(()).unwrap();
        in_time(self.served).await.unwrap();
    }

    pub async fn client(&self) -> P4RuntimeClient<Channel> {
        let url = format!("http://{}", self.address);
        let client = P4RuntimeClient::connect(url).await.unwrap();
        client.max_decoding_message_size(4 << 20)
    }

    pub async fn switch_client(&self) -> SwitchClient<Channel> {
        let url = format!("http://{}", self.address);
        SwitchClient::connect(url).await.unwrap()
    }

    /// Returns a controller that has opened a stream and sent nothing on it.
    pub async fn stranger(&self) -> Controller {
        Controller::over(self.client().await).await.unwrap()
    }

    /// The primary controller, over the given connection.
    pub async fn primary_over(channel: &Channel) -> Controller {
        let client = P4RuntimeClient::new(channel.clone());
        let mut controller = Controller::over(client).await.unwrap();
        controller.arbitrate(Some(1));
        let code = status_of(&controller.arbitration().await);
        assert_eq!(code, Code::Ok as i32);
        controller
    }

    /// Returns a controller that has sent this election id, and the code of the server's answer.
    pub async fn controller(&self, election_id: u64) -> (Controller, i32) {
        let mut controller = self.stranger().await;
        controller.arbitrate(Some(election_id));
        let code = status_of(&controller.arbitration().await);
        (controller, code)
    }

    /// The primary controller.
    pub async fn primary(&self) -> Controller {
        let (controller, code) = self.controller(1).await;
        assert_eq!(code, Code::Ok as i32);
        controller
    }
}

/// Waits with a timeout.
pub async fn in_time<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(TIMEOUT, future).await;
    waited.expect("the server should have answered by now")
}

pub async fn until(condition: impl Fn() -> bool) {
    in_time(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A controller with a stream.
pub struct Controller {
    pub client: P4RuntimeClient<Channel>,
    pub sender: mpsc::UnboundedSender<StreamMessageRequest>,
    pub stream: Streaming<StreamMessageResponse>,
    pub election_id: Option<Uint128>,
}

impl Controller {
    /// Opens a stream.
    pub async fn over(mut client: P4RuntimeClient<Channel>) -> Result<Self, Status> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let requests = UnboundedReceiverStream::new(receiver);
        let stream = in_time(client.stream_channel(requests)).await?;
        Ok(Self {
            client,
            sender,
            stream: stream.into_inner(),
            election_id: None,
        })
    }

    pub fn send(&self, update: RequestUpdate) {
        let update = Some(update);
        self.sender.send(StreamMessageRequest { update }).unwrap();
    }

    pub fn arbitrate(&mut self, election_id: Option<u64>) {
        self.election_id = election_id.map(|low| Uint128 { high: 0, low });
        self.send(RequestUpdate::Arbitration(MasterArbitrationUpdate {
            device_id: DEVICE_ID,
            election_id: self.election_id,
            ..Default::default()
        }));
    }

    pub async fn next(&mut self) -> Result<Option<ResponseUpdate>, Status> {
        let message = in_time(self.stream.message()).await?;
        Ok(message.and_then(|message| message.update))
    }

    pub async fn arbitration(&mut self) -> MasterArbitrationUpdate {
        match self.next().await {
            Ok(Some(ResponseUpdate::Arbitration(update))) => update,
            other => panic!("expected an arbitration update, got {other:?}"),
        }
    }

    pub async fn error(&mut self) -> StreamError {
        match self.next().await {
            Ok(Some(ResponseUpdate::Error(error))) => error,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    pub async fn packet_in(&mut self) -> PacketIn {
        match self.next().await {
            Ok(Some(ResponseUpdate::Packet(packet))) => packet,
            other => panic!("expected a packet, got {other:?}"),
        }
    }

    pub async fn digests(&mut self) -> DigestList {
        match self.next().await {
            Ok(Some(ResponseUpdate::Digest(list))) => list,
            other => panic!("expected a list of digests, got {other:?}"),
        }
    }

    pub async fn ended(&mut self) -> Status {
        match self.next().await {
            Err(status) => status,
            other => panic!("expected the stream to end with an error, got {other:?}"),
        }
    }

    /// Sets a pipeline, which the server must accept.
    pub async fn commit(&mut self, config: ForwardingPipelineConfig) {
        let set = self.set_pipeline(Action::VerifyAndCommit, Some(config));
        set.await.unwrap();
    }

    pub async fn set_pipeline(
        &mut self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            election_id: self.election_id,
            action: action as i32,
            config,
            ..Default::default()
        };
        let set = self.client.set_forwarding_pipeline_config(request);
        in_time(set).await.map(drop)
    }

    pub async fn write(&mut self, updates: Vec<Update>) -> Result<(), Status> {
        let request = WriteRequest {
            device_id: DEVICE_ID,
            election_id: self.election_id,
            updates,
            ..Default::default()
        };
        in_time(self.client.write(request)).await.map(drop)
    }

    /// Writes one update. Returns the code and message of its error.
    pub async fn write_one(&mut self, kind: Type, entity: Kind) -> Result<(), (Code, String)> {
        let Err(status) = self.write(vec![update(kind, entity)]).await else {
            return Ok(());
        };
        let [error] = &details(&status)[..] else {
            panic!("expected one error, got {status:?}");
        };
        Err((Code::from(error.canonical_code), error.message.clone()))
    }

    pub async fn insert(&mut self, entity: Kind) {
        self.write_one(Type::Insert, entity).await.unwrap();
    }

    pub async fn modify(&mut self, entity: Kind) {
        self.write_one(Type::Modify, entity).await.unwrap();
    }

    pub async fn delete(&mut self, entity: Kind) {
        self.write_one(Type::Delete, entity).await.unwrap();
    }

    /// Writes an update, which the server must refuse. Returns the code.
    pub async fn refused(&mut self, kind: Type, entity: Kind) -> Code {
        self.write_one(kind, entity).await.unwrap_err().0
    }

    /// Writes updates one by one, and checks that the server refuses each with the code that is given for it.
    pub async fn expect_refused(&mut self, cases: impl IntoIterator<Item = (Type, Kind, Code)>) {
        for (kind, entity, expected) in cases {
            match self.write_one(kind, entity.clone()).await {
                Ok(()) => panic!("{kind:?} {entity:?}: expected {expected:?}"),
                Err((code, message)) => assert_eq!(code, expected, "{entity:?}: {message}"),
            }
        }
    }

    /// Reads the entities that match one entity of a request. The server must not refuse the request.
    pub async fn found(&mut self, entity: Kind) -> Vec<Kind> {
        self.read(entity).await.unwrap()
    }

    pub async fn read(&mut self, entity: Kind) -> Result<Vec<Kind>, Status> {
        read(&mut self.client, vec![entity]).await
    }

    /// Sends a read request with one entity, which the server must refuse. Returns the code of the error.
    pub async fn read_error(&mut self, entity: Kind) -> Code {
        let status = self.read(entity).await.unwrap_err();
        let [error] = &details(&status)[..] else {
            panic!("expected one error, got {status:?}");
        };
        Code::from(error.canonical_code)
    }
}

pub async fn read(
    client: &mut P4RuntimeClient<Channel>,
    entities: Vec<Kind>,
) -> Result<Vec<Kind>, Status> {
    let entity = |kind| Entity { entity: Some(kind) };
    let request = ReadRequest {
        device_id: DEVICE_ID,
        entities: entities.into_iter().map(entity).collect(),
        ..Default::default()
    };
    let mut stream = in_time(client.read(request)).await?.into_inner();
    let mut found = Vec::new();
    while let Some(response) = in_time(stream.message()).await? {
        found.extend(response.entities.into_iter().filter_map(|e| e.entity));
    }
    Ok(found)
}

pub fn update(kind: Type, entity: Kind) -> Update {
    Update {
        r#type: kind as i32,
        entity: Some(Entity {
            entity: Some(entity),
        }),
    }
}

/// Returns the errors of a batch from the details of a status. Checks that the details repeat the status's code and
/// message, as required.
pub fn details(status: &Status) -> Vec<Error> {
    assert_eq!(status.code(), Code::Unknown, "{status:?}");
    let details = rpc::Status::decode(status.details()).unwrap();
    assert_eq!(details.code, Code::Unknown as i32);
    assert_eq!(details.message, status.message());
    let errors = details.details.iter();
    errors.map(|any| any.to_msg::<Error>().unwrap()).collect()
}

pub fn status_of(update: &MasterArbitrationUpdate) -> i32 {
    update.status.as_ref().unwrap().code
}

/// An Ethernet frame.
pub fn frame(dst: u64, src: u64, ether_type: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&dst.to_be_bytes()[2..]);
    frame.extend_from_slice(&src.to_be_bytes()[2..]);
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(&[0x5a; 50]);
    frame
}
