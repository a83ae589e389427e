//! Errors of calls to a switch: messages for gRPC's status codes and for failed connections.

use std::time::Duration;

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1::{self as p4, Update};
use prost::Message;
use tls::{FileError, Trouble};
use tokio::time::timeout;
use tonic::{Code, Response, Status};

use crate::dial::Seen;

/// tonic's message for an HTTP response without a gRPC status.
const NO_GRPC_STATUS: &str = "grpc-status header missing";

/// tonic's message for a response that is not HTTP, and for a connection that broke during a call.
const NO_HTTP: &str = "transport error";

/// The name of the pipeline in messages about its reads and writes.
pub(crate) const PIPELINE: &str = "the pipeline";

/// Why a call to the switch failed. The message says what the user can do about it.
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
        /// What is wrong, and what the user can do about it.
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
        "the server at {address} does not speak P4Runtime ({reason}), expected a switch: {address} may be the address of a switch's metrics, of its Thrift server or of another server; give --switch the P4Runtime address that the switch prints when it is ready"
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
        "the switch has a program without P4Info: `reprise pipeline set PROGRAM.p4` sets one that has P4Info"
    )]
    NoP4Info,
    /// The switch has another device id.
    #[error(
        "the switch is not device {device_id} ({message}): give the switch's device id with --device-id"
    )]
    WrongDevice {
        /// The device id asked for.
        device_id: u64,
        /// The switch's message.
        message: String,
    },
    /// Another controller became primary.
    #[error(
        "another controller took over as primary ({message}): nothing more was written; run the command again, and it waits until that controller is done"
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
        /// The highest election id that the switch reported.
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
        "the switch at {address} serves no further controller ({message}): end some that are connected (`ss -tnp` on their hosts and on the switch's host shows their processes)"
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
    #[error("the stream to the switch is closed: {reason}")]
    StreamClosed {
        /// Why it ended.
        reason: String,
    },
}

/// Why a Write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The switch refused some updates. One result per update, in the order of the batch; code 0 is success.
    #[error("{} of {} updates failed", .0.iter().filter(|e| e.canonical_code != 0).count(), .0.len())]
    Updates(Vec<p4::Error>),
    /// The call as a whole failed.
    #[error(transparent)]
    Call(#[from] ClientError),
}

impl ClientError {
    pub(crate) fn closed(reason: impl Into<String>) -> ClientError {
        ClientError::StreamClosed {
            reason: reason.into(),
        }
    }
}

/// The switch at the other end of a connection, as error messages name it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: String,
    pub(crate) device_id: u64,
    pub(crate) seen: Seen,
}

impl Peer {
    /// Waits for the answer to a call, with a timeout.
    pub(crate) async fn answer<T>(
        &self,
        what: &'static str,
        limit_ms: u64,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ClientError> {
        let answer = in_time(what, limit_ms, call).await?;
        let answer = answer.map_err(|status| self.error(what, &status))?;
        Ok(answer.into_inner())
    }

    pub(crate) fn error(&self, what: &'static str, status: &Status) -> ClientError {
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
            // The answer has no gRPC status: the server speaks HTTP, but not gRPC.
            _ if message.starts_with(NO_GRPC_STATUS) => ClientError::NoP4Runtime {
                address: self.address.clone(),
                reason: http_status(&message),
            },
            // Every session first asks for the pipeline. If this first call fails in this way, a server of another
            // protocol has closed the connection.
            Code::Unknown if what == PIPELINE && message == NO_HTTP => ClientError::NoP4Runtime {
                address: self.address.clone(),
                reason: "an answer that is not HTTP".to_owned(),
            },
            // The switch spoke P4Runtime before, so its process has ended.
            Code::Unknown if message == NO_HTTP => ClientError::Unreachable {
                address: self.address.clone(),
                reason: "the connection broke".to_owned(),
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
            // A FAILED_PRECONDITION without the word "pipeline" is about registers that differ between workers, or
            // about ports.
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

    /// Makes the error of a failed batch. The status details hold the result of each update (P4Runtime, "Batching and
    /// Ordering of Updates").
    pub(crate) fn write_error(&self, updates: &[Update], status: &Status) -> ClientError {
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

pub(crate) async fn in_time<F: Future>(
    what: &'static str,
    after_ms: u64,
    call: F,
) -> Result<F::Output, ClientError> {
    let limit = Duration::from_millis(after_ms);
    timeout(limit, call)
        .await
        .map_err(|_| ClientError::Timeout { what, after_ms })
}

/// The result of each update of a failed Write; empty if the server gives none.
pub(crate) fn update_errors(status: &Status) -> Vec<p4::Error> {
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
