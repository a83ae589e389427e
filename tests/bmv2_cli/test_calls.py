"""Calls the Thrift services with BMv2's generated client, without BMv2's command line."""

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from bm_runtime.simple_pre_lag import SimplePreLAG
from bm_runtime.standard import Standard
from bm_runtime.standard.ttypes import (
    BmAddEntryOptions,
    BmMatchParam,
    BmMatchParamExact,
    BmMatchParamType,
    InvalidTableOperation,
    TableOperationErrorCode,
)
from conftest import Switch
from sswitch_runtime import SimpleSwitch
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

SERVICES = {"standard": Standard, "simple_pre_lag": SimplePreLAG, "simple_switch": SimpleSwitch}
FORWARD = "EntitiesIngress.forward"


@contextmanager
def connected(switch: Switch) -> Iterator[TBinaryProtocol]:
    """A connection over which all services can be called."""
    transport = TBufferedTransport(TSocket(switch.ip, switch.port))
    transport.open()
    try:
        yield TBinaryProtocol(transport)
    finally:
        transport.close()


def client(protocol: TBinaryProtocol, service: str) -> object:
    return SERVICES[service].Client(TMultiplexedProtocol(protocol, service))


def exact(last: int) -> BmMatchParam:
    key = BmMatchParamExact(bytes([0, 0, 0, 0, 0, last]))
    return BmMatchParam(type=BmMatchParamType.EXACT, exact=key)


@pytest.mark.parametrize("service", SERVICES)
def test_every_call_of_the_client_is_known(switch: Switch, service: str) -> None:
    calls = inspect.getmembers(SERVICES[service].Iface, inspect.isfunction)
    unknown = []
    with connected(switch) as protocol:
        for name, function in calls:
            n_arguments = len(inspect.signature(function).parameters) - 1
            try:
                getattr(client(protocol, service), name)(*[None] * n_arguments)
            except TException as refused:
                if getattr(refused, "type", None) == TApplicationException.UNKNOWN_METHOD:
                    unknown.append(name)
    assert len(calls) > 5
    assert unknown == []


def test_entries_are_written_and_read_as_by_scripts(switch: Switch) -> None:
    with connected(switch) as protocol:
        standard = client(protocol, "standard")
        for last in range(20):
            handle = standard.bm_mt_add_entry(
                0,
                FORWARD,
                [exact(last)],
                "EntitiesIngress.forward_to",
                [b"\x00\x01"],
                BmAddEntryOptions(priority=0),
            )
            assert handle == last
        with pytest.raises(InvalidTableOperation) as refused:
            standard.bm_mt_delete_entry(0, FORWARD, 20)
        assert refused.value.code == TableOperationErrorCode.INVALID_HANDLE
        entries = standard.bm_mt_get_entries(0, FORWARD)
        assert [entry.entry_handle for entry in entries] == list(range(20))
        assert entries[7].match_key[0].exact.key == bytes([0, 0, 0, 0, 0, 7])
        assert entries[7].action_entry.action_data == [b"\x01"]
        assert entries[7].life is None


def test_groups_are_written_and_read_as_by_scripts(switch: Switch) -> None:
    with connected(switch) as protocol:
        multicast = client(protocol, "simple_pre_lag")
        multicast.bm_mc_mgrp_create(0, 1)
        node = multicast.bm_mc_node_create(0, 3, "1110", "")
        multicast.bm_mc_node_associate(0, 1, node)
        entries = json.loads(multicast.bm_mc_get_entries(0))
        assert entries["l2_handles"] == [{"handle": 0, "ports": [1, 2, 3], "lags": []}]
