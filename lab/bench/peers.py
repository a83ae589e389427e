"""The hand-written peers and the load (lab/peers), built by the system's C compiler."""

from pathlib import Path

from lab.process import REPOSITORY, run

SOURCES = REPOSITORY / "lab" / "peers"
BUILT = REPOSITORY / "target" / "peers"
OPTIONS = ["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror"]
BUILD_TIMEOUT_S = 120.0


def build() -> None:
    """Builds what is older than its sources."""
    BUILT.mkdir(parents=True, exist_ok=True)
    headers = list(SOURCES.glob("*.h"))
    for source in sorted(SOURCES.glob("*.c")):
        program = BUILT / source.stem
        newest = max(file.stat().st_mtime for file in [source, *headers])
        if not program.exists() or program.stat().st_mtime < newest:
            argv = ["cc", *OPTIONS, "-o", str(program), str(source)]
            run(argv, timeout_s=BUILD_TIMEOUT_S)


def program(name: str) -> Path:
    """The path of a built peer."""
    return BUILT / name
