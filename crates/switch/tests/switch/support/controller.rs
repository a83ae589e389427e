//! The primary controller of a running switch.

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use p4runtime_proto::p4::v1::stream_message_response::Update as Answer;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    Entity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, MasterArbitrationUpdate,
    ReadRequest, SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse,
    Uint128, Update, WriteRequest,
};
use p4runtime_proto::text_format;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{Running, program};

const ELECTION_ID: Option<Uint128> = Some(Uint128 { high: 0, low: 1 });

pub struct Controller {
    client: P4RuntimeClient<Channel>,
    /// The client is primary while the stream is open.
    requests: UnboundedSender<StreamMessageRequest>,
    answers: Streaming<StreamMessageResponse>,
}

impl Controller {
    pub async fn of(switch: &Running) -> Controller {
        let client = P4RuntimeClient::connect(switch.grpc()).await;
        let mut client = client.expect("a server");
        let (requests, receiver) = unbounded_channel();
        let stream = client.stream_channel(UnboundedReceiverStream::new(receiver));
        let answers = stream.await.expect("a stream").into_inner();
        let mut controller = Controller {
            client,
            requests,
            answers,
        };
        controller.send(Request::Arbitration(MasterArbitrationUpdate {
            device_id: 1,
            election_id: ELECTION_ID,
            ..Default::default()
        }));
        controller.next().await;
        controller
    }

    pub fn send(&self, update: Request) {
        let update = Some(update);
        let sent = self.requests.send(StreamMessageRequest { update });
        sent.expect("the stream is open");
    }

    pub async fn next(&mut self) -> Answer {
        let message = self.answers.message().await.expect("no error");
        message.and_then(|it| it.update).expect("a message")
    }

    pub async fn config(&mut self) -> ForwardingPipelineConfig {
        let request = GetForwardingPipelineConfigRequest {
            device_id: 1,
            ..Default::default()
        };
        let config = self.client.get_forwarding_pipeline_config(request).await;
        let config = config.expect("an answer").into_inner().config;
        config.expect("a pipeline")
    }

    pub async fn set_pipeline(&mut self, action: Action, config: Option<ForwardingPipelineConfig>) {
        let request = SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: ELECTION_ID,
            action: action as i32,
            config,
            ..Default::default()
        };
        let set = self.client.set_forwarding_pipeline_config(request).await;
        set.expect("the pipeline is set");
    }

    pub async fn write(&mut self, updates: Vec<Update>) -> Result<(), Status> {
        let request = WriteRequest {
            device_id: 1,
            election_id: ELECTION_ID,
            updates,
            ..Default::default()
        };
        self.client.write(request).await.map(drop)
    }

    pub async fn read(&mut self, wanted: impl IntoIterator<Item = Kind>) -> Vec<Kind> {
        read(&mut self.client, wanted).await
    }
}

pub async fn read(
    client: &mut P4RuntimeClient<Channel>,
    wanted: impl IntoIterator<Item = Kind>,
) -> Vec<Kind> {
    let entities = wanted.into_iter().map(|kind| Entity { entity: Some(kind) });
    let request = ReadRequest {
        device_id: 1,
        entities: entities.collect(),
        ..Default::default()
    };
    let answers = client.read(request).await.expect("an answer");
    let (mut answers, mut found) = (answers.into_inner(), Vec::new());
    while let Some(answer) = answers.message().await.expect("an answer") {
        found.extend(answer.entities.into_iter().filter_map(|it| it.entity));
    }
    found
}

pub fn update(kind: Type, entity: Kind) -> Update {
    Update {
        r#type: kind as i32,
        entity: Some(Entity {
            entity: Some(entity),
        }),
    }
}

/// The pipeline of `forward.p4`.
pub fn forward_config() -> ForwardingPipelineConfig {
    let p4info = std::fs::read_to_string(program("forward.p4info.txtpb")).expect("the P4Info");
    ForwardingPipelineConfig {
        p4info: Some(text_format::parse_p4info(&p4info).expect("a P4Info")),
        p4_device_config: std::fs::read(program("forward.json")).expect("the program"),
        cookie: None,
    }
}
