//! Action profiles and selectors: members, groups, selection by hash, references.

use dataplane::{
    ActionCall, ActionProfileId, ControlErrorKind, MatchField, ProfileGroup, ProfileMember, Switch,
    SwitchConfig, TableAction, TableEntry, TableId, WeightedCall,
};
use serde_json::json;
use testkit::builder::*;

/// A table `t` on `pkt.kind` with an action profile `p` that selects by crc16 of `pkt.value`. A hit
/// writes `pkt.left`; a miss writes 0xff there.
fn selector() -> Builder {
    let mut b = Builder::default();
    let set = b.action("set", &[("left", 8)], &[assign("pkt.left", param(0))]);
    let miss = b.action("miss", &[], &[assign("pkt.left", hex(0xff))]);
    let selector = json!({"algo": "crc16", "input": [field("pkt.value")]});
    b.node(
        INGRESS,
        "action_profiles",
        json!({"name": "p", "id": 0, "max_size": 8, "selector": selector}),
    );
    let table = b.table(
        INGRESS,
        "t",
        &[("exact", "pkt.kind")],
        &[("set", set), ("miss", miss)],
        Some("out"),
    );
    table["type"] = json!("indirect_ws");
    table["action_profile"] = json!("p");
    table["default_entry"] = json!({"action_id": miss, "action_const": false, "action_data": [],
        "action_entry_const": false});
    b.call(INGRESS, "out", None, &[output_to(1)]);
    b.start(INGRESS, "t");
    b
}

struct Rig {
    switch: Switch,
    table: TableId,
    profile: ActionProfileId,
}

impl Rig {
    fn new(b: &Builder) -> Self {
        let switch = b.switch(SwitchConfig::default());
        let program = switch.program().unwrap();
        let (table, profile) = (
            program.table("t").unwrap(),
            program.action_profile("p").unwrap(),
        );
        Self {
            switch,
            table,
            profile,
        }
    }

    fn call(&self, left: u8) -> ActionCall {
        let program = self.switch.program().unwrap();
        ActionCall {
            action: program.action_of(self.table, "set").unwrap(),
            args: vec![vec![left]],
        }
    }

    fn member(&mut self, id: u32, left: u8) {
        let action = self.call(left);
        self.switch
            .insert_member(self.profile, ProfileMember { id, action })
            .unwrap();
    }

    fn group(&mut self, id: u32, members: &[(u32, u32)]) {
        self.switch
            .insert_group(self.profile, group(id, members))
            .unwrap();
    }

    fn entry(&mut self, kind: u8, action: TableAction) {
        let entry = TableEntry::new(vec![MatchField::Exact(vec![kind])], 0, action);
        self.switch.insert_entry(self.table, entry).unwrap();
    }

    fn left_of(&mut self, kind: u8, value: u16) -> u8 {
        let [high, low] = value.to_be_bytes();
        exchange(&mut self.switch, 0, 0, &[kind, 0, high, low])[0].frame[1]
    }
}

fn group(id: u32, members: &[(u32, u32)]) -> ProfileGroup {
    ProfileGroup {
        id,
        max_size: 0,
        members: members.to_vec(),
        ..ProfileGroup::default()
    }
}

/// CRC-16/ARC bit by bit, lowest bit first, independent of the switch's code.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0xa001,
            _ => crc >> 1,
        })
    })
}

#[test]
fn the_hash_of_the_selectors_fields_chooses_along_the_members_in_order_of_making() {
    let mut rig = Rig::new(&selector());
    // Ids do not define the order; member 30 is made first.
    for (id, left) in [(30, 0), (10, 1), (20, 2)] {
        rig.member(id, left);
    }
    rig.group(7, &[(10, 1), (20, 1), (30, 1)]);
    rig.entry(1, TableAction::Group(7));
    let mut seen = [false; 3];
    for value in 0..64 {
        let chosen = crc16(&u16::to_be_bytes(value)) % 3;
        assert_eq!(u16::from(rig.left_of(1, value)), chosen, "value {value}");
        seen[usize::from(chosen)] = true;
    }
    assert_eq!(seen, [true; 3], "every member was chosen");
    let read = rig.switch.groups(rig.profile);
    assert_eq!(read, [group(7, &[(30, 1), (10, 1), (20, 1)])]);
    assert_eq!(
        rig.switch.entries(rig.table)[0].action,
        TableAction::Group(7)
    );
}

#[test]
fn a_freed_place_is_taken_by_the_next_member() {
    let mut rig = Rig::new(&selector());
    for id in 0..3 {
        rig.member(id, id as u8);
    }
    rig.switch.delete_member(rig.profile, 1).unwrap();
    rig.member(9, 9);
    rig.group(1, &[(0, 1), (2, 1), (9, 1)]);
    rig.entry(1, TableAction::Group(1));
    for value in 0..16 {
        let chosen = [0, 9, 2][usize::from(crc16(&u16::to_be_bytes(value)) % 3)];
        assert_eq!(rig.left_of(1, value), chosen, "value {value}");
    }
}

#[test]
fn weights_are_shares_and_one_shots_choose_as_groups_do() {
    let mut rig = Rig::new(&selector());
    rig.member(1, 1);
    rig.member(2, 2);
    rig.group(1, &[(1, 3), (2, 1)]);
    rig.entry(1, TableAction::Group(1));
    let call = |left, weight| WeightedCall {
        call: rig.call(left),
        weight,
        watch: None,
    };
    let one_shot = TableAction::OneShot(vec![call(1, 3), call(2, 1)]);
    rig.entry(2, one_shot.clone());
    for value in 0..32 {
        let chosen = [1, 1, 1, 2][usize::from(crc16(&u16::to_be_bytes(value)) % 4)];
        assert_eq!(rig.left_of(1, value), chosen, "group, value {value}");
        assert_eq!(rig.left_of(2, value), chosen, "one shot, value {value}");
    }
    let entries = rig.switch.entries(rig.table);
    assert!(entries.iter().any(|entry| entry.action == one_shot));
}

#[test]
fn an_empty_group_runs_nothing_and_the_control_goes_on() {
    let mut rig = Rig::new(&selector());
    rig.group(1, &[]);
    rig.entry(1, TableAction::Group(1));
    let found = rig.left_of(1, 5);
    assert_eq!(found, 0, "neither an action nor the default one");
    rig.member(4, 44);
    rig.switch
        .modify_group(rig.profile, group(1, &[(4, 1)]))
        .unwrap();
    assert_eq!(rig.left_of(1, 5), 44);
}

#[test]
fn changing_a_member_changes_every_entry_that_names_it() {
    let mut rig = Rig::new(&selector());
    rig.member(1, 1);
    rig.entry(1, TableAction::Member(1));
    rig.entry(2, TableAction::Member(1));
    assert_eq!((rig.left_of(1, 0), rig.left_of(2, 0)), (1, 1));
    let action = rig.call(9);
    rig.switch
        .modify_member(rig.profile, ProfileMember { id: 1, action })
        .unwrap();
    assert_eq!((rig.left_of(1, 0), rig.left_of(2, 0)), (9, 9));
}

#[test]
fn the_default_is_the_programs_action_until_a_member_takes_its_place() {
    let mut rig = Rig::new(&selector());
    assert_eq!(rig.left_of(3, 0), 0xff);
    rig.member(1, 5);
    rig.switch
        .set_default_action(rig.table, Some(TableAction::Member(1)))
        .unwrap();
    assert_eq!(rig.left_of(3, 0), 5);
    let used = rig.switch.delete_member(rig.profile, 1).unwrap_err();
    assert_eq!(used.kind, ControlErrorKind::FailedPrecondition);
    rig.switch.set_default_action(rig.table, None).unwrap();
    assert_eq!(rig.left_of(3, 0), 0xff);
    rig.switch.delete_member(rig.profile, 1).unwrap();
}

#[test]
fn what_is_used_stays() {
    use ControlErrorKind::*;
    let mut rig = Rig::new(&selector());
    rig.member(1, 1);
    rig.group(1, &[(1, 1)]);
    rig.entry(1, TableAction::Group(1));
    let (profile, table) = (rig.profile, rig.table);
    let key = [MatchField::Exact(vec![1])];
    let switch = &mut rig.switch;
    let member = switch.delete_member(profile, 1).unwrap_err();
    assert_eq!(member.kind, FailedPrecondition);
    let expected = "action profile \"p\": member 1 is used by 1 entries or groups";
    assert_eq!(member.message, expected);
    assert_eq!(refusal(switch.delete_group(profile, 1)), FailedPrecondition);
    switch.delete_entry(table, &key, 0).unwrap();
    switch.delete_group(profile, 1).unwrap();
    switch.delete_member(profile, 1).unwrap();
    assert!(switch.members(profile).is_empty());
}

#[test]
fn wrong_calls_are_refused() {
    use ControlErrorKind::*;
    let mut rig = Rig::new(&selector());
    rig.member(1, 1);
    let (profile, table) = (rig.profile, rig.table);
    let action = rig.call(1);
    let switch = &mut rig.switch;
    let member = |id, action: &ActionCall| ProfileMember {
        id,
        action: action.clone(),
    };
    let refused = refusal(switch.insert_member(profile, member(1, &action)));
    assert_eq!(refused, AlreadyExists);
    let refused = refusal(switch.modify_member(profile, member(2, &action)));
    assert_eq!(refused, NotFound);
    let mut wide = action.clone();
    wide.args = vec![vec![1, 0]];
    let refused = refusal(switch.insert_member(profile, member(2, &wide)));
    assert_eq!(refused, InvalidArgument);
    for (members, kind) in [
        (&[(5, 1)][..], NotFound),
        (&[(1, 0)], InvalidArgument),
        (&[(1, 1), (1, 2)], InvalidArgument),
    ] {
        let refused = switch.insert_group(profile, group(1, members)).unwrap_err();
        assert_eq!(refused.kind, kind, "{members:?}");
    }
    let small = ProfileGroup {
        max_size: 2,
        ..group(1, &[(1, 3)])
    };
    let refused = refusal(switch.insert_group(profile, small));
    assert_eq!(refused, ResourceExhausted);
    let mut entry = |action| {
        let entry = TableEntry::new(vec![MatchField::Exact(vec![1])], 0, action);
        switch.insert_entry(table, entry).unwrap_err().kind
    };
    assert_eq!(entry(TableAction::Call(action.clone())), InvalidArgument);
    assert_eq!(entry(TableAction::Member(7)), NotFound);
    assert_eq!(entry(TableAction::Group(7)), NotFound);
    let weightless = WeightedCall {
        call: action.clone(),
        weight: 0,
        watch: None,
    };
    let found = entry(TableAction::OneShot(vec![weightless]));
    assert_eq!(found, InvalidArgument);
    for id in 2..9 {
        switch.insert_member(profile, member(id, &action)).unwrap();
    }
    let refused = refusal(switch.insert_member(profile, member(9, &action)));
    assert_eq!(refused, ResourceExhausted);
}

#[test]
fn a_profile_without_selector_has_members_only() {
    let mut b = selector();
    let profile = &mut b.json["pipelines"][INGRESS]["action_profiles"][0];
    profile.as_object_mut().unwrap().remove("selector");
    b.json["pipelines"][INGRESS]["tables"][0]["type"] = json!("indirect");
    let mut rig = Rig::new(&b);
    rig.member(1, 6);
    rig.entry(1, TableAction::Member(1));
    assert_eq!(rig.left_of(1, 0), 6);
    let refused = rig
        .switch
        .insert_group(rig.profile, group(1, &[(1, 1)]))
        .unwrap_err();
    assert_eq!(refused.kind, ControlErrorKind::FailedPrecondition);
}

#[test]
fn tables_share_a_profile_and_each_goes_on_by_its_own_arrows() {
    let mut b = selector();
    // A second table that shares the profile and has its own copy of the action. Ingress starts at
    // this table.
    let set = b.action("set", &[("left", 8)], &[assign("pkt.left", param(0))]);
    let table = b.table(
        INGRESS,
        "u",
        &[("exact", "pkt.kind")],
        &[("set", set)],
        Some("out2"),
    );
    table["type"] = json!("indirect_ws");
    table["action_profile"] = json!("p");
    b.call(INGRESS, "out2", None, &[output_to(2)]);
    b.start(INGRESS, "u");
    let mut rig = Rig::new(&b);
    rig.member(1, 3);
    let u = rig.switch.program().unwrap().table("u").unwrap();
    let entry = TableEntry::new(vec![MatchField::Exact(vec![1])], 0, TableAction::Member(1));
    rig.switch.insert_entry(u, entry).unwrap();
    let out = exchange(&mut rig.switch, 0, 0, &[1, 0, 0, 0]);
    assert_eq!(brief(&out), [(2, vec![1, 3, 0, 0])]);
}
