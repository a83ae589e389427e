"""Tests the study of ordered multicast: figures made from given rows, and a short run."""

from pathlib import Path

import pytest

from lab.csvs import rows_of
from lab.figures import neobft as figures
from lab.neobft import measure, published
from lab.results.benchmarks import DelayRow, DistributionRow, NeobftRow, PassRow, SignatureRow


def row(kind: str, receivers: int, requests_per_s: float, of_plain: float = 1.0) -> NeobftRow:
    per_request = measure.copies_of(kind, receivers)
    copies_per_s = requests_per_s * per_request
    lossless = 0.9 * requests_per_s
    shares = {"of_plain": of_plain, "signed_share": 0.0}
    return NeobftRow(
        kind, receivers, per_request, 3, 92, requests_per_s, copies_per_s, lossless, **shares
    )


def passes(native_ns: float) -> list[PassRow]:
    whole = [("interpreter", 40_000.0), ("native", native_ns)]
    return [PassRow(engine, "whole", 4, 4, ns) for engine, ns in whole]


def test_a_request_leaves_as_a_packet_for_each_four_receivers_to_all() -> None:
    sizes = (1, 4, 5, 8, 64)
    assert [measure.copies_of("tagged", size) for size in sizes] == [1, 4, 10, 16, 1024]
    assert [measure.copies_of("signed", size) for size in sizes] == [1, 4, 5, 8, 64]


def test_the_published_curve_is_computed_from_its_one_measured_point() -> None:
    assert published.tagged_computed_per_s(4) == published.TAGGED_MEASURED_PER_S[4]
    assert published.tagged_computed_per_s(64) == pytest.approx(4.765e6)


@pytest.mark.parametrize(("of_plain", "native_ns", "pooled"), [(0.7, 2000, 10), (0.69, 2001, 9.9)])
def test_promises_hold_or_not(of_plain: float, native_ns: float, pooled: float) -> None:
    rows = [row("tagged", 4, 50_000, of_plain), row("tagged", 64, 100, 0.1)]
    signatures = [SignatureRow(turn, 1000 * pooled, 1000) for turn in range(3)]
    found = list(figures.promises(rows, passes(native_ns), signatures))
    assert len(found) == 3
    holds = of_plain == 0.7
    assert all(value[2] is holds for _, values in found for value in values)


def test_a_cdf_ends_with_the_largest_delay_and_has_as_many_points_as_can_be_seen() -> None:
    rows = [DistributionRow("tagged", 25, 1.0 + number, 2) for number in range(5000)]
    (cdf,) = figures.delay_figures(rows)
    ours, theirs = cdf.lines
    assert (ours.xs[0], ours.xs[-1], ours.ys[-1]) == (1.0, 5000.0, 1.0)
    assert len(ours.xs) <= figures.CDF_POINTS + 2
    assert theirs.xs == tuple(published.QUANTILES_US["tagged", 25].values())


@pytest.mark.alone
def test_everything_is_measured(namespaces: None, tmp_path: Path) -> None:
    once = {"turns": 1, "tries": 1, "pass_turns": 1}
    effort = measure.Effort(sizes=(8,), turn_s=0.1, sustained_s=0.3, delay_s=0.3, **once)
    assert measure.run_study(tmp_path, effort) == []
    rates = rows_of(NeobftRow, (tmp_path / measure.FILE).read_text(), measure.FILE)
    assert {(one.kind, one.receivers) for one in rates} == {
        (kind, 8) for kind in ("tagged", "plain", "signed")
    }
    assert all(one.copies_per_s_peak > 0 for one in rates)
    delays = rows_of(DelayRow, (tmp_path / measure.DELAYS_FILE).read_text(), measure.DELAYS_FILE)
    assert {(one.kind, one.load_pct) for one in delays} == set(published.QUANTILES_US)
    text = (tmp_path / measure.DISTRIBUTIONS_FILE).read_text()
    distributions = rows_of(DistributionRow, text, measure.DISTRIBUTIONS_FILE)
    for kind, load_pct in published.QUANTILES_US:
        found = [one for one in distributions if (one.kind, one.load_pct) == (kind, load_pct)]
        samples = {one.samples for one in delays if (one.kind, one.load_pct) == (kind, load_pct)}
        assert samples == {sum(one.count for one in found)}
    assert figures.tables(rates, delays, [])
    assert len(figures.delay_figures(distributions)) == 2
