//! Tests of the P4Runtime specification's section "Role Config": primaries of several roles, each with its part of the
//! pipeline.

use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime_proto::p4::v1::table_action::Type as Runs;
use p4runtime_proto::p4::v1::update::Type::{self, Delete, Insert};
use p4runtime_proto::p4::v1::{
    DigestEntry, Entity, MasterArbitrationUpdate, MulticastGroupEntry, PacketMetadata, PacketOut,
    PacketReplicationEngineEntry, ReadRequest, RegisterEntry, Role,
    SetForwardingPipelineConfigRequest, TableEntry, Uint128, Update, WriteRequest, digest_entry,
    packet_replication_engine_entry,
};
use prost::Message;
use prost_types::Any;
use tonic::Code::{
    self, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied,
};
use tonic::Status;

use crate::every_entity::{call, config, entry, frame, id, kinds, start};
use crate::harness::{Controller, DEVICE_ID, Harness, details, in_time, status_of, update};

/// `stratum.P4RoleConfig`, as a controller writes it.
#[derive(Clone, PartialEq, Message)]
struct RoleConfig {
    #[prost(uint32, repeated, tag = "1")]
    exclusive: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    filter: Option<Filter>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Filter {
    #[prost(uint32, tag = "1")]
    metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

fn role(name: &str, config: Option<&RoleConfig>) -> Role {
    Role {
        name: name.into(),
        config: config.map(|config| Any {
            type_url: "type.googleapis.com/stratum.P4RoleConfig".into(),
            value: config.encode_to_vec(),
        }),
        ..Role::default()
    }
}

fn exclusive(alias: &str) -> RoleConfig {
    RoleConfig {
        exclusive: vec![id(alias)],
        ..RoleConfig::default()
    }
}

struct Member {
    controller: Controller,
    role: String,
}

impl Member {
    /// Joins with a role and election id. Also returns the server's answer.
    async fn join(
        harness: &Harness,
        of: Role,
        election_id: Uint128,
    ) -> (Self, MasterArbitrationUpdate) {
        let mut controller = harness.stranger().await;
        controller.election_id = Some(election_id);
        let member = of.name.clone();
        controller.send(arbitration(of, election_id));
        let answer = controller.arbitration().await;
        let role = member;
        (Self { controller, role }, answer)
    }

    /// Joins as primary.
    async fn primary(harness: &Harness, of: Role) -> Self {
        let (member, answer) = Self::join(harness, of, low(1)).await;
        assert_eq!(status_of(&answer), Code::Ok as i32);
        member
    }

    async fn write(&mut self, updates: Vec<Update>) -> Result<(), Status> {
        let request = WriteRequest {
            device_id: DEVICE_ID,
            role: self.role.clone(),
            election_id: self.controller.election_id,
            updates,
            ..Default::default()
        };
        in_time(self.controller.client.write(request))
            .await
            .map(drop)
    }

    async fn insert(&mut self, entity: Kind) -> Result<(), Code> {
        self.write_one(Insert, entity).await
    }

    async fn write_one(&mut self, kind: Type, entity: Kind) -> Result<(), Code> {
        let written = self.write(vec![update(kind, entity)]).await;
        written.map_err(|status| Code::from(details(&status)[0].canonical_code))
    }

    async fn set_pipeline(&mut self) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            role: self.role.clone(),
            election_id: self.controller.election_id,
            action: Action::VerifyAndCommit as i32,
            config: Some(config()),
            ..Default::default()
        };
        let set = self
            .controller
            .client
            .set_forwarding_pipeline_config(request);
        in_time(set).await.map(drop)
    }

    async fn read(&mut self, entity: Kind) -> Result<Vec<Kind>, Status> {
        let request = ReadRequest {
            device_id: DEVICE_ID,
            role: self.role.clone(),
            entities: vec![Entity {
                entity: Some(entity),
            }],
        };
        let stream = in_time(self.controller.client.read(request)).await?;
        let mut stream = stream.into_inner();
        let mut found = Vec::new();
        while let Some(response) = in_time(stream.message()).await? {
            found.extend(response.entities.into_iter().filter_map(|e| e.entity));
        }
        Ok(found)
    }
}

fn low(low: u64) -> Uint128 {
    Uint128 { high: 0, low }
}

fn arbitration(role: Role, election_id: Uint128) -> RequestUpdate {
    RequestUpdate::Arbitration(MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        role: Some(role),
        election_id: Some(election_id),
        ..Default::default()
    })
}

fn limited(key: u8) -> Kind {
    Kind::TableEntry(entry("limited", key, Runs::Action(call("metered", &[]))))
}

fn ordered(priority: i32) -> Kind {
    Kind::TableEntry(TableEntry {
        priority,
        table_id: id("ordered"),
        action: crate::every_entity::action(Runs::Action(call("mark", &[1]))),
        ..TableEntry::default()
    })
}

fn every_entry() -> Kind {
    Kind::TableEntry(TableEntry::default())
}

// spec: arbitration.roles
#[tokio::test]
async fn each_role_has_a_primary_of_its_own_with_election_ids_of_its_own() {
    let harness = start().await;
    let _default = harness.primary().await;
    let (meters, answer) = Member::join(&harness, role("meters", None), low(1)).await;
    assert_eq!(status_of(&answer), Code::Ok as i32);
    assert_eq!(answer.role.unwrap().name, "meters");
    assert_eq!(answer.election_id, Some(low(1)));
    // Election ids have 128 bits.
    let high = Uint128 { high: 1, low: 0 };
    let (mut second, answer) = Member::join(&harness, role("meters", None), high).await;
    assert_eq!(status_of(&answer), Code::Ok as i32);
    let mut meters = meters;
    let answer = meters.controller.arbitration().await;
    assert_eq!(status_of(&answer), AlreadyExists as i32);
    assert_eq!(answer.election_id, Some(high));
    let denied = meters.write(vec![update(Insert, limited(1))]).await;
    assert_eq!(denied.unwrap_err().code(), PermissionDenied);
    second.insert(limited(1)).await.unwrap();
    // A stream cannot change its role, and an election id is unique within a role.
    second
        .controller
        .send(arbitration(role("routing", None), high));
    assert_eq!(second.controller.ended().await.code(), FailedPrecondition);
    let answer = meters.controller.arbitration().await;
    assert_eq!(status_of(&answer), NotFound as i32);
    let mut twin = harness.stranger().await;
    twin.send(arbitration(role("meters", None), low(1)));
    assert_eq!(twin.ended().await.code(), InvalidArgument);
}

// spec: arbitration.unknown-role
#[tokio::test]
async fn a_role_that_nobody_has_is_not_found() {
    let harness = start().await;
    let mut primary = Member {
        controller: harness.primary().await,
        role: "nobody".into(),
    };
    let write = primary.write(vec![update(Insert, limited(1))]).await;
    assert_eq!(write.unwrap_err().code(), NotFound);
    assert_eq!(primary.set_pipeline().await.unwrap_err().code(), NotFound);
    let found = primary.read(every_entry()).await.unwrap_err().code();
    assert_eq!(found, NotFound);
}

// spec: role-config.annotation
#[tokio::test]
async fn without_a_config_a_role_has_what_no_annotation_gives_to_another() {
    let harness = start().await;
    let mut meters = Member::primary(&harness, role("meters", None)).await;
    let mut routing = Member::primary(&harness, role("routing", None)).await;
    meters.insert(limited(1)).await.unwrap();
    assert_eq!(routing.insert(limited(2)).await, Err(PermissionDenied));
    routing.insert(ordered(1)).await.unwrap();
    meters.insert(ordered(2)).await.unwrap();
    let member = Kind::ActionProfileMember(p4runtime_proto::p4::v1::ActionProfileMember {
        action_profile_id: id("bounded"),
        member_id: 1,
        action: Some(call("mark", &[1])),
    });
    // The profile belongs to its table's role.
    assert_eq!(meters.insert(member.clone()).await, Err(PermissionDenied));
    routing.insert(member).await.unwrap();

    // A Read with a role finds the role's objects; a Read without a role finds everything.
    assert_eq!(meters.read(every_entry()).await.unwrap().len(), 3);
    let found = routing.read(every_entry()).await.unwrap();
    assert_eq!(found, [ordered(1), ordered(2)]);
    assert_eq!(routing.read(limited(1)).await.unwrap(), []);
    meters.role.clear();
    assert_eq!(meters.read(every_entry()).await.unwrap().len(), 5);
    // The default role may write every object.
    let mut primary = Member {
        controller: harness.primary().await,
        role: String::new(),
    };
    primary.write_one(Delete, limited(1)).await.unwrap();
}

// spec: role-config.config
#[tokio::test]
async fn a_config_lists_what_a_role_has() {
    let harness = start().await;
    let ours = RoleConfig {
        exclusive: vec![id("ordered")],
        shared: vec![id("counts")],
        ..RoleConfig::default()
    };
    let mut mine = Member::primary(&harness, role("mine", Some(&ours))).await;
    mine.insert(ordered(1)).await.unwrap();
    assert_eq!(mine.insert(limited(1)).await, Err(PermissionDenied));
    let slots = Kind::RegisterEntry(RegisterEntry {
        register_id: id("slots"),
        ..RegisterEntry::default()
    });
    assert_eq!(mine.read(slots).await.unwrap(), []);
    // Objects without an id in the P4Info belong to all roles.
    let group = Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(packet_replication_engine_entry::Type::MulticastGroupEntry(
            MulticastGroupEntry {
                multicast_group_id: 1,
                ..MulticastGroupEntry::default()
            },
        )),
    });
    mine.insert(group).await.unwrap();
    let mut other = Member::primary(&harness, role("other", None)).await;
    assert_eq!(other.insert(ordered(2)).await, Err(PermissionDenied));
    let mut default = Member::primary(&harness, Role::default()).await;
    default.insert(ordered(2)).await.unwrap();
    let found = mine.set_pipeline().await.unwrap_err().code();
    assert_eq!(found, PermissionDenied);
    other.set_pipeline().await.unwrap();

    // A backup is notified of the primary's config, and is notified again when a new primary sends another config.
    let (mut backup, answer) = Member::join(&harness, role("mine", None), low(0)).await;
    assert_eq!(
        answer.role.unwrap().config,
        role("mine", Some(&ours)).config
    );
    let wider = RoleConfig {
        shared: vec![id("limited")],
        can_push_pipeline: true,
        ..ours
    };
    let next = Member::join(&harness, role("mine", Some(&wider)), low(2)).await;
    let mut next = next.0;
    let answer = backup.controller.arbitration().await;
    assert_eq!(
        answer.role.unwrap().config,
        role("mine", Some(&wider)).config
    );
    next.set_pipeline().await.unwrap();
    next.insert(limited(3)).await.unwrap();
}

// spec: role-config.errors
#[tokio::test]
async fn wrong_role_configs_end_the_stream() {
    let harness = start().await;
    let ours = exclusive("ordered");
    let _mine = Member::primary(&harness, role("mine", Some(&ours))).await;
    let other_type = Role {
        config: Some(Any {
            type_url: "type.googleapis.com/google.protobuf.Struct".into(),
            value: Vec::new(),
        }),
        ..role("yours", None)
    };
    let malformed = Role {
        config: Some(Any {
            type_url: "type.googleapis.com/stratum.P4RoleConfig".into(),
            value: vec![0xff],
        }),
        ..role("yours", None)
    };
    for wrong in [
        role("yours", Some(&ours)),
        role("", Some(&ours)),
        other_type,
        malformed,
    ] {
        let mut stranger = harness.stranger().await;
        stranger.send(arbitration(wrong.clone(), low(1)));
        assert_eq!(stranger.ended().await.code(), InvalidArgument, "{wrong:?}");
    }
}

// spec: role-config.packets
#[tokio::test]
async fn packets_go_to_the_roles_that_take_them_and_come_from_them() {
    let harness = start().await;
    let quiet = RoleConfig::default();
    let filtered = RoleConfig {
        receives_packet_ins: true,
        filter: Some(Filter {
            metadata_id: 1,
            value: vec![2],
        }),
        ..RoleConfig::default()
    };
    let mut quiet = Member::primary(&harness, role("quiet", Some(&quiet))).await;
    let mut filtered = Member::primary(&harness, role("filtered", Some(&filtered))).await;
    let mut default = Member::primary(&harness, Role::default()).await;
    let to_cpu = frame(7, 0, 0x800, kinds::TO_CPU);
    harness.switch.receive(1, &to_cpu);
    harness.switch.receive(2, &to_cpu);
    default.controller.packet_in().await;
    default.controller.packet_in().await;
    let of_port_2 = filtered.controller.packet_in().await;
    assert_eq!(of_port_2.metadata[0].value, [2]);
    let packet = PacketOut {
        payload: frame(7, 0, 0x800, kinds::PLAIN),
        metadata: [(1, 3), (2, 0)]
            .map(|(metadata_id, value)| PacketMetadata {
                metadata_id,
                value: vec![value],
            })
            .into(),
    };
    quiet.controller.send(RequestUpdate::Packet(packet.clone()));
    let error = quiet.controller.error().await;
    assert_eq!(error.canonical_code, PermissionDenied as i32);
    assert_eq!(harness.switch.transmitted().len(), 0);
    filtered.controller.send(RequestUpdate::Packet(packet));
    // Work runs in order, so the following Read comes after the packet.
    filtered
        .controller
        .send(RequestUpdate::Packet(PacketOut::default()));
    filtered.controller.error().await;
    default.read(every_entry()).await.unwrap();
    assert_eq!(harness.switch.transmitted().len(), 1);
}

// spec: role-config.notifications
#[tokio::test]
async fn digests_go_to_the_roles_that_have_them() {
    let harness = start().await;
    let config = exclusive("seen_t");
    let mut learner = Member::primary(&harness, role("learner", Some(&config))).await;
    let mut other = Member::primary(&harness, role("other", None)).await;
    let digest = |name: &str| {
        Kind::DigestEntry(DigestEntry {
            digest_id: id(name),
            config: Some(digest_entry::Config::default()),
        })
    };
    assert_eq!(other.insert(digest("seen_t")).await, Err(PermissionDenied));
    learner.insert(digest("seen_t")).await.unwrap();
    other.insert(digest("noted_t")).await.unwrap();
    harness.switch.receive(1, &frame(7, 1, 0x800, kinds::SEEN));
    harness.switch.receive(1, &frame(7, 1, 0x800, kinds::NOTED));
    for (member, name) in [(&mut learner, "seen_t"), (&mut other, "noted_t")] {
        assert_eq!(member.controller.digests().await.digest_id, id(name));
    }
}

/// A role may not write an object any more once the config of another role makes the object exclusive to that role.
#[tokio::test]
async fn a_role_that_loses_an_object_meanwhile_does_not_write_it() {
    let harness = start().await;
    let mut other = Member::primary(&harness, role("other", None)).await;
    other.insert(ordered(1)).await.unwrap();
    let config = exclusive("ordered");
    let mut mine = Member::primary(&harness, role("mine", Some(&config))).await;
    assert_eq!(other.insert(ordered(2)).await, Err(PermissionDenied));
    mine.write_one(Delete, ordered(1)).await.unwrap();
    // Without the config, the role's exclusive objects belong to all roles.
    mine.controller
        .send(arbitration(role("mine", None), low(1)));
    mine.controller.arbitration().await;
    other.insert(ordered(2)).await.unwrap();
}
