//! Seeded random numbers, and entries and values made from them.

use p4runtime_client::bytestring::{and, bytes, ones};
use p4runtime_client::entities::{action, of_table};
use p4runtime_client::field_match::Match;
use p4runtime_client::{has_order, id_of, match_type};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, ActionProfileActionSet, BackupReplica, Entity, FieldMatch,
    MeterConfig, Replica, TableAction, TableEntry, action_profile_action, replica, table_action,
};

use crate::p4rt::schema::Schema;

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Makes a random value of `bits` bits, or a text if `bits` is 0.
    pub(super) fn value(&mut self, bits: u32) -> Vec<u8> {
        if bits == 0 {
            const TEXTS: &[&str] = &[
                "default",
                "Ethernet0",
                "a b",
                "\"",
                "#",
                "->",
                "",
                "1",
                "x=y",
                "é,(",
                "eth0/1",
                "a..b",
                "\\n\n",
            ];
            return TEXTS[self.below(TEXTS.len() as u64) as usize]
                .as_bytes()
                .to_vec();
        }
        let bytes: Vec<u8> = (0..bits.div_ceil(8)).map(|_| self.next() as u8).collect();
        and(&bytes, &ones(bits, bits))
    }

    /// Makes a random match for a field. `None` matches anything.
    pub(super) fn field(&mut self, field: &config::MatchField) -> Option<FieldMatch> {
        let bits = u32::try_from(field.bitwidth).expect("a width");
        let value = self.value(bits);
        let is_any = self.below(4) == 0;
        let found = match match_type(field)? {
            MatchType::Exact => Match::Exact(value),
            _ if is_any => return None,
            MatchType::Optional => Match::Optional(value),
            MatchType::Lpm => {
                let len = self.below(u64::from(bits)) as u32 + 1;
                Match::lpm(&value, len, bits)?
            }
            MatchType::Ternary => Match::ternary(&value, &self.value(bits))?,
            MatchType::Range => {
                let other = self.value(bits);
                let in_order = (value.len(), &value) <= (other.len(), &other);
                let (low, high) = if in_order {
                    (value, other)
                } else {
                    (other, value)
                };
                Match::Range(low, high)
            }
            MatchType::Unspecified => return None,
        };
        Some(found.field(field.id))
    }

    pub(super) fn call(&mut self, actions: &[&config::Action]) -> Action {
        let called = actions[self.below(actions.len() as u64) as usize];
        let param = |it: &config::action::Param| {
            let value = self.value(u32::try_from(it.bitwidth).expect("a width"));
            (it.id, value)
        };
        let params = called.params.iter().map(param);
        action(id_of(called.preamble.as_ref()), params)
    }

    pub(super) fn rates(&mut self) -> MeterConfig {
        MeterConfig {
            cir: self.below(1 << 40) as i64,
            cburst: self.below(9) as i64,
            pir: self.below(9) as i64,
            pburst: self.below(9) as i64,
            eburst: self.below(2) as i64,
        }
    }

    pub(super) fn port(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => b"Ethernet1/2".to_vec(),
            _ => bytes(self.below(512)),
        }
    }

    pub(super) fn key(&mut self, table: &config::Table) -> TableEntry {
        TableEntry {
            table_id: id_of(table.preamble.as_ref()),
            r#match: table
                .match_fields
                .iter()
                .filter_map(|it| self.field(it))
                .collect(),
            priority: if has_order(table) {
                self.below(1 << 31) as i32 | 1
            } else {
                0
            },
            ..TableEntry::default()
        }
    }

    pub(super) fn table_entry(&mut self, schema: &Schema, table: &config::Table) -> Entity {
        let actions = schema.actions_of(table, false);
        let found = match (table.implementation_id, self.below(3)) {
            (0, _) => table_action::Type::Action(self.call(&actions)),
            (_, 0) => table_action::Type::ActionProfileMemberId(self.below(99) as u32),
            (_, 1) => table_action::Type::ActionProfileGroupId(self.below(99) as u32),
            _ => {
                let mut one = || ActionProfileAction {
                    action: Some(self.call(&actions)),
                    weight: self.below(5) as i32 + 1,
                    watch_kind: (self.below(2) == 0)
                        .then(|| action_profile_action::WatchKind::WatchPort(self.port())),
                };
                let all = [one(), one()];
                table_action::Type::ActionProfileActionSet(ActionProfileActionSet {
                    action_profile_actions: all.into(),
                    action_selection_mode: self.below(3) as i32,
                    size_semantics: self.below(3) as i32,
                })
            }
        };
        let id = id_of(table.preamble.as_ref());
        let has_timeout = table.idle_timeout_behavior != 0;
        let has_meter = schema.direct_meter_of(id).is_some() && self.below(2) == 0;
        let entry = TableEntry {
            action: Some(TableAction {
                r#type: Some(found),
            }),
            idle_timeout_ns: if has_timeout {
                self.below(1 << 50) as i64
            } else {
                0
            },
            metadata: (0..self.below(3)).map(|_| self.next() as u8).collect(),
            meter_config: has_meter.then(|| self.rates()),
            ..self.key(table)
        };
        of_table(entry)
    }

    pub(super) fn replicas(&mut self) -> Vec<Replica> {
        let replica = |_| Replica {
            instance: self.below(5) as u32,
            port_kind: Some(replica::PortKind::Port(self.port())),
            backup_replicas: (0..self.below(3))
                .map(|_| BackupReplica {
                    port: self.port(),
                    instance: self.below(3) as u32,
                })
                .collect(),
        };
        (0..3).map(replica).collect()
    }
}
