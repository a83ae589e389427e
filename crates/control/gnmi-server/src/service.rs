//! The gRPC service.

use std::sync::Arc;

use control::Device;
use gnmi_proto::GNMI_VERSION;
use gnmi_proto::gnmi::g_nmi_server::{GNmi, GNmiServer};
use gnmi_proto::gnmi::{
    CapabilityRequest, CapabilityResponse, GetRequest, GetResponse, ModelData, SetRequest,
    SetResponse, SubscribeRequest, SubscribeResponse,
};
use gnmi_proto::gnmi_ext::Extension;
use gnmi_proto::gnmi_ext::extension::Ext;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::interfaces::Interfaces;
use crate::limits::{
    MESSAGES_AHEAD_MAX, REQUEST_BYTES_MAX, SUBSCRIPTIONS_MAX, VALUES_PER_SECOND_MAX,
};
use crate::schema::Module;
use crate::value::ENCODINGS;
use crate::{get, set, subscribe};

const ORGANIZATION: &str = "OpenConfig working group";

/// The gNMI service of a device. Clones share all state.
#[derive(Clone)]
pub struct Gnmi(Arc<Shared>);

pub(crate) struct Shared {
    pub interfaces: Interfaces,
    /// Permits that bound the work of all subscriptions. Each subscription takes one of these permits, and permits of
    /// `values_per_second` for the values that it reads.
    pub subscriptions: Arc<Semaphore>,
    pub values_per_second: Arc<Semaphore>,
    /// True once subscriptions must end.
    ended: watch::Sender<bool>,
}

impl Gnmi {
    pub fn new(device: Arc<Device>) -> Self {
        Self(Arc::new(Shared {
            interfaces: Interfaces::new(device),
            subscriptions: Arc::new(Semaphore::new(SUBSCRIPTIONS_MAX)),
            values_per_second: Arc::new(Semaphore::new(VALUES_PER_SECOND_MAX)),
            ended: watch::Sender::new(false),
        }))
    }

    /// Returns the service, which can be added to one or several gRPC servers.
    pub fn service(&self) -> GNmiServer<Self> {
        GNmiServer::new(self.clone()).max_decoding_message_size(REQUEST_BYTES_MAX)
    }

    /// Ends all present and future subscriptions, so that a server can stop.
    pub fn end(&self) {
        self.0.ended.send_replace(true);
    }
}

impl Shared {
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as `self`.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

/// Refuses extensions that would change the meaning of a request. Ignores all other extensions, since an extension must
/// not change the base operation (gNMI specification, 2.8).
pub(crate) fn expect_no_extension(extensions: &[Extension]) -> Result<(), Status> {
    let known = extensions.iter().find_map(|extension| {
        Some(match extension.ext.as_ref()? {
            Ext::MasterArbitration(_) => "master_arbitration",
            Ext::History(_) => "history",
            Ext::Commit(_) => "commit",
            Ext::Depth(_) => "depth",
            Ext::ConfigSubscription(_) => "config_subscription",
            Ext::RegisteredExt(_) => return None,
        })
    });
    match known {
        None => Ok(()),
        Some(name) => Err(Status::unimplemented(format!(
            "the extension {name} is not supported"
        ))),
    }
}

#[tonic::async_trait]
impl GNmi for Gnmi {
    async fn capabilities(
        &self,
        request: Request<CapabilityRequest>,
    ) -> Result<Response<CapabilityResponse>, Status> {
        expect_no_extension(&request.get_ref().extension)?;
        let model = |module: Module| ModelData {
            name: module.name().to_owned(),
            organization: ORGANIZATION.to_owned(),
            version: module.version().to_owned(),
        };
        Ok(Response::new(CapabilityResponse {
            supported_models: Module::ALL.map(model).into(),
            supported_encodings: ENCODINGS.map(i32::from).into(),
            g_nmi_version: GNMI_VERSION.to_owned(),
            ..CapabilityResponse::default()
        }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let request = request.into_inner();
        expect_no_extension(&request.extension)?;
        get::get(&self.0.interfaces, &request)
            .await
            .map(Response::new)
    }

    async fn set(&self, request: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        let request = request.into_inner();
        expect_no_extension(&request.extension)?;
        set::set(&self.0.interfaces, &request)
            .await
            .map(Response::new)
    }

    type SubscribeStream = ReceiverStream<Result<SubscribeResponse, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let room = Arc::clone(&self.0.subscriptions).try_acquire_owned();
        let room = room.map_err(|_| {
            Status::resource_exhausted(format!(
                "{SUBSCRIPTIONS_MAX} subscriptions are open: end one, or try again later"
            ))
        })?;
        let (sender, receiver) = mpsc::channel(MESSAGES_AHEAD_MAX);
        let (shared, requests) = (Arc::clone(&self.0), request.into_inner());
        tokio::spawn(async move {
            let _room = room;
            let ended = tokio::select! {
                biased;
                () = shared.ended() => Err(Status::unavailable("the switch is being stopped")),
                ended = subscribe::serve(&shared, requests, &sender) => ended,
                () = sender.closed() => return,
            };
            if let Err(status) = ended {
                // If the switch stops, do not wait for a client that reads nothing: the client is gone, or will see the
                // connection end.
                tokio::select! {
                    biased;
                    _ = sender.send(Err(status)) => {}
                    () = shared.ended() => {}
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
