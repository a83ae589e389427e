"""Tests that the comparison's tables and figures show what its rows and the paper say."""

import math

import pytest

from lab.figures.pisces import PUBLISHED_MBIT_PER_S, complexity_tables, figures, points, tables
from lab.figures.table import Table
from lab.pisces.switches import NAIVE, OFF, ON, OPTIMISED
from lab.results.benchmarks import Change, Counted
from tests.pisces.synthetic import rows


def of_key(found: list[Table], key: str) -> Table:
    return next(table for table in found if table.key == key)


def test_there_are_twelve_points_with_caches_off_and_on() -> None:
    for caches in (OFF, ON):
        found = points(rows(optimised=0.97), caches)
        assert len(found) == 12
        assert [share for _, share in found] == [0.97] * 12


def test_a_point_below_95_percent_is_told() -> None:
    told = of_key(tables(rows(optimised=0.949, naive=0.6)), "pisces-points")
    assert {row[3] for row in told.rows} == {"no"}
    assert {row[4] for row in told.rows} == {"0.600"}
    told = of_key(tables(rows(optimised=0.95)), "pisces-points")
    assert {(row[3], row[6]) for row in told.rows} == {("yes", "yes")}


def test_the_papers_shares_stand_beside_ours() -> None:
    told = of_key(tables(rows()), "pisces-points")
    beside = {(row[0], row[1]): row[-2:] for row in told.rows}
    assert beside["L2L3-ACL", "64"] == ("0.992", "0.600")
    assert beside["L2L3-ACL", "192"] == ("0.944", "0.600")
    assert beside["L2", "64"] == ("1.058", "-")
    assert beside["L2L3", "64"] == ("-", "-")
    # The ratio of the two published rates is about the published share.
    ours, theirs = (PUBLISHED_MBIT_PER_S["l2l3_acl", 64, what] for what in (OPTIMISED, ""))
    assert ours / theirs == pytest.approx(0.99, abs=0.01)
    assert PUBLISHED_MBIT_PER_S["l2l3_acl", 64, NAIVE] / theirs == pytest.approx(0.6, abs=0.05)


def test_with_a_megaflow_classifier_on_both_sides_ours_have_caches() -> None:
    told = of_key(tables(rows(optimised=0.9)), "pisces-megaflow")
    # Our switch forwards 0.9 * 1.2e6 packets a second with caches, Open vSwitch 1e6 without caches.
    assert {row[2] for row in told.rows} == {"1.080"}


def test_rates_are_of_all_switches_on_both_ports() -> None:
    for port, n_sizes in (("afxdp", 4), ("afpacket", 2)):
        told = of_key(tables(rows()), f"pisces-rates-{port}")
        assert len(told.rows) == 3 * n_sizes * 3
        (row,) = [one for one in told.rows if one[:3] == ("L2", "256", "Open vSwitch")]
        assert row[3:6] == ("900,000", "1,000,000", "2,048.0")


def test_what_was_not_measured_is_a_dash_and_no_verdict() -> None:
    some = [row for row in rows() if row.variant != OPTIMISED]
    assert all(math.isnan(share) for _, share in points(some, OFF))
    told = of_key(tables(some), "pisces-points")
    assert {row[2:4] for row in told.rows} == {("-", "-")}
    assert not tables([])
    assert not figures([])
    assert not complexity_tables([], [])


def test_figures_have_a_line_for_each_switch_and_the_limit() -> None:
    *rates, ratios = figures(rows())
    assert [figure.key for figure in rates] == ["pisces-l2", "pisces-l2l3", "pisces-l2l3_acl"]
    assert all(len(figure.lines) == 6 for figure in rates)
    assert [level.y for level in ratios.levels] == [0.95]
    assert ratios.lines[-1].ys == pytest.approx((0.992, 0.962, 0.944, 0.976))


def test_what_has_to_be_written_stands_beside_the_papers_counts() -> None:
    written, changed, differences = complexity_tables(
        [Counted("p4/bench/l2.p4", 2, 128, 4, 2, 1, 5)], [Change("TCP flags", 3, 18)]
    )
    assert [row[2] for row in written.rows] == ["128", "341", "14,535"]
    assert changed.rows == (("TCP flags", "3", "18"),)
    assert len(differences.rows) == 5
    for table in (written, changed, differences, *tables(rows())):
        assert sum(span for _, span in table.groups) == len(table.columns)
        assert all(len(row) == len(table.columns) for row in table.rows), table.key
