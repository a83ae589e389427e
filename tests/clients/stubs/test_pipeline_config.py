"""Tests P4Runtime's section "P4 Forwarding-Pipeline Configuration", and its Set and Get calls."""

import grpc
import pytest
from client import (
    COMMIT,
    MODIFY,
    Client,
    begun,
    changed,
    code_of,
    config,
    controller,
    exact,
    ids,
    runs,
)
from google.rpc.code_pb2 import FAILED_PRECONDITION
from grpc import StatusCode
from p4.v1 import p4runtime_pb2 as p4
from switch import BRIDGE, EVERY_ENTITY, Switch

Action = p4.SetForwardingPipelineConfigRequest
Part = p4.GetForwardingPipelineConfigRequest
COOKIE = 2**64 - 3
ENTRY = begun(b"\xb3")


# spec: get-pipeline
def test_before_there_is_a_program_nothing_is_read_or_written(switch: Switch) -> None:
    with controller(switch.grpc) as primary:
        assert code_of(primary.get_pipeline) == StatusCode.FAILED_PRECONDITION
        assert code_of(primary.write) == StatusCode.FAILED_PRECONDITION
        assert code_of(primary.read, p4.TableEntry()) == StatusCode.FAILED_PRECONDITION


def as_p4_utils(address: str) -> tuple[bool, p4.ForwardingPipelineConfig]:
    """Does what p4-utils does; returns whether it sent a program, and the P4Info in the switch.

    The SimpleSwitchP4RuntimeAPI of p4-utils asks for the P4Info on a first connection. Only if this
    fails, it sets the pipeline, on a second connection.
    """
    with controller(address, 1 << 64) as first:
        try:
            return False, first.get_pipeline(Part.P4INFO_AND_COOKIE)
        except grpc.RpcError as error:
            found = (error.code(), error.details())
    assert found[0] == StatusCode.FAILED_PRECONDITION
    assert found[1].startswith("No forwarding pipeline config set for this device")
    with controller(address, 1 << 64) as second:
        second.set_pipeline(config())
        return True, second.get_pipeline(Part.P4INFO_AND_COOKIE)


# spec: get-pipeline
def test_p4_utils_sends_its_program_where_there_is_none(switch: Switch) -> None:
    program = p4.ForwardingPipelineConfig(p4info=config().p4info)
    assert as_p4_utils(switch.grpc) == (True, program)
    # When p4-utils is started again, it finds the program and does not set it.
    assert as_p4_utils(switch.grpc) == (False, program)


@pytest.mark.program(f"{EVERY_ENTITY}.json")
def test_p4_utils_sends_the_p4info_of_a_program_that_came_without(switch: Switch) -> None:
    program = p4.ForwardingPipelineConfig(p4info=config().p4info)
    assert as_p4_utils(switch.grpc) == (True, program)


@pytest.mark.program(f"{EVERY_ENTITY}.json", "--p4info", f"{EVERY_ENTITY}.p4info.txtpb")
def test_p4_utils_takes_the_program_that_the_switch_was_started_with(switch: Switch) -> None:
    program = p4.ForwardingPipelineConfig(p4info=config().p4info)
    assert as_p4_utils(switch.grpc) == (False, program)


# spec: get-pipeline
def test_a_program_is_read_back_whole_and_in_parts(switch: Switch) -> None:
    with controller(switch.grpc) as primary:
        written = config(cookie=COOKIE)
        primary.set_pipeline(written)
        p4info, data = written.p4info, written.p4_device_config
        cookie = p4.ForwardingPipelineConfig.Cookie(cookie=COOKIE)
        for part, expected in {
            Part.ALL: written,
            Part.COOKIE_ONLY: p4.ForwardingPipelineConfig(cookie=cookie),
            Part.P4INFO_AND_COOKIE: p4.ForwardingPipelineConfig(p4info=p4info, cookie=cookie),
            Part.DEVICE_CONFIG_AND_COOKIE: p4.ForwardingPipelineConfig(
                p4_device_config=data, cookie=cookie
            ),
        }.items():
            assert primary.get_pipeline(part) == expected
        # A program without a cookie is read without one, not with the cookie 0.
        primary.set_pipeline(config())
        assert not primary.get_pipeline().HasField("cookie")
        # A value of the enum that no version of P4Runtime has.
        assert code_of(primary.get_pipeline, 77) == StatusCode.INVALID_ARGUMENT


# spec: set-pipeline.verify, set-pipeline.save
def test_verify_changes_nothing_and_a_saved_program_forwards_from_its_commit(
    primary: Client,
) -> None:
    primary.insert(ENTRY)
    primary.set_pipeline(config(BRIDGE), Action.VERIFY)
    assert len(primary.read(p4.TableEntry(table_id=ids()["begun"]))) == 3
    primary.set_pipeline(config(BRIDGE), Action.VERIFY_AND_SAVE)
    assert primary.get_pipeline() == config()
    primary.set_pipeline(None, Action.COMMIT)
    assert primary.get_pipeline() == config(BRIDGE)
    # The saved program is gone.
    again = code_of(primary.set_pipeline, None, Action.COMMIT)
    assert again == StatusCode.NOT_FOUND


# spec: set-pipeline.verify, set-pipeline.reconcile
def test_commit_clears_what_was_written_and_reconcile_keeps_it(primary: Client) -> None:
    primary.insert(ENTRY)
    primary.set_pipeline(config(cookie=5), Action.RECONCILE_AND_COMMIT)
    assert primary.get_pipeline(Part.COOKIE_ONLY).cookie.cookie == 5
    assert primary.read(ENTRY) == [ENTRY]
    primary.set_pipeline(config())
    assert len(primary.read(p4.TableEntry(table_id=ids()["begun"]))) == 2


# spec: set-pipeline.reconcile-refused
def test_a_program_that_lacks_what_was_written_is_refused_and_changes_nothing(
    primary: Client,
) -> None:
    primary.insert(ENTRY)
    refused = code_of(primary.set_pipeline, config(BRIDGE), Action.RECONCILE_AND_COMMIT)
    assert refused == StatusCode.INVALID_ARGUMENT
    assert primary.get_pipeline() == config()
    assert primary.read(ENTRY) == [ENTRY]


# spec: set-pipeline.errors
@pytest.mark.parametrize("action", [Action.UNSPECIFIED, 9, -1, 2**31 - 1])
def test_actions_that_no_version_knows_are_refused(primary: Client, action: int) -> None:
    refused = code_of(primary.set_pipeline, config(BRIDGE), action)
    assert refused == StatusCode.INVALID_ARGUMENT
    assert primary.get_pipeline() == config()


# spec: set-pipeline.errors
def test_a_config_where_there_is_to_be_none_and_the_reverse(primary: Client) -> None:
    for wrong, action in [(None, COMMIT), (None, Action.VERIFY), (config(BRIDGE), Action.COMMIT)]:
        refused = code_of(primary.set_pipeline, wrong, action)
        assert refused == StatusCode.INVALID_ARGUMENT
    assert code_of(primary.set_pipeline, config(), device_id=77) == StatusCode.NOT_FOUND
    assert primary.get_pipeline() == config()


# spec: pipeline.checked, pipeline.device-config, pipeline.ids
def test_what_is_no_program_changes_nothing(primary: Client) -> None:
    right = config()
    twice = changed(right, p4info={"tables": [right.p4info.tables[0]]})
    of_another = changed(right, p4_device_config=config(BRIDGE).p4_device_config)
    for wrong in (
        p4.ForwardingPipelineConfig(),
        changed(right, p4_device_config=b"\0\1 no program"),
        changed(right, p4_device_config=right.p4_device_config[:-2]),
        changed(right, p4info={"tables": [{"preamble": {"name": "I.none", "alias": "none"}}]}),
        twice,
        of_another,
    ):
        refused = code_of(primary.set_pipeline, wrong)
        assert refused == StatusCode.INVALID_ARGUMENT
    assert primary.get_pipeline() == config()


# spec: set-pipeline.save
def test_between_save_and_commit_the_saved_program_is_written(primary: Client) -> None:
    primary.set_pipeline(config(BRIDGE), Action.VERIFY_AND_SAVE)
    forward = ids(BRIDGE)["forward"]
    action = runs(ids(BRIDGE)["set_port"], b"\2")
    entry = p4.TableEntry(table_id=forward, match=[exact(1, b"\xb3")], action=action)
    primary.insert(entry)
    primary.set_pipeline(None, Action.COMMIT)
    assert primary.read(p4.TableEntry(table_id=forward)) == [entry]
    assert primary.refused(MODIFY, ENTRY) != FAILED_PRECONDITION
