"""`python -m lab.bench.knee`: how many viewers of a 4 Mbit/s stream can be served.

The thesis' experiment (E. Papageorgiou, 2026, chapter 4) with viewers that are addresses on one
sink: three runs of 300 packets at 4 Mbit/s, viewers doubled until the average delay of a copy is
above 20 ms or a copy is lost, and then the knee halved in.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.bench import load
from lab.bench.experiment import Failures, chosen_of, command_line, csv_text, each, run_alone
from lab.bench.fanout import FRAME_LEN_BYTES, SETTLE_RATE_PPS, SETTLE_S, percentile
from lab.bench.forwarders import PROGRAMS, Forwarder, bmv2_forwarders, running
from lab.bench.load_figures import served
from lab.bench.results import KneeRow
from lab.process import ChildError

RATE_BPS = 4_000_000
N_PACKETS = 300
N_RUNS = 3
VIEWERS_MAX = 4096
"""Of a group, by the controller; of the relay, by itself."""
HALVINGS = 3
SAMPLE_EVERY = 10
"""All copies of one packet in so many are timed, for that costs the forwarder's processor."""
CELL_S = 50.0


def forwarders() -> list[Forwarder]:
    """Both programs on each engine, and the relay for comparison."""
    rows = [
        Forwarder(name, engine, port, "spin")
        for name in PROGRAMS
        for engine, port in (
            ("interpreter", "afpacket"),
            ("native", "afpacket"),
            ("native", "afxdp"),
            ("native", "udp"),
        )
    ]
    rows += [Forwarder("relay", "", port, "spin") for port in ("afpacket", "afxdp")]
    return rows + bmv2_forwarders()


def measure(forwarder: Forwarder, viewers: int, n_runs: int = N_RUNS) -> KneeRow:
    """One forwarder with a number of viewers."""
    rate_pps = RATE_BPS / (FRAME_LEN_BYTES * 8)
    runs: list[load.Run] = []
    samples: list[load.Sample] = []
    with (
        running(forwarder, viewers) as (pair, _),
        tempfile.NamedTemporaryFile(suffix=".csv") as file,
    ):
        load.offer(pair, viewers, SETTLE_RATE_PPS, SETTLE_S, frame_len_bytes=FRAME_LEN_BYTES)
        for _ in range(n_runs):
            runs.append(
                load.offer(
                    pair,
                    viewers,
                    rate_pps,
                    N_PACKETS / rate_pps,
                    frame_len_bytes=FRAME_LEN_BYTES,
                    sample_every=SAMPLE_EVERY,
                    samples=Path(file.name),
                )
            )
            samples += load.read_samples(Path(file.name))
    timed = [sample for sample in samples if sample.copies]
    averages_ms = [sample.sum_ns / sample.copies / 1e6 for sample in timed]
    n_timed = sum(sample.copies for sample in timed)
    sent, copies = sum(run.sent for run in runs), sum(run.copies for run in runs)
    return KneeRow(
        forwarder=forwarder.forwarder,
        engine=forwarder.engine,
        port=forwarder.port,
        viewers=viewers,
        delay_avg_ms=sum(sample.sum_ns for sample in timed) / 1e6 / max(1, n_timed),
        delay_p50_ms=percentile(averages_ms, 0.5),
        delay_p99_ms=percentile(averages_ms, 0.99),
        loss=1.0 - copies / (sent * viewers),
        wait=forwarder.wait,
        last_copy_p99_ms=percentile([sample.last_copy_ns / 1e6 for sample in timed], 0.99),
    )


def search(
    seen: Mapping[int, KneeRow],
    first: int,
    most: int = VIEWERS_MAX,
    halvings: int = HALVINGS,
    growth: int = 2,
) -> Iterator[int]:
    """The numbers of viewers to try, in order: doubled to the first not served, then halved in.

    What came of a number must be in `seen` when the next one is asked for.
    """
    good, viewers = 0, first
    while True:
        yield viewers
        if not seen[viewers].is_served:
            break
        good = viewers
        if viewers >= most:
            return
        viewers = min(growth * viewers, most)
    bad = viewers
    for _ in range(halvings):
        middle = (good + bad) // 2
        if middle in (good, bad):
            return
        yield middle
        good, bad = (middle, bad) if seen[middle].is_served else (good, middle)


def run(
    folder: Path,
    chosen: Sequence[Forwarder],
    *,
    first: int = 1,
    growth: int = 2,
    halvings: int = HALVINGS,
    n_runs: int = N_RUNS,
    n_tries: int = 1,
) -> Failures:
    """Writes `knee.csv` and says where the knees are."""
    failures: Failures = []
    rows: list[KneeRow] = []
    for forwarder in each(chosen, CELL_S, failures):
        by_viewers: dict[int, KneeRow] = {}
        try:
            for viewers in search(by_viewers, first, halvings=halvings, growth=growth):
                for _ in range(n_tries):
                    by_viewers[viewers] = measure(forwarder, viewers, n_runs)
                    rows.append(by_viewers[viewers])
                    (folder / "knee.csv").write_text(csv_text(KneeRow, rows))
                    if by_viewers[viewers].is_served:
                        break
        except ChildError as error:
            failures.append(f"{forwarder}: {error}")
    for curve, viewers in served(rows).items():
        print(f"{Forwarder(*curve)!s:44} {viewers:>5} viewers at 4 Mbit/s")
    return failures


def main() -> int:
    """The command line."""
    parser = command_line(
        "lab.bench.knee",
        __doc__,
        f"Takes about {CELL_S:.0f} s a forwarder. Writes knee.csv. Example:\n\n"
        "  python -m lab.bench.knee --first 256 --only 'native afxdp'",
        forwarders,
    )
    parser.add_argument(
        "--first", type=int, default=1, metavar="N", help="viewers to begin with; 1"
    )
    said = parser.parse_args()
    chosen = chosen_of(parser, said, forwarders)
    if not 1 <= said.first <= VIEWERS_MAX:
        parser.error(f"--first: expected 1 to {VIEWERS_MAX}, found {said.first}")
    return run_alone("knee", said.results, lambda folder: run(folder, chosen, first=said.first))


if __name__ == "__main__":
    sys.exit(main())
