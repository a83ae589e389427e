//! A forwarding pipeline: P4Info and BMv2 JSON, checked against each other once.
//!
//! Translates between P4Info ids and the data plane's ids. Source: P4Runtime 1.5.0, "The P4Info Message" and "P4
//! Forwarding-Pipeline Configuration".

mod array;
mod coverage;
mod data;
pub(crate) mod device_config;
mod digest;
mod origin;
mod packet_header;
mod profile;
mod table;
mod translation;
mod value_set;

pub(crate) use array::{Counter, Meter, Register};
pub(crate) use data::DataType;
pub(crate) use digest::Digest;
pub use origin::ORIGIN_KIND;
pub(crate) use packet_header::PacketHeader;
pub(crate) use profile::{GroupSize, Profile};
pub(crate) use table::{Field, Table};
#[cfg(test)]
pub(crate) use translation::Values;
pub(crate) use translation::{Names, NamesInUse, NewNames};
pub(crate) use value_set::ValueSet;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use dataplane::{PayloadSignature, Program};
use p4runtime_proto::p4::config::v1::{P4Info, Preamble};
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;

use crate::error::{EntityError, EntityResult};
use crate::roles::ANNOTATION;

/// Why a P4Info and a device config do not make a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PipelineError(pub(crate) String);

pub(crate) type PipelineResult<T> = Result<T, PipelineError>;

/// Checks whether a switch without externs would accept a config, like the action `VERIFY` of P4Runtime's
/// `SetForwardingPipelineConfig`.
///
/// # Errors
/// P4Info or device config is invalid, or they do not fit each other.
pub fn check_pipeline(config: ForwardingPipelineConfig) -> PipelineResult<()> {
    Pipeline::new(config, &[]).map(drop)
}

pub(crate) struct Pipeline {
    config: ForwardingPipelineConfig,
    /// The path of the program's source file, if the compiler wrote the path into the device config.
    source: Option<String>,
    program: Program,
    tables: BTreeMap<u32, Table>,
    profiles: BTreeMap<u32, Profile>,
    counters: BTreeMap<u32, Counter>,
    meters: BTreeMap<u32, Meter>,
    value_sets: BTreeMap<u32, ValueSet>,
    digests: BTreeMap<u32, Digest>,
    registers: BTreeMap<u32, Register>,
    packet_in: Option<PacketHeader>,
    packet_out: Option<PacketHeader>,
    /// For each type that is translated to strings: its strings, here called names, and the numbers of the data plane
    /// that they stand for.
    names: Vec<Arc<Names>>,
    /// Name and annotated role of every object.
    objects: BTreeMap<u32, Object>,
}

impl Pipeline {
    /// Checks a config: the device config must be a BMv2 JSON program that has every object of the P4Info, with the
    /// same widths and sizes, and calls only externs that the switch has.
    pub(crate) fn new(
        config: ForwardingPipelineConfig,
        externs: &[PayloadSignature],
    ) -> PipelineResult<Self> {
        let p4info = config
            .p4info
            .as_ref()
            .ok_or_else(|| PipelineError("expected a P4Info, found none".into()))?;
        let json = device_config::bmv2_json(&config.p4_device_config)?;
        let program = Program::from_json_with(&json, externs)
            .map_err(|error| PipelineError(format!("the device config: {error}")))?;
        check_ids(p4info)?;
        let mut types = translation::Types::new(p4info);
        let tables = by_id(table::tables(p4info, &program, &mut types)?, |table| {
            table.id
        });
        let counters = by_id(array::counters(p4info, &json, &program)?, |counter| {
            counter.id
        });
        let profiles = by_id(profile::profiles(p4info, &program)?, |profile| profile.id);
        let meters = by_id(array::meters(p4info, &json, &program)?, |meter| meter.id);
        let registers = array::registers(p4info, &json, &program, &mut types)?;
        let registers = by_id(registers, |register| register.id);
        let value_sets = value_set::value_sets(p4info, &program, &mut types)?;
        let value_sets = by_id(value_sets, |set| set.id);
        let digests = by_id(digest::digests(p4info, &json, &mut types)?, |digest| {
            digest.id
        });
        let (packet_in, packet_out) = packet_header::packet_headers(p4info, &json, &mut types)?;
        Ok(Self {
            program,
            tables,
            profiles,
            counters,
            meters,
            registers,
            value_sets,
            digests,
            packet_in,
            packet_out,
            names: types.into_names(),
            objects: objects(p4info),
            source: json.program,
            config,
        })
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Whether `other` has the same P4Info and the same program, ignoring where the program's source file is.
    pub(crate) fn is_same_program(&self, other: &Self) -> bool {
        let (ours, others) = (&self.config, &other.config);
        let (our_bytes, others_bytes) = (&ours.p4_device_config, &others.p4_device_config);
        ours.p4info == others.p4info
            && (our_bytes == others_bytes || device_config::are_same(our_bytes, others_bytes))
    }

    pub(crate) fn p4info(&self) -> Option<&P4Info> {
        self.config.p4info.as_ref()
    }

    pub(crate) fn config(&self) -> &ForwardingPipelineConfig {
        &self.config
    }

    /// Logs that the pipeline now forwards.
    pub(crate) fn log_set(&self) {
        let p4info = self.p4info();
        let package = p4info.and_then(|p4info| p4info.pkg_info.as_ref());
        let name = package.map_or("", |package| &package.name);
        let tables = p4info.map_or(0, |p4info| p4info.tables.len());
        let cookie = self.config.cookie.as_ref().map(|cookie| cookie.cookie);
        let source = self.source.as_deref().unwrap_or_default();
        // Most P4Infos have no name, since few programs have the annotation for it.
        let shown = match (name, source) {
            ("", "") => "a pipeline without a name".to_owned(),
            ("", source) => format!("the pipeline of {source}"),
            (name, _) => format!("the pipeline \"{name}\""),
        };
        tracing::info!(
            event = "pipeline_set",
            name,
            source,
            tables,
            cookie,
            "{shown} is set"
        );
        if let Some(p4info) = p4info {
            coverage::log(p4info, &self.program);
        }
    }

    pub(crate) fn packet_in(&self) -> Option<&PacketHeader> {
        self.packet_in.as_ref()
    }

    pub(crate) fn packet_out(&self) -> Option<&PacketHeader> {
        self.packet_out.as_ref()
    }

    /// The role to which an annotation assigns an object. An action profile without annotation has the role of its
    /// first table.
    pub(crate) fn role_of(&self, id: u32) -> Option<&str> {
        let role = |id: &u32| self.objects.get(id)?.role.as_deref();
        let of_table = || role(self.profiles.get(&id)?.tables.first()?);
        role(&id).or_else(of_table)
    }

    pub(crate) fn has_role(&self, name: &str) -> bool {
        let mut objects = self.objects.values();
        objects.any(|object| object.role.as_deref() == Some(name))
    }

    pub(crate) fn object_name(&self, id: u32) -> String {
        match self.objects.get(&id) {
            Some(object) => format!("\"{}\"", object.name),
            None => format!("object {id} ({id:#010x})"),
        }
    }

    /// Returns, for each type that is translated to strings, its strings and their numbers.
    pub(crate) fn names(&self) -> &[Arc<Names>] {
        &self.names
    }

    /// Forgets the translated strings that no entry uses.
    pub(crate) fn keep_names(&self, used: &NamesInUse) {
        translation::keep(&self.names, used);
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.counters.values()
    }

    pub(crate) fn registers(&self) -> impl Iterator<Item = &Register> {
        self.registers.values()
    }

    pub(crate) fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }

    pub(crate) fn meters(&self) -> impl Iterator<Item = &Meter> {
        self.meters.values()
    }

    pub(crate) fn value_sets(&self) -> impl Iterator<Item = &ValueSet> {
        self.value_sets.values()
    }

    pub(crate) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.digests.values()
    }

    pub(crate) fn profile(&self, id: u32) -> EntityResult<&Profile> {
        let found = self.profiles.get(&id);
        found.ok_or_else(|| unknown("action profile", id))
    }

    pub(crate) fn meter(&self, id: u32) -> EntityResult<&Meter> {
        self.meters.get(&id).ok_or_else(|| unknown("meter", id))
    }

    pub(crate) fn value_set(&self, id: u32) -> EntityResult<&ValueSet> {
        let found = self.value_sets.get(&id);
        found.ok_or_else(|| unknown("value set", id))
    }

    pub(crate) fn digest(&self, id: u32) -> EntityResult<&Digest> {
        self.digests.get(&id).ok_or_else(|| unknown("digest", id))
    }

    /// Returns one of the tables that the profile implements. The profile has the same actions as this table.
    pub(crate) fn table_of(&self, profile: &Profile) -> EntityResult<&Table> {
        let mut tables = profile.tables.iter();
        let table = tables.find_map(|id| self.tables.get(id));
        table.ok_or_else(|| {
            let name = &profile.name;
            EntityError::invalid(format!(
                "action profile \"{name}\" has no table, so it has no actions"
            ))
        })
    }

    pub(crate) fn profile_of(&self, table: &Table) -> Option<&Profile> {
        self.profiles.get(&table.profile?)
    }

    pub(crate) fn table(&self, id: u32) -> EntityResult<&Table> {
        self.tables.get(&id).ok_or_else(|| unknown("table", id))
    }

    pub(crate) fn counter(&self, id: u32) -> EntityResult<&Counter> {
        self.counters.get(&id).ok_or_else(|| unknown("counter", id))
    }

    pub(crate) fn register(&self, id: u32) -> EntityResult<&Register> {
        self.registers
            .get(&id)
            .ok_or_else(|| unknown("register", id))
    }
}

fn unknown(kind: &str, id: u32) -> EntityError {
    EntityError::invalid(if id == 0 {
        format!("expected the id of a {kind}, found 0")
    } else {
        format!("expected the id of a {kind} of the P4Info, found {id} ({id:#010x})")
    })
}

fn by_id<T>(items: Vec<T>, id: impl Fn(&T) -> u32) -> BTreeMap<u32, T> {
    items.into_iter().map(|item| (id(&item), item)).collect()
}

struct Object {
    name: String,
    role: Option<String>,
}

fn objects(p4info: &P4Info) -> BTreeMap<u32, Object> {
    let mut objects = BTreeMap::new();
    macro_rules! note {
        ($($list:ident)*) => {$(
            for preamble in p4info.$list.iter().filter_map(|it| it.preamble.as_ref()) {
                let object = Object {
                    name: preamble.name.clone(),
                    role: annotated_role(preamble),
                };
                objects.insert(preamble.id, object);
            }
        )*};
    }
    note!(tables action_profiles counters meters value_sets registers digests);
    objects
}

/// Parses `@p4runtime_role("name")`.
fn annotated_role(preamble: &Preamble) -> Option<String> {
    let mut annotations = preamble.annotations.iter();
    let role = annotations.find_map(|it| it.trim().strip_prefix(ANNOTATION))?;
    let role = role.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    Some(role.trim_matches('"').to_owned())
}

/// Checks that ids are unique and not 0.
fn check_ids(p4info: &P4Info) -> PipelineResult<()> {
    let mut seen = HashSet::new();
    macro_rules! check {
        ($($list:ident)*) => {$(
            for object in &p4info.$list {
                let (kind, preamble) = (stringify!($list), object.preamble.as_ref());
                let preamble = preamble.ok_or_else(|| {
                    PipelineError(format!("P4Info {kind}: expected a preamble, found none"))
                })?;
                check_id(kind, preamble, &mut seen)?;
            }
        )*};
    }
    check!(tables actions action_profiles counters direct_counters meters direct_meters
        controller_packet_metadata value_sets registers digests);
    Ok(())
}

fn check_id(kind: &str, preamble: &Preamble, seen: &mut HashSet<u32>) -> PipelineResult<()> {
    let (id, name) = (preamble.id, &preamble.name);
    if id == 0 {
        return Err(PipelineError(format!(
            "P4Info {kind} \"{name}\": expected an id, found 0"
        )));
    }
    if !seen.insert(id) {
        return Err(PipelineError(format!(
            "P4Info {kind} \"{name}\": another object has its id {id} ({id:#010x})"
        )));
    }
    Ok(())
}
