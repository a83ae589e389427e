"""The study's bench with the real switch and its programs."""

from pathlib import Path

import pytest

from lab.study import definitions
from lab.study.bench import Bench
from lab.study.definitions import RunId, Sfu
from lab.study.run import attempt_run
from lab.study.sfus import sfu_on


@pytest.mark.parametrize("sfu", [Sfu.P4_RECIRCULATION, Sfu.P4_REPLICATION])
def test_a_p4_sfu_serves_more_and_fewer_viewers_even_those_on_the_sink(
    sfu: Sfu, namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "N_PACKETS", 30)
    # Four hosts: the presenter, two viewers, and the sink with viewers 3 to 5.
    with Bench(5, tmp_path, n_hosts=4) as bench, sfu_on(bench, sfu) as under_test:
        for viewers in (2, 5, 1):
            under_test.serve(bench.stations(viewers))
            attempt = attempt_run(RunId(sfu, 4.0, viewers, 1), bench, under_test, tmp_path)
            found = attempt.measurement
            counts = (found.packets_in, found.packets_out, found.copies_missing)
            assert counts == (30, 30 * viewers, 0)
            assert found.packets_lost_in == found.packets_lost_out == 0
