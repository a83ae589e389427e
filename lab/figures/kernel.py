"""Forwarding in the kernel as figures and tables: the kernel engine beside its peers. No I/O."""

from collections.abc import Callable, Iterator, Sequence

from lab.bench.load import TCX_SINK, XDP_SINK
from lab.bench.matrix import COMPARED_FANOUT as COMPARED
from lab.figures.charts import Axis, Line, Lines, finite
from lab.figures.fanout import HOW, SPEED, Beside, axis_of
from lab.figures.names import RELAY, colour_of, full_name, marker_of, number
from lab.figures.table import Column, Table, tabulate
from lab.results.benchmarks import FanoutRow, ProcessorRow

OURS = "p4_replication"
WHY_TWO_SINKS = (
    "One sink counts and drops a copy as it comes out of the device (XDP), as a card would put it "
    "on the wire. Before the other one the kernel makes a packet of its own of each copy and takes "
    "it through its receive path: a receiver's work, the same for all, which hides what differs."
)
SHARES_OF_RELAY_MIN = {8: 0.75, 16: 0.75, COMPARED: 0.8}
"""By fan-out: the share of the relay's lossless rate that the kernel engine must reach. (The relay
is the SFU written by hand in XDP.)"""
OF_NATIVE_MIN = 2.5
LAST_COPY_OF_RELAY_MAX = 1.3
SINKS = {XDP_SINK: "counted by XDP", TCX_SINK: "behind a kernel packet"}


def at_sink(rows: Sequence[FanoutRow], sink: str = XDP_SINK) -> list[FanoutRow]:
    """Returns the rows whose copies were counted at `sink`.

    Rows of older files name no sink; their copies were counted at the XDP sink.
    """
    return [row for row in rows if row.sink == sink or (not row.sink and sink == XDP_SINK)]


def _of(
    rows: Sequence[FanoutRow], forwarder: str, engine: str, sink: str = XDP_SINK
) -> dict[int, FanoutRow]:
    found = at_sink(rows, sink)
    return {row.fanout: row for row in found if (row.row, row.engine) == (forwarder, engine)}


def of_relay(
    rows: Sequence[FanoutRow], beside: Beside, column: str = "copies_per_s_lossless"
) -> Iterator[tuple[int, float]]:
    ours, theirs = _of(rows, OURS, "kernel"), _of(rows, RELAY, "")
    for fanout in sorted(ours.keys() & theirs.keys()):
        yield fanout, beside(ours[fanout], theirs[fanout], column)


def of_native(
    rows: Sequence[FanoutRow], beside: Beside, sink: str = XDP_SINK
) -> Iterator[tuple[int, float]]:
    """For each fan-out: the kernel engine's rate divided by the native engine's, at one sink."""
    ours, theirs = _of(rows, OURS, "kernel", sink), _of(rows, OURS, "native", sink)
    for fanout in sorted(ours.keys() & theirs.keys()):
        yield fanout, beside(ours[fanout], theirs[fanout])


def figures(rows: Sequence[FanoutRow], beside: Beside) -> list[Lines]:
    if not rows:
        return []
    x = axis_of(rows)
    return [
        Lines(
            key="kernel-rate",
            title="Copies a second without loss: in the kernel, and by AF_XDP",
            x=x,
            y=Axis("copies without loss (1/s)", starts_at_zero=True),
            lines=tuple(_lines(at_sink(rows), lambda row: row.copies_per_s_lossless)),
            note=_reading(rows, beside),
        ),
        Lines(
            key="kernel-delay",
            title="Delay of the last copy: in the kernel, and by AF_XDP",
            x=x,
            y=Axis("median delay at 360 packets/s (µs)", is_log=True),
            lines=tuple(_lines(at_sink(rows), lambda row: row.last_copy_p50_us)),
            note="The kernel forwards where the packet is sent; AF_XDP spins on another processor.",
        ),
    ]


def _lines(rows: Sequence[FanoutRow], value: Callable[[FanoutRow], float]) -> list[Line]:
    lines = []
    for forwarder, engine in dict.fromkeys((row.row, row.engine) for row in rows):
        found = _of(rows, forwarder, engine)
        xs, ys = finite([(fanout, value(row)) for fanout, row in found.items()])
        colour, marker = colour_of(forwarder), marker_of(forwarder)
        label = full_name(next(iter(found.values())))
        # A program has one colour; its engines differ in whether the marker is filled.
        lines.append(Line(label, colour, xs, ys, marker, engine == "native"))
    return lines


def _reading(rows: Sequence[FanoutRow], beside: Beside) -> str:
    shares = ", ".join(f"{number(share, '.2f')} at {n}" for n, share in of_relay(rows, beside))
    parts = [f"Of the rate of the relay by hand: {shares} copies." if shares else ""]
    for sink, where in SINKS.items():
        found = of_native(rows, beside, sink)
        if times := ", ".join(f"{number(share, '.2f')} at {n}" for n, share in found):
            parts.append(f"Times the native engine's on AF_XDP, both {where}: {times} copies.")
    return " ".join(filter(None, parts))


def tables(rows: Sequence[FanoutRow], beside: Beside, times: Sequence[ProcessorRow]) -> list[Table]:
    made = [_table(rows, beside)] if rows else []
    return [*made, *([_processor_table(times)] if times else [])]


def _table(rows: Sequence[FanoutRow], beside: Beside) -> Table:
    def to(forwarder: str, engine: str) -> Callable[[FanoutRow], str]:
        def times(row: FanoutRow) -> str:
            peer = _of(rows, forwarder, engine, row.sink or XDP_SINK).get(row.fanout)
            return "" if peer is None or peer is row else number(beside(row, peer), ".2f")

        return times

    columns: list[Column[FanoutRow]] = [
        ("", "forwarder", full_name),
        ("", "sink", lambda row: SINKS.get(row.sink, "each at its own")),
        ("", "copies", lambda row: str(row.fanout)),
        *SPEED,
        ("ratio", "of the relay's rate", to(RELAY, "")),
        ("ratio", "of AF_XDP's", to(OURS, "native")),
        *HOW,
    ]
    return tabulate(
        "table-kernel",
        "In the kernel, like beside like",
        columns,
        sorted(rows, key=lambda row: (row.sink != XDP_SINK, row.fanout)),
        "Medians over the sets, of ratios too. The processor's time in the kernel has the "
        f"sender's work in it. {WHY_TWO_SINKS}",
    )


def _processor_table(times: Sequence[ProcessorRow]) -> Table:
    viewers = max(row.viewers for row in times)
    columns: list[Column[ProcessorRow]] = [
        ("", "forwarder", full_name),
        ("", "idle, % of a processor", lambda row: number(row.idle_cpu_pct, ".2f")),
        ("", "ns/copy", lambda row: number(row.cpu_ns_per_copy)),
        ("", "lost", lambda row: f"{row.loss:.2%}"),
    ]
    return tabulate(
        "table-kernel-processor",
        f"Processor time: idle, and {viewers} viewers of a 4 Mbit/s stream",
        columns,
        times,
        "What spins takes its processor whether packets come or not. In the kernel: the "
        "thread that forwards, and the process beside it. It receives the packets too, which on "
        "AF_XDP is done on the sender's processor.",
    )


def promises(
    rows: Sequence[FanoutRow], beside: Beside
) -> Iterator[tuple[str, list[tuple[str, float, bool]]]]:
    """Yields the kernel engine's goals, each with the values found and whether each suffices."""
    if not any(row.engine == "kernel" for row in rows):
        return
    rates, native = dict(of_relay(rows, beside)), dict(of_native(rows, beside))
    delays = dict(of_relay(rows, beside, "last_copy_p50_us"))
    missing = float("nan")
    for least in sorted(set(SHARES_OF_RELAY_MIN.values())):
        fanouts = [n for n, share in SHARES_OF_RELAY_MIN.items() if share == least]
        found = [(f"{n} copies:", rates.get(n, missing)) for n in fanouts]
        yield (
            f"in the kernel, {' and '.join(map(str, fanouts))} copies, without loss: at least "
            f"{least:.0%} of the rate of the relay in XDP by hand",
            [(what, share, share >= least) for what, share in found],
        )
    times = native.get(COMPARED, missing)
    yield (
        f"in the kernel, {COMPARED} copies, without loss: at least {OF_NATIVE_MIN:g} times the "
        "native engine on AF_XDP, both counted by XDP",
        [("", times, times >= OF_NATIVE_MIN)],
    )
    late = delays.get(COMPARED, missing)
    yield (
        f"in the kernel, {COMPARED} copies: the last copy's median delay within "
        f"{LAST_COPY_OF_RELAY_MAX:g} times the relay's",
        [("", late, late <= LAST_COPY_OF_RELAY_MAX)],
    )
