"""The unit in docs/switch.md runs the switch as a user that is not root."""

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from lab.netns import SFU_INTERFACE, Star, is_root_of_system
from lab.process import REPOSITORY
from lab.switch import SWITCH, require_build
from tests.needs import need
from tests.packaging.units import Unit
from tests.service.running import LIMIT_S, Process

NOBODY = 65_534
CAP_NET_RAW = 13
"""The number of the capability CAP_NET_RAW (capabilities(7))."""


def unit_of_the_page() -> Unit:
    page = (REPOSITORY / "docs/switch.md").read_text()
    [text] = re.findall(r"^```\n(\[Service\]\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    return Unit(text)


def test_the_unit_of_the_page_runs_a_switch_that_has_one_capability_and_no_more() -> None:
    need("" if is_root_of_system() else "root outside any user namespace")
    require_build()
    unit = unit_of_the_page()
    names = [name.removeprefix("CAP_").lower() for name in unit.all("AmbientCapabilities")]
    capabilities = ",".join(["-all", *(f"+{name}" for name in names)])
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    as_nobody += [f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", "--"]
    with tempfile.TemporaryDirectory() as name, Star(1) as star:
        folder = Path(name)
        folder.chmod(0o755)
        # Another user may not see the repository, so program and P4 programs are copied.
        shutil.copy(SWITCH, folder)
        shutil.copytree(REPOSITORY / "p4", folder / "p4")
        for owned in ("run", "state"):
            (folder / owned).mkdir()
            os.chown(folder / owned, NOBODY, NOBODY)
        places = {"/run/reprise": "run", "/var/lib/reprise": "state", "p4/": "p4/"}
        words = [word.replace("veth1", SFU_INTERFACE) for word in unit.command]
        for place, ours in places.items():
            words = [word.replace(place, f"{folder}/{ours}") for word in words]
        argv = star.sfu.command([*as_nobody, f"{folder}/{SWITCH.name}", *words[1:]])
        switch = Process(argv, folder / "switch.log")
        switch.start()
        try:
            until = time.monotonic() + LIMIT_S
            while "ready: " not in switch.said:
                assert time.monotonic() < until, switch.said
                time.sleep(0.02)
            status = dict(
                line.split(":\t", 1)
                for line in Path(f"/proc/{switch.pid}/status").read_text().splitlines()
                if ":\t" in line
            )
        finally:
            switch.stop()
    assert status["Uid"].split() == [str(NOBODY)] * 4
    assert {int(status[of], 16) for of in ("CapPrm", "CapEff")} == {1 << CAP_NET_RAW}
    assert status["NoNewPrivs"] == "1"
