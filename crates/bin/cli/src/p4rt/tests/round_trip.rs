//! Random entities: each printed line, parsed again, gives the same entity.

use p4runtime_client::entities::{entity as entity_of, of_engine as replication};
use p4runtime_client::id_of;
use p4runtime_proto::p4::config::v1::{self as config};
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as PreType;
use p4runtime_proto::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry,
    DigestEntry, DirectCounterEntry, DirectMeterEntry, Entity, Index, MeterEntry,
    MulticastGroupEntry, P4Data, RegisterEntry, ValueSetEntry, ValueSetMember,
    action_profile_group, digest_entry, entity, p4_data,
};

use super::{Random, every_entity, kinds, written};
use crate::p4rt::print;
use crate::p4rt::schema::Schema;

const ROUNDS: usize = 300;

#[track_caller]
fn comes_back(schema: &Schema, entity: &Entity) {
    let line = print::line(schema, entity);
    match written(schema, &line) {
        Ok(found) => assert_eq!(&found, entity, "{line}"),
        Err(message) => panic!("{line}: {message}"),
    }
}

#[test]
fn entries_that_are_printed_can_be_typed_in_again() {
    let mut random = Random(1);
    let mut n = 0;
    for schema in [every_entity(), kinds()] {
        for table in &schema.p4info.tables {
            for _ in 0..ROUNDS {
                let entity = random.table_entry(schema, table);
                comes_back(schema, &entity);
                n += 1;
            }
        }
    }
    assert_eq!(
        n,
        (every_entity().p4info.tables.len() + kinds().p4info.tables.len()) * ROUNDS
    );
}

#[test]
fn every_other_entity_that_is_printed_can_be_typed_in_again() {
    let schema = every_entity();
    let mut random = Random(2);
    for _ in 0..ROUNDS {
        for profile in &schema.p4info.action_profiles {
            let action_profile_id = id_of(profile.preamble.as_ref());
            let actions = schema.actions_of_profile(profile);
            comes_back(
                schema,
                &entity_of(entity::Entity::ActionProfileMember(ActionProfileMember {
                    action_profile_id,
                    member_id: random.below(1 << 32) as u32,
                    action: Some(random.call(&actions)),
                })),
            );
            let member = |random: &mut Random| action_profile_group::Member {
                member_id: random.below(9) as u32,
                weight: random.below(4) as i32,
                watch_kind: (random.below(2) == 0)
                    .then(|| action_profile_group::member::WatchKind::WatchPort(random.port())),
            };
            comes_back(
                schema,
                &entity_of(entity::Entity::ActionProfileGroup(ActionProfileGroup {
                    action_profile_id,
                    group_id: random.below(1 << 32) as u32,
                    members: (0..random.below(3)).map(|_| member(&mut random)).collect(),
                    max_size: random.below(3) as i32,
                })),
            );
        }
        let group = MulticastGroupEntry {
            multicast_group_id: random.below(1 << 16) as u32,
            replicas: random.replicas(),
            metadata: vec![0, 7],
        };
        comes_back(schema, &replication(PreType::MulticastGroupEntry(group)));
        let session = CloneSessionEntry {
            session_id: random.below(1 << 16) as u32,
            replicas: random.replicas(),
            class_of_service: random.below(3) as u32,
            packet_length_bytes: random.below(3) as i32,
        };
        comes_back(schema, &replication(PreType::CloneSessionEntry(session)));
        comes_back(schema, &meter(&mut random));
        comes_back(schema, &direct_counter(&mut random));
        comes_back(schema, &direct_meter(&mut random));
        comes_back(schema, &counter(&mut random));
        comes_back(schema, &value_set(&mut random));
        comes_back(schema, &digest(&mut random));
        for schema in [every_entity(), kinds()] {
            for register in &schema.p4info.registers {
                comes_back(schema, &cell(&mut random, register));
            }
        }
    }
}

fn meter(random: &mut Random) -> Entity {
    entity_of(entity::Entity::MeterEntry(MeterEntry {
        meter_id: id_of(every_entity().p4info.meters[0].preamble.as_ref()),
        index: Some(Index {
            index: random.below(8) as i64,
        }),
        config: (random.below(2) == 0).then(|| random.rates()),
        counter_data: None,
    }))
}

fn counter(random: &mut Random) -> Entity {
    entity_of(entity::Entity::CounterEntry(CounterEntry {
        counter_id: id_of(every_entity().p4info.counters[0].preamble.as_ref()),
        index: (random.below(4) > 0).then(|| Index {
            index: random.below(8) as i64,
        }),
        data: Some(CounterData {
            byte_count: random.below(1 << 60) as i64,
            packet_count: random.below(2) as i64,
        }),
    }))
}

fn direct_counter(random: &mut Random) -> Entity {
    entity_of(entity::Entity::DirectCounterEntry(DirectCounterEntry {
        table_entry: Some(random.key(&every_entity().p4info.tables[0])),
        data: Some(CounterData {
            byte_count: random.below(1 << 60) as i64,
            packet_count: random.below(2) as i64,
        }),
    }))
}

fn direct_meter(random: &mut Random) -> Entity {
    entity_of(entity::Entity::DirectMeterEntry(DirectMeterEntry {
        table_entry: Some(random.key(&every_entity().p4info.tables[0])),
        config: (random.below(2) == 0).then(|| random.rates()),
        counter_data: None,
    }))
}

fn value_set(random: &mut Random) -> Entity {
    let sets = &every_entity().p4info.value_sets;
    let set = &sets[random.below(2) as usize];
    let members = (0..random.below(3)).map(|_| ValueSetMember {
        r#match: set
            .r#match
            .iter()
            .filter_map(|it| random.field(it))
            .collect(),
    });
    // Leave out a member that matches anything: it has no text.
    let members = members.filter(|it| !it.r#match.is_empty()).collect();
    entity_of(entity::Entity::ValueSetEntry(ValueSetEntry {
        value_set_id: id_of(set.preamble.as_ref()),
        members,
    }))
}

fn digest(random: &mut Random) -> Entity {
    entity_of(entity::Entity::DigestEntry(DigestEntry {
        digest_id: id_of(every_entity().p4info.digests[0].preamble.as_ref()),
        config: Some(digest_entry::Config {
            max_timeout_ns: random.below(1 << 50) as i64,
            max_list_size: random.below(9) as i32,
            ack_timeout_ns: random.below(9) as i64,
        }),
    }))
}

fn cell(random: &mut Random, register: &config::Register) -> Entity {
    use config::p4_data_type_spec::TypeSpec;
    let spec = register
        .type_spec
        .as_ref()
        .and_then(|it| it.type_spec.as_ref());
    let data = match spec {
        Some(TypeSpec::Bool(_)) => p4_data::Data::Bool(random.below(2) == 0),
        Some(TypeSpec::SerializableEnum(_)) => p4_data::Data::EnumValue(random.value(8)),
        Some(TypeSpec::NewType(_)) => p4_data::Data::Bitstring(random.value(0)),
        Some(TypeSpec::Bitstring(it)) => match it.type_spec {
            Some(config::p4_bitstring_like_type_spec::TypeSpec::Bit(it)) => {
                p4_data::Data::Bitstring(random.value(it.bitwidth.cast_unsigned()))
            }
            _ => panic!("a register of {spec:?}"),
        },
        _ => panic!("a register of {spec:?}"),
    };
    entity_of(entity::Entity::RegisterEntry(RegisterEntry {
        register_id: id_of(register.preamble.as_ref()),
        index: Some(Index {
            index: random.below(4) as i64,
        }),
        data: Some(P4Data { data: Some(data) }),
    }))
}
