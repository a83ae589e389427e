//! Builds and parses P4Runtime entities by the names of P4Info.
//!
//! Byte strings are P4Runtime's canonical form (specification 1.4.1, "Bytestrings"): big endian,
//! no leading zero bytes, at least one byte.

use p4runtime_proto::p4::config::v1 as config;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    Action, CloneSessionEntry, CounterData, CounterEntry, Entity, FieldMatch, Index,
    MulticastGroupEntry, P4Data, PacketReplicationEngineEntry, RegisterEntry, Replica, TableAction,
    TableEntry, Update, action, entity, field_match, p4_data, replica, table_action, update,
};

/// The program in the switch is not the one that the controller expects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The program has no object of this name.
    #[error("the program in the switch has no {kind} \"{name}\"")]
    Missing {
        /// Kind of object: table, action, register, counter or header.
        kind: &'static str,
        /// Its alias in P4Info.
        name: String,
    },
    /// The object has another shape than expected.
    #[error("{kind} \"{name}\" of the program in the switch is not what was expected: {what}")]
    Shape {
        /// Kind of object: table, action, register, counter or header.
        kind: &'static str,
        /// Its alias in P4Info.
        name: String,
        /// What was expected and what was found.
        what: String,
    },
    /// The program is neither of the two SFU programs.
    #[error(
        "the program in the switch is no SFU that this controller knows: it has neither table \
         \"presenters\" and register \"groups\" nor tables \"streams\" and \"viewers\""
    )]
    NotAnSfu,
}

/// The canonical byte string of a value.
pub fn bytes(value: impl Into<u64>) -> Vec<u8> {
    let all = value.into().to_be_bytes();
    let first = all
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(all.len() - 1);
    all[first..].to_vec()
}

/// The value of a byte string; `None` above 64 bits.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let first = bytes
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(bytes.len());
    let digits = &bytes[first..];
    (digits.len() <= 8).then(|| {
        digits
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    })
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
    /// Number of bytes, of whole frames.
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
        p4info: &config::P4Info,
        name: &str,
        fields: &[&str],
        (action_name, n_params): (&str, usize),
    ) -> Result<Table, ProgramError> {
        let table = table_info(p4info, name)?;
        let shape = |what: String| ProgramError::Shape {
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
                "expected {} key fields, it has {}",
                fields.len(),
                table.match_fields.len()
            );
            return Err(shape(what));
        }
        let in_table = |action: &&config::Action| {
            let id = action.preamble.as_ref().map(|p| p.id);
            table.action_refs.iter().any(|r| Some(r.id) == id)
        };
        let action = p4info
            .actions
            .iter()
            .filter(in_table)
            .find(|a| is_named(a.preamble.as_ref(), action_name))
            .ok_or_else(|| shape(format!("expected an action \"{action_name}\"")))?;
        if action.params.len() != n_params {
            let what = format!(
                "expected action \"{action_name}\" with {n_params} parameters, it has {}",
                action.params.len()
            );
            return Err(shape(what));
        }
        Ok(Table {
            id: id(table.preamble.as_ref()),
            size: usize::try_from(table.size).unwrap_or(0),
            field_ids,
            action_id: id(action.preamble.as_ref()),
            param_ids: action.params.iter().map(|p| p.id).collect(),
        })
    }

    /// A wildcard that reads every entry with its counter.
    pub fn wildcard(&self) -> Entity {
        wildcard_table(self.id)
    }

    /// An entry for INSERT or MODIFY.
    pub fn entry(&self, key: &[u64], args: &[u64]) -> TableEntry {
        let params = self.param_ids.iter().zip(args);
        let params = params.map(|(id, value)| action::Param {
            param_id: *id,
            value: bytes(*value),
        });
        let action = Action {
            action_id: self.action_id,
            params: params.collect(),
        };
        TableEntry {
            action: Some(TableAction {
                r#type: Some(table_action::Type::Action(action)),
            }),
            ..self.key(key)
        }
    }

    /// An entry with only its key, for DELETE.
    pub fn key(&self, key: &[u64]) -> TableEntry {
        let fields = self
            .field_ids
            .iter()
            .zip(key)
            .map(|(id, value)| FieldMatch {
                field_id: *id,
                field_match_type: Some(field_match::FieldMatchType::Exact(field_match::Exact {
                    value: bytes(*value),
                })),
            });
        TableEntry {
            table_id: self.id,
            r#match: fields.collect(),
            ..TableEntry::default()
        }
    }

    /// Parses an entry of this table; `None` if it is another table's, a default action, or of
    /// another shape.
    pub fn row(&self, entity: &Entity) -> Option<Row> {
        let Some(entity::Entity::TableEntry(entry)) = &entity.entity else {
            return None;
        };
        if entry.table_id != self.id || entry.is_default_action {
            return None;
        }
        let key = self.field_ids.iter().map(|id| {
            let field = entry.r#match.iter().find(|f| f.field_id == *id)?;
            match &field.field_match_type {
                Some(field_match::FieldMatchType::Exact(exact)) => number(&exact.value),
                _ => None,
            }
        });
        let key = key.collect::<Option<Vec<u64>>>()?;
        let Some(table_action::Type::Action(action)) = &entry.action.as_ref()?.r#type else {
            return None;
        };
        let args = self.param_ids.iter().map(|id| {
            action
                .params
                .iter()
                .find(|p| p.param_id == *id)
                .and_then(|p| number(&p.value))
        });
        let args = args.collect::<Option<Vec<u64>>>()?;
        let counter = entry
            .counter_data
            .as_ref()
            .map(Count::from)
            .unwrap_or_default();
        Some(Row {
            key,
            args,
            counter,
            metadata: entry.metadata.clone(),
        })
    }
}

/// A wildcard that reads every entry of a table with its counter.
pub fn wildcard_table(table_id: u32) -> Entity {
    of_table(TableEntry {
        table_id,
        counter_data: Some(CounterData::default()),
        ..TableEntry::default()
    })
}

/// A register or an indirect counter.
#[derive(Clone, Debug)]
pub struct Array {
    id: u32,
    /// Number of cells.
    pub size: u32,
}

impl Array {
    /// Looks up a register.
    ///
    /// # Errors
    /// The program has no register of this name.
    pub fn register(p4info: &config::P4Info, name: &str) -> Result<Array, ProgramError> {
        let found = p4info
            .registers
            .iter()
            .find(|r| is_named(r.preamble.as_ref(), name));
        let register = found.ok_or_else(|| missing("register", name))?;
        Ok(Array {
            id: id(register.preamble.as_ref()),
            size: register.size.try_into().unwrap_or(0),
        })
    }

    /// Looks up an indirect counter.
    ///
    /// # Errors
    /// The program has no counter of this name.
    pub fn counter(p4info: &config::P4Info, name: &str) -> Result<Array, ProgramError> {
        let found = p4info
            .counters
            .iter()
            .find(|c| is_named(c.preamble.as_ref(), name));
        let counter = found.ok_or_else(|| missing("counter", name))?;
        Ok(Array {
            id: id(counter.preamble.as_ref()),
            size: counter.size.try_into().unwrap_or(0),
        })
    }

    /// One register cell, for a read.
    pub fn cell(&self, index: u32) -> Entity {
        of_register(RegisterEntry {
            register_id: self.id,
            index: at(index),
            data: None,
        })
    }

    /// Index and value of a register cell that was read; `None` if it is not of this register.
    pub fn cell_value(&self, entity: &Entity) -> Option<(u32, u64)> {
        let Some(entity::Entity::RegisterEntry(entry)) = &entity.entity else {
            return None;
        };
        if entry.register_id != self.id {
            return None;
        }
        let Some(p4_data::Data::Bitstring(value)) = &entry.data.as_ref()?.data else {
            return None;
        };
        Some((index_of(entry.index.as_ref())?, number(value)?))
    }

    /// Writes one register cell.
    pub fn write(&self, index: u32, value: u64) -> Update {
        let data = P4Data {
            data: Some(p4_data::Data::Bitstring(bytes(value))),
        };
        let entry = RegisterEntry {
            register_id: self.id,
            index: at(index),
            data: Some(data),
        };
        modify(of_register(entry))
    }

    /// One counter cell, for a read.
    pub fn count(&self, index: u32) -> Entity {
        of_counter(CounterEntry {
            counter_id: self.id,
            index: at(index),
            data: None,
        })
    }

    /// Index and value of a counter cell that was read; `None` if it is not of this counter.
    pub fn count_value(&self, entity: &Entity) -> Option<(u32, Count)> {
        let Some(entity::Entity::CounterEntry(entry)) = &entity.entity else {
            return None;
        };
        if entry.counter_id != self.id {
            return None;
        }
        Some((
            index_of(entry.index.as_ref())?,
            entry.data.as_ref().map(Count::from)?,
        ))
    }

    /// Sets one counter cell to 0.
    pub fn reset(&self, index: u32) -> Update {
        let data = Some(CounterData::default());
        modify(of_counter(CounterEntry {
            counter_id: self.id,
            index: at(index),
            data,
        }))
    }
}

/// A multicast group with a replica for each pair of port and instance.
pub fn multicast_group(id: u16, replicas: impl IntoIterator<Item = (u16, u16)>) -> Entity {
    let replicas = replicas
        .into_iter()
        .map(|(port, instance)| replica(port, instance))
        .collect();
    of_engine(PreType::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: id.into(),
        replicas,
        metadata: Vec::new(),
    }))
}

/// A clone session with one replica.
pub fn clone_session(id: u32, port: u16) -> Entity {
    of_engine(PreType::CloneSessionEntry(CloneSessionEntry {
        session_id: id,
        replicas: vec![replica(port, 0)],
        class_of_service: 0,
        packet_length_bytes: 0,
    }))
}

/// A wildcard that reads every multicast group: id 0 stands for all.
pub fn any_multicast_group() -> Entity {
    of_engine(PreType::MulticastGroupEntry(MulticastGroupEntry::default()))
}

/// A wildcard that reads every clone session. A session's number cannot be 0, so 0 stands for all.
pub fn any_clone_session() -> Entity {
    of_engine(PreType::CloneSessionEntry(CloneSessionEntry::default()))
}

/// The port of a replica; `None` if it has none or the port exceeds 16 bits.
#[expect(
    deprecated,
    reason = "an older controller may have written the deprecated field"
)]
pub fn replica_port(replica: &Replica) -> Option<u16> {
    let port = match replica.port_kind.as_ref()? {
        replica::PortKind::Port(port) => number(port)?,
        replica::PortKind::EgressPort(port) => u64::from(*port),
    };
    port.try_into().ok()
}

/// An INSERT update.
pub fn insert(entity: Entity) -> Update {
    Update {
        r#type: update::Type::Insert.into(),
        entity: Some(entity),
    }
}

/// A MODIFY update.
pub fn modify(entity: Entity) -> Update {
    Update {
        r#type: update::Type::Modify.into(),
        entity: Some(entity),
    }
}

/// A DELETE update.
pub fn delete(entity: Entity) -> Update {
    Update {
        r#type: update::Type::Delete.into(),
        entity: Some(entity),
    }
}

/// Wraps a table entry in an entity.
pub fn of_table(entry: TableEntry) -> Entity {
    Entity {
        entity: Some(entity::Entity::TableEntry(entry)),
    }
}

fn of_register(entry: RegisterEntry) -> Entity {
    Entity {
        entity: Some(entity::Entity::RegisterEntry(entry)),
    }
}

fn of_counter(entry: CounterEntry) -> Entity {
    Entity {
        entity: Some(entity::Entity::CounterEntry(entry)),
    }
}

fn of_engine(entry: PreType) -> Entity {
    let entry = PacketReplicationEngineEntry {
        r#type: Some(entry),
    };
    Entity {
        entity: Some(entity::Entity::PacketReplicationEngineEntry(entry)),
    }
}

fn replica(port: u16, instance: u16) -> Replica {
    Replica {
        instance: instance.into(),
        backup_replicas: Vec::new(),
        port_kind: Some(replica::PortKind::Port(bytes(port))),
    }
}

/// Whether an object has this name or alias.
pub fn is_named(preamble: Option<&config::Preamble>, name: &str) -> bool {
    preamble.is_some_and(|p| p.alias == name || p.name == name)
}

/// Looks up a table.
///
/// # Errors
/// The program has no table of this name.
pub fn table_info<'a>(
    p4info: &'a config::P4Info,
    name: &str,
) -> Result<&'a config::Table, ProgramError> {
    let found = p4info
        .tables
        .iter()
        .find(|t| is_named(t.preamble.as_ref(), name));
    found.ok_or_else(|| missing("table", name))
}

fn id(preamble: Option<&config::Preamble>) -> u32 {
    preamble.map_or(0, |p| p.id)
}

fn missing(kind: &'static str, name: &str) -> ProgramError {
    ProgramError::Missing {
        kind,
        name: name.to_owned(),
    }
}

fn at(index: u32) -> Option<Index> {
    Some(Index {
        index: index.into(),
    })
}

fn index_of(index: Option<&Index>) -> Option<u32> {
    index.map_or(Some(0), |i| i.index.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_are_canonical() {
        assert_eq!(bytes(0u64), [0]);
        assert_eq!(bytes(255u64), [255]);
        assert_eq!(bytes(0x0100u64), [1, 0]);
        assert_eq!(bytes(u64::MAX), [255; 8]);
    }

    #[test]
    fn a_number_is_read_back_from_any_length() {
        for value in [0, 1, 255, 256, 0x0a00_0105, u64::MAX] {
            assert_eq!(number(&bytes(value)), Some(value));
        }
        assert_eq!(number(&[]), Some(0));
        assert_eq!(number(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 7]), Some(7));
        assert_eq!(number(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
