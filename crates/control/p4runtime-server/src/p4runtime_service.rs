//! `p4.v1.P4Runtime`. Requests are checked in the specification's order.

use std::sync::Arc;

use control::{Checked, Exclusive};
use p4runtime_proto::P4RUNTIME_API_VERSION;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::p4_runtime_server::P4Runtime;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse, ReadRequest,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    Uint128, WriteRequest, WriteResponse,
};
use tonic::{Request, Response, Status, Streaming};

use crate::answers::{AnswerReceiver, answers};
use crate::arbitration::{Arbitration, device_mismatch};
use crate::caller::Caller;
use crate::device::{Device, Target, Writer, lock, pipeline_set};
use crate::error::{EntityError, no_p4info, no_pipeline};
use crate::pipeline::Pipeline;
use crate::read::read;
use crate::reconcile::{not_preserved, reconcile};
use crate::roles::{Access, RoleName};
use crate::stream::{StreamReceiver, serve_stream, stream_pair};

pub(crate) struct P4RuntimeService(pub(crate) Arc<Device>);

#[tonic::async_trait]
impl P4Runtime for P4RuntimeService {
    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let request = request.into_inner();
        self.expect_device(request.device_id)?;
        #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
        let caller = self.caller(&request.role, request.role_id, request.election_id)?;
        self.0.write(request, Some(caller)).await?;
        Ok(Response::new(WriteResponse {}))
    }

    type ReadStream = AnswerReceiver;

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let caller = request.extensions().get::<Caller>();
        let caller = caller.cloned().unwrap_or_default();
        let request = request.into_inner();
        self.expect_device(request.device_id)?;
        let device = &self.0;
        let made = answers(caller, device.answers.clone(), device.limits.answer_stall).await;
        let (sender, receiver) = made?;
        let reading = device.control.reading().await.map_err(EntityError::from)?;
        let target = Target::of(reading.pipeline()).ok_or_else(no_p4info)?;
        let access = reader_access(device, &target.pipeline, &request.role)?;
        let entities = request.entities;
        let alone = device.limits.read_alone;
        tokio::spawn(read(
            reading,
            alone,
            target.pipeline,
            access,
            entities,
            sender,
        ));
        Ok(Response::new(receiver))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.expect_device(request.device_id)?;
        #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
        let caller = self.caller(&request.role, request.role_id, request.election_id)?;
        let device = Arc::clone(&self.0);
        let call =
            |exclusive| async move { set_pipeline(&device, exclusive, request, &caller).await };
        let set = self.0.control.exclusively(call).await;
        set.map_err(EntityError::from)??;
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.expect_device(request.device_id)?;
        let response_type = ResponseType::try_from(request.response_type).map_err(|_| {
            Status::invalid_argument(format!(
                "expected a response type from 0 to 3, found {}",
                request.response_type
            ))
        })?;
        let committed = self.0.control.committed().ok_or_else(no_pipeline)?;
        let config = match (Target::of(&committed), response_type) {
            (Some(target), _) => part(&target.pipeline, response_type),
            (None, ResponseType::DeviceConfigAndCookie) => ForwardingPipelineConfig {
                p4_device_config: committed.config().to_vec(),
                ..ForwardingPipelineConfig::default()
            },
            (None, _) => return Err(no_p4info().into()),
        };
        Ok(Response::new(GetForwardingPipelineConfigResponse {
            config: Some(config),
        }))
    }

    type StreamChannelStream = StreamReceiver;

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<StreamReceiver>, Status> {
        let (sender, receiver) = stream_pair();
        let device = Arc::clone(&self.0);
        tokio::spawn(serve_stream(device, request.into_inner(), sender));
        Ok(Response::new(receiver))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        let device_id = request.into_inner().device_id;
        if device_id != 0 {
            self.expect_device(device_id)?;
        }
        Ok(Response::new(CapabilitiesResponse {
            p4runtime_api_version: P4RUNTIME_API_VERSION.into(),
            experimental: None,
        }))
    }
}

impl P4RuntimeService {
    fn expect_device(&self, found: u64) -> Result<(), Status> {
        expect_device(&self.0, found)
    }

    /// Checks that the caller is the role's primary.
    fn caller(
        &self,
        role: &str,
        role_id: u64,
        election_id: Option<Uint128>,
    ) -> Result<Writer, Status> {
        let role = RoleName::new(role, role_id);
        lock(&self.0.arbitration).expect_primary(&role, election_id)?;
        Ok(Writer { role, election_id })
    }
}

/// What a Read with this role may see. An empty role sees everything.
fn reader_access(device: &Device, pipeline: &Pipeline, role: &str) -> Result<Arc<Access>, Status> {
    let name = RoleName::new(role, 0);
    let access = lock(&device.arbitration).access(&name);
    // If no controller has had the role yet, the program's annotations may still name it.
    let annotated = || {
        let role = name.clone();
        let access = Access {
            role,
            ..Access::default()
        };
        pipeline.has_role(name.name()).then(|| Arc::new(access))
    };
    let access = access.or_else(annotated);
    access.ok_or_else(|| Status::not_found(format!("there is no {}", name.shown())))
}

fn verify(device: &Device, config: Option<ForwardingPipelineConfig>) -> Result<Checked, Status> {
    let config = config.ok_or_else(|| Status::invalid_argument("expected a config, found none"))?;
    let checked = device.check(config);
    checked.map_err(|error| Status::invalid_argument(error.to_string()))
}

/// Carries out a request. Checks the caller's access again before each submission, because another controller may have
/// become primary since the first check.
async fn set_pipeline(
    device: &Device,
    exclusive: Exclusive,
    request: SetForwardingPipelineConfigRequest,
    caller: &Writer,
) -> Result<(), Status> {
    let (number, action, config) = (request.action, request.action(), request.config);
    let expect_allowed = |arbitration: &Arbitration| -> Result<(), Status> {
        let access = arbitration.expect_primary(&caller.role, caller.election_id)?;
        Ok(access.expect_pipeline()?)
    };
    expect_allowed(&lock(&device.arbitration))?;
    match action {
        // An unknown number decodes as `Unspecified`.
        Action::Unspecified => {
            let found = match number {
                0 => "UNSPECIFIED".to_owned(),
                number => number.to_string(),
            };
            let message = format!(
                "expected VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT or RECONCILE_AND_COMMIT, found {found}"
            );
            Err(Status::invalid_argument(message))
        }
        Action::Verify => verify(device, config).map(drop),
        Action::VerifyAndSave => {
            let checked = verify(device, config)?;
            let saved = {
                let arbitration = lock(&device.arbitration);
                expect_allowed(&arbitration)?;
                exclusive.save(checked)
            };
            let done = saved.done().await;
            Ok(done.map(drop).map_err(EntityError::from)?)
        }
        Action::VerifyAndCommit => {
            let ready = exclusive.ready(verify(device, config)?).await;
            let ready = ready.map_err(EntityError::from)?;
            let committed = {
                let arbitration = lock(&device.arbitration);
                expect_allowed(&arbitration)?;
                exclusive.commit(ready)
            };
            Ok(pipeline_set(committed).await.map_err(EntityError::from)?)
        }
        Action::Commit => {
            if config.is_some() {
                return Err(Status::invalid_argument("expected no config, found one"));
            }
            let ready = exclusive.ready_saved().await.map_err(EntityError::from)?;
            let committed = {
                let arbitration = lock(&device.arbitration);
                expect_allowed(&arbitration)?;
                exclusive.commit(ready)
            };
            replayed(pipeline_set(committed).await)
        }
        Action::ReconcileAndCommit => {
            let checked = verify(device, config)?;
            let operations = reconcile(device, &exclusive, &checked).await?;
            let ready = exclusive.ready_with(checked, operations).await;
            let ready = ready.map_err(|error| not_preserved(error.into()))?;
            let committed = {
                let arbitration = lock(&device.arbitration);
                expect_allowed(&arbitration)?;
                exclusive.commit(ready)
            };
            replayed(pipeline_set(committed).await)
        }
    }
}

/// Converts the result of a commit that replays writes. A switch that forwards nothing has already accepted these
/// writes, so a write that fails on replay is an internal error.
fn replayed(done: Result<(), control::Error>) -> Result<(), Status> {
    match done {
        Err(control::Error::Refused(error)) => Err(Status::internal(format!(
            "a saved write failed on replay: {error}"
        ))),
        done => Ok(done.map_err(EntityError::from)?),
    }
}

fn part(pipeline: &Pipeline, response_type: ResponseType) -> ForwardingPipelineConfig {
    let config = pipeline.config();
    let (with_p4info, with_device_config) = match response_type {
        ResponseType::All => (true, true),
        ResponseType::CookieOnly => (false, false),
        ResponseType::P4infoAndCookie => (true, false),
        ResponseType::DeviceConfigAndCookie => (false, true),
    };
    ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| with_p4info),
        p4_device_config: if with_device_config {
            config.p4_device_config.clone()
        } else {
            Vec::new()
        },
        cookie: config.cookie,
    }
}

pub(crate) fn expect_device(device: &Device, found: u64) -> Result<(), Status> {
    let expected = device.config.device_id;
    if found == expected {
        return Ok(());
    }
    Err(Status::not_found(device_mismatch(expected, found)))
}
