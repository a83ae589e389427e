//! The server: the services `p4.v1.P4Runtime` and `reprise.v1.Switch` on one listener.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use control::{
    Batch, Checked, DigestNotice, DigestSender, Exclusive, IdleTimeoutNotice, IdleTimeoutSender,
    Operation, OperationResult, PacketInFrame, PacketInSender, Subscriber,
};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_runtime_server::P4RuntimeServer;
use p4runtime_proto::p4::v1::{Entity, ForwardingPipelineConfig, WriteRequest};
use p4runtime_proto::reprise::v1::switch_server::SwitchServer;
use stream_socket::{BoundedListener, ConnectionLimits, Listener};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::service::Routes;

use crate::device::{CONTROLLER_DROPS, Device, ServerConfig, ServerLimits, Target, pipeline_set};
use crate::error::{EntityError, WriteError, no_p4info};
use crate::handshakes::{Handshakes, accept, renew, warn_of_open_key};
use crate::limits::{
    CALLS_PER_CONNECTION_MAX, CONNECTIONS_MAX, DIGEST_QUEUE_MAX, FIRST_CALL_S,
    IDLE_TIMEOUT_QUEUE_MAX, KEEPALIVE_INTERVAL_S, KEEPALIVE_TIMEOUT_S, PACKET_IN_QUEUE_MAX,
    REQUEST_BYTES_MAX,
};
use crate::malformed::RefusesMalformed;
use crate::p4runtime_service::P4RuntimeService;
use crate::pipeline::{Pipeline, PipelineError};
use crate::read::find;
use crate::requests::Bounding;
use crate::stream::{serve_digests, serve_idle_timeouts, serve_packet_in};
use crate::switch_service::SwitchService;

/// A P4Runtime server for one switch. Clones share everything.
#[derive(Clone)]
pub struct Server {
    device: Arc<Device>,
    tls: Option<Arc<tls::Server>>,
}

#[derive(Debug, thiserror::Error)]
pub enum SetPipelineError {
    /// P4Info or device config is invalid, or they do not fit each other.
    #[error(transparent)]
    Invalid(#[from] PipelineError),
    #[error("the switch has stopped")]
    Stopped,
}

/// The queues from the switch, whose events the server sends to controllers.
struct Queues {
    packet_ins: Receiver<PacketInFrame>,
    idle_timeouts: Receiver<IdleTimeoutNotice>,
    digests: Receiver<DigestNotice>,
}

/// A stored pipeline and the writes that followed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The config of the pipeline, as [`control::Origin::config`] returned it.
    pub config: Vec<u8>,
    /// What [`control::Origin::learned`] returned for the pipeline. May be empty.
    pub learned: Vec<u8>,
    /// The writes, in an order in which they can be applied.
    pub operations: Vec<Operation>,
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// This version does not accept the stored pipeline any more.
    #[error(transparent)]
    Invalid(#[from] PipelineError),
    /// The switch has stopped, or refuses an operation that it once accepted.
    #[error(transparent)]
    Refused(#[from] control::Error),
}

impl Server {
    /// Makes a server for a device, which other protocols may serve too.
    pub fn new(config: ServerConfig, device: Arc<control::Device>) -> Self {
        Self::with_limits(config, ServerLimits::default(), device)
    }

    pub fn with_limits(
        config: ServerConfig,
        limits: ServerLimits,
        device: Arc<control::Device>,
    ) -> Self {
        Self {
            device: Arc::new(Device::new(config, limits, device)),
            tls: None,
        }
    }

    /// Serves TLS connections only, unless `tls` is `None`.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<tls::Server>) -> Self {
        self.tls = tls.map(Arc::new);
        if let Some(tls) = &self.tls {
            warn_of_open_key(tls);
        }
        self
    }

    pub fn device(&self) -> &Arc<control::Device> {
        &self.device.control
    }

    /// Returns how many bytes of requests, and how many bytes of answers to Reads, the server holds now.
    pub fn bytes_held(&self) -> (usize, usize) {
        (self.device.requests.n_held(), self.device.answers.n_held())
    }

    /// Returns, for each reason, how many packet-ins, digests and idle timeouts reached no controller.
    pub fn controller_drops(&self) -> [(&'static str, u64); CONTROLLER_DROPS.len()] {
        self.device.controller_drops()
    }

    /// Sets the pipeline as `VERIFY_AND_COMMIT` does, but without a controller and without a cookie, for a switch that
    /// is started with a program. `device_config` is BMv2 JSON. Resolves when the pipeline forwards in every worker.
    ///
    /// # Errors
    /// P4Info and device config do not fit each other, or the switch has stopped.
    pub async fn set_pipeline(
        &self,
        p4info: P4Info,
        device_config: Vec<u8>,
    ) -> Result<(), SetPipelineError> {
        let checked = self.device.check(ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: device_config,
            cookie: None,
        })?;
        let call = |exclusive: Exclusive| async move {
            let ready = exclusive.ready(checked).await?;
            pipeline_set(exclusive.commit(ready)).await
        };
        let set = self.device.control.exclusively(call).await;
        let set = set.and_then(|set| set);
        set.map_err(|_| SetPipelineError::Stopped)
    }

    /// Restores the committed pipeline and its entries. Must be called before any other call.
    ///
    /// # Errors
    /// The switch refuses the pipeline or an operation. In this case some of the operations may have been applied.
    pub async fn restore(&self, stored: Stored) -> Result<(), RestoreError> {
        let (checked, operations) = self.read_stored(stored)?;
        let call = |exclusive: Exclusive| async move {
            let ready = exclusive.ready_again(checked, operations).await?;
            pipeline_set(exclusive.commit(ready)).await
        };
        let set = self.device.control.exclusively(call).await;
        Ok(set.and_then(|set| set)?)
    }

    /// Restores a saved pipeline, not yet committed, and its entries.
    ///
    /// # Errors
    /// As [`Server::restore`].
    pub async fn restore_saved(&self, stored: Stored) -> Result<(), RestoreError> {
        let (checked, operations) = self.read_stored(stored)?;
        let call = |exclusive: Exclusive| async move { exclusive.save(checked).done().await };
        let saved = self.device.control.exclusively(call).await;
        let pipeline = saved.and_then(|saved| saved)?;
        let batch = Batch::new(operations);
        let results = self.device.control.write(pipeline, batch).await?;
        let written: OperationResult = results.into_iter().collect();
        Ok(written.map_err(control::Error::from)?)
    }

    fn read_stored(&self, stored: Stored) -> Result<(Checked, Vec<Operation>), PipelineError> {
        let checked = self.device.check(Pipeline::read_config(&stored.config)?)?;
        if let Some(pipeline) = checked.view::<Pipeline>() {
            pipeline.learn_again(&stored.learned)?;
        }
        Ok((checked, stored.operations))
    }

    /// Applies a batch without a controller, for a switch that is started with entries. Device id, role and election id
    /// are ignored.
    ///
    /// # Errors
    /// There is no pipeline, the switch has stopped, or at least one update failed; the others are applied unless the
    /// batch is atomic.
    pub async fn write(&self, request: &WriteRequest) -> Result<(), WriteError> {
        self.device.write(request.clone(), None).await
    }

    /// Reads the entities that the filters match. Like [`Server::write`], this needs no controller.
    ///
    /// # Errors
    /// There is no pipeline, the switch has stopped, or a filter is refused.
    pub async fn read(&self, filters: &[Kind]) -> Result<Vec<Entity>, EntityError> {
        let reading = self.device.control.reading().await?;
        let target = Target::of(reading.pipeline()).ok_or_else(no_p4info)?;
        find(reading, &target.pipeline, filters).await
    }

    /// Serves like [`Server::serve`], and serves another gRPC service too, on the same listener and under the same
    /// limits.
    ///
    /// # Errors
    /// As [`Server::serve`].
    pub fn serve_beside<S>(
        self,
        service: S,
        listener: impl Into<Listener>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), tonic::transport::Error>> + Send
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let service = self.bounding().service(RefusesMalformed(service));
        self.serve_routes(Routes::new(service), listener.into(), shutdown)
    }

    fn bounding(&self) -> Bounding {
        Bounding {
            bytes: self.device.requests.clone(),
            stall: self.device.limits.request_stall,
            rate: self.device.limits.rate,
        }
    }

    /// Serves `p4.v1.P4Runtime` and `reprise.v1.Switch` until `shutdown` resolves. Then it ends streams and finishes
    /// calls in progress. The server receives packet-ins, digests and idle timeouts from this call on, not only from
    /// the future's first poll, and counts events that reach no controller.
    ///
    /// # Errors
    /// The transport failed.
    pub fn serve(
        self,
        listener: impl Into<Listener>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), tonic::transport::Error>> + Send {
        self.serve_routes(Routes::default(), listener.into(), shutdown)
    }

    fn serve_routes(
        self,
        beside: Routes,
        listener: Listener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), tonic::transport::Error>> + Send {
        let (sender, packet_ins) = PacketInSender::channel(PACKET_IN_QUEUE_MAX);
        let _ = self.device.packet_in_drops.from_switch.set(sender.clone());
        let subscriber = Subscriber::PacketIns(sender);
        self.device.control.subscribe(subscriber);
        let (sender, idle_timeouts) = IdleTimeoutSender::channel(IDLE_TIMEOUT_QUEUE_MAX);
        let _ = self
            .device
            .idle_timeout_drops
            .from_switch
            .set(sender.clone());
        let subscriber = Subscriber::IdleTimeouts(sender);
        self.device.control.subscribe(subscriber);
        let (sender, digests) = DigestSender::channel(DIGEST_QUEUE_MAX);
        let _ = self.device.digest_drops.from_switch.set(sender.clone());
        self.device.control.subscribe(Subscriber::Digests(sender));
        let queues = Queues {
            packet_ins,
            idle_timeouts,
            digests,
        };
        self.serve_subscribed(beside, listener, shutdown, queues)
    }

    async fn serve_subscribed(
        self,
        beside: Routes,
        listener: Listener,
        shutdown: impl Future<Output = ()> + Send,
        queues: Queues,
    ) -> Result<(), tonic::transport::Error> {
        let Queues {
            packet_ins,
            idle_timeouts,
            digests,
        } = queues;
        let packet_in = tokio::spawn(serve_packet_in(Arc::clone(&self.device), packet_ins));
        let serving = serve_idle_timeouts(Arc::clone(&self.device), idle_timeouts);
        let idle_timeouts = tokio::spawn(serving);
        let digests = tokio::spawn(serve_digests(Arc::clone(&self.device), digests));
        let p4runtime = P4RuntimeServer::new(P4RuntimeService(Arc::clone(&self.device)))
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
        let switch = SwitchServer::new(SwitchService(Arc::clone(&self.device)));
        let limits = ConnectionLimits {
            service: "P4Runtime",
            open_max: CONNECTIONS_MAX,
            silent_max: Some(Duration::from_secs(FIRST_CALL_S)),
        };
        let (accepted, incoming) = channel(1);
        let listener = BoundedListener::new(listener, limits);
        let tls = self.tls.clone().map(|tls| Handshakes {
            tls,
            time_max: self.device.limits.handshake,
        });
        let accepting = tokio::spawn(accept(listener, tls, accepted));
        let renewing = self.tls.clone().map(|tls| tokio::spawn(renew(tls)));
        let device = Arc::clone(&self.device);
        let bounded = self.bounding();
        let served = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(KEEPALIVE_INTERVAL_S)))
            .http2_keepalive_timeout(Some(Duration::from_secs(KEEPALIVE_TIMEOUT_S)))
            .max_concurrent_streams(Some(CALLS_PER_CONNECTION_MAX))
            .add_routes(beside)
            .add_service(bounded.service(RefusesMalformed(p4runtime)))
            .add_service(bounded.service(RefusesMalformed(switch)))
            .serve_with_incoming_shutdown(ReceiverStream::new(incoming), async move {
                shutdown.await;
                device.begin_shutdown();
            })
            .await;
        accepting.abort();
        renewing.inspect(|renewing| renewing.abort());
        packet_in.abort();
        idle_timeouts.abort();
        digests.abort();
        served
    }
}
