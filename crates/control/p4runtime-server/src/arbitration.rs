//! Client arbitration: who is primary, and which controllers get which notification. A pure state machine.
//!
//! Source: P4Runtime 1.5.0, "Client Arbitration and Controller Replication". Each role has its own primary. When a
//! primary leaves, its role has no primary until a client sends an election id that is at least the highest id that the
//! role ever had; no backup is promoted automatically.

use std::collections::BTreeMap;
use std::sync::Arc;

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1::{MasterArbitrationUpdate, Role, Uint128};
use prost_types::Any;
use tonic::Status;

use crate::limits::{ROLES_MAX, STREAMS_MAX};
use crate::roles::{Access, RoleConfig, RoleName, role_config};
use crate::stream::StreamSender;

/// The number of an open stream. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(u64);

/// The live controllers of one device, by role.
pub(crate) struct Arbitration {
    device_id: u64,
    next_client: u64,
    clients: BTreeMap<ClientId, Client>,
    /// Every role that ever had a live controller, and always the default role.
    roles: BTreeMap<RoleName, RoleState>,
}

#[derive(Default)]
struct RoleState {
    primary: Option<ClientId>,
    /// The primary and its election id as last logged.
    logged: Option<(ClientId, u128)>,
    /// The highest election id that a controller of the role ever sent.
    highest: Option<u128>,
    /// The role config as the last primary wrote it. `None` if that primary wrote none.
    config: Option<Any>,
    access: Arc<Access>,
}

struct Client {
    role: RoleName,
    /// A client without an election id never becomes primary.
    election_id: Option<u128>,
    /// The role as the client wrote it, for the answers.
    written: Option<Role>,
    sender: StreamSender,
}

/// Which controllers get a notification after an accepted update.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    /// Only the sender, which is a backup.
    Sender,
    /// All controllers of the role, because the role has no primary now.
    All,
    /// The other controllers of the role get the notification at once. The sender, which is primary now, gets it after
    /// the writes in progress.
    OthersThenPrimary,
}

impl Arbitration {
    pub(crate) fn new(device_id: u64) -> Self {
        Self {
            device_id,
            next_client: 0,
            clients: BTreeMap::new(),
            roles: BTreeMap::from([(RoleName::default(), RoleState::default())]),
        }
    }

    /// Returns the number of a new stream. The stream's controller is live from its first accepted update on.
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
        let role = role_name(update.role.as_ref());
        let config = self.check(client, &role, update, election_id)?;
        let entry = Client {
            role: role.clone(),
            election_id,
            written: update.role.clone(),
            sender: sender.clone(),
        };
        self.clients.insert(client, entry);
        let state = self.roles.entry(role.clone()).or_default();
        if election_id.is_some() && election_id >= state.highest {
            state.highest = election_id;
            state.config = update.role.as_ref().and_then(|role| role.config.clone());
            self.set_access(&role, config);
            self.set_primary(&role, Some(client));
            return Ok(Notify::OthersThenPrimary);
        }
        let is_primary = state.primary == Some(client);
        // The role's config stays as it was. An existing role keeps its access, and a new role gets its access here.
        let config = self.config_of(&role);
        self.set_access(&role, config);
        if is_primary {
            self.set_primary(&role, None);
            return Ok(Notify::All);
        }
        Ok(Notify::Sender)
    }

    fn config_of(&self, role: &RoleName) -> Option<RoleConfig> {
        self.roles.get(role)?.access.config.clone()
    }

    /// Computes the access of every role after `role` got this config. Ids that are exclusive to `role` are denied to
    /// the other roles.
    fn set_access(&mut self, role: &RoleName, config: Option<RoleConfig>) {
        let configs = self.roles.iter().map(|(name, state)| {
            let config = if name == role {
                config.clone()
            } else {
                state.access.config.clone()
            };
            (name.clone(), config)
        });
        let configs: Vec<_> = configs.collect();
        for (name, state) in &mut self.roles {
            let others = configs.iter().filter(|(other, _)| other != name);
            let taken = others.filter_map(|(_, config)| config.as_ref());
            let taken = taken.flat_map(|config| config.exclusive_p4_ids.iter().copied());
            let access = Access {
                role: name.clone(),
                config: configs
                    .iter()
                    .find(|(of, _)| of == name)
                    .and_then(|(_, config)| config.clone()),
                taken: taken.collect(),
            };
            if *state.access != access {
                state.access = Arc::new(access);
            }
        }
    }

    /// Sets the primary of a role. Logs the change if the primary or its election id differs from what was logged last.
    fn set_primary(&mut self, role: &RoleName, primary: Option<ClientId>) {
        let election_id = primary
            .and_then(|primary| self.clients.get(&primary))
            .and_then(|client| client.election_id);
        let now = primary.zip(election_id);
        let Some(state) = self.roles.get_mut(role) else {
            return;
        };
        state.primary = primary;
        if state.logged == now {
            return;
        }
        state.logged = now;
        let controllers = self.clients.len();
        let of = if role.is_default() {
            String::new()
        } else {
            format!(" of {}", role.shown())
        };
        match election_id {
            Some(election_id) => tracing::info!(
                event = "primary_changed",
                %election_id,
                controllers,
                "the controller with election id {election_id} is primary{of}"
            ),
            None => tracing::info!(
                event = "primary_changed",
                controllers,
                "no controller is primary{of}"
            ),
        }
    }

    /// Checks an update, and returns its role config, if any.
    fn check(
        &self,
        client: ClientId,
        role: &RoleName,
        update: &MasterArbitrationUpdate,
        election_id: Option<u128>,
    ) -> Result<Option<RoleConfig>, Status> {
        let live = self.clients.get(&client);
        if update.device_id != self.device_id {
            let message = device_mismatch(self.device_id, update.device_id);
            return Err(match live {
                Some(_) => Status::failed_precondition(message),
                None => Status::not_found(message),
            });
        }
        if live.is_some_and(|live| live.role != *role) {
            return Err(Status::failed_precondition(
                "the role of a stream cannot be changed",
            ));
        }
        let config = self.role_config(role, update)?;
        let mut others = self.clients.iter();
        let is_taken = others.any(|(id, other)| {
            *id != client && other.role == *role && other.election_id == election_id
        });
        if election_id.is_some() && is_taken {
            return Err(Status::invalid_argument(format!(
                "another live controller has the election id {}",
                election_id.unwrap_or_default()
            )));
        }
        if live.is_none() && self.clients.len() >= STREAMS_MAX {
            return Err(Status::resource_exhausted(format!(
                "there are {STREAMS_MAX} live controllers already, the most that the switch allows: end one of them, and \
                 its place is free at once"
            )));
        }
        if !self.roles.contains_key(role) && self.roles.len() >= ROLES_MAX {
            return Err(Status::resource_exhausted(format!(
                "{ROLES_MAX} roles were used since the switch began, the most that it allows"
            )));
        }
        Ok(config)
    }

    fn role_config(
        &self,
        role: &RoleName,
        update: &MasterArbitrationUpdate,
    ) -> Result<Option<RoleConfig>, Status> {
        let config = update.role.as_ref().and_then(|role| role.config.as_ref());
        let Some(config) = config else {
            return Ok(None);
        };
        if role.is_default() {
            return Err(Status::invalid_argument(
                "expected no role config, since the default role has full access",
            ));
        }
        let config = role_config(config)?;
        for (other, state) in self.roles.iter().filter(|(other, _)| *other != role) {
            let theirs = state.access.config.as_ref();
            let theirs = theirs.map_or(&[][..], |it| it.exclusive_p4_ids.as_slice());
            let mut ours = config.exclusive_p4_ids.iter();
            if let Some(id) = ours.find(|id| theirs.contains(id)) {
                return Err(Status::invalid_argument(format!(
                    "{} has the id {id} ({id:#010x}) exclusively, and {} wants it too",
                    other.shown(),
                    role.shown()
                )));
            }
        }
        Ok(Some(config))
    }

    /// Removes a stream that has ended. If its controller was primary, notifies the other controllers of the role.
    pub(crate) fn remove(&mut self, client: ClientId) {
        let Some(removed) = self.clients.remove(&client) else {
            return;
        };
        let state = self.roles.get(&removed.role);
        if state.is_some_and(|state| state.primary == Some(client)) {
            self.set_primary(&removed.role, None);
            self.notify_all(&removed.role, None);
        }
    }

    /// Notifies every live controller of the client's role whether it is primary or backup. If `but_itself` is set, the
    /// client itself gets no notification.
    pub(crate) fn notify_role_of(&self, client: ClientId, but_itself: bool) {
        if let Some(of) = self.clients.get(&client) {
            self.notify_all(&of.role, but_itself.then_some(client));
        }
    }

    fn notify_all(&self, role: &RoleName, except: Option<ClientId>) {
        let clients = self
            .clients
            .iter()
            .filter(|(_, client)| client.role == *role);
        for (client, _) in clients.filter(|(id, _)| Some(**id) != except) {
            self.notify(*client);
        }
    }

    /// Notifies a controller, if its stream is still open, whether it is primary.
    pub(crate) fn notify(&self, client: ClientId) {
        let Some(entry) = self.clients.get(&client) else {
            return;
        };
        let Some(state) = self.roles.get(&entry.role) else {
            return;
        };
        let (code, message) = match state.primary {
            Some(primary) if primary == client => (rpc::Code::Ok, "you are primary"),
            Some(_) => (
                rpc::Code::AlreadyExists,
                "you are backup, another is primary",
            ),
            None => (rpc::Code::NotFound, "you are backup, there is no primary"),
        };
        let role = entry.written.clone().map(|written| Role {
            config: state.config.clone(),
            ..written
        });
        entry.sender.arbitration(MasterArbitrationUpdate {
            device_id: self.device_id,
            role,
            election_id: state.highest.map(uint128),
            status: Some(rpc::Status {
                code: code as i32,
                message: message.into(),
                details: Vec::new(),
            }),
        });
    }

    /// What a role may do. `None` if no controller ever had this role.
    pub(crate) fn access(&self, role: &RoleName) -> Option<Arc<Access>> {
        Some(Arc::clone(&self.roles.get(role)?.access))
    }

    /// Returns the access of a role if this is the election id of the role's primary, since only the primary may write.
    /// As P4Runtime prescribes, role and election id identify the client.
    pub(crate) fn expect_primary(
        &self,
        role: &RoleName,
        election_id: Option<Uint128>,
    ) -> Result<Arc<Access>, Status> {
        let election_id = election_id.map(number);
        let Some(state) = self.roles.get(role) else {
            return Err(Status::not_found(format!("there is no {}", role.shown())));
        };
        let primary = state.primary.and_then(|primary| self.clients.get(&primary));
        match primary {
            Some(primary) if election_id.is_some() && primary.election_id == election_id => {
                Ok(Arc::clone(&state.access))
            }
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

    /// What a client's role may do; `None` if the client is not the role's primary.
    pub(crate) fn primary_access(&self, client: ClientId) -> Option<&Access> {
        let role = &self.clients.get(&client)?.role;
        let state = self.roles.get(role)?;
        (state.primary == Some(client)).then_some(&*state.access)
    }

    pub(crate) fn primaries(&self) -> impl Iterator<Item = (&Access, &StreamSender)> {
        self.roles.values().filter_map(|state| {
            let primary = self.clients.get(&state.primary?)?;
            Some((&*state.access, &primary.sender))
        })
    }
}

fn role_name(role: Option<&Role>) -> RoleName {
    #[expect(deprecated, reason = "controllers of before P4Runtime 1.4 write it")]
    role.map_or_else(RoleName::default, |role| RoleName::new(&role.name, role.id))
}

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
