"""Counts the complexity of this repository's own source files as PISCES does. No I/O.

The paper compares 341 lines of P4 with 14,535 lines of Open vSwitch's C that define packet formats
and the possible matches and changes. The hand-written peer here is lab/peers/pktswitch.c, an SFU
without P4. Blank lines and comments are not counted. A change for a new header is a diff, which a
test applies, compiles and tries with packets. The lines that the diff adds or changes are counted.
"""

import posixpath
import re
from collections.abc import Callable

from lab.results.benchmarks import Change, Counted

PROGRAMS = (
    "p4/bench/l2.p4",
    "p4/bench/l2l3.p4",
    "p4/bench/l2l3_acl.p4",
    "p4/sfu.p4",
    "p4/sfu_recirculation.p4",
)
PEER = "lab/peers/pktswitch.c"
CHANGES = {
    "connection label": "p4/bench/changes/connection_label.diff",
    "TCP flags": "p4/bench/changes/tcp_flags.diff",
    "tunnel OAM flag": "p4/bench/changes/tunnel_oam.diff",
}
PUBLISHED_P4_LINES, PUBLISHED_OVS_LINES = 341, 14_535
"""Both numbers are from the slides "Road to Protocol Independence", which do not count the lines of
single changes."""

Read = Callable[[str], str]
"""Reads a file of the repository by its path from the root."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
_STATE = re.compile(r"^\s*state \w+", re.MULTILINE)
_ACTION = re.compile(r"^\s*(?:@\w+(?:\([^)]*\))?\s*)*action \w+", re.MULTILINE)
_TABLE = re.compile(r"^\s*table \w+", re.MULTILINE)
_BLOCK = re.compile(r"^(?:parser|control) \w+", re.MULTILINE)
_P4_FUNCTION = re.compile(r"^(?:bit<\d+>|bool|void) \w+\(", re.MULTILINE)
_C_FUNCTION = re.compile(r"^(?!struct \w+ \{|typedef)[a-z][\w \*]*\([^;{}]*\)\s*\{", re.MULTILINE)


def code_lines(text: str) -> list[str]:
    """The lines that have something besides comments."""
    return [line for line in _COMMENT.sub("", text).splitlines() if line.strip()]


def files_of(program: str, read: Read) -> dict[str, str]:
    """The text of a program and of the repository's files that it includes, each once, by path."""
    found: dict[str, str] = {}
    to_read = [program]
    while to_read:
        path = to_read.pop()
        if path in found:
            continue
        found[path] = read(path)
        folder = posixpath.dirname(path)
        to_read += [
            posixpath.normpath(posixpath.join(folder, name))
            for name in _INCLUDE.findall(found[path])
        ]
    return found


def count_p4(program: str, read: Read) -> Counted:
    files = files_of(program, read)
    text = "\n".join(_COMMENT.sub("", one) for one in files.values())

    def number_of(*patterns: re.Pattern[str]) -> int:
        return sum(len(pattern.findall(text)) for pattern in patterns)

    return Counted(
        name=program,
        files=len(files),
        lines=len(code_lines(text)),
        functions=number_of(_ACTION, _P4_FUNCTION),
        tables=number_of(_TABLE),
        states=number_of(_STATE),
        blocks=number_of(_BLOCK),
    )


def count_c(program: str, read: Read) -> Counted:
    files = files_of(program, read)
    text = "\n".join(_COMMENT.sub("", one) for one in files.values())
    functions = len(_C_FUNCTION.findall(text))
    return Counted(program, len(files), len(code_lines(text)), functions, 0, 0, 0)


def counted(read: Read) -> list[Counted]:
    return [*(count_p4(program, read) for program in PROGRAMS), count_c(PEER, read)]


def changes(read: Read) -> list[Change]:
    return [_change(name, read(path)) for name, path in CHANGES.items()]


def _change(name: str, diff: str) -> Change:
    files = [line for line in diff.splitlines() if line.startswith("+++ ")]
    new = [line[1:] for line in diff.splitlines() if line.startswith("+") and line not in files]
    return Change(name, len(files), len(code_lines("\n".join(new))))
