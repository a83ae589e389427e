//! Tests of the P4Runtime specification's section "ActionProfileMember & ActionProfileGroup": members, groups, one
//! shots, watch ports.

use dataplane::PortId;
use p4runtime_proto::p4::v1::action_profile_action::WatchKind as ActionWatch;
use p4runtime_proto::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use p4runtime_proto::p4::v1::action_profile_group::Member;
use p4runtime_proto::p4::v1::action_profile_group::member::WatchKind;
use p4runtime_proto::p4::v1::entity::Entity as Kind;
use p4runtime_proto::p4::v1::table_action::Type as Runs;
use p4runtime_proto::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    TableEntry,
};
use tonic::Code::{
    AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied,
    ResourceExhausted, Unimplemented,
};

use crate::every_entity::{action, call, entry, frame, id, kinds, pass, start, start_with};
use crate::harness::{Controller, Harness};

fn member(profile: &str, member_id: u32, action: Option<Action>) -> Kind {
    Kind::ActionProfileMember(ActionProfileMember {
        action_profile_id: id(profile),
        member_id,
        action,
    })
}

fn group_of(profile: &str, group_id: u32, max_size: i32, members: Vec<Member>) -> Kind {
    Kind::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: id(profile),
        group_id,
        members,
        max_size,
    })
}

fn weighted(member_id: u32, weight: i32) -> Member {
    Member {
        member_id,
        weight,
        watch_kind: None,
    }
}

fn watching(member_id: u32, weight: i32, port: u8) -> Member {
    Member {
        watch_kind: Some(WatchKind::WatchPort(vec![port])),
        ..weighted(member_id, weight)
    }
}

fn one_shot(actions: Vec<ActionProfileAction>) -> ActionProfileActionSet {
    ActionProfileActionSet {
        action_profile_actions: actions,
        ..ActionProfileActionSet::default()
    }
}

fn shot(value: u8, weight: i32, port: Option<u8>) -> ActionProfileAction {
    ActionProfileAction {
        action: Some(call("mark", &[value])),
        weight,
        watch_kind: port.map(|port| ActionWatch::WatchPort(vec![port])),
    }
}

fn table(of: TableEntry) -> Kind {
    Kind::TableEntry(of)
}

/// Sends frames from different sources, and returns for each mark how many of the frames got this mark.
fn chosen(harness: &Harness, n_frames: u64) -> Vec<(u8, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for src in 0..n_frames {
        let sent = pass(harness, 0, &frame(7, src * 7919, 0x800, kinds::PLAIN));
        *counts.entry(sent.chosen).or_default() += 1;
    }
    counts.into_iter().collect()
}

async fn insert(primary: &mut Controller, entities: &[Kind]) {
    for entity in entities {
        primary.insert(entity.clone()).await;
    }
}

// spec: action-profile.members
#[tokio::test]
async fn members_are_made_changed_read_and_deleted() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let first = member("shared", 1, Some(call("mark", &[5])));
    let second = member("shared", 2, Some(call("send", &[3])));
    let other = member("spread", 1, Some(call("mark", &[9])));
    insert(
        &mut primary,
        &[first.clone(), second.clone(), other.clone()],
    )
    .await;
    let by_member = entry("one", 7, Runs::ActionProfileMemberId(1));
    insert(&mut primary, &[table(by_member.clone())]).await;
    assert_eq!(pass(&harness, 0, &frame(7, 0, 0x800, 0)).chosen, 5);

    let changed = member("shared", 1, Some(call("mark", &[6])));
    primary.modify(changed.clone()).await;
    assert_eq!(pass(&harness, 0, &frame(7, 0, 0x800, 0)).chosen, 6);

    let of = |profile: u32, member_id| {
        Kind::ActionProfileMember(ActionProfileMember {
            action_profile_id: profile,
            member_id,
            action: None,
        })
    };
    let all = primary.found(of(0, 0)).await;
    assert_eq!(all.len(), 3);
    assert!(all.contains(&other));
    let of_one = primary.found(of(id("shared"), 0)).await;
    assert_eq!(of_one, [changed.clone(), second]);
    assert_eq!(primary.found(of(id("shared"), 1)).await, [changed]);
    assert_eq!(primary.found(of(id("shared"), 8)).await, []);
    assert_eq!(primary.read_error(of(0, 1)).await, InvalidArgument);
    assert_eq!(primary.read_error(of(12, 0)).await, InvalidArgument);

    let gone = member("shared", 1, None);
    let refused = primary.refused(Delete, gone.clone()).await;
    assert_eq!(refused, FailedPrecondition);
    let found = primary
        .found(table(TableEntry {
            table_id: id("one"),
            ..Default::default()
        }))
        .await;
    assert_eq!(found, [table(by_member.clone())]);
    primary.delete(table(by_member)).await;
    primary.delete(gone).await;
}

// spec: action-profile.member-errors
#[tokio::test]
async fn wrong_members_are_refused() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let mark = || Some(call("mark", &[5]));
    insert(&mut primary, &[member("shared", 1, mark())]).await;
    primary
        .expect_refused([
            (Insert, member("shared", 1, mark()), AlreadyExists),
            (Insert, member("shared", 0, mark()), InvalidArgument),
            (Insert, member("shared", 2, None), InvalidArgument),
            (Modify, member("shared", 1, None), InvalidArgument),
            (Modify, member("shared", 2, mark()), NotFound),
            (Delete, member("shared", 2, None), NotFound),
            (
                Insert,
                member("shared", 2, Some(call("to_group", &[1]))),
                InvalidArgument,
            ),
        ])
        .await;
    for id in 2..=4 {
        insert(&mut primary, &[member("shared", id, mark())]).await;
    }
    let refused = primary.refused(Insert, member("shared", 5, mark())).await;
    assert_eq!(refused, ResourceExhausted);
    let unknown = Kind::ActionProfileMember(ActionProfileMember {
        action_profile_id: id("one"),
        member_id: 1,
        action: mark(),
    });
    assert_eq!(primary.refused(Insert, unknown).await, InvalidArgument);
}

// spec: action-profile.groups
#[tokio::test]
async fn a_group_spreads_packets_by_weight_and_is_read_as_it_was_written() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    for (number, value) in [(1, 11), (2, 22)] {
        insert(
            &mut primary,
            &[member("spread", number, Some(call("mark", &[value])))],
        )
        .await;
    }
    let group = group_of("spread", 1, 0, vec![weighted(1, 1), weighted(2, 3)]);
    let by_group = entry("many", 7, Runs::ActionProfileGroupId(1));
    insert(&mut primary, &[group.clone(), table(by_group.clone())]).await;
    let counts = chosen(&harness, 400);
    let [(11, once), (22, thrice)] = counts[..] else {
        panic!("expected both members, found {counts:?}")
    };
    assert!((2 * once..5 * once).contains(&thrice), "{counts:?}");

    let of = |action_profile_id, group_id| {
        Kind::ActionProfileGroup(ActionProfileGroup {
            action_profile_id,
            group_id,
            ..Default::default()
        })
    };
    for request in [of(0, 0), of(id("spread"), 0), of(id("spread"), 1)] {
        assert_eq!(primary.found(request).await, std::slice::from_ref(&group));
    }
    assert_eq!(primary.found(of(id("spread"), 2)).await, []);
    assert_eq!(primary.read_error(of(0, 1)).await, InvalidArgument);

    let one = group_of("spread", 1, 0, vec![weighted(2, 1)]);
    primary.modify(one).await;
    assert_eq!(chosen(&harness, 20), [(22, 20)]);
    let refused = primary.refused(Delete, member("spread", 2, None)).await;
    assert_eq!(refused, FailedPrecondition);
    let refused = primary.refused(Delete, group.clone()).await;
    assert_eq!(refused, FailedPrecondition);
    primary.delete(table(by_group)).await;
    primary.delete(group).await;
}

// spec: action-profile.group-errors
#[tokio::test]
async fn wrong_groups_are_refused() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    for profile in ["bounded", "spread"] {
        insert(
            &mut primary,
            &[member(profile, 1, Some(call("mark", &[1])))],
        )
        .await;
    }
    let good = || vec![weighted(1, 1)];
    let bounded = |members| group_of("bounded", 2, 4, members);
    insert(&mut primary, &[group_of("bounded", 1, 4, good())]).await;
    primary
        .expect_refused([
            (Insert, group_of("bounded", 1, 4, good()), AlreadyExists),
            (Insert, group_of("bounded", 0, 4, good()), InvalidArgument),
            (Insert, group_of("bounded", 2, 5, good()), InvalidArgument),
            (Insert, group_of("bounded", 2, 0, good()), InvalidArgument),
            (Insert, group_of("spread", 2, -1, good()), InvalidArgument),
            (Insert, bounded(vec![weighted(9, 1)]), NotFound),
            (Insert, bounded(vec![weighted(1, 0)]), InvalidArgument),
            (Insert, bounded(vec![weighted(1, -1)]), InvalidArgument),
            (Insert, bounded(vec![weighted(1, 5)]), ResourceExhausted),
            (
                Insert,
                bounded(vec![weighted(1, 1), weighted(1, 1)]),
                InvalidArgument,
            ),
            // The switch has only the ports 0 to 3.
            (Insert, bounded(vec![watching(1, 1, 9)]), InvalidArgument),
            (Modify, group_of("bounded", 1, 3, good()), InvalidArgument),
            (Modify, bounded(good()), NotFound),
            (Delete, bounded(Vec::new()), NotFound),
            (
                Insert,
                group_of("shared", 1, 0, Vec::new()),
                InvalidArgument,
            ),
        ])
        .await;
}

// spec: action-profile.watch-port
#[tokio::test]
async fn a_member_takes_no_part_while_the_port_that_it_watches_is_down() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    for number in 1..=2 {
        let mark = Some(call("mark", &[u8::try_from(number).unwrap()]));
        insert(&mut primary, &[member("spread", number, mark)]).await;
    }
    let group = group_of("spread", 1, 0, vec![watching(1, 1, 2), watching(2, 1, 3)]);
    let by_group = entry("many", 7, Runs::ActionProfileGroupId(1));
    insert(&mut primary, &[group.clone(), table(by_group)]).await;
    let set = |port, is_up| harness.switch.set_port_up(PortId(port), is_up);
    assert_eq!(chosen(&harness, 40).len(), 2);
    set(2, false);
    assert_eq!(chosen(&harness, 40), [(2, 40)]);
    set(3, false);
    // No member is left: no action runs. The table's miss action does nothing either.
    assert_eq!(chosen(&harness, 4), [(0, 4)]);
    set(2, true);
    assert_eq!(chosen(&harness, 40), [(1, 40)]);
    set(3, true);
    assert_eq!(chosen(&harness, 40).len(), 2);
    let read = primary.found(group_of("spread", 1, 0, Vec::new())).await;
    assert_eq!(read, [group]);
}

// spec: action-profile.one-shot
#[tokio::test]
async fn an_entry_s_own_group_is_read_as_it_was_written_and_watches_ports() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let mut set = one_shot(vec![
        shot(1, 2, Some(2)),
        shot(2, 1, None),
        shot(2, 1, None),
    ]);
    set.action_selection_mode = ActionSelectionMode::Hash as i32;
    set.size_semantics = SizeSemantics::SumOfWeights as i32;
    let whole = entry("many", 7, Runs::ActionProfileActionSet(set));
    insert(&mut primary, &[table(whole.clone())]).await;
    assert_eq!(chosen(&harness, 40).len(), 2);
    harness.switch.set_port_up(PortId(2), false);
    assert_eq!(chosen(&harness, 40), [(2, 40)]);
    harness.switch.set_port_up(PortId(2), true);
    let all = table(TableEntry {
        table_id: id("many"),
        ..TableEntry::default()
    });
    assert_eq!(primary.found(all.clone()).await, [table(whole)]);
    let other = entry(
        "many",
        7,
        Runs::ActionProfileActionSet(one_shot(vec![shot(9, 1, None)])),
    );
    primary.modify(table(other.clone())).await;
    assert_eq!(chosen(&harness, 4), [(9, 4)]);
    assert_eq!(primary.found(all).await, [table(other)]);
}

// spec: action-profile.one-shot-errors
#[tokio::test]
async fn wrong_groups_of_entries_are_refused() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let with = |actions| Runs::ActionProfileActionSet(one_shot(actions));
    let mut random = one_shot(vec![shot(1, 1, None)]);
    random.action_selection_mode = ActionSelectionMode::Random as i32;
    let mut members = one_shot(vec![shot(1, 1, None)]);
    members.size_semantics = SizeSemantics::SumOfMembers as i32;
    for (of, runs, code) in [
        ("few", with(vec![shot(1, 5, None)]), InvalidArgument),
        ("few", with(vec![shot(1, 0, None)]), InvalidArgument),
        ("few", with(vec![shot(1, 1, Some(9))]), InvalidArgument),
        ("few", Runs::ActionProfileActionSet(random), Unimplemented),
        ("few", Runs::ActionProfileActionSet(members), Unimplemented),
        ("few", Runs::Action(call("mark", &[1])), InvalidArgument),
        ("few", Runs::ActionProfileMemberId(3), NotFound),
        ("few", Runs::ActionProfileGroupId(3), NotFound),
        ("one", with(vec![shot(1, 1, None)]), InvalidArgument),
        ("one", Runs::ActionProfileGroupId(3), InvalidArgument),
        ("limited", Runs::ActionProfileMemberId(3), InvalidArgument),
    ] {
        let entity = table(entry(of, 7, runs));
        let refused = primary.write_one(Insert, entity.clone()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.0, code, "{entity:?}: {}", refused.1);
    }
    let default = TableEntry {
        table_id: id("few"),
        is_default_action: true,
        action: action(Runs::Action(call("mark", &[1]))),
        ..TableEntry::default()
    };
    let refused = primary.refused(Modify, table(default)).await;
    assert_eq!(refused, PermissionDenied);
}

// spec: action-profile.one-shot-or-members
#[tokio::test]
async fn a_selector_has_members_or_entries_with_groups_of_their_own() {
    let harness = start().await;
    let mut primary = harness.primary().await;
    let own = table(entry(
        "many",
        7,
        Runs::ActionProfileActionSet(one_shot(vec![shot(1, 1, None)])),
    ));
    insert(&mut primary, std::slice::from_ref(&own)).await;
    let first = member("spread", 1, Some(call("mark", &[1])));
    for entity in [first.clone(), group_of("spread", 1, 0, Vec::new())] {
        assert_eq!(primary.refused(Insert, entity).await, InvalidArgument);
    }
    primary.delete(own.clone()).await;
    insert(&mut primary, &[first]).await;
    assert_eq!(primary.refused(Insert, own).await, InvalidArgument);
}

// spec: action-profile.weights
#[tokio::test]
async fn a_program_may_disallow_weights_or_have_sizes_of_members() {
    use p4runtime_proto::p4::config::v1::action_profile::{SelectorSizeSemantics, SumOfMembers};
    let mut p4info = crate::every_entity::p4info();
    for profile in &mut p4info.action_profiles {
        let alias = &profile.preamble.as_ref().unwrap().alias;
        profile.weights_disallowed = alias == "spread";
        if alias == "bounded" {
            let max_member_weight = 3;
            let members = SumOfMembers { max_member_weight };
            profile.selector_size_semantics = Some(SelectorSizeSemantics::SumOfMembers(members));
        }
    }
    let harness = start_with(p4info).await;
    let mut primary = harness.primary().await;
    for profile in ["bounded", "spread"] {
        insert(
            &mut primary,
            &[member(profile, 1, Some(call("mark", &[1])))],
        )
        .await;
        insert(
            &mut primary,
            &[member(profile, 2, Some(call("mark", &[2])))],
        )
        .await;
    }
    let plain = group_of("spread", 1, 0, vec![weighted(1, 0), weighted(2, 0)]);
    let heavy = group_of("bounded", 1, 2, vec![weighted(1, 3), weighted(2, 3)]);
    insert(&mut primary, &[plain.clone(), heavy.clone()]).await;
    for (group, profile) in [(plain, "spread"), (heavy, "bounded")] {
        let found = primary.found(group_of(profile, 1, 0, Vec::new())).await;
        assert_eq!(found, [group]);
    }
    for wrong in [
        group_of("spread", 2, 0, vec![weighted(1, 1)]),
        group_of("bounded", 2, 2, vec![weighted(1, 4)]),
    ] {
        assert_eq!(primary.refused(Insert, wrong).await, InvalidArgument);
    }
    let wide = group_of("bounded", 2, 1, vec![weighted(1, 1), weighted(2, 1)]);
    assert_eq!(primary.refused(Insert, wide).await, ResourceExhausted);
}
