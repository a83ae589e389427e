//! Action profiles.

use bmv2_thrift::wire::read::Value;
use control::{Operation, Update};
use dataplane::{ActionCall, ProfileMember};

use crate::client::{
    Arg, Client, Refused, all_bytes, args, as_struct, exact, i32_of, key, priority, struct_of,
};
use crate::harness::Harness;

const ECMP: &str = "EntitiesIngress.ecmp";
const TUNNELS: &str = "EntitiesIngress.tunnels";
const GROUPS: &str = "EntitiesIngress.groups";

const WRONG_TABLE_TYPE: Refused = Refused::Code(9);
const INVALID_MEMBER: Refused = Refused::Code(10);
const MEMBER_STILL_USED: Refused = Refused::Code(11);
const MEMBER_ALREADY_IN_GROUP: Refused = Refused::Code(12);
const MEMBER_NOT_IN_GROUP: Refused = Refused::Code(13);
const INVALID_GROUP: Refused = Refused::Code(14);
const GROUP_STILL_USED: Refused = Refused::Code(15);
const EMPTY_GROUP: Refused = Refused::Code(16);
const INVALID_PROFILE_NAME: Refused = Refused::Code(23);
const NO_SELECTION: Refused = Refused::Code(24);

fn member(profile: &str, nexthop: u8) -> Vec<Arg> {
    let action = "EntitiesIngress.set_nexthop";
    args![0, profile, action, all_bytes(&[&[0, nexthop]])]
}

fn of(profile: &str, ids: &[i32]) -> Vec<Arg> {
    let ids = ids.iter().map(|id| Arg::I32(*id));
    [Arg::I32(0), profile.into()]
        .into_iter()
        .chain(ids)
        .collect()
}

async fn call(client: &mut Client, name: &str, args: Vec<Arg>) {
    client.call(&format!("bm_mt_{name}"), args).await;
}

async fn create_group(client: &mut Client) -> i64 {
    let name = "bm_mt_act_prof_create_group";
    client.number(name, of(ECMP, &[])).await
}

async fn add(client: &mut Client, nexthop: u8) -> i64 {
    client
        .number("bm_mt_act_prof_add_member", member(ECMP, nexthop))
        .await
}

#[tokio::test]
async fn members_and_groups_have_the_lowest_free_handles() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for nexthop in 0..4 {
        assert_eq!(add(&mut client, nexthop).await, i64::from(nexthop));
    }
    for gone in [3, 1] {
        call(&mut client, "act_prof_delete_member", of(ECMP, &[gone])).await;
    }
    assert_eq!(add(&mut client, 9).await, 1);
    assert_eq!(add(&mut client, 9).await, 3);
    for expected in 0..3 {
        assert_eq!(create_group(&mut client).await, expected);
    }
    call(&mut client, "act_prof_delete_group", of(ECMP, &[1])).await;
    assert_eq!(create_group(&mut client).await, 1);
    // Each profile has its own handles.
    let other = client
        .number("bm_mt_act_prof_add_member", member(TUNNELS, 1))
        .await;
    assert_eq!(other, 0);
}

#[tokio::test]
async fn handles_go_around_the_ids_of_another_protocol() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    let pipeline = harness.pipeline();
    let profile = pipeline.program().action_profile(ECMP).unwrap();
    let table = pipeline.program().table(GROUPS).unwrap();
    let action = pipeline
        .program()
        .action_of(table, "EntitiesIngress.set_nexthop")
        .unwrap();
    for id in [1, 2] {
        let action = ActionCall {
            action,
            args: vec![vec![7]],
        };
        harness
            .write(Operation::Member(
                profile,
                Update::Insert(ProfileMember { id, action }),
            ))
            .await;
    }
    assert_eq!(add(&mut client, 0).await, 0);
    assert_eq!(add(&mut client, 3).await, 3);
    let members = client
        .list("bm_mt_act_prof_get_members", of(ECMP, &[]))
        .await;
    let ids: Vec<i32> = members
        .iter()
        .map(|member| i32_of(as_struct(member), 1))
        .collect();
    assert_eq!(ids, [0, 1, 2, 3]);
}

#[tokio::test]
async fn entries_go_to_members_and_groups() {
    let harness = Harness::start().await;
    let mut client = harness.client().await;
    for nexthop in 0..3 {
        add(&mut client, nexthop).await;
    }
    create_group(&mut client).await;
    let entry = |protocol: u8, handle: i32| {
        let key = key(vec![exact(&[protocol])]);
        args![0, GROUPS, key, handle, priority(0)]
    };
    let to_group = "bm_mt_indirect_ws_add_entry";
    assert_eq!(client.refused(to_group, entry(6, 0)).await, EMPTY_GROUP);
    assert_eq!(client.refused(to_group, entry(6, 5)).await, INVALID_GROUP);
    for member in [0, 1] {
        client
            .call("bm_mt_act_prof_add_member_to_group", of(ECMP, &[member, 0]))
            .await;
    }
    let to_group = "bm_mt_indirect_ws_add_entry";
    assert_eq!(client.number(to_group, entry(6, 0)).await, 0);
    let to_member = "bm_mt_indirect_add_entry";
    assert_eq!(client.number(to_member, entry(17, 2)).await, 1);
    let entries = client.list("bm_mt_get_entries", of(GROUPS, &[])).await;
    let actions = entries.iter().map(|entry| struct_of(as_struct(entry), 4));
    let found: Vec<_> = actions
        .map(|it| (i32_of(it, 1), it.get(4).cloned(), it.get(5).cloned()))
        .collect();
    assert_eq!(
        found,
        [
            (3, None, Some(Value::I32(0))),
            (2, Some(Value::I32(2)), None),
        ]
    );
    let mistakes = [
        (
            "bm_mt_act_prof_delete_member",
            of(ECMP, &[2]),
            MEMBER_STILL_USED,
        ),
        (
            "bm_mt_act_prof_delete_member",
            of(ECMP, &[0]),
            MEMBER_STILL_USED,
        ),
        (
            "bm_mt_act_prof_delete_member",
            of(ECMP, &[9]),
            INVALID_MEMBER,
        ),
        (
            "bm_mt_act_prof_delete_group",
            of(ECMP, &[0]),
            GROUP_STILL_USED,
        ),
        ("bm_mt_act_prof_delete_group", of(ECMP, &[9]), INVALID_GROUP),
        (
            "bm_mt_act_prof_add_member_to_group",
            of(ECMP, &[0, 0]),
            MEMBER_ALREADY_IN_GROUP,
        ),
        (
            "bm_mt_act_prof_add_member_to_group",
            of(ECMP, &[9, 0]),
            INVALID_MEMBER,
        ),
        (
            "bm_mt_act_prof_remove_member_from_group",
            of(ECMP, &[2, 0]),
            MEMBER_NOT_IN_GROUP,
        ),
        (
            "bm_mt_act_prof_create_group",
            of(TUNNELS, &[]),
            NO_SELECTION,
        ),
        (
            "bm_mt_act_prof_get_groups",
            of("nothing", &[]),
            INVALID_PROFILE_NAME,
        ),
        ("bm_mt_act_prof_get_member", of(ECMP, &[9]), INVALID_MEMBER),
        ("bm_mt_indirect_add_entry", entry(1, 9), INVALID_MEMBER),
        ("bm_mt_delete_entry", of(GROUPS, &[0]), WRONG_TABLE_TYPE),
    ];
    for (call, args, expected) in mistakes {
        assert_eq!(client.refused(call, args).await, expected, "{call}");
    }
    client
        .call("bm_mt_act_prof_remove_member_from_group", of(ECMP, &[1, 0]))
        .await;
    let group = client
        .fields("bm_mt_act_prof_get_group", of(ECMP, &[0]))
        .await;
    assert_eq!(group.get(2), Some(&Value::List(vec![Value::I32(0)])));
    let modify = [of(ECMP, &[]), args![2], member(ECMP, 8)[2..].to_vec()];
    // In this call the member's handle stands between the action profile and the action.
    let modify = modify.concat();
    client.call("bm_mt_act_prof_modify_member", modify).await;
    let member = client
        .fields("bm_mt_act_prof_get_member", of(ECMP, &[2]))
        .await;
    assert_eq!(
        member.get(3),
        Some(&Value::List(vec![Value::Bytes(vec![8])]))
    );
    call(&mut client, "indirect_ws_modify_entry", of(GROUPS, &[1, 0])).await;
    call(&mut client, "act_prof_delete_member", of(ECMP, &[2])).await;
    call(&mut client, "indirect_delete_entry", of(GROUPS, &[1])).await;
    call(&mut client, "indirect_set_default_member", of(GROUPS, &[0])).await;
    let default = client
        .fields("bm_mt_get_default_entry", of(GROUPS, &[]))
        .await;
    assert_eq!((i32_of(&default, 1), i32_of(&default, 4)), (2, 0));
    client
        .call("bm_mt_indirect_ws_set_default_group", of(GROUPS, &[0]))
        .await;
    call(&mut client, "indirect_reset_default_entry", of(GROUPS, &[])).await;
    call(&mut client, "indirect_delete_entry", of(GROUPS, &[0])).await;
    call(&mut client, "act_prof_delete_group", of(ECMP, &[0])).await;
}
