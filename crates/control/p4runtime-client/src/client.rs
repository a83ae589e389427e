//! A P4Runtime client for one switch: reads, writes, the pipeline, packets and the messages of the stream. It also
//! calls the switch's own gRPC service.
//!
//! Reading needs only a connection; a writer must be primary ([`Client::become_primary`], [`Client::await_primary`]).

mod arbitration;
mod reader;

use std::time::Duration;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::forwarding_pipeline_config::Cookie;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    CapabilitiesRequest, DigestListAck, Entity, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, PacketIn, PacketOut, SetForwardingPipelineConfigRequest,
    Update, WriteRequest, stream_message_request, stream_message_response,
};
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::reprise::v1::{DrainRequest, GetCountersResponse, GetInstanceRequest};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::dial::{Reconnects, SwitchAddress};
use crate::error::{ClientError, PIPELINE, Peer, WriteError, in_time, update_errors};
use crate::limits::{
    CALL_TIMEOUT_MS, CONNECT_TIMEOUT_MS, DRAIN_TIMEOUT_MS, MESSAGE_BYTES_MAX, PIPELINE_TIMEOUT_MS,
};

pub use arbitration::Bid;
use arbitration::{Primary, Seen, uint128};
pub use reader::Reader;

/// The reason that an error gives if the client has no stream because it never became primary.
const NEVER_OPENED: &str = "never opened";

/// A connection to one switch.
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    primary: Option<Primary>,
}

impl Client {
    /// Connects to a switch.
    ///
    /// # Errors
    /// The address or a file for TLS is invalid, no server answers at the address, the TLS handshake fails, or only one
    /// of client and switch uses TLS.
    pub async fn connect(switch: &SwitchAddress, device_id: u64) -> Result<Client, ClientError> {
        Client::open(switch, device_id, Reconnects::Always).await
    }

    /// Connects to one process of a switch: when the connection ends, every later call fails. A client that reconnects
    /// could get the answer of a new process to a request that the old process began to serve.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_once(
        switch: &SwitchAddress,
        device_id: u64,
    ) -> Result<Client, ClientError> {
        Client::open(switch, device_id, Reconnects::Never).await
    }

    async fn open(
        switch: &SwitchAddress,
        device_id: u64,
        reconnects: Reconnects,
    ) -> Result<Client, ClientError> {
        let (channel, seen) = switch.connect(reconnects).await?;
        let p4runtime = P4RuntimeClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Client {
            reader: Reader {
                p4runtime,
                switch: SwitchClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX),
                peer: Peer {
                    address: switch.address.clone(),
                    device_id,
                    seen,
                },
                role: String::new(),
                call_timeout_ms: CALL_TIMEOUT_MS,
            },
            primary: None,
        })
    }

    /// Sets the client's role; empty is the default role, which may do everything. Must be called before the client
    /// becomes primary.
    pub fn set_role(&mut self, name: &str) {
        name.clone_into(&mut self.reader.role);
    }

    /// Sets the timeout of a read or a write: whole milliseconds, at least one.
    pub fn set_call_timeout(&mut self, limit: Duration) {
        let limit_ms = limit.as_millis().try_into().unwrap_or(u64::MAX);
        self.reader.call_timeout_ms = limit_ms.max(1);
    }

    /// Returns a reader, which can read while this client makes other calls. The reader uses the client's connection,
    /// role and timeout.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Reads entities; a wildcard returns all that match.
    ///
    /// # Errors
    /// As [`Client::read_each`].
    pub async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        self.reader.read(entities).await
    }

    /// Reads entities in requests of bounded size, and passes them to `each`, one response message at a time.
    ///
    /// # Errors
    /// The switch refused the read, or the next message did not arrive in time; `each` has received all earlier
    /// messages.
    pub async fn read_each(
        &mut self,
        entities: Vec<Entity>,
        each: impl FnMut(Vec<Entity>),
    ) -> Result<(), ClientError> {
        self.reader.read_each(entities, each).await
    }

    /// Writes one batch. After an error, any of the batch's updates may have been executed.
    ///
    /// # Errors
    /// The client is not primary, or the switch refused updates: the error says how many, and names the first refused
    /// update.
    pub async fn write(&mut self, updates: Vec<Update>) -> Result<(), ClientError> {
        let atomicity = Atomicity::ContinueOnError;
        let response = self.send(updates.clone(), atomicity).await?;
        response.map_err(|status| self.reader.peer.write_error(&updates, &status))
    }

    /// Writes a batch. If updates fail, the error has the result of each update.
    ///
    /// # Errors
    /// The client is not primary, or the switch refused updates.
    pub async fn write_batch(
        &mut self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<(), WriteError> {
        let n_updates = updates.len();
        let response = self.send(updates, atomicity).await?;
        response.map_err(|status| {
            let errors = update_errors(&status);
            if errors.len() == n_updates {
                WriteError::Updates(errors)
            } else {
                WriteError::Call(self.reader.peer.error("a write", &status))
            }
        })
    }

    async fn send(
        &mut self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<Result<(), Status>, ClientError> {
        let request = WriteRequest {
            device_id: self.reader.peer.device_id,
            role: self.reader.role.clone(),
            election_id: self.election_id().map(uint128),
            updates,
            atomicity: atomicity.into(),
            ..WriteRequest::default()
        };
        let call = self.reader.p4runtime.write(request);
        let response = in_time("a write", self.reader.call_timeout_ms, call).await?;
        Ok(response.map(drop))
    }

    /// The P4Runtime version that the server speaks.
    ///
    /// # Errors
    /// No P4Runtime server answers in time.
    pub async fn capabilities(&mut self) -> Result<String, ClientError> {
        let request = CapabilitiesRequest {
            device_id: self.reader.peer.device_id,
        };
        let call = self.reader.p4runtime.capabilities(request);
        let response = in_time("an answer in P4Runtime", CONNECT_TIMEOUT_MS, call).await?;
        let response =
            response.map_err(|status| self.reader.peer.error("its capabilities", &status))?;
        Ok(response.into_inner().p4runtime_api_version)
    }

    /// The program's P4Info.
    ///
    /// # Errors
    /// The switch has no pipeline, a pipeline without P4Info, or another device number.
    pub async fn p4info(&mut self) -> Result<P4Info, ClientError> {
        let config = self.pipeline(ResponseType::P4infoAndCookie).await?;
        config.p4info.ok_or(ClientError::NoP4Info)
    }

    /// Returns the pipeline config as it was set.
    ///
    /// # Errors
    /// The switch has no pipeline, lacks the requested P4Info, or has another device number.
    pub async fn pipeline(
        &mut self,
        response_type: ResponseType,
    ) -> Result<ForwardingPipelineConfig, ClientError> {
        match self.config(response_type).await? {
            Ok(config) => config.ok_or(ClientError::NoPipeline),
            Err(status) if status.code() == Code::FailedPrecondition => {
                // A program without P4Info forwards all the same. The error says that such a program is loaded, since a
                // new pipeline would replace it.
                let wants_p4info = matches!(
                    response_type,
                    ResponseType::All | ResponseType::P4infoAndCookie
                );
                Err(if wants_p4info && self.runs_a_program().await {
                    ClientError::NoP4Info
                } else {
                    ClientError::NoPipeline
                })
            }
            Err(status) => Err(self.reader.peer.error(PIPELINE, &status)),
        }
    }

    async fn runs_a_program(&mut self) -> bool {
        let found = self.config(ResponseType::DeviceConfigAndCookie).await;
        matches!(found, Ok(Ok(Some(_))))
    }

    async fn config(
        &mut self,
        response_type: ResponseType,
    ) -> Result<Result<Option<ForwardingPipelineConfig>, Status>, ClientError> {
        let request = GetForwardingPipelineConfigRequest {
            device_id: self.reader.peer.device_id,
            response_type: response_type.into(),
        };
        // This is the first call of every session. Its timeout is short, since another kind of server on that port may
        // never answer.
        let call = self
            .reader
            .p4runtime
            .get_forwarding_pipeline_config(request);
        let response = in_time("an answer in P4Runtime", CONNECT_TIMEOUT_MS, call).await?;
        Ok(response.map(|response| response.into_inner().config))
    }

    /// Loads a program. It replaces the previous program and all its state.
    ///
    /// # Errors
    /// The client is not primary, or the switch cannot run the program.
    pub async fn set_pipeline(
        &mut self,
        p4info: P4Info,
        device_config: Vec<u8>,
    ) -> Result<(), ClientError> {
        self.load(p4info, device_config, None).await
    }

    /// Like `set_pipeline`, with a cookie that [`Client::pipeline`] returns later.
    ///
    /// # Errors
    /// The client is not primary, or the switch cannot run the program.
    pub async fn set_pipeline_with_cookie(
        &mut self,
        p4info: P4Info,
        device_config: Vec<u8>,
        cookie: u64,
    ) -> Result<(), ClientError> {
        self.load(p4info, device_config, Some(Cookie { cookie }))
            .await
    }

    async fn load(
        &mut self,
        p4info: P4Info,
        p4_device_config: Vec<u8>,
        cookie: Option<Cookie>,
    ) -> Result<(), ClientError> {
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config,
            cookie,
        };
        self.configure(Action::VerifyAndCommit, Some(config)).await
    }

    /// Sends a `SetForwardingPipelineConfig` request with any action.
    ///
    /// # Errors
    /// The client is not primary, or the switch refused the action and changed nothing.
    pub async fn configure(
        &mut self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), ClientError> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.reader.peer.device_id,
            role: self.reader.role.clone(),
            election_id: self.election_id().map(uint128),
            action: action.into(),
            config,
            ..SetForwardingPipelineConfigRequest::default()
        };
        let call = self
            .reader
            .p4runtime
            .set_forwarding_pipeline_config(request);
        let response = in_time("to load the program", PIPELINE_TIMEOUT_MS, call).await?;
        response.map_err(|status| self.reader.peer.error(PIPELINE, &status))?;
        Ok(())
    }

    /// Returns every counter of the switch itself. The program's counters are not among them.
    ///
    /// # Errors
    /// The call failed.
    pub async fn counters(&mut self) -> Result<GetCountersResponse, ClientError> {
        self.reader.counters().await
    }

    /// The number of the switch's process. If the number has changed, the switch was restarted, even if a state file
    /// restored its state.
    ///
    /// # Errors
    /// The call failed.
    pub async fn instance(&mut self) -> Result<u64, ClientError> {
        let call = self.reader.switch.get_instance(GetInstanceRequest {
            device_id: self.reader.peer.device_id,
        });
        let answer = self
            .reader
            .peer
            .answer("its instance", CONNECT_TIMEOUT_MS, call);
        Ok(answer.await?.instance)
    }

    /// Waits until every packet that was in the switch at the call has left. Then no packet still uses state that was
    /// removed before the call.
    ///
    /// # Errors
    /// The call failed, or the switch did not drain in time.
    pub async fn drain(&mut self) -> Result<(), ClientError> {
        let call = self.reader.switch.drain(DrainRequest {
            device_id: self.reader.peer.device_id,
        });
        self.reader
            .peer
            .answer("to drain", DRAIN_TIMEOUT_MS, call)
            .await?;
        Ok(())
    }

    /// Sends a packet-out.
    ///
    /// # Errors
    /// The client is not primary, or the stream is closed.
    pub async fn packet_out(&mut self, packet: PacketOut) -> Result<(), ClientError> {
        let update = stream_message_request::Update::Packet(packet);
        self.send_message(update, "before a packet-out").await
    }

    /// Acknowledges a digest list.
    ///
    /// # Errors
    /// The client is not primary, or the stream is closed.
    pub async fn acknowledge(&mut self, digest_id: u32, list_id: u64) -> Result<(), ClientError> {
        let ack = DigestListAck { digest_id, list_id };
        let update = stream_message_request::Update::DigestAck(ack);
        let closed = "before digests were acknowledged";
        self.send_message(update, closed).await
    }

    async fn send_message(
        &mut self,
        update: stream_message_request::Update,
        closed: &str,
    ) -> Result<(), ClientError> {
        let primary = self.primary.as_mut();
        let primary = primary.ok_or_else(|| ClientError::closed(NEVER_OPENED))?;
        primary.stream.send(update, closed).await
    }

    /// Waits for the next packet-in; `None` if none arrives before the time `until`.
    ///
    /// # Errors
    /// The stream is closed, another controller became primary, or a packet-out was refused.
    pub async fn packet_in(&mut self, until: Instant) -> Result<Option<PacketIn>, ClientError> {
        use stream_message_response::Update as Message;
        if self.primary.is_none() {
            return Err(ClientError::closed(NEVER_OPENED));
        }
        loop {
            let Ok(message) = tokio::time::timeout_at(until, self.next_message()).await else {
                return Ok(None);
            };
            match message? {
                Message::Packet(packet) => return Ok(Some(packet)),
                Message::Error(error) => {
                    return Err(ClientError::Refused {
                        what: "a packet-out",
                        code: Code::from(error.canonical_code),
                        message: error.message,
                    });
                }
                _ => {}
            }
        }
    }

    /// Waits for the next message of the stream that is not about arbitration. Never resolves if the client is not
    /// primary. Cancel-safe: dropping the future loses no message.
    ///
    /// # Errors
    /// The stream is closed, or another controller became primary. The client is then no longer primary.
    pub async fn next_message(&mut self) -> Result<stream_message_response::Update, ClientError> {
        use stream_message_response::Update as Message;
        loop {
            let Some(primary) = self.primary.as_mut() else {
                return std::future::pending().await;
            };
            let message = primary.stream.next().await;
            let message = message.inspect_err(|_| self.primary = None)?;
            match message.update {
                Some(Message::Arbitration(update)) => {
                    let seen = Seen::of(&update);
                    if !seen.is_primary {
                        self.primary = None;
                        let message = format!("election id {}", seen.election_id);
                        return Err(ClientError::NotPrimary { message });
                    }
                }
                Some(update) => return Ok(update),
                None => {}
            }
        }
    }
}
