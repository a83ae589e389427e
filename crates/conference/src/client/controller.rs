//! What a controller of any program needs beyond the SFU's controller: roles, a chosen election id, every pipeline
//! action, batches with an atomicity, streamed reads, and the messages of the stream.

use std::time::Duration;

use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    self as p4, CapabilitiesRequest, DigestListAck, Entity, ForwardingPipelineConfig, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, Update, WriteRequest,
    stream_message_request, stream_message_response,
};
use tonic::Status;

use super::{
    Bid, Client, ClientError, PIPELINE, Seen, election_id, in_time, uint128, update_errors,
};
use crate::limits::{CONNECT_TIMEOUT_MS, PIPELINE_TIMEOUT_MS};

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

impl Client {
    /// Sets the client's role; empty is the default role, which may do everything. Must be called before the client
    /// becomes primary.
    pub fn set_role(&mut self, name: &str) {
        name.clone_into(&mut self.role);
    }

    /// Sets the timeout of a read or a write: whole milliseconds, at least one.
    pub fn set_call_timeout(&mut self, limit: Duration) {
        let limit_ms = limit.as_millis().try_into().unwrap_or(u64::MAX);
        self.call_timeout_ms = limit_ms.max(1);
    }

    /// Bids for the primary role with this election id. The bid loses if another controller has or had this id or a
    /// higher one.
    ///
    /// # Errors
    /// The switch has another device number, or does not answer.
    pub async fn become_primary_as(&mut self, election_id: u128) -> Result<Bid, ClientError> {
        self.step_down();
        let mut stream = self.open_stream().await?;
        self.arbitration_answer(&mut stream).await?;
        self.bid_exactly(stream, election_id).await
    }

    /// Closes the stream, so that another controller can become primary.
    pub fn step_down(&mut self) {
        self.primary = None;
    }

    /// The election id of the primary, if there is one.
    ///
    /// # Errors
    /// The switch has another device number, or does not answer.
    pub async fn primary_elsewhere(&mut self) -> Result<Option<u128>, ClientError> {
        let mut stream = self.open_stream().await?;
        let seen = self.arbitration_answer(&mut stream).await?;
        Ok(seen.somebody_is_primary.then_some(seen.election_id))
    }

    /// The next message of the stream, except arbitration. Pending for ever if the client is not primary. Cancel-safe:
    /// dropping the future loses no message.
    ///
    /// # Errors
    /// The stream is closed, or another controller became primary. The client is then no longer primary.
    pub async fn next_message(&mut self) -> Result<stream_message_response::Update, ClientError> {
        loop {
            let Some(primary) = self.primary.as_mut() else {
                return std::future::pending().await;
            };
            let message = primary.stream.next().await;
            let message = message.inspect_err(|_| self.primary = None)?;
            match message.update {
                Some(stream_message_response::Update::Arbitration(update))
                    if Seen::of(&update).is_primary => {}
                Some(stream_message_response::Update::Arbitration(update)) => {
                    self.primary = None;
                    let message = format!("election id {}", election_id(&update));
                    return Err(ClientError::NotPrimary { message });
                }
                Some(update) => return Ok(update),
                None => {}
            }
        }
    }

    /// Acknowledges a digest list.
    ///
    /// # Errors
    /// The client is not primary, or the stream is closed.
    pub async fn acknowledge(&mut self, digest_id: u32, list_id: u64) -> Result<(), ClientError> {
        let ack = DigestListAck { digest_id, list_id };
        let request = StreamMessageRequest {
            update: Some(stream_message_request::Update::DigestAck(ack)),
        };
        let closed = || ClientError::StreamClosed {
            reason: "before digests were confirmed".to_owned(),
        };
        let primary = self.primary.as_mut().ok_or_else(closed)?;
        let sent = primary.stream.requests.send(request).await;
        sent.map_err(|_| closed())
    }

    /// Reads entities and passes them to `each`, one response message at a time.
    ///
    /// # Errors
    /// The switch refused the read, or the next message did not arrive in time; `each` has received the messages before
    /// it.
    pub async fn read_each(
        &mut self,
        entities: Vec<Entity>,
        mut each: impl FnMut(Vec<Entity>),
    ) -> Result<(), ClientError> {
        let request = ReadRequest {
            device_id: self.device_id,
            role: self.role.clone(),
            entities,
        };
        let limit = self.call_timeout_ms;
        let response = in_time("a read", limit, self.p4runtime.read(request)).await?;
        let mut stream = response
            .map_err(|status| self.error("a read", &status))?
            .into_inner();
        loop {
            let part = in_time("a read", limit, stream.message()).await?;
            match part.map_err(|status| self.error("a read", &status))? {
                Some(part) => each(part.entities),
                None => return Ok(()),
            }
        }
    }

    /// Writes a batch. If updates fail, the error has the result of each.
    ///
    /// # Errors
    /// The client is not primary, or the switch refused updates.
    pub async fn write_batch(
        &mut self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<(), WriteError> {
        let n_updates = updates.len();
        let request = WriteRequest {
            atomicity: atomicity.into(),
            ..self.write_request(updates)
        };
        let response = self.written(request).await?;
        response.map_err(|status| {
            let errors = update_errors(&status);
            if errors.len() == n_updates {
                WriteError::Updates(errors)
            } else {
                WriteError::Call(self.error("a write", &status))
            }
        })
    }

    pub(super) fn write_request(&self, updates: Vec<Update>) -> WriteRequest {
        WriteRequest {
            device_id: self.device_id,
            role: self.role.clone(),
            election_id: self.election_id().map(uint128),
            updates,
            ..WriteRequest::default()
        }
    }

    pub(super) async fn written(
        &mut self,
        request: WriteRequest,
    ) -> Result<Result<(), Status>, ClientError> {
        let limit = self.call_timeout_ms;
        let response = in_time("a write", limit, self.p4runtime.write(request)).await?;
        Ok(response.map(|_| ()))
    }

    /// Sends any action on the pipeline.
    ///
    /// # Errors
    /// The client is not primary, or the switch refused the action and changed nothing.
    pub async fn configure(
        &mut self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), ClientError> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            role: self.role.clone(),
            election_id: self.election_id().map(uint128),
            action: action.into(),
            config,
            ..SetForwardingPipelineConfigRequest::default()
        };
        let call = self.p4runtime.set_forwarding_pipeline_config(request);
        let response = in_time("to load the program", PIPELINE_TIMEOUT_MS, call).await?;
        response.map_err(|status| self.error(PIPELINE, &status))?;
        Ok(())
    }

    /// The P4Runtime version that the server speaks.
    ///
    /// # Errors
    /// Nothing answers.
    pub async fn capabilities(&mut self) -> Result<String, ClientError> {
        let request = CapabilitiesRequest {
            device_id: self.device_id,
        };
        let call = self.p4runtime.capabilities(request);
        let response = in_time("an answer in P4Runtime", CONNECT_TIMEOUT_MS, call).await?;
        let response = response.map_err(|status| self.error("its capabilities", &status))?;
        Ok(response.into_inner().p4runtime_api_version)
    }
}
