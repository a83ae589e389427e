"""`python -m lab.bench`: fan-out of the switch and its peers, in one run, into a folder."""

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path

from lab.bench import peers
from lab.bench.fanout import FANOUTS, Row, measure, median_rows
from lab.bench.forwarders import PROGRAMS, Forwarder, has_open_vswitch
from lab.csvs import text_of
from lab.netns import NamespaceError, require_namespaces
from lab.process import REPOSITORY, ChildError, interrupt_on_termination
from lab.study.machine import session
from lab.study.progress import bar
from lab.switch import SWITCH, MissingBuildError, require_build

VIEWERS_MAX = 4096
"""As in lab/peers."""
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


def csv_text(rows: Sequence[Row]) -> str:
    """Rows under their header; what was not measured is an empty cell."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.6g}"
        return str(value)

    names = [field.name for field in fields(Row)]
    body = [[cell(value) for value in asdict(row).values()] for row in rows]
    return text_of([names, *body])


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
    interrupt_on_termination()
    try:
        require_namespaces()
        require_build(SWITCH)
        peers.build()
    except (NamespaceError, MissingBuildError, ChildError) as error:
        print(f"lab.bench: {error}", file=sys.stderr)
        return 1
    started = datetime.now(UTC)
    folder = chosen.results / f"bench-{started:%Y%m%d-%H%M%S}"
    folder.mkdir(parents=True)
    facts = session(sys.argv, "veth pair")
    (folder / "session.json").write_text(json.dumps(facts, indent=1) + "\n")
    todo = cells(chosen.only, chosen.fanouts) * chosen.rounds
    rows: list[Row] = []
    failures: list[str] = []
    began_s = time.monotonic()
    for number, (forwarder, fanout) in enumerate(todo):
        taken_s = time.monotonic() - began_s
        left_s = (taken_s / number if number else CELL_S) * (len(todo) - number)
        print(
            "\r\033[K" + bar(number, len(todo), left_s, f"{forwarder}, {fanout} copies"),
            end="",
            file=sys.stderr,
            flush=True,
        )
        try:
            rows.append(measure(forwarder, fanout))
        except ChildError as error:
            failures.append(f"{forwarder}, {fanout} copies: {error}")
        (folder / "fanout-rounds.csv").write_text(csv_text(rows))
    print("\r\033[K", end="", file=sys.stderr)
    merged = median_rows(rows)
    (folder / "fanout.csv").write_text(csv_text(merged))
    print(table(merged))
    for failure in failures:
        print(f"not measured: {failure}", file=sys.stderr)
    print(f"{folder / 'fanout.csv'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
