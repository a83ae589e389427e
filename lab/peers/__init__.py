"""The hand-written peers, the load and the meter, built by the system's C compiler."""

import os
from pathlib import Path

from lab.process import REPOSITORY, run

SOURCES = REPOSITORY / "lab" / "peers"
BUILT = REPOSITORY / "target" / "peers"
OPTIONS = ["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror"]
BUILD_TIMEOUT_S = 120.0


def build() -> None:
    """Builds the programs that are older than their sources."""
    BUILT.mkdir(parents=True, exist_ok=True)
    headers = list(SOURCES.glob("*.h"))
    for source in sorted(SOURCES.glob("*.c")):
        program = BUILT / source.stem
        newest = max(file.stat().st_mtime for file in [source, *headers])
        if not program.exists() or program.stat().st_mtime < newest:
            # Whole or not at all, also where two build at once.
            partial = program.with_suffix(f".{os.getpid()}")
            argv = ["cc", *OPTIONS, "-o", str(partial), str(source)]
            run(argv, timeout_s=BUILD_TIMEOUT_S)
            partial.rename(program)


def program(name: str) -> Path:
    """The path of a built peer."""
    return BUILT / name
