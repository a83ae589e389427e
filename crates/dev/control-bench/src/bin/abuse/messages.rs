//! Sends valid, mutated and random messages in every call of P4Runtime, and opens streams that are half closed, never
//! read, or full of such messages.

use std::sync::Arc;
use std::time::Duration;

use control_bench::controller::DEVICE_ID;
use control_bench::mutate::{mutated, mutated_bytes};
use control_bench::raw::{self, Rpc};
use fastrand::Rng;
use p4runtime_client::Object;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    DigestListAck, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    MasterArbitrationUpdate, PacketMetadata, PacketOut, ReadRequest, Role,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, Uint128, WriteRequest,
};
use p4runtime_proto::reprise::v1::{DrainRequest, GetCountersRequest, GetInstanceRequest};
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::{PLACE, Shared};

/// The role of the clients that send mutated messages. It may write every object of the first program except the
/// register cells that contain the tokens of the controllers of `racers`.
const ROLE: &str = "abuse";
const ROLE_ID: Uint128 = Uint128 { high: 0, low: 77 };
const ROLE_CONFIG: &str = "type.googleapis.com/stratum.P4RoleConfig";
/// Maximum number of calls on one connection.
const CALLS_MAX: usize = 50;
/// Calls with oversized messages: each with a size in bytes that is above the limit of a stream message or of a
/// request.
const OVERSIZE: [(Rpc, usize); 3] = [
    (Rpc::StreamChannel, 2 << 20),
    (Rpc::Capabilities, 5 << 20),
    (Rpc::Write, 129 << 20),
];

/// Stratum's role config. Field 2 contains ids that other roles may write too. Fields 4 and 5 allow packet I/O and
/// setting pipelines.
#[derive(Clone, PartialEq, Message)]
struct RoleConfig {
    #[prost(uint32, repeated, tag = "2")]
    shared_p4_ids: Vec<u32>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

fn role(shared: &Shared) -> Role {
    use Object::{ActionProfile, Counter, Digest, Meter, Table, ValueSet};
    let index = &shared.grammars[0].index;
    let kinds = [Table, ActionProfile, Meter, Counter, ValueSet, Digest];
    let all = kinds.into_iter().flat_map(|kind| index.preambles(kind));
    let config = RoleConfig {
        shared_p4_ids: all.map(|it| it.id).collect(),
        receives_packet_ins: true,
        can_push_pipeline: true,
    };
    let config = prost_types::Any {
        type_url: ROLE_CONFIG.to_owned(),
        value: config.encode_to_vec(),
    };
    Role {
        name: ROLE.to_owned(),
        config: Some(config),
        ..Default::default()
    }
}

fn arbitration(role: Option<Role>, election_id: Option<Uint128>) -> StreamMessageRequest {
    let update = MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        role,
        election_id,
        ..Default::default()
    };
    StreamMessageRequest {
        update: Some(Request::Arbitration(update)),
    }
}

/// Keeps the role's primary connected until the end.
pub(crate) async fn keep_role(shared: Arc<Shared>) {
    while !shared.is_over() {
        let kept = async {
            let channel = raw::connect(PLACE).await?;
            let (sender, requests) = tokio::sync::mpsc::channel(1);
            sender
                .send(arbitration(Some(role(&shared)), Some(ROLE_ID)))
                .await?;
            let stream = raw::client(&channel)
                .stream_channel(ReceiverStream::new(requests))
                .await;
            let mut answers = stream?.into_inner();
            while !shared.is_over() {
                let answer = tokio::time::timeout(Duration::from_millis(100), answers.message());
                // The timeout only exists to check for the end of the run.
                if let Ok(answer) = answer.await {
                    answer?.ok_or("the stream has ended")?;
                }
            }
            control_bench::Result::Ok(())
        };
        if kept.await.is_err() {
            shared.count("role's primary comes again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Sends messages until the end.
pub(crate) async fn send(shared: Arc<Shared>, mut rng: Rng) {
    while !shared.is_over() {
        let Ok(channel) = raw::connect(PLACE).await else {
            shared.count("mutators turned away");
            continue;
        };
        for _ in 0..rng.usize(1..CALLS_MAX) {
            if shared.is_over() {
                return;
            }
            one(&shared, &channel, &mut rng).await;
        }
    }
}

async fn one(shared: &Shared, channel: &Channel, rng: &mut Rng) {
    let rpc = rng.choice(Rpc::ALL).unwrap_or(Rpc::Write);
    let n_messages = if rpc == Rpc::StreamChannel {
        rng.usize(1..6)
    } else {
        1
    };
    let mut messages: Vec<Vec<u8>> = (0..n_messages).map(|_| message(shared, rpc, rng)).collect();
    for message in &mut messages {
        *message = match rng.u8(..8) {
            0 | 1 => std::mem::take(message),
            2 => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
            _ => mutated(rng, message),
        };
    }
    messages.retain(|message| match rpc {
        Rpc::StreamChannel => !keeps_racers_out(message),
        Rpc::SetForwardingPipelineConfig => !sets_pipeline(message),
        _ => true,
    });
    // There is a timeout because a stream stays open until one side ends it.
    let limit = match rng.u8(..3) {
        0 => Duration::from_micros(rng.u64(..3_000)),
        _ => Duration::from_millis(500),
    };
    let call = raw::call(channel, rpc, messages);
    let answer = tokio::time::timeout(limit, call).await;
    let came = match &answer {
        Ok(Ok(_)) => "Ok".to_owned(),
        Ok(Err(status)) => format!("{:?}", status.code()),
        Err(_) => "given up".to_owned(),
    };
    shared.count(format!("messages {rpc:?} {came}"));
}

/// Recognises election ids that may be above the ids of the racers, which are the controllers that compete to be
/// primary. The switch could not refuse such an id, and the id would remain the highest until the end.
fn keeps_racers_out(message: &[u8]) -> bool {
    let decoded = StreamMessageRequest::decode(message).ok();
    let Some(Request::Arbitration(update)) = decoded.and_then(|it| it.update) else {
        return false;
    };
    let is_default = update.role.is_none_or(|role| role.name.is_empty());
    is_default && update.election_id.is_some_and(|id| id.high > 0)
}

/// Recognises requests that set a pipeline. Mutated programs are only verified, since their effect on frames and writes
/// is unpredictable.
fn sets_pipeline(message: &[u8]) -> bool {
    let decoded = SetForwardingPipelineConfigRequest::decode(message);
    let verify: i32 = Action::Verify.into();
    decoded.is_ok_and(|request| request.action > 0 && request.action != verify)
}

/// Makes a valid message.
fn message(shared: &Shared, rpc: Rpc, rng: &mut Rng) -> Vec<u8> {
    let grammar = &shared.grammars[0];
    let (device_id, role) = (DEVICE_ID, ROLE.to_owned());
    match rpc {
        Rpc::Write => WriteRequest {
            device_id,
            role,
            election_id: Some(ROLE_ID),
            updates: (0..rng.usize(1..20)).map(|_| grammar.update(rng)).collect(),
            atomicity: rng.i32(..3).max(Atomicity::ContinueOnError.into()),
            ..Default::default()
        }
        .encode_to_vec(),
        Rpc::Read => {
            let role = if rng.bool() { role } else { String::new() };
            let entities = (0..rng.usize(1..6)).map(|_| grammar.read(rng)).collect();
            ReadRequest {
                device_id,
                role,
                entities,
            }
            .encode_to_vec()
        }
        Rpc::SetForwardingPipelineConfig => set_pipeline(shared, rng),
        Rpc::GetForwardingPipelineConfig => GetForwardingPipelineConfigRequest {
            device_id,
            response_type: rng.i32(0..4),
        }
        .encode_to_vec(),
        Rpc::Capabilities => Vec::new(),
        Rpc::StreamChannel => stream_message(rng).encode_to_vec(),
        Rpc::Drain => DrainRequest { device_id }.encode_to_vec(),
        Rpc::GetCounters => GetCountersRequest { device_id }.encode_to_vec(),
        Rpc::GetInstance => GetInstanceRequest { device_id }.encode_to_vec(),
    }
}

fn set_pipeline(shared: &Shared, rng: &mut Rng) -> Vec<u8> {
    let program = &shared.programs[rng.usize(..shared.programs.len())];
    let mut device_config = program.device_config.clone();
    for _ in 0..rng.usize(..3) {
        device_config = mutated_bytes(rng, device_config);
    }
    let config = ForwardingPipelineConfig {
        p4info: Some(program.p4info.clone()),
        p4_device_config: device_config,
        cookie: None,
    };
    SetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        role: ROLE.to_owned(),
        election_id: Some(ROLE_ID),
        action: Action::Verify.into(),
        config: Some(config),
        ..Default::default()
    }
    .encode_to_vec()
}

fn stream_message(rng: &mut Rng) -> StreamMessageRequest {
    let name = format!("stranger {}", rng.u8(..4));
    let role = Role {
        name,
        ..Default::default()
    };
    let election_id = Uint128 {
        high: 0,
        low: rng.u64(..4),
    };
    let metadata = |metadata_id, value: u8| PacketMetadata {
        metadata_id,
        value: vec![value],
    };
    let update = match rng.u8(..4) {
        0 | 1 => return arbitration(Some(role), Some(election_id)),
        2 => Request::Packet(PacketOut {
            payload: vec![rng.u8(..); rng.usize(..200)],
            metadata: vec![metadata(1, rng.u8(1..3)), metadata(2, 0)],
        }),
        _ => Request::DigestAck(DigestListAck {
            digest_id: rng.u32(..),
            list_id: rng.u64(..),
        }),
    };
    StreamMessageRequest {
        update: Some(update),
    }
}

/// Sends oversized messages at intervals.
pub(crate) async fn oversize(shared: Arc<Shared>, mut rng: Rng) {
    while !shared.is_over() {
        let (rpc, n_bytes) = rng.choice(OVERSIZE).unwrap_or(OVERSIZE[0]);
        let Ok(channel) = raw::connect(PLACE).await else {
            continue;
        };
        let call = raw::call(&channel, rpc, vec![vec![0x7a; n_bytes]]);
        let answer = tokio::time::timeout(Duration::from_secs(20), call).await;
        match answer {
            Ok(Ok(_)) => shared.broken(format!("{rpc:?} took {n_bytes} bytes")),
            Ok(Err(status)) => shared.count(format!("oversize {rpc:?} {:?}", status.code())),
            Err(_) => shared.count(format!("oversize {rpc:?} given up")),
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(..2_000))).await;
    }
}
