"""Builds the hand-written peers, the load and the meter with the system's C compiler."""

import os
from collections.abc import Sequence
from pathlib import Path

from lab.process import REPOSITORY, run

SOURCES = REPOSITORY / "lab" / "peers"
BUILT = REPOSITORY / "target" / "peers"
OPTIONS = ["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror"]
BUILD_TIMEOUT_S = 120.0


def build() -> None:
    """Builds the programs that are older than their sources."""
    headers = list(SOURCES.glob("*.h"))
    for source in sorted(SOURCES.glob("*.c")):
        compiled(["cc", *OPTIONS], [source, *headers], source.stem)


def compiled(
    compiler: Sequence[str], sources: Sequence[Path], name: str, libraries: Sequence[str] = ()
) -> Path:
    """Compiles the first source unless the result is newer than all; returns the result's path."""
    BUILT.mkdir(parents=True, exist_ok=True)
    to = BUILT / name
    newest = max(file.stat().st_mtime for file in sources)
    if to.exists() and to.stat().st_mtime >= newest:
        return to
    # The file is renamed into place, so it is never incomplete, even if two processes build at
    # once.
    partial = to.with_suffix(f".{os.getpid()}")
    argv = [*compiler, "-o", str(partial), str(sources[0]), *libraries]
    run(argv, timeout_s=BUILD_TIMEOUT_S)
    return partial.rename(to)


def program(name: str) -> Path:
    return BUILT / name
