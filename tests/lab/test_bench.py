"""The benchmark's own arithmetic: counters, sums that must hold, verdicts, rows."""

from dataclasses import replace

import pytest

from lab.bench import knee, pktswitch
from lab.bench.counters import Counters, parse_metrics
from lab.bench.experiment import csv_text, matching
from lab.bench.forwarders import Forwarder
from lab.bench.load import Run
from lab.bench.overload import Moment, Row, vanished, verdicts

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
RUN = Run(
    n_viewers=2,
    sent=100,
    seconds=1.0,
    copies=157,
    copies_while_sending=150,
    copies_of_viewer_min=78,
    copies_of_viewer_max=79,
    audio_sent=0,
    audio_copies=0,
    refusals=0,
    others=0,
)
ROW = Row(
    forwarder="reprise_replication",
    engine="native",
    fanout=8,
    offered_over_capacity=1.0,
    copies_per_s=100.0,
    loss=0.0,
    last_copy_p99_us=9.0,
    port="afxdp",
    wait="spin",
    offered_pps=12.5,
    viewers_spread_pct=0.5,
    drops=0.0,
    vanished=0.0,
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
    assert csv_text(Row, [replace(ROW, vanished=float("nan"))]).endswith(",\n")


def test_the_spread_of_viewers_is_between_the_least_and_the_most() -> None:
    assert RUN.viewers_spread_pct == pytest.approx(100 / 79)
    assert replace(RUN, copies_of_viewer_max=0, copies_of_viewer_min=0).viewers_spread_pct == 0


def test_a_curve_that_falls_and_viewers_that_differ_are_said() -> None:
    good = [ROW, replace(ROW, offered_over_capacity=10.0, copies_per_s=96.0)]
    assert "stays at  96%; viewers alike (0.50 %); 0 vanished" in verdicts(good)[0]
    bad = [
        ROW,
        replace(
            ROW,
            offered_over_capacity=10.0,
            copies_per_s=94.0,
            viewers_spread_pct=2.1,
            vanished=3.0,
        ),
    ]
    assert "FALLS at  94%; viewers UNLIKE (2.10 %); 3 vanished" in verdicts(bad)[0]


def test_forwarders_are_chosen_by_words_of_their_names() -> None:
    relay = Forwarder("relay", "", "afxdp", "spin")
    native = Forwarder("reprise_replication", "native", "udp", "spin")
    assert matching([relay, native], []) == [relay, native]
    assert matching([relay, native], ["native udp", "sleep"]) == [native]


def knee_row(viewers: int, delay_ms: float = 1.0, loss: float = 0.0) -> knee.Row:
    return knee.Row(
        forwarder="relay",
        engine="",
        port="afxdp",
        viewers=viewers,
        delay_avg_ms=delay_ms,
        delay_p50_ms=delay_ms,
        delay_p99_ms=delay_ms,
        loss=loss,
        wait="spin",
        last_copy_p99_ms=delay_ms,
    )


def tried(served_up_to: int, **options: int) -> list[knee.Row]:
    rows: dict[int, knee.Row] = {}
    for viewers in knee.search(rows, 1, **options):
        rows[viewers] = knee_row(viewers, delay_ms=1.0 if viewers <= served_up_to else 20.1)
    return list(rows.values())


def test_viewers_are_doubled_to_the_knee_which_is_then_halved_in() -> None:
    rows = tried(served_up_to=11)
    assert [row.viewers for row in rows] == [1, 2, 4, 8, 16, 12, 10, 11]
    assert list(knee.knees(rows).values()) == [11]


def test_the_search_for_the_knee_ends_at_the_most_viewers() -> None:
    assert [row.viewers for row in tried(100, most=6)] == [1, 2, 4, 6]


def test_the_search_for_the_knee_ends_where_there_is_nothing_between() -> None:
    assert [row.viewers for row in tried(0)] == [1]
    assert [row.viewers for row in tried(1)] == [1, 2]


def test_one_lost_copy_is_beyond_the_knee() -> None:
    assert knee_row(1).is_served
    assert not knee_row(1, loss=1e-6).is_served


def test_a_reduction_is_in_percent_of_what_was() -> None:
    assert pktswitch.reduction_pct(100.0, 24.0) == 76.0
