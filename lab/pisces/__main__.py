"""The command line: `python -m lab.pisces [--quick] [--results DIR]`."""

import sys
from pathlib import Path

from lab.bench.experiment import Failures, command_line, run_alone
from lab.pisces import measure
from lab.study.progress import clock

EPILOG = """\
Takes {whole}, with --quick {quick}; needs the system's root, for it loads BPF programs, and Open
vSwitch. Writes pisces.csv (a row for each switch, program, port and frame size), pisces-sets.csv
(the same, set by set) and raw/pisces-probes.csv (every rate that was offered)."""


def _takes(*, is_quick: bool) -> str:
    return clock(sum(cell.planned_s for cell in measure.cells(is_quick=is_quick)))


def main() -> int:
    """Runs it; the exit code."""
    epilog = EPILOG.format(whole=_takes(is_quick=False), quick=_takes(is_quick=True))
    parser = command_line("lab.pisces", sys.modules["lab.pisces"].__doc__, epilog)
    parser.add_argument("--quick", action="store_true", help="64 bytes on AF_XDP, one set")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORDS", help="cells whose name holds all of these"
    )
    said = parser.parse_args()
    todo = [
        cell
        for cell in measure.cells(is_quick=said.quick)
        if all(word in str(cell) for word in said.only)
    ]
    if not todo:
        parser.error("--only: no cell has all of these in its name, such as 'l2, afxdp, 64 bytes'")

    def experiment(folder: Path) -> Failures:
        return measure.run(folder, todo)

    return run_alone("pisces", said.results, experiment)


if __name__ == "__main__":
    sys.exit(main())
