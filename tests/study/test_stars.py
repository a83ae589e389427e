"""The switches that may stand in the middle: the same burst through the same stand-in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab import netns
from lab.process import REPOSITORY, ChildError
from lab.study import definitions, stars
from lab.study.bench import Bench
from lab.study.definitions import RunId, Sfu
from lab.study.run import attempt_run
from lab.study.stars import NEED_PACKAGES, STARS, install_packages_for
from tests.study.processes import children
from tests.study.standin import StandIn

PROGRAMS = {"linux": "ip", "openvswitch": "ovs-vswitchd", "mininet": "mn"}


@pytest.fixture(params=STARS)
def star_name(request: pytest.FixtureRequest, namespaces: None) -> str:
    name: str = request.param
    if shutil.which(PROGRAMS[name], path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        why = f"{PROGRAMS[name]} is not installed: `scripts/install-packages {name}`"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true and {why}", pytrace=False)
        pytest.skip(f"NOT TESTED, {why}")
    return name


def test_a_burst_goes_round_every_kind_of_star_and_nothing_stays(
    star_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "N_PACKETS", 50)
    run = RunId(Sfu.P4_REPLICATION, 4.0, 3, 1)
    with Bench(3, tmp_path, star_type=STARS[star_name]) as bench, StandIn(bench) as sfu:
        sfu.serve(bench.stations(3))
        found = attempt_run(run, bench, sfu, tmp_path).measurement
        received = [bench.star.host(n).udp_counters() for n in (2, 3, 4)]
    assert (found.packets_in, found.packets_out, found.copies_missing) == (50, 150, 0)
    # All but one find the socket full that nobody reads.
    assert [one["RcvbufErrors"] for one in received] == [49, 49, 49]
    assert not list(netns.NAMESPACES.glob(f"{netns.NAME_PREFIX}-{os.getpid()}-*"))
    assert children(os.getpid()) == []


def test_a_star_whose_packages_cannot_be_had_is_an_error_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "install-packages"
    script.write_text("#!/bin/sh\necho asked for $1\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(stars, "INSTALL_PACKAGES", script)
    install_packages_for("linux")
    for name in NEED_PACKAGES:
        with pytest.raises(ChildError, match=f"exit code 3 of install-packages {name}"):
            install_packages_for(name)


def test_the_package_script_knows_every_star_and_no_other() -> None:
    script = (REPOSITORY / "scripts" / "install-packages").read_text()
    assert all(f"    {name})\n" in script for name in NEED_PACKAGES)
    assert set(NEED_PACKAGES) < set(STARS)
    done = subprocess.run(
        [REPOSITORY / "scripts" / "install-packages", "nonesuch"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert done.returncode == 2
    assert "expected openvswitch or mininet, got nonesuch" in done.stderr
