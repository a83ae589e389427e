"""Tests the lab's meter on a stand-in for an SFU that makes known mistakes and delays."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import meter, peers
from lab.meter import MeterError, Seen, Sending, Slot, Steady, Trace, empty_loop, measure
from lab.process import ChildError, run
from lab.rows.row import Variant
from lab.sites import SITES, Site, Stream, on_cpu
from tests.study.processes import children, is_metering
from tests.study.standin import StandIn

QUIET_S = 0.3
PACED_NS = 2e6
WITHOUT_BPF = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--"]


UP: dict[str, Site] = {}
"""For each topology a running site: the network namespaces and links of a measurement.

Each site has five participants beside the sender.
"""


@pytest.fixture(autouse=True, scope="module")
def up(namespaces: None) -> Iterator[None]:
    peers.build()
    with ExitStack() as stack:
        for topology, kind in SITES.items():
            UP[topology] = stack.enter_context(kind(6))
        yield


@pytest.fixture(params=["bpf", "here"])
def counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice: with copies counted by BPF, and without BPF.

    The lab counts without BPF where it does not have the rights of the real root.
    """
    if request.param == "bpf":
        request.getfixturevalue("system_root")
    else:
        monkeypatch.setattr(meter, "on_cpu", lambda cpu, argv: [*WITHOUT_BPF, *on_cpu(cpu, argv)])
    return str(request.param)


def seen_with(
    place: Path,
    *options: str,
    packets: Steady | Trace | None = None,
    n_viewers: int = 3,
    topology: str = "one_port",
    sample_every: int = 1,
) -> Seen:
    """Lets participant 1 send to the next `n_viewers` participants, and measures."""
    row = StandIn(UP[topology], Variant(), place)
    row.options = options  # type: ignore[misc]
    with row:
        return measured_on(row, UP[topology], packets, n_viewers, sample_every=sample_every)


def measured_on(
    row: StandIn,
    site: Site,
    packets: Steady | Trace | None,
    n_viewers: int,
    *,
    sample_every: int = 1,
) -> Seen:
    stream = Stream(1, site.participant(1))
    row.subscribe(stream, site.participants(2, n_viewers))
    sending = Sending(stream, packets or Steady(40, PACED_NS, 200), n_viewers)
    return measure(site, [sending], row.folder, sample_every=sample_every, quiet_s=QUIET_S)


def at(seen: Seen, participant: int, stream: int = 0) -> Slot:
    return next(one for one in seen.slots if (one.stream, one.participant) == (stream, participant))


def counts(slot: Slot) -> tuple[int, int, int]:
    return slot.copies, slot.duplicates, slot.misordered


@pytest.mark.parametrize("topology", list(SITES))
def test_a_right_sfu_loses_doubles_and_misorders_nothing(
    logs: Path, counting: str, topology: str
) -> None:
    seen = seen_with(logs, topology=topology)
    totals = seen.totals
    assert (totals.sent, totals.copies_due, totals.copies) == (40, 120, 120)
    assert (totals.others, totals.samples_lost, totals.stopped) == (0, 0, False)
    assert (totals.bytes_sent, totals.sent_of_streams) == (40 * 200, (40,))
    assert totals.sending_s == pytest.approx(39 * 0.002, abs=totals.late_max_ns / 1e9 + 0.005)
    assert [slot.participant for slot in seen.slots] == [2, 3, 4]
    assert all(counts(slot) == (40, 0, 0) and slot.timed == 40 for slot in seen.slots)
    assert [sample.sequence for sample in seen.samples] == list(range(40))
    assert all(sample.copies == 3 and sample.frame_bytes == 200 for sample in seen.samples)


def test_mistakes_are_counted_by_kind_at_whom_they_were_made(logs: Path, counting: str) -> None:
    lost = seen_with(logs, "--lose", "10")
    assert [counts(slot) for slot in lost.slots] == [(40, 0, 0), (40, 0, 0), (36, 0, 0)]
    assert (lost.totals.copies_due, lost.totals.copies) == (120, 116)
    assert [sample.copies for sample in lost.samples].count(2) == 4

    doubled = seen_with(logs, "--double", "10")
    assert counts(at(doubled, 4)) == (44, 4, 0)
    assert (doubled.totals.copies, doubled.totals.others) == (120, 0)

    swapped = seen_with(logs, "--swap", "10", packets=Steady(41, PACED_NS, 200))
    assert [counts(slot) for slot in swapped.slots] == [(41, 0, 4)] * 3
    assert swapped.totals.copies == swapped.totals.copies_due

    strayed = seen_with(logs, "--stray", "10", "--to", "10.1.0.6")
    assert counts(at(strayed, 4)) == (36, 0, 0)
    assert counts(at(strayed, 6)) == (4, 0, 0)


def test_what_is_no_copy_counts_as_other(logs: Path, system_root: None) -> None:
    seen = seen_with(logs, "--noise", "10")
    assert (seen.totals.others, seen.totals.copies) == (4, 120)
    to_nobody = seen_with(logs, "--stray", "10", "--to", "10.1.9.9")
    assert (to_nobody.totals.others, to_nobody.totals.copies) == (4, 116)


def test_a_copy_of_the_run_before_is_none_of_this_one(logs: Path, system_root: None) -> None:
    site = UP["one_port"]
    row = StandIn(site, Variant(), logs)
    # The stand-in holds back the tenth packet until the next one comes.
    row.options = ("--swap", "10")  # type: ignore[misc]
    with row:
        before = measured_on(row, site, Steady(10, PACED_NS, 200), 2)
        after = measured_on(row, site, Steady(9, PACED_NS, 200), 2)
    assert before.totals.copies == 18
    assert (after.totals.copies, after.totals.others) == (18, 2)
    assert [counts(slot) for slot in after.slots] == [(9, 0, 0)] * 2


@pytest.mark.alone
def test_delays_are_as_long_as_the_sfu_takes(logs: Path, counting: str) -> None:
    packets = Steady(20, 2e7, 200)
    without, slow = (
        seen_with(logs, "--delay-ms", delay, packets=packets, n_viewers=1) for delay in ("0", "8")
    )
    for sample in slow.samples:
        assert 8e6 <= sample.first_copy_ns == sample.last_copy_ns == sample.sum_ns
    medians = [sorted(one.last_copy_ns for one in seen.samples)[10] for seen in (without, slow)]
    assert medians[1] - medians[0] == pytest.approx(8e6, abs=4e6)


def test_sums_of_samples_and_of_viewers_agree(logs: Path, counting: str) -> None:
    seen = seen_with(logs)
    for sample in seen.samples:
        assert sample.first_copy_ns <= sample.last_copy_ns
        assert 3 * sample.first_copy_ns <= sample.sum_ns <= 3 * sample.last_copy_ns
    assert sum(one.sum_ns for one in seen.samples) == sum(one.sum_ns for one in seen.slots)
    assert min(one.first_copy_ns for one in seen.samples) == min(s.min_ns for s in seen.slots)
    assert max(one.last_copy_ns for one in seen.samples) == max(s.max_ns for s in seen.slots)


def test_jitter_is_rfc_3550s(logs: Path, counting: str) -> None:
    seen = seen_with(
        logs, "--delay-ms", "0", "3", "1", "7", packets=Steady(30, 1.5e7, 300), n_viewers=1
    )
    # RFC 3550, 6.4.1: J += (|D(i-1, i)| - J) / 16; D is the difference of two transit times.
    delays = [sample.last_copy_ns for sample in seen.samples]
    jitter_ns = 0.0
    for before, now in itertools.pairwise(delays):
        jitter_ns += (abs(now - before) - jitter_ns) / 16
    assert at(seen, 2).jitter_ns == round(jitter_ns)
    assert jitter_ns > 1e6
    assert at(seen, 2).sum_ns == sum(delays)


def test_every_size_has_right_checksums(logs: Path, counting: str) -> None:
    """All packets come back from a forwarder that drops those with a wrong checksum."""
    sizes = [*range(44, 102), 511, 512, 1400, 1512, 1513, 1514]
    trace = Trace(tuple((idx * 1_000_000, size) for idx, size in enumerate(sizes)))
    seen = seen_with(logs, packets=trace, n_viewers=2)
    assert seen.totals.copies == seen.totals.copies_due == 2 * len(sizes)
    assert [sample.frame_bytes for sample in seen.samples] == sizes
    assert seen.totals.bytes_sent == sum(sizes)
    assert [counts(slot) for slot in seen.slots] == [(len(sizes), 0, 0)] * 2


def test_a_trace_is_sent_in_its_own_time(logs: Path, system_root: None) -> None:
    times_ms = (0, 1, 1, 30, 31, 90)
    trace = Trace(tuple((one * 1_000_000, 300) for one in times_ms), start_ns=5_000_000)
    seen = seen_with(logs, packets=trace, n_viewers=1)
    sent_ms = [sample.sent_ns / 1e6 for sample in seen.samples]
    late_ms = seen.totals.late_max_ns / 1e6 + 5
    assert sent_ms == pytest.approx(times_ms, abs=late_ms)
    assert seen.totals.sending_s == pytest.approx(trace.duration_s, abs=late_ms / 1e3)
    assert trace.duration_s == 0.095


def test_samples_are_every_so_manieth_packet_and_counts_are_of_all(
    logs: Path, system_root: None
) -> None:
    seen = seen_with(logs, "--lose", "10", sample_every=3)
    assert [sample.sequence for sample in seen.samples] == list(range(0, 40, 3))
    # The stand-in loses one copy of every tenth packet. The first such packet, with sequence number
    # 9, is a sample.
    assert [sample.copies for sample in seen.samples] == [3, 3, 3, 2, *[3] * 9, 2]
    assert [counts(slot) for slot in seen.slots] == [(40, 0, 0), (40, 0, 0), (36, 0, 0)]
    assert [slot.timed for slot in seen.slots] == [14, 14, 12]


def test_several_streams_are_told_apart_long_and_short(logs: Path, counting: str) -> None:
    site = UP["port_per_host"]
    with StandIn(site, Variant(), logs) as row:
        sendings = []
        for number, (sender, udp_port, size) in enumerate(
            [(1, 5004, 46), (1, 5006, 200), (2, 5004, 45), (3, 5004, 1400)], 1
        ):
            stream = Stream(number, site.participant(sender), udp_port, 6000 + number)
            viewers = [one for one in site.participants(1, 3) if one.number != sender]
            row.subscribe(stream, viewers)
            sendings.append(Sending(stream, Steady(10 + number, PACED_NS, size), len(viewers)))
        seen = measure(site, sendings, logs, quiet_s=QUIET_S)
    assert seen.totals.copies == seen.totals.copies_due == 2 * (11 + 12 + 13 + 14)
    assert seen.totals.sent_of_streams == (11, 12, 13, 14)
    found = {(slot.stream, slot.participant): slot.copies for slot in seen.slots}
    assert found == {
        **{(0, viewer): 11 for viewer in (2, 3)},
        **{(1, viewer): 12 for viewer in (2, 3)},
        **{(2, viewer): 13 for viewer in (1, 3)},
        **{(3, viewer): 14 for viewer in (1, 2)},
    }


def test_the_published_conference_fits_into_short_marks(logs: Path, system_root: None) -> None:
    """12 hosts send two streams each, all of the smallest frames.

    They send more packets than the conference has in a minute.
    """
    with SITES["one_port"](12) as site:
        sendings = [
            Sending(Stream(0, site.participant(host), udp_port), Steady(2048, 2e4, 44), 0)
            for host in range(1, 13)
            for udp_port in (5004, 6363)
        ]
        seen = measure(site, sendings, logs)
    assert seen.totals.sent_of_streams == (2048,) * 24


def test_a_stopped_instrument_says_nothing(logs: Path, system_root: None) -> None:
    def kill(number: int) -> None:
        deadline_s = time.monotonic() + 120
        while time.monotonic() < deadline_s:
            for pid in children(os.getpid()):
                if is_metering(pid):
                    os.kill(pid, number)
                    return

    with SITES["one_port"](2) as site:
        sending = Sending(Stream(1, site.participant(1)), Steady(50, 1e8, 200), 1)
        for number, error, says in (
            (signal.SIGTERM, MeterError, "the instrument was stopped"),
            (signal.SIGKILL, ChildError, "-9"),
        ):
            killer = threading.Thread(target=kill, args=(number,))
            killer.start()
            with pytest.raises(error, match=says):
                measure(site, [sending], logs)
            killer.join()


def refused(place: Path, plan: str, *options: str) -> str:
    file = place / "plan"
    file.write_text(plan)
    argv = [str(peers.program("meter")), "--plan", str(file), "--participants", "10.1.0.1:4"]
    argv += ["--samples", str(place / "samples"), "--slots", str(place / "slots"), *options]
    with pytest.raises(ChildError) as error:
        run(argv)
    said = str(error.value)
    return said[said.index("meter: ") :] if "meter: " in said else said[said.index("usage:") :]


LINK = "link lo 02:00:00:00:00:01 02:00:00:00:00:02 0\n"
HEAD = "stream 0 10.1.0.1:5004 10.0.0.1:5004 1"
BAD_PLANS: Sequence[tuple[str, str]] = [
    ("", 'expected links and streams, found "none"'),
    ("hello\n", 'expected a line that begins with link or stream, found "hello"'),
    (
        "link lo 02:00:00:00:00:01\n",
        'expected "link INTERFACE HOST_MAC SFU_MAC PARTICIPANT", found "link lo 02:00:00:00:00:01"',
    ),
    (
        "stream 0 10.1.0.1:5004 10.0.0.1:5004 1 steady 0 1 1 60\n",
        'expected "stream LINK SOURCE:PORT SFU:PORT VIEWERS steady|trace ...", found '
        '"stream 0 10.1.0.1:5004 10.0.0.1:5004 1 steady 0 1 1 60"',
    ),
    (f"{LINK}{HEAD} burst 0 1 1 60\n", 'expected steady or trace, found "burst"'),
    (
        f"{LINK}{HEAD} steady 0 1 1 43\n",
        'expected "steady START_NS INTERVAL_NS PACKETS FRAME_BYTES", 44 to 9014 bytes, found '
        '" 0 1 1 43"',
    ),
    (f"{LINK}{HEAD} trace 0 1\n", 'expected "trace START_NS PACKETS FILE", found " 0 1"'),
    (
        f"{LINK}{HEAD} steady 0 1 2049 44\n",
        "expected frames below 70 bytes only of 32 streams, 2,048 packets each, all sampled, "
        'found "more"',
    ),
]


@pytest.mark.parametrize(("plan", "says"), BAD_PLANS)
def test_a_bad_plan_is_refused_with_what_was_expected_and_found(
    logs: Path, plan: str, says: str
) -> None:
    assert refused(logs, plan).strip().startswith(f"meter: {logs / 'plan'}: {says}")


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        ("0 60\n", 'a trace with a line "TIME_NS FRAME_BYTES" for each packet'),
        ("0 60\n1 43\n", 'a trace with a line "TIME_NS FRAME_BYTES" for each packet'),
        ("5 60\n1 60\n", "a trace in order of time"),
    ],
)
def test_a_bad_trace_is_refused(logs: Path, trace: str, says: str) -> None:
    file = logs / "trace"
    file.write_text(trace)
    said = refused(logs, f"{LINK}{HEAD} trace 0 2 {file}\n")
    assert f'expected {says}, found "{file}"' in said


def test_a_full_disk_is_said(logs: Path, system_root: None) -> None:
    with SITES["one_port"](2) as site:
        (logs / "samples.csv").symlink_to("/dev/full")
        sending = Sending(Stream(1, site.participant(1)), Steady(300, 1e4, 200), 1)
        with pytest.raises(ChildError, match=r"samples\.csv: No space left on device"):
            measure(site, [sending], logs, quiet_s=QUIET_S)


def test_an_empty_loop_says_what_the_machine_takes() -> None:
    loop = empty_loop(0, 0.02)
    assert loop.loops > 1000
    # The loop ends when it first reads a time past its limit, perhaps after it waited for a
    # processor.
    assert 0 <= loop.seconds - 0.02 <= loop.max_ns / 1e9 + 1e-6
    assert loop.p50_ns <= loop.p999_ns <= loop.max_ns <= loop.seconds * 1e9
