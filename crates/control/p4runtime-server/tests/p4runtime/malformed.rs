//! Malformed requests, which a protobuf client cannot send.

use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::harness::{Harness, in_time};

/// A codec that sends bytes unchanged, and reads nothing.
#[derive(Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        std::io::Write::write_all(&mut bytes_writer(buffer), &item)?;
        Ok(())
    }
}

fn bytes_writer<'a>(buffer: &'a mut EncodeBuf<'_>) -> impl std::io::Write + 'a {
    prost::bytes::BufMut::writer(buffer)
}

impl Decoder for Bytes {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, _buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        Ok(None)
    }
}

async fn call(channel: &Channel, path: &'static str, bytes: &[u8]) -> Status {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static(path);
    let requests = tokio_stream::once(bytes.to_vec());
    let answers = grpc.streaming(Request::new(requests), path, Bytes);
    match in_time(answers).await {
        Err(status) => status,
        Ok(answers) => in_time(answers.into_inner().message()).await.unwrap_err(),
    }
}

// spec: write.malformed
#[tokio::test]
async fn what_is_no_message_is_an_invalid_argument_in_every_call() {
    let harness = Harness::start().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", harness.address)).unwrap();
    let channel = endpoint.connect().await.unwrap();
    for path in [
        "/p4.v1.P4Runtime/Write",
        "/p4.v1.P4Runtime/Read",
        "/p4.v1.P4Runtime/SetForwardingPipelineConfig",
        "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
        "/p4.v1.P4Runtime/Capabilities",
        "/p4.v1.P4Runtime/StreamChannel",
        "/reprise.v1.Switch/Drain",
        "/reprise.v1.Switch/GetCounters",
    ] {
        // The first message has a field number of 0, the second has a length beyond its end.
        for bytes in [&[0x00][..], &[0x0a, 0x7f, 0x01]] {
            let status = call(&channel, path, bytes).await;
            assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status:?}");
            let message = status.message();
            assert!(message.contains("malformed"), "{path}: {message}");
        }
    }
    // The server still works.
    harness.primary().await;
}
