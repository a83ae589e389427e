"""`python -m lab.bench`: fan-out of the switch and its peers, in one run, into a folder."""

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each, label_of, run_alone
from lab.bench.fanout import FANOUTS, Row, measure, median_rows
from lab.bench.forwarders import PROGRAMS, Forwarder, bmv2_forwarders, has_open_vswitch
from lab.process import REPOSITORY, ChildError

VIEWERS_MAX = 4096
"""As in lab/peers/relay.c."""
CELL_S = 7.0
"""What one forwarder takes at one fan-out, about: only for the progress bar's first guess."""


def all_forwarders() -> list[Forwarder]:
    """Every row of the comparison, in the order of the tables."""
    rows = [
        Forwarder(name, engine, port, wait)
        for name in PROGRAMS
        for engine, port, wait in (
            ("interpreter", "afpacket", "spin"),
            ("native", "afpacket", "spin"),
            ("native", "afpacket", "sleep"),
            ("native", "afxdp", "spin"),
            ("native", "afxdp", "sleep"),
            ("native", "udp", "spin"),
        )
    ]
    rows += [
        Forwarder("relay", "", port, wait)
        for port, wait in itertools.product(("afpacket", "afxdp", "udp"), ("spin", "sleep"))
    ]
    if has_open_vswitch():
        rows += [Forwarder("ovs", "", "system", "sleep"), Forwarder("ovs", "", "afxdp", "spin")]
    rows += bmv2_forwarders()
    return [*rows, Forwarder("raw", "", "afpacket", "spin"), Forwarder("raw", "", "afxdp", "spin")]


def cells(only: Sequence[str], fanouts: Sequence[int]) -> list[tuple[Forwarder, int]]:
    """What is measured in one round; pushing has no fan-out, so it stands once."""
    chosen = [
        forwarder
        for forwarder in all_forwarders()
        if not only or any(word in str(forwarder) for word in only)
    ]
    return [
        (forwarder, fanout)
        for forwarder in chosen
        for fanout in ((1,) if forwarder.forwarder == "raw" else fanouts)
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows for people."""
    lines = [
        f"{'':44}{'n':>4} {'lossless':>10} {'peak':>10} {'first':>8} {'last':>8} {'CPU':>7}",
        f"{'':44}{'':>4} {'copies/s':>10} {'copies/s':>10} {'us':>8} {'us':>8} {'ns':>7}",
    ]
    lines += [
        f"{' '.join(filter(None, (row.forwarder, row.engine, row.port, row.wait))):44}"
        f"{row.fanout:>4} {row.copies_per_s_lossless:>10,.0f} {row.copies_per_s_peak:>10,.0f} "
        f"{row.first_copy_p50_us:>8.1f} {row.last_copy_p50_us:>8.1f} {row.cpu_ns_per_copy:>7.0f}"
        for row in rows
    ]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="rounds; the median counts")
    parser.add_argument("--fanouts", type=int, nargs="+", default=list(FANOUTS), metavar="N")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORDS",
        help="forwarders whose name holds one of these, such as 'native afxdp'",
    )
    parser.add_argument("--results", type=Path, default=REPOSITORY / "results")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error(f"--rounds: expected 1 or more, found {chosen.rounds}")
    for fanout in chosen.fanouts:
        if not 1 <= fanout <= VIEWERS_MAX:
            parser.error(f"--fanouts: expected 1 to {VIEWERS_MAX}, found {fanout}")
    if not cells(chosen.only, chosen.fanouts):
        names = "\n  ".join(str(forwarder) for forwarder in all_forwarders())
        parser.error(f"--only: no forwarder has one of these in its name; there are\n  {names}")
    return chosen


def main() -> int:
    """Measures every cell, round by round; what fails is said and left out."""
    chosen = arguments()
    todo = cells(chosen.only, chosen.fanouts) * chosen.rounds
    return run_alone("bench", chosen.results, lambda folder: run(folder, todo))


def run(folder: Path, todo: Sequence[tuple[Forwarder, int]]) -> Failures:
    """Writes `fanout-rounds.csv` and `fanout.csv`."""
    failures: Failures = []
    rows: list[Row] = []
    for forwarder, fanout in each(todo, CELL_S, failures, label_of):
        try:
            rows.append(measure(forwarder, fanout))
        except ChildError as error:
            failures.append(f"{label_of((forwarder, fanout))}: {error}")
        (folder / "fanout-rounds.csv").write_text(csv_text(Row, rows))
    merged = median_rows(rows)
    (folder / "fanout.csv").write_text(csv_text(Row, merged))
    print(table(merged))
    return failures


if __name__ == "__main__":
    sys.exit(main())
