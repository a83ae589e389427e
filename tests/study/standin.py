"""A study with the lab's stand-in for the switch; `python -m tests.study.standin FOLDER`."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from lab.netns import SFU_INTERFACE
from lab.process import Child, interrupt_on_termination
from lab.study.bench import Bench, Station
from lab.study.definitions import Series, Sfu, Study
from lab.study.folder import Folder
from lab.study.run import Settings, run_missing

STUDY = Study("small", "for tests", (Series(Sfu.P4_RECIRCULATION, 4.0, (1, 3)),))


class StandIn:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._child: Child | None = None

    def __enter__(self) -> "StandIn":
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.stop()

    def serve(self, viewers: Sequence[Station]) -> None:
        self.__exit__()
        argv = [sys.executable, "-m", "tests.lab.replicator", SFU_INTERFACE]
        argv += [str(station.number) for station in viewers]
        self._child = self._bench.star.sfu.start(argv, self._bench.logs / "standin.log")
        self._child.wait_for_line("ready:", 10.0)

    @property
    def process(self) -> Child:
        assert self._child is not None
        return self._child


def settings(n_hosts: int = 20) -> Settings:
    return Settings(n_hosts=n_hosts, sfu_on=lambda bench, _: StandIn(bench))


def main() -> None:
    interrupt_on_termination()
    path = Path(sys.argv[1])
    if (path / "study.json").exists():
        folder = Folder.open(path)
    else:
        folder = Folder.create(path.parent, STUDY, datetime.now(UTC))
        folder.path.rename(path)
        folder = Folder.open(path)
    run_missing(
        folder,
        folder.add_session({"test": "yes"}),
        lambda line: print(line, flush=True),
        settings(),
    )


if __name__ == "__main__":
    main()
