"""Every switch that is compared forwards all small frames that it is offered."""

from pathlib import Path

import pytest

from lab import peers
from lab.pisces.network import published
from lab.pisces.offer import Traffic, offer
from lab.pisces.switches import Contestant, Setting, running
from lab.pisces.switching import FRAME_BYTES, LINUX, OVS, PORT, PROGRAMS
from lab.rows.open_vswitch import OvsGroup

CASES = [(program, one) for program, those in PROGRAMS.items() for one in those]
PACKETS_PER_S, SECONDS, TRIES = 10_000.0, 0.1, 20


@pytest.mark.parametrize(("program", "contestant"), CASES, ids=str)
def test_what_is_offered_comes_out_of_the_other_port(
    program: str, contestant: Contestant, namespaces: None, system_root: None, tmp_path: Path
) -> None:
    if contestant == OVS and OvsGroup.lacks():
        pytest.skip(f"NOT TESTED, no Open vSwitch: {OvsGroup.lacks()}")
    peers.build()
    offered = Traffic(tmp_path / "frames", program, FRAME_BYTES)
    offered.write()
    with running(Setting(contestant, PORT, program, published()), tmp_path / "files") as up:
        assert (up.pids == ()) == (contestant == LINUX)
        # The load stops counting when no frame has come for 40 ms. Other tests may keep the
        # processor for longer. Frames that come later than that are counted in the next offer.
        missing = 0
        for _ in range(TRIES):
            run = offer(up, offered, PACKETS_PER_S, SECONDS)
            assert run.others == 0
            before, missing = missing, missing + run.sent - run.copies
            assert missing >= 0, "more came than was ever sent"
            if missing in (0, before) and run.sent >= PACKETS_PER_S * SECONDS / 2:
                return
    raise AssertionError(f"in {TRIES} offers not once all: {missing} are missing")
