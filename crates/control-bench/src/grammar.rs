//! Generates valid messages from a P4Info: entities of every kind, with few keys, so that inserts, modifications and
//! deletions collide. The switch refuses some of them (a second insert, a full table) on purpose.

use std::collections::HashSet;

use fastrand::Rng;
use p4runtime_proto::p4::config::v1::match_field::{Match, MatchType};
use p4runtime_proto::p4::config::v1::{
    ActionProfile, DirectMeter, MatchField, Meter, P4Info, Preamble, Register, Table, ValueSet,
    action_ref,
};
use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    CloneSessionEntry, CounterData, CounterEntry, DigestEntry, DirectCounterEntry,
    DirectMeterEntry, Entity, FieldMatch, Index, MeterConfig, MeterEntry, MulticastGroupEntry,
    P4Data, PacketReplicationEngineEntry, RegisterEntry, Replica, TableAction, TableEntry, Update,
    ValueSetEntry, ValueSetMember, action, action_profile_group, replica,
};

/// The number of key values, and of ids of members, groups and sessions: few enough to collide.
const N_KEYS: u64 = 5;

/// The entities that exist according to the answers. With it, few updates are refused.
#[derive(Debug, Default)]
pub struct Known(HashSet<String>);

impl Known {
    /// Changes the type of an update that would be refused: the insert of an entity that exists becomes a modify, the
    /// modify or delete of a missing one becomes an insert. One in eight stays unchanged.
    pub fn fitting(&self, mut update: Update, rng: &mut Rng) -> Update {
        let types = update.entity.as_ref().and_then(|it| it.entity.as_ref());
        let Some(key) = types.and_then(key) else {
            return update;
        };
        let is_insert = update.r#type() == Type::Insert;
        let of = match (self.0.contains(&key), is_insert) {
            (true, true) => Type::Modify,
            (false, false) => Type::Insert,
            _ => return update,
        };
        if rng.u8(..8) > 0 {
            update.set_type(of);
        }
        update
    }

    /// Records that the updates were carried out.
    pub fn written(&mut self, updates: &[Update]) {
        for update in updates {
            let entity = update.entity.as_ref().and_then(|it| it.entity.as_ref());
            let Some(key) = entity.and_then(key) else {
                continue;
            };
            match update.r#type() {
                Type::Delete => self.0.remove(&key),
                _ => self.0.insert(key),
            };
        }
    }

    /// Forgets all entities, after a new program.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Identifies an entity. `None` for an entity that always exists.
fn key(entity: &Kind) -> Option<String> {
    let key = match entity {
        Kind::TableEntry(it) if it.is_default_action => return None,
        Kind::TableEntry(it) => format!("{} {:?} {}", it.table_id, it.r#match, it.priority),
        Kind::ActionProfileMember(it) => format!("{} {}", it.action_profile_id, it.member_id),
        Kind::ActionProfileGroup(it) => format!("{} {}", it.action_profile_id, it.group_id),
        Kind::DigestEntry(it) => it.digest_id.to_string(),
        Kind::PacketReplicationEngineEntry(it) => match it.r#type.as_ref()? {
            Replication::MulticastGroupEntry(it) => format!("group {}", it.multicast_group_id),
            Replication::CloneSessionEntry(it) => format!("session {}", it.session_id),
        },
        _ => return None,
    };
    Some(format!("{:?} {key}", std::mem::discriminant(entity)))
}

/// Generates messages for a program.
#[derive(Debug, Clone)]
pub struct Grammar {
    p4info: P4Info,
}

fn id(preamble: Option<&Preamble>) -> u32 {
    preamble.map_or(0, |it| it.id)
}

/// The shortest byte string.
pub fn bytes(value: u64) -> Vec<u8> {
    let all = value.to_be_bytes();
    let first = all.iter().position(|byte| *byte != 0);
    all[first.unwrap_or(all.len() - 1)..].to_vec()
}

fn mask(n_bits: i32) -> u64 {
    match u32::try_from(n_bits) {
        Ok(n_bits) if n_bits < 64 => (1 << n_bits) - 1,
        _ => u64::MAX,
    }
}

fn small(rng: &mut Rng, n_bits: i32) -> u64 {
    rng.u64(1..=N_KEYS) & mask(n_bits)
}

fn small_id(rng: &mut Rng) -> u32 {
    u32::try_from(rng.u64(1..=N_KEYS)).unwrap_or(1)
}

fn cell(rng: &mut Rng, size: i64) -> Option<Index> {
    let index = rng.i64(0..size.max(1));
    Some(Index { index })
}

impl Grammar {
    pub fn new(p4info: P4Info) -> Self {
        Self { p4info }
    }

    pub fn update(&self, rng: &mut Rng) -> Update {
        let (entity, types) = self.entity(rng);
        let of = rng.choice(types).copied().unwrap_or(Type::Modify);
        Update {
            r#type: of.into(),
            entity: Some(Entity {
                entity: Some(entity),
            }),
        }
    }

    /// A random entity, and the update types for its kind.
    fn entity(&self, rng: &mut Rng) -> (Kind, &'static [Type]) {
        const ANY: &[Type] = &[Type::Insert, Type::Insert, Type::Modify, Type::Delete];
        const MODIFY: &[Type] = &[Type::Modify];
        loop {
            let found = match rng.u8(..16) {
                0..=3 => self.table_entry(rng).map(|it| (Kind::TableEntry(it), ANY)),
                4 => self
                    .default_entry(rng)
                    .map(|it| (Kind::TableEntry(it), MODIFY)),
                5 | 6 => self
                    .member(rng)
                    .map(|it| (Kind::ActionProfileMember(it), ANY)),
                7 | 8 => self
                    .group(rng)
                    .map(|it| (Kind::ActionProfileGroup(it), ANY)),
                9 => self
                    .register(rng)
                    .map(|it| (Kind::RegisterEntry(it), MODIFY)),
                10 => self.meter(rng).map(|it| (Kind::MeterEntry(it), MODIFY)),
                11 => self
                    .direct_meter(rng)
                    .map(|it| (Kind::DirectMeterEntry(it), MODIFY)),
                12 => self
                    .value_set(rng)
                    .map(|it| (Kind::ValueSetEntry(it), MODIFY)),
                13 => self.digest(rng).map(|it| (Kind::DigestEntry(it), ANY)),
                14 => Some((
                    replication(Replication::MulticastGroupEntry(group(rng))),
                    ANY,
                )),
                _ => Some((
                    replication(Replication::CloneSessionEntry(session(rng))),
                    ANY,
                )),
            };
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// The entities to read everything that survives a restart.
    pub fn wanted(&self) -> Vec<Entity> {
        let default = |table: &Table| {
            Kind::TableEntry(TableEntry {
                table_id: id(table.preamble.as_ref()),
                is_default_action: true,
                ..Default::default()
            })
        };
        let groups = Replication::MulticastGroupEntry(MulticastGroupEntry::default());
        let sessions = Replication::CloneSessionEntry(CloneSessionEntry::default());
        let mut kinds = vec![
            Kind::TableEntry(TableEntry::default()),
            Kind::ActionProfileMember(ActionProfileMember::default()),
            Kind::ActionProfileGroup(ActionProfileGroup::default()),
            Kind::MeterEntry(MeterEntry::default()),
            Kind::RegisterEntry(RegisterEntry::default()),
            Kind::ValueSetEntry(ValueSetEntry::default()),
            Kind::DigestEntry(DigestEntry::default()),
            replication(groups),
            replication(sessions),
        ];
        kinds.extend(self.p4info.tables.iter().map(default));
        kinds.extend(self.p4info.direct_meters.iter().map(|meter| {
            let entry = TableEntry {
                table_id: meter.direct_table_id,
                ..Default::default()
            };
            Kind::DirectMeterEntry(DirectMeterEntry {
                table_entry: Some(entry),
                ..Default::default()
            })
        }));
        let entity = |kind| Entity { entity: Some(kind) };
        kinds.into_iter().map(entity).collect()
    }

    /// A random entity to read, with or without wildcards.
    pub fn read(&self, rng: &mut Rng) -> Entity {
        let kind = match rng.u8(..4) {
            0 => return rng.choice(self.wanted()).unwrap_or_default(),
            1 => self.counter(rng).map(Kind::CounterEntry),
            2 => {
                let of = self.table_entry(rng).map(|entry| DirectCounterEntry {
                    table_entry: Some(entry),
                    data: None,
                });
                of.map(Kind::DirectCounterEntry)
            }
            _ => Some(self.entity(rng).0),
        };
        Entity { entity: kind }
    }

    fn table_entry(&self, rng: &mut Rng) -> Option<TableEntry> {
        let table = rng.choice(&self.p4info.tables)?;
        if table.is_const_table && rng.u8(..8) > 0 {
            return None;
        }
        let table_id = id(table.preamble.as_ref());
        let fields = table.match_fields.iter();
        let fields = fields.filter_map(|field| field_match(rng, field));
        let fields = fields.collect();
        let meter: Option<&DirectMeter> = self
            .p4info
            .direct_meters
            .iter()
            .find(|it| it.direct_table_id == table_id);
        let meter_config = meter.filter(|_| rng.bool()).map(|_| rates(rng));
        Some(TableEntry {
            table_id,
            r#match: fields,
            action: self.action_of(rng, table),
            priority: priority(rng, table),
            meter_config,
            metadata: Vec::from_iter((0..rng.usize(..3)).map(|_| rng.u8(1..))),
            idle_timeout_ns: match table.idle_timeout_behavior {
                0 => 0,
                // At least an hour, so that no notification is sent.
                _ => rng.i64(0..3) * 3_600_000_000_000,
            },
            ..Default::default()
        })
    }

    fn default_entry(&self, rng: &mut Rng) -> Option<TableEntry> {
        let table = rng.choice(&self.p4info.tables)?;
        if table.const_default_action_id != 0 && rng.u8(..8) > 0 {
            return None;
        }
        let calls = table.implementation_id == 0 && rng.u8(..4) > 0;
        Some(TableEntry {
            table_id: id(table.preamble.as_ref()),
            is_default_action: true,
            // Without an action, MODIFY restores the program's.
            action: calls.then(|| self.action_of(rng, table)).flatten(),
            ..Default::default()
        })
    }

    fn action_of(&self, rng: &mut Rng, table: &Table) -> Option<TableAction> {
        let is_selected = self.is_selector(table.implementation_id);
        let of = match (table.implementation_id, rng.u8(..4)) {
            (0, _) => ActionType::Action(self.call(rng, table)?),
            (_, 0) => ActionType::ActionProfileMemberId(small_id(rng)),
            (_, 1 | 2) if is_selected => ActionType::ActionProfileGroupId(small_id(rng)),
            (_, _) if is_selected => {
                let actions = (0..rng.i32(1..4)).map(|weight| ActionProfileAction {
                    action: self.call(rng, table),
                    weight: weight + 1,
                    ..Default::default()
                });
                ActionType::ActionProfileActionSet(ActionProfileActionSet {
                    action_profile_actions: actions.collect(),
                    ..Default::default()
                })
            }
            _ => ActionType::ActionProfileMemberId(small_id(rng)),
        };
        Some(TableAction { r#type: Some(of) })
    }

    fn is_selector(&self, profile: u32) -> bool {
        let mut profiles = self.p4info.action_profiles.iter();
        profiles.any(|it| id(it.preamble.as_ref()) == profile && it.with_selector)
    }

    fn call(&self, rng: &mut Rng, table: &Table) -> Option<Action> {
        let default_only: i32 = action_ref::Scope::DefaultOnly.into();
        let refs = table
            .action_refs
            .iter()
            .filter(|it| it.scope != default_only);
        let wanted = rng.choice(refs.collect::<Vec<_>>())?.id;
        let mut actions = self.p4info.actions.iter();
        let found = actions.find(|it| id(it.preamble.as_ref()) == wanted)?;
        let params = found.params.iter().map(|param| action::Param {
            param_id: param.id,
            value: bytes(small(rng, param.bitwidth)),
        });
        Some(Action {
            action_id: wanted,
            params: params.collect(),
        })
    }

    /// A profile and a table that it implements.
    fn profile(&self, rng: &mut Rng) -> Option<(&ActionProfile, &Table)> {
        let profile = rng.choice(&self.p4info.action_profiles)?;
        let of = *profile.table_ids.first()?;
        let mut tables = self.p4info.tables.iter();
        let table = tables.find(|it| id(it.preamble.as_ref()) == of)?;
        Some((profile, table))
    }

    fn member(&self, rng: &mut Rng) -> Option<ActionProfileMember> {
        let (profile, table) = self.profile(rng)?;
        Some(ActionProfileMember {
            action_profile_id: id(profile.preamble.as_ref()),
            member_id: small_id(rng),
            action: self.call(rng, table),
        })
    }

    fn group(&self, rng: &mut Rng) -> Option<ActionProfileGroup> {
        let (profile, _) = self.profile(rng)?;
        if !profile.with_selector && rng.u8(..8) > 0 {
            return None;
        }
        let mut members: Vec<u32> = (0..rng.usize(..3)).map(|_| small_id(rng)).collect();
        members.sort_unstable();
        members.dedup();
        let members = members
            .into_iter()
            .map(|member_id| action_profile_group::Member {
                member_id,
                weight: 1,
                ..Default::default()
            });
        Some(ActionProfileGroup {
            action_profile_id: id(profile.preamble.as_ref()),
            group_id: small_id(rng),
            members: members.collect(),
            // Always the same, since it cannot be modified.
            max_size: match profile.max_group_size {
                0 => 0,
                most => most.min(4),
            },
        })
    }

    fn register(&self, rng: &mut Rng) -> Option<RegisterEntry> {
        let register: &Register = rng.choice(&self.p4info.registers)?;
        let data = Data::Bitstring(bytes(rng.u64(..2)));
        Some(RegisterEntry {
            register_id: id(register.preamble.as_ref()),
            // Sometimes all cells.
            index: cell(rng, register.size.into()).filter(|_| rng.u8(..8) > 0),
            data: Some(P4Data { data: Some(data) }),
        })
    }

    fn counter(&self, rng: &mut Rng) -> Option<CounterEntry> {
        let counter = rng.choice(&self.p4info.counters)?;
        Some(CounterEntry {
            counter_id: id(counter.preamble.as_ref()),
            index: cell(rng, counter.size),
            data: Some(CounterData::default()),
        })
    }

    fn meter(&self, rng: &mut Rng) -> Option<MeterEntry> {
        let meter: &Meter = rng.choice(&self.p4info.meters)?;
        Some(MeterEntry {
            meter_id: id(meter.preamble.as_ref()),
            index: cell(rng, meter.size).filter(|_| rng.u8(..8) > 0),
            config: Some(rates(rng)).filter(|_| rng.u8(..4) > 0),
            ..Default::default()
        })
    }

    fn direct_meter(&self, rng: &mut Rng) -> Option<DirectMeterEntry> {
        let meter = rng.choice(&self.p4info.direct_meters)?;
        let mut tables = self.p4info.tables.iter();
        let table = tables.find(|it| id(it.preamble.as_ref()) == meter.direct_table_id)?;
        let fields = table.match_fields.iter();
        let entry = TableEntry {
            table_id: meter.direct_table_id,
            r#match: fields.filter_map(|field| field_match(rng, field)).collect(),
            priority: priority(rng, table),
            ..Default::default()
        };
        Some(DirectMeterEntry {
            table_entry: Some(entry),
            config: Some(rates(rng)).filter(|_| rng.bool()),
            ..Default::default()
        })
    }

    fn value_set(&self, rng: &mut Rng) -> Option<ValueSetEntry> {
        let set: &ValueSet = rng.choice(&self.p4info.value_sets)?;
        let n_members = rng.usize(..=usize::try_from(set.size).unwrap_or(0));
        let mut members = Vec::new();
        for _ in 0..n_members {
            let fields = set.r#match.iter();
            let member = ValueSetMember {
                r#match: fields.filter_map(|field| field_match(rng, field)).collect(),
            };
            if !members.contains(&member) {
                members.push(member);
            }
        }
        Some(ValueSetEntry {
            value_set_id: id(set.preamble.as_ref()),
            members,
        })
    }

    fn digest(&self, rng: &mut Rng) -> Option<DigestEntry> {
        let digest = rng.choice(&self.p4info.digests)?;
        let config = Config {
            max_timeout_ns: rng.i64(0..3) * 1_000_000,
            max_list_size: rng.i32(0..4),
            ack_timeout_ns: rng.i64(0..3) * 1_000_000,
        };
        Some(DigestEntry {
            digest_id: id(digest.preamble.as_ref()),
            config: Some(config),
        })
    }
}

fn match_type(field: &MatchField) -> MatchType {
    match field.r#match {
        Some(Match::MatchType(number)) => MatchType::try_from(number).unwrap_or_default(),
        _ => MatchType::Unspecified,
    }
}

fn priority(rng: &mut Rng, table: &Table) -> i32 {
    use MatchType::{Optional, Range, Ternary};
    let mut fields = table.match_fields.iter();
    if fields.any(|field| [Ternary, Range, Optional].contains(&match_type(field))) {
        rng.i32(1..4)
    } else {
        0
    }
}

/// `None` for a match of every value.
fn field_match(rng: &mut Rng, field: &MatchField) -> Option<FieldMatch> {
    let (width, value) = (field.bitwidth, small(rng, field.bitwidth));
    let of = match match_type(field) {
        MatchType::Exact => FieldMatchType::Exact(Exact {
            value: bytes(value),
        }),
        MatchType::Lpm => {
            let prefix_len = rng.i32(1..=width);
            let wild = mask(width - prefix_len);
            FieldMatchType::Lpm(Lpm {
                value: bytes(value & !wild),
                prefix_len,
            })
        }
        MatchType::Ternary => {
            let cared_for = small(rng, width);
            (cared_for != 0).then(|| {
                FieldMatchType::Ternary(Ternary {
                    value: bytes(value & cared_for),
                    mask: bytes(cared_for),
                })
            })?
        }
        MatchType::Range => {
            let high = value.max(1);
            FieldMatchType::Range(Range {
                low: bytes(high - 1),
                high: bytes(high),
            })
        }
        MatchType::Optional => rng.bool().then(|| {
            FieldMatchType::Optional(Optional {
                value: bytes(value),
            })
        })?,
        MatchType::Unspecified => return None,
    };
    Some(FieldMatch {
        field_id: field.id,
        field_match_type: Some(of),
    })
}

fn rates(rng: &mut Rng) -> MeterConfig {
    MeterConfig {
        cir: rng.i64(1..4),
        cburst: rng.i64(1..4),
        pir: rng.i64(4..8),
        pburst: rng.i64(1..4),
        eburst: 0,
    }
}

fn replicas(rng: &mut Rng) -> Vec<Replica> {
    let n_replicas = rng.u32(..3);
    let replica = |instance| Replica {
        instance: instance + 1,
        port_kind: Some(replica::PortKind::Port(bytes(rng.u64(1..3)))),
        ..Default::default()
    };
    (0..n_replicas).map(replica).collect()
}

fn group(rng: &mut Rng) -> MulticastGroupEntry {
    MulticastGroupEntry {
        multicast_group_id: small_id(rng),
        replicas: replicas(rng),
        metadata: Vec::from_iter((0..rng.usize(..3)).map(|_| rng.u8(1..))),
    }
}

fn session(rng: &mut Rng) -> CloneSessionEntry {
    CloneSessionEntry {
        session_id: small_id(rng),
        replicas: replicas(rng),
        class_of_service: 0,
        packet_length_bytes: rng.i32(0..3) * 64,
    }
}

fn replication(of: Replication) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
}
