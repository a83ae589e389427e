"""Measures the latency and the throughput of ordered multicast.

All results are measured, none is computed from another.

The throughput measurement compares AOM-HM (authentication tags), AOM-PK (signatures), and plain
multicast, in which the same binary makes as many copies as with AOM-HM. All three switches are
started at once and take turns of a fraction of a second (`lab.bench.turns` says why).
"""

import csv
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.bench.cells import Failures, each
from lab.csvs import csv_text
from lab.files import write_whole
from lab.neobft.network import BENCH, FRAME_BYTES, SIGNER, Sequencer, sequencer
from lab.neobft.published import SIZES
from lab.process import ChildError, run
from lab.results.benchmarks import DelayRow, DistributionRow, NeobftRow, PassRow, SignatureRow
from lab.results.statistics import ratio
from lab.sites import SFU_CPU, on_cpu
from lab.switch import require_build

FILE = "neobft.csv"
DELAYS_FILE, DISTRIBUTIONS_FILE = "neobft-delays.csv", "neobft-distributions.csv"
PASSES_FILE, SIGNATURES_FILE = "neobft-passes.csv", "neobft-signatures.csv"
LOADS_PCT = (25, 50, 99)
FIRST_RATE, RATE_MAX = 2_000.0, 2_000_000.0
KEPT_UP = 0.9
LATE_SHARE, LATE_REQUESTS = 0.01, 4
"""A run counts as lossless if few copies are still under way when sending ends: at most
`LATE_SHARE` of all copies, or the copies of `LATE_REQUESTS` requests, whichever are more."""
SUSTAINED_STEPS = (*(0.95,) * 12, *(0.5,) * 8)
"""The factors by which the rate is lowered until a longer run is lossless. The small steps come
first. The large steps follow, because the small ones may not be enough on a machine that others
use."""
BENCH_TIMEOUT_S = 300.0
BEYOND_WHAT_CAME = 1.2
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Effort:
    sizes: tuple[int, ...] = SIZES
    turn_s: float = 0.25
    sustained_s: float = 3.0
    turns: int = 7
    tries: int = 8
    delay_s: float = 20.0
    pass_turns: int = 9

    @property
    def planned_s(self) -> float:
        of_size = 3 * (6 + self.turns + self.tries) * (self.turn_s + 0.2)
        return len(self.sizes) * of_size + 6 * self.delay_s + 4.0 * self.pass_turns


QUICK = Effort(sizes=(4, 64), sustained_s=2.0, turns=3, tries=3, delay_s=2.0, pass_turns=3)


def copies_of(kind: str, receivers: int) -> int:
    return receivers if kind == "signed" else receivers * -(-receivers // 4)


def run_study(folder: Path, effort: Effort) -> Failures:
    """Measures everything into the folder's files. Returns the failures of parts that failed."""
    require_build(BENCH, SIGNER)
    parts: list[tuple[str, Callable[[], None]]] = [
        ("passes", lambda: _passes(folder, effort)),
        ("signatures", lambda: _signatures(folder, effort)),
        ("delays of AOM-HM", lambda: _delays(folder, "tagged", effort)),
        ("delays of AOM-PK", lambda: _delays(folder, "signed", effort)),
        ("throughput", lambda: _throughput(folder, effort)),
    ]
    failures: Failures = []
    for name, part in each(parts, effort.planned_s / len(parts), failures, lambda part: part[0]):
        try:
            part()
        except ChildError as error:
            failures.append(f"{name}: {error}")
    return failures


def _passes(folder: Path, effort: Effort) -> None:
    sizes = [str(size) for size in (4, 8, 16, 32, 64) if size in effort.sizes]
    argv = [str(BENCH), "passes", "--turns", str(effort.pass_turns), "--receivers", *sizes]
    said = json.loads(run(on_cpu(SFU_CPU, argv), timeout_s=BENCH_TIMEOUT_S))["passes"]
    rows = [
        PassRow(
            engine=row["engine"],
            what=row["what"],
            receivers=row["receivers"],
            copies=row["copies"],
            ns_per_request=statistics.median(row["ns_per_request"]),
        )
        for row in said
    ]
    write_whole(folder / PASSES_FILE, csv_text(PassRow, rows))


def _signatures(folder: Path, effort: Effort) -> None:
    argv = [str(BENCH), "signatures", "--turns", str(effort.pass_turns)]
    said = json.loads(run(on_cpu(SFU_CPU, argv), timeout_s=BENCH_TIMEOUT_S))
    pairs = zip(said["pooled_per_s"], said["fresh_per_s"], strict=True)
    rows = [SignatureRow(turn, *pair) for turn, pair in enumerate(pairs)]
    write_whole(folder / SIGNATURES_FILE, csv_text(SignatureRow, rows))


def _copies_per_s(document: Document) -> float:
    return float(document["copies_while_sending"] / document["seconds"])


def _is_lossless(document: Document) -> bool:
    due = document["copies_due"]
    late = max(LATE_SHARE * due, LATE_REQUESTS * due / document["sent"])
    in_time = document["copies_while_sending"] >= due - late
    return bool(document["copies"] == due and in_time)


def _find_peak(one: Sequencer, turn_s: float) -> float:
    """Finds about how many requests a second the switch of `one` carries; at least 1."""
    rate, came, per_request = FIRST_RATE, 1.0, copies_of(one.kind, one.receivers)
    if one.kind == "plain":
        per_request = one.receivers
    while rate < RATE_MAX:
        document = one.load(rate, turn_s)
        came = max(came, _copies_per_s(document) / per_request)
        sent = document["sent"] / document["seconds"]
        if came < KEPT_UP * sent or sent < KEPT_UP * rate:
            return came
        rate *= 2
    return came


def _lossless(one: Sequencer, peak: float, effort: Effort) -> float:
    """Finds the highest rate of requests without loss by bisection, which begins at the peak."""
    good, bad, rate = 0.0, BEYOND_WHAT_CAME * peak, peak
    for _ in range(effort.tries):
        if _is_lossless(one.load(rate, effort.turn_s)):
            good, rate = rate, (rate + bad) / 2
        else:
            bad, rate = rate, (good + rate) / 2
    return good


def _sustained(one: Sequencer, lossless: float, effort: Effort) -> float:
    """The highest rate that is lossless in a longer run, found by lowering the rate step by step.

    In a short measurement, a queue may absorb requests that the switch cannot carry.
    """
    for step in SUSTAINED_STEPS:
        if _is_lossless(one.load(lossless, effort.sustained_s)):
            return lossless
        lossless *= step
    raise ChildError(f"no rate without loss was found, down to {lossless:.0f} requests a second")


def _delays(folder: Path, kind: str, effort: Effort) -> None:
    """Measures delays with four receivers, at shares of the lossless rate, which it finds first."""
    here = tempfile.TemporaryDirectory(prefix="reprise-neobft-")
    with here as name, sequencer(kind, Path(name) / kind) as one:
        one.set_receivers(4)
        peak = _find_peak(one, effort.turn_s)
        lossless = _sustained(one, _lossless(one, peak, effort) or peak, effort)
        rows: list[DelayRow] = []
        distributions: list[DistributionRow] = []
        for load_pct in LOADS_PCT:
            rate = lossless * load_pct / 100
            file = Path(name) / f"{load_pct}.csv"
            document = one.load(rate, effort.delay_s, file)
            quantiles = document["delay_ns"] | {"100": document["max_ns"]}
            for quantile, ns in quantiles.items():
                samples = document["samples"]
                row = DelayRow(kind, load_pct, rate, samples, float(quantile), ns / 1e3)
                rows.append(row)
            with file.open(newline="") as lines:
                distributions += [
                    DistributionRow(kind, load_pct, int(line["delay_ns"]) / 1e3, int(line["count"]))
                    for line in csv.DictReader(lines)
                ]
    _append(folder / DELAYS_FILE, DelayRow, rows)
    _append(folder / DISTRIBUTIONS_FILE, DistributionRow, distributions)


def _append(file: Path, kind: type[Any], rows: Sequence[Any]) -> None:
    """Adds rows to a file, which may already have the other variant's rows."""
    text = csv_text(kind, rows)
    before = file.read_text() if file.exists() else ""
    write_whole(file, before + (text.split("\n", 1)[1] if before else text))


@dataclass(slots=True)
class _InTurns:
    one: Sequencer
    peak: float
    at_peak: list[float]
    signed: list[float]


def _throughput(folder: Path, effort: Effort) -> None:
    rows: list[NeobftRow] = []
    with tempfile.TemporaryDirectory(prefix="reprise-neobft-") as name, ExitStack() as stack:
        up = [
            stack.enter_context(sequencer(kind, Path(name) / kind))
            for kind in ("tagged", "plain", "signed")
        ]
        for receivers in effort.sizes:
            rows += _of_size(up, receivers, effort)
            write_whole(folder / FILE, csv_text(NeobftRow, rows))


def _of_size(up: Sequence[Sequencer], receivers: int, effort: Effort) -> list[NeobftRow]:
    contestants = []
    for one in up:
        with one.turn():
            one.set_receivers(copies_of("tagged", receivers) if one.kind == "plain" else receivers)
            contestants.append(_InTurns(one, _find_peak(one, effort.turn_s), [], []))
    # AOM-HM and plain multicast get the same frames at the same rate, because frames that the
    # switch refuses cost processor time, too.
    both = max(seen.peak for seen in contestants if seen.one.kind != "signed")
    for _ in range(effort.turns):
        for seen in contestants:
            beyond = BEYOND_WHAT_CAME * (seen.peak if seen.one.kind == "signed" else both)
            with seen.one.turn():
                document = seen.one.load(beyond, effort.turn_s)
            seen.at_peak.append(_copies_per_s(document))
            seen.signed.append(document["signed_copies"] / max(1, document["copies"]))
    return [_row(seen, contestants, receivers, effort) for seen in contestants]


def _row(
    seen: _InTurns, contestants: Sequence[_InTurns], receivers: int, effort: Effort
) -> NeobftRow:
    kind = seen.one.kind
    plain = next(one for one in contestants if one.one.kind == "plain")
    per_request = copies_of("signed" if kind == "signed" else "tagged", receivers)
    with seen.one.turn():
        lossless = _lossless(seen.one, seen.peak, effort)
    copies_per_s = statistics.median(seen.at_peak)
    beside = [ratio(*pair) for pair in zip(seen.at_peak, plain.at_peak, strict=True)]
    return NeobftRow(
        kind=kind,
        receivers=receivers,
        packets_per_request=per_request,
        turns=len(seen.at_peak),
        frame_bytes=FRAME_BYTES[kind],
        requests_per_s_peak=copies_per_s / per_request,
        copies_per_s_peak=copies_per_s,
        requests_per_s_lossless=lossless,
        of_plain=statistics.median(beside),
        signed_share=statistics.median(seen.signed) if kind == "signed" else 0.0,
    )
