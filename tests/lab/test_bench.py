"""Tests the benchmark's arithmetic: counters, their equations, verdicts, rows of results."""

import math
from dataclasses import replace

import pytest

from lab.bench import pktswitch, soak
from lab.bench.forwarders import Forwarder
from lab.bench.load import Run, Watched
from lab.bench.overload import PAIRS, Moment, share_of_peak, vanished
from lab.counters import Counters, parse_metrics
from lab.csvs import csv_text
from lab.results.benchmarks import OverloadRow
from tests.bench.synthetic import run_of

METRICS = """\
# HELP reprise_packets_total Packets that came, were made, and left.
# TYPE reprise_packets_total counter
reprise_packets_total{event="received"} 90
reprise_packets_total{event="cloned"} 0
reprise_packets_total{event="replicated"} 80
reprise_packets_total{event="transmitted"} 160
reprise_packets_total{event="to_cpu"} 0
reprise_drops_total{reason="egress_queue_full"} 8
reprise_drops_total{reason="ingress_drop"} 2
reprise_packets_inside 0
reprise_port_received_packets_total{port="1",name="s0"} 90
reprise_port_transmitted_packets_total{port="1",name="s0"} 160
reprise_port_receive_drops_total{port="1",name="s0"} 10
reprise_port_transmit_drops_total{port="1",name="s0"} 3
reprise_port_latency_seconds{port="1",name="s0",quantile="0.5"} 0.000012
"""
RUN = replace(
    run_of(100, 1.0, 157, 150), n_viewers=2, copies_of_viewer_min=78, copies_of_viewer_max=79
)
ROW = OverloadRow(
    *("p4_replication", "native", 8, 1.0, 100.0, 0.0, 9.0, "afxdp", "spin"),
    *(12.5, 0.5, 0.0, 0.0, math.nan),
)
NOTHING = Moment(Counters({}), 0)


def moment(text: str = METRICS, wire_drops: int = 0) -> Moment:
    return Moment(parse_metrics(text), wire_drops)


def test_counters_are_read_by_name_and_label() -> None:
    counters = parse_metrics(METRICS)
    assert (counters.received, counters.receive_drops) == (90, 10)
    assert (counters.sent, counters.transmit_drops) == (157, 3)
    assert counters.drops == {"egress_queue_full": 8, "ingress_drop": 2, "rx": 10, "tx": 3}
    assert counters.vanished_inside == 0


def test_what_was_counted_between_two_moments_is_their_difference() -> None:
    assert parse_metrics(METRICS).since(parse_metrics(METRICS)).drops["rx"] == 0
    assert parse_metrics(METRICS).since(Counters({})).received == 90


def test_nothing_has_vanished_where_every_loss_is_counted() -> None:
    assert vanished(RUN, NOTHING, moment()) == 0


@pytest.mark.parametrize(
    ("run", "metrics"),
    [
        (replace(RUN, sent=101), METRICS),
        (replace(RUN, copies=156), METRICS),
        (RUN, METRICS.replace('"egress_queue_full"} 8', '"egress_queue_full"} 7')),
        (RUN, METRICS.replace('receive_drops_total{port="1",name="s0"} 10', "x{} 10")),
    ],
)
def test_one_that_is_counted_nowhere_has_vanished(run: Run, metrics: str) -> None:
    assert vanished(run, NOTHING, moment(metrics)) == (10 if "x{}" in metrics else 1)


def test_what_the_kernel_lost_on_the_wire_is_counted_by_it() -> None:
    assert vanished(replace(RUN, copies=155), NOTHING, moment(wire_drops=2)) == 0


def test_a_peer_that_counts_nothing_has_no_such_number() -> None:
    assert csv_text(OverloadRow, [replace(ROW, vanished=float("nan"))]).endswith(",\n")


def test_the_spread_of_viewers_is_between_the_least_and_the_most() -> None:
    assert RUN.viewers_spread_pct == pytest.approx(100 / 79)
    assert replace(RUN, copies_of_viewer_max=0, copies_of_viewer_min=0).viewers_spread_pct == 0


def test_what_is_left_of_the_peak_is_the_median_of_pairs() -> None:
    curve = [
        replace(ROW, offered_over_capacity=times, copies_per_s=rate)
        for times, rate in ((0.5, 50.0), (1.0, 120.0), (2.0, 100.0), (10.0, 60.0))
    ]
    # The rates drift, as a machine's speed does. Each pair of rates is measured at the peak and at
    # the highest offered rate. Every other pair begins with the highest offered rate.
    rates = iter([100.0, 99.0, 55.0, 110.0, 80.0, 79.2, 99.0, 100.0] * 2)
    asked = []

    def rate(times: float) -> float:
        asked.append(times)
        return next(rates)

    assert share_of_peak(rate, curve) == pytest.approx(0.99)
    assert asked == [1.0, 10.0, 10.0, 1.0] * (PAIRS // 2)
    for too_little in (curve[-1:], curve[:2]):
        assert math.isnan(share_of_peak(rate, too_little))


def test_a_reduction_is_in_percent_of_what_was() -> None:
    assert pktswitch.reduction_pct(100.0, 24.0) == 76.0


def watched(address: int, **values: int) -> Watched:
    row = {
        "copies": 5,
        "first_sequence": 10,
        "last_sequence": 14,
        "first_sent_ns": 1_000,
        "last_sent_ns": 2_000,
        "misordered": 0,
    }
    return Watched(address=address, **{**row, **values})


GUEST = soak.FIRST_GUEST
JOINED = {"ip": "10.1.4.2", "joins": True, "begun_ns": 900, "done_ns": 950}
LEFT = {"ip": "10.1.4.2", "joins": False, "begun_ns": 1_900, "done_ns": 2_000}


def judged(one: Watched, *, rss_kib: int = 5_000) -> list[str]:
    """Returns the faults that `soak.judge` finds in a soak (a long run).

    The run has one viewer, one guest (a viewer that joins and leaves), and the metrics above
    without drops.
    """
    samples = [soak.Sample(float(n), n, n, n, 5_000) for n in range(9)]
    samples.append(soak.Sample(9.0, 9, 9, 9, rss_kib))
    quiet = METRICS.replace('full"} 8', 'full"} 0').replace('drop"} 2', 'drop"} 0')
    quiet = quiet.replace('"} 10\n', '"} 0\n').replace('"} 3\n', '"} 0\n')
    quiet = quiet.replace('"} 80\n', '"} 70\n')
    run = replace(RUN, n_viewers=1, sent=90, copies=155, others=5)
    verdict = soak.judge(
        Forwarder("p4_replication", "native", "afxdp", "sleep"),
        run,
        watched=[watched(0), one],
        said=[{"writes": 1, "changes": 0}, JOINED, LEFT],
        samples=samples,
        counted=parse_metrics(quiet),
        wire_drops=0,
    )
    return verdict.faults()


def test_a_soak_without_fault_has_none() -> None:
    assert judged(watched(GUEST)) == []


@pytest.mark.parametrize(
    ("one", "fault"),
    [
        (watched(GUEST, last_sent_ns=2_001), "1 viewers got a copy of a packet sent after"),
        (watched(GUEST, copies=4), "1 packets are missing"),
        (watched(GUEST, misordered=3), "3 copies came twice or out of order"),
        (watched(GUEST + 1), "1 addresses got copies and never were viewers"),
    ],
)
def test_each_fault_of_a_soak_is_found(one: Watched, fault: str) -> None:
    [found] = judged(one)
    assert found.startswith(fault)


def test_memory_that_grows_is_a_fault_of_a_soak() -> None:
    assert judged(watched(GUEST), rss_kib=7_000) == [
        "2,000 KiB of memory more than at the beginning"
    ]


def test_a_line_of_json_that_was_cut_off_is_left_out() -> None:
    assert soak.json_lines('{"writes": 1}\n{"wri') == [{"writes": 1}]
