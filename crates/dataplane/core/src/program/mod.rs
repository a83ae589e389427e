//! The loaded and verified program.

mod info;
pub(crate) mod ir;
mod load;
mod stateful;

use std::sync::Arc;

pub(crate) use info::is_generated_name;
pub use info::{
    ActionInfo, KeyField, LoadError, MatchKind, MeterUnit, ParamInfo, PayloadSignature, TableInfo,
};
use ir::{ActionProfile, Ir};
pub(crate) use load::is_primitive;

use crate::{ActionId, ActionProfileId, CounterId, MeterId, RegisterId, TableId, ValueSetId};

/// What traces and logs show in place of a secret.
pub(crate) const HIDDEN: &str = "<secret>";

/// A loaded and verified BMv2 JSON program. Clones share the data.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) ir: Arc<Ir>,
    pub(crate) tables: Arc<[TableInfo]>,
    pub(crate) actions: Arc<[ActionInfo]>,
}

fn position<T>(list: &[T], is_it: impl FnMut(&T) -> bool) -> Option<u32> {
    let position = list.iter().position(is_it)?;
    u32::try_from(position).ok()
}

impl Program {
    /// Loads BMv2 JSON text for v1model.
    ///
    /// # Errors
    /// [`LoadError`] names the object and what is wrong with it.
    pub fn from_json_str(text: &str) -> Result<Self, LoadError> {
        Self::from_json_str_with(text, &[])
    }

    /// Loads BMv2 JSON text for v1model. The program may call the payload externs `externs`.
    ///
    /// # Errors
    /// [`LoadError`] names the object and what is wrong with it.
    pub fn from_json_str_with(text: &str, externs: &[PayloadSignature]) -> Result<Self, LoadError> {
        let fail = |message| LoadError {
            place: "JSON".into(),
            message,
        };
        let json: bmv2_json::Program =
            bmv2_json::Program::from_json(text.as_bytes()).map_err(|error| {
                if error.is_data() {
                    fail(format!("not a program for BMv2: {error}"))
                } else {
                    fail(format!("not well-formed: {error}"))
                }
            })?;
        if json.pipelines.is_empty() {
            return Err(fail(
                "expected a program for BMv2 with its pipelines, found none".into(),
            ));
        }
        Self::from_json_with(&json, externs)
    }

    /// A program that does nothing, for a switch without a program.
    pub(crate) fn empty() -> Self {
        Self {
            ir: Arc::default(),
            tables: Arc::default(),
            actions: Arc::default(),
        }
    }

    /// Verifies BMv2 JSON of a v1model program.
    ///
    /// # Errors
    /// [`LoadError`] names the object and what is wrong with it.
    pub fn from_json(json: &bmv2_json::Program) -> Result<Self, LoadError> {
        Self::load(json, &ir::V1MODEL, &[])
    }

    /// Verifies BMv2 JSON of a program for another architecture.
    ///
    /// # Errors
    /// The same as for [`Program::from_json`].
    pub fn for_architecture(
        json: &bmv2_json::Program,
        architecture: &'static ir::Architecture,
    ) -> Result<Self, LoadError> {
        Self::load(json, architecture, &[])
    }

    /// Verifies BMv2 JSON of a v1model program, which may call the payload externs `externs`. These must be the externs
    /// of the switch that runs the program ([`crate::Switch::payload_signatures`]).
    ///
    /// # Errors
    /// [`LoadError`] names the object and what is wrong with it.
    pub fn from_json_with(
        json: &bmv2_json::Program,
        externs: &[PayloadSignature],
    ) -> Result<Self, LoadError> {
        Self::load(json, &ir::V1MODEL, externs)
    }

    fn load(
        json: &bmv2_json::Program,
        architecture: &'static ir::Architecture,
        externs: &[PayloadSignature],
    ) -> Result<Self, LoadError> {
        let (ir, tables, actions) = load::load(json, architecture, externs)?;
        Ok(Self {
            ir: Arc::new(ir),
            tables: tables.into(),
            actions: actions.into(),
        })
    }

    /// The program as an engine reads it.
    pub fn ir(&self) -> &Ir {
        &self.ir
    }

    /// Looks up a table by its fully qualified name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        position(&self.tables, |t| t.name == name).map(TableId)
    }

    /// Looks up an action of a table by its fully qualified name.
    pub fn action_of(&self, table: TableId, action_name: &str) -> Option<ActionId> {
        let mut actions = self.tables.get(table.index())?.actions.iter().copied();
        actions.find(|id| self.actions[id.index()].name == action_name)
    }

    /// Looks up a counter array (not a direct counter) by its fully qualified name.
    pub fn counter(&self, name: &str) -> Option<CounterId> {
        position(&self.ir.counters, |counter| counter.name == name).map(CounterId)
    }

    /// Every counter array, with its name.
    pub fn counters(&self) -> impl Iterator<Item = (CounterId, &str)> {
        let names = self.ir.counters.iter().map(|counter| counter.name.as_str());
        (0..).map(CounterId).zip(names)
    }

    /// Every register array, with its name.
    pub fn registers(&self) -> impl Iterator<Item = (RegisterId, &str)> {
        let names = self.ir.registers.iter().map(|it| it.name.as_str());
        (0..).map(RegisterId).zip(names)
    }

    /// Looks up a register array by its fully qualified name.
    pub fn register(&self, name: &str) -> Option<RegisterId> {
        position(&self.ir.registers, |register| register.name == name).map(RegisterId)
    }

    /// Whether a register is `@secret`: control-plane reads and traces do not show its values.
    pub fn is_secret(&self, register: RegisterId) -> bool {
        let register = self.ir.registers.get(register.index());
        register.is_some_and(|register| register.is_secret)
    }

    /// Looks up a meter array (not a direct meter) by its fully qualified name.
    pub fn meter(&self, name: &str) -> Option<MeterId> {
        position(&self.ir.meters, |meter| meter.name == name).map(MeterId)
    }

    /// Every meter array, with its name.
    pub fn meters(&self) -> impl Iterator<Item = (MeterId, &str)> {
        let names = self.ir.meters.iter().map(|meter| meter.name.as_str());
        (0..).map(MeterId).zip(names)
    }

    /// The unit of a meter array.
    pub fn meter_unit(&self, meter: MeterId) -> Option<MeterUnit> {
        let meter = self.ir.meters.get(meter.index())?;
        Some(meter.kind.unit)
    }

    /// Name and unit of a table's direct meter.
    pub fn direct_meter(&self, table: TableId) -> Option<(&str, MeterUnit)> {
        let meter = self.ir.direct_meter(table)?;
        Some((&meter.name, meter.kind.unit))
    }

    /// Looks up an action profile by its fully qualified name.
    pub fn action_profile(&self, name: &str) -> Option<ActionProfileId> {
        position(&self.ir.action_profiles, |profile| profile.name == name).map(ActionProfileId)
    }

    /// Every action profile, with its declaration.
    pub fn action_profiles(&self) -> impl Iterator<Item = (ActionProfileId, &ActionProfile)> {
        (0..).map(ActionProfileId).zip(&self.ir.action_profiles)
    }

    /// The declaration of an action profile.
    pub fn action_profile_info(&self, profile: ActionProfileId) -> Option<&ActionProfile> {
        self.ir.action_profiles.get(profile.index())
    }

    /// Looks up a parser value set by its fully qualified name.
    pub fn value_set(&self, name: &str) -> Option<ValueSetId> {
        position(&self.ir.value_sets, |set| set.name == name).map(ValueSetId)
    }

    /// Every parser value set, with its name.
    pub fn value_sets(&self) -> impl Iterator<Item = (ValueSetId, &str)> {
        let names = self.ir.value_sets.iter().map(|set| set.name.as_str());
        (0..).map(ValueSetId).zip(names)
    }

    /// The width in bits of each key part of a value set.
    pub fn value_set_parts(&self, set: ValueSetId) -> &[u32] {
        let set = self.ir.value_sets.get(set.index());
        set.map_or(&[], |set| &set.parts)
    }

    /// Every table, with its declaration.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableInfo)> {
        (0..).map(TableId).zip(self.tables.iter())
    }

    /// The declaration of a table.
    pub fn table_info(&self, table: TableId) -> Option<&TableInfo> {
        self.tables.get(table.index())
    }

    /// The declaration of an action.
    pub fn action_info(&self, action: ActionId) -> Option<&ActionInfo> {
        self.actions.get(action.index())
    }
}
