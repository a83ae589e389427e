//! The objects of a program that a controller uses, found by name: a table with one action, a register, an indirect
//! counter.

use p4runtime_proto::p4::config::v1::{self as config, P4Info, Preamble};
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::table_action::Type;
use p4runtime_proto::p4::v1::{
    CounterData, CounterEntry, Entity, Index, P4Data, RegisterEntry, TableEntry, Update, p4_data,
};

use crate::bytestring::{bytes, canonical, number, wide_number};
use crate::entities::{action, entity, modify, table_action, wildcard_table};
use crate::field_match::Match;
use crate::index::id_of;

/// The program in the switch is not the one that the controller expects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The program has no object of this name.
    #[error("the program in the switch has no {kind} \"{name}\"")]
    Missing {
        /// Kind of object: table, action, register, counter or header.
        kind: &'static str,
        /// The object's alias in P4Info.
        name: String,
    },
    /// The object has another shape than expected.
    #[error("{kind} \"{name}\" of the program in the switch is not what was expected: {what}")]
    Shape {
        /// Kind of object: table, action, register, counter or header.
        kind: &'static str,
        /// The object's alias in P4Info.
        name: String,
        /// What was expected and what was found.
        what: String,
    },
}

/// Finds the object in a list that has this name or alias.
///
/// # Errors
/// The list has no object of this name or alias.
pub fn named<'p, T>(
    kind: &'static str,
    name: &str,
    all: &'p [T],
    preamble: impl Fn(&T) -> Option<&Preamble>,
) -> Result<&'p T, ObjectError> {
    let found = all.iter().find(|&it| is_named(preamble(it), name));
    found.ok_or_else(|| ObjectError::Missing {
        kind,
        name: name.to_owned(),
    })
}

fn is_named(preamble: Option<&Preamble>, name: &str) -> bool {
    preamble.is_some_and(|it| it.alias == name || it.name == name)
}

/// Looks up a table.
///
/// # Errors
/// The program has no table of this name.
pub fn table_info<'p>(p4info: &'p P4Info, name: &str) -> Result<&'p config::Table, ObjectError> {
    named("table", name, &p4info.tables, |it| it.preamble.as_ref())
}

/// A table and the one action that the controller uses in it.
#[derive(Clone, Debug)]
pub struct Table {
    id: u32,
    /// Maximum number of entries.
    pub size: usize,
    field_ids: Vec<u32>,
    action_id: u32,
    param_ids: Vec<u32>,
}

/// One entry of a [`Table`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Values of the key fields, in the order of `Table::find`'s `fields`.
    pub key: Vec<u64>,
    /// Arguments of the action.
    pub args: Vec<u64>,
    /// Value of the direct counter; 0 if the table has none.
    pub counter: Count,
    /// The entry's P4Runtime metadata; packets do not see it.
    pub metadata: Vec<u8>,
}

/// A counter's value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes; all bytes of a frame count.
    pub bytes: u64,
}

impl From<&CounterData> for Count {
    fn from(data: &CounterData) -> Count {
        // P4Runtime's counts are signed; a counter is never negative.
        Count {
            packets: data.packet_count.try_into().unwrap_or(0),
            bytes: data.byte_count.try_into().unwrap_or(0),
        }
    }
}

impl Table {
    /// The table's id in P4Info.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Looks up a table by its exact-match key fields and an action with `n_params` parameters.
    ///
    /// # Errors
    /// The program has no such table, or it has other fields or another action.
    pub fn find(
        p4info: &P4Info,
        name: &str,
        fields: &[&str],
        (action_name, n_params): (&str, usize),
    ) -> Result<Table, ObjectError> {
        let table = table_info(p4info, name)?;
        let shape = |what: String| ObjectError::Shape {
            kind: "table",
            name: name.to_owned(),
            what,
        };
        let field_ids = fields.iter().map(|field| {
            let found = table.match_fields.iter().find(|f| f.name == *field);
            found
                .map(|f| f.id)
                .ok_or_else(|| shape(format!("expected a key field \"{field}\"")))
        });
        let field_ids = field_ids.collect::<Result<Vec<u32>, _>>()?;
        if table.match_fields.len() != fields.len() {
            let what = format!(
                "expected {} key fields, found {}",
                fields.len(),
                table.match_fields.len()
            );
            return Err(shape(what));
        }
        let refs = table.action_refs.iter();
        let ids: Vec<u32> = refs.map(|it| it.id).collect();
        let in_table = |it: &&config::Action| ids.contains(&id_of(it.preamble.as_ref()));
        let mut actions = p4info.actions.iter().filter(in_table);
        let action = actions
            .find(|it| is_named(it.preamble.as_ref(), action_name))
            .ok_or_else(|| shape(format!("expected an action \"{action_name}\"")))?;
        if action.params.len() != n_params {
            let what = format!(
                "expected action \"{action_name}\" with {n_params} parameters, found {}",
                action.params.len()
            );
            return Err(shape(what));
        }
        Ok(Table {
            id: id_of(table.preamble.as_ref()),
            size: usize::try_from(table.size).unwrap_or(0),
            field_ids,
            action_id: id_of(action.preamble.as_ref()),
            param_ids: action.params.iter().map(|p| p.id).collect(),
        })
    }

    /// A wildcard that reads every entry with its counter.
    pub fn wildcard(&self) -> Entity {
        wildcard_table(self.id)
    }

    /// An entry for INSERT or MODIFY.
    pub fn entry(&self, key: &[u64], args: &[u64]) -> TableEntry {
        self.entry_of(&wide(key), &wide(args))
    }

    /// As [`Table::entry`], with values of up to 128 bits.
    pub fn entry_of(&self, key: &[u128], args: &[u128]) -> TableEntry {
        let args = args.iter().map(|value| canonical(&value.to_be_bytes()));
        let params = self.param_ids.iter().copied().zip(args);
        TableEntry {
            action: Some(table_action(action(self.action_id, params))),
            ..self.key_of(key)
        }
    }

    /// An entry with only its key, for DELETE.
    pub fn key(&self, key: &[u64]) -> TableEntry {
        self.key_of(&wide(key))
    }

    /// As [`Table::key`], with values of up to 128 bits.
    pub fn key_of(&self, key: &[u128]) -> TableEntry {
        let fields = self.field_ids.iter().zip(key);
        let value = |value: &u128| Match::Exact(canonical(&value.to_be_bytes()));
        let fields = fields.map(|(id, of)| value(of).field(*id));
        TableEntry {
            table_id: self.id,
            r#match: fields.collect(),
            ..TableEntry::default()
        }
    }

    /// Parses an entry of this table; `None` if the entry belongs to another table, is a default action, has another
    /// shape than this table's entries, or has a value above 64 bits.
    pub fn row(&self, entity: &Entity) -> Option<Row> {
        let (key, args) = self.values(entity)?;
        let Some(Kind::TableEntry(entry)) = &entity.entity else {
            return None;
        };
        let counter = entry.counter_data.as_ref().map(Count::from);
        Some(Row {
            key: narrow(key)?,
            args: narrow(args)?,
            counter: counter.unwrap_or_default(),
            metadata: entry.metadata.clone(),
        })
    }

    /// Returns the values of an entry's key and the arguments of its action; `None` if the entry belongs to another
    /// table, is a default action, has another shape than this table's entries, or has a value above 128 bits.
    pub fn values(&self, entity: &Entity) -> Option<(Vec<u128>, Vec<u128>)> {
        let Some(Kind::TableEntry(entry)) = &entity.entity else {
            return None;
        };
        if entry.table_id != self.id || entry.is_default_action {
            return None;
        }
        let key = self.field_ids.iter().map(|id| {
            let field = entry.r#match.iter().find(|f| f.field_id == *id)?;
            match Match::of(field)? {
                Match::Exact(value) => wide_number(&value),
                _ => None,
            }
        });
        let Some(Type::Action(action)) = &entry.action.as_ref()?.r#type else {
            return None;
        };
        let args = self.param_ids.iter().map(|id| {
            let param = action.params.iter().find(|p| p.param_id == *id)?;
            wide_number(&param.value)
        });
        Some((key.collect::<Option<_>>()?, args.collect::<Option<_>>()?))
    }
}

fn wide(values: &[u64]) -> Vec<u128> {
    values.iter().map(|value| u128::from(*value)).collect()
}

fn narrow(values: Vec<u128>) -> Option<Vec<u64>> {
    let values = values.into_iter();
    values.map(|value| u64::try_from(value).ok()).collect()
}

/// A register or an indirect counter.
#[derive(Clone, Debug)]
pub struct Array {
    id: u32,
    /// Number of cells.
    pub size: u32,
}

impl Array {
    /// The register's or counter's id in P4Info.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Looks up a register.
    ///
    /// # Errors
    /// The program has no register of this name.
    pub fn register(p4info: &P4Info, name: &str) -> Result<Array, ObjectError> {
        let register = named("register", name, &p4info.registers, |it| {
            it.preamble.as_ref()
        })?;
        Ok(Array {
            id: id_of(register.preamble.as_ref()),
            size: register.size.try_into().unwrap_or(0),
        })
    }

    /// Looks up an indirect counter.
    ///
    /// # Errors
    /// The program has no counter of this name.
    pub fn counter(p4info: &P4Info, name: &str) -> Result<Array, ObjectError> {
        let counter = named("counter", name, &p4info.counters, |it| it.preamble.as_ref())?;
        Ok(Array {
            id: id_of(counter.preamble.as_ref()),
            size: counter.size.try_into().unwrap_or(0),
        })
    }

    /// Makes an entity that reads one register cell.
    pub fn cell(&self, index: u32) -> Entity {
        self.register_cell(index, None)
    }

    /// Returns index and value of a register cell that was read; `None` if the entity is not a cell of this register.
    pub fn cell_value(&self, entity: &Entity) -> Option<(u32, u64)> {
        let Some(Kind::RegisterEntry(entry)) = &entity.entity else {
            return None;
        };
        let Some(p4_data::Data::Bitstring(value)) = &entry.data.as_ref()?.data else {
            return None;
        };
        let index = index_of(entry.index.as_ref())?;
        (entry.register_id == self.id).then_some((index, number(value)?))
    }

    /// Makes an update that writes one register cell.
    pub fn write(&self, index: u32, value: u64) -> Update {
        let data = Some(p4_data::Data::Bitstring(bytes(value)));
        modify(self.register_cell(index, Some(P4Data { data })))
    }

    fn register_cell(&self, index: u32, data: Option<P4Data>) -> Entity {
        entity(Kind::RegisterEntry(RegisterEntry {
            register_id: self.id,
            index: at(index),
            data,
        }))
    }

    /// Makes an entity that reads one counter cell.
    pub fn count(&self, index: u32) -> Entity {
        self.counter_cell(index, None)
    }

    /// Returns index and value of a counter cell that was read; `None` if the entity is not a cell of this counter.
    pub fn count_value(&self, entity: &Entity) -> Option<(u32, Count)> {
        let Some(Kind::CounterEntry(entry)) = &entity.entity else {
            return None;
        };
        let index = index_of(entry.index.as_ref())?;
        let count = entry.data.as_ref().map(Count::from)?;
        (entry.counter_id == self.id).then_some((index, count))
    }

    /// Makes an update that sets one counter cell to 0.
    pub fn reset(&self, index: u32) -> Update {
        modify(self.counter_cell(index, Some(CounterData::default())))
    }

    fn counter_cell(&self, index: u32, data: Option<CounterData>) -> Entity {
        entity(Kind::CounterEntry(CounterEntry {
            counter_id: self.id,
            index: at(index),
            data,
        }))
    }
}

fn at(index: u32) -> Option<Index> {
    let index = index.into();
    Some(Index { index })
}

fn index_of(index: Option<&Index>) -> Option<u32> {
    index.map_or(Some(0), |i| i.index.try_into().ok())
}
