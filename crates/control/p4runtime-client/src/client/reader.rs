//! Reads, which need only a connection.

use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::{Entity, ReadRequest};
use p4runtime_proto::reprise::v1::switch_client::SwitchClient;
use p4runtime_proto::reprise::v1::{GetCountersRequest, GetCountersResponse};
use tonic::transport::Channel;

use crate::error::{ClientError, Peer, in_time};
use crate::limits::{CALL_TIMEOUT_MS, READ_BATCH_ENTITIES};

/// Reads from a switch. A clone of a reader can read at the same time as the reader.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) p4runtime: P4RuntimeClient<Channel>,
    pub(super) switch: SwitchClient<Channel>,
    pub(super) peer: Peer,
    /// The client's role. The empty name is the default role, which may do everything.
    pub(super) role: String,
    pub(super) call_timeout_ms: u64,
}

impl Reader {
    /// Reads entities; a wildcard returns all that match.
    ///
    /// # Errors
    /// As [`Reader::read_each`].
    pub async fn read(&mut self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        let mut found = Vec::new();
        self.read_each(entities, |part| found.extend(part)).await?;
        Ok(found)
    }

    /// Reads entities in requests of bounded size, and passes them to `each`, one response message at a time.
    ///
    /// # Errors
    /// The switch refused the read, or the next message did not arrive in time; `each` has received all earlier
    /// messages.
    pub async fn read_each(
        &mut self,
        entities: Vec<Entity>,
        mut each: impl FnMut(Vec<Entity>),
    ) -> Result<(), ClientError> {
        for page in entities.chunks(READ_BATCH_ENTITIES) {
            self.read_page(page.to_vec(), &mut each).await?;
        }
        Ok(())
    }

    async fn read_page(
        &mut self,
        entities: Vec<Entity>,
        each: &mut impl FnMut(Vec<Entity>),
    ) -> Result<(), ClientError> {
        let request = ReadRequest {
            device_id: self.peer.device_id,
            role: self.role.clone(),
            entities,
        };
        let limit = self.call_timeout_ms;
        let call = self.p4runtime.read(request);
        let mut stream = self.peer.answer("a read", limit, call).await?;
        loop {
            let part = in_time("a read", limit, stream.message()).await?;
            match part.map_err(|status| self.peer.error("a read", &status))? {
                Some(part) => each(part.entities),
                None => return Ok(()),
            }
        }
    }

    /// Returns every counter of the switch itself. The program's counters are not among them.
    ///
    /// # Errors
    /// The call failed.
    pub async fn counters(&mut self) -> Result<GetCountersResponse, ClientError> {
        let call = self.switch.get_counters(GetCountersRequest {
            device_id: self.peer.device_id,
        });
        self.peer
            .answer("its counters", CALL_TIMEOUT_MS, call)
            .await
    }
}
