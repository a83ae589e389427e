//! A P4Runtime client for one switch: the stream with its arbitration, reads, writes, the pipeline and packets. It also
//! calls the switch's own gRPC service.
//!
//! Reading needs only a connection. A writer must be primary, so a command bids the highest election id that the switch
//! has seen plus one. A bid without an id returns that highest id (P4Runtime 1.4.1, "Client Arbitration and Controller
//! Replication").

mod controller;

use std::time::Duration;

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::forwarding_pipeline_config::Cookie;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{
    self as p4, Entity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    MasterArbitrationUpdate, PacketIn, PacketOut, StreamMessageRequest, StreamMessageResponse,
    Uint128, Update, stream_message_request, stream_message_response,
};
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::reprise::v1::{
    DrainRequest, GetCountersRequest, GetCountersResponse, GetInstanceRequest,
};
use prost::Message;
use tls::{FileError, Trouble};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::dial::{Reconnects, Seen as SeenOfTls, SwitchAddress};
use crate::limits::{
    ARBITRATION_TRIES, BID_PAUSE_MS, CALL_TIMEOUT_MS, CONNECT_TIMEOUT_MS, DRAIN_TIMEOUT_MS,
    MESSAGE_BYTES_MAX, QUIET_WAIT_MS,
};
use crate::plan::Target;

pub use controller::WriteError;

/// tonic's message for an HTTP response without a gRPC status.
const NO_GRPC_STATUS: &str = "grpc-status header missing";

/// The name of the pipeline in messages about its reads and writes.
const PIPELINE: &str = "the pipeline";

/// tonic's message for a response that is not HTTP.
const NO_HTTP: &str = "transport error";

/// Why a call to the switch failed. The message has the next step.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The text is not an address.
    #[error("\"{address}\" is no address of a switch: {expected}")]
    BadAddress {
        /// The address, as given.
        address: String,
        /// What was expected and what was found.
        expected: String,
    },
    /// No switch answers at the address.
    #[error(
        "no switch answers at {address} ({reason}): start one (`reprise-switch --help`) or name another with --switch"
    )]
    Unreachable {
        /// Address of the switch.
        address: String,
        /// The innermost error of the chain.
        reason: String,
    },
    /// Client and server disagree about TLS, or do not trust each other.
    #[error("no connection to the switch at {address}: {trouble}")]
    Tls {
        /// Address of the switch.
        address: String,
        /// What is wrong, with the next step.
        trouble: Trouble,
    },
    /// A file for TLS cannot be used.
    #[error("TLS: {0}")]
    TlsFile(#[from] FileError),
    /// No certificate can have this name.
    #[error("--tls-server-name: expected a host's name or an IP address, got \"{name}\"")]
    BadServerName {
        /// The name, as given.
        name: String,
    },
    /// A server that does not speak P4Runtime answers at the address.
    #[error(
        "the server at {address} does not speak P4Runtime ({reason}), expected a switch: {address} may be the address of a switch's metrics, of its Thrift server or of another; give the P4Runtime address in the switch's ready line with --switch"
    )]
    NoP4Runtime {
        /// Address of the server.
        address: String,
        /// What the server answered instead.
        reason: String,
    },
    /// The switch has no program.
    #[error(
        "the switch has no pipeline yet: load one with `reprise pipeline set PROGRAM.p4` (a conference's is p4/sfu.p4)"
    )]
    NoPipeline,
    /// The program was set without P4Info, so the names of its objects are unknown.
    #[error(
        "the switch has a program without P4Info: set one that has with `reprise pipeline set PROGRAM.p4`"
    )]
    NoP4Info,
    /// The switch has another device id.
    #[error("the switch is not device {device_id} ({message}): name its number with --device-id")]
    WrongDevice {
        /// The device id asked for.
        device_id: u64,
        /// The switch's message.
        message: String,
    },
    /// Another controller became primary.
    #[error(
        "another controller took over as primary ({message}): nothing more was written; run the command again, it waits until that one is done"
    )]
    NotPrimary {
        /// The message of the switch.
        message: String,
    },
    /// Another controller stayed primary until the timeout.
    #[error(
        "another controller (election id {election_id}) has been primary for {wait_s} s: end it, wait longer with --wait SECONDS, or take its role with --takeover"
    )]
    Busy {
        /// Election id of the primary.
        election_id: u128,
        /// How long this client waited.
        wait_s: u64,
    },
    /// Other controllers kept bidding higher.
    #[error(
        "could not become primary: other controllers kept bidding higher, the highest election id is {highest}; end them, or run the command again without --takeover to wait for its turn"
    )]
    Outbid {
        /// The highest election id seen last.
        highest: u128,
    },
    /// The primary has the highest possible election id.
    #[error(
        "the primary controller has election id {}, the highest there is, so nobody can take its role: end that controller",
        u128::MAX
    )]
    Unbeatable,
    /// The switch accepts no further stream.
    #[error(
        "the switch at {address} serves no further controller ({message}): end some that are connected (`ss -tnp` on their hosts and the switch's names them)"
    )]
    TooManyControllers {
        /// Address of the switch.
        address: String,
        /// The switch's message.
        message: String,
    },
    /// The switch did not answer before the timeout.
    #[error("the switch did not answer within {after_ms} ms: {what}")]
    Timeout {
        /// What the call asked for.
        what: &'static str,
        /// The timeout.
        after_ms: u64,
    },
    /// Some updates of a batch failed.
    #[error("{n_failed} of {n} updates failed, the first ({entity}): {message}")]
    Batch {
        /// Number of failed updates.
        n_failed: usize,
        /// Number of updates in the batch.
        n: usize,
        /// Kind of object in the first failed update.
        entity: &'static str,
        /// The switch's message about the first failed update.
        message: String,
    },
    /// The switch refused a request for another reason.
    #[error("the switch refused {what}: {message} ({code:?})")]
    Refused {
        /// The refused request.
        what: &'static str,
        /// Canonical gRPC code.
        code: Code,
        /// The switch's message.
        message: String,
    },
    /// The stream ended.
    #[error("the switch closed the stream: {reason}")]
    StreamClosed {
        /// Why it ended.
        reason: String,
    },
}

/// A connection to one switch.
#[derive(Debug)]
pub struct Client {
    p4runtime: P4RuntimeClient<Channel>,
    switch: SwitchClient<Channel>,
    address: String,
    seen: SeenOfTls,
    device_id: u64,
    /// Empty: the default role, which may do everything.
    role: String,
    call_timeout_ms: u64,
    primary: Option<Primary>,
}

#[derive(Debug)]
struct Primary {
    election_id: u128,
    stream: Stream,
}

/// Result of a bid for the primary role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bid {
    /// The client is primary.
    Primary,
    /// The bid lost: the switch has already seen this election id, which is not lower.
    TooLow {
        /// The highest election id that the switch has seen.
        highest: u128,
        /// `false`: the controller with that id is no longer connected.
        somebody_is_primary: bool,
    },
}

struct Seen {
    is_primary: bool,
    somebody_is_primary: bool,
    /// The highest election id that the switch has seen.
    election_id: u128,
}

impl Seen {
    fn of(update: &MasterArbitrationUpdate) -> Seen {
        let code = update.status.as_ref().map(|status| Code::from(status.code));
        Seen {
            is_primary: code == Some(Code::Ok),
            // P4Runtime 1.4.1, "Client Arbitration": NOT_FOUND is "there is no primary".
            somebody_is_primary: code == Some(Code::AlreadyExists),
            election_id: election_id(update),
        }
    }
}

#[derive(Debug)]
struct Stream {
    requests: mpsc::Sender<StreamMessageRequest>,
    responses: Streaming<StreamMessageResponse>,
}

impl Client {
    /// Connects to a switch.
    ///
    /// # Errors
    /// The address or a file for TLS is invalid, nothing answers there, or the two sides disagree about TLS.
    pub async fn connect(switch: &SwitchAddress, device_id: u64) -> Result<Client, ClientError> {
        let connected = switch.connect(Reconnects::Always).await?;
        Ok(Client::over(connected, switch, device_id))
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
        let connected = switch.connect(Reconnects::Never).await?;
        Ok(Client::over(connected, switch, device_id))
    }

    fn over(
        (channel, seen): (Channel, SeenOfTls),
        switch: &SwitchAddress,
        device_id: u64,
    ) -> Client {
        let p4runtime = P4RuntimeClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let own = SwitchClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Client {
            p4runtime,
            switch: own,
            address: switch.address.clone(),
            seen,
            device_id,
            role: String::new(),
            call_timeout_ms: CALL_TIMEOUT_MS,
            primary: None,
        }
    }

    /// The election id that this client's writes carry; `None` if it is not primary.
    pub fn election_id(&self) -> Option<u128> {
        self.primary.as_ref().map(|primary| primary.election_id)
    }

    /// Becomes primary at once and takes the role from the current primary.
    ///
    /// # Errors
    /// The switch has another device number, or others kept bidding higher.
    pub async fn become_primary(&mut self) -> Result<(), ClientError> {
        if self.primary.is_some() {
            return Ok(());
        }
        let mut highest = 0;
        for _ in 0..ARBITRATION_TRIES {
            let mut stream = self.open_stream().await?;
            highest = self.arbitration_answer(&mut stream).await?.election_id;
            if self.bid(stream, highest).await? {
                return Ok(());
            }
            if highest == u128::MAX {
                return Err(ClientError::Unbeatable);
            }
        }
        Err(ClientError::Outbid { highest })
    }

    /// Waits until no controller is primary, then bids the highest election id seen at that moment plus one. So the bid
    /// is never above that of a controller that became primary since, and one of several waiting controllers wins. If
    /// this takes long, `waits` is called once, with the election id of the primary if there is one.
    ///
    /// # Errors
    /// The switch has another device number, or another controller was still primary after `wait`.
    pub async fn await_primary(
        &mut self,
        wait: Duration,
        mut waits: impl FnMut(Option<u128>),
    ) -> Result<(), ClientError> {
        let began = Instant::now();
        let until = began + wait;
        let mut report_at = Some(began + Duration::from_millis(QUIET_WAIT_MS));
        let mut tries = 0;
        while self.primary.is_none() {
            let free = self
                .await_no_primary(until, &mut report_at, &mut waits)
                .await;
            let busy = match free {
                Ok((stream, highest)) => {
                    if self.bid(stream, highest).await? {
                        return Ok(());
                    }
                    ClientError::Busy {
                        election_id: highest.saturating_add(1),
                        wait_s: wait.as_secs(),
                    }
                }
                Err(error @ ClientError::TooManyControllers { .. }) => error,
                Err(ClientError::Busy { election_id, .. }) => {
                    let wait_s = wait.as_secs();
                    return Err(ClientError::Busy {
                        election_id,
                        wait_s,
                    });
                }
                Err(error) => return Err(error),
            };
            if Instant::now() >= until {
                return Err(busy);
            }
            report(&mut report_at, &mut waits, None);
            // The pause differs by process, so that controllers that lost together do not retry together.
            tries += 1;
            let pause_ms = u64::from(std::process::id()) * tries % BID_PAUSE_MS + 1;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        Ok(())
    }

    /// Waits until there is no primary. Returns the stream that saw this and the highest election id.
    async fn await_no_primary(
        &mut self,
        until: Instant,
        report_at: &mut Option<Instant>,
        waits: &mut impl FnMut(Option<u128>),
    ) -> Result<(Stream, u128), ClientError> {
        let mut stream = self.open_stream().await?;
        let mut seen = self.arbitration_answer(&mut stream).await?;
        while seen.somebody_is_primary {
            let next_at = report_at.map_or(until, |at| at.min(until));
            match tokio::time::timeout_at(next_at, self.next_arbitration(&mut stream)).await {
                Ok(answer) => seen = answer?,
                Err(_) if Instant::now() >= until => {
                    return Err(ClientError::Busy {
                        election_id: seen.election_id,
                        wait_s: 0,
                    });
                }
                Err(_) => report(report_at, waits, Some(seen.election_id)),
            }
        }
        Ok((stream, seen.election_id))
    }

    /// Opens the stream and sends a bid without an id, whose answer has the highest election id.
    async fn open_stream(&mut self) -> Result<Stream, ClientError> {
        let (requests, receiver) = mpsc::channel(16);
        // The first message is queued before the call: a server may wait for it before it answers.
        send(&requests, self.arbitration(None)).await?;
        let opened = self.p4runtime.stream_channel(ReceiverStream::new(receiver));
        let opened = in_time("the stream", CONNECT_TIMEOUT_MS, opened).await?;
        let responses = opened
            .map_err(|status| self.error("the stream", &status))?
            .into_inner();
        Ok(Stream {
            requests,
            responses,
        })
    }

    /// Bids once, the highest id plus one. Updates about other controllers may arrive before the answer; they have
    /// lower ids.
    async fn bid(&mut self, stream: Stream, highest: u128) -> Result<bool, ClientError> {
        let bid = self.bid_exactly(stream, highest.saturating_add(1)).await?;
        Ok(bid == Bid::Primary)
    }

    async fn bid_exactly(&mut self, mut stream: Stream, bid: u128) -> Result<Bid, ClientError> {
        send(&stream.requests, self.arbitration(Some(bid))).await?;
        loop {
            match self.arbitration_answer(&mut stream).await {
                Ok(seen) if seen.is_primary && seen.election_id == bid => {
                    self.primary = Some(Primary {
                        election_id: bid,
                        stream,
                    });
                    return Ok(Bid::Primary);
                }
                Ok(seen) if seen.election_id >= bid => {
                    return Ok(Bid::TooLow {
                        highest: seen.election_id,
                        somebody_is_primary: seen.somebody_is_primary,
                    });
                }
                Ok(_) => {}
                // Another controller bid the same id first.
                Err(ClientError::Refused {
                    code: Code::InvalidArgument,
                    ..
                }) => {
                    return Ok(Bid::TooLow {
                        highest: bid,
                        somebody_is_primary: true,
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The program's P4Info.
    ///
    /// # Errors
    /// The switch has no pipeline, a pipeline without P4Info, or another device number.
    pub async fn p4info(&mut self) -> Result<P4Info, ClientError> {
        let config = self.pipeline(ResponseType::P4infoAndCookie).await?;
        config.p4info.ok_or(ClientError::NoP4Info)
    }

    /// The pipeline as it was set.
    ///
    /// # Errors
    /// The switch has no pipeline, lacks the requested P4Info, or has another device number.
    pub async fn pipeline(
        &mut self,
        response_type: ResponseType,
    ) -> Result<ForwardingPipelineConfig, ClientError> {
        let request = GetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            response_type: response_type.into(),
        };
        // The first call of every session: another kind of server on that port may never answer.
        let call = self.p4runtime.get_forwarding_pipeline_config(request);
        let response = in_time("an answer in P4Runtime", CONNECT_TIMEOUT_MS, call).await?;
        match response {
            Ok(response) => response.into_inner().config.ok_or(ClientError::NoPipeline),
            Err(status) if status.code() == Code::FailedPrecondition => {
                // A program without P4Info forwards all the same; whoever replaces it must know.
                Err(match response_type {
                    ResponseType::All | ResponseType::P4infoAndCookie
                        if self.runs_a_program().await =>
                    {
                        ClientError::NoP4Info
                    }
                    _ => ClientError::NoPipeline,
                })
            }
            Err(status) => Err(self.error(PIPELINE, &status)),
        }
    }

    async fn runs_a_program(&mut self) -> bool {
        let request = GetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            response_type: ResponseType::DeviceConfigAndCookie.into(),
        };
        let call = self.p4runtime.get_forwarding_pipeline_config(request);
        let found = in_time("an answer in P4Runtime", CONNECT_TIMEOUT_MS, call).await;
        matches!(found, Ok(Ok(response)) if response.get_ref().config.is_some())
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
        self.set_config(p4info, device_config, None).await
    }

    /// As `set_pipeline`, with a cookie that [`Client::pipeline`] returns later.
    ///
    /// # Errors
    /// The client is not primary, or the switch cannot run the program.
    pub async fn set_pipeline_with_cookie(
        &mut self,
        p4info: P4Info,
        device_config: Vec<u8>,
        cookie: u64,
    ) -> Result<(), ClientError> {
        self.set_config(p4info, device_config, Some(Cookie { cookie }))
            .await
    }

    async fn set_config(
        &mut self,
        p4info: P4Info,
        device_config: Vec<u8>,
        cookie: Option<Cookie>,
    ) -> Result<(), ClientError> {
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: device_config,
            cookie,
        };
        self.configure(Action::VerifyAndCommit, Some(config)).await
    }

    /// Every counter of the switch itself, apart from those of the program.
    ///
    /// # Errors
    /// The call failed.
    pub async fn counters(&mut self) -> Result<GetCountersResponse, ClientError> {
        let request = GetCountersRequest {
            device_id: self.device_id,
        };
        let call = self.switch.get_counters(request);
        Ok(in_time("its counters", CALL_TIMEOUT_MS, call)
            .await?
            .map_err(|status| self.error("its counters", &status))?
            .into_inner())
    }

    /// The number of the switch's process. Another number means that the switch was restarted, even if a state file
    /// restored its state.
    ///
    /// # Errors
    /// The call failed.
    pub async fn instance(&mut self) -> Result<u64, ClientError> {
        let request = GetInstanceRequest {
            device_id: self.device_id,
        };
        let call = self.switch.get_instance(request);
        let answer = in_time("its instance", CONNECT_TIMEOUT_MS, call).await?;
        let answer = answer.map_err(|status| self.error("its instance", &status))?;
        Ok(answer.into_inner().instance)
    }

    /// Sends a packet-out.
    ///
    /// # Errors
    /// The client is not primary, or the stream is closed.
    pub async fn packet_out(&mut self, packet: PacketOut) -> Result<(), ClientError> {
        let request = StreamMessageRequest {
            update: Some(stream_message_request::Update::Packet(packet)),
        };
        let closed = |reason: &str| ClientError::StreamClosed {
            reason: reason.to_owned(),
        };
        let primary = self
            .primary
            .as_mut()
            .ok_or_else(|| closed("never opened"))?;
        primary
            .stream
            .requests
            .send(request)
            .await
            .map_err(|_| closed("before a packet-out"))
    }

    /// The next packet-in; `None` if none arrives in time.
    ///
    /// # Errors
    /// The stream is closed, another controller became primary, or a packet-out was refused.
    pub async fn packet_in(&mut self, until: Instant) -> Result<Option<PacketIn>, ClientError> {
        loop {
            let Some(primary) = self.primary.as_mut() else {
                return Err(ClientError::StreamClosed {
                    reason: "never opened".to_owned(),
                });
            };
            let Ok(message) = tokio::time::timeout_at(until, primary.stream.next()).await else {
                return Ok(None);
            };
            match message?.update {
                Some(stream_message_response::Update::Packet(packet)) => return Ok(Some(packet)),
                Some(stream_message_response::Update::Arbitration(update))
                    if !Seen::of(&update).is_primary =>
                {
                    let message = format!("election id {}", election_id(&update));
                    return Err(ClientError::NotPrimary { message });
                }
                Some(stream_message_response::Update::Error(error)) => {
                    let code = Code::from(error.canonical_code);
                    let what = "a packet-out";
                    return Err(ClientError::Refused {
                        what,
                        code,
                        message: error.message,
                    });
                }
                _ => {}
            }
        }
    }

    async fn arbitration_answer(&self, stream: &mut Stream) -> Result<Seen, ClientError> {
        let answer = self.next_arbitration(stream);
        in_time("arbitration", CONNECT_TIMEOUT_MS, answer).await?
    }

    async fn next_arbitration(&self, stream: &mut Stream) -> Result<Seen, ClientError> {
        loop {
            let message = stream.next_raw().await;
            let message = message.map_err(|status| self.error("arbitration", &status))?;
            let message = message.ok_or_else(|| ClientError::StreamClosed {
                reason: "during arbitration".to_owned(),
            })?;
            if let Some(stream_message_response::Update::Arbitration(update)) = message.update {
                return Ok(Seen::of(&update));
            }
        }
    }

    fn arbitration(&self, bid: Option<u128>) -> StreamMessageRequest {
        let role = (!self.role.is_empty()).then(|| p4::Role {
            name: self.role.clone(),
            ..p4::Role::default()
        });
        let update = MasterArbitrationUpdate {
            device_id: self.device_id,
            role,
            election_id: bid.map(uint128),
            status: None,
        };
        StreamMessageRequest {
            update: Some(stream_message_request::Update::Arbitration(update)),
        }
    }

    fn error(&self, what: &'static str, status: &Status) -> ClientError {
        // The text comes from the switch and contains names of its program: make it printable.
        let message = printable::line(status.message()).into_owned();
        if let Some(trouble) = self.seen.trouble() {
            let address = self.address.clone();
            return ClientError::Tls { address, trouble };
        }
        match status.code() {
            Code::Unavailable if !message.starts_with(NO_GRPC_STATUS) => ClientError::Unreachable {
                address: self.address.clone(),
                reason: message,
            },
            // The answer has no gRPC status at all, or is that of a gRPC server without this service.
            _ if message.starts_with(NO_GRPC_STATUS) => ClientError::NoP4Runtime {
                address: self.address.clone(),
                reason: http_status(&message),
            },
            // The first call of every session: a server of another protocol closed the connection.
            Code::Unknown if what == PIPELINE && message == NO_HTTP => ClientError::NoP4Runtime {
                address: self.address.clone(),
                reason: "an answer that is not HTTP".to_owned(),
            },
            Code::Unimplemented if message.is_empty() => ClientError::NoP4Runtime {
                address: self.address.clone(),
                reason: "a gRPC server without that service".to_owned(),
            },
            Code::PermissionDenied => ClientError::NotPrimary { message },
            Code::ResourceExhausted if matches!(what, "arbitration" | "the stream") => {
                ClientError::TooManyControllers {
                    address: self.address.clone(),
                    message,
                }
            }
            // Other FAILED_PRECONDITIONs are about registers that several workers have, or about ports.
            Code::FailedPrecondition if what != PIPELINE && message.contains("pipeline") => {
                ClientError::NoPipeline
            }
            Code::NotFound if message.contains("device") => ClientError::WrongDevice {
                device_id: self.device_id,
                message,
            },
            code => ClientError::Refused {
                what,
                code,
                message,
            },
        }
    }

    /// The details of a failed batch hold the result of each update (P4Runtime, "Batching and Ordering of Updates").
    fn write_error(&self, updates: &[Update], status: &Status) -> ClientError {
        let results = update_errors(status);
        let failed: Vec<(usize, &p4::Error)> = results
            .iter()
            .enumerate()
            .filter(|(_, e)| e.canonical_code != 0)
            .collect();
        let Some((idx, first)) = failed.first() else {
            return self.error("a write", status);
        };
        ClientError::Batch {
            n_failed: failed.len(),
            n: updates.len(),
            entity: updates.get(*idx).map_or("an update", entity_name),
            message: format!("{} ({:?})", first.message, Code::from(first.canonical_code)),
        }
    }
}

impl Target for Client {
    type Error = ClientError;

    async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        let mut found = Vec::new();
        self.read_each(entities, |part| found.extend(part)).await?;
        Ok(found)
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), ClientError> {
        let request = self.write_request(updates.clone());
        let response = self.written(request).await?;
        response.map_err(|status| self.write_error(&updates, &status))
    }

    async fn drain(&mut self) -> Result<(), ClientError> {
        let request = DrainRequest {
            device_id: self.device_id,
        };
        let drained = self.switch.drain(request);
        let drained = in_time("to drain", DRAIN_TIMEOUT_MS, drained).await?;
        drained.map_err(|status| self.error("to drain", &status))?;
        Ok(())
    }
}

impl Stream {
    async fn next_raw(&mut self) -> Result<Option<StreamMessageResponse>, Status> {
        self.responses.message().await
    }

    async fn next(&mut self) -> Result<StreamMessageResponse, ClientError> {
        let closed = |reason: String| ClientError::StreamClosed { reason };
        let message = self
            .next_raw()
            .await
            .map_err(|s| closed(printable::line(s.message()).into_owned()))?;
        message.ok_or_else(|| closed("no reason given".to_owned()))
    }
}

/// Calls `waits` once, when its time has come.
fn report(at: &mut Option<Instant>, waits: &mut impl FnMut(Option<u128>), primary: Option<u128>) {
    if at.take_if(|at| Instant::now() >= *at).is_some() {
        waits(primary);
    }
}

async fn send(
    requests: &mpsc::Sender<StreamMessageRequest>,
    request: StreamMessageRequest,
) -> Result<(), ClientError> {
    let sent = requests.send(request).await;
    sent.map_err(|_| ClientError::StreamClosed {
        reason: "by the switch".to_owned(),
    })
}

async fn in_time<F: Future>(
    what: &'static str,
    after_ms: u64,
    call: F,
) -> Result<F::Output, ClientError> {
    let limit = Duration::from_millis(after_ms);
    timeout(limit, call)
        .await
        .map_err(|_| ClientError::Timeout { what, after_ms })
}

fn election_id(update: &MasterArbitrationUpdate) -> u128 {
    let id = update.election_id.unwrap_or_default();
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn uint128(value: u128) -> Uint128 {
    Uint128 {
        high: (value >> 64) as u64,
        low: value as u64,
    }
}

/// The result of each update of a failed Write; empty if the server gives none.
fn update_errors(status: &Status) -> Vec<p4::Error> {
    let details = rpc::Status::decode(status.details()).map(|status| status.details);
    let details = details.unwrap_or_default();
    let errors = details.iter();
    errors
        .filter_map(|any| p4::Error::decode(any.value.as_slice()).ok())
        .collect()
}

fn entity_name(update: &Update) -> &'static str {
    use p4::entity::Entity as E;
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(E::TableEntry(_)) => "a table entry",
        Some(E::RegisterEntry(_)) => "a register cell",
        Some(E::CounterEntry(_)) => "a counter cell",
        Some(E::PacketReplicationEngineEntry(_)) => "a multicast group or clone session",
        _ => "an entity",
    }
}

/// Extracts "HTTP status 404" from tonic's message for an answer that is not gRPC.
fn http_status(message: &str) -> String {
    match message.rsplit(' ').next() {
        Some(code) if code.parse::<u16>().is_ok() => format!("HTTP status {code}"),
        _ => "an answer that is not gRPC".to_owned(),
    }
}
