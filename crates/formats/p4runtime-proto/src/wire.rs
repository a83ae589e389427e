//! Encodes and decodes the messages of this crate's services for a connection, with prost.
//!
//! prost's functions are generic over the buffer. Without this module, each crate that calls a service would compile
//! them anew for everything that a request may contain, which takes a good part of a client's compile time. Here they
//! are compiled once, for gRPC's buffers.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::p4::v1 as p4;
use crate::reprise::v1 as reprise;

/// A request or an answer of one of this crate's services.
pub trait Wire: Sized + Send + 'static {
    /// Writes the message.
    ///
    /// # Errors
    ///
    /// The status INTERNAL: the buffer has no room, which cannot happen with gRPC's buffers.
    fn put(&self, to: &mut EncodeBuf<'_>) -> Result<(), Status>;

    /// Reads all bytes of the buffer as one message.
    ///
    /// # Errors
    ///
    /// The status INTERNAL: the bytes are no such message (gRPC's "Status codes and their use in gRPC").
    fn take(from: &mut DecodeBuf<'_>) -> Result<Self, Status>;
}

macro_rules! wire {
    ($($message:ty),* $(,)?) => { $(
        impl Wire for $message {
            #[inline(never)]
            fn put(&self, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
                self.encode(to).map_err(|error| Status::internal(error.to_string()))
            }

            #[inline(never)]
            fn take(from: &mut DecodeBuf<'_>) -> Result<Self, Status> {
                Self::decode(from).map_err(|error| Status::internal(error.to_string()))
            }
        }
    )* };
}

wire!(
    p4::CapabilitiesRequest,
    p4::CapabilitiesResponse,
    p4::GetForwardingPipelineConfigRequest,
    p4::GetForwardingPipelineConfigResponse,
    p4::ReadRequest,
    p4::ReadResponse,
    p4::SetForwardingPipelineConfigRequest,
    p4::SetForwardingPipelineConfigResponse,
    p4::StreamMessageRequest,
    p4::StreamMessageResponse,
    p4::WriteRequest,
    p4::WriteResponse,
    reprise::DrainRequest,
    reprise::DrainResponse,
    reprise::GetCountersRequest,
    reprise::GetCountersResponse,
    reprise::GetInstanceRequest,
    reprise::GetInstanceResponse,
);

/// The codec that the generated clients and servers use.
#[derive(Debug, Clone, Copy)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Wire, U: Wire> tonic::codec::Codec for Codec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = Put<T>;
    type Decoder = Take<U>;

    fn encoder(&mut self) -> Put<T> {
        Put(PhantomData)
    }

    fn decoder(&mut self) -> Take<U> {
        Take(PhantomData)
    }
}

/// Writes messages.
#[derive(Debug, Clone, Copy)]
pub struct Put<T>(PhantomData<T>);

impl<T: Wire> Encoder for Put<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.put(to)
    }
}

/// Reads messages.
#[derive(Debug, Clone, Copy)]
pub struct Take<U>(PhantomData<U>);

impl<U: Wire> Decoder for Take<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        U::take(from).map(Some)
    }
}
