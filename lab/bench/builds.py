"""Compares two builds of the programs: the forwarders of the two builds run alternately.

The result is what a change costs.

Both forwarders are started at once, each by a lab process of its own. They take turns: while one is
measured, the other is stopped by SIGSTOP (`lab.bench.turns` says why). Each set of turns starts new
processes, and the old build goes first in every other set. Two things are compared: how many copies
of packets a forwarder sends a second when more are offered than either build carries, and its
processor time per copy at a lower rate. The processor time says nothing about a forwarder that
spins, because it uses its processor all the time.
"""

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import peers
from lab.bench import load
from lab.bench.cells import each
from lab.bench.fanout import Meter
from lab.bench.forwarders import SFU_PROGRAMS, Forwarder, running
from lab.bench.search import Effort, Trial, drive, peak_search
from lab.netns import NamespaceError, require_namespaces
from lab.process import Child, ChildError, interrupt_on_termination
from lab.switch import MissingBuildError

TURN_S = 0.1
"""How long a rate is offered. The processor mostly keeps its speed for longer than this."""
BEYOND_WHAT_CAME = 1.2
BELOW = 0.4
"""The rate at which processor time is measured, as a share of what the slower build carries. At
this rate a forwarder that waits by sleeping finds time to sleep."""
ANSWER_TIMEOUT_S = 120.0
SET_S = 1.5
"""The approximate duration of one pair of runs, an old and a new build, at both rates."""


@dataclass(frozen=True, slots=True)
class Turn:
    copies_per_s: float
    cpu_ns_per_copy: float


@dataclass(frozen=True, slots=True)
class Set:
    """Ratios of the new build to the old build, and the values of both builds.

    All are medians over the pairs of runs.
    """

    copies_per_s: float
    cpu_per_copy: float
    old_copies_per_s: float
    new_copies_per_s: float
    old_cpu_ns_per_copy: float
    new_cpu_ns_per_copy: float


def serve(forwarder: Forwarder, n_viewers: int) -> None:
    """Runs one build's forwarder, in a process of its own, and serves requests from standard input.

    Each line is a rate to offer in copies a second; 0 asks for the most that the forwarder carries.
    """
    with running(forwarder, n_viewers) as (site, set_up), contextlib.ExitStack() as stack:
        # A process that SIGSTOP has stopped cannot end, so the forwarder gets SIGCONT before it is
        # ended.
        stack.callback(set_up.go_on)
        load.settle(site, n_viewers)
        set_up.stand()
        print("answer 0 {}", flush=True)
        for number, line in enumerate(sys.stdin, 1):
            set_up.go_on()
            meter = Meter(forwarder, site, set_up, n_viewers, [])
            offered = float(line)
            if offered:
                copies_per_s = meter.offer(Trial(offered, TURN_S, "turn")).copies_per_s
            else:
                effort = Effort(short_s=TURN_S)
                copies_per_s = drive(peak_search(effort), meter.offer)
            set_up.stand()
            probe = meter.probes[-1]
            turn = Turn(copies_per_s, 1e9 * (probe.cpu_s or 0.0) / max(1, probe.run.copies))
            print(f"answer {number} {json.dumps(asdict(turn))}", flush=True)


class Build:
    def __init__(self, programs: Path, forwarder: Forwarder, n_viewers: int, log: Path) -> None:
        argv = ["env", f"REPRISE_PROGRAMS={programs}", sys.executable, "-m", "lab.bench.builds"]
        argv += ["--serve", *(f"{name}={value}" for name, value in asdict(forwarder).items())]
        self._child = Child([*argv, f"viewers={n_viewers}"], log)
        self._n_told = 0

    def __enter__(self) -> "Build":
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close_stdin()
        self._child.wait(ANSWER_TIMEOUT_S)

    def turn(self, copies_per_s: float = 0.0) -> Turn:
        """Offers this rate for one run; 0 finds the highest rate that the forwarder carries."""
        self._child.tell(str(copies_per_s))
        self._n_told += 1
        return Turn(**self._answer())

    def _answer(self) -> dict[str, float]:
        prefix = f"answer {self._n_told} "
        line = self._child.wait_for_line(prefix, ANSWER_TIMEOUT_S)
        found: dict[str, float] = json.loads(line.removeprefix(prefix))
        return found


@contextlib.contextmanager
def _up(
    programs: tuple[Path, Path], forwarder: Forwarder, n_viewers: int, *, is_turned: bool
) -> Iterator[tuple[Build, Build]]:
    """Starts both builds, the new one first if `is_turned`. Yields the old one and the new one."""
    with (
        tempfile.TemporaryDirectory(prefix="reprise-builds-") as folder,
        contextlib.ExitStack() as on,
    ):
        named = list(zip(("old", "new"), programs, strict=True))
        builds = {
            name: on.enter_context(Build(build, forwarder, n_viewers, Path(folder) / f"{name}.log"))
            for name, build in (reversed(named) if is_turned else named)
        }
        yield builds["old"], builds["new"]


def measure(
    programs: tuple[Path, Path], forwarder: Forwarder, n_viewers: int, n_turns: int, number: int
) -> Set:
    is_turned = number % 2 == 1
    with _up(programs, forwarder, n_viewers, is_turned=is_turned) as builds:
        peaks = [build.turn().copies_per_s for build in builds]
        beyond, below = BEYOND_WHAT_CAME * max(peaks), BELOW * min(peaks)
        pairs: dict[float, list[list[Turn]]] = {beyond: [], below: []}
        for turn in range(n_turns):
            order = (1, 0) if is_turned != (turn % 2 == 1) else (0, 1)
            for rate, found in pairs.items():
                turns = {at: builds[at].turn(rate) for at in order}
                found.append([turns[0], turns[1]])
    copies = [[turn.copies_per_s for turn in pair] for pair in pairs[beyond]]
    cpu_ns = [[turn.cpu_ns_per_copy for turn in pair] for pair in pairs[below]]
    ratios = [_ratio(values) for values in (copies, cpu_ns)]
    medians = [
        statistics.median(values[at] for values in them)
        for them in (copies, cpu_ns)
        for at in (0, 1)
    ]
    return Set(*ratios, *medians)


def _ratio(pairs: list[list[float]]) -> float:
    """Returns the median of new / old, over the pairs in which both builds forwarded.

    A busy machine may give one build no processor for a whole run; such a pair is left out. The
    result is NaN if no pair is left.
    """
    ratios = [new / old for old, new in pairs if old and new]
    return statistics.median(ratios) if ratios else math.nan


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.builds",
        description=__doc__,
        epilog="A build's folder is what `make build` leaves in target/release, of another\n"
        "checkout for example. Five minutes; needs root. On a machine that does nothing else the\n"
        "median of eight sets is within some 1 % where the builds are the same.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="folder of the old build's programs")
    parser.add_argument("new", type=Path, metavar="NEW", help="of the new one's")
    parser.add_argument("--program", choices=SFU_PROGRAMS, default="p4_replication")
    parser.add_argument("--engine", choices=["native", "interpreter"], default="native")
    parser.add_argument("--port", choices=["afxdp", "afpacket", "udp"], default="afxdp")
    parser.add_argument("--wait", choices=["spin", "sleep"], default="spin")
    parser.add_argument("--viewers", type=int, default=64, help="64 unless given")
    parser.add_argument("--sets", type=int, default=8, help="8 unless given")
    parser.add_argument("--turns", type=int, default=12, help="pairs of turns in a set; 12")
    parser.add_argument("--json", action="store_true", help="the sets as a JSON document")
    said = parser.parse_args()
    if min(said.viewers, said.sets, said.turns) <= 0:
        parser.error("expected numbers above 0")
    for programs in (said.old, said.new):
        if not (programs / "reprise-switch").exists():
            parser.error(f"{programs / 'reprise-switch'} does not exist: `make build` builds it")
    return said


def _print(sets: list[Set]) -> None:
    print(f"{'set':>3} {'copies a second, old > new':>36} {'processor ns a copy':>28}")
    for number, one in enumerate(sets, 1):
        print(
            f"{number:>3} {one.old_copies_per_s:>12,.0f} > {one.new_copies_per_s:>12,.0f}"
            f" ({one.copies_per_s:.3f}) {one.old_cpu_ns_per_copy:>9,.0f} >"
            f" {one.new_cpu_ns_per_copy:>7,.0f} ({one.cpu_per_copy:.3f})"
        )
    copies = statistics.median(one.copies_per_s for one in sets)
    cpu = statistics.median(one.cpu_per_copy for one in sets)
    print(
        f"median of the sets' ratios: copies a second {copies:.3f}, processor time a copy {cpu:.3f}"
    )


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        given = dict(word.split("=", 1) for word in sys.argv[2:])
        n_viewers = int(given.pop("viewers"))
        serve(Forwarder(**given), n_viewers)
        return 0
    said = _parse()
    interrupt_on_termination()
    forwarder = Forwarder(said.program, said.engine, said.port, said.wait)
    programs = (said.old.resolve(), said.new.resolve())
    try:
        require_namespaces()
        peers.build()
        sets = [
            measure(programs, forwarder, said.viewers, said.turns, number)
            for number in each(range(said.sets), SET_S * said.turns, [], "set {}".format)
        ]
    except KeyboardInterrupt:
        print("\ninterrupted: nothing was measured whole", file=sys.stderr)
        return 130
    except (ChildError, MissingBuildError, NamespaceError) as error:
        print(f"lab.bench.builds: {error}", file=sys.stderr)
        return 1
    if said.json:
        print(json.dumps({"forwarder": asdict(forwarder), "sets": [asdict(one) for one in sets]}))
    else:
        _print(sets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
