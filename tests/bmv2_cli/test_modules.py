"""Reprise's versions of BMv2's Python modules (`make compat`) work without Apache Thrift."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bm_runtime.simple_pre import SimplePre
from bm_runtime.simple_pre_lag import SimplePreLAG
from bm_runtime.standard import Standard
from bm_runtime.standard import ttypes as standard_types
from conftest import OURS, PATIENCE_S, ROOT, Switch
from sswitch_runtime import SimpleSwitch
from sswitch_runtime import ttypes as switch_types

MODULES = ROOT / "python/bmv2"
FORWARD = "EntitiesIngress.forward"


def python(code: str, folder: Path, *words: str) -> str:
    """Runs a script with our modules and only Python's own packages; returns its output."""
    return run("-c", code, *words, folder=folder)


def run(*words: str, folder: Path, lines: str = "") -> str:
    path = os.pathsep.join([str(OURS.parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-S", *words],
        input=lines,
        cwd=folder,
        env={"PYTHONPATH": str(MODULES), "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CALLS = """
import inspect, json
from bm_runtime.standard import Standard, ttypes
from bm_runtime.simple_pre import SimplePre
from bm_runtime.simple_pre_lag import SimplePreLAG
from sswitch_runtime import SimpleSwitch, ttypes as of_switch
services = {"Standard": Standard, "SimplePre": SimplePre, "SimplePreLAG": SimplePreLAG,
            "SimpleSwitch": SimpleSwitch}
def words(call):
    inside = call.__doc__.partition("(")[2].rstrip(")")
    return [word.split(":")[0] for word in inside.split(", ") if word]
calls = {name: {call: words(it) for call, it in vars(service.Client).items() if call[:2] != "__"}
         for name, service in services.items()}
types = {name: [field for field, _ in it.FIELDS] if hasattr(it, "FIELDS") else it._NAMES_TO_VALUES
         for module in (ttypes, of_switch) for name, it in module.TYPES.items()}
print(json.dumps([calls, types]))
"""


EXCEPTION = """
from bm_runtime.standard.ttypes import InvalidTableOperation
print(InvalidTableOperation(1))
"""


def test_an_exception_as_text_says_what_it_has(tmp_path: Path) -> None:
    expected = str(standard_types.InvalidTableOperation(1))
    assert python(EXCEPTION, tmp_path) == f"{expected}\n"
    assert "code=1" in expected


def test_every_call_and_structure_is_that_of_thrifts_compiler(tmp_path: Path) -> None:
    ours_calls, ours_types = json.loads(python(CALLS, tmp_path))
    for service in (Standard, SimplePre, SimplePreLAG, SimpleSwitch):
        theirs = {
            name: list(inspect.signature(call).parameters)[1:]
            for name, call in inspect.getmembers(service.Iface, inspect.isfunction)
        }
        ours = ours_calls[service.__name__.rpartition(".")[2]]
        # The released client lacks some calls of BMv2's interface, because it is older.
        assert {name: ours[name] for name in theirs} == theirs
    for module in (standard_types, switch_types):
        for name, found in inspect.getmembers(module, inspect.isclass):
            if hasattr(found, "thrift_spec"):
                fields = [spec[2] for spec in found.thrift_spec if spec]
                assert ours_types[name] == fields, name
            elif hasattr(found, "_NAMES_TO_VALUES"):
                assert found._NAMES_TO_VALUES.items() <= ours_types[name].items(), name


# The beginning of p4-utils' ThriftAPI, then calls that it and other scripts make.
WRITES_AND_READS = f"""
import sys
import bmpy_utils as utils
from bm_runtime.standard import Standard
from bm_runtime.standard.ttypes import *
from bm_runtime.simple_pre_lag import SimplePreLAG
from sswitch_runtime import SimpleSwitch
from sswitch_runtime.ttypes import *

assert "thrift" not in sys.modules
services = [("standard", Standard.Client), ("simple_pre_lag", SimplePreLAG.Client),
            (None, None), ("simple_switch", SimpleSwitch.Client)]
standard, multicast, nothing, switch = utils.thrift_connect(sys.argv[1], int(sys.argv[2]), services)
assert nothing is None
program = utils.get_json_config(standard)
open("program.json", "w").write(program)
utils.check_JSON_md5(standard, "program.json")

exact = BmMatchParamExact(bytes([0, 0, 0, 0, 0, 7]))
key = [BmMatchParam(type=BmMatchParamType.EXACT, exact=exact)]
handle = standard.bm_mt_add_entry(0, "{FORWARD}", key, "EntitiesIngress.forward_to",
                                  [bytes([0, 2])], BmAddEntryOptions(priority=0))
entry = standard.bm_mt_get_entry(0, "{FORWARD}", handle)
assert entry.match_key == key and entry.entry_handle == handle
assert entry.action_entry.action_type == BmActionEntryType.ACTION_DATA
assert (entry.action_entry.action_name, entry.action_entry.action_data) == (
    "EntitiesIngress.forward_to", [bytes([2])])
(only,) = standard.bm_mt_get_entries(0, table_name="{FORWARD}")
assert only.match_key == key
assert standard.bm_mt_get_num_entries(0, "{FORWARD}") == 1
try:
    standard.bm_mt_delete_entry(0, "{FORWARD}", handle + 1)
except InvalidTableOperation as error:
    print(TableOperationErrorCode._VALUES_TO_NAMES[error.code])
standard.bm_register_write_range(0, "EntitiesIngress.last", 0, 4, 9)
assert standard.bm_register_read_all(0, "EntitiesIngress.last")[:5] == [9, 9, 9, 9, 0]
rates = [BmMeterRateConfig(0.5, 10), BmMeterRateConfig(1.5, burst_size=20)]
standard.bm_meter_set_rates(0, "EntitiesIngress.port_rate", 1, rates)
assert standard.bm_meter_get_rates(0, "EntitiesIngress.port_rate", 1) == rates
node = multicast.bm_mc_node_create(0, 3, "110", "")
multicast.bm_mc_node_associate(0, multicast.bm_mc_mgrp_create(0, 5), node)
assert '"rid"' in multicast.bm_mc_get_entries(0)
switch.mirroring_session_add(4, MirroringSessionConfig(port=1))
assert switch.mirroring_session_get(4) == MirroringSessionConfig(port=1)
try:
    switch.mirroring_session_get(5)
except InvalidMirroringOperation as error:
    print(error.code == MirroringOperationErrorCode.SESSION_NOT_FOUND)
info = standard.bm_mgmt_get_info()
assert info.thrift_port == int(sys.argv[2])
assert [port.port_num for port in standard.bm_dev_mgr_show_ports()] == [1]
"""


def test_a_script_that_imports_bmpy_utils_writes_and_reads(switch: Switch, tmp_path: Path) -> None:
    printed = python(WRITES_AND_READS, tmp_path, switch.ip, str(switch.port))
    assert printed == "Obtaining JSON from switch...\nDone\nINVALID_HANDLE\nTrue\n"


def test_nobody_who_listens_ends_the_script_with_bmv2s_words(tmp_path: Path) -> None:
    code = (
        "import bmpy_utils\ntry: bmpy_utils.thrift_connect_standard('127.0.0.1', 1)\n"
        "except SystemExit as end: print(end.code)"
    )
    printed = python(code, tmp_path)
    assert printed.startswith("Could not connect to thrift client on port 1\n")
    assert printed.endswith("\n1\n")


COMMANDS = """
import sys
import runtime_CLI
from sswitch_CLI import SimpleSwitchAPI

services = runtime_CLI.RuntimeAPI.get_thrift_services(runtime_CLI.PreType.SimplePreLAG)
services += SimpleSwitchAPI.get_thrift_services()
clients = runtime_CLI.thrift_connect(sys.argv[1], int(sys.argv[2]), services)
assert runtime_CLI.load_json_config(clients[0])["pipelines"]
api = SimpleSwitchAPI(runtime_CLI.PreType.SimplePreLAG, *clients)
api.do_table_add("forward forward_to 00:00:00:00:00:07 => 2")
api.onecmd("table_num_entries forward")
api.do_mirroring_add("4 1")
api.do_table_delete("forward 77")
assert runtime_CLI.parse_param("10.0.0.1", 32) == [10, 0, 0, 1]
"""


@pytest.mark.parametrize("module", ["runtime_CLI", "sswitch_CLI"])
def test_commands_of_the_modules_are_those_of_the_command_line(
    switch: Switch, tmp_path: Path, module: str
) -> None:
    printed = python(COMMANDS, tmp_path, switch.ip, str(switch.port))
    assert "Entry has been added with handle 0" in printed
    assert "\n1\n" in printed
    assert "Invalid table operation (INVALID_HANDLE)" in printed
    assert "RuntimeCmd" not in printed
    # The module can also be run as a program.
    words = [str(MODULES / f"{module}.py"), "--thrift-port", str(switch.port)]
    assert "RuntimeCmd: 1\n" in run(*words, folder=tmp_path, lines="table_num_entries forward\n")
