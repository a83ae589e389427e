//! Implements a P4Runtime controller with one stream and one election id. In contrast to users of `p4runtime_client`,
//! users of this controller see the status of each call and both directions of the stream, and so can measure and
//! misuse the calls and the stream.

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

pub const DEVICE_ID: u64 = 1;
/// Maximum size of an answer. Messages with entries are small, but the errors of a batch may be long.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

pub type Client = P4RuntimeClient<Channel>;

/// The address of a switch's P4Runtime server.
#[derive(Debug, Clone)]
pub struct Address {
    pub place: Place,
    /// `None` means without TLS.
    pub tls: Option<secure::Client>,
}

impl From<Place> for Address {
    fn from(place: Place) -> Self {
        Self { place, tls: None }
    }
}

/// # Errors
/// The switch does not accept the connection.
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

/// A connected controller. Dropping the controller disconnects it.
pub struct Controller {
    /// The client for unary calls and Reads.
    pub client: Client,
    pub election_id: Uint128,
    /// The stream's direction from the controller to the switch.
    pub requests: Sender<StreamMessageRequest>,
    /// The stream's direction from the switch to the controller.
    pub answers: Streaming<StreamMessageResponse>,
}

impl Controller {
    /// Opens a stream with an election id, and so becomes primary or backup.
    ///
    /// # Errors
    /// The switch refuses the connection or the stream.
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

    /// # Errors
    /// The switch's status.
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
            // COMMIT has no config, since it commits the saved config.
            config: (action != Action::Commit).then_some(config),
            ..Default::default()
        };
        let set = self.client.set_forwarding_pipeline_config(request).await;
        set.map(drop)
    }

    /// Makes a batch with this controller's election id.
    pub fn batch(&self, updates: Vec<Update>) -> WriteRequest {
        WriteRequest {
            device_id: DEVICE_ID,
            election_id: Some(self.election_id),
            updates,
            ..Default::default()
        }
    }
}

/// Returns the first message of a controller's stream, which states the election id.
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

/// Reads entities until the end of the answer, and passes the entities of each message to `each`.
///
/// # Errors
/// The switch's status.
pub async fn read(
    client: &mut Client,
    entities: Vec<Entity>,
    mut each: impl FnMut(Vec<Entity>),
) -> std::result::Result<(), Status> {
    let request = ReadRequest {
        device_id: DEVICE_ID,
        entities,
        ..Default::default()
    };
    let mut answers = client.read(request).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        each(answer.entities);
    }
    Ok(())
}
