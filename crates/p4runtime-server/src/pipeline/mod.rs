//! A forwarding pipeline: P4Info and BMv2 JSON, checked against each other once.
//!
//! Here P4Info ids become the data plane's ids and back. Source: P4Runtime 1.5.0, "The P4Info
//! Message" and "P4 Forwarding-Pipeline Configuration".

mod array;
mod coverage;
mod device_config;
mod origin;
mod packet_header;
mod table;
mod translation;

pub(crate) use array::{CellType, Counter, Register};
pub use origin::ORIGIN_KIND;
pub(crate) use packet_header::PacketHeader;
pub(crate) use table::{Field, Table};
pub(crate) use translation::{Names, NamesInUse, NewNames};

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use dataplane::{PayloadSignature, Program};
use p4runtime_proto::p4::config::v1::{P4Info, Preamble};
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;

use crate::error::{EntityError, EntityResult};

/// Why a P4Info and a device config are no pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PipelineError(pub(crate) String);

pub(crate) type PipelineResult<T> = Result<T, PipelineError>;

/// Whether a switch without externs of its own would take a config, as the action `VERIFY` finds out.
///
/// # Errors
/// P4Info and device config do not fit each other, or are none.
pub fn check_pipeline(config: ForwardingPipelineConfig) -> PipelineResult<()> {
    Pipeline::new(config, &[]).map(drop)
}

/// A checked pipeline.
pub(crate) struct Pipeline {
    config: ForwardingPipelineConfig,
    program: Program,
    tables: BTreeMap<u32, Table>,
    counters: BTreeMap<u32, Counter>,
    registers: BTreeMap<u32, Register>,
    packet_in: Option<PacketHeader>,
    packet_out: Option<PacketHeader>,
    /// By type, in the P4Info's order.
    names: Vec<Arc<Names>>,
}

impl Pipeline {
    /// Checks a config: the device config is a BMv2 JSON program that has everything the P4Info
    /// promises, with the same widths and sizes, and calls no other externs than the switch's.
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
        let registers = by_id(array::registers(p4info, &json, &program)?, |register| {
            register.id
        });
        let (packet_in, packet_out) = packet_header::packet_headers(p4info, &json, &mut types)?;
        Ok(Self {
            program,
            tables,
            counters,
            registers,
            packet_in,
            packet_out,
            names: types.into_names(),
            config,
        })
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn p4info(&self) -> Option<&P4Info> {
        self.config.p4info.as_ref()
    }

    pub(crate) fn config(&self) -> &ForwardingPipelineConfig {
        &self.config
    }

    /// Tells the log that it forwards from now on.
    pub(crate) fn tell_set(&self) {
        let p4info = self.p4info();
        let package = p4info.and_then(|p4info| p4info.pkg_info.as_ref());
        let name = package.map_or("", |package| &package.name);
        let tables = p4info.map_or(0, |p4info| p4info.tables.len());
        let cookie = self.config.cookie.as_ref().map(|cookie| cookie.cookie);
        tracing::info!(
            event = "pipeline_set",
            name,
            tables,
            cookie,
            "the pipeline \"{name}\" is set"
        );
        if let Some(p4info) = p4info {
            coverage::tell(p4info, &self.program);
        }
    }

    pub(crate) fn packet_in(&self) -> Option<&PacketHeader> {
        self.packet_in.as_ref()
    }

    pub(crate) fn packet_out(&self) -> Option<&PacketHeader> {
        self.packet_out.as_ref()
    }

    /// Every type's names.
    pub(crate) fn names(&self) -> &[Arc<Names>] {
        &self.names
    }

    /// Forgets the names that no entry has.
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

/// No object has id 0 or the id of another one.
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
