"""Every command of BMv2's command line works with the switch, from BMv2's program and from ours."""

import json
import os
import re
from pathlib import Path

import bm_cli
import pytest
from conftest import CLIENTS, Switch, running

HERE = Path(__file__).parent
COMMANDS = (HERE / "commands.txt").read_text()
EXPECTED = HERE / "expected.txt"

# Output that differs from run to run: times, and ports that the kernel chose.
CHANGING = [
    (re.compile(r"(RuntimeCmd: )[0-9]{4,}$", re.MULTILINE), r"\1<microseconds>"),
    (re.compile(r"^(thrift_port +: )[0-9]+$", re.MULTILINE), r"\1<port>"),
    (re.compile(r"udp:127\.0\.0\.1:[0-9]+"), "udp:127.0.0.1:<port>"),
    (re.compile(r"^Life: [0-9]+ms since hit", re.MULTILINE), "Life: <time>ms since hit"),
]

# BMv2's command line shows the last node's ports as the ports of every LAG.
LAG_PORTS = {"bmv2": "lag(3) -> ports=[4, 5]", "ours": "lag(3) -> ports=[5, 6]"}

every_client = pytest.mark.parametrize("client", CLIENTS)


def names_of_calculations(folder: Path, switch: Switch) -> tuple[str, str]:
    """The names that the compiler gave to the custom CRCs of 16 and of 32 bits."""
    switch.cli("ours", "write_config_to_file named.json\n", folder)
    program = json.loads((folder / "named.json").read_text())
    names = {it["algo"]: it["name"] for it in program["calculations"]}
    return names["crc16_custom"], names["crc32_custom"]


def every_command(client: str, folder: Path, switch: Switch) -> str:
    """Runs the script that has every command; returns what the command line prints."""
    narrow, wide = names_of_calculations(folder, switch)
    commands = re.sub(r"\bcalc_0\b", wide, COMMANDS)
    commands = re.sub(r"\bcalc\b", narrow, commands)
    found = switch.cli(client, commands, folder).stdout
    return found.replace(wide, "calc_0").replace(narrow, "calc")


@every_client
def test_every_command_has_the_effect_that_is_written_down(
    switch: Switch, tmp_path: Path, client: str
) -> None:
    found = every_command(client, tmp_path, switch)
    for pattern, instead in CHANGING:
        found = pattern.sub(instead, found)
    assert found.count(LAG_PORTS[client]) == 2
    found = found.replace(LAG_PORTS[client], LAG_PORTS["bmv2"])
    if os.environ.get("UPDATE_EXPECT") == "1":
        EXPECTED.write_text(found)
    assert found == EXPECTED.read_text()


def test_both_leave_the_same_state(tmp_path: Path) -> None:
    folders = {client: tmp_path / client for client in CLIENTS}
    for client, folder in folders.items():
        folder.mkdir()
        with running() as switch:
            every_command(client, folder, switch)
    # The script writes state.json after all commands except those that exchange programs.
    texts = [(folder / "state.json").read_text() for folder in folders.values()]
    states = [json.loads(text) for text in texts]
    assert len(states[0]["tables"]["EntitiesIngress.routes"]["entries"]) == 3
    assert states[0] == states[1]
    programs = [(folder / "program.json").read_text() for folder in folders.values()]
    assert programs[0] == programs[1]


def test_no_command_is_left_out() -> None:
    used = {line.split()[0] for line in COMMANDS.splitlines()}
    sources = (Path(bm_cli.__path__[0]) / name for name in ("runtime_CLI.py", "sswitch_CLI.py"))
    known = {name for it in sources for name in re.findall(r"def do_(\w+)", it.read_text())}
    # EOF, the end of the input, is a command, too.
    assert known - {"EOF"} <= used
    assert len(known) > 80


def test_ours_lists_the_commands_that_bmv2s_lists(switch: Switch, tmp_path: Path) -> None:
    theirs, ours = (switch.cli(client, "help\n", tmp_path).stdout for client in ("bmv2", "ours"))
    assert "table_add" in ours
    strip = re.compile(r" +$", re.MULTILINE)
    assert strip.sub("", ours) == strip.sub("", theirs)


@every_client
def test_a_command_file_of_3000_lines_is_taken_whole(
    switch: Switch, tmp_path: Path, client: str
) -> None:
    pair = "register_write wide 1 {}\nregister_read wide 1\n"
    lines = "".join(pair.format(number) for number in range(1_500))
    found = re.findall(r"wide\[1\]= ([0-9]+)", switch.cli(client, lines, tmp_path).stdout)
    assert found == [str(number) for number in range(1_500)]


# Wrong commands after which BMv2's command line continues. Others end it with a traceback.
WRONG = """\
# a comment

nothing
table_add
table_add nothing forward_to 1 => 1
table_add forward nothing 1 => 1
table_add forward forward_to => 1
table_add forward forward_to 1 =>
table_add forward forward_to 00:00:00:00:01 => 1
table_add forward forward_to 00:00:00:00:00:01 => port
table_add routes drop 10.0.0.0 =>
table_add routes drop 10.0.0/8 =>
table_add routes drop 4294967296/8 =>
table_add acl drop 0&&&0 0->255 1 => high
table_add acl drop 0 0->255 1 => 1
table_add acl drop 0&&&0 0 1 => 1
table_delete forward first
table_delete forward
table_dump nothing
table_modify forward nothing 0 1
table_set_timeout routes 0 1
table_indirect_add forward 1 => 0
table_indirect_add groups 1 0
table_indirect_create_group profiles
act_prof_create_group tunnels
act_prof_create_member ecmp nothing
act_prof_delete_member ecmp first
counter_read port_packets one
register_read last one
register_write last 0 one
meter_set_rates port_rate 0 1:1
meter_set_rates port_rate 0 1:1 1
mc_mgrp_create one
mc_node_create one 1
mc_node_create 1 1 1
mc_node_create 1 -1
mirroring_add one 1
set_queue_depth many
load_new_config_file nowhere.json
set_crc16_parameters nothing 1 1 1 true false
show_tables now
help nothing
"""


def test_what_is_typed_wrong_is_told_as_by_bmv2s_and_with_its_line(
    switch: Switch, tmp_path: Path
) -> None:
    theirs, ours = (switch.cli(client, WRONG, tmp_path) for client in ("bmv2", "ours"))
    assert ours.stdout == theirs.stdout
    assert re.search(r"^simple_switch_CLI: line 5: table_add nothing .*: ", ours.stderr, re.M)
    told = ours.stderr.count("simple_switch_CLI: line ")
    refused = [line for line in ours.stdout.splitlines() if "Error: " in line or "Invalid " in line]
    assert told >= len(refused)


def test_the_reason_of_a_refusal_is_told_beside_its_code(switch: Switch, tmp_path: Path) -> None:
    ended = switch.cli("ours", "table_delete forward 7\n", tmp_path)
    assert "Invalid table operation (INVALID_HANDLE)\n" in ended.stdout
    reason = r"line 1: .*\(INVALID_HANDLE\): table \"EntitiesIngress.forward\": "
    assert re.search(reason, ended.stderr)


def test_the_program_is_taken_from_a_file_and_compared(switch: Switch, tmp_path: Path) -> None:
    switch.cli("ours", "write_config_to_file program.json\n", tmp_path)
    CLIENTS["with json"] = [*CLIENTS["ours"], "--json", "program.json"]
    try:
        same = switch.cli("with json", "show_pvs\n", tmp_path).stdout
        program = tmp_path / "program.json"
        program.write_text(program.read_text() + " ")
        another = switch.cli("with json", "show_pvs\n", tmp_path).stdout
    finally:
        del CLIENTS["with json"]
    assert "Obtaining JSON" not in same
    assert "WARNING" not in same
    assert re.search(r"WARNING: .*\nswitch md5 +: [0-9a-f]{32}\nCLI input md5 +: ", another)
    assert "EntitiesParser.ip_types" in same
    assert "EntitiesParser.ip_types" in another
