//! Makes gRPC calls whose messages are arbitrary bytes.

use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use prost::bytes::{Buf as _, BufMut as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// A codec that does not change the bytes of messages.
#[derive(Debug, Default, Clone, Copy)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; from.remaining()];
        from.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rpc {
    Write,
    Read,
    SetForwardingPipelineConfig,
    GetForwardingPipelineConfig,
    Capabilities,
    StreamChannel,
    Drain,
    GetCounters,
    GetInstance,
}

impl Rpc {
    pub const ALL: [Self; 9] = [
        Self::Write,
        Self::Read,
        Self::SetForwardingPipelineConfig,
        Self::GetForwardingPipelineConfig,
        Self::Capabilities,
        Self::StreamChannel,
        Self::Drain,
        Self::GetCounters,
        Self::GetInstance,
    ];

    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(match self {
            Self::Write => "/p4.v1.P4Runtime/Write",
            Self::Read => "/p4.v1.P4Runtime/Read",
            Self::SetForwardingPipelineConfig => "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
            Self::GetForwardingPipelineConfig => "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
            Self::Capabilities => "/p4.v1.P4Runtime/Capabilities",
            Self::StreamChannel => "/p4.v1.P4Runtime/StreamChannel",
            Self::Drain => "/reprise.v1.Switch/Drain",
            Self::GetCounters => "/reprise.v1.Switch/GetCounters",
            Self::GetInstance => "/reprise.v1.Switch/GetInstance",
        })
    }
}

/// Sends messages and returns the number of answers. Only a stream may have several messages.
///
/// # Errors
/// The switch's status.
pub async fn call(channel: &Channel, rpc: Rpc, messages: Vec<Vec<u8>>) -> Result<usize, Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    if rpc == Rpc::StreamChannel || rpc == Rpc::Read {
        let messages = Request::new(tokio_stream::iter(messages));
        let answers = grpc.streaming(messages, rpc.path(), Raw).await?;
        return all(answers.into_inner()).await;
    }
    let message = messages.into_iter().next().unwrap_or_default();
    let answer = grpc.unary(Request::new(message), rpc.path(), Raw).await;
    answer.map(|_| 1)
}

async fn all(mut answers: Streaming<Vec<u8>>) -> Result<usize, Status> {
    let mut n_answers = 0;
    while answers.message().await?.is_some() {
        n_answers += 1;
    }
    Ok(n_answers)
}

/// Opens a connection for calls with arbitrary bytes.
///
/// # Errors
/// The switch does not accept the connection.
pub async fn connect(place: crate::process::Place) -> crate::Result<Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", place.grpc()))?;
    Ok(endpoint.connect().await?)
}

/// Returns the generated client for a connection from [`connect`].
pub fn client(channel: &Channel) -> P4RuntimeClient<Channel> {
    P4RuntimeClient::new(channel.clone())
}
