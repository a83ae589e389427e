"""Every command of BMv2's command line, against the switch."""

import json
import os
import re
from pathlib import Path

import bm_cli
from conftest import Switch

HERE = Path(__file__).parent
COMMANDS = (HERE / "commands.txt").read_text()
EXPECTED = HERE / "expected.txt"

# Times and what the test's switch was given by the kernel.
CHANGING = [
    (re.compile(r"(RuntimeCmd: )[0-9]{4,}$", re.MULTILINE), r"\1<microseconds>"),
    (re.compile(r"^(thrift_port +: )[0-9]+$", re.MULTILINE), r"\1<port>"),
    (re.compile(r"udp:127\.0\.0\.1:[0-9]+"), "udp:127.0.0.1:<port>"),
    (re.compile(r"^Life: [0-9]+ms since hit", re.MULTILINE), "Life: <time>ms since hit"),
]


def names_of_calculations(folder: Path, switch: Switch) -> tuple[str, str]:
    """The custom CRCs of 16 and 32 bits, as the compiler calls them."""
    switch.cli("write_config_to_file named.json\n", folder)
    program = json.loads((folder / "named.json").read_text())
    names = {it["algo"]: it["name"] for it in program["calculations"]}
    return names["crc16_custom"], names["crc32_custom"]


def test_every_command_has_the_effect_that_is_written_down(switch: Switch, tmp_path: Path) -> None:
    narrow, wide = names_of_calculations(tmp_path, switch)
    commands = re.sub(r"\bcalc_0\b", wide, COMMANDS)
    commands = re.sub(r"\bcalc\b", narrow, commands)
    found = switch.cli(commands, tmp_path)
    found = found.replace(wide, "calc_0").replace(narrow, "calc")
    for pattern, instead in CHANGING:
        found = pattern.sub(instead, found)
    if os.environ.get("UPDATE_EXPECT") == "1":
        EXPECTED.write_text(found)
    assert found == EXPECTED.read_text()
    state = json.loads((tmp_path / "state.json").read_text())
    assert len(state["tables"]["EntitiesIngress.routes"]["entries"]) == 3


def test_no_command_is_left_out() -> None:
    used = {line.split()[0] for line in COMMANDS.splitlines()}
    sources = (Path(bm_cli.__path__[0]) / name for name in ("runtime_CLI.py", "sswitch_CLI.py"))
    known = {name for it in sources for name in re.findall(r"def do_(\w+)", it.read_text())}
    # The end of the input is a command too.
    assert known - {"EOF"} <= used
    assert len(known) > 80


def test_a_command_file_of_3000_lines_is_taken_whole(switch: Switch, tmp_path: Path) -> None:
    pair = "register_write wide 1 {}\nregister_read wide 1\n"
    lines = "".join(pair.format(number) for number in range(1_500))
    found = re.findall(r"wide\[1\]= ([0-9]+)", switch.cli(lines, tmp_path))
    assert found == [str(number) for number in range(1_500)]
