"""Timeouts that only guard against hangs are long enough even for a machine under load."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import REPOSITORY

LEAST_S = 120.0
"""The shortest timeout that is allowed.

A program that takes one second took twenty seconds beside four busy loops.
"""
IN_PYTHON = (
    re.compile(r"^\s*(\w*(?:TIMEOUT|PATIENCE|LIMIT)\w*_S) *(?::[^=]*)?= *([0-9.]+)$", re.M),
    re.compile(r"(wait_for_line)\([^()]*, *([0-9.]+)\)"),
    re.compile(r"\b(timeout(?:_s)?)(?:: float = |=)([0-9.]+)\b(?! *\*)"),
)
IN_RUST = (
    re.compile(r"const (\w*(?:PATIENCE|TIMEOUT)): Duration = Duration::from_secs\(([0-9]+)\)"),
    re.compile(r"\b(timeout)\((?:std::time::)?Duration::from_secs\(([0-9]+)\)"),
    re.compile(r"(elapsed\(\)) < Duration::from_secs\(([0-9]+)\)"),
    re.compile(r"(Instant::now\(\)) \+ (?:std::time::)?Duration::from_secs\(([0-9]+)\)"),
)
NO_GUARDS = {
    "tests/clients/ptf/run.py: NEGATIVE_TIMEOUT_S": "no packet is to come: that is waited for",
    "lab/process.py: TERMINATION_TIMEOUT_S": "then the process is killed",
    "lab/rows/rtpengine.py: REPLY_TIMEOUT_S": "then the request is repeated",
    "tests/e2e/aom_members.py: JOIN_TIMEOUT_S": "then the member joins again",
    "examples/aom-counter/client.py: PATIENCE_S": "then the request is repeated",
    "crates/sfu/conference-store/tests/etcd.rs: timeout": "nobody else is to lead meanwhile",
    "crates/sfu/conference-service/tests/standby.rs: timeout": "nobody else is to lead meanwhile",
}
"""Timeouts that may be shorter, as their end is no failure, each with what happens then."""


def limits(text: str, patterns: tuple[re.Pattern[str], ...]) -> Iterator[tuple[str, float]]:
    for pattern in patterns:
        for name, value in pattern.findall(text):
            yield name, float(value)


def sources() -> Iterator[tuple[Path, tuple[re.Pattern[str], ...]]]:
    for folder in ("lab", "tests", "examples"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            if path != Path(__file__):
                yield path, IN_PYTHON
    for path in sorted((REPOSITORY / "crates").rglob("*.rs")):
        if "tests" in path.parts or path.name == "tests.rs":
            yield path, IN_RUST


def test_no_guard_against_hangs_is_shorter_than_two_minutes() -> None:
    short = [
        f"{where}, {value:g} s"
        for path, patterns in sources()
        for name, value in limits(path.read_text(), patterns)
        if (where := f"{path.relative_to(REPOSITORY)}: {name}") not in NO_GUARDS and value < LEAST_S
    ]
    assert short == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PATIENCE_S = 20.0\n", ("PATIENCE_S", 20.0)),
        ('child.wait_for_line("ready:", 10.0)', ("wait_for_line", 10.0)),
        ("run(argv, timeout_s=5)", ("timeout_s", 5.0)),
    ],
)
def test_a_limit_is_found_in_each_form(text: str, found: tuple[str, float]) -> None:
    assert [*limits(text, IN_PYTHON)] == [found]
