//! Runs the fake switch as a gRPC server on the loopback interface, with arbitration.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use conference::address::Mac;
use p4runtime_client::bytestring;
use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use p4runtime_proto::p4::v1::{
    self as p4, CapabilitiesRequest, CapabilitiesResponse, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse,
    MasterArbitrationUpdate, PacketIn, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    StreamMessageResponse, Uint128, WriteRequest, WriteResponse, stream_message_request,
    stream_message_response,
};
use p4runtime_proto::reprise::v1::switch_server::{Switch, SwitchServer};
use p4runtime_proto::reprise::v1::{
    DrainRequest, DrainResponse, DropCounter, GetCountersRequest, GetCountersResponse,
    GetInstanceRequest, GetInstanceResponse, PortCounters,
};
use prost::Message;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

use super::fake::FakeSwitch;

pub const DEVICE_ID: u64 = 1;

/// A running server. The server ends with the process, or when it is stopped.
pub struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Arbitration {
    highest: Option<u128>,
    /// Election id and reply channel of every open stream that has sent an election id.
    live: BTreeMap<usize, (Option<u128>, Reply)>,
    primary: Option<usize>,
    n_streams: usize,
}

/// The number of the stream of a controller that a test only simulates.
const ELSEWHERE: usize = usize::MAX;

type Reply = UnboundedSender<Result<StreamMessageResponse, Status>>;

struct Shared {
    switch: Mutex<FakeSwitch>,
    arbitration: Mutex<Arbitration>,
}

#[derive(Clone)]
struct Service(Arc<Shared>);

impl Server {
    /// Serves on a free port of the loopback interface, in a separate thread.
    pub fn start(switch: FakeSwitch) -> Server {
        Server::start_at((Ipv4Addr::LOCALHOST, 0).into(), switch)
    }

    /// Ends every connection. Nothing answers at the address until another server starts there.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
    }

    /// Starts a server at this address, for example the address of a stopped server.
    pub fn start_at(address: SocketAddr, switch: FakeSwitch) -> Server {
        let arbitration = Mutex::new(Arbitration::default());
        let shared = Arc::new(Shared {
            switch: Mutex::new(switch),
            arbitration,
        });
        let listener = std::net::TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("an address");
        let service = Service(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                let served = tonic::transport::Server::builder()
                    .add_service(P4RuntimeServer::new(service.clone()))
                    .add_service(SwitchServer::new(service))
                    .serve_with_incoming(TcpListenerStream::new(listener));
                tokio::select! {
                    served = served => served.expect("served"),
                    // Nothing is ever sent on this channel. The wait ends when the sender is dropped.
                    _ = stopped => {}
                }
            });
        });
        Server {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn switch(&self) -> MutexGuard<'_, FakeSwitch> {
        self.shared.switch.lock().expect("no test panicked")
    }

    /// Makes every stream a backup, as a connected controller with this election id would do.
    pub fn take_over(&self, election_id: u128) {
        let mut arbitration = self.shared.arbitration.lock().expect("no test panicked");
        let (reply, _) = unbounded_channel();
        arbitration.highest = Some(election_id);
        arbitration.primary = Some(ELSEWHERE);
        arbitration
            .live
            .insert(ELSEWHERE, (Some(election_id), reply));
    }

    /// Disconnects the simulated controller of `take_over`.
    pub fn let_go(&self) {
        let mut arbitration = self.shared.arbitration.lock().expect("no test panicked");
        arbitration.remove(ELSEWHERE);
    }

    pub fn highest_election_id(&self) -> Option<u128> {
        self.shared
            .arbitration
            .lock()
            .expect("no test panicked")
            .highest
    }
}

impl Service {
    fn switch(&self) -> MutexGuard<'_, FakeSwitch> {
        self.0.switch.lock().expect("no test panicked")
    }

    fn check_primary(&self, election_id: Option<Uint128>) -> Result<(), Status> {
        let arbitration = self.0.arbitration.lock().expect("no test panicked");
        let id = election_id.map(from_uint128);
        let primary = arbitration.primary.and_then(|p| arbitration.live.get(&p));
        if id.is_some() && primary.is_some_and(|(primary, _)| *primary == id) {
            return Ok(());
        }
        Err(Status::permission_denied("not the primary"))
    }

    /// Replies to an ARP request in place of every host that would receive the request and has the address.
    fn packet_out(&self, reply: &Reply, packet: &p4::PacketOut) {
        assert_eq!(packet.metadata.len(), 2, "every field of the header");
        let mut switch = self.switch();
        let frame = &packet.payload;
        let ip: [u8; 4] = frame[38..42].try_into().expect("an ARP request");
        let port = bytestring::number(&packet.metadata[0].value).expect("a port");
        let on_port = switch.hosts.iter().filter(|_| port == 1);
        let others = switch.other_hosts.iter();
        let others = others.filter(|(at, ..)| u64::from(*at) == port);
        let hosts = on_port.chain(others.map(|(_, ip, mac)| (ip, mac)));
        let accepts = |mac: &Mac| frame[..6] == [0xff; 6] || frame[..6] == mac.0;
        let asked: Vec<Mac> = hosts
            .filter(|(host, mac)| host.octets() == ip && accepts(mac))
            .map(|(_, mac)| *mac)
            .collect();
        if !asked.is_empty() && switch.requests_to_miss > 0 {
            switch.requests_to_miss -= 1;
            return;
        }
        for mac in asked {
            let mut answer = [&frame[6..12], &mac.0, &frame[12..20], &[0, 2], &mac.0, &ip].concat();
            answer.extend([&frame[22..28], &frame[28..32]].concat());
            let packet = PacketIn {
                payload: answer,
                metadata: packet.metadata.clone(),
            };
            let update = Some(stream_message_response::Update::Packet(packet));
            let _ = reply.send(Ok(StreamMessageResponse { update }));
        }
    }
}

impl Arbitration {
    fn update(&mut self, stream: usize, bid: Option<u128>, reply: &Reply) -> Result<(), Status> {
        let mut others = self.live.iter().filter(|(other, _)| **other != stream);
        if bid.is_some() && others.any(|(_, (id, _))| *id == bid) {
            return Err(Status::invalid_argument("another has this election id"));
        }
        self.live.insert(stream, (bid, reply.clone()));
        if bid.is_some() && bid >= self.highest {
            self.highest = bid;
            self.primary = Some(stream);
            self.live.keys().for_each(|stream| self.notify(*stream));
        } else {
            self.notify(stream);
        }
        Ok(())
    }

    fn remove(&mut self, stream: usize) {
        self.live.remove(&stream);
        if self.primary.take_if(|primary| *primary == stream).is_some() {
            self.live.keys().for_each(|stream| self.notify(*stream));
        }
    }

    fn notify(&self, stream: usize) {
        let code = match self.primary {
            Some(primary) if primary == stream => Code::Ok,
            Some(_) => Code::AlreadyExists,
            None => Code::NotFound,
        };
        if let Some((_, reply)) = self.live.get(&stream) {
            let _ = reply.send(Ok(answer(self.highest, code)));
        }
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Responses<ReadResponse>;
    type StreamChannelStream = Responses<StreamMessageResponse>;

    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let request = request.into_inner();
        check_device(request.device_id)?;
        self.check_primary(request.election_id)?;
        if self.switch().is_silent() {
            return std::future::pending().await;
        }
        let mut switch = self.switch();
        check_pipeline(&switch)?;
        let results: Vec<p4::Error> = request
            .updates
            .iter()
            .map(|update| switch.update(update))
            .map(|result| match result {
                Ok(()) => p4::Error::default(),
                Err(refusal) => p4::Error {
                    canonical_code: refusal.code.into(),
                    message: refusal.message,
                    ..p4::Error::default()
                },
            })
            .collect();
        if results.iter().all(|result| result.canonical_code == 0) {
            return Ok(Response::new(WriteResponse {}));
        }
        let details = results.iter().map(|result| prost_types::Any {
            type_url: "type.googleapis.com/p4.v1.Error".to_owned(),
            value: result.encode_to_vec(),
        });
        let status = rpc::Status {
            code: Code::Unknown.into(),
            message: "some updates failed".to_owned(),
            details: details.collect(),
        };
        let details = status.encode_to_vec().into();
        Err(Status::with_details(
            Code::Unknown,
            "some updates failed",
            details,
        ))
    }

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        check_device(request.device_id)?;
        let switch = self.switch();
        check_pipeline(&switch)?;
        let mut parts = Vec::new();
        for entity in &request.entities {
            let entities = switch.read_entity(entity);
            let entities = entities.map_err(|r| Status::new(r.code, r.message))?;
            parts.push(Ok(ReadResponse { entities }));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        check_device(request.device_id)?;
        self.check_primary(request.election_id)?;
        let config = request
            .config
            .ok_or_else(|| Status::invalid_argument("no config"))?;
        let p4info = config
            .p4info
            .ok_or_else(|| Status::invalid_argument("no p4info"))?;
        self.switch().set_pipeline(p4info, config.p4_device_config);
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        check_device(request.into_inner().device_id)?;
        let switch = self.switch();
        check_pipeline(&switch)?;
        let config = ForwardingPipelineConfig {
            p4info: switch.p4info.clone(),
            ..Default::default()
        };
        Ok(Response::new(GetForwardingPipelineConfigResponse {
            config: Some(config),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut requests = request.into_inner();
        let (reply, responses) = unbounded_channel();
        let service = self.clone();
        let stream = {
            let mut arbitration = self.0.arbitration.lock().expect("no test panicked");
            arbitration.n_streams += 1;
            arbitration.n_streams
        };
        tokio::spawn(async move {
            while let Some(Ok(message)) = requests.next().await {
                match message.update {
                    Some(stream_message_request::Update::Arbitration(update)) => {
                        if let Err(status) = check_device(update.device_id) {
                            let _ = reply.send(Err(status));
                            return;
                        }
                        let bid = update.election_id.map(from_uint128);
                        let arbitration = &service.0.arbitration;
                        let mut arbitration = arbitration.lock().expect("no test panicked");
                        if let Err(status) = arbitration.update(stream, bid, &reply) {
                            arbitration.remove(stream);
                            let _ = reply.send(Err(status));
                            return;
                        }
                    }
                    Some(stream_message_request::Update::Packet(packet)) => {
                        service.packet_out(&reply, &packet);
                    }
                    _ => {}
                }
            }
            let mut arbitration = service.0.arbitration.lock().expect("no test panicked");
            arbitration.remove(stream);
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            responses,
        ))))
    }

    async fn capabilities(
        &self,
        _: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        Err(Status::unimplemented("not used"))
    }
}

#[tonic::async_trait]
impl Switch for Service {
    async fn drain(&self, _: Request<DrainRequest>) -> Result<Response<DrainResponse>, Status> {
        if self.switch().is_silent() {
            return std::future::pending().await;
        }
        self.switch().drain();
        Ok(Response::new(DrainResponse {}))
    }

    /// Returns counters. Between two calls the switch's clock advances by a second and ten frames arrive.
    async fn get_counters(
        &self,
        _: Request<GetCountersRequest>,
    ) -> Result<Response<GetCountersResponse>, Status> {
        let mut switch = self.switch();
        switch.n_readings += 1;
        let n = switch.n_readings;
        let rx_packets = 10 * n;
        let ports = switch.ports.iter().map(|port| PortCounters {
            port: *port,
            name: format!("veth{port}"),
            rx_packets,
            ..Default::default()
        });
        let drop = DropCounter {
            reason: "egress_queue_full".to_owned(),
            packets: 3,
        };
        Ok(Response::new(GetCountersResponse {
            timestamp_ns: n * 1_000_000_000,
            ports: ports.collect(),
            tables: Vec::new(),
            drops: vec![drop],
            ..Default::default()
        }))
    }

    async fn get_instance(
        &self,
        _: Request<GetInstanceRequest>,
    ) -> Result<Response<GetInstanceResponse>, Status> {
        Ok(Response::new(GetInstanceResponse { instance: 1 }))
    }
}

fn check_device(device_id: u64) -> Result<(), Status> {
    if device_id == DEVICE_ID {
        return Ok(());
    }
    Err(Status::not_found(format!(
        "no device {device_id} here, this is device {DEVICE_ID}"
    )))
}

fn check_pipeline(switch: &FakeSwitch) -> Result<(), Status> {
    match switch.p4info {
        Some(_) => Ok(()),
        None => Err(Status::failed_precondition("no forwarding pipeline config")),
    }
}

fn answer(highest: Option<u128>, code: Code) -> StreamMessageResponse {
    let status = rpc::Status {
        code: code.into(),
        ..rpc::Status::default()
    };
    let update = MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        role: None,
        election_id: highest.map(|id| Uint128 {
            high: (id >> 64) as u64,
            low: id as u64,
        }),
        status: Some(status),
    };
    StreamMessageResponse {
        update: Some(stream_message_response::Update::Arbitration(update)),
    }
}

fn from_uint128(id: Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}
