//! Client arbitration: who is primary, and who is told what. A pure state machine.
//!
//! Source: P4Runtime 1.5.0, "Client Arbitration and Controller Replication". Only the default
//! role exists. When the primary leaves there is none until a client sends an election id that is
//! at least the highest ever seen; nobody is promoted on its own.

use std::collections::BTreeMap;

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1::{MasterArbitrationUpdate, Role, Uint128};
use tonic::Status;

use crate::limits::STREAMS_MAX;
use crate::p4runtime_service::named_role;
use crate::stream::StreamSender;

/// A stream, as long as it is open; numbers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(u64);

/// The live controllers of one device and the default role.
pub(crate) struct Arbitration {
    device_id: u64,
    next_client: u64,
    clients: BTreeMap<ClientId, Client>,
    primary: Option<ClientId>,
    /// The primary and its election id as the log has them.
    told: Option<(ClientId, u128)>,
    /// The highest election id ever seen.
    highest: Option<u128>,
}

struct Client {
    /// None never becomes primary.
    election_id: Option<u128>,
    role: Option<Role>,
    sender: StreamSender,
}

/// Who must be told after an accepted update.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    /// Only the sender, a backup.
    Sender,
    /// Everybody, there is no primary.
    All,
    /// Everybody else at once; the sender, which is primary now, when the writes that have
    /// started are done.
    OthersThenPrimary,
}

impl Arbitration {
    pub(crate) fn new(device_id: u64) -> Self {
        Self {
            device_id,
            next_client: 0,
            clients: BTreeMap::new(),
            primary: None,
            told: None,
            highest: None,
        }
    }

    /// A number for a new stream, which is live from its first accepted update on.
    pub(crate) fn new_client(&mut self) -> ClientId {
        self.next_client += 1;
        ClientId(self.next_client)
    }

    /// Handles a `MasterArbitrationUpdate`; an error ends the stream.
    pub(crate) fn update(
        &mut self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
        sender: &StreamSender,
    ) -> Result<Notify, Status> {
        let election_id = update.election_id.map(number);
        self.check(client, update, election_id)?;
        let entry = Client {
            election_id,
            role: update.role.clone(),
            sender: sender.clone(),
        };
        self.clients.insert(client, entry);

        if election_id.is_some() && election_id >= self.highest {
            self.highest = election_id;
            self.set_primary(Some(client));
            return Ok(Notify::OthersThenPrimary);
        }
        if self.primary == Some(client) {
            self.set_primary(None);
            return Ok(Notify::All);
        }
        Ok(Notify::Sender)
    }

    /// Tells the log, where that is another one, or has another election id than before.
    fn set_primary(&mut self, primary: Option<ClientId>) {
        self.primary = primary;
        let election_id = self.primary_client().and_then(|client| client.election_id);
        let now = primary.zip(election_id);
        if self.told == now {
            return;
        }
        self.told = now;
        let controllers = self.clients.len();
        match election_id {
            Some(election_id) => tracing::info!(
                event = "primary_changed",
                %election_id,
                controllers,
                "the controller with election id {election_id} is primary"
            ),
            None => tracing::info!(
                event = "primary_changed",
                controllers,
                "no controller is primary"
            ),
        }
    }

    fn check(
        &self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
        election_id: Option<u128>,
    ) -> Result<(), Status> {
        let is_live = self.clients.contains_key(&client);
        if update.device_id != self.device_id {
            let message = device_mismatch(self.device_id, update.device_id);
            return Err(match is_live {
                true => Status::failed_precondition(message),
                false => Status::not_found(message),
            });
        }
        if let Some(role) = &update.role {
            #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
            let is_default = role.name.is_empty() && role.id == 0;
            if !is_default && is_live {
                return Err(Status::failed_precondition(
                    "the role of a stream cannot be changed",
                ));
            }
            if !is_default {
                #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
                let found = named_role(&role.name, role.id);
                return Err(Status::unimplemented(format!(
                    "only the default role is supported, found {found}"
                )));
            }
            if role.config.is_some() {
                return Err(Status::invalid_argument(
                    "expected no role config, since the default role has full access",
                ));
            }
        }
        let mut others = self.clients.iter().filter(|(id, _)| **id != client);
        if election_id.is_some() && others.any(|(_, other)| other.election_id == election_id) {
            return Err(Status::invalid_argument(format!(
                "another live controller has the election id {}",
                election_id.unwrap_or_default()
            )));
        }
        if !is_live && self.clients.len() >= STREAMS_MAX {
            return Err(Status::resource_exhausted(format!(
                "there are {STREAMS_MAX} live controllers already, as many as there may be: end one of them, and \
                 its place is free at once"
            )));
        }
        Ok(())
    }

    /// A stream has ended; if it was the primary's, the others are told.
    pub(crate) fn remove(&mut self, client: ClientId) {
        self.clients.remove(&client);
        if self.primary == Some(client) {
            self.set_primary(None);
            self.notify_all_but(None);
        }
    }

    /// Tells every live controller but one what it is now.
    pub(crate) fn notify_all_but(&self, except: Option<ClientId>) {
        for client in self.clients.keys().filter(|id| Some(**id) != except) {
            self.notify(*client);
        }
    }

    /// Tells a controller, if it is still there, what it is now.
    pub(crate) fn notify(&self, client: ClientId) {
        let Some(entry) = self.clients.get(&client) else {
            return;
        };
        let (code, message) = match self.primary {
            Some(primary) if primary == client => (rpc::Code::Ok, "you are primary"),
            Some(_) => (
                rpc::Code::AlreadyExists,
                "you are backup, another is primary",
            ),
            None => (rpc::Code::NotFound, "you are backup, there is no primary"),
        };
        entry.sender.arbitration(MasterArbitrationUpdate {
            device_id: self.device_id,
            role: entry.role.clone(),
            election_id: self.highest.map(uint128),
            status: Some(rpc::Status {
                code: code as i32,
                message: message.into(),
                details: Vec::new(),
            }),
        });
    }

    /// Only the primary writes. Clients are told apart by their election ids, as P4Runtime has it.
    pub(crate) fn expect_primary(&self, election_id: Option<Uint128>) -> Result<(), Status> {
        let election_id = election_id.map(number);
        match self.primary_client() {
            Some(primary) if election_id.is_some() && primary.election_id == election_id => Ok(()),
            Some(primary) => Err(Status::permission_denied(format!(
                "only the primary may write, election id {} is not the primary's, which has {}: a controller with \
                 a higher one takes its place",
                written(election_id),
                written(primary.election_id)
            ))),
            None => Err(Status::permission_denied(
                "only the primary may write, there is no primary: a controller whose election id is at least the \
                 highest ever seen becomes it",
            )),
        }
    }

    pub(crate) fn is_primary(&self, client: ClientId) -> bool {
        self.primary == Some(client)
    }

    /// Where packet-ins go.
    pub(crate) fn primary_sender(&self) -> Option<&StreamSender> {
        self.primary_client().map(|client| &client.sender)
    }

    fn primary_client(&self) -> Option<&Client> {
        self.clients.get(&self.primary?)
    }
}

/// What a request for another device is told.
pub(crate) fn device_mismatch(device_id: u64, found: u64) -> String {
    format!("expected the device id {device_id}, found {found}")
}

fn written(election_id: Option<u128>) -> String {
    election_id.map_or("(unset)".into(), |id| id.to_string())
}

fn number(id: Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn uint128(id: u128) -> Uint128 {
    Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}
