"""The folder of a benchmark.

session.json     command, commit, machine, versions, what could not be measured
fanout.csv ...   a file for each experiment
raw/             samples; left out where a folder is kept
figures/, report.html    derived, made again by `python -m lab.bench.derive DIR`
"""

import json
from collections.abc import Sequence
from pathlib import Path

from lab.bench.results import FILES, Results, results_of
from lab.files import write_whole
from lab.process import REPOSITORY
from lab.study.machine import session, version_of

SESSION = "session.json"
NOT_MEASURED = "not_measured"


class FolderError(RuntimeError):
    """The folder is none of a benchmark."""


def write_session(folder: Path, facts: dict[str, str], not_measured: Sequence[str]) -> None:
    """What was measured on, and what could not be measured so far."""
    content = {**facts, NOT_MEASURED: list(not_measured)}
    write_whole(folder / SESSION, json.dumps(content, indent=1) + "\n")


def not_measured_before(folder: Path) -> list[str]:
    """What a folder that is gone on with says could not be measured."""
    file = folder / SESSION
    return list(json.loads(file.read_text())[NOT_MEASURED]) if file.exists() else []


def facts_of(command: Sequence[str]) -> dict[str, str]:
    """Command, commit, machine and versions."""
    found = session(command, "none: one veth pair")
    found["open vswitch"] = version_of(["ovs-vswitchd", "--version"])
    found["C compiler"] = version_of(["cc", "--version"])
    return found


def read(folder: Path) -> Results:
    """All rows of a folder."""
    try:
        facts = json.loads((folder / SESSION).read_text())
    except FileNotFoundError:
        raise FolderError(f"{folder} is no folder of a benchmark: no {SESSION}") from None
    not_measured = tuple(facts.pop(NOT_MEASURED))
    files = {name: (folder / name).read_text() for name in FILES if (folder / name).exists()}
    return results_of(files, facts, not_measured)


def kept_folder() -> Path | None:
    """The run that is kept in the repository, the newest if there are several."""
    found = sorted((REPOSITORY / "studies").glob(f"bench-*/{SESSION}"))
    return found[-1].parent if found else None
