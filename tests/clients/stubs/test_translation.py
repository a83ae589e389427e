"""Tests P4Runtime's "PSA Metadata Translation": for a controller some values are names."""

import pytest
from client import INSERT, Controller, controller, exact
from google.rpc.code_pb2 import OUT_OF_RANGE
from p4.v1 import p4runtime_pb2 as p4
from switch import ROOT, Switch

PROGRAM = ROOT / "crates/bin/switch/tests/programs/translated.p4"


def entry(primary: Controller, port: bytes, vrf: bytes) -> p4.TableEntry:
    """An entry of the program's only table, with ids from the P4Info in the switch."""
    p4info = primary.get_pipeline().p4info
    (table,) = p4info.tables
    (action,) = (found for found in p4info.actions if found.preamble.alias == "set_vrf")
    call = p4.Action(action_id=action.preamble.id, params=[{"param_id": 1, "value": vrf}])
    return p4.TableEntry(
        table_id=table.preamble.id,
        match=[exact(1, port)],
        action=p4.TableAction(action=call),
        priority=1,
    )


# spec: translation
@pytest.mark.program(PROGRAM)
def test_names_and_wide_numbers_are_read_as_they_were_written(switch: Switch) -> None:
    with controller(switch.grpc) as primary:
        written = entry(primary, b"Ethernet0", b"vrf-10")
        written.match.add(field_id=2, optional=p4.FieldMatch.Optional(value=b"\1\2"))
        primary.insert(written)
        assert primary.read(p4.TableEntry(table_id=written.table_id)) == [written]
        written.match[1].optional.value = b"\x02\x00"
        assert primary.refused(INSERT, written) == OUT_OF_RANGE
