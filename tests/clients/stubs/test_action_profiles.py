"""Tests the P4Runtime specification on action profiles: members, groups, and one-shots."""

import pytest
from client import DELETE, INSERT, MODIFY, Controller, action, exact, has, ids, runs
from google.rpc.code_pb2 import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
)
from p4.v1 import p4runtime_pb2 as p4

KEY = [exact(1, b"\7")]


def member(number: int, profile: str = "spread", value: bytes = b"\1") -> p4.ActionProfileMember:
    return p4.ActionProfileMember(
        action_profile_id=ids()[profile],
        member_id=number,
        action=action(ids()["mark"], value),
    )


def group(number: int, *members: object, profile: str = "spread", **fields: object) -> object:
    return p4.ActionProfileGroup(
        action_profile_id=ids()[profile], group_id=number, members=members, **fields
    )


def of(number: int, weight: int = 1, **watch: object) -> p4.ActionProfileGroup.Member:
    return p4.ActionProfileGroup.Member(member_id=number, weight=weight, **watch)


def one_shot(*actions: object, table: str = "few", **fields: object) -> p4.TableEntry:
    actions = p4.ActionProfileActionSet(action_profile_actions=actions, **fields)
    return p4.TableEntry(
        table_id=ids()[table],
        match=KEY,
        action=p4.TableAction(action_profile_action_set=actions),
    )


def weighted(value: bytes, weight: int = 1, **watch: object) -> p4.ActionProfileAction:
    return p4.ActionProfileAction(action=action(ids()["mark"], value), weight=weight, **watch)


def by(**action_of: int) -> p4.TableEntry:
    return p4.TableEntry(table_id=ids()["many"], match=KEY, action=p4.TableAction(**action_of))


# spec: action-profile.members
def test_members_are_made_changed_read_and_deleted(primary: Controller) -> None:
    primary.insert(member(1), member(2, value=b"\2"), member(1, "shared", b"\3"))
    every = p4.ActionProfileMember()
    assert len(primary.read(every)) == 3
    spread = p4.ActionProfileMember(action_profile_id=ids()["spread"])
    assert primary.read(spread) == [member(1), member(2, value=b"\2")]
    primary.modify(member(1, value=b"\x09"))
    assert primary.read(member(1)) == [member(1, value=b"\x09")]
    primary.delete(member(1), member(2), member(1, "shared"))
    assert primary.read(every) == []


# spec: action-profile.member-errors
def test_wrong_members_are_refused(primary: Controller) -> None:
    primary.insert(member(1))
    without = p4.ActionProfileMember(action_profile_id=ids()["spread"], member_id=3)
    unknown = p4.ActionProfileMember(action_profile_id=5, member_id=3)
    for kind, wrong, code in [
        (INSERT, member(1), ALREADY_EXISTS),
        (INSERT, member(0), INVALID_ARGUMENT),
        (INSERT, without, INVALID_ARGUMENT),
        (INSERT, unknown, INVALID_ARGUMENT),
        (MODIFY, member(2), NOT_FOUND),
        (DELETE, member(2), NOT_FOUND),
    ]:
        assert primary.refused(kind, wrong) == code, wrong
    for number in range(2, 17):
        primary.insert(member(number))
    assert primary.refused(INSERT, member(17)) == RESOURCE_EXHAUSTED
    primary.insert(by(action_profile_member_id=1))
    assert primary.refused(DELETE, member(1)) == FAILED_PRECONDITION


# spec: action-profile.groups
def test_groups_are_read_as_they_were_written(primary: Controller) -> None:
    primary.insert(member(1), member(2))
    written = group(5, of(1), of(2, 3, watch_port=b"\2"))
    primary.insert(written, by(action_profile_group_id=5))
    assert primary.read(p4.ActionProfileGroup()) == [written]
    of_many = p4.TableEntry(table_id=ids()["many"], match=KEY)
    assert primary.read(of_many) == [by(action_profile_group_id=5)]
    assert primary.refused(DELETE, written) == FAILED_PRECONDITION
    assert primary.refused(DELETE, member(2)) == FAILED_PRECONDITION
    # A group without members is allowed.
    primary.modify(group(5))
    assert primary.read(group(5)) == [group(5)]
    primary.delete(member(2))
    primary.delete(by(action_profile_group_id=5))
    primary.delete(group(5))
    assert primary.read(p4.ActionProfileGroup(action_profile_id=ids()["spread"])) == []


# spec: action-profile.group-errors
def test_wrong_groups_are_refused(primary: Controller) -> None:
    primary.insert(member(1), member(1, "bounded"))
    for wrong, code in [
        (group(0), INVALID_ARGUMENT),
        (group(1, of(1, 0)), INVALID_ARGUMENT),
        (group(1, of(1, -1)), INVALID_ARGUMENT),
        (group(1, of(1), of(1)), INVALID_ARGUMENT),
        (group(1, of(9)), NOT_FOUND),
        (group(1, of(1), profile="shared"), INVALID_ARGUMENT),
        # The program's @max_group_size is 4.
        (group(1, of(1), profile="bounded"), INVALID_ARGUMENT),
        (group(1, of(1), profile="bounded", max_size=5), INVALID_ARGUMENT),
        (group(1, of(1, 5), profile="bounded", max_size=4), RESOURCE_EXHAUSTED),
    ]:
        assert primary.refused(INSERT, wrong) == code, wrong
    primary.insert(group(1, of(1, 4), profile="bounded", max_size=4))
    assert primary.refused(INSERT, by(action_profile_group_id=3)) == NOT_FOUND


# spec: action-profile.one-shot, action-profile.watch-port
def test_one_shots_are_read_as_they_were_written(primary: Controller) -> None:
    for watch in ({"watch_port": b"\2"}, {}):
        written = one_shot(weighted(b"\1", 2), weighted(b"\2", **watch))
        primary.insert(written)
        assert primary.read(p4.TableEntry(table_id=ids()["few"])) == [written]
        # A one-shot's group and members belong to the entry, so no read finds them.
        assert primary.read(p4.ActionProfileGroup(), p4.ActionProfileMember()) == []
        primary.delete(written)
    # Older controllers write `watch`, a number. It is read as `watch_port`, its successor.
    primary.insert(one_shot(weighted(b"\2", watch=2)))
    written = one_shot(weighted(b"\2", watch_port=b"\2"))
    assert primary.read(p4.TableEntry(table_id=ids()["few"])) == [written]


# spec: action-profile.one-shot-errors, action-profile.one-shot-or-members
def test_wrong_one_shots_are_refused(primary: Controller) -> None:
    for wrong, code in [
        (one_shot(weighted(b"\1", 0)), INVALID_ARGUMENT),
        (one_shot(p4.ActionProfileAction(weight=1)), INVALID_ARGUMENT),
        (one_shot(weighted(b"\1", 5)), INVALID_ARGUMENT),
        (one_shot(weighted(b"\1"), table="begun"), INVALID_ARGUMENT),
    ]:
        assert primary.refused(INSERT, wrong) == code, wrong
    direct = p4.TableEntry(table_id=ids()["few"], match=KEY, action=runs(ids()["mark"], b"\1"))
    assert primary.refused(INSERT, direct) == INVALID_ARGUMENT
    primary.insert(member(1), by(action_profile_member_id=1))
    assert primary.refused(INSERT, one_shot(weighted(b"\1"), table="many")) == INVALID_ARGUMENT


# spec: action-profile.one-shot-errors
@pytest.mark.skipif(
    not has(p4.ActionProfileActionSet, "action_selection_mode"),
    reason="NOT TESTED, these stubs know no selection modes",
)
def test_another_selection_mode_than_the_selector_s_is_unimplemented(primary: Controller) -> None:
    modes = p4.ActionProfileActionSet.ActionSelectionMode
    wrong = one_shot(weighted(b"\1"), action_selection_mode=modes.Value("RANDOM"))
    assert primary.refused(INSERT, wrong) == UNIMPLEMENTED
