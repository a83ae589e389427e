"""`lab.bench.builds` compares two builds; here it compares a build with itself."""

import math
import sys
from dataclasses import astuple
from pathlib import Path

import pytest

from lab.bench import builds
from lab.bench.cells import prepare
from lab.bench.forwarders import Forwarder
from lab.process import ChildError
from lab.switch import RELEASE


@pytest.mark.alone
@pytest.mark.parametrize("number", [0, 1])
def test_a_build_beside_itself_has_both_figures(system_root: None, number: int) -> None:
    prepare()
    forwarder = Forwarder("p4_replication", "native", "afpacket", "sleep")
    found = builds.measure((RELEASE, RELEASE), forwarder, 2, 2, number)
    assert all(math.isfinite(figure) and figure > 0 for figure in astuple(found)), found


def test_what_is_no_build_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["builds", str(RELEASE), str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        builds.main()
    assert ended.value.code == 2
    said = f"{tmp_path / 'reprise-switch'} does not exist: `make build` builds it"
    assert said in capsys.readouterr().err


def test_a_build_that_does_not_start_is_told(system_root: None, tmp_path: Path) -> None:
    """If a build's folder has no programs, the error repeats what its process printed."""
    prepare()
    forwarder = Forwarder("p4_replication", "native", "afpacket", "sleep")
    with pytest.raises(ChildError, match="reprise-switch does not exist"):
        builds.measure((RELEASE, tmp_path), forwarder, 2, 1, 0)
