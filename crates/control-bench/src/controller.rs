//! A P4Runtime controller: one stream, one election id.

use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use p4runtime_proto::p4::v1::stream_message_response::Update as Response;
use p4runtime_proto::p4::v1::{
    Entity, ForwardingPipelineConfig, MasterArbitrationUpdate, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, Uint128,
    Update, WriteRequest,
};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::process::Place;
use crate::program::Program;
use crate::{Result, secure};

/// The device that the switch is.
pub const DEVICE_ID: u64 = 1;
/// The largest answer: of a million entries each message is small, but errors of a batch may be long.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A client on a connection of its own.
pub type Client = P4RuntimeClient<Channel>;

/// Where a switch is spoken to, and how.
#[derive(Debug, Clone)]
pub struct Address {
    /// Which switch.
    pub place: Place,
    /// Over TLS, or without.
    pub tls: Option<secure::Client>,
}

impl From<Place> for Address {
    fn from(place: Place) -> Self {
        Self { place, tls: None }
    }
}

/// Connects.
///
/// # Errors
/// Nobody serves.
pub async fn connect(to: impl Into<Address>) -> Result<Client> {
    let Address { place, tls } = to.into();
    let channel = match tls {
        Some(tls) => tls.connect(place).await?,
        None => {
            let endpoint = Endpoint::from_shared(format!("http://{}", place.grpc()))?;
            endpoint.tcp_nodelay(true).connect().await?
        }
    };
    Ok(P4RuntimeClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX))
}

/// A controller, which leaves with the value.
pub struct Controller {
    /// For calls.
    pub client: Client,
    /// Under which it calls.
    pub election_id: Uint128,
    /// What it says on its stream.
    pub requests: Sender<StreamMessageRequest>,
    /// What it is told.
    pub answers: Streaming<StreamMessageResponse>,
}

impl Controller {
    /// Becomes a controller with an election id, primary or not.
    ///
    /// # Errors
    /// The switch refuses it.
    pub async fn start(to: impl Into<Address>, election_id: Uint128) -> Result<Self> {
        let mut client = connect(to).await?;
        let (requests, queue) = channel(16);
        requests.send(arbitration(Some(election_id))).await?;
        let answers = client.stream_channel(ReceiverStream::new(queue)).await?;
        let mut answers = answers.into_inner();
        loop {
            let answer = answers.message().await?.ok_or("the stream has ended")?;
            if matches!(answer.update, Some(Response::Arbitration(_))) {
                break;
            }
        }
        Ok(Self {
            client,
            election_id,
            requests,
            answers,
        })
    }

    /// Sets a pipeline.
    ///
    /// # Errors
    /// As the switch says.
    pub async fn set_pipeline(
        &mut self,
        action: Action,
        program: &Program,
    ) -> std::result::Result<(), Status> {
        let config = ForwardingPipelineConfig {
            p4info: Some(program.p4info.clone()),
            p4_device_config: program.device_config.clone(),
            cookie: None,
        };
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            election_id: Some(self.election_id),
            action: action.into(),
            config: Some(config),
            ..Default::default()
        };
        let set = self.client.set_forwarding_pipeline_config(request).await;
        set.map(drop)
    }

    /// A batch of this controller's.
    pub fn batch(&self, updates: Vec<Update>) -> WriteRequest {
        WriteRequest {
            device_id: DEVICE_ID,
            election_id: Some(self.election_id),
            updates,
            ..Default::default()
        }
    }
}

/// What makes a stream a controller's.
pub fn arbitration(election_id: Option<Uint128>) -> StreamMessageRequest {
    let update = MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        election_id,
        ..Default::default()
    };
    StreamMessageRequest {
        update: Some(Request::Arbitration(update)),
    }
}

/// Reads to the end; how many entities there were.
///
/// # Errors
/// As the switch says.
pub async fn read(client: &mut Client, entities: Vec<Entity>) -> std::result::Result<u64, Status> {
    let request = ReadRequest {
        device_id: DEVICE_ID,
        entities,
        ..Default::default()
    };
    let mut answers = client.read(request).await?.into_inner();
    let mut n_entities = 0;
    while let Some(answer) = answers.message().await? {
        n_entities += answer.entities.len() as u64;
    }
    Ok(n_entities)
}
