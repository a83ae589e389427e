//! Roles: which objects of a pipeline the controllers of a role may write and read, and which notifications they get.
//!
//! The default role has every object. A named role has the objects that its primary's role config lists; without a
//! config, it has every object except those that `@p4runtime_role` gives to another role. Objects without an id in the
//! P4Info (multicast groups, clone sessions, packet generators) belong to all roles. The config is Stratum's
//! `P4RoleConfig`, the only scheme in use. Source: P4Runtime 1.5.0, "Role Config", which leaves the scheme open.

use std::collections::BTreeSet;

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::{PacketIn, TableEntry, Update};
use prost::Message;
use prost_types::Any;

use crate::error::{EntityError, EntityResult};
use crate::pipeline::Pipeline;

/// The annotation that gives an object to a role, as PINS writes it.
pub(crate) const ANNOTATION: &str = "@p4runtime_role";

/// The last part of a role config's type URL.
const ROLE_CONFIG: &str = "stratum.P4RoleConfig";

/// A role's name, or the number that identified it before P4Runtime 1.4. The default role has neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoleName {
    name: String,
    /// 0 if the role has a name.
    id: u64,
}

impl RoleName {
    pub(crate) fn new(name: &str, id: u64) -> Self {
        let id = if name.is_empty() { id } else { 0 };
        Self {
            name: name.to_owned(),
            id,
        }
    }

    /// The role's name; empty if the role has only a number.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn shown(&self) -> String {
        match (self.name.as_str(), self.id) {
            ("", 0) => "the default role".to_owned(),
            ("", id) => format!("role {id}"),
            (name, _) => format!("role \"{name}\""),
        }
    }

    fn is_annotated(&self, annotated: &str) -> bool {
        self.name == annotated
    }
}

/// `stratum.P4RoleConfig`, as a role's primary sends it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RoleConfig {
    /// Objects that only this role and the default role may write.
    #[prost(uint32, repeated, tag = "1")]
    pub(crate) exclusive_p4_ids: Vec<u32>,
    /// Objects that other roles may write too.
    #[prost(uint32, repeated, tag = "2")]
    pub(crate) shared_p4_ids: Vec<u32>,
    /// Which packet-ins the role receives; all if unset.
    #[prost(message, optional, tag = "3")]
    pub(crate) packet_in_filter: Option<PacketFilter>,
    /// Whether the role receives packet-ins and may send packet-outs.
    #[prost(bool, tag = "4")]
    pub(crate) receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    pub(crate) can_push_pipeline: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct PacketFilter {
    #[prost(uint32, tag = "1")]
    pub(crate) metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

pub(crate) fn role_config(config: &Any) -> EntityResult<RoleConfig> {
    let name = config.type_url.rsplit('/').next().unwrap_or_default();
    if name != ROLE_CONFIG {
        return Err(EntityError::invalid(format!(
            "expected a role config of type {ROLE_CONFIG}, found \"{}\"",
            config.type_url
        )));
    }
    RoleConfig::decode(config.value.as_slice())
        .map_err(|error| EntityError::invalid(format!("the role config is malformed: {error}")))
}

/// What the controllers of a role may do. Whenever the config of any role changes what these controllers may do, a new
/// `Access` replaces this one.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Access {
    pub(crate) role: RoleName,
    pub(crate) config: Option<RoleConfig>,
    /// Ids that are exclusive to other roles.
    pub(crate) taken: BTreeSet<u32>,
}

impl Access {
    /// Whether the role may write and read an object of the P4Info, and gets its notifications.
    pub(crate) fn has(&self, pipeline: &Pipeline, id: u32) -> bool {
        if self.role.is_default() {
            return true;
        }
        if self.taken.contains(&id) {
            return false;
        }
        match &self.config {
            Some(config) => {
                let mut ids = config.exclusive_p4_ids.iter().chain(&config.shared_p4_ids);
                ids.any(|listed| *listed == id)
            }
            None => {
                let annotated = pipeline.role_of(id);
                annotated.is_none_or(|annotated| self.role.is_annotated(annotated))
            }
        }
    }

    /// Refuses an update of an object that the role does not have.
    pub(crate) fn expect(&self, pipeline: &Pipeline, update: &Update) -> EntityResult {
        let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
        match entity.and_then(object) {
            Some(id) if !self.has(pipeline, id) => Err(EntityError::denied(format!(
                "{} is not of {}",
                pipeline.object_name(id),
                self.role.shown()
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn receives(&self, packet: &PacketIn) -> bool {
        let Some(config) = &self.config else {
            return true;
        };
        config.receives_packet_ins
            && config.packet_in_filter.as_ref().is_none_or(|filter| {
                let mut metadata = packet.metadata.iter();
                metadata.any(|it| it.metadata_id == filter.metadata_id && it.value == filter.value)
            })
    }

    /// Refuses packet-outs that the role config does not allow.
    pub(crate) fn expect_packet_out(&self) -> EntityResult {
        let sends = self.config.as_ref();
        self.expect_allowed(
            sends.is_none_or(|config| config.receives_packet_ins),
            "packets",
        )
    }

    /// Refuses pipelines that the role config does not allow.
    pub(crate) fn expect_pipeline(&self) -> EntityResult {
        let sets = self.config.as_ref();
        self.expect_allowed(
            sets.is_none_or(|config| config.can_push_pipeline),
            "pipelines",
        )
    }

    fn expect_allowed(&self, is_allowed: bool, what: &str) -> EntityResult {
        if is_allowed {
            Ok(())
        } else {
            Err(EntityError::denied(format!(
                "the role config of {} has no {what}",
                self.role.shown()
            )))
        }
    }
}

/// The P4Info id of an entity's object. `None` if the object has no id in the P4Info, or if the entity does not give
/// the id.
pub(crate) fn object(entity: &Kind) -> Option<u32> {
    let of_table = |entry: &Option<TableEntry>| entry.as_ref().map_or(0, |entry| entry.table_id);
    let id = match entity {
        Kind::TableEntry(entry) => entry.table_id,
        Kind::DirectCounterEntry(entry) => of_table(&entry.table_entry),
        Kind::DirectMeterEntry(entry) => of_table(&entry.table_entry),
        Kind::ActionProfileMember(entry) => entry.action_profile_id,
        Kind::ActionProfileGroup(entry) => entry.action_profile_id,
        Kind::CounterEntry(entry) => entry.counter_id,
        Kind::MeterEntry(entry) => entry.meter_id,
        Kind::RegisterEntry(entry) => entry.register_id,
        Kind::ValueSetEntry(entry) => entry.value_set_id,
        Kind::DigestEntry(entry) => entry.digest_id,
        Kind::PacketReplicationEngineEntry(_) | Kind::ExternEntry(_) => 0,
    };
    (id != 0).then_some(id)
}
