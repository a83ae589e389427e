//! Generates valid messages from a P4Info, with entities of every kind. There are only few keys, so that inserts,
//! modifications and deletions collide. It is intended that the switch refuses some messages, for example a second
//! insert or an insert into a full table.

use std::collections::HashSet;

use fastrand::Rng;
use p4runtime_client::bytestring::bytes;
use p4runtime_client::entities::{self, action, any_clone_session, any_multicast_group, entity};
use p4runtime_client::field_match::Match;
use p4runtime_client::{P4InfoIndex, has_order, id_of, match_type};
use p4runtime_proto::p4::config::v1::match_field::MatchType;
use p4runtime_proto::p4::config::v1::{ActionProfile, MatchField, P4Info, Table};
use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    CloneSessionEntry, CounterData, CounterEntry, DigestEntry, DirectCounterEntry,
    DirectMeterEntry, Entity, FieldMatch, Index, MeterConfig, MeterEntry, MulticastGroupEntry,
    P4Data, PacketReplicationEngineEntry, RegisterEntry, Replica, TableAction, TableEntry, Update,
    ValueSetEntry, ValueSetMember, action_profile_group,
};

/// The number of key values, and of ids of members, groups and sessions. The number is small, so that messages collide.
const N_KEYS: u64 = 5;

/// The entities that exist according to the switch's answers. With this knowledge, few updates are refused.
#[derive(Debug, Default)]
pub struct Known(HashSet<String>);

impl Known {
    /// Changes the type of an update that would be refused. The insert of an existing entity becomes a modify, and the
    /// modify or delete of a missing entity becomes an insert. One in eight updates is not changed.
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

    /// Forgets all entities. This is necessary after a new program was set.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Returns a text that identifies an entity, or `None` for an entity that always exists.
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
    pub index: P4InfoIndex,
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
        let index = P4InfoIndex::new(p4info);
        Self { index }
    }

    pub fn update(&self, rng: &mut Rng) -> Update {
        let (entity, types) = self.entity(rng);
        let of = rng.choice(types).copied().unwrap_or(Type::Modify);
        entities::update(of, entities::entity(entity))
    }

    /// Makes a random entity. Returns the entity and the update types for its kind.
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

    /// Returns the entities for a Read of everything that survives a restart.
    pub fn wanted(&self) -> Vec<Entity> {
        let default = |table: &Table| {
            let id = id_of(table.preamble.as_ref());
            Kind::TableEntry(entities::default_entry(id))
        };
        let mut kinds = vec![
            Kind::TableEntry(TableEntry::default()),
            Kind::ActionProfileMember(ActionProfileMember::default()),
            Kind::ActionProfileGroup(ActionProfileGroup::default()),
            Kind::MeterEntry(MeterEntry::default()),
            Kind::RegisterEntry(RegisterEntry::default()),
            Kind::ValueSetEntry(ValueSetEntry::default()),
            Kind::DigestEntry(DigestEntry::default()),
        ];
        kinds.extend(self.index.p4info.tables.iter().map(default));
        kinds.extend(self.index.p4info.direct_meters.iter().map(|meter| {
            Kind::DirectMeterEntry(DirectMeterEntry {
                table_entry: Some(entities::every_entry(meter.direct_table_id)),
                ..Default::default()
            })
        }));
        let mut all: Vec<Entity> = kinds.into_iter().map(entity).collect();
        all.extend([any_multicast_group(), any_clone_session()]);
        all
    }

    /// Makes a random entity for a Read, with or without wildcards.
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
        let table = rng.choice(&self.index.p4info.tables)?;
        if table.is_const_table && rng.u8(..8) > 0 {
            return None;
        }
        let table_id = id_of(table.preamble.as_ref());
        let fields = matches(rng, &table.match_fields);
        let meter = self.index.direct_meter_of(table_id);
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
                // The timeout is at least an hour, so that no notification is sent.
                _ => rng.i64(0..3) * 3_600_000_000_000,
            },
            ..Default::default()
        })
    }

    fn default_entry(&self, rng: &mut Rng) -> Option<TableEntry> {
        let table = rng.choice(&self.index.p4info.tables)?;
        if table.const_default_action_id != 0 && rng.u8(..8) > 0 {
            return None;
        }
        let calls = table.implementation_id == 0 && rng.u8(..4) > 0;
        Some(TableEntry {
            table_id: id_of(table.preamble.as_ref()),
            is_default_action: true,
            // Without an action, MODIFY restores the program's own default action.
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
        let profile = self.index.profile_by_id(profile);
        profile.is_some_and(|it| it.with_selector)
    }

    fn call(&self, rng: &mut Rng, table: &Table) -> Option<Action> {
        let called = rng.choice(self.index.actions_of(table, false))?;
        let params = called.params.iter();
        let params = params.map(|it| (it.id, bytes(small(rng, it.bitwidth))));
        Some(action(id_of(called.preamble.as_ref()), params))
    }

    /// Returns a profile and a table that uses the profile.
    fn profile(&self, rng: &mut Rng) -> Option<(&ActionProfile, &Table)> {
        let profile = rng.choice(&self.index.p4info.action_profiles)?;
        let of = *profile.table_ids.first()?;
        Some((profile, self.index.table_by_id(of)?))
    }

    fn member(&self, rng: &mut Rng) -> Option<ActionProfileMember> {
        let (profile, table) = self.profile(rng)?;
        Some(ActionProfileMember {
            action_profile_id: id_of(profile.preamble.as_ref()),
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
            action_profile_id: id_of(profile.preamble.as_ref()),
            group_id: small_id(rng),
            members: members.collect(),
            // The size is always the same, since it cannot be modified.
            max_size: match profile.max_group_size {
                0 => 0,
                most => most.min(4),
            },
        })
    }

    fn register(&self, rng: &mut Rng) -> Option<RegisterEntry> {
        let register = rng.choice(&self.index.p4info.registers)?;
        let data = Data::Bitstring(bytes(rng.u64(..2)));
        Some(RegisterEntry {
            register_id: id_of(register.preamble.as_ref()),
            // In some messages the entity is for all cells.
            index: cell(rng, register.size.into()).filter(|_| rng.u8(..8) > 0),
            data: Some(P4Data { data: Some(data) }),
        })
    }

    fn counter(&self, rng: &mut Rng) -> Option<CounterEntry> {
        let counter = rng.choice(&self.index.p4info.counters)?;
        Some(CounterEntry {
            counter_id: id_of(counter.preamble.as_ref()),
            index: cell(rng, counter.size),
            data: Some(CounterData::default()),
        })
    }

    fn meter(&self, rng: &mut Rng) -> Option<MeterEntry> {
        let meter = rng.choice(&self.index.p4info.meters)?;
        Some(MeterEntry {
            meter_id: id_of(meter.preamble.as_ref()),
            index: cell(rng, meter.size).filter(|_| rng.u8(..8) > 0),
            config: Some(rates(rng)).filter(|_| rng.u8(..4) > 0),
            ..Default::default()
        })
    }

    fn direct_meter(&self, rng: &mut Rng) -> Option<DirectMeterEntry> {
        let meter = rng.choice(&self.index.p4info.direct_meters)?;
        let table = self.index.table_by_id(meter.direct_table_id)?;
        let entry = TableEntry {
            table_id: meter.direct_table_id,
            r#match: matches(rng, &table.match_fields),
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
        let set = rng.choice(&self.index.p4info.value_sets)?;
        let n_members = rng.usize(..=usize::try_from(set.size).unwrap_or(0));
        let mut members = Vec::new();
        for _ in 0..n_members {
            let member = ValueSetMember {
                r#match: matches(rng, &set.r#match),
            };
            if !members.contains(&member) {
                members.push(member);
            }
        }
        Some(ValueSetEntry {
            value_set_id: id_of(set.preamble.as_ref()),
            members,
        })
    }

    fn digest(&self, rng: &mut Rng) -> Option<DigestEntry> {
        let digest = rng.choice(&self.index.p4info.digests)?;
        let config = Config {
            max_timeout_ns: rng.i64(0..3) * 1_000_000,
            max_list_size: rng.i32(0..4),
            ack_timeout_ns: rng.i64(0..3) * 1_000_000,
        };
        Some(DigestEntry {
            digest_id: id_of(digest.preamble.as_ref()),
            config: Some(config),
        })
    }
}

fn priority(rng: &mut Rng, table: &Table) -> i32 {
    if has_order(table) { rng.i32(1..4) } else { 0 }
}

fn matches(rng: &mut Rng, fields: &[MatchField]) -> Vec<FieldMatch> {
    let found = fields.iter().filter_map(|field| {
        let found = one_match(rng, field)?;
        Some(found.field(field.id))
    });
    found.collect()
}

/// Makes a match for one field. `None` matches every value.
fn one_match(rng: &mut Rng, field: &MatchField) -> Option<Match> {
    let width = field.bitwidth;
    let value = small(rng, width);
    match match_type(field)? {
        MatchType::Exact => Some(Match::Exact(bytes(value))),
        MatchType::Lpm => {
            let prefix_len = rng.i32(1..=width).unsigned_abs();
            Match::lpm(&bytes(value), prefix_len, width.unsigned_abs())
        }
        MatchType::Ternary => Match::ternary(&bytes(value), &bytes(small(rng, width))),
        MatchType::Range => {
            let high = value.max(1);
            Some(Match::Range(bytes(high - 1), bytes(high)))
        }
        MatchType::Optional => rng.bool().then(|| Match::Optional(bytes(value))),
        MatchType::Unspecified => None,
    }
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
    let replica = |instance| entities::replica(rng.u16(1..3), instance + 1);
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
